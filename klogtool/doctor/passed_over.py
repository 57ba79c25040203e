"""Records of a loaded log that Kafka's own consumer does not get on its way from the log start to the log end.

A fetch looks into the segment with the highest base at or below its offset, and into the following ones if nothing
there is as high. A broker that serves a fetch walks over lengths and offsets, from the place that the index gives; the
consumer checks what it got. Within a fetch it goes on behind the largest offset that it got, and drops what is lower.
The next fetch begins behind the last batch that was there, also if that lies lower. So damage at the end of a segment
hides nothing of the next one, and what lies behind damage is only found through an index.

Where a consumer comes no further (it gets nothing, an exception, or the same again) somebody seeks past that place.
What it gets then counts as read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain, pairwise, starmap

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.reading import OffsetMetadata, watermark_as_leader
from klogtool.doctor.batch_contents import BatchKey, in_rows, key_of, records_of
from klogtool.doctor.claims import HiddenBy, OffsetRange, WhyUnknown
from klogtool.doctor.readable import Readable, few, ranges_of, walk_each, walk_readable
from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import Record, RecordBatch, inflate, stream_records
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH, Frame, FrameStop
from klogtool.format.message import Message, to_record, walk_messages
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.log.probing import Probe
from klogtool.plans.recover_reach import claimed_end
from klogtool.salvage.stretches import Rejected, walk_stretches
from klogtool.verify.false_offset_index import find_false_entry, has_false_entry

LEAST_READ_BYTES = 1 << 20  # of a partition, beyond what its start reads
FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes
_MOST_FETCHED_BYTES = 1 << 26  # a log can be made so that no fetch gets far
_LAST_MAGIC = 2
_NOT_KAFKAS = frozenset(
    (
        *("ArithmeticException", "BufferOverflowException", "BufferUnderflowException", "IllegalArgumentException"),
        *("IllegalStateException", "IndexOutOfBoundsException", "NegativeArraySizeException"),
        *("NoSuchElementException", "NullPointerException", "RuntimeException", "UnsupportedOperationException"),
    )
)

_Hidden = tuple[HiddenBy, Readable]
_Key = BatchKey | tuple[int, int]  # or the number of the segment, and the byte


class _Outcome(Enum):
    """What becomes of a consumer at a damaged entry."""

    GOES_ON = "goes on"
    FAILS = "fails"
    FAILS_INSIDE = "fails inside"
    """Compressed bytes are damaged: it gets as many records as come before that, at most those of the batch."""
    ALL_FAILS = "all fails"
    """It does not return what came before in this fetch either, since the exception is none of Kafka's."""


class _Taken(Struct, frozen=True):
    """What a consumer got of a sound batch: offsets. number: of the record, if these are one record's."""

    key: _Key
    first: int
    last: int
    number: int | None = None


class _Batch(Struct, frozen=True):
    """A sound batch of a segment. last_record: the offset of its last record, whatever its header says. is_plain: a
    consumer gets all of its records if it comes to them in order. is_moved: exactly its offsets are missing where it
    lies, so its base offset is wrong: a batch like it is no copy, and its key is its place."""

    segment: int
    part: Readable
    key: _Key
    last_record: int
    is_plain: bool = True
    is_moved: bool = False


class Followed(Struct, frozen=True):
    """hidden: what a consumer does not get. fails_at: offsets at which it fails. odd: all offsets of the segments, if
    they are not simply in order. waits_at: below the log end, where it gets nothing, no more than anywhere above.
    stops: the first offsets where it gets nothing, without an error, though it gets more above. got: offsets that it
    gets; None if all that are there. watermark: the high watermark, if it is above the log's end. fails_inside: the
    first of fails_at is where a batch begins of which it may get some records. reaches: of each segment, the offset
    behind its highest one, if they are not simply in order. torn: offsets of batches that the end of a closed segment
    cuts off: it passes over them, without an error."""

    hidden: tuple[_Hidden, ...] = ()
    fails_at: tuple[int, ...] = ()
    odd: tuple[OffsetRange, ...] = ()
    waits_at: int | None = None
    stops: OffsetRange | None = None
    got: tuple[OffsetRange, ...] | None = None
    watermark: int | None = None
    fails_inside: bool = False
    reaches: tuple[int, ...] = ()
    torn: tuple[OffsetRange, ...] = ()


