"""Records that only a left-over of a deletion still has, though no broker meant to delete them. A start deletes it.

A broker deletes segments at both ends of a log: at its start by retention, at its end by a truncation. A truncation
lowers what shows where the log ended, too (LogManager.truncateTo), and so does a clean stop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.draft import Draft
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import INDEX_KINDS, FileKind, is_log_name, parse_file_name
from klogtool.log.offset_ranges import Offsets
from klogtool.verify.causes import NameCause
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.swaps import ReadLogs
from klogtool.verify.verify_epochs import read_epochs
from klogtool.verify.verify_names import Layout

HIGHEST = 1 << 62  # no log reaches this offset: a name above it is a mistake
LEFT_LOG_SUFFIXES = (".deleted", ".swap", ".cleaned")
_DELETED_LOG = FileKind.LOG.value + ".deleted"


class KnownLog(Struct, frozen=True):
    """Where a log begins and ends, and the ends that other files show."""

    first: int
    end: int
    shown_ends: tuple[int, ...]


def not_meant_to_go(deleted: Offsets, log: KnownLog) -> Offsets:
    """Return the offsets of a `.deleted` log that a broker may not have meant to delete."""
    kept, beyond = Offsets(), deleted.first_in(log.end, MAX_LONG)
    is_shown = beyond is not None and any(beyond < end < HIGHEST for end in log.shown_ends)
    for first, last in deleted.ranges:
        first, last = max(first, log.first), last if is_shown else min(last, log.end - 1)
        if first <= last:
            kept.add(first, last)
    return kept


def weigh_deleted(
    layout: Layout,
    findings: Sequence[Finding],
    reports: Sequence[SegmentReport],
    checkpointed: Iterable[int | None],
    *,
    is_compacted: bool | None,
) -> Iterator[Finding]:
    """Yield the findings; that of a `.log.deleted` says which offsets only it has. reports: of all segments.
    checkpointed: ends by checkpoints. is_compacted: None if nobody knows. Raises Unreadable."""
    names = [name for name in layout.names if name.endswith(_DELETED_LOG)]
    alone: dict[str, tuple[int, int]] = {}
    if names and reports:
        ends = (*(end for end in checkpointed if end is not None), *_shown_by_files(layout))
        # A cleaning leaves the segments that it replaced: the first one has the name of the new segment.
        sound = [report for report in reports if not report.is_damaged]
        is_replaced = is_compacted is None and any(
            f"{report.base_offset:020d}{_DELETED_LOG}" in names for report in sound
        )
        is_cleaned = is_compacted or is_replaced or any(report.has_gaps for report in sound)
        span = KnownLog(reports[0].base_offset, reports[-1].next_offset, ends)
        alone = dict(_only_in(layout, names, reports, span, is_cleaned=bool(is_cleaned)))
    for finding in findings:
        of = alone.get(os.path.basename(finding.path)) if finding.id is Kind.LEFTOVER_DELETED else None
        if of is None:
            yield finding
        else:
            reason = NameCause.NOWHERE_ELSE(fate=finding.reason, first=of[0], last=of[1])
            yield replace(finding, reason=reason, first_offset=of[0], last_offset=of[1], loses=True)


def _shown_by_files(layout: Layout) -> Iterator[int]:
    yield from layout.snapshots
    yield from find_orphans(layout.names)
    epochs = layout.find(FileKind.LEADER_EPOCH_CHECKPOINT)
    lines = [] if epochs is None else read_epochs(epochs)
    yield from () if isinstance(lines, Finding) else (line.start_offset for line in lines)


def find_orphans(names: Iterable[str]) -> dict[int, str]:
    """Return base offsets that have an index but no `.log` under any name that a broker gives it; with the name of one
    index each."""
    logs: set[int] = set()
    indexes: dict[int, str] = {}
    for name in sorted(names):
        file = parse_file_name(name)
        if file.base_offset is None:
            continue
        if file.kind is FileKind.LOG and file.suffix in ("", *LEFT_LOG_SUFFIXES):
            logs.add(file.base_offset)
        elif file.kind in INDEX_KINDS and not file.suffix:
            indexes.setdefault(file.base_offset, name)
    return {base: name for base, name in indexes.items() if base not in logs}


def may_have(copies: Mapping[str, str], names: Iterable[str], ranges: Iterable[tuple[int, int]]) -> list[str]:
    """Return which of these files may have some of these offsets, by the names that they had as segments: each goes up
    to the next one. Nobody looks into them.

    copies: files, each with the name of the segment that it may be. names: of the partition dir.
    """
    parsed = {log: parse_file_name(log).base_offset for log in (*names, *copies.values()) if is_log_name(log)}
    bases, wanted = sorted(base for base in parsed.values() if base is not None), Offsets()
    for first, last in ranges:
        wanted.add(first, last)
    ends = dict(pairwise([*bases, MAX_LONG]))
    known = ((name, parsed.get(log)) for name, log in copies.items())
    return [name for name, base in known if base is not None and wanted.overlaps(base, ends[base] - 1)]


def _only_in(
    layout: Layout, names: Sequence[str], reports: Sequence[SegmentReport], span: KnownLog, *, is_cleaned: bool
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each such log that alone has offsets, with the first and the last one."""
    read = ReadLogs(Draft.of(layout.path).before)
    for name in sorted(names):
        with suppress(KlogError, KeyError):  # a start deletes it unread; a running broker has deleted it meanwhile
            wanted = not_meant_to_go(read[name].data, span).ranges
            for report in reports if wanted else ():
                if wanted and report.base_offset <= wanted[-1][1] and wanted[0][0] < report.next_offset:
                    there = read[os.path.basename(report.path)].all
                    wanted = [hole for part in wanted for hole in there.holes(*part)]
            wanted = [part for part in wanted if not is_cleaned or part[1] >= span.end]
            if wanted:
                yield name, (wanted[0][0], wanted[-1][1])
