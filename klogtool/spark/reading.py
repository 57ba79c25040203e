"""The records of a split as Arrow record batches: what one task does, with or without Spark."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import from_text
from klogtool.errors import Changed, Corrupt, KlogError
from klogtool.log.file import LogFile
from klogtool.log.probing import ends_in_zeros
from klogtool.log.windows import SLACK_BYTES
from klogtool.render.arrow import LogPart, RecordQuery, Tally, schema, walk_record_batches
from klogtool.render.arrow_batches import BatchMaker, Common, Extract
from klogtool.render.arrow_memory import Blocks
from klogtool.render.arrow_reference import column_text
from klogtool.render.selection import LARGEST, SMALLEST, Selection
from klogtool.salvage.mended_entries import SetRight
from klogtool.spark.causes import LogCause
from klogtool.spark.filters import Bounds
from klogtool.spark.head_columns import walk_head_rows
from klogtool.spark.heads import FAR_PIECE_BYTES, Head, walk_heads
from klogtool.spark.left_out import walk_left_out
from klogtool.spark.notes import log_mended, log_warning
from klogtool.spark.owners import OWNER, columns_of_ddl
from klogtool.spark.planning import SegmentRange, Split
from klogtool.spark.read_committed import AbortedRange

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_COLUMNS = columns_of_ddl(
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
"""Names and types of the columns that Spark's kafka source has, too."""
PATH_COLUMN = "_path"
OWNER_COLUMNS = tuple(f"_{name}" for name in OWNER)
METADATA_COLUMNS = columns_of_ddl(
    "_segment string, _position bigint, _batch_base_offset bigint, _producer_id bigint, _producer_epoch smallint, "
    "_sequence int, _is_control boolean, _is_transactional boolean, _compression string, _crc_ok boolean, "
    "_partition_leader_epoch int, _path string"
) | dict(zip(OWNER_COLUMNS, OWNER.values(), strict=True))
PLACE_COLUMNS = frozenset({PATH_COLUMN, *OWNER_COLUMNS})
SMALL_BYTES = 4 << 20
MOST_FREE_BYTES = 256 << 20
OF_A_FILE = PLACE_COLUMNS | {"_segment"}
PRODUCER_COLUMNS = ("offset", "_producer_id", "_is_transactional")


class Task(Struct, frozen=True):
    """How splits are read. columns: of render.arrow; mode: how to treat damage.

    most_left_out: in so many places at most something may be left out of a split; None: in any number.
    """

    columns: tuple[str, ...]
    bounds: Bounds
    mode: str
    most_left_out: int | None = None

    @property
    def is_strict(self) -> bool:
        """Whether the first damage is an error."""
        return self.mode == "FAILFAST"


def columns_of(*, headers: bool, metadata: bool) -> tuple[str, ...]:
    """The columns of records, in order."""
    return (*RECORD_COLUMNS, *(["headers"] if headers else []), *(METADATA_COLUMNS if metadata else []))


