"""Reads one closed segment: its findings, as verify has them, and sums of its bytes, to compare with those of before.

Before it alarms, it reads a second time: what only one of two reads has is the fault of memory or of a cable. A broker
may replace or delete the segment meanwhile; then nothing is said of it.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from klogtool.broker.timestamps import time_text
from klogtool.causes import Reason, from_text
from klogtool.errors import Changed, KlogError
from klogtool.format.names import SEGMENT_KINDS, FileKind
from klogtool.log.file import Unreadable
from klogtool.log.remembered import Remembered
from klogtool.scrub.closed_segments import ClosedSegment, SegmentId
from klogtool.scrub.file_sums import FileStat, FileSums, SummedFile
from klogtool.verify.causes import CureCause, CureRemark, SegmentCause
from klogtool.verify.choosing_cures import State, with_cures
from klogtool.verify.cures import rebuild_index, remarked
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.verify_segment import verify_segment

TRIES = 3


class CheckOutcome(Enum):
    """What came of reading a segment."""

    CHECKED = "checked"
    GONE = "gone"  # deleted, replaced or cut since it was listed
    CHANGED = "changed"  # its files changed each time while they were read


class SegmentCheck(Struct, frozen=True):
    """What came of a segment. findings: each with its cure. covered: what to remember, if it was checked. bytes: of its
    files, as often as they were read. fleeting: how many findings one read had and another did not."""

    segment: ClosedSegment
    outcome: CheckOutcome
    findings: tuple[Finding, ...] = ()
    covered: Covered | None = None
    bytes: int = 0
    fleeting: int = 0


class _Reading(Struct, frozen=True):
    """What one read had. files: by the end of their names. is_doubtful: it does not agree with itself, or with what is
    remembered."""

    findings: tuple[Finding, ...]
    files: dict[str, FileSums]
    is_doubtful: bool


def check_segment(segment: ClosedSegment, before: Covered | None, now_ms: int) -> SegmentCheck:
    """Read a segment. before: what is remembered of it. A file that cannot be read is a finding."""
    size = 0
    for _ in range(TRIES):
        files = _files_of(segment)
        log = files.get(FileKind.LOG.value)
        listed = segment.id.size, segment.id.mtime_ns, segment.id.ino
        if log is None or (log.size, log.mtime_ns, log.ino) != listed:
            return SegmentCheck(segment, CheckOutcome.GONE, bytes=size)
        readings = [_read(segment, before, now_ms)]
        if readings[0].is_doubtful:
            readings.append(_read(segment, before, now_ms))
        size += sum(file.size for file in files.values()) * len(readings)
        if _files_of(segment) == files:
            return _checked(segment, before, readings, now_ms, size)
    return SegmentCheck(segment, CheckOutcome.CHANGED, bytes=size)


def files_of(segment: ClosedSegment) -> list[str]:
    """Return the files that a check reads, in that order; not all of them exist."""
    return [segment.segment.side_path(kind) for kind in SEGMENT_KINDS]


def _files_of(segment: ClosedSegment) -> dict[str, FileStat]:
    """Return what the system says of the files that are there now."""
    files = {}
    for kind in SEGMENT_KINDS:
        try:
            files[kind.value] = FileStat.of(os.stat(segment.segment.side_path(kind)))
        except OSError:
            continue
    return files


def _read(segment: ClosedSegment, before: Covered | None, now_ms: int) -> _Reading:
    findings, files, is_doubtful = list[Finding](), dict[str, FileSums](), False
    for kind in SEGMENT_KINDS:
        path = segment.segment.side_path(kind)
        try:
            file = SummedFile(path)
            with file:
                if kind is FileKind.LOG:
                    findings += verify_segment(segment.segment, segment.context, file=file)[0]
                files[kind.value] = file.finish(now_ms)
            is_doubtful |= file.is_doubtful
        except Changed:  # the caller sees that, too
            continue
        except KlogError as error:
            is_missing = isinstance(error, Unreadable) and error.errno == errno.ENOENT
            if not is_missing and all(finding.path != path for finding in findings):
                findings.append(Finding(Kind.UNREADABLE, path, from_text(error.reason), start=error.position))
    findings += list(_changes(segment, before, files, findings))
    counted = tuple(finding for finding in findings if finding.severity is not Severity.INFO)
    return _Reading(counted, files, is_doubtful or bool(counted))


def _changes(
    segment: ClosedSegment, before: Covered | None, files: dict[str, FileSums], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Yield bytes that changed since they were read before, where nothing else was found."""
    for kind in SEGMENT_KINDS:
        now, then = files.get(kind.value), _comparable(segment, before, files, kind.value)
        if now is None or then is None:
            continue
        path, cure = segment.segment.side_path(kind), _cure_of_change(segment, kind)
        reason = SegmentCause.BYTES_CHANGED(time=time_text(then.read_ms))
        first, last = (segment.id.base_offset, segment.last_offset) if kind is FileKind.LOG else (None, None)
        for start, end in now.changed_blocks(then):
            if not any(finding.path == path and _overlaps(finding, start, end) for finding in findings):
                yield Finding(Kind.BYTES_CHANGED, path, reason, start, end, first, last, cured_by=cure)


