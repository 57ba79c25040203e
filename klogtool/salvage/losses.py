"""What is lost with rejected bytes: which offsets, judged by the kept batches on both sides and by what copies
contributed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.offset_ranges import Offsets
from klogtool.salvage.holes import Hole, SideFileEvidence, is_between_segments, is_evident, parts_left
from klogtool.salvage.partition_files import PartitionFiles
from klogtool.salvage.stretches import Rejected, Run, Stretch
from klogtool.verify.findings import Kind
from klogtool.verify.only_copies import KnownLog, not_meant_to_go
from klogtool.verify.swaps import offsets_in_log

# With these causes it is not certain that the bytes contained records.
_MAY_BE_NOTHING = (Kind.ZERO_TAIL, Kind.SEGMENT_OVERLAP)
MISSING = "segment-missing"
LEFT_OVERS = (DELETED, CLEANED)


Span = tuple[int, int | None]


class Loss(Struct, frozen=True):
    """Bytes [start, end) of a segment that are not in the result, and the offsets that are not in it either.

    No offset: the batches on both sides are consecutive, or nothing shows any. No last offset: nothing shows how far
    the log reached. cause: as in Rejected; MISSING if there are no bytes: other files show them, or there is a gap
    between segments.
    """

    segment: int
    start: int
    end: int
    first_offset: int | None
    last_offset: int | None
    cause: str


def losses(gap: Hole, filled: Sequence[Run], empty: Sequence[Span], evidence: SideFileEvidence) -> list[Loss]:
    """Return what is lost between kept batches. filled: runs that fill it, ascending. empty: offset ranges for which
    undamaged copies have no batches, ascending."""
    hole = _with_end(gap, evidence.reaches, is_filled=bool(filled))
    left = [part for span in parts_left(hole, filled) for part in _without(span, empty)]
    if not left and (filled or hole.last is None or hole.first <= hole.last):
        return []
    if hole.last is None and filled and filled[0].first_offset == hole.first:
        return []
    results = []
    for rejected, span in zip(hole.rejected, _spans(hole), strict=True):
        results += [_loss(rejected, part) for part in _common(span, left)]
    is_known = is_evident(gap, evidence) or is_between_segments(gap, evidence)
    if not hole.rejected and hole.last is not None and hole.last >= evidence.log_start_offset and is_known:
        parts = ((first, max(first, evidence.log_start_offset), last) for first, last in left)
        results += [Loss(at, 0, 0, first, last, MISSING) for at, first, last in parts if last is None or first <= last]
    return results


def offsets_of(kept: Iterable[Run], losses: Iterable[Loss]) -> Offsets:
    """Return the offsets that are in a kept run, or lost for sure."""
    offsets = Offsets()
    for run in kept:
        offsets.add(run.first_offset, run.last_offset)
    for loss in losses:
        if loss.first_offset is not None and loss.last_offset is not None:
            offsets.add(loss.first_offset, loss.last_offset)
    return offsets


def with_own_offsets(losses: Sequence[Loss], stretches: Sequence[Stretch], kept: Sequence[Run]) -> list[Loss]:
    """Return what is lost, with the offsets of sound batches that are in no kept run and no loss: between the kept ones
    an offset may have been where its batch says, whatever is lost at the place of its bytes. kept: ascending."""
    covered = offsets_of(kept, losses)
    own: dict[tuple[int, int], list[Loss]] = {}
    for item in stretches:
        if isinstance(item, Rejected) and item.sound is not None and kept:
            first, last = max(item.sound[0], kept[0].first_offset), min(item.sound[1], kept[-1].last_offset)
            own[item.segment, item.start] = [_loss(item, span) for span in covered.holes(first, last)]
    replaced = (loss for loss in losses if loss.first_offset is not None or not own.get((loss.segment, loss.start)))
    return sorted(
        [*replaced, *(loss for each in own.values() for loss in each)], key=lambda loss: (loss.segment, loss.start)
    )


class OnlyLeft(Struct, frozen=True):
    """Offsets of records that only a left-over has, which a broker deletes: a file of this name."""

    name: str
    first_offset: int
    last_offset: int

    @property
    def loss(self) -> Loss:
        """As a loss: no segment has them."""
        return Loss(parse_file_name(self.name).base_offset or 0, 0, 0, self.first_offset, self.last_offset, MISSING)


def walk_only_left(
    files: PartitionFiles, kept: Sequence[Run], known: Sequence[Loss], evidence: SideFileEvidence
) -> Iterator[OnlyLeft]:
    """Yield what left-overs of an interrupted cleaning, split or deletion have, and what is neither kept nor known to
    be lost. A broker may have meant to delete some of it. kept: ascending."""
    covered = Offsets()
    covered.add(0, evidence.log_start_offset - 1)
    for run in kept:
        covered.add(run.first_offset, run.last_offset)
    for loss in known:
        if loss.first_offset is not None:
            covered.add(loss.first_offset, MAX_LONG if loss.last_offset is None else loss.last_offset)
    span = KnownLog(kept[0].first_offset, kept[-1].last_offset + 1, (evidence.reaches,)) if kept else None
    for name in files.names():
        if name.kind is not FileKind.LOG or name.suffix not in LEFT_OVERS or name.base_offset is None:
            continue
        try:
            there = offsets_in_log(files.files[name.name].content)
        except KlogError:  # a broker deletes it unread, so this is no reason to fail
            continue
        offsets = there.all
        if name.suffix == DELETED:  # of a compacted log, a cleaning replaced it
            offsets = Offsets() if evidence.is_compacted or span is None else not_meant_to_go(offsets, span)
        holes = (hole for part in offsets.ranges for hole in covered.holes(*part))
        # A marker alone is no record.
        yield from (OnlyLeft(name.name, *hole) for hole in holes if there.data.overlaps(*hole))


def _loss(rejected: Rejected, span: Span | None) -> Loss:
    first, last = (None, None) if span is None else span
    return Loss(rejected.segment, rejected.start, rejected.stop, first, last, rejected.cause)


def _without(span: Span, empty: Sequence[Span]) -> Iterator[Span]:
    """Yield what is left of a range. From a range without end, only an empty range without end can be subtracted."""
    first, last = span
    for begin, end in empty:
        if (end is not None and end < first) or (last is not None and last < begin):
            continue
        if end is None and last is not None:  # copies may have ended earlier than this log
            continue
        if first < begin:
            yield first, begin - 1
        if end is None:
            return
        first = end + 1
        if last is not None and first > last:
            return
    yield first, last


def _with_end(hole: Hole, reaches: int, *, is_filled: bool) -> Hole:
    """Give a hole at the log's end an end, if anything shows where that was."""
    if hole.last is not None:
        return hole
    whole = [
        part.last_offset for part in hole.rejected if part.last_offset is not None and _is_credible(part, is_filled)
    ]
    last = max([*whole, reaches - 1], default=-1)
    return Hole(hole.at, hole.first, last if last >= hole.first else None, hole.before, None, hole.rejected)