def read_split(split: Split, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, in order, in non-empty record batches of at most 65 536 rows.

    Control records are left out. FAILFAST: raises Corrupt or Unsupported at the first damage, including a wrong CRC,
    and offsets that go back or are not those of the segment. PERMISSIVE: returns what can be read. DROPMALFORMED: the
    same, without batches with a wrong CRC. What is left out is logged. Raises Unreadable if a file no longer exists.
    """
    spare_collections()
    # Memory of earlier splits is used again: touching new pages costs as much as decoding. It is dropped if records of
    # many sizes have left too much.
    if _blocks().free_bytes > MOST_FREE_BYTES:
        _blocks.cache_clear()
    blocks, left_out = _blocks(), LeftOutCount(task.most_left_out)
    for run in _runs([part for whole in split.parts for part in _with_strays(whole, task)], task):
        for batch in _Reader(run, task, blocks, left_out).read():
            if batch.num_rows:
                yield batch


@cache
def spare_collections() -> None:
    """Freeze existing objects, once per process: Spark's workers collect garbage after every task, which takes 40 ms
    over all modules."""
    gc.collect()
    gc.freeze()


@cache
def _blocks() -> Blocks:
    return Blocks()


def _with_strays(part: SegmentRange, task: Task) -> Iterator[SegmentRange]:
    """Yield a range, and before and behind it what its index leaves out of the segment although it may be wanted.

    A base offset is under no checksum: a batch with a wrong one may be anywhere. FAILFAST believes the headers, because
    damage is an error to who reads it all. Without it, the header of a damaged batch proves nothing of its records.
    """
    flanks = [replace(part, start=start, end=end, flanks=(), is_flank=True) for start, end in part.flanks]
    read = [flank for flank in flanks if not task.is_strict or holds_wanted(flank, task.bounds.offsets)]
    yield from (flank for flank in read if flank.start < part.start)
    yield replace(part, flanks=())
    yield from (flank for flank in read if flank.start >= part.end)


def holds_wanted(flank: SegmentRange, offsets: tuple[int, int]) -> bool:
    """Return whether a header before the first damage claims a wanted offset. Raises Unreadable, Changed."""
    first, last = max(flank.first_offset, offsets[0]), min(flank.last_offset, offsets[1])
    with flank.open(ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            for rows in walk_head_rows(file, flank.start, flank.end, may_be_preallocated=flank.is_active):
                if rows.may_hold(first, last):
                    return True
        except Corrupt:
            pass
    return False


def _runs(parts: Sequence[SegmentRange], task: Task) -> Iterator[list[SegmentRange]]:
    """Group small consecutive ranges of a partition: they share record batches. All others stay alone."""
    run: list[SegmentRange] = []
    for part in parts:
        if run and (not OF_A_FILE.isdisjoint(task.columns) or not _share(run[-1], part)):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _share(one: SegmentRange, other: SegmentRange) -> bool:
    same = (one.place, os.path.dirname(one.log.path)) == (other.place, os.path.dirname(other.log.path))
    return same and max(one.end - one.start, other.end - other.start) <= SMALL_BYTES


class LeftOutCount:
    """Counts the places where a split is not read, up to a limit. is_damaged: whether something was found since then.

    They are those of the table `left_out`: a part with damage is read once more, since a batch may have several faults.
    """

    def __init__(self, most: int | None) -> None:
        self._most, self._count, self.is_damaged = most, 0, False

    def tell(self, error: KlogError) -> None:
        """Log an error; what could be read although it is damaged is not left out."""
        if isinstance(error, SetRight):
            log_mended(error)
            return
        log_warning(f"left out: {error}")
        self.is_damaged = True

    def count(self, part: SegmentRange, task: Task) -> None:
        """Count the places of a part that was read. Raises Corrupt if there are too many."""
        if self._most is None or not self.is_damaged:
            return
        self.is_damaged = False
        first, last = _offsets_of(part, task.bounds)
        wanted = replace(part, first_offset=first, last_offset=last)
        for unread in walk_left_out(wanted, drops_malformed=task.mode == "DROPMALFORMED"):
            self._count += 1
            if self._count > self._most:
                raise Corrupt(from_text(unread.reason), path=unread.path, position=unread.start)


class _Reader:
    """Reads a run of ranges. invalid: batches with a wrong CRC so far. astray: with offsets of another segment."""

    def __init__(self, run: list[SegmentRange], task: Task, blocks: Blocks, left_out: LeftOutCount) -> None:
        self._run, self._task, self._blocks, self._left_out = run, task, blocks, left_out
        self._aborted = tuple(dict.fromkeys(txn for part in run for txn in part.aborted))
        extra = PRODUCER_COLUMNS if self._aborted else ()
        self._wanted = [name for name in task.columns if name not in PLACE_COLUMNS]
        self._columns = tuple(dict.fromkeys((*self._wanted, *extra, "_crc_ok")))
        self._maker: BatchMaker | None = None
        self._tally, self._invalid, self._astray = Tally(), 0, 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield its record batches."""
        for part in self._run:
            upto = min(part.log.size, part.end + SLACK_BYTES)  # nothing after it is fetched
            with part.open(upto=upto) as file:
                for batch in self._walk(file, part):
                    self._judge(file, part)
                    yield self._with_place(self._left(batch), part, file.path)
                self._judge(file, part)
                if self._task.is_strict:
                    self._judge_next(file, part)
            if not part.is_flank:
                self._left_out.count(part, self._task)
        if self._maker is not None:
            for batch in self._maker.rest().items:
                yield self._left(batch)

    def _walk(self, file: LogFile, part: SegmentRange) -> Iterator[pa.RecordBatch]:
        whole = part.next_base_offset is not None and part.end == part.log.size
        strict, selection = self._task.is_strict, _selection(part, self._task.bounds)
        if len(self._run) > 1 and self._maker is None:
            kind = schema(self._columns)
            extract = Extract(file, part.end, part.topic, part.partition, kind, selection, with_control=False)
            self._maker = BatchMaker(extract, Common(self._blocks), holds=True)
        end = None if whole else part.end  # nothing may follow the last batch of a whole segment
        is_preallocated = ends_in_zeros if part.is_active else None
        log_part = LogPart(part.topic, part.partition, part.start, end, is_preallocated, part.offsets, part.is_cut)
        query = RecordQuery(
            columns=self._columns,
            selection=selection,
            with_control=False,
            on_damage=partial(fail, file, part) if strict else _ignore if part.is_flank else self._left_out.tell,
            resync=not strict,
            jobs=1,
            tally=self._tally,
        )
        return walk_record_batches(file, log_part, query, blocks=self._blocks, maker=self._maker)

    def _judge(self, file: LogFile, part: SegmentRange) -> None:
        """Handle batches with a wrong CRC, or with offsets that cannot be theirs."""
        self._judge_offsets(file, part)
        if self._tally.invalid == self._invalid:
            return
        self._invalid = self._tally.invalid
        if part.is_flank and not self._task.is_strict:
            return
        self._left_out.is_damaged = True
        path, position = self._tally.first_invalid or (file.path, None)
        error = Corrupt(LogCause.WRONG_CRC(), path=path, position=position)
        if self._task.is_strict:
            fail(file, part, error)
            return
        if self._task.mode == "DROPMALFORMED":
            log_warning(f"left out: {error}")
        else:
            log_warning(f"read as far as possible: {error}")

    def _judge_offsets(self, file: LogFile, part: SegmentRange) -> None:
        tally = self._tally
        more, self._astray = tally.astray - self._astray, tally.astray
        is_joined = more and part.log.is_replaced_by(file)  # the cleaner has put it and the next ones into one file
        if is_joined and (self._task.is_strict or self._task.most_left_out is not None):
            raise Changed(LogCause.CHANGED(), path=file.path)
        if self._task.is_strict:
            places = [(tally.first_astray, LogCause.ASTRAY()), (tally.first_backward, LogCause.BACKWARD())]
            tally.first_astray = tally.first_backward = None
            wrong = [(place, why) for place, why in places if place is not None]
            for place, why in sorted(wrong, key=itemgetter(0)):
                fail(file, part, Corrupt(why, path=place[0], position=place[1]))
        elif more and not part.is_flank:
            path, position = tally.first_astray or (file.path, None)
            self._left_out.tell(Corrupt(LogCause.ASTRAY(), path=path, position=position))

    def _judge_next(self, file: LogFile, part: SegmentRange) -> None:
        """Raise an error if the batch behind a range does not continue it: nobody else compares the two."""
        if not part.is_cut or self._tally.highest is None:
            return
        head = next(_readable_heads(file, replace(part, start=part.end, end=part.log.size)), None)
        if head is not None and head.first_offset <= self._tally.highest:
            fail(file, part, Corrupt(LogCause.BACKWARD(), path=file.path, position=part.end))

    def _left(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows that must not be seen, and columns that are not wanted."""
        import pyarrow.compute as pc

        if self._aborted:
            batch = batch.filter(pc.invert(_is_aborted(batch, self._aborted)))
        if self._invalid and self._task.mode == "DROPMALFORMED":
            batch = batch.filter(batch.column("_crc_ok"))
        return batch if not self._wanted or batch.schema.names == self._wanted else batch.select(self._wanted)

    def _with_place(self, batch: pa.RecordBatch, part: SegmentRange, path: str) -> pa.RecordBatch:
        """Add where the file is, if it is wanted: then no record batch has rows of several files."""
        import pyarrow as pa

        columns = self._task.columns
        if PLACE_COLUMNS.isdisjoint(columns):
            return batch
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays[PATH_COLUMN] = pa.repeat(pa.scalar(column_text(path), pa.string()), batch.num_rows)
        if not set(OWNER_COLUMNS).isdisjoint(columns):
            arrays |= zip(OWNER_COLUMNS, part.owner(path).arrays(batch.num_rows).values(), strict=True)
        return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


def _selection(part: SegmentRange, bounds: Bounds) -> Selection | None:
    first, last = _offsets_of(part, bounds)
    if (first, last, bounds.timestamps, bounds.key) == (SMALLEST, LARGEST, (SMALLEST, LARGEST), None):
        return None
    return Selection((first, last), bounds.timestamps, key=bounds.key)


def _offsets_of(part: SegmentRange, bounds: Bounds) -> tuple[int, int]:
    return max(part.first_offset, bounds.offsets[0]), min(part.last_offset, bounds.offsets[1])


def _ignore(_: KlogError) -> None:
    """Say nothing of damage where the index has nothing that is wanted."""


def fail(file: LogFile, part: SegmentRange, error: KlogError) -> None:
    """Raise an error about the bytes, unless all that is wanted of the range is before them."""
    if error.position is None or not _is_behind(file, part, error.position):
        raise error


def _is_behind(file: LogFile, part: SegmentRange, position: int) -> bool:
    """Return whether all wanted offsets are in batches before a position, and none in a later one.

    A base offset is under no checksum. That of the batch with the last wanted offset counts if the batch before it
    ends there, or if the next one's is higher.
    """
    if not part.ends_before_the_segment:
        return False
    highest = (part.next_base_offset or LARGEST) - 1
    is_behind, next_offset = False, part.base_offset
    for head in _readable_heads(file, part):
        first, last = head.first_offset, head.entry.last_offset
        if is_behind:
            if first <= part.last_offset:
                return False
            continue
        if not next_offset <= first <= last <= highest:
            return False
        is_behind = next_offset > part.last_offset
        if not is_behind:
            if head.end > position:
                return False
            is_behind = first == next_offset and last >= part.last_offset
        next_offset = last + 1
    return is_behind


def _readable_heads(file: LogFile, part: SegmentRange) -> Iterator[Head]:
    """Yield headers up to an impossible length."""
    try:
        yield from walk_heads(file, part.start, part.end)
    except Corrupt:
        return


def _is_aborted(batch: pa.RecordBatch, aborted: Sequence[AbortedRange]) -> Any:
    """Return which rows belong to aborted transactions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_aborted = pa.repeat(pa.scalar(False), batch.num_rows)
    for txn in aborted:
        ours = pc.equal(batch.column("_producer_id"), txn.producer_id)
        since = pc.greater_equal(batch.column("offset"), txn.first_offset)
        until = pc.less_equal(batch.column("offset"), txn.last_offset)
        is_aborted = pc.or_(is_aborted, pc.and_(ours, pc.and_(since, until)))
    return pc.and_(is_aborted, batch.column("_is_transactional"))