def follow_consumer(log: LoadedLog, start: int, most_unread: int | None) -> Followed | WhyUnknown:
    """Follow a consumer through a loaded log, or return why nobody did: the start does not read all of it, or it takes
    too long. start: below it, records were deleted on purpose. most_unread: bytes to read beyond what the start reads;
    None: all.

    Raises KlogError if a file cannot be read.
    """
    segments = log.segments.all
    recovered = set(log.report.recovered)
    unread = sum(segment.size for segment in segments if segment.base_offset not in recovered)
    if most_unread is not None and unread > most_unread:
        return WhyUnknown.NOT_READ
    bases = [segment.base_offset for segment in segments]
    is_large = sum(segment.size for segment in segments) > _MOST_FETCHED_BYTES
    ends = [*bases[1:], log.log_end_offset]
    each = zip(segments, ends, strict=True)
    plain = (_is_plain(segment, end, opened=not is_large) for segment, end in each)
    if is_large:
        return Followed() if all(plain) and find_false_entry(log) is None else WhyUnknown.TOO_LARGE
    sound = [*plain]
    misled = [base not in recovered and has_false_entry(log, one) for base, one in zip(bases, segments, strict=True)]
    if all(sound) and not any(misled):
        return Followed()
    unopened = [segment.unopened_indexes() for segment in segments]
    try:
        misled_in = frozenset(n for n in range(len(segments)) if misled[n] and sound[n])
        reader = _Consumer(segments, _served_up_to(log), misled_in, is_compacted=log.terms.compaction is not None)
        is_read = reader.read(log.log_start_offset, log.log_end_offset)
    finally:
        for segment, indexes in zip(segments, unopened, strict=True):
            segment.close_again(indexes)
    if not is_read:
        return WhyUnknown.TOO_LARGE
    return Followed(
        tuple((reader.why(log, n, part), part) for n, part in reader.walk_missed(start)),
        tuple(sorted(set(reader.fails_at))),
        ranges_of(reader.parts()),
        reader.waits_at,
        reader.stops,
        reader.offsets(),
        None if reader.watermark is None else reader.watermark.offset,
        min(reader.fails_at, default=None) in reader.fails_inside,
        reader.reaches(),
        tuple(reader.walk_torn()),
    )


def _served_up_to(log: LoadedLog) -> OffsetMetadata | None:
    """Return the high watermark, if it is above the log's end: a broker serves nothing behind it."""
    try:
        watermark = watermark_as_leader(log)
    except (Corrupt, Unsupported):  # it does not become the leader
        return None
    return watermark if watermark.offset > log.log_end_offset else None


def _is_plain(segment: LogSegment, next_base: int, *, opened: bool) -> bool:
    """Return whether a segment is sound batches, in order, within its offsets. opened: look at all their records."""
    with segment.open_log() as file:
        parts = list(walk_readable(file, 0, file.size, opened=opened))
    is_inside = not parts or (parts[0].first_offset >= segment.base_offset and parts[-1].last_offset < next_base)
    sound = [part for part in parts if not (part.is_miscounted or part.is_odd)]
    is_sound = sum(part.stop - part.start for part in sound) == segment.size
    return is_inside and is_sound and all(one.last_offset < other.first_offset for one, other in pairwise(parts))