def _is_credible(part: Rejected, is_filled: bool) -> bool:
    """Return whether to believe the offsets in a damaged header at the log's end, where nothing else limits them."""
    if part.first_offset is None or part.last_offset is None:
        return False
    return part.cause == Kind.TORN_BATCH or (not is_filled and part.last_offset - part.first_offset < part.size)


def _spans(hole: Hole) -> list[Span | None]:
    """Return the offsets that were in each rejected stretch; together they cover all offsets of the hole."""
    if hole.last is not None and hole.last < hole.first:
        return [None] * len(hole.rejected)
    if not hole.rejected:
        return []
    likely = [part for part in hole.rejected if part.cause not in _MAY_BE_NOTHING] or list(hole.rejected)
    if hole.last is None:
        at_end = likely[:1] if likely[0].cause not in _MAY_BE_NOTHING else []
        return [(hole.first, None) if part in at_end else None for part in hole.rejected]
    shares = _shares(likely, hole.first, hole.last)
    return [shares.get(part) for part in hole.rejected]


def _shares(parts: Sequence[Rejected], first: int, last: int) -> dict[Rejected, Span]:
    """Divide the offsets [first, last]: stretches that show their offsets get those, the others get what is between."""
    shares: dict[Rejected, Span] = {}
    waiting: list[Rejected] = []
    following = first
    for part in parts:
        if part.first_offset is None or part.last_offset is None or not following <= part.first_offset:
            waiting.append(part)
            continue
        if part.last_offset > last:
            waiting.append(part)
            continue
        begin = part.first_offset
        if following < begin and waiting:
            shares[waiting[0]] = following, begin - 1
        elif following < begin:
            begin = following
        waiting.clear()
        shares[part] = begin, part.last_offset
        following = part.last_offset + 1
    if following <= last:
        taker = waiting[0] if waiting else parts[-1]
        shares[taker] = (following if waiting else (shares[taker][0]), last)
    return shares


def _common(span: Span | None, left: Sequence[Span]) -> Iterator[Span | None]:
    """Yield the common offsets of a range and what is left; yield None once if the stretch has no offsets of its
    own."""
    if span is None:
        yield None
        return
    for part in left:
        first = max(span[0], part[0])
        ends = [end for end in (span[1], part[1]) if end is not None]
        last = min(ends, default=None)
        if last is None or first <= last:
            yield first, last
