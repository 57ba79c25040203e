"""Offsets that a partition has lost, and what other copies still have of them.

A hole is a range of offsets between kept batches where there is damage, or where a whole segment is gone. After the
last kept batch it has no end. Gaps from compaction are not holes. Batches that fill a hole must fit its neighbours:
offsets ascend, leader epochs do not go down, and the copy agrees with this partition on both sides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.causes import Cause, Reason, Text, some
from klogtool.format.java_numbers import MAX_LONG
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.salvage.copies import Diverging
from klogtool.salvage.stretches import NO_EPOCH, Rejected, Run, Stretch, cut_run
from klogtool.verify.findings import Kind

_THERE_TWICE = (Kind.SEGMENT_OVERLAP,)  # rejected copies of offsets that are kept elsewhere


class RefusedCause(Cause):
    """Why batches of a copy do not fill a hole, and why a result is refused."""

    UNDAMAGED, DIVERGES, EPOCH_BELOW, EPOCH_ABOVE, EPOCH_OTHER, OTHER_HISTORY, STARTS_LATER, NOT_WHOLE = some(8)


class Hole(Struct, frozen=True):
    """Offsets [first, last] that no kept batch has; last None: no end. before, behind: the neighbours, or None.

    at: the number of the stretch before which it is filled. rejected: the rejected stretches in it.
    """

    at: int
    first: int
    last: int | None
    before: Run | None
    behind: Run | None
    rejected: tuple[Rejected, ...] = ()

    @property
    def is_within_segment(self) -> bool:
        """Return whether both neighbours are in the same segment."""
        return self.before is not None and self.behind is not None and self.before.segment == self.behind.segment


class SideFileEvidence(Struct, frozen=True):
    """Evidence of batches that no `.log` has. bases: ascending offsets of side files without a `.log`. reaches: the log
    once reached up to here (exclusive), by its checkpoints and snapshots. swapped: offset ranges of cleaned segments,
    which may have replaced some already. is_compacted: gaps between segments prove nothing. log_start_offset: offsets
    below it were deleted. first_segment: the base offset of the first `.log`, which may be empty, as retention leaves
    the last one; None if there is none."""

    bases: tuple[int, ...] = ()
    reaches: int = 0
    swapped: tuple[tuple[int, int], ...] = ()
    is_compacted: bool = False
    log_start_offset: int = 0
    first_segment: int | None = None


def find_holes(stretches: Sequence[Stretch], evidence: SideFileEvidence) -> list[Hole]:
    """Return all holes, in order. stretches: of the whole partition."""
    return [gap for gap in walk_gaps(stretches, evidence) if _is_hole(gap, evidence)]


def walk_gaps(stretches: Sequence[Stretch], evidence: SideFileEvidence) -> Iterator[Hole]:
    """Yield the gaps before, between and after kept runs, even empty ones: then `last` is below `first`."""
    before: Run | None = None
    rejected: list[Rejected] = []
    for n, stretch in enumerate(stretches):
        if isinstance(stretch, Rejected):
            rejected.append(stretch)
            continue
        first = _first_behind(before, stretches, evidence)
        yield Hole(n, first, stretch.first_offset - 1, before, stretch, tuple(rejected))
        before, rejected = stretch, []
    yield Hole(len(stretches), _first_behind(before, stretches, evidence), None, before, None, tuple(rejected))


def _first_behind(before: Run | None, stretches: Sequence[Stretch], evidence: SideFileEvidence) -> int:
    if before is not None:
        return before.last_offset + 1
    bases = [*(stretch.segment for stretch in stretches), *evidence.bases]
    if evidence.first_segment is not None:
        bases.append(evidence.first_segment)
    return min(bases, default=0)


def is_evident(gap: Hole, evidence: SideFileEvidence) -> bool:
    """Return whether other files show that a gap had batches."""
    last = MAX_LONG if gap.last is None else gap.last
    reaches_in = gap.last is None and evidence.reaches > gap.first
    return reaches_in or bisect_left(evidence.bases, gap.first) < bisect_right(evidence.bases, last)


def is_between_segments(gap: Hole, evidence: SideFileEvidence) -> bool:
    """Return whether a gap is between two segments of a log that is not compacted: then a segment is gone. The first
    one may be empty."""
    if gap.behind is None or gap.is_within_segment or evidence.is_compacted:
        return False
    first = evidence.first_segment
    return gap.before is not None or (first is not None and first < gap.behind.segment)


def _is_hole(gap: Hole, evidence: SideFileEvidence) -> bool:
    if gap.last is not None and gap.last < gap.first:
        return False
    end = MAX_LONG if gap.last is None else gap.last
    if is_evident(gap, evidence) or any(gap.first <= last and first <= end for first, last in evidence.swapped):
        return True
    if gap.last is None:
        return any(part.cause not in _THERE_TWICE for part in gap.rejected)
    if gap.rejected:
        return True
    return is_between_segments(gap, evidence)


def shows_cleaning(stretches: Sequence[Stretch]) -> bool:
    """Return whether offsets are missing inside segments without damage; only cleaning leaves such gaps."""
    for before, stretch in zip((None, *stretches), stretches, strict=False):
        if isinstance(stretch, Run):
            if stretch.records < stretch.offsets:
                return True
            follows = isinstance(before, Run) and (before.segment, before.stop) == (stretch.segment, stretch.start)
            if follows and isinstance(before, Run) and before.last_offset + 1 < stretch.first_offset:
                return True
    return False


class OtherCopy(Struct, frozen=True):
    """Another copy of the partition. name: as given by the user. runs: its sound runs, ascending. empty: offset ranges
    between and after them without a batch and without damage. diverging: where its batches differ from this
    partition's. epochs: of its leader-epoch-checkpoint."""

    name: str
    runs: Sequence[Run]
    empty: Sequence[tuple[int, int | None]] = ()
    diverging: Sequence[Diverging] = ()
    epochs: LeaderEpochFileCache = field(default_factory=LeaderEpochFileCache)


