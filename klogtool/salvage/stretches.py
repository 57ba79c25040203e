"""Splits a segment into stretches: runs of sound batches, and the bytes between them.

The batches of a run are consecutive in the file. Their CRCs are right, nothing in their headers is impossible, their
offsets ascend, and their leader epoch is the same. If only the length or magic of a batch is wrong (no CRC covers
these), the corrected batch is a run of its own. Whether runs fit together is not checked here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import gt, le
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange
from klogtool.causes import Cause, Text, some
from klogtool.errors import KlogError
from klogtool.format.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    Record,
    RecordBatch,
    parse_batch,
    read_head,
)
from klogtool.format.batch_proof import (
    FACTS,
    NOT_TOLD,
    EntryFacts,
    Judged,
    batch_facts,
    judge_message,
    message_of,
    recounted,
)
from klogtool.format.checksums import crc32c
from klogtool.format.fields import field_positions
from klogtool.format.framing import LOG_OVERHEAD, Frame, walk_frames
from klogtool.format.layouts import BATCH_HEADER
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved
from klogtool.log.windows import walk_windows
from klogtool.verify.findings import Kind
from klogtool.verify.log_damage import Damage, DamageJudge

NO_EPOCH = -1
MAGIC = 2
WIDTH = len(FACTS)


class Mend(Struct, frozen=True):
    """A corrected field. position: of the batch in its file; at: of the field; data: the field's
    bytes."""

    position: int
    at: int
    field: str
    was: int
    now: int
    data: bytes


class Run(Struct, frozen=True):
    """Sound batches: bytes [start, stop) of the file at `path`, which belongs to segment `segment`.

    magic, epoch: format and leader epoch of all of them (old formats have NO_EPOCH). newest_timestamp: the largest one
    that their headers have; -1 if they have none.
    """

    path: str
    segment: int
    start: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    magic: int
    epoch: int
    mends: tuple[Mend, ...] = ()
    newest_timestamp: int = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.stop - self.start

    @property
    def offsets(self) -> int:
        """Number of offsets from the first to the last; after a cleaning that is more than the records."""
        return self.last_offset - self.first_offset + 1

    def content(self) -> Content:
        """Return the bytes of the run, with corrected fields."""
        parts: list[FileRange | bytes] = []
        at = self.start
        for mend in sorted(self.mends, key=lambda mend: mend.at):
            parts += [FileRange(self.path, at, mend.at)] * (at < mend.at)
            parts.append(mend.data)
            at = mend.at + len(mend.data)
        return (*parts, FileRange(self.path, at, self.stop))


class RejectedCause(Cause):
    """Why sound bytes are not kept."""

    TOO_FAR, IN_SEGMENT, ABOVE_NEXT, NOT_ABOVE, EPOCH_DOES_NOT_FIT, CANNOT_READ, CHECKSUM_MATCHES = some(7)


class Rejected(Struct, frozen=True):
    """Bytes [start, stop) of a segment that are not kept. cause: an id of verify's findings; detail: why.

    first_offset, last_offset: what was there, as far as these bytes show. sound: the offsets of batches that are sound
    themselves.
    """

    path: str
    segment: int
    start: int
    stop: int
    cause: str
    detail: Text
    first_offset: int | None = None
    last_offset: int | None = None
    sound: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.stop - self.start


Stretch: TypeAlias = Run | Rejected


def walk_stretches(
    file: LogFile,
    segment: int,
    cuts: Sequence[int] = (),
    *,
    start: int = 0,
    end: int | None = None,
    jobs: int = 1,
    deep: bool = False,
) -> Iterator[Stretch]:
    """Yield all bytes [start, end) of a segment's file, in order. segment: its base offset; start: where an entry
    begins.

    cuts: ascending offsets; no run has batches on both sides of one. deep: open every batch, and reject one whose
    records cannot be read; a batch with an impossible header is kept if consumers get its records all the same. Raises
    Unreadable.
    """
    return _Walk(file, segment, cuts, file.size if end is None else end, jobs, deep=deep).stretches(start)


def cut_run(run: Run, cuts: Sequence[int]) -> Sequence[Run]:
    """Cut a run so that no piece has batches on both sides of one of these (ascending) offsets."""
    if run.batches == 1 or bisect_right(cuts, run.first_offset) == bisect_right(cuts, run.last_offset):
        return [run]
    with LogFile(run.path) as file:
        chunks = walk_stretches(file, run.segment, cuts, start=run.start, end=run.stop)
        return [chunk for chunk in chunks if isinstance(chunk, Run)]


def batches_of(run: Run) -> Iterator[Run]:
    """Yield the batches of a run, each as a run of its own. Raises Unreadable."""
    if run.batches == 1:
        yield run
        return
    with LogFile(run.path) as file:
        walk = _Walk(file, run.segment, (), run.stop, 1, deep=False, apart=True)
        yield from (chunk for chunk in walk.stretches(run.start) if isinstance(chunk, Run))


def split_last(run: Run) -> list[Run]:
    """Split a run into all but its last batch (if there are others), and that batch."""
    if run.batches == 1:
        return [run]
    at = run.start
    with LogFile(run.path) as file:
        windows = walk_windows(file, start=run.start, end=run.stop)
        last = deque((window for window in windows if window.cut), maxlen=1)
        for window in last:
            for frame in walk_frames(window.data, 0, window.cut):
                at = window.base + frame.position
        parts = [walk_stretches(file, run.segment, start=a, end=b) for a, b in ((run.start, at), (at, run.stop))]
        return [part for stretches in parts for part in stretches if isinstance(part, Run)]


def set_field(run: Run, name: str, was: int, value: int) -> Run:
    """Return a run of a single batch with another value in a field. An old message has base_offset and length at the
    same position, under other names."""
    at, kind = next((at, kind) for field, at, kind in field_positions(BATCH_HEADER) if field == name)
    return replace(run, mends=(*run.mends, Mend(run.start, run.start + at, name, was, value, kind.build(value))))


def with_first_offset(run: Run, first_offset: int) -> Run:
    """Return a single batch with this base offset."""
    shift = first_offset - run.first_offset
    if not shift:
        return run
    # The field of an old message is its last offset.
    was = run.last_offset if run.magic < MAGIC else run.first_offset
    moved = replace(run, first_offset=first_offset, last_offset=run.last_offset + shift)
    return set_field(moved, "base_offset", was, was + shift)


def last_record(run: Run) -> int | None:
    """Return the offset of the last record of a single batch; None if none can be read."""
    with LogFile(run.path) as file:
        probe = Probe(file, end=run.stop, lowest=0)
        judged = probe.judge(run.start)
        return None if judged is None else probe.last_record(judged.facts)


def with_last_offset(run: Run, last_offset: int) -> Run:
    """Return a single batch of magic 2 that ends with this offset."""
    with LogFile(run.path) as file:
        probe = Probe(file, end=run.stop, lowest=0)
        was = parse_batch(probe.head(run.start)).last_offset_delta
        ended = _with_checked(run, probe, "last_offset_delta", was, last_offset - run.first_offset)
    return replace(ended, last_offset=last_offset)


def _ended_at(run: Run, probe: Probe, batch: RecordBatch, records: Sequence[Record]) -> Run:
    """Return a single batch with these records, which are its first bytes up to the end of the run."""
    last, newest = records[-1].offset, batch.max_timestamp
    # With LogAppendTime every record takes its time from this field (DefaultRecordBatch.RecordIterator), so it stays.
    if not batch.attributes & TIMESTAMP_TYPE_BIT:
        newest = max(record.timestamp for record in records)
    run = set_field(run, "length", batch.length, run.size - LOG_OVERHEAD)
    run = set_field(run, "last_offset_delta", batch.last_offset_delta, last - batch.base_offset)
    run = set_field(run, "max_timestamp", batch.max_timestamp, newest)
    run = _with_checked(run, probe, "records_count", batch.records_count, len(records))
    return replace(run, last_offset=last, records=len(records), newest_timestamp=newest)


def _with_checked(run: Run, probe: Probe, name: str, was: int, value: int) -> Run:
    """Return a single batch with another value in a field under its CRC, and with the CRC that fits."""
    result = set_field(run, name, was, value)
    crc, at = 0, run.start + CRC_COVERS_FROM
    # From one mend to the next: the file's bytes in between, then the new ones in place of the file's. The length and
    # the epoch are before the bytes that the CRC covers.
    for mend in sorted(result.mends, key=lambda mend: mend.at):
        if mend.at >= at:
            crc = crc32c(mend.data, probe.crc32c(at, mend.at, crc))
            at = mend.at + len(mend.data)
    crc_was = next((mend.was for mend in run.mends if mend.field == "crc"), parse_batch(probe.head(run.start)).crc)
    others = tuple(mend for mend in result.mends if mend.field != "crc")
    return set_field(replace(result, mends=others), "crc", crc_was, probe.crc32c(at, run.stop, crc))


class _Walk:
    def __init__(
        self,
        file: LogFile,
        segment: int,
        cuts: Sequence[int],
        end: int,
        jobs: int,
        *,
        deep: bool,
        apart: bool = False,
    ) -> None:
        self._deep = deep
        self._file, self._segment, self._end, self._jobs = file, segment, end, jobs
        self._probe = Probe(file, end=end, lowest=segment)
        self._judge = DamageJudge(self._probe, segment, deep=deep)
        self._runs = _Builder(file.path, segment, cuts, self._probe, apart=apart)
        self._last_offset = segment - 1

    def stretches(self, at: int) -> Iterator[Stretch]:
        pool = RowPool()
        while at < self._end:
            # The kernel takes all that is plain; one odd place is looked at by itself; the kernel goes on behind it.
            for proved in walk_proved(self._file, at, pool, end=self._end, jobs=self._jobs, deep=self._deep):
                for rows, count in proved.rows:
                    yield from self._runs.add_rows(rows, count)
                at = proved.reached
            if at < self._end:
                for stretch in self._not_plain(at):
                    yield from self._runs.add(stretch)
                    at = stretch.stop
        yield from self._runs.take()

    def _not_plain(self, at: int) -> Iterator[Stretch]:
        """Yield what begins at a byte where no plain entry does."""
        # An entry that proves itself is no damage, whatever is wrong inside: its end can be trusted.
        judged = self._probe.judge(at, deep=self._deep)
        if judged is not None:
            yield from self._judged(judged)
            return
        for damage in self._judge.judge(at, self._runs.last_offset):
            inside = self._proved_inside(damage)
            if inside is not None:
                # The rest was judged from the end of this damage, behind `inside`: it is judged anew from there.
                yield self._rejected(at, inside, damage.id, damage.reason, None, None)
                return
            yield self._damaged(damage)
            at = damage.end

    def _proved_inside(self, damage: Damage) -> int | None:
        """Return where an entry inside damaged bytes proves itself. If it is part of the records of a damaged entry,
        that one ends where another entry proves itself, or at the log's end."""
        if damage.entry is not None or damage.end == self._end or self._probe.judge(damage.end) is not None:
            return None
        result = self._probe.next_proved(damage.start + 1)
        return result if result is not None and result < damage.end else None

    def _judged(self, judged: Judged) -> Iterator[Stretch]:
        facts = judged.facts
        if judged.is_sound:
            yield self._runs.run_of(facts)
            return
        # Consumers get these records although a header field is impossible, so to reject them would lose them.
        if self._deep and (judged.is_served or self._is_wrapper_elsewhere(judged)):
            shallow = self._probe.judge(facts.position) or judged  # of a wrapper the offsets are looked into
            yield self._runs.run_of(shallow.facts)
            return
        whole = recounted(self._probe.batch(facts)) if self._deep and facts.magic == MAGIC else None
        if whole is not None:
            run = self._runs.run_of(facts)
            counted = _with_checked(run, self._probe, "records_count", run.records, whole.records_count)
            yield replace(counted, records=whole.records_count)
            return
        cause = Kind.BATCH_ATTRIBUTES if judged.contradiction is not None else Kind.RECORDS_INVALID
        detail = RejectedCause.CHECKSUM_MATCHES(wrong=judged.wrong or "")
        head = self._head_of(judged) if self._deep else None
        if head is None:
            yield self._rejected(facts.position, facts.end, cause, detail, facts.first_offset, facts.last_offset)
            return
        yield head
        yield self._rejected(head.stop, facts.end, cause, detail, head.last_offset + 1, facts.last_offset)

    def _head_of(self, judged: Judged) -> Run | None:
        """Return a batch that ends before its damage, as one batch of the records that consumers get; None if they get
        none, or as many as a decompressor gives."""
        facts = judged.facts
        is_plain = facts.magic == MAGIC and not facts.attributes & (CODEC_MASK | CONTROL_BIT)
        if not is_plain or judged.contradiction is not None or judged.unchecked is not None:
            return None
        batch = self._probe.batch(facts)
        records, size = read_head(batch)
        if not records:
            return None
        run = replace(self._runs.run_of(facts), stop=facts.position + RECORD_BATCH_OVERHEAD + size)
        return _ended_at(run, self._probe, batch, records)

    def _is_wrapper_elsewhere(self, judged: Judged) -> bool:
        """Return whether it is a wrapper of magic 1 whose messages can be read if its offset is another one."""
        facts = judged.facts
        if facts.magic != 1 or facts.first_offset != NOT_TOLD or judged.contradiction is not None:
            return False
        message = message_of(self._probe.read(facts.position, facts.size), facts.position)
        return judge_message(replace(message, offset=_HIGH), deep=True).is_readable

    def _damaged(self, damage: Damage) -> Stretch:
        if damage.entry is None or not damage.entry.is_sound or damage.field is None:
            first, last = self._claimed(damage)
            return self._rejected(damage.start, damage.end, damage.id, damage.reason, first, last)
        run = self._runs.run_of(damage.entry.facts)
        if damage.field == "magic":
            was = self._probe.head(damage.start)[_MAGIC_AT]
            return set_field(run, "magic", was - 256 if was > 127 else was, MAGIC)
        was = int.from_bytes(self._probe.head(damage.start)[_LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
        return set_field(run, "length", was, damage.size - LOG_OVERHEAD)

    def _claimed(self, damage: Damage) -> tuple[int | None, int | None]:
        """Return the offsets that a damaged batch claims, if its length is right and two fields agree. Its neighbours
        are checked later."""
        frame = self._probe.frame(damage.start) if damage.id == Kind.BATCH_CRC else None
        if not isinstance(frame, Frame) or frame.size != damage.size or frame.magic != MAGIC:
            return damage.first_offset, damage.last_offset
        if not self._probe.looks_like_entry(damage.start):
            return None, None
        facts = batch_facts(parse_batch(self._probe.head(damage.start)))
        # The CRC is wrong, so one field alone proves nothing. Offsets and count have to agree.
        if facts.last_offset - facts.first_offset + 1 != facts.records_count:
            return None, None
        return facts.first_offset, facts.last_offset

    def _rejected(
        self, start: int, stop: int, cause: str, detail: Text, first: int | None, last: int | None
    ) -> Rejected:
        if first is not None and (first == NOT_TOLD or last is None or not self._segment <= first <= last):
            first = last = None
        return Rejected(self._file.path, self._segment, start, stop, cause, detail, first, last)


_HIGH = 1 << 40
_LENGTH_AT, _MAGIC_AT = (
    next(at for field, at, _ in field_positions(BATCH_HEADER) if field == name) for name in ("length", "magic")
)
_FIRST, _LAST, _RECORDS, _MAGIC, _EPOCH, _NEWEST = (
    FACTS.index(name)
    for name in ("first_offset", "last_offset", "records_count", "magic", "partition_leader_epoch", "max_timestamp")
)


def _run_of(path: str, segment: int, facts: EntryFacts) -> Run:
    first, last = facts.first_offset, facts.last_offset
    if first == NOT_TOLD:
        first = last
    elif last < first:
        # The base offset is so high that the last offset wraps around; or a wrapper's offset is below its last
        # message's.
        first, last = (first, last + (1 << 64)) if facts.magic >= MAGIC else (last, last)
    return Run(
        path,
        segment,
        facts.position,
        facts.end,
        first,
        last,
        1,
        facts.records_count,
        facts.magic,
        facts.partition_leader_epoch,
        newest_timestamp=facts.max_timestamp,
    )


class _Builder:
    """Joins batches to runs, or none (apart). last_offset: of the last batch so far."""

    def __init__(self, path: str, segment: int, cuts: Sequence[int], probe: Probe, *, apart: bool) -> None:
        self._apart = apart
        self._path, self._segment, self._cuts, self._probe = path, segment, cuts, probe
        self.last_offset = segment - 1
        self._run: Run | None = None
        self._below: int | None = None  # the first cut after this run

    def add(self, stretch: Stretch) -> Iterator[Stretch]:
        """Add a stretch; yield the run before it if the two do not fit together."""
        if isinstance(stretch, Rejected):
            # The run before it must come out first: stretches are in the order of the file.
            yield from self.take()
            yield stretch
            return
        run, self.last_offset = self._run, stretch.last_offset
        if run is None or not self._goes_on(run, stretch):
            yield from self.take()
            nth = bisect_right(self._cuts, stretch.first_offset)
            self._run, self._below = stretch, self._cuts[nth] if nth < len(self._cuts) else None
            return
        self._run = replace(
            run,
            stop=stretch.stop,
            last_offset=stretch.last_offset,
            batches=run.batches + stretch.batches,
            records=run.records + stretch.records,
            newest_timestamp=max(run.newest_timestamp, stretch.newest_timestamp),
        )

    def add_rows(self, rows: array[int], count: int) -> Iterator[Stretch]:
        """Add plain entries that are consecutive in the file."""
        firsts = rows[_FIRST : count * WIDTH : WIDTH]
        cuts = self._cuts[bisect_right(self._cuts, firsts[0]) : bisect_right(self._cuts, firsts[-1])]
        edges = sorted({0, *(bisect_left(firsts, cut) for cut in cuts), count})
        for start, stop in pairwise(edges):
            yield from self._add_part(rows[start * WIDTH : stop * WIDTH], stop - start)

    def _add_part(self, rows: array[int], count: int) -> Iterator[Stretch]:
        together = self._together(rows, count)
        if together is not None:
            yield from self.add(together)
            return
        for at in range(0, count * WIDTH, WIDTH):
            yield from self.add(self.run_of(EntryFacts(*rows[at : at + WIDTH])))

    def run_of(self, facts: EntryFacts) -> Run:
        """Return a run of one entry."""
        run = _run_of(self._path, self._segment, facts)
        return self._looked_into(run) if facts.first_offset == NOT_TOLD else run

    def _looked_into(self, run: Run) -> Run:
        """Return a wrapper with its first offset and number of records, if it can be decompressed. The inner messages
        of a wrapper of magic 0 have absolute offsets, covered by the CRC; the last one equals the wrapper's."""
        message = message_of(self._probe.read(run.start, run.size), run.start)
        # Under a wrapper of magic 1 offsets are relative, and must not become negative.
        message = message if run.magic == 0 else replace(message, offset=_HIGH)
        try:
            offsets = [record.offset for record in message.records()]
        except KlogError:
            return run
        run = replace(run, first_offset=min(offsets[0], offsets[-1]), records=len(offsets))
        if run.magic != 0:
            return replace(run, first_offset=run.last_offset - (offsets[-1] - run.first_offset))
        if run.last_offset == offsets[-1]:
            return run
        mended = set_field(run, "base_offset", run.last_offset, offsets[-1])
        return replace(mended, last_offset=offsets[-1])

    def _together(self, rows: array[int], count: int) -> Run | None:
        """Return all these entries as one run if they fit together, without a line of Python for each of them."""
        whole = count * WIDTH
        firsts, lasts = rows[_FIRST:whole:WIDTH], rows[_LAST:whole:WIDTH]
        records, magics, epochs = (rows[column:whole:WIDTH] for column in (_RECORDS, _MAGIC, _EPOCH))
        if self._apart or magics.count(MAGIC) < count or epochs.count(epochs[0]) < count:
            return None
        if any(map(gt, firsts, lasts)) or any(map(le, firsts[1:], lasts)):
            return None
        if bisect_right(self._cuts, firsts[0]) != bisect_right(self._cuts, firsts[-1]):
            return None
        start, end = EntryFacts(*rows[:WIDTH]).position, EntryFacts(*rows[whole - WIDTH : whole]).end
        path, segment = self._path, self._segment
        newest = max(rows[_NEWEST:whole:WIDTH])
        return Run(path, segment, start, end, firsts[0], lasts[-1], count, sum(records), MAGIC, epochs[0], (), newest)

    def take(self) -> Iterator[Run]:
        """Yield the current run, if there is one."""
        run, self._run = self._run, None
        if run is not None:
            yield run

    def _goes_on(self, run: Run, batch: Run) -> bool:
        return (
            not self._apart
            and batch.start == run.stop
            and (batch.magic, batch.epoch) == (run.magic, run.epoch)
            and batch.first_offset > run.last_offset
            and (self._below is None or batch.first_offset < self._below)
            and not (run.mends or batch.mends)
        )