class _Consumer:
    """A consumer, and what it got of the segments of a log. watermark: where the broker stops; None: at the end.
    misled_in: the numbers of sound segments whose offset index is false. is_compacted: offsets may be missing anywhere,
    so that shows of no batch that it is moved."""

    def __init__(
        self,
        segments: Sequence[LogSegment],
        watermark: OffsetMetadata | None = None,
        misled_in: frozenset[int] = frozenset(),
        *,
        is_compacted: bool = False,
    ) -> None:
        self._segments, self._misled_in = segments, misled_in
        self.watermark = watermark
        self._bases = [segment.base_offset for segment in segments]
        batches = list(chain.from_iterable(starmap(_walk_batches, enumerate(segments))))
        self._batches = batches if is_compacted else list(_walk_judged(batches))
        self._at = {(batch.segment, batch.part.start): batch for batch in self._batches}
        self._got: dict[_Key, Offsets] = {}
        self._got_of_damaged = Offsets()
        self._damage: dict[int, int] = {}  # by segment: where the first damage was met
        self._left = _MOST_FETCHED_BYTES
        self._got_of_odd: dict[_Key, set[int]] = {}  # numbers of records
        self.fails_at: list[int] = []
        self.fails_inside: set[int] = set()
        self.waits_at: int | None = None
        self.stops: OffsetRange | None = None

    def read(self, start: int, end: int) -> bool:
        """Read from the log start to the log end; return whether that was possible."""
        marks, position, seen = self._marks(), start, set[int]()
        while position < end and self._left > 0:
            if position in seen:  # a seek is of no use before the next of these
                at = bisect_right(marks, position)
                position = marks[at] if at < len(marks) else end
                self._left -= MIN_LENGTH
                continue
            seen.add(position)
            reached, failed = self._fetch(position)
            if failed or reached != position:
                if self.stops is None and self.waits_at is not None:
                    self.stops = self.waits_at, position - 1
                self.waits_at = None
            elif self.waits_at is None:
                self.waits_at = position
            position = reached + 1 if failed and reached > position else reached
        return self._left > 0

    def _marks(self) -> list[int]:
        """Return the offsets from which a fetch may begin elsewhere than from the one before: entries of indexes, of
        each batch the first offset, the one after it (a search can go by what begins below), and the one behind."""
        indexed = (entry.offset for segment in self._segments for entry in segment.offset_index.parse())
        parts = ((part.first_offset, part.first_offset + 1, part.last_offset + 1) for part in self.parts())
        return sorted({*self._bases, *indexed, *chain.from_iterable(parts), *self._unsound_marks()})

    def _unsound_marks(self) -> Iterator[int]:
        """Yield such offsets, as the headers of damaged batches say them."""
        for n, segment in enumerate(self._segments):
            with segment.open_log() as file:
                probe, at = Probe(file, end=file.size, lowest=0), 0
                while isinstance(frame := probe.frame(at), Frame):
                    if (n, at) not in self._at:
                        yield from (frame.offset, frame.offset + 1, _last_offset(probe, frame) + 1)
                    at += frame.size

    def _fetch(self, position: int) -> tuple[int, bool]:
        """Fetch from an offset; return the next one, and whether the consumer fails there: it keeps what it fetched, so
        it only fetches again from another offset."""
        at = max(0, bisect_right(self._bases, position) - 1)
        try:
            while (start_at := self._segments[at].translate_offset(position)) is None:
                self._left -= self._segments[at].size + MIN_LENGTH
                at += 1
                if at == len(self._segments):
                    return position, False
        except (Corrupt, Unsupported):  # CORRUPT_MESSAGE
            if at not in self._misled_in:
                self.fails_at.append(position)
            return position, True
        size = self._served_size(self._segments[at])
        if size <= start_at.position:
            return position, False
        with self._segments[at].open_log() as file:
            stop = min(size, start_at.position + max(FETCH_BYTES, start_at.size))
            self._left -= stop - start_at.position
            reached, failed = self._consume(Probe(file, end=stop, lowest=0), at, start_at.position, position)
        if failed and at not in self._misled_in:
            self.fails_at.append(reached)
        return reached, failed

    def _served_size(self, segment: LogSegment) -> int:
        """Return where a fetch ends in a segment (LocalLog.read)."""
        if self.watermark is None or segment.base_offset < self.watermark.segment:
            return segment.size
        return self.watermark.position if segment.base_offset == self.watermark.segment else 0

    def _consume(self, probe: Probe, n: int, at: int, fetch_offset: int) -> tuple[int, bool]:
        """Take what a fetch got, from a byte of a segment on; return as `_fetch`."""
        last, position, taken = None, fetch_offset, list[_Taken]()
        while (frame := _next_frame(probe, at)) is not None:
            batch = self._at.get((n, at))
            if isinstance(frame, Frame) and batch is not None and batch.is_plain:
                if batch.last_record >= position:
                    taken.append(_Taken(batch.key, max(batch.part.first_offset, position), batch.last_record))
                    position = batch.last_record + 1
                last = _last_offset(probe, frame)
            else:
                outcome, got = _take_damaged(probe, frame, at, position)
                position = got[-1][1] + 1 if got else position
                for number, offset in got:
                    self._got_of_damaged.add(offset, offset)
                    if batch is not None:
                        taken.append(_Taken(batch.key, offset, offset, number))
                if outcome is _Outcome.FAILS_INSIDE:
                    self.fails_inside.add(position)
                if outcome is not _Outcome.GOES_ON or not isinstance(frame, Frame):
                    self._note_damage(n, at)
                    if outcome is _Outcome.ALL_FAILS:
                        return fetch_offset, True
                    self._take(taken)
                    return position, True
                last = _last_offset(probe, frame)
            at += frame.size if isinstance(frame, Frame) else 0
        if at < probe.file.size == probe.end:
            self._note_damage(n, at)
        self._take(taken)
        return (position if last is None else last + 1), False

    def _take(self, taken: Sequence[_Taken]) -> None:
        for part in taken:
            self._got.setdefault(part.key, Offsets()).add(part.first, part.last)
            if part.number is not None:
                self._got_of_odd.setdefault(part.key, set()).add(part.number)

    def _note_damage(self, n: int, at: int) -> None:
        self._damage[n] = min(at, self._damage.get(n, at))

    def offsets(self) -> tuple[OffsetRange, ...]:
        """Return the offsets that the consumer got."""
        result = Offsets()
        for got in (*self._got.values(), self._got_of_damaged):
            for first, last in got.ranges:
                result.add(first, last)
        return few(result.ranges)

    # What is left.

    def walk_missed(self, start: int) -> Iterator[tuple[int, Readable]]:
        """Yield what the consumer did not get, with the number of its segment; twins count once. start: as above."""
        missed: dict[_Key, tuple[_Batch, list[Record]]] = {}
        for batch in self._batches:
            got = self._got.get(batch.key, Offsets())
            first = max(start, batch.part.first_offset)
            if not batch.part.records or batch.last_record < start:
                continue
            if not (batch.is_plain and got.covers(first, batch.last_record)):
                missing = (record for record, is_got in self._told_apart(batch) if not is_got)
                once = dict.fromkeys(record for record in missing if record.offset >= start)
                missed.setdefault(batch.key, (batch, list(once)))
        elsewhere = self._records_elsewhere(record for _, records in missed.values() for record in records)
        for batch, records in missed.values():
            left = [record.offset for record in records if batch.is_moved or record not in elsewhere]
            yield from ((batch.segment, each) for each in in_rows(batch.part, left))

    def _told_apart(self, batch: _Batch) -> Iterator[tuple[Record, bool]]:
        """Yield the records of a batch, and whether the consumer got each."""
        got, numbers = self._got.get(batch.key, Offsets()), self._got_of_odd.get(batch.key, set())
        for n, record in enumerate(self._records_of(batch)):
            yield record, record.offset in got if batch.is_plain else n in numbers

    def _records_elsewhere(self, records: Iterator[Record]) -> set[Record]:
        """Return the records that the consumer got as part of another batch (a cleaner had begun)."""
        wanted = set(records)
        offsets = Offsets()
        for record in wanted:
            offsets.add(record.offset, record.offset)
        elsewhere = set[Record]()
        for batch in self._batches:
            got = self._got.get(batch.key)
            if got is not None and any(offsets.overlaps(*each) for each in got.ranges):
                elsewhere |= {record for record, is_got in self._told_apart(batch) if is_got and record in wanted}
        return elsewhere

    def _records_of(self, batch: _Batch) -> list[Record]:
        """Return the records of a batch; none if they contradict its header."""
        with self._segments[batch.segment].open_log() as file:
            return records_of(file, batch.part)

    def parts(self) -> Iterator[Readable]:
        """Yield all sound batches."""
        return (batch.part for batch in self._batches)

    def walk_torn(self) -> Iterator[OffsetRange]:
        """Yield what the headers of batches say that are cut off at the end of a segment, but of the last one."""
        for segment in self._segments[:-1]:
            with segment.open_log() as file:
                probe, at = Probe(file, end=file.size, lowest=0), 0
                while isinstance(frame := _next_frame(probe, at), Frame):
                    at += frame.size
                part = None if frame else next(walk_stretches(file, segment.base_offset, start=at), None)
                end = claimed_end(part, file) if isinstance(part, Rejected) else None
                if isinstance(part, Rejected) and part.first_offset is not None and end is not None:
                    yield part.first_offset, end - 1

    def reaches(self) -> tuple[int, ...]:
        """Return for each segment the offset behind its highest one; its base offset if nothing in it is sound."""
        ends = list(self._bases)
        for batch in self._batches:
            ends[batch.segment] = max(ends[batch.segment], batch.part.last_offset + 1)
        return tuple(ends)

    def why(self, log: LoadedLog, n: int, part: Readable) -> HiddenBy:
        """Return why the consumer did not get it."""
        if part.last_offset < log.log_start_offset:
            return HiddenBy.BELOW_START
        if part.first_offset >= log.log_end_offset:
            return HiddenBy.BEYOND_END
        if n in self._misled_in:
            return HiddenBy.INDEX
        is_behind = self._damage.get(n, part.start) < part.start or part.first_offset in self.fails_at
        return HiddenBy.DAMAGE if is_behind or part.is_miscounted else HiddenBy.ORDER


