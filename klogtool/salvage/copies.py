"""Compares two copies of a partition: which batches are the same, and where the copies diverge.

A batch's CRC covers neither base offset nor leader epoch. So a batch is the same in both copies if base offset, size
and CRC are. Copies are mostly equal byte for byte over long ranges, so that is checked first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.format.batch import RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.framing import Frame
from klogtool.format.message import parse_message
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.salvage.corrections import with_epoch
from klogtool.salvage.stretches import MAGIC, NO_EPOCH, Run, Stretch, cut_run, split_last, with_first_offset

CHUNK_BYTES = 1 << 20


class Diverging(Struct, frozen=True):
    """Offsets for which both copies have different batches. same_epoch: the same leader wrote both, for example if only
    one copy is compacted."""

    first_offset: int
    last_offset: int
    same_epoch: bool


class _Mark(Struct, frozen=True):
    """Identifies a batch."""

    first_offset: int
    last_offset: int
    size: int
    crc: int
    epoch: int


class Comparison(Struct, frozen=True):
    """The comparison of two copies. agree: whether they have any batch in common."""

    diverging: tuple[Diverging, ...]
    agree: bool


def compare(ours: Sequence[Run], theirs: Sequence[Run]) -> Comparison:
    """Return where two copies differ, in order; ours, theirs: runs with ascending offsets. Raises Unreadable."""
    edges = sorted({edge for run in (*ours, *theirs) for edge in (run.first_offset, run.last_offset + 1)})
    results = list(_compared(_cut(ours, edges), _cut(theirs, edges)))
    return Comparison(tuple(_joined(chunk for chunk in results if chunk is not None)), None in results)


def mend_last_batch(
    stretches: Sequence[Stretch], copies: Sequence[Sequence[Run]], known: LeaderEpochFileCache
) -> list[Stretch]:
    """Return the stretches with a corrected last batch: if copies have it directly after the one before it, it
    gets their base offset, and their leader epoch if that is the epoch before it.

    Nothing after the last batch shows that its offset is too high; all other batches have two neighbours. But if the
    next leader began exactly after the room that it needs (known: leader-epoch-checkpoint), it belongs there.
    """
    results = list(stretches)
    n = next((n for n in range(len(results) - 1, -1, -1) if isinstance(results[n], Run)), None)
    run = None if n is None else results[n]
    if n is None or not isinstance(run, Run) or not (copies or _next_epoch_start(run, known)):
        return results
    *body, last = split_last(run)
    before = next((item for item in (*body[::-1], *results[:n][::-1]) if isinstance(item, Run)), None)
    if before is None:
        return results
    following = before.last_offset + 1
    if last.first_offset != following and _next_epoch_start(last, known) == following + last.offsets:
        results[n : n + 1] = [*body, with_first_offset(last, following)]
        return results
    mark = next(_marks(last))
    theirs = next((t for copy in copies if (t := _first_behind(copy, before.last_offset)) is not None), None)
    if theirs is None or (theirs.size, theirs.crc) != (mark.size, mark.crc):
        return results
    mended = with_first_offset(last, theirs.first_offset) if theirs.first_offset < last.first_offset else last
    if theirs.epoch == before.epoch < last.epoch:
        mended = with_epoch(mended, theirs.epoch)
    if mended is not last:
        results[n : n + 1] = [*body, mended]
    return results


def _next_epoch_start(run: Run, known: LeaderEpochFileCache) -> int | None:
    """Return where the next leader began, if the run continues after that."""
    starts = (entry.start_offset for entry in known.entries if NO_EPOCH < run.epoch < entry.epoch)
    start = next(starts, None)
    return start if start is not None and start <= run.last_offset else None


def _first_behind(runs: Sequence[Run], offset: int) -> _Mark | None:
    """Return the first batch of a copy that begins after an offset."""
    run = next((run for run in runs if run.last_offset > offset), None)
    if run is None:
        return None
    part = next((part for part in cut_run(run, [offset + 1]) if part.first_offset > offset), None)
    return None if part is None else next(_marks(part))


def _cut(runs: Sequence[Run], edges: Sequence[int]) -> list[Run]:
    return [chunk for run in runs for chunk in cut_run(run, edges)]


def _compared(ours: Sequence[Run], theirs: Sequence[Run]) -> Iterator[Diverging | None]:
    """Yield each difference; None for something equal."""
    n = m = 0
    while n < len(ours) and m < len(theirs):
        our, their = ours[n], theirs[m]
        if our.last_offset >= their.first_offset and their.last_offset >= our.first_offset:
            if _is_same(our, their):
                yield None
            else:
                yield from _compared_batches(our, their)
        n, m = (n + (our.last_offset <= their.last_offset), m + (their.last_offset <= our.last_offset))


def _is_same(our: Run, their: Run) -> bool:
    """Return whether two runs are equal byte for byte."""
    if (our.first_offset, our.last_offset, our.size) != (their.first_offset, their.last_offset, their.size):
        return False
    with ContentFile(our.path, our.content()) as one, ContentFile(their.path, their.content()) as other:
        return all(one.read(at, CHUNK_BYTES) == other.read(at, CHUNK_BYTES) for at in range(0, our.size, CHUNK_BYTES))


def _compared_batches(our: Run, their: Run) -> Iterator[Diverging | None]:
    ours, theirs = _marks(our), _marks(their)
    one, other = next(ours, None), next(theirs, None)
    while one is not None and other is not None:
        if one.last_offset >= other.first_offset and other.last_offset >= one.first_offset:
            yield _compared_batch(one, other)
        ended = one.last_offset
        if one.last_offset <= other.last_offset:
            one = next(ours, None)
        if other.last_offset <= ended:
            other = next(theirs, None)


def _compared_batch(one: _Mark, other: _Mark) -> Diverging | None:
    if (one.last_offset, one.size, one.crc) == (other.last_offset, other.size, other.crc):
        return None
    same_epoch = one.epoch == other.epoch != NO_EPOCH
    first, last = max(one.first_offset, other.first_offset), min(one.last_offset, other.last_offset)
    return Diverging(first, last, same_epoch)


def _marks(run: Run) -> Iterator[_Mark]:
    with ContentFile(run.path, run.content()) as file:
        for frame in FrameReader(file).walk(0, file.size):
            yield _mark(file, frame, run)


def _mark(file: LogFile, frame: Frame, run: Run) -> _Mark:
    head = file.read(frame.position, RECORD_BATCH_OVERHEAD)
    if frame.magic < MAGIC:
        # The first offset of a wrapper is not in its header; that of a run is known.
        first = run.first_offset if run.batches == 1 else frame.offset
        return _Mark(first, frame.offset, frame.size, parse_message(head).crc, NO_EPOCH)
    batch = parse_batch(head)
    return _Mark(batch.base_offset, batch.last_offset, frame.size, batch.crc, batch.partition_leader_epoch)


def _joined(results: Iterator[Diverging]) -> list[Diverging]:
    joined: list[Diverging] = []
    for chunk in results:
        before = joined[-1] if joined else None
        if before and before.same_epoch == chunk.same_epoch and chunk.first_offset <= before.last_offset + 1:
            joined[-1] = Diverging(before.first_offset, max(before.last_offset, chunk.last_offset), before.same_epoch)
        else:
            joined.append(chunk)
    return joined
