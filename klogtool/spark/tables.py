"""The tables of a log dir: records, batches, segments, findings and left_out; their columns, and the rows of three.

Names and values of `batches` and `findings` are those of `klogtool dump-log --format json` and of `klogtool verify`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import astuple

from klogtool.decoding.record_values import Formats
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import CONTROL_BIT, NO_TIMESTAMP, TRANSACTIONAL_BIT
from klogtool.format.codecs import CODEC_NAMES
from klogtool.format.names import INDEX_KINDS
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.probing import Probe, ends_in_zeros
from klogtool.log.resync import find_next_batch
from klogtool.render.arrow_reference import column_text
from klogtool.render.decoded_columns import DecodedColumns, decoded_schema
from klogtool.render.internal_columns import InternalColumns
from klogtool.render.selection import LARGEST, SMALLEST
from klogtool.salvage.mended_entries import MAGIC, hides_entries, mended
from klogtool.spark.batch_columns import BATCH_COLUMNS, codec_of
from klogtool.spark.causes import LogCause, OptionCause
from klogtool.spark.head_columns import HeadRows, walk_head_rows
from klogtool.spark.heads import FAR_PIECE_BYTES, Head
from klogtool.spark.left_out import walk_left_out
from klogtool.spark.notes import log_mended, log_warning
from klogtool.spark.owners import OWNER, Owner, columns_of_ddl
from klogtool.spark.planning import SegmentRange, Split
from klogtool.spark.reading import (
    METADATA_COLUMNS,
    RECORD_COLUMNS,
    Task,
    columns_of,
    fail,
    read_split,
    spare_collections,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from klogtool.spark.filters import Bounds
    from klogtool.spark.options import Query, Shape

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
RECORDS = {**RECORD_COLUMNS, "headers": HEADERS_TYPE, **METADATA_COLUMNS}
PLACE = columns_of_ddl("topic string, partition int, file string")
BATCHES = PLACE | {name: column.type for name, column in BATCH_COLUMNS.items()}
LISTED = PLACE | columns_of_ddl(
    "base_offset bigint, size bigint, modified timestamp, is_active boolean, "
    "index_size bigint, timeindex_size bigint, txnindex_size bigint"
)
"""Columns of a segment that are known without reading it."""
WALKED = columns_of_ddl(
    "last_offset bigint, valid_bytes bigint, batches bigint, records bigint, control_batches bigint, "
    "transactional_batches bigint, largest_batch bigint, max_timestamp bigint, magics array<int>, codecs array<string>"
)
"""Columns of a segment from the headers of its batches."""
FINDINGS = columns_of_ddl(
    "topic string, partition int, id string, severity string, path string, detail string, "
    "start bigint, end bigint, first_offset bigint, last_offset bigint, field string, cure string"
)
LEFT_OUT = columns_of_ddl(
    "topic string, partition int, path string, "
    "start bigint, end bigint, first_offset bigint, last_offset bigint, reason string"
)
TABLES = {
    "records": RECORDS,
    "batches": BATCHES | OWNER,
    "segments": LISTED | WALKED | OWNER,
    "findings": FINDINGS | OWNER,
    "left_out": LEFT_OUT | OWNER,
}
ROWS_AT_ONCE = 1 << 14
OFFSET_BYTES = 8

Row = tuple[Any, ...]


def default_columns(shape: Shape) -> tuple[str, ...]:
    """Return the columns of a table that the options select. Raises Refused for an unknown column."""
    if shape.columns is not None:
        return checked_columns(shape, shape.columns)
    if shape.table != "records":
        return tuple(TABLES[shape.table])
    plain = columns_of(headers=shape.include_headers, metadata=shape.include_metadata)
    if shape.internal is None:
        return (*plain, *decoded_schema(shape.formats).names)
    return (*_internal_columns(shape.internal).schema.names, *plain[len(RECORD_COLUMNS) :])


def table_schema(shape: Shape, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return names and types of columns of a table, as Spark wants them; of all that the table can have for None."""
    import pyarrow as pa

    fields = list(arrow_schema(shape.table, tuple(TABLES[shape.table])))
    if shape.internal is not None:
        fields = [*_internal_columns(shape.internal).schema, *fields[len(RECORD_COLUMNS) :]]
    every = pa.schema([*fields, *decoded_schema(shape.formats)])
    return every if columns is None else pa.schema([every.field(name) for name in columns])