def _walk_batches(n: int, segment: LogSegment) -> Iterator[_Batch]:
    with segment.open_log() as file:
        for row in walk_readable(file, 0, file.size, opened=True):
            for part in walk_each(file, row):
                is_plain = not (part.is_miscounted or row.is_odd)
                yield _Batch(n, part, key_of(file, part), _last_record(file, part), is_plain)


def _walk_judged(batches: Sequence[_Batch]) -> Iterator[_Batch]:
    """Yield all batches; those that are moved say so. Where damaged bytes lie beside one, the missing offsets are
    theirs."""
    for before, batch, behind in zip((None, *batches), batches, (*batches[1:], None), strict=False):
        end = -1 if before is None else before.part.last_offset
        count = batch.part.last_offset - batch.part.first_offset + 1
        is_moved = (
            behind is not None
            and end + 1 + count == behind.part.first_offset != batch.part.last_offset + 1
            and _is_beside(before, batch)
            and _is_beside(batch, behind)
        )
        yield replace(batch, key=(batch.segment, batch.part.start), is_moved=True) if is_moved else batch


def _is_beside(one: _Batch | None, other: _Batch) -> bool:
    """Return whether nothing lies between two batches, as far as their segment shows."""
    return one is None or one.segment != other.segment or one.part.stop == other.part.start


