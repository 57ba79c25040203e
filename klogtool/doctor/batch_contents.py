"""What sound batches have in them, so that two batches with the same offsets can be told apart.

A restore that went wrong, or two copies that diverged, leave other records under the same offsets: those are lost if
they go, whatever else has their offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from msgspec.structs import replace

from klogtool.broker.content import Content
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.doctor.readable import Readable, walk_each
from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import NO_SEQUENCE, Record
from klogtool.format.batch_proof import recounted
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.log.probing import Probe

BatchKey = tuple[int, int, int]  # first offset, CRC, size: what two copies of a batch have in common
_CRC_AT = {0: 12, 1: 12, 2: 17}
_MOST_COMPARED = 1000  # batches with the same offsets: a log can be made of nothing else


def key_of(file: LogFile, part: Readable) -> BatchKey:
    """Return what an exact copy of a batch has, too, whatever its leader epoch."""
    head = file.read(part.start, HEADER_SIZE_UP_TO_MAGIC + 4)
    at = _CRC_AT.get(head[HEADER_SIZE_UP_TO_MAGIC - 1], _CRC_AT[2])
    return part.first_offset, int.from_bytes(head[at : at + 4], "big"), part.stop - part.start


def records_of(file: LogFile, part: Readable) -> list[Record]:
    """Return the records of a batch as a consumer gets them, which gets neither sequences nor the checksums of old
    messages; none if they contradict its header."""
    probe = Probe(file, end=part.stop, lowest=0)
    frame = probe.frame(part.start)
    if not isinstance(frame, Frame):
        return []
    if part.is_miscounted and (judged := probe.judge(part.start)) is not None:
        whole = recounted(probe.batch(judged.facts))
        return [] if whole is None else _as_consumed(whole.records())
    try:
        return _as_consumed(FrameReader(file).read(frame).records())
    except (Corrupt, Unsupported):  # consumers stop there, which verify tells
        return []


def _as_consumed(records: Iterator[Record]) -> list[Record]:
    return [replace(record, sequence=NO_SEQUENCE, crc=None, crc_valid=None) for record in records]


def in_rows(part: Readable, offsets: Sequence[int]) -> Iterator[Readable]:
    """Yield a part of a batch for each row of offsets without a gap."""
    if not offsets:
        return
    breaks = [0, *(n for n, (one, other) in enumerate(pairwise(offsets), 1) if other != one + 1), len(offsets)]
    for low, high in pairwise(breaks):
        yield replace(part, first_offset=offsets[low], last_offset=offsets[high - 1], records=high - low)


class KnownBatches:
    """Batches that are somewhere, to ask what another batch has that none of them has. Memory holds their places only.

    offsets: those that they stand for.
    """

    def __init__(self) -> None:
        self.offsets = Offsets()
        self._rows: list[tuple[Content, Readable]] = []  # of which nobody has asked yet
        self._batches: list[tuple[Content, Readable]] = []
        self._keys: set[BatchKey] = set()
        self._firsts: list[int] = []
        self._highest: list[int] = []  # of each batch and those before it

    def add(self, file: ContentFile, row: Readable) -> None:
        """Add batches in a row of a file. Their offsets are for the caller to add."""
        self._rows.append((file.content_of(row.start, row.stop), row))

    def has_twin(self, key: BatchKey) -> bool:
        """Return whether an exact copy of a batch is there."""
        self._look_into_rows()
        return key in self._keys

    def walk_records(self, first: int, last: int) -> Iterator[Record]:
        """Yield the records of the batches that can have offsets of a range."""
        for file, batch in self._walk_near(first, last):
            yield from records_of(file, batch)

    def _walk_near(self, first: int, last: int) -> Iterator[tuple[LogFile, Readable]]:
        self._look_into_rows()
        self._sort()
        stop = bisect_right(self._firsts, last)
        start = bisect_left(self._highest, first, hi=stop)
        near = [each for each in self._batches[start:stop] if each[1].last_offset >= first]
        for content, batch in near[:_MOST_COMPARED]:
            with ContentFile("", content) as file:
                yield file, batch

    def _look_into_rows(self) -> None:
        if not self._rows:
            return
        for content, row in self._rows:
            with ContentFile("", content) as file:
                whole = replace(row, start=0, stop=row.stop - row.start)
                batches = list(walk_each(file, whole))
                self._batches += ((content, batch) for batch in batches)
                self._keys.update(key_of(file, batch) for batch in batches)
        self._rows.clear()

    def _sort(self) -> None:
        """Bring new batches in order. One after the other, since a caller asks and adds in turn: mostly at the end."""
        changed, added = len(self._highest), self._batches[len(self._firsts) :]
        del self._batches[len(self._firsts) :]
        for each in added:
            at = bisect_right(self._firsts, each[1].first_offset)
            self._firsts.insert(at, each[1].first_offset)
            self._batches.insert(at, each)
            changed = min(changed, at)
        if added:
            before = self._highest[changed - 1 : changed] if changed else []
            new = accumulate([*before, *(batch.last_offset for _, batch in self._batches[changed:])], max)
            self._highest[changed:] = list(new)[len(before) :]


def offsets_alone(file: LogFile, batch: Readable, known: Sequence[KnownBatches]) -> list[int]:
    """Return the offsets of a batch's records that nothing known has, be it in a copy or in another batch."""
    key = key_of(file, batch)
    if any(each.has_twin(key) for each in known):
        return []
    records = records_of(file, batch)
    there = {record for each in known for record in each.walk_records(batch.first_offset, batch.last_offset)}
    return [record.offset for record in records if record not in there]