def _cure_of_change(segment: ClosedSegment, kind: FileKind) -> Reason:
    folder, base = segment.partition.path, segment.id.base_offset
    if kind is FileKind.LOG:
        hashed = CureCause.HASH(folder=folder, first=base, end=segment.last_offset + 1)
        return remarked(hashed, CureRemark.SAME_DIGESTS())
    return rebuild_index(folder, kind.value.removeprefix("."), None if kind is FileKind.TXN_INDEX else base)


def _comparable(
    segment: ClosedSegment, before: Covered | None, files: dict[str, FileSums], name: str
) -> FileSums | None:
    """Return the sums of before, if nobody can have written to the file since; else None."""
    now, then = files.get(name), None if before is None else before.files.get(name)
    if now is None or then is None or not now.stat.is_unwritten_since(then.stat, is_cleaned=segment.is_cleaned):
        return None
    return then


def _overlaps(finding: Finding, start: int, end: int) -> bool:
    if finding.start is None:
        return True
    return finding.start < end and (finding.start + 1 if finding.end is None else finding.end) > start


def _checked(
    segment: ClosedSegment, before: Covered | None, readings: list[_Reading], now_ms: int, size: int
) -> SegmentCheck:
    """Return what all readings have."""
    counts = Counter(finding for reading in readings for finding in reading.findings)
    findings = [finding for finding, count in counts.items() if count == len(readings)]
    # The first sums of a file stay, so that a change is found each time.
    files = readings[-1].files
    sums = {name: _comparable(segment, before, files, name) or now for name, now in files.items()}
    covered = Covered(segment.id, now_ms, sums, dict(Counter(finding.id for finding in findings)))
    cured = with_cures(findings, State(segment.partition.path, (), is_whole=False, is_clean=False))
    # A doubt without a finding: verify itself has read the bytes a second time, and they were right.
    fleeting = max(len(counts) - len(findings), int(readings[0].is_doubtful and not findings))
    return SegmentCheck(segment, CheckOutcome.CHECKED, tuple(cured), covered, size, fleeting)


class Covered(Struct, frozen=True):
    """What is remembered of a segment that was read, in a file outside of the log dirs (log/remembered). checked_ms:
    when the run began. files: the sums of its files, by the end of their names. findings: how many there are of each
    id."""

    id: SegmentId
    checked_ms: int
    files: dict[str, FileSums] = field(default_factory=dict)
    findings: dict[Kind, Annotated[int, Meta(ge=1, lt=1 << 32)]] = field(default_factory=dict)


ScrubState: TypeAlias = Remembered[Covered]