def copy_of(
    name: str, stretches: Sequence[Stretch], diverging: Sequence[Diverging], epochs: LeaderEpochFileCache
) -> OtherCopy:
    """Return a copy, from the stretches of its files in order."""
    empty: list[tuple[int, int | None]] = []
    for before, stretch in pairwise(stretches):
        if isinstance(before, Run) and isinstance(stretch, Run) and before.last_offset + 1 < stretch.first_offset:
            empty.append((before.last_offset + 1, stretch.first_offset - 1))
    if stretches and isinstance(stretches[0], Run) and stretches[0].segment < stretches[0].first_offset:
        empty.insert(0, (stretches[0].segment, stretches[0].first_offset - 1))
    if stretches and isinstance(stretches[-1], Run):
        empty.append((stretches[-1].last_offset + 1, None))
    return OtherCopy(name, [run for run in stretches if isinstance(run, Run)], empty, diverging, epochs)


class Filling(Struct, frozen=True):
    """Batches of a copy that go into a hole."""

    copy: OtherCopy
    run: Run


class RefusedBatches(Struct, frozen=True):
    """Why available batches of a copy are not used."""

    copy: OtherCopy
    first_offset: int
    last_offset: int
    reason: Text


class Filled(Struct):
    """What copies contribute to holes. empty: offset ranges for which a sound copy has no batches."""

    fillings: list[tuple[Filling, Hole]] = field(default_factory=list)
    refusals: list[RefusedBatches] = field(default_factory=list)
    empty: list[tuple[int, int | None]] = field(default_factory=list)


def fill_hole(hole: Hole, copies: Sequence[OtherCopy], known: LeaderEpochFileCache, filled: Filled) -> None:
    """Add to `filled` what the copies have for a hole, one copy after the other.

    known: this partition's leader epochs, as far as its checkpoint says. The copies' runs must be cut at the hole's
    edges and where known epochs begin.
    """
    results: list[Filling] = []
    for copy in copies:
        is_other = _diverges_at(copy, hole)
        for part in _parts_left(hole, results):
            for run in _runs_within(copy, part):
                reason = RefusedCause.DIVERGES() if is_other else _refusal(copy, hole, part, run, results, known)
                if reason is None:
                    results.append(Filling(copy, run))
                else:
                    filled.refusals.append(RefusedBatches(copy, run.first_offset, run.last_offset, reason))
        results.sort(key=lambda filling: filling.run.first_offset)
        if not is_other and copy.runs and copy.runs[0].segment <= hole.first <= copy.runs[-1].last_offset + 1:
            filled.empty += copy.empty
    filled.fillings += [(filling, hole) for filling in results]


