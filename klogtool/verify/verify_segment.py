"""Everything that is wrong with one segment's log, offset index and time index: no damage missed, none invented.

Other files of a partition, and how its segments fit together, are judged elsewhere, from the report.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

from msgspec.structs import replace

from klogtool.broker.timestamps import LARGEST_MS, is_in_seconds, time_text, unit_of
from klogtool.causes import from_text
from klogtool.errors import Changed, KlogError
from klogtool.format.indexes import NO_TIMESTAMP, is_entry_due
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.folder import list_folder
from klogtool.log.segment import Segment
from klogtool.verify.causes import IndexCause, SegmentCause
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.index_damage import OFFSETS, TIMES, IndexFile, IndexKind
from klogtool.verify.log_damage import Damage
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import SegmentContext, SegmentReport

MOST_FINDINGS = 1000  # of one kind in a segment; the rest become one finding
SMALLEST_ENTRY_BYTES = 26  # a message of magic 0 with neither key nor value
# A broker that writes one of these creates a .timeindex for every segment.
KINDS_SINCE_TIME_INDEX = frozenset(
    {
        FileKind.TIME_INDEX,
        FileKind.TXN_INDEX,
        FileKind.PRODUCER_SNAPSHOT,
        FileKind.LEADER_EPOCH_CHECKPOINT,
        FileKind.PARTITION_METADATA,
    }
)


def verify_segment(
    segment: Segment,
    context: SegmentContext,
    *,
    deep: bool = False,
    jobs: int = 1,
    on_progress: Callable[[int], None] | None = None,
    file: LogFile | None = None,
) -> tuple[list[Finding], SegmentReport]:
    """Return the findings of a segment's `.log`, `.index` and `.timeindex`, and the report.

    deep: decompress and parse every record. jobs: threads. on_progress: gets the number of bytes done, in pieces. file:
    the log, if it is open already; it stays open. A file that cannot be read is a finding. Raises Corrupt for a segment
    whose name is not an offset.
    """
    base_offset = max(0, segment.base_offset)
    report, findings = SegmentReport(segment.path, base_offset, base_offset), list[Finding]()
    try:
        with LogFile(segment.path) if file is None else nullcontext(file) as file:
            report.size = file.size
            verification = _SegmentVerification(segment, file, context, report)
            # What comes before an error stays: the list grows finding by finding.
            findings.extend(verification.findings(deep=deep, jobs=jobs, on_progress=on_progress))
    except KlogError as error:
        report.is_complete, report.is_damaged = False, True
        report.has_changed = isinstance(error, Changed)
        findings.append(Finding(Kind.UNREADABLE, segment.path, from_text(error.reason), start=error.position))
    return findings, report


class _SegmentVerification:
    """One segment: what its findings need."""

    def __init__(self, segment: Segment, file: LogFile, context: SegmentContext, report: SegmentReport) -> None:
        self._segment, self._file, self._context, self._report = segment, file, context, report
        self._unreadable: list[Finding] = []
        self._offset_index, self._time_index = self._open(OFFSETS), self._open(TIMES)

    def _open(self, kind: IndexKind) -> IndexFile | None:
        """Open an index; None if it is missing or cannot be read."""
        path = self._segment.side_path(kind.file_kind)
        try:
            with LogFile(path) as file:
                most_entries = self._file.size // SMALLEST_ENTRY_BYTES + 1
                return IndexFile(file, kind, self._report.base_offset, most_entries)
        except Unreadable as error:
            if error.errno != errno.ENOENT:
                self._unreadable.append(Finding(Kind.UNREADABLE, path, from_text(error.reason), start=error.position))
            return None

    def findings(self, *, deep: bool, jobs: int, on_progress: Callable[[int], None] | None) -> Iterator[Finding]:
        """Yield findings of the log, then of the indexes."""
        indexes = self._offset_index, self._time_index
        walk = LogWalk(
            self._file, self._report.base_offset, self._context, indexes, deep=deep, jobs=jobs, on_progress=on_progress
        )
        try:
            yield from self._reported(walk.walk())
        finally:
            walk.fill(self._report)
        yield from self._future(walk)
        yield from self._in_seconds()
        yield from self._unreadable
        yield from self._index_findings(walk)

    # The log.

    def _reported(self, damages: Iterable[Damage]) -> Iterator[Finding]:
        """Yield each damage as a finding; of very many of one kind, the rest as one."""
        counts: Counter[str] = Counter()
        rests: dict[str, Damage] = {}
        for damage in damages:
            self._report.is_damaged |= damage.field == "base_offset"
            first, last = damage.first_offset, damage.last_offset
            if damage.field == "partition_leader_epoch" and first is not None and last is not None:
                self._report.false_epochs.append((damage.start, first, last))
            counts[damage.id] += damage.count
            if counts[damage.id] <= MOST_FINDINGS:
                yield self._finding(damage)
            else:
                rests[damage.id] = _joined(rests.get(damage.id, damage), damage)
        for name, damage in rests.items():
            finding, count = self._finding(damage), counts[name] - MOST_FINDINGS
            yield replace(finding, reason=SegmentCause.MORE_ALIKE(count=count, first=finding.reason))

    def _finding(self, damage: Damage) -> Finding:
        where = damage.start, damage.end, damage.first_offset, damage.last_offset
        return Finding(damage.id, self._file.path, damage.reason, *where, damage.field)

    def _future(self, walk: LogWalk) -> Iterator[Finding]:
        count, start, end, first_offset, last_offset, timestamp = walk.future
        if not count:
            return
        is_later = timestamp <= LARGEST_MS
        why = (
            SegmentCause.LATER_THAN_NOW(now_ms=self._context.now_ms)
            if is_later
            else SegmentCause.OTHER_UNIT(unit=unit_of(timestamp))
        )
        reason = (
            SegmentCause.FUTURE(why=why, largest=timestamp)
            if count == 1
            else SegmentCause.MANY_FUTURE(count=count, why=why, largest=timestamp)
        )
        lowest, highest = sorted((first_offset, last_offset))  # the log may go back between them
        yield Finding(Kind.TIMESTAMP_IMPLAUSIBLE, self._file.path, reason, start, end, lowest, highest)

    def _in_seconds(self) -> Iterator[Finding]:
        """Yield a finding if the newest timestamp is a time in seconds: retention goes by that one alone."""
        report = self._report
        if is_in_seconds(report.largest_timestamp, min(self._context.now_ms, LARGEST_MS)):
            time = time_text(report.largest_timestamp * 1000)
            reason = SegmentCause.IN_SECONDS(largest=report.largest_timestamp, time=time)
            last_offset = report.next_offset - 1
            yield Finding(
                Kind.TIMESTAMP_IMPLAUSIBLE,
                self._file.path,
                reason,
                first_offset=report.first_offset,
                last_offset=last_offset,
            )

    # The indexes.

    def _index_findings(self, walk: LogWalk) -> Iterator[Finding]:
        unreadable = {finding.path for finding in self._unreadable}
        for kind, index in ((OFFSETS, self._offset_index), (TIMES, self._time_index)):
            if index is not None:
                yield from index.findings()
            elif self._segment.side_path(kind.file_kind) not in unreadable and self._is_missed(kind, walk):
                is_created = kind is TIMES and self._offset_index is not None
                reason = IndexCause.MISSING_TIMES() if is_created else IndexCause.MISSING()
                yield Finding(kind.is_missing, self._segment.side_path(kind.file_kind), reason)
        if self._time_index is not None and not self._context.is_active:
            yield from self._timeindex_max(self._time_index)

    def _timeindex_max(self, index: IndexFile) -> Iterator[Finding]:
        last, largest = index.last_as_read(), self._report.largest_timestamp
        known = NO_TIMESTAMP if last is None else last[0]
        if known < largest:
            reason = (
                IndexCause.NO_ENTRY(largest=largest)
                if last is None
                else IndexCause.OTHER_MAXIMUM(known=known, largest=largest)
            )
            yield Finding(Kind.TIMEINDEX_MAX, index.path, reason)

    def _is_missed(self, kind: IndexKind, walk: LogWalk) -> bool:
        """Return whether a broker would have left this index beside such a log.

        It creates the files at first use: the time index at the first append, the offset index at the first entry or
        the first read. So a kill may leave an active segment without the latter.
        """
        if self._report.size == 0:
            return False
        if kind is TIMES:
            if self._report.batches and not self._report.has_old_messages:
                return True
            folder = list_folder(os.path.dirname(self._segment.path) or ".")
            return any(file.kind in KINDS_SINCE_TIME_INDEX for file in folder.files)
        was_killed = self._context.is_active and not self._context.is_clean
        has_entry = is_entry_due(walk.last_position, self._context.index_interval_bytes)
        return not (was_killed and not has_entry and self._time_index is not None)


def _joined(damage: Damage, more: Damage) -> Damage:
    first = min((d.first_offset for d in (damage, more) if d.first_offset is not None), default=None)
    last = max((d.last_offset for d in (damage, more) if d.last_offset is not None), default=None)
    end = max(damage.end, more.end)
    return replace(damage, end=end, first_offset=first, last_offset=last, entry=None)