def _internal_columns(topic: str) -> InternalColumns:
    return InternalColumns(topic, arrow_schema("records", tuple(RECORD_COLUMNS)))


def derived_columns(query: Query) -> DecodedColumns | InternalColumns | None:
    """Return how the columns are made that records do not have as they are; None if the query has none of these.

    Raises KlogError for a format that does not exist, or without the package that it needs.
    """
    shape = query.shape
    if shape.internal is not None:
        return _internal_columns(shape.internal)
    return DecodedColumns(shape.formats, query.schemas) if shape.formats != Formats() else None


def checked_columns(shape: Shape, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns as the table spells them: case does not matter. Raises Refused for a column that a table does
    not have, or that is named twice."""
    every = table_schema(shape).names
    spelled = {name.lower(): name for name in every}
    wrong = [name for name in columns if name.lower() not in spelled]
    known = tuple(spelled[name.lower()] for name in columns if name.lower() in spelled)
    if wrong or len(set(known)) < len(known) or not columns:
        raise Refused(OptionCause.NO_COLUMN(table=shape.table, names=tuple(wrong or columns), columns=tuple(every)))
    return known


def arrow_schema(table: str, columns: Sequence[str]) -> pa.Schema:
    """Return the types of columns that a table always has, as Spark wants them."""
    import pyarrow as pa

    kinds = {sql: pa.type_for_alias(name) for name, sql in _SQL_TYPES.items()} | {
        "timestamp": pa.timestamp("us", "UTC"),
        "array<int>": pa.list_(pa.int32()),
        "array<string>": pa.list_(pa.string()),
        HEADERS_TYPE: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, kinds[TABLES[table][name]]) for name in columns])


def ddl(schema: pa.Schema) -> str:
    """Return a schema in Spark's DDL."""
    return ", ".join(f"`{field.name}` {_sql_type(field.type)}" for field in schema)


def _sql_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"array<{_sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{field.name}`:{_sql_type(field.type)}' for field in kind)}>"
    return "timestamp" if pa.types.is_timestamp(kind) else _SQL_TYPES[str(kind)]


_SQL_TYPES = {
    "binary": "binary",
    "string": "string",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
}


def read_records(split: Split, query: Query, columns: Sequence[str], bounds: Bounds) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, as `read_split` does, with the columns that are made of keys and values."""
    import pyarrow as pa

    derived = derived_columns(query)
    own = [] if derived is None else [name for name in columns if name in derived.schema.names]
    if derived is None or not own:
        yield from read_split(split, Task(tuple(columns), bounds, query.mode, query.most_left_out))
        return
    plain = [name for name in columns if name not in own]
    read = tuple(dict.fromkeys((*plain, *derived.needs(own))))
    for records in read_split(split, Task(read, bounds, query.mode, query.most_left_out)):
        topic = records.column("topic")[0].as_py() if "topic" in read else None
        arrays = derived.arrays(records, topic, own) | {name: records.column(name) for name in plain}
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


def read_table(split: Split, table: str, columns: Sequence[str], *, mode: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split of batches, segments or left_out, in non-empty record batches."""

    spare_collections()
    rows = (row for part in split.parts for row in _rows_of(table, part, columns, mode))
    ready: list[pa.RecordBatch] = []
    for batch in _in_batches(rows, list(TABLES[table]), arrow_schema(table, columns)):
        ready.append(batch)
        if sum(some.num_rows for some in ready) >= ROWS_AT_ONCE:
            yield _joined(ready)
    if ready:
        yield _joined(ready)


def _in_batches(
    items: Iterable[Row | pa.RecordBatch], names: Sequence[str], kind: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches, between those that are some already."""
    import pyarrow as pa

    for is_row, some in groupby(items, key=lambda one: isinstance(one, tuple)):
        if not is_row:
            yield from some
        while is_row and (rows := list(islice(some, ROWS_AT_ONCE))):
            values = dict(zip(names, zip(*rows, strict=True), strict=True))
            yield pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in kind], schema=kind)


def _rows_of(table: str, part: SegmentRange, columns: Sequence[str], mode: str) -> Iterator[Row | pa.RecordBatch]:
    if table == "left_out":
        return _left_out_rows(part, columns, mode)
    walk = _batch_rows if table == "batches" else _segment_rows
    return walk(part, columns, is_strict=mode == "FAILFAST")


def _owner_of(part: SegmentRange, columns: Sequence[str], path: str) -> Owner:
    """Return whose a file is, if a column of it is wanted."""
    return Owner() if OWNER.keys().isdisjoint(columns) else part.owner(path)


def _left_out_rows(part: SegmentRange, columns: Sequence[str], mode: str) -> Iterator[Row]:
    for unread in walk_left_out(part, drops_malformed=mode == "DROPMALFORMED"):
        yield (
            part.topic,
            part.partition,
            column_text(unread.path),
            *astuple(unread)[1:-1],
            column_text(unread.reason),
            *astuple(_owner_of(part, columns, unread.path)),
        )


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join record batches to one, and empty the list: thousands of small files become a few record batches."""
    import pyarrow as pa

    joined = batches[0]
    if len(batches) > 1:
        (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    batches.clear()
    return joined


def _batch_rows(part: SegmentRange, columns: Sequence[str], *, is_strict: bool) -> Iterator[Row | pa.RecordBatch]:
    kind = arrow_schema("batches", columns)
    with part.open(ahead_bytes=FAR_PIECE_BYTES) as file:
        common, owner = (part.topic, part.partition, file.path), _owner_of(part, columns, file.path)
        for heads in _heads(file, part, is_strict=is_strict):
            if isinstance(heads, HeadRows):
                batch = _within(batch_columns(heads, common, owner, kind), heads, part)
                if batch.num_rows:
                    yield batch
            elif heads.entry.last_offset >= part.first_offset and (heads.entry.base_offset or 0) <= part.last_offset:
                own = (column.of_head(heads, name) for name, column in BATCH_COLUMNS.items())
                yield (*common, *own, *astuple(owner))


def _within(batch: pa.RecordBatch, rows: HeadRows, part: SegmentRange) -> pa.RecordBatch:
    """Keep the rows with offsets that the query wants."""
    import pyarrow.compute as pc

    if part.first_offset == SMALLEST and part.last_offset == LARGEST:
        return batch
    ends = pc.greater_equal(rows.column("last_offset"), part.first_offset)
    return batch.filter(pc.and_(ends, pc.less_equal(rows.column("base_offset"), part.last_offset)))


def _heads(file: LogFile, part: SegmentRange, *, is_strict: bool) -> Iterator[Head | HeadRows]:
    """Yield headers. Unless damage is an error, this includes batches that `mended` corrects, and continues after other
    damage with the next sound batch."""
    if is_strict:
        yield from _in_order(file, part)
        return
    at: int | None
    at = start = yield from _calm_heads(file, part)
    if start < part.end:
        file = mended(file, start=start, end=part.end, on_mended=log_mended)
    while at is not None and at < part.end:
        try:
            for heads in walk_head_rows(file, at, part.end, may_be_preallocated=part.is_active):
                yield heads
                at = heads.end
        except KlogError as error:
            if isinstance(error, Unreadable):
                raise
            log_warning(f"left out: {error}")
        at = find_next_batch(file, at + 1, end=part.end, lowest=part.base_offset)


def _in_order(file: LogFile, part: SegmentRange) -> Iterator[Head | HeadRows]:
    """Yield headers. Raises Corrupt if offsets go back, or are not those of the segment, or if what is left is not
    the log's end."""
    lowest, highest = part.offsets
    last, start, end = SMALLEST, part.start, part.start
    for heads in walk_head_rows(file, part.start, part.end, may_be_preallocated=part.is_active):
        if not isinstance(heads, Head):
            position = heads.find_disorder(last, lowest, highest)
        elif max(lowest, last + 1) <= heads.first_offset and heads.entry.last_offset <= highest:
            position = None
        else:
            position = heads.position
        if position is not None:
            fail(file, part, Corrupt(LogCause.OUT_OF_ORDER(), path=file.path, position=position))
        yield heads
        last, end = max(last, _last_offset_of(heads)), heads.end
        start = heads.position if isinstance(heads, Head) else heads.number("position", heads.count - 1)
    if end < part.end and (part.is_cut or not part.is_active or _is_damaged_end(file, start, end, part)):
        reason = f"{part.end - end} bytes at the end are not a whole batch"
        fail(file, part, Corrupt(reason, path=file.path, position=end))


def _is_damaged_end(file: LogFile, last: int, position: int, part: SegmentRange) -> bool:
    """Return whether the entry at `last`, or what is behind it at `position`, is not the end of a log."""
    is_sound = Probe(file, end=part.end, lowest=part.base_offset).judge(last) is not None
    is_preallocated = is_sound and ends_in_zeros(file, position)
    return not is_preallocated and hides_entries(file, position, end=part.end, start=last)


def _calm_heads(file: LogFile, part: SegmentRange) -> Generator[Head | HeadRows, None, int]:
    """Yield headers whose offsets follow each other without a gap; return where that ends or becomes uncertain.

    A wrong length leads past batches or to bytes that are no batch; in both cases offsets do not follow. So only
    headers are read while they do. The header before a gap is uncertain too, and the last one unless its CRC is right.
    """
    before: Head | HeadRows | None = None
    try:
        for heads in walk_head_rows(file, part.start, part.end, may_be_preallocated=part.is_active):
            gap = _gap_in(heads, before)
            if gap == 0:
                break
            if before is not None:
                yield before
            before = heads if gap is None or isinstance(heads, Head) else heads.first(gap)
            if gap is not None:
                break
    except Unreadable:
        raise
    except KlogError:  # reported in its place
        pass
    if before is None:
        return part.start
    last = before.position if isinstance(before, Head) else before.number("position", before.count - 1)
    probe = Probe(file, end=part.end, lowest=part.base_offset)
    if before.end == part.end and (_is_followed(file, part, before) or probe.judge(last) is not None):
        yield before
        return part.end
    if isinstance(before, HeadRows) and before.count > 1:
        yield before.first(before.count - 1)
    return last


def _is_followed(file: LogFile, part: SegmentRange, heads: Head | HeadRows) -> bool:
    """Return whether the log continues after a range with the next offset."""
    after = part.next_base_offset
    if part.end < part.log.size:
        after = int.from_bytes(file.read(part.end, OFFSET_BYTES), "big", signed=True)
    return after == _last_offset_of(heads) + 1


def _gap_in(heads: Head | HeadRows, before: Head | HeadRows | None) -> int | None:
    """Return the number of the first header that is uncertain because of what is before it; None if there is none."""
    if isinstance(heads, Head):
        first, gap = (-1 if heads.entry.magic != MAGIC else heads.entry.base_offset), None
    else:
        first, gap = heads.number("base_offset", 0), heads.find_gap()
    if first == -1 or (before is not None and first != _last_offset_of(before) + 1):
        return 0
    return gap


def _last_offset_of(heads: Head | HeadRows) -> int:
    if isinstance(heads, Head):
        return heads.entry.last_offset
    return heads.number("last_offset", heads.count - 1)


def batch_columns(rows: HeadRows, common: Row, owner: Owner, kind: pa.Schema) -> pa.RecordBatch:
    """Return headers as rows of the table `batches`. common: topic, partition and file."""
    import pyarrow as pa

    constant = dict(zip(("topic", "partition", "file", *OWNER), (*common, *astuple(owner)), strict=True))
    arrays = [
        pa.repeat(pa.scalar(constant[column.name], column.type), rows.count)
        if column.name in constant
        else BATCH_COLUMNS[column.name].of_rows(rows, column.name).cast(column.type)
        for column in kind
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=kind)


def _segment_rows(part: SegmentRange, columns: Sequence[str], *, is_strict: bool) -> Iterator[Row]:
    sizes, mtime_ms = dict(part.beside), part.log.mtime_ms
    walked: Row = (None,) * len(WALKED)
    with part.open(ahead_bytes=FAR_PIECE_BYTES) as file:
        if any(name in WALKED for name in columns):
            totals = HeaderTotals()
            totals.add_all(_heads(file, part, is_strict=is_strict))
            walked = totals.as_row()
        listed: Row = (
            part.topic,
            part.partition,
            file.path,
            part.base_offset,
            part.log.size,
            datetime.fromtimestamp(mtime_ms / 1000, UTC) if mtime_ms >= 0 else None,
            part.is_active,
            *(sizes.get(kind) for kind in INDEX_KINDS),
        )
        owner = _owner_of(part, columns, file.path)
    yield listed + walked + astuple(owner)


class HeaderTotals(Struct):
    """What headers of batches say together, in the order of WALKED. valid_bytes: where the last of them ends."""

    last_offset: int | None = None
    valid_bytes: int = 0
    batches: int = 0
    records: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    largest_batch: int = 0
    max_timestamp: int | None = None
    magics: set[int] = field(default_factory=set)
    codecs: set[str] = field(default_factory=set)

    def as_row(self) -> Row:
        """Return the values of the columns."""
        *numbers, magics, codecs = astuple(self)
        return (*numbers, sorted(magics), sorted(codecs, key=[*CODEC_NAMES, "unknown"].index))

    def add_all(self, heads: Iterable[Head | HeadRows]) -> None:
        """Add headers."""
        for head in heads:
            if isinstance(head, HeadRows):
                self.add_rows(head)
            else:
                self.add(head)

    def add(self, head: Head) -> None:
        """Add a header."""
        entry = head.entry
        self.batches += 1
        self.records += 1 if entry.records_count is None else entry.records_count
        self.control_batches += entry.is_control
        self.transactional_batches += entry.is_transactional
        self.magics.add(entry.magic)
        self.codecs.add(codec_of(head))
        self._advance(head.size, entry.max_timestamp, entry.last_offset, head.end)

    def add_rows(self, rows: HeadRows) -> None:
        """Add many headers."""
        import pyarrow.compute as pc

        self.batches += rows.count
        self.records += pc.sum(rows.column("records_count")).as_py()
        self.control_batches += pc.sum(rows.has_bit(CONTROL_BIT)).as_py()
        self.transactional_batches += pc.sum(rows.has_bit(TRANSACTIONAL_BIT)).as_py()
        self.magics.add(MAGIC)
        self.codecs.update(CODEC_NAMES[n] for n in pc.unique(rows.codec_ids()).to_pylist())
        largest, latest = (pc.max(rows.column(name)).as_py() for name in ("size", "max_timestamp"))
        self._advance(largest, latest, rows.number("last_offset", rows.count - 1), rows.end)

    def _advance(self, size: int, timestamp: int, last_offset: int, end: int) -> None:
        self.largest_batch = max(self.largest_batch, size)
        self.max_timestamp = max(timestamp, NO_TIMESTAMP if self.max_timestamp is None else self.max_timestamp)
        self.last_offset, self.valid_bytes = last_offset, end