def left_alone(gaps: Sequence[Hole], holes: Sequence[Hole], copies: Sequence[OtherCopy]) -> Iterator[RefusedBatches]:
    """Yield batches that copies have between kept batches although nothing is damaged there. gaps: all gaps; the copies
    are cut there."""
    filled = {hole.at for hole in holes}
    for gap in gaps:
        if gap.at in filled or gap.before is None or gap.last is None or gap.last < gap.first:
            continue
        for copy in copies:
            for run in _runs_within(copy, gap):
                yield RefusedBatches(copy, run.first_offset, run.last_offset, RefusedCause.UNDAMAGED())


def parts_left(hole: Hole, runs: Sequence[Run]) -> list[tuple[int, int | None]]:
    """Return the offset ranges of a hole that these runs (ascending, all inside it) leave open."""
    left: list[tuple[int, int | None]] = []
    first = hole.first
    for run in runs:
        if first < run.first_offset:
            left.append((first, run.first_offset - 1))
        first = run.last_offset + 1
    if hole.last is None or first <= hole.last:
        left.append((first, hole.last))
    return left


def _parts_left(hole: Hole, results: Sequence[Filling]) -> list[Hole]:
    """Return what `parts_left` does, as holes with their neighbours."""
    runs = [filling.run for filling in results]
    parts = []
    for first, last in parts_left(hole, runs):
        before = next((run for run in reversed(runs) if run.last_offset < first), hole.before)
        behind = next((run for run in runs if last is not None and run.first_offset > last), hole.behind)
        parts.append(replace(hole, first=first, last=last, before=before, behind=behind))
    return parts


def _runs_within(copy: OtherCopy, hole: Hole) -> Iterator[Run]:
    last = MAX_LONG if hole.last is None else hole.last
    for run in copy.runs[bisect_left(copy.runs, hole.first, key=lambda run: run.last_offset) :]:
        if run.first_offset > last:
            return
        chunks = cut_run(run, [hole.first, last + 1])
        yield from (chunk for chunk in chunks if hole.first <= chunk.first_offset and chunk.last_offset <= last)


def _refusal(
    copy: OtherCopy, hole: Hole, part: Hole, run: Run, results: Sequence[Filling], known: LeaderEpochFileCache
) -> Reason | None:
    """Return why a run of the copy does not fit there, or None."""
    if run.epoch != NO_EPOCH:
        lowest = max((r.epoch for r in _epochs_before(part, run, results)), default=NO_EPOCH)
        if run.epoch < lowest:
            return RefusedCause.EPOCH_BELOW(epoch=run.epoch, before=lowest)
        if part.behind is not None and NO_EPOCH < part.behind.epoch < run.epoch:
            return RefusedCause.EPOCH_ABOVE(epoch=run.epoch, after=part.behind.epoch)
        expected = known.epoch_for_offset(run.first_offset)
        if expected is not None and (run.epoch < expected if hole.last is None else run.epoch != expected):
            return RefusedCause.EPOCH_OTHER(epoch=run.epoch, expected=expected)
    return _other_history(copy, hole, known) if hole.last is None else None


def _epochs_before(part: Hole, run: Run, results: Sequence[Filling]) -> Iterator[Run]:
    if part.before is not None:
        yield part.before
    yield from (filling.run for filling in results if filling.run.last_offset < run.first_offset)


def _diverges_at(copy: OtherCopy, hole: Hole) -> bool:
    """Return whether another leader wrote the batches that the copy has in place of the hole's neighbours."""
    edges = [run.last_offset for run in (hole.before,) if run is not None]
    edges += [run.first_offset for run in (hole.behind,) if run is not None]
    return any(
        not other.same_epoch and other.first_offset <= edge <= other.last_offset
        for other in copy.diverging
        for edge in edges
    )


def _other_history(copy: OtherCopy, hole: Hole, known: LeaderEpochFileCache) -> Reason | None:
    """Return why the copy does not continue this log, or None: they have not had the same leaders up to the hole."""
    ours = {entry.epoch: entry.start_offset for entry in known.entries[1:]}
    for entry in copy.epochs.entries[1:]:
        if ours.get(entry.epoch, entry.start_offset) != entry.start_offset:
            here = ours[entry.epoch]
            return RefusedCause.OTHER_HISTORY(epoch=entry.epoch, there=entry.start_offset, here=here)
    if hole.before is not None and copy.runs and copy.runs[0].first_offset > hole.first:
        return RefusedCause.STARTS_LATER(start=copy.runs[0].first_offset)
    return None
