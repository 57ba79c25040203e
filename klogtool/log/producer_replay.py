"""The walk over a segment's file for a replay of its producers and transactions.

format/producer_replay has the state of a replay. The kernel has the same, and is fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from klogtool import kernels
from klogtool.format.batch import parse_batch
from klogtool.format.framing import Frame, find_frame
from klogtool.format.producer_replay import NOTHING, Aborted, ProducerReplay, ReplayStop, take_marker
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.log.file import LogFile
from klogtool.log.mapped import walk_header_windows


def make_replay(log_start_offset: int) -> ProducerReplay:
    """Return a replay without any batch. Readers see no offset below `log_start_offset`."""
    return kernels.native.ProducerReplay(log_start_offset, Aborted, ProducerStateEntry)


class Halt(Struct, frozen=True):
    """Where a replay of a segment stopped: at a mark, or before the entry of `size` bytes at byte `position`."""

    why: ReplayStop
    mark: int = NOTHING
    position: int = 0
    size: int = 0


def replay_segment(
    replay: ProducerReplay, path: str, spans: Sequence[tuple[int, int]], marks: Sequence[int] = ()
) -> Iterator[Halt]:
    """Take the entries in these spans of bytes of a log. They are sound. Yield at marks, and at entries not taken.

    marks: offsets, ascending. The replay stops at a mark when all batches that begin below it were taken. An entry that
    Kafka would refuse is left out. At FULL, the caller fetches what was found; if that makes no room, the replay ends.
    Raises KlogError if the file cannot be read.
    """
    left = list(reversed(marks))
    if spans:
        with LogFile(path) as file:
            yield from replay_spans(replay, file, spans, left)
    while left:
        yield Halt(ReplayStop.MARK, left.pop())


def replay_spans(
    replay: ProducerReplay, file: LogFile, spans: Sequence[tuple[int, int]], left: list[int]
) -> Iterator[Halt]:
    """Do the same for a file that is open. left: as for `replay_window`."""
    for start, end in spans:
        for window in walk_header_windows(file, start=start, end=end):
            yield from replay_window(replay, window.data, window.cut, left, base=window.base)


def replay_window(
    replay: ProducerReplay, data: memoryview, cut: int, left: list[int], *, base: int = 0
) -> Iterator[Halt]:
    """Do the same for the entries of data[:cut]. left: the remaining marks, descending; reached ones are removed.

    base: position of data[0] in its file.
    """
    at, why = 0, int(ReplayStop.MARK)
    while why != ReplayStop.DONE:
        at, why = replay.take(data, at, cut, left[-1] if left else None)
        if why == ReplayStop.UNSURE:
            batch = parse_batch(data, at)
            taken = take_marker(replay, batch)
            at, why = (at + batch.size, why) if taken == ReplayStop.DONE else (at, taken)
        if why == ReplayStop.MARK:
            yield Halt(ReplayStop.MARK, left.pop())
        elif why in (ReplayStop.IMPOSSIBLE, ReplayStop.FULL):
            frame = find_frame(data, at, cut)
            size = frame.size if isinstance(frame, Frame) else cut - at
            yield Halt(ReplayStop(why), position=base + at, size=size)
            at += size if why == ReplayStop.IMPOSSIBLE else 0
