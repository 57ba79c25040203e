"""The sound batches of bytes: what a reader can read, whatever is between them.

Batches in a row whose offsets follow one another are one value, so a whole log without damage takes little memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.doctor.claims import OffsetRange
from klogtool.errors import KlogError
from klogtool.format.batch import CONTROL_BIT, stream_records
from klogtool.format.batch_proof import FACTS, EntryFacts, batch_facts, is_blanked, recounted
from klogtool.format.framing import Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved
from klogtool.salvage.stretches import Run, walk_stretches

MOST_RANGES = 1000  # of one answer; beyond it, neighbours are joined
_BATCHES_SINCE = 2  # the magic
_WIDTH = len(FACTS)
_FIRST, _LAST, _POSITION, _SIZE, _MAGIC, _ATTRIBUTES, _RECORDS, _NEWEST = (
    FACTS.index(name)
    for name in (
        "first_offset",
        "last_offset",
        "position",
        "size",
        "magic",
        "attributes",
        "records_count",
        "max_timestamp",
    )
)


class Readable(Struct, frozen=True):
    """Sound batches in a row: bytes [start, stop) of a file, whose offsets follow one another. last_offset: of the last
    record, if its header says less. records: without control records. newest_timestamp: -1 if there is none.
    is_miscounted: a batch whose header says another number of records than it has: a consumer may fail at it. is_odd: a
    batch whose records contradict its header, or one another: a consumer may pass over some. Known if it was opened."""

    start: int
    stop: int
    first_offset: int
    last_offset: int
    records: int
    newest_timestamp: int
    is_miscounted: bool = False
    is_odd: bool = False


def ranges_of(parts: Iterable[Readable]) -> tuple[OffsetRange, ...]:
    """Return the offsets of batches as ranges. Of very many, neighbours are joined."""
    offsets = Offsets()
    for part in parts:
        offsets.add(part.first_offset, max(part.first_offset, part.last_offset))
    return few(offsets.ranges)


def few(ranges: list[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return ranges, at most MOST_RANGES: beyond it, neighbours are joined."""
    each = -(-len(ranges) // MOST_RANGES) or 1
    groups = (ranges[at : at + each] for at in range(0, len(ranges), each))
    return tuple((group[0][0], group[-1][1]) for group in groups)


def walk_readable(file: LogFile, start: int, stop: int, *, opened: bool = False) -> Iterator[Readable]:
    """Yield the sound batches in bytes [start, stop), also behind damage. opened: look at their records; those of a
    batch that has not a record for each of its offsets are always looked at. Raises Unreadable."""
    probe, pool = Probe(file, end=stop, lowest=0), RowPool()
    while start < stop:
        for proved in walk_proved(file, start, pool, end=stop, deep=opened):
            for rows, count in proved.rows:
                for part, is_full in [(rows[: count * _WIDTH], True)] if opened else _by_fullness(rows, count):
                    if is_full:
                        yield from _of_rows(file, part, len(part) // _WIDTH)
                    else:
                        end = part[-_WIDTH + _POSITION] + part[-_WIDTH + _SIZE]
                        yield from walk_readable(file, part[_POSITION], end, opened=True)
            start = proved.reached
        if start >= stop:
            return
        judged = probe.judge(start, deep=True)
        if judged is not None:
            # A consumer stops at most headers that contradict their records.
            if judged.is_served or (judged.is_readable and judged.contradiction is None):
                yield replace(_of_entry(file, judged.facts), is_odd=judged.records_contradiction is not None)
            elif judged.facts.magic >= _BATCHES_SINCE and is_blanked(probe.batch(judged.facts)):
                yield _of_entry(file, judged.facts)
            elif (whole := _recounted(probe, judged.facts) or _head_of(probe, judged.facts)) is not None:
                yield whole
            start = judged.facts.end
        else:
            following = probe.next_readable(start)
            start = stop if following is None else following


def _count_once(file: LogFile, part: Readable) -> Readable:
    """Return a wrapper with the number of records that it has: the same message twice is one, which only a wrapper with
    more messages than offsets can have."""
    if part.records <= part.last_offset - part.first_offset + 1:
        return part
    reader, count = FrameReader(file), part.records
    with suppress(KlogError):
        frame = reader.find(part.start, part.stop)
        if isinstance(frame, Frame):
            count = len({(each.offset, each.timestamp, each.key, each.value) for each in reader.read(frame).records()})
    return replace(part, records=count)


def _by_fullness(rows: array[int], count: int) -> Iterator[tuple[array[int], bool]]:
    """Yield entries in a row of which each has a record for each of its offsets, or of which none has."""
    whole = count * _WIDTH
    facts = (rows[name:whole:_WIDTH] for name in (_MAGIC, _FIRST, _LAST, _RECORDS))
    full = [
        magic < _BATCHES_SINCE or last - first + 1 == records
        for magic, first, last, records in zip(*facts, strict=True)
    ]
    breaks = [0, *(n for n, (one, other) in enumerate(pairwise(full), 1) if one != other), count]
    for low, high in pairwise(breaks):
        yield rows[low * _WIDTH : high * _WIDTH], full[low]


def walk_each(file: LogFile, part: Readable) -> Iterator[Readable]:
    """Yield the batches of a row one by one."""
    probe, at = Probe(file, end=part.stop, lowest=0), part.start
    first = probe.frame(at)
    if isinstance(first, Frame) and first.size == part.stop - at and (_is_full(part) or part.is_odd):
        yield part
        return
    pool = RowPool()
    while at < part.stop:
        for proved in walk_proved(file, at, pool, end=part.stop):
            for rows, count in proved.rows:
                for n in range(0, count * _WIDTH, _WIDTH):
                    facts = EntryFacts(*rows[n : n + _WIDTH])
                    yield _recounted(probe, facts) or _of_entry(file, facts)
            at = proved.reached
        judged = probe.judge(at) if at < part.stop else None
        if judged is None:
            return
        yield _recounted(probe, judged.facts) or _of_entry(file, judged.facts)
        at = judged.facts.end


def _is_full(part: Readable) -> bool:
    """Return whether there is a record for each offset, so that nothing in it needs a second look."""
    is_plain = not part.is_miscounted and not part.is_odd
    return is_plain and part.records == part.last_offset - part.first_offset + 1


def _recounted(probe: Probe, facts: EntryFacts) -> Readable | None:
    """Return a batch of which only the count of its records is wrong: salvage keeps all of them, whatever a consumer
    gets."""
    if facts.magic < _BATCHES_SINCE or facts.records_count == facts.last_offset - facts.first_offset + 1:
        return None
    whole = recounted(probe.batch(facts))
    return None if whole is None else replace(_of_entry(probe.file, batch_facts(whole)), is_miscounted=True)


def _head_of(probe: Probe, facts: EntryFacts) -> Readable | None:
    """Return a batch with the records that come before damage inside of it, which consumers get and salvage keeps."""
    if facts.magic < _BATCHES_SINCE or facts.is_control:
        return None
    first, last, count, newest = None, facts.first_offset - 1, 0, -1
    with suppress(KlogError):
        for record in stream_records(probe.batch(facts)):
            if not last < record.offset <= facts.last_offset:
                break
            first = record.offset if first is None else first
            last, count, newest = record.offset, count + 1, max(newest, record.timestamp)
    return None if first is None else Readable(facts.position, facts.end, first, last, count, newest, is_odd=True)


def _of_rows(file: LogFile, rows: array[int], count: int) -> Iterator[Readable]:
    """Yield plain entries that are in a row, as few values."""
    whole = count * _WIDTH
    firsts, lasts = rows[_FIRST:whole:_WIDTH], rows[_LAST:whole:_WIDTH]
    neighbours = zip(lasts, firsts[1:], strict=False)
    breaks = [0, *(n for n, (last, first) in enumerate(neighbours, 1) if first != last + 1), count]
    is_old = min(rows[_MAGIC:whole:_WIDTH]) < _BATCHES_SINCE
    for low, high in pairwise(breaks):
        if is_old:
            for at in range(low, high):
                yield _of_entry(file, EntryFacts(*rows[at * _WIDTH : (at + 1) * _WIDTH]))
        else:
            yield _joined(rows, low, high)


def _joined(rows: array[int], low: int, high: int) -> Readable:
    span = slice(low * _WIDTH, high * _WIDTH)
    part = rows[span]
    records, attributes = part[_RECORDS::_WIDTH], part[_ATTRIBUTES::_WIDTH]
    counted = sum(count for count, bits in zip(records, attributes, strict=True) if not bits & CONTROL_BIT)
    end = part[-_WIDTH + _POSITION] + part[-_WIDTH + _SIZE]
    newest = max(part[_NEWEST::_WIDTH])
    return Readable(part[_POSITION], end, part[_FIRST], part[-_WIDTH + _LAST], counted, newest)


def _of_entry(file: LogFile, facts: EntryFacts) -> Readable:
    if not facts.tells_first_offset:  # a wrapper: only its inner messages tell
        opened = next(walk_stretches(file, 0, start=facts.position, end=facts.end), None)
        if isinstance(opened, Run):
            run = Readable(
                opened.start,
                opened.stop,
                opened.first_offset,
                opened.last_offset,
                opened.records,
                opened.newest_timestamp,
            )
            return _count_once(file, run)
    count, first = max(0, facts.records_count), facts.lowest_offset
    if facts.magic < _BATCHES_SINCE:
        last = facts.last_offset
        return _count_once(file, Readable(facts.position, facts.end, first, last, count, facts.max_timestamp))
    last = max(facts.last_offset, first + count - 1)  # old producers: three records, and a last offset delta of 0
    return Readable(facts.position, facts.end, first, last, 0 if facts.is_control else count, facts.max_timestamp)
