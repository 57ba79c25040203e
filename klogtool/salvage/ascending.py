"""Which runs of a partition fit together: offsets ascend from the first to the last, and as much as possible is kept.

A batch with a damaged base offset does not fit, and neither does a batch or segment that exists twice. If a batch does
not fit, but its neighbours leave exactly the room that it needs, its base offset was damaged, and is corrected. If
batches fill their room without a gap, and only their order is wrong, they are put in order; so are whole segments
that somebody gave each other's names, and batches that fill, as they are, a hole elsewhere. All others that do not fit
are rejected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.salvage.corrections import mend_last_offsets
from klogtool.salvage.stretches import (
    MAGIC,
    NO_EPOCH,
    Rejected,
    RejectedCause,
    Run,
    Stretch,
    batches_of,
    cut_run,
    split_last,
    with_first_offset,
)
from klogtool.verify.findings import Kind
from klogtool.verify.heaviest_row import Frontier

NEAR = 8  # limit of damaged base offsets in a row that are corrected


def ascending(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the stretches in their order. Of runs that do not fit together, the smaller ones are rejected.

    stretches: of all segments, by base offset. Kept runs ascend over the whole partition.
    """
    segments = _segments_in_order(mend_last_offsets(stretches))
    items = _put_in_order(_cut_where_they_meet(_cut_at_segments(segments)))
    row = _Row(items)
    if len(row.possible) == sum(isinstance(item, Run) for item in items) and row.ascends():
        return items
    return row.settled()


