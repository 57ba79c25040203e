"""Records that a consumer passes over on its way through a log, because offsets go back or jump ahead.

Kafka's own consumer was watched: within a fetch it goes on behind the largest offset that it got, and drops what is
lower. A fetch ends at the end of a segment; the next one begins behind the last batch that was there, also if that lies
lower. Then the end of the segment is read again and again. What follows counts as read: a consumer gets it once
somebody seeks past the segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.doctor.readable import Offsets, Readable, walk_each, walk_readable
from klogtool.errors import KlogError
from klogtool.format.batch import parse_batch
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe

MOST_READ_BYTES = 1 << 20  # of a partition, beyond what its start reads


class _Batch(Struct, frozen=True):
    """A batch, and the offset of its last record."""

    part: Readable
    last_record: int


class _Segment(Struct, frozen=True):
    """A segment and its sound batches."""

    base_offset: int
    batches: list[_Batch]


def find_passed_over(log: LoadedLog) -> list[Readable] | None:
    """Return the batches of a loaded log that consumers pass over; None if nobody looked: the log is not read at its
    start, or is damaged. Raises KlogError if a file cannot be read."""
    recovered = set(log.report.recovered)
    unread = sum(segment.size for segment in log.segments.all if segment.base_offset not in recovered)
    if unread > MOST_READ_BYTES:
        return None
    bases = [segment.base_offset for segment in log.segments.all]
    next_bases = [*bases[1:], log.log_end_offset]
    ascends = True
    for segment, next_base in zip(log.segments.all, next_bases, strict=True):
        with segment.open_log() as file:
            parts = list(walk_readable(file, 0, file.size))
            if sum(part.stop - part.start for part in parts) != file.size:
                return None
            ascends = ascends and _ascends(parts, segment.base_offset, next_base)
    if ascends:
        return []
    segments = [_batches_of(segment) for segment in log.segments.all]
    got = _read_through(segments, log.log_start_offset, log.log_end_offset)
    return list(_walk_missed([batch for one in segments for batch in one.batches], got, log.log_start_offset))


def _batches_of(segment: LogSegment) -> _Segment:
    with segment.open_log() as file:
        parts = (each for part in walk_readable(file, 0, file.size) for each in walk_each(file, part))
        return _Segment(segment.base_offset, [_Batch(part, _last_record(file, part)) for part in parts])


def _last_record(file: LogFile, part: Readable) -> int:
    """Return the last offset that a consumer gets of a batch: that of its last record, whatever its header says."""
    if part.records == part.last_offset - part.first_offset + 1:
        return part.last_offset
    judged = Probe(file, end=part.stop, lowest=0).judge(part.start)
    if judged is None or judged.facts.magic < 2:
        return part.last_offset
    try:
        batch = parse_batch(file.read(part.start, part.stop - part.start), base=part.start)
        return max((record.offset for record in batch.records()), default=part.last_offset)
    except KlogError:  # consumers stop there, which verify tells
        return part.last_offset


def _ascends(parts: Sequence[Readable], base_offset: int, next_base: int) -> bool:
    is_inside = not parts or (parts[0].first_offset >= base_offset and parts[-1].last_offset < next_base)
    return is_inside and all(before.last_offset < after.first_offset for before, after in pairwise(parts))


def _walk_missed(batches: Sequence[_Batch], got: Mapping[int, Offsets], start: int) -> Iterator[Readable]:
    """Yield what consumers do not get of these batches, by their positions in the sequence; a batch that is there twice
    only counts if they get neither."""
    whole = {
        _content_of(batch.part)
        for n, batch in enumerate(batches)
        if n in got and got[n].covers(batch.part.first_offset, batch.last_record)
    }
    for n, batch in enumerate(batches):
        part = batch.part
        if not part.records or batch.last_record < start or _content_of(part) in whole:
            continue
        left = part.records
        for first, end in got.get(n, Offsets()).holes(max(part.first_offset, start), batch.last_record):
            records = min(left, end - first + 1)
            yield replace(part, first_offset=first, last_offset=end, records=records)
            left -= records


def _content_of(part: Readable) -> tuple[int, ...]:
    """Return what two copies of a batch have in common."""
    return part.first_offset, part.last_offset, part.records, part.newest_timestamp, part.stop - part.start


def _read_through(segments: Sequence[_Segment], start: int, end: int) -> dict[int, Offsets]:
    """Return the offsets that a consumer gets from the log start on, by the number of the batch in the log."""
    got: dict[int, Offsets] = {}
    position, seen = start, set[int]()
    numbers = [0, *accumulate(len(one.batches) for one in segments)]
    while position < end:
        if position in seen:  # read again and again, until somebody seeks past the segment
            position = next((one.base_offset for one in segments if one.base_offset > position), end)
            continue
        seen.add(position)
        at = max((n for n, one in enumerate(segments) if one.base_offset <= position), default=0)
        begin = _begin(segments[at].batches, position)
        while begin == len(segments[at].batches) and at + 1 < len(segments):
            at += 1
            begin = _begin(segments[at].batches, position)
        fetched = segments[at].batches[begin:]
        if not fetched:
            break
        for number, batch in enumerate(fetched, numbers[at] + begin):
            if batch.last_record >= position:
                got.setdefault(number, Offsets()).add(max(batch.part.first_offset, position), batch.last_record)
                position = batch.last_record + 1
        position = fetched[-1].part.last_offset + 1
    return got


def _begin(batches: Sequence[_Batch], position: int) -> int:
    """Return the batch of a segment at which a fetch from an offset begins (LogSegment.translateOffset)."""
    parts = [batch.part for batch in batches]
    exact = next((n for n, part in enumerate(parts) if part.first_offset == position), None)
    first = next((n for n, part in enumerate(parts) if part.first_offset > position), None)
    if exact is not None and (first is None or exact < first):
        return exact
    if first is None:
        return len(parts) - 1 if parts and parts[-1].last_offset >= position else len(parts)
    return first - 1 if first and parts[first - 1].last_offset >= position else first