def _last_record(file: LogFile, part: Readable) -> int:
    """Return the last offset that a consumer gets of a batch: that of its last record, whatever its header says."""
    if part.records == part.last_offset - part.first_offset + 1:
        return part.last_offset
    return max((record.offset for record in records_of(file, part)), default=part.last_offset)


def _next_frame(probe: Probe, at: int) -> Frame | FrameStop | None:
    """Return what a consumer finds at a byte of what it fetched (ByteBufferLogInputStream.nextBatch): a whole entry, a
    FrameStop if it fails, None at the end or at an incomplete entry."""
    frame = probe.frame(at)
    if isinstance(frame, Frame):
        return frame
    head = probe.head(at)
    is_short = len(head) >= LOG_OVERHEAD and int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True) < MIN_LENGTH
    is_strange = len(head) >= HEADER_SIZE_UP_TO_MAGIC and head[HEADER_SIZE_UP_TO_MAGIC - 1] > _LAST_MAGIC
    return FrameStop.LENGTH if is_short or is_strange else None


def _take_damaged(
    probe: Probe, frame: Frame | FrameStop, at: int, position: int
) -> tuple[_Outcome, list[tuple[int, int]]]:
    """Return what becomes of a consumer at a damaged entry, and the numbers and offsets of the records that it gets of
    it: those whose offsets go up (CompletedFetch.nextFetchedRecord)."""
    got, is_open = list[tuple[int, int]](), False
    if not isinstance(frame, Frame) or not 0 <= frame.magic <= _LAST_MAGIC:
        return _Outcome.FAILS, got
    judged = probe.judge(at)
    if judged is None and frame.magic == _LAST_MAGIC:
        return _Outcome.FAILS, got
    entry: RecordBatch | Message | None = None
    try:  # the checksum of a wrapper is looked at once it is opened
        entry = FrameReader(probe.file).read(frame)
        if judged is None and not isinstance(entry, RecordBatch) and entry.base_offset is not None:
            return _Outcome.FAILS, got  # of a message that is no wrapper, the checksum comes first
        for number, record in _walk_numbered(entry, position):
            is_open = True
            if judged and record.offset >= position:
                got.append((number, record.offset))
                position = record.offset + 1
    except (Corrupt, Unsupported) as error:
        if getattr(error, "kafka_class", None) in _NOT_KAFKAS:
            return _Outcome.ALL_FAILS, got
        return _Outcome.FAILS_INSIDE if judged and not is_open and _is_packed_badly(entry) else _Outcome.FAILS, got
    return _Outcome.GOES_ON if judged else _Outcome.FAILS, got


def _walk_numbered(entry: RecordBatch | Message, position: int) -> Iterator[tuple[int, Record]]:
    """Yield the records of an entry with their numbers. Of messages of old, a consumer looks at the checksum of each
    first, and not at those below its position. Raises Corrupt or Unsupported where it fails."""
    if isinstance(entry, RecordBatch):
        yield from enumerate(stream_records(entry))
        return
    for number, message in enumerate(walk_messages(entry)):
        if message.offset >= position:
            if not message.crc_valid:
                raise Corrupt("a message does not match its checksum", kafka_class="CorruptRecordException")
            yield number, to_record(message)


def _is_packed_badly(entry: RecordBatch | Message | None) -> bool:
    """Return whether the compressed bytes of a batch are damaged themselves."""
    if not isinstance(entry, RecordBatch):
        return False
    try:
        return bool(entry.codec != "none" and inflate(entry) is None)
    except (Corrupt, Unsupported):
        return True


def _last_offset(probe: Probe, frame: Frame) -> int:
    """Return the last offset of an entry by its header, whether that is damaged or not."""
    delta = probe.head(frame.position)[23:27] if frame.magic >= _LAST_MAGIC else b""
    return frame.offset + int.from_bytes(delta, "big", signed=True)
