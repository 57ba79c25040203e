"""The claim about one partition dir: what its start loses and hides, and what was gone before."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import astuple, replace

from klogtool.broker.content import FileRange
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.unified_log.left_overs import settle_left_overs
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import SWAP
from klogtool.doctor.claims import Gone, Hidden, HiddenBy, Lost, OffsetRange, PartitionClaim, WhyUnknown, Witness
from klogtool.doctor.measured import After, Before, Measured, measure
from klogtool.doctor.passed_over import Followed, follow_consumer
from klogtool.doctor.readable import Readable, few, ranges_of, walk_readable
from klogtool.errors import KlogError
from klogtool.log.offset_ranges import Offsets
from klogtool.plans.recover_gaps import find_deleted_in_error, next_offset_of
from klogtool.plans.recover_reach import HIGH_WATERMARK, ORPHANED_INDEX, walk_evidence
from klogtool.plans.recover_result import MayLose, Recovery
from klogtool.verify.only_copies import HIGHEST

_FARTHEST = (1 << 31) - 1  # from a segment's base: offsets in it are relative
_WITNESSES = {
    HIGH_WATERMARK: Witness.HIGH_WATERMARK,
    "recovery point": Witness.RECOVERY_POINT,
    "producer snapshot": Witness.PRODUCER_SNAPSHOT,
    "leader epoch": Witness.LEADER_EPOCH,
    ORPHANED_INDEX: Witness.INDEX,
}


class Judgement(Struct, frozen=True):
    """A loaded log with the claim about it, and what that was measured by. measured: nothing if a file cannot be read.
    behind_end: what is there though the broker appends before it; consumers may get it. followed: what a consumer gets,
    as far as that is known. lost_at_least: records that are lost for sure, also where nobody knows how many in all."""

    claim: PartitionClaim
    log: LoadedLog
    recovery: Recovery
    measured: Measured
    behind_end: tuple[Readable, ...]
    followed: Followed
    lost_at_least: int = 0


def judge_loaded(path: str, log: LoadedLog, recovery: Recovery, most_unread: int) -> Judgement:
    """Return the claim about a partition dir whose start was rehearsed. recovery: its answer of `recover`. most_unread:
    bytes to read beyond what the start reads."""
    found_by = follow(log, most_unread)
    followed, why = (found_by, None) if isinstance(found_by, Followed) else (None, found_by)
    try:
        measured = _measure(log, recovery, followed)
    except KlogError:  # the offsets are still told
        measured, followed, why = None, None, WhyUnknown.UNREADABLE
    behind_end = tuple(_walk_behind_end(log, measured)) if measured else ()
    if measured and followed:
        measured = with_hidden(measured, followed)
    known = measured or Measured()
    ranges = ranges_of(known.lost) if known.lost_records else ()  # a marker alone is no record
    lost = Lost(known.lost_records, ranges) if measured else Lost(None, (), WhyUnknown.UNREADABLE)
    sure = list(known.sure)
    if known.is_cleaned:
        lost = Lost(None, lost.ranges, WhyUnknown.COMPACTED)
    elif recovery.may_lose:
        sure = list(_lost_anyway(log, recovery.may_lose, sure))
        offsets = Offsets()
        for first, last in (*ranges_of(sure), (recovery.may_lose.first_offset, recovery.may_lose.last_offset)):
            offsets.add(first, last)
        lost = Lost(None, few(offsets.ranges), WhyUnknown.ELSEWHERE)
    draft, renamed, start = log.draft, sorted(_renamed(log)), _start_told(log)
    deleted = (name for name in draft.before if name not in draft.files and name not in renamed)
    claim = PartitionClaim(
        path,
        True,
        start,
        log.log_end_offset,
        lost,
        _gone(log, recovery, known, followed),
        _hidden(measured, why),
        tuple(sorted(deleted)),
        tuple(renamed),
        tuple(sorted(name for name in draft.changed() if name in draft.before and name in draft.files)),
        WhyUnknown.ELSEWHERE if start is None else None,
    )
    at_least = sum(part.records for part in sure)
    return Judgement(claim, log, recovery, known, behind_end, followed or Followed(), at_least)


def _lost_anyway(log: LoadedLog, may_lose: MayLose, lost: Iterable[Readable]) -> Iterator[Readable]:
    """Yield what is lost whatever the setting is that nobody knows. Here the segment was emptied, or it was not."""
    if not may_lose.is_offline:  # else the log is not loaded, and nothing is lost
        is_emptied = may_lose.segment in log.report.emptied
        yield from (part for part in lost if not is_emptied or part.last_offset < may_lose.first_offset)


def _start_told(log: LoadedLog) -> int | None:
    """Return where the log starts; None if only what is in remote storage tells."""
    is_told = log.terms.is_start_known or not log.terms.is_tiered
    return log.log_start_offset if is_told or log.segments.first.base_offset <= log.log_start_offset else None


def _measure(log: LoadedLog, recovery: Recovery, followed: Followed | None) -> Measured:
    behind = recovery.behind_end
    # Of a log that was not recovered, what is behind its end was looked at. Recovery takes the last batch in the file
    # for the end, whatever is before it.
    is_recovered = log.segments.last.base_offset in log.report.recovered
    looks_behind = is_recovered or (behind is not None and bool(behind.sound_batches or behind.damage))
    in_error = find_deleted_in_error(log, recovery.missing)
    return compared(log, log.draft.before, in_error, followed, looks_behind_end=looks_behind)


def compared(
    log: LoadedLog,
    files: Mapping[str, DraftFile],
    deleted_in_error: Mapping[str, Offsets],
    followed: Followed | None,
    *,
    looks_behind_end: bool,
) -> Measured:
    """Compare files that a partition dir has with the loaded log that is made of them. deleted_in_error: as in Before.
    followed: what a consumer gets of that log; None if nobody knows. Raises Unreadable."""
    replaced = frozenset(_replaced(log, files))
    before = Before(files, _deleted_below(log), replaced, log.terms.is_compacted, deleted_in_error)
    reaches = followed.reaches if followed else ()
    reaches = reaches or tuple(map(_reach_of, log.segments.all))
    contents = ((segment.base_offset, log.draft.files[segment.log_name].content) for segment in log.segments.all)
    of_segments = {segment.log_name for segment in log.segments.all}
    untouched = frozenset(name for name in log.draft.files if not name.endswith(DELETED) and name not in of_segments)
    after = After(tuple(contents), log.log_start_offset, log.log_end_offset, untouched, reaches)
    return measure(before, after, looks_behind_end=looks_behind_end)


def _replaced(log: LoadedLog, files: Mapping[str, DraftFile]) -> Iterable[str]:
    """Return the names of files that swapped segments of the log replace, be it by this start or before it."""
    made_of = {part.path for file in log.draft.files.values() for part in file.content if isinstance(part, FileRange)}
    swaps = {name for name in files if name.endswith(SWAP)} - set(log.report.swapped)
    if not any(os.path.join(log.draft.path, name) in made_of for name in swaps):
        return log.report.replaced
    try:
        return settle_left_overs(Draft(log.draft.path, dict(files)), log.terms.config, log.terms.rules).replaced
    except KlogError:  # a broker does not start with them
        return log.report.replaced


def _reach_of(segment: LogSegment) -> int:
    """Return the offset after the last batch of a segment; behind damage, after the highest sound one."""
    following = next_offset_of(segment)
    if following is not None:
        return following
    with segment.open_log() as file:
        return max((part.last_offset + 1 for part in walk_readable(file, 0, file.size)), default=segment.base_offset)


def _walk_behind_end(log: LoadedLog, measured: Measured) -> Iterator[Readable]:
    """Yield what lies behind the end, if the active segment can have such offsets."""
    highest = log.segments.last.base_offset + _FARTHEST
    return (part for why, part in measured.hidden if why is HiddenBy.BEYOND_END and part.last_offset <= highest)


def _deleted_below(log: LoadedLog) -> int:
    """Return the offset below which records were deleted on purpose. A log start beyond the end is a mistake."""
    return 0 if log.report.below_start else log.terms.log_start_offset


def _renamed(log: LoadedLog) -> Iterator[str]:
    """Yield the `.swap` files that became files of a segment, and are not deleted by what the start does next."""
    return (
        name for name in log.report.swapped if name in log.draft.before and name.removesuffix(SWAP) in log.draft.files
    )


def _hidden(measured: Measured | None, unknown: WhyUnknown | None) -> Hidden:
    """unknown: why nobody followed a consumer. Then there may be more than what was measured."""
    parts = measured.hidden if measured else ()
    why = tuple(dict.fromkeys(why for why, _ in parts))
    ranges = ranges_of(part for _, part in parts)
    if unknown is None or parts:
        return Hidden(sum(part.records for _, part in parts), ranges, why)
    return Hidden(None, (), (HiddenBy.NOT_READ,) if unknown is WhyUnknown.NOT_READ else (), unknown)


def follow(log: LoadedLog, most_unread: int | None = None) -> Followed | WhyUnknown:
    """Return what a consumer gets of a loaded log, or why nobody knows. most_unread: bytes to read beyond what the
    start reads; None: all."""
    try:
        return follow_consumer(log, _deleted_below(log), most_unread)
    except KlogError:
        return WhyUnknown.UNREADABLE


def with_hidden(measured: Measured, followed: Followed) -> Measured:
    """Return what was measured with the records that a consumer does not get."""
    named = [(why, part) for why, part in measured.hidden if why is HiddenBy.NAME]
    return replace(measured, hidden=(*followed.hidden, *named))


# What was gone before.


def _gone(log: LoadedLog, recovery: Recovery, measured: Measured, followed: Followed | None) -> Gone:
    """Return offsets that something shows, and that no file has."""
    there = Offsets()
    for first, last in followed.odd if followed else ():
        there.add(first, max(first, last))
    for part in (*measured.lost, *measured.replaced, *(part for _, part in measured.hidden)):
        there.add(part.first_offset, max(part.first_offset, part.last_offset))
    gone, witnesses = Offsets(), []
    witnessed = list(_walk_witnessed(log, recovery, there))
    witnessed += ((first, last, Witness.DAMAGED_BYTES) for first, last in (followed.torn if followed else ()))
    for first, last, witness in witnessed:
        holes = list(there.holes(first, last))
        for hole in holes:
            gone.add(*hole)
        if holes and witness not in witnesses:
            witnesses.append(witness)
    there.add_all(gone)
    perhaps = [hole for span in recovery.perhaps_missing or () for hole in there.holes(*astuple(span))]
    is_unknown = bool(perhaps) and not gone.ranges
    ranges, reason = (None, WhyUnknown.RETENTION) if is_unknown else (few(gone.ranges), None)
    return Gone(ranges, tuple(witnesses), reason, few(perhaps))


def _walk_witnessed(log: LoadedLog, recovery: Recovery, there: Offsets) -> Iterator[tuple[int, int, Witness]]:
    """Yield offsets that are not served, and what shows that they existed."""
    end = log.log_end_offset
    highest = log.segments.last.base_offset + _FARTHEST  # what lies farther away is a mistake
    on_disk = max([end, *(last + 1 for _, last in there.ranges if last <= highest)])
    evidence = sorted(walk_evidence(log), key=lambda each: each.offset, reverse=True)
    first = end if log.terms.compaction is None else on_disk  # compaction leaves gaps in what is lost
    yield from ((first, each.offset - 1, _WITNESSES[each.by]) for each in evidence if first < each.offset < HIGHEST)
    if (claimed := recovery.lost) is not None and log.terms.compaction is None:
        yield claimed.first_offset, claimed.last_offset, Witness.DAMAGED_BYTES
    behind = recovery.behind_end
    most = max([on_disk, *(each.offset for each in evidence if each.offset < HIGHEST)])
    if behind is not None and behind.damage and (last := behind.last_offset) is not None and last >= most:
        yield end, last, Witness.DAMAGED_BYTES
    for gap in recovery.missing:
        witness = Witness.GAP if gap.told_by is None or gap.is_left_over else Witness.INDEX
        yield gap.first_offset, gap.last_offset, witness


def last_timestamp(log: LoadedLog) -> int | None:
    """Return the largest timestamp from the last index entry to the end of a loaded log; None if the log is empty or
    cannot be read."""
    segment = next((segment for segment in reversed(log.segments.all) if segment.size), None)
    if segment is None:
        return None
    try:
        start = segment.offset_index.lookup(segment.offset_index.last_offset).position
        with segment.open_log() as file:
            start = start if 0 <= start < file.size else 0  # an index can be wrong
            newest = [part.newest_timestamp for part in walk_readable(file, start, file.size)]
    except KlogError:  # the log ends in damage that this start does not see
        return None
    return max((timestamp for timestamp in newest if timestamp >= 0), default=None)


def span_of(ranges: tuple[OffsetRange, ...]) -> OffsetRange | None:
    """Return the first and the last of these offsets; None if there are none."""
    return (ranges[0][0], ranges[-1][1]) if ranges else None
