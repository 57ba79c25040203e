"""The walk over a segment's file for a replay of its producers and transactions.

format/producer_replay has the state of a replay. The kernel has the same, and is fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool import kernels
from klogtool.format.batch import CONTROL_BIT, RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.batch_proof import FACTS, EntryFacts
from klogtool.format.fields import numbers
from klogtool.format.framing import CURRENT_MAGIC, LOG_OVERHEAD, Frame, find_frame
from klogtool.format.layouts import BATCH_HEADER
from klogtool.format.producer_replay import NOTHING, Aborted, ProducerReplay, ReplayStop, take_marker
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.log.file import LogFile
from klogtool.log.mapped import walk_header_windows

_HEADER = numbers(BATCH_HEADER)
LEAST_BATCH_BYTES = 4096  # on average: headers of smaller batches take more memory and time than they are worth
NO_CRC = 0
LONG_BITS = 64


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
    """Replay spans of a file that is open; yield where the replay stops. left: as for `replay_window`."""
    for start, end in spans:
        for window in walk_header_windows(file, start=start, end=end):
            yield from replay_window(replay, window.data, window.cut, left, base=window.base)


def replay_window(
    replay: ProducerReplay, data: memoryview, cut: int, left: list[int], *, base: int = 0
) -> Iterator[Halt]:
    """Replay the entries of data[:cut]; yield where the replay stops. left: the remaining marks, descending; those that
    are reached are removed.

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


class KeptHeaders:
    """The headers of a log's batches, in the order of the log: a replay of them need not read the log again.

    is_whole: nothing is missing. Markers are missing, because their records count, and all headers of small batches.
    """

    def __init__(self) -> None:
        self.is_whole = True
        self._headers, self._places = bytearray(), array("q")

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self._headers) + len(self._places) * self._places.itemsize

    def add(self, rows: array[int], count: int) -> None:
        """Keep the headers of entries, by their facts."""
        width = len(FACTS)
        for at in range(0, count * width, width):
            if not self.is_whole:
                break
            self._add(EntryFacts(*rows[at : at + width]))
        mean_bytes = sum(self._places[-2:]) * RECORD_BATCH_OVERHEAD // max(1, len(self._headers))
        if self._headers and mean_bytes < LEAST_BATCH_BYTES:
            self.give_up()

    def give_up(self) -> None:
        """Keep nothing: the log will be read again."""
        self.is_whole = False
        self._headers, self._places = bytearray(), array("q")

    def _add(self, facts: EntryFacts) -> None:
        if facts.magic != CURRENT_MAGIC:
            return
        if facts.attributes & CONTROL_BIT:
            self.give_up()
            return
        self._headers += _header_of(facts)
        self._places.extend((facts.position, facts.size))

    def replay(self, replay: ProducerReplay, marks: Sequence[int]) -> Iterator[Halt]:
        """Do what `replay_segment` does."""
        left = list(reversed(marks))
        for halt in replay_window(replay, memoryview(self._headers), len(self._headers), left):
            if halt.why is ReplayStop.MARK:
                yield halt
            else:
                position, size = self._places[(place := 2 * halt.position // RECORD_BATCH_OVERHEAD) : place + 2]
                yield replace(halt, position=position, size=size)
        while left:
            yield Halt(ReplayStop.MARK, left.pop())


def _header_of(facts: EntryFacts) -> bytes:
    """Return the header of a batch without records."""
    return _HEADER.pack(
        facts.first_offset,
        RECORD_BATCH_OVERHEAD - LOG_OVERHEAD,
        facts.partition_leader_epoch,
        facts.magic,
        NO_CRC,
        facts.attributes,
        (facts.last_offset - facts.first_offset) % (1 << LONG_BITS),
        facts.max_timestamp,
        facts.max_timestamp,
        facts.producer_id,
        facts.producer_epoch,
        facts.base_sequence,
        facts.records_count,
    )