def _segments_in_order(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the segments in the order of their names, but those of which the name is wrong where their offsets are.

    The checksum does not cover a base offset: one batch may be damaged, several show a wrong name.
    """
    segments = {base: list(items) for base, items in groupby(stretches, key=lambda item: item.segment)}
    begins = {base: items[0].first_offset for base, items in segments.items() if isinstance(items[0], Run)}
    keys: dict[int, int] = {}
    for base, end in pairwise((*segments, MAX_LONG + 1)):
        runs = [run for item in segments[base] if isinstance(item, Run) for run in cut_run(item, [base, end])]
        outside = [run for run in runs if not base <= run.first_offset < end]
        first = min((run.first_offset for run in runs), default=base)
        # It begins where another one should, and that one does not.
        is_exchanged = begins.get(base) == first != base and begins.get(first, first) != first
        is_elsewhere = is_exchanged or _is_misnamed(runs, outside)
        keys[base] = first if is_elsewhere else base
    return [item for base in sorted(segments, key=keys.__getitem__) for item in segments[base]]


def _is_misnamed(runs: Sequence[Run], outside: Sequence[Run]) -> bool:
    """Return whether most batches, and several, are not within the offsets of the segment's name."""
    count = sum(run.batches for run in outside)
    inside = sum(run.batches for run in runs) - count
    return count > 1 and (count > inside or (count == inside and outside[0] is runs[0]))


def _cut_at_segments(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Cut runs that leave the range of their segment, or go back into the range that a damaged batch before them
    claims."""
    results: list[Stretch] = []
    for item in stretches:
        if isinstance(item, Run):
            edges = {item.segment, item.segment + MAX_INT + 1}
            if results and (claimed := _claimed(results[-1])) is not None:
                edges.add(claimed[1] + 1)
            results += cut_run(item, sorted(edges))
        else:
            results.append(item)
    return results


def _claimed(item: Stretch) -> tuple[int, int] | None:
    """Return the offsets that the header of a damaged batch claims."""
    if isinstance(item, Rejected) and item.first_offset is not None and item.last_offset is not None:
        return item.first_offset, item.last_offset
    return None


def _cut_where_they_meet(items: list[Stretch]) -> list[Stretch]:
    """Cut runs that conflict with others, wherever one of the others begins or ends."""
    runs = [item for item in items if isinstance(item, Run)]
    in_trouble = dict.fromkeys(_in_trouble(runs))
    if not in_trouble:
        return items
    ends = {edge for run in in_trouble for edge in (run.first_offset, run.last_offset + 1)}
    edges = sorted(ends | set(_edges_in_holes([*in_trouble])))
    results: list[Stretch] = []
    for item in items:
        if isinstance(item, Run) and item in in_trouble and item.batches > 1:
            inside = edges[bisect_right(edges, item.first_offset) : bisect_right(edges, item.last_offset)]
            for chunk in cut_run(item, inside) if inside else [item]:
                # An edge that remains is inside its last batch.
                is_whole = bisect_right(edges, chunk.first_offset) == bisect_right(edges, chunk.last_offset)
                results += [chunk] if is_whole else split_last(chunk)
        else:
            results.append(item)
    return results


def _edges_in_holes(runs: Sequence[Run]) -> Iterator[int]:
    """Yield the offsets at which the runs take turns: batches of one are in a hole of the other there, as what somebody
    moved is. Of a batch that both have, a copy is in each; nothing is cut there."""
    if all(run.records == run.offsets for run in runs):
        return
    for (_, before), (first, owners) in pairwise(_walk_owners(runs)):
        if before != owners and 1 in (len(before), len(owners)):
            yield first


def _walk_owners(runs: Sequence[Run]) -> Iterator[tuple[int, set[int]]]:
    """Yield the first offset of each batch, or of all that overlap each other, and the numbers of their runs."""
    spans = sorted((each.first_offset, each.last_offset, n) for n, run in enumerate(runs) for each in batches_of(run))
    at, end, owners = 0, -1, set[int]()
    for first, last, n in spans:
        if first > end:
            if owners:
                yield at, owners
            at, owners = first, set()
        owners.add(n)
        end = max(end, last)
    if owners:
        yield at, owners


def _put_in_order(items: list[Stretch]) -> list[Stretch]:
    """Put neighbours in order that follow each other then without a gap, and the run before them. What somebody moved
    into another segment goes back to the one where readers look for it."""
    ordered: list[Stretch] = []
    bases = sorted({item.segment for item in items})
    for group in _walk_groups(items):
        runs = sorted((item for item in group if isinstance(item, Run)), key=lambda run: run.first_offset)
        before = ordered[-1] if ordered and isinstance(ordered[-1], Run) else None
        row = runs if before is None else [before, *runs]
        is_whole = len(runs) == len(group) > 1
        ordered += [_at_home(run, bases) for run in runs] if is_whole and _is_row(row) else group
    return ordered


def _is_row(runs: Sequence[Run]) -> bool:
    """Return whether runs follow each other without a gap, and so do their epochs: else base offsets were exchanged."""
    epochs = [run.epoch for run in runs if run.epoch != NO_EPOCH]
    is_whole = all(one.last_offset + 1 == other.first_offset for one, other in pairwise(runs))
    return is_whole and epochs == sorted(epochs)


def _at_home(run: Run, bases: Sequence[int]) -> Run:
    """Return a run as one of the segment that has its offsets."""
    return replace(run, segment=bases[max(0, bisect_right(bases, run.first_offset) - 1)])


def _walk_groups(items: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Yield the items in groups: all runs of a group are below those of the next one."""
    lowest_behind = [MAX_LONG + 1] * (len(items) + 1)
    for n in range(len(items) - 1, -1, -1):
        item = items[n]
        lowest_behind[n] = min(lowest_behind[n + 1], item.first_offset if isinstance(item, Run) else MAX_LONG + 1)
    group: list[Stretch] = []
    highest = -1
    for n, item in enumerate(items):
        group.append(item)
        highest = max(highest, item.last_offset if isinstance(item, Run) else -1)
        if highest < lowest_behind[n + 1]:
            yield group
            group = []
    if group:
        yield group


def _in_trouble(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield runs that begin at or below the end of a run before them, or end at or after the beginning of a run after
    them."""
    highest = -1
    lowest_behind = [MAX_LONG + 1] * (len(runs) + 1)
    for n in range(len(runs) - 1, -1, -1):
        lowest_behind[n] = min(lowest_behind[n + 1], runs[n].first_offset)
    for n, run in enumerate(runs):
        if run.first_offset <= highest or run.last_offset >= lowest_behind[n + 1]:
            yield run
        highest = max(highest, run.last_offset)


class _Link(Struct, frozen=True):
    """The best row that ends with an item. score: batches kept or corrected, then other evidence. before: the item
    before it, -1: none. mended: whether all items between them are corrected."""

    score: tuple[int, int]
    before: int = -1
    mended: bool = False


class _Row:
    """Searches the row of runs that keeps the most: for each item, the best row that ends with it."""

    def __init__(self, items: list[Stretch]) -> None:
        self._items = items
        self._segments = sorted({item.segment for item in items})
        self._copies = Counter(_looks_of(item) for item in items if isinstance(item, Run))
        self.possible = set(self._possible())

    def _possible(self) -> Iterator[int]:
        """Yield the items that may be kept, judged only by themselves and their segment."""
        beyond: Counter[int] = Counter()
        below: Counter[int] = Counter()
        runs = [(n, item) for n, item in enumerate(self._items) if isinstance(item, Run)]
        for _, run in runs:
            beyond[run.segment] += run.batches * (run.last_offset - run.segment > MAX_INT)
            below[run.segment] += run.batches * (run.first_offset < run.segment)
        for n, run in runs:
            # A single batch that is too high, or below its segment's base offset, has a damaged header, unless the next
            # one begins where it ends. If there are more, an old cleaner let the segment grow too far (KAFKA-5413), or
            # the file has a wrong name.
            is_far = run.last_offset - run.segment > MAX_INT and beyond[run.segment] == 1
            is_below = run.first_offset < run.segment and below[run.segment] == 1 and not self._goes_on(n, run)
            is_number = run.first_offset >= 0 and run.last_offset <= MAX_LONG
            if is_number and not (is_far or is_below or self._goes_back(n, run)):
                yield n

    def _goes_on(self, n: int, run: Run) -> bool:
        """Return whether the next batch of the file begins where this run ends, in offsets as well."""
        behind = self._items[n + 1] if n + 1 < len(self._items) else None
        if not isinstance(behind, Run) or (behind.segment, behind.start) != (run.segment, run.stop):
            return False
        return behind.first_offset == run.last_offset + 1

    def _goes_back(self, n: int, run: Run) -> bool:
        """Return whether a batch begins within a damaged one before it, whose header fits the batch before that."""
        claimed = _claimed(self._items[n - 1]) if n else None
        if claimed is None or run.batches > 1 or not run.first_offset <= claimed[1]:
            return False
        before = self._items[n - 2] if n > 1 else self._before_all()
        return isinstance(before, Run) and claimed[0] == before.last_offset + 1

    def ascends(self) -> bool:
        """Return whether all runs fit together."""
        return not any(_in_trouble([item for item in self._items if isinstance(item, Run)]))

    def settled(self) -> list[Stretch]:
        """Return the items; those outside the best row are rejected or corrected."""
        links, selected = self._links(), []
        # Of rows with the same weight take the one with the lower end: a base offset that is too high is more likely.
        at = max(links, key=lambda n: (links[n].score, -self._run(n).last_offset), default=-1)
        while at >= 0:
            selected.append(at)
            at = links[at].before
        selected.reverse()
        moved = self._moved_into(selected)
        taken = {(run.path, run.start) for runs in moved.values() for run in runs}
        results: list[Stretch] = []
        before, done = self._before_all(), 0
        for n in selected:
            between = _without(self._items[done:n], taken)
            is_free = links[n].mended and done - 1 not in moved and len(between) == n - done
            results += self._mended(between, before) if is_free else _left_out(between, before, self._run(n))
            results += [self._items[n], *moved.get(n, ())]
            before, done = self._run(n), n + 1
        return results + _left_out(_without(self._items[done:], taken), before, None)

    def _moved_into(self, selected: Sequence[int]) -> dict[int, list[Run]]:
        """Return the runs outside the row that fill, as they are, the room between two of its neighbours, by the number
        of the one before them: somebody moved them. Damaged bytes in the file keep their room."""
        row, run_set = [self._run(n) for n in selected], set(selected)
        ends = [run.last_offset for run in row]
        others = sorted(
            (item for n, item in enumerate(self._items) if isinstance(item, Run) and n not in run_set),
            key=lambda run: run.first_offset,
        )
        moved: dict[int, list[Run]] = {}
        for at, runs in groupby(others, key=lambda run: bisect_right(ends, run.first_offset) - 1):
            if not 0 <= at < len(row) - 1:
                continue
            in_file, between = self._items[selected[at] + 1 : selected[at + 1]], [*runs]
            if all(isinstance(item, Run) for item in in_file) and _is_row([row[at], *between, row[at + 1]]):
                moved[selected[at]] = [_at_home(run, self._segments) for run in between]
        return moved

    def _run(self, n: int) -> Run:
        item = self._items[n]
        if isinstance(item, Rejected):
            raise TypeError("no run")
        return item

    def _before_all(self) -> Run:
        """Return a run that stands for the batch before the first: it ends where the first segment begins."""
        base = self._segments[0]
        return Run("", base, 0, 0, base - 1, base - 1, 0, 0, MAGIC, NO_EPOCH)

    def _links(self) -> dict[int, _Link]:
        links: dict[int, _Link] = {}
        frontier: Frontier[tuple[int, int]] = Frontier()
        for n in sorted(self.possible):
            run = self._run(n)
            before = frontier.heaviest_up_to(run.first_offset - 1)
            links[n] = self._best_link(n, links, -1 if before is None else before[1])
            frontier.add(run.last_offset, links[n].score, n)
        return links

    def _best_link(self, n: int, links: dict[int, _Link], before: int) -> _Link:
        run = self._run(n)
        own = (run.batches, self._trust(n, before))
        result = _Link(_sum(links[before].score if before >= 0 else (0, 0), own), before)
        room = 0
        for near in range(n - 1, max(-1, n - 1 - NEAR) - 1, -1):
            if near in links or near < 0:
                mended = sum(isinstance(item, Run) for item in self._items[near + 1 : n])
                if mended and self._leaves_room(near, n, room):
                    score = links[near].score if near >= 0 else (0, 0)
                    result = max(result, _Link(_sum(score, own, (mended, 0)), near, True), key=lambda link: link.score)
            needed = None if near < 0 else _offsets_of(self._items[near])
            if needed is None:
                break
            room += needed
        return result

    def _trust(self, n: int, before: int) -> int:
        """Return the evidence for a run if not all can be kept: readers find it by its segment's name, its header has
        no other damage, and it begins where the one before it ends, in the file as well."""
        run = self._run(n)
        is_found = self._segments[bisect_right(self._segments, run.first_offset) - 1] == run.segment
        end = self._run(before).last_offset if before >= 0 else self._before_all().last_offset
        follows = before == n - 1 and run.first_offset == end + 1
        return run.batches * is_found + (not run.mends) + follows

    def _leaves_room(self, before: int, behind: int, room: int) -> bool:
        """Return whether exactly so many offsets are between two runs, and the batches between fit their leader
        epochs, and are there once: the base offset of a copy is not damaged."""
        first = self._run(before) if before >= 0 else self._before_all()
        second = self._run(behind)
        between = [item for item in self._items[before + 1 : behind] if isinstance(item, Run)]
        if any(self._copies[_looks_of(run)] > 1 for run in between):
            return False
        epochs = [run.epoch for run in between]
        in_order = [epoch for epoch in (first.epoch, *epochs, second.epoch) if epoch != NO_EPOCH]
        return second.first_offset - first.last_offset - 1 == room and in_order == sorted(in_order)

    def _mended(self, between: Sequence[Stretch], before: Run) -> Iterator[Stretch]:
        """Yield the batches with consecutive base offsets."""
        following = before.last_offset + 1
        for item in between:
            yield with_first_offset(item, following) if isinstance(item, Run) else item
            following += _offsets_of(item) or 0


def _offsets_of(item: Stretch) -> int | None:
    """Return how many offsets a single batch has, or a damaged one by its header; else None."""
    if isinstance(item, Run):
        return item.offsets if item.batches == 1 else None
    claimed = _claimed(item)
    return None if claimed is None else claimed[1] - claimed[0] + 1


def _looks_of(run: Run) -> tuple[int, ...]:
    """Return what two copies of a batch have in common."""
    return run.first_offset, run.last_offset, run.stop - run.start, run.records, run.newest_timestamp


def _sum(*scores: tuple[int, int]) -> tuple[int, int]:
    return sum(score[0] for score in scores), sum(score[1] for score in scores)


def _without(items: Sequence[Stretch], taken: Collection[tuple[str, int]]) -> list[Stretch]:
    return [item for item in items if (item.path, item.start) not in taken]


def _left_out(items: Sequence[Stretch], before: Run, behind: Run | None) -> list[Stretch]:
    return [_rejected(item, before, behind) if isinstance(item, Run) else item for item in items]


def _rejected(run: Run, before: Run, behind: Run | None) -> Rejected:
    if run.last_offset - run.segment > MAX_INT:
        cause, detail = Kind.OFFSET_OVERFLOW, RejectedCause.TOO_FAR(offset=run.last_offset)
    elif run.first_offset > before.last_offset and behind is not None and run.batches > 1:
        cause, detail = Kind.SEGMENT_OVERLAP, RejectedCause.IN_SEGMENT(offset=run.first_offset, segment=behind.segment)
    elif run.first_offset > before.last_offset:
        cause = Kind.BATCH_HEADER
        detail = RejectedCause.ABOVE_NEXT(offset=run.first_offset)
    elif run.segment != before.segment and before.path:
        cause, detail = Kind.SEGMENT_OVERLAP, RejectedCause.IN_SEGMENT(offset=run.first_offset, segment=before.segment)
    else:
        cause, detail = Kind.OFFSET_ORDER, RejectedCause.NOT_ABOVE(offset=run.first_offset, before=before.last_offset)
    return Rejected(
        run.path, run.segment, run.start, run.stop, cause, detail, sound=(run.first_offset, run.last_offset)
    )
