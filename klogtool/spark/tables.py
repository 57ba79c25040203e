"""The tables that a log dir is: records, batches, segments and findings; their columns, and the rows of two.

Names and values of `batches` and `findings` are those of `klogtool dump-log --format json` and of `klogtool verify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from klogtool.errors import KlogError, Refused
from klogtool.format.batch import RecordBatch
from klogtool.format.codec_names import CODEC_NAMES
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.resync import find_next_batch
from klogtool.render.json_lines import json_timestamp
from klogtool.spark.heads import FAR_PIECE_BYTES, Head, walk_heads
from klogtool.spark.planning import Piece, Split
from klogtool.spark.reading import LOGGER, METADATA_COLUMNS, RECORD_COLUMNS, columns_of, spare_collections
from klogtool.spark.storage import open_place

if TYPE_CHECKING:
    import pyarrow as pa

    from klogtool.spark.options import Shape

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
RECORDS = {
    **dict(zip(RECORD_COLUMNS, ("binary", "binary", "string", "int", "bigint", "timestamp", "int"), strict=True)),
    "headers": HEADERS_TYPE,
    **dict(
        zip(
            METADATA_COLUMNS,
            (
                *("string", "bigint", "bigint", "bigint", "smallint", "int"),
                *("boolean", "boolean", "string", "boolean", "int"),
            ),
            strict=True,
        )
    ),
}
BATCHES = {
    "topic": "string",
    "partition": "int",
    "file": "string",
    "position": "bigint",
    "size": "bigint",
    "base_offset": "bigint",
    "last_offset": "bigint",
    "partition_leader_epoch": "int",
    "magic": "int",
    "crc": "bigint",
    "attributes": "int",
    "codec": "string",
    "timestamp_type": "string",
    "is_transactional": "boolean",
    "is_control": "boolean",
    "delete_horizon_ms": "bigint",
    "last_offset_delta": "int",
    "base_timestamp": "bigint",
    "max_timestamp": "bigint",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "base_sequence": "int",
    "last_sequence": "int",
    "records_count": "int",
}
LISTED = {
    "topic": "string",
    "partition": "int",
    "file": "string",
    "base_offset": "bigint",
    "size": "bigint",
    "modified": "timestamp",
    "is_active": "boolean",
    "index_size": "bigint",
    "timeindex_size": "bigint",
    "txnindex_size": "bigint",
}
"""Of a segment, what is known without a look into it."""
WALKED = {
    "last_offset": "bigint",
    "valid_bytes": "bigint",
    "batches": "bigint",
    "records": "bigint",
    "control_batches": "bigint",
    "transactional_batches": "bigint",
    "largest_batch": "bigint",
    "max_timestamp": "bigint",
    "magics": "array<int>",
    "codecs": "array<string>",
}
"""Of a segment, what the headers of its batches tell."""
FINDINGS = {
    "topic": "string",
    "partition": "int",
    "id": "string",
    "severity": "string",
    "path": "string",
    "detail": "string",
    "start": "bigint",
    "end": "bigint",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "field": "string",
    "cure": "string",
}
TABLES = {"records": RECORDS, "batches": BATCHES, "segments": LISTED | WALKED, "findings": FINDINGS}
ROWS_AT_ONCE = 1 << 14

Row = tuple[Any, ...]


def default_columns(shape: Shape) -> tuple[str, ...]:
    """The columns of a table as the options ask for them. Raises Refused for one that there is not."""
    if shape.columns is not None:
        check_columns(shape.table, shape.columns)
        return shape.columns
    if shape.table == "records":
        return columns_of(headers=shape.include_headers, metadata=shape.include_metadata)
    return tuple(TABLES[shape.table])


def check_columns(table: str, columns: Sequence[str]) -> None:
    """Raises Refused for a column that a table does not have, or one that comes twice."""
    wrong = [name for name in columns if name not in TABLES[table]]
    if wrong or len(set(columns)) < len(columns) or not columns:
        raise Refused(
            f"table {table} has no such column, or not twice: {', '.join(wrong or columns)} "
            f"(there are {', '.join(TABLES[table])})"
        )


def arrow_schema(table: str, columns: Sequence[str]) -> pa.Schema:
    """The types of columns as Spark wants them."""
    import pyarrow as pa

    kinds = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "smallint": pa.int16(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<int>": pa.list_(pa.int32()),
        "array<string>": pa.list_(pa.string()),
        HEADERS_TYPE: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, kinds[TABLES[table][name]]) for name in columns])


def ddl(table: str, columns: Sequence[str]) -> str:
    """The same in Spark's words."""
    return ", ".join(f"`{name}` {TABLES[table][name]}" for name in columns)


def read_table(split: Split, table: str, columns: Sequence[str], *, is_strict: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a split of batches or segments, in record batches; none is empty."""
    import pyarrow as pa

    spare_collections()
    walk = _batch_rows if table == "batches" else _segment_rows
    rows = (row for piece in split.pieces for row in walk(piece, columns, is_strict=is_strict))
    schema, names = arrow_schema(table, columns), list(TABLES[table])
    while some := list(islice(rows, ROWS_AT_ONCE)):
        values = dict(zip(names, zip(*some, strict=True), strict=True))
        arrays = [pa.array(values[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _batch_rows(piece: Piece, _columns: Sequence[str], *, is_strict: bool) -> Iterator[Row]:
    with open_place(piece.place)[0].open(piece.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        common = (piece.topic, piece.partition, file.path)
        for head in _heads(file, piece, is_strict=is_strict):
            if head.entry.last_offset >= piece.first_offset and (head.entry.base_offset or 0) <= piece.last_offset:
                yield common + _fields_of(head)


def _heads(file: LogFile, piece: Piece, *, is_strict: bool) -> Iterator[Head]:
    """Headers; behind damage from the next batch on that proves itself, unless damage is an error."""
    at: int | None = piece.start
    while at is not None:
        try:
            for head in walk_heads(file, at, piece.end):
                yield head
                at = head.end
            return
        except KlogError as error:
            if is_strict or isinstance(error, Unreadable):
                raise
            LOGGER.warning("left out: %s", error)
            at = find_next_batch(file, at + 1, end=piece.end, lowest=piece.base_offset)


def _fields_of(head: Head) -> Row:
    """In the order of BATCHES, from `position` on."""
    entry = head.entry
    of_batch: Row = (None, None)
    if isinstance(entry, RecordBatch):
        of_batch = (entry.last_offset_delta, json_timestamp(entry.base_timestamp))
    return (
        head.position,
        head.size,
        entry.base_offset,
        entry.last_offset,
        entry.partition_leader_epoch,
        entry.magic,
        entry.crc,
        entry.attributes,
        codec_of(head),
        entry.timestamp_type,
        entry.is_transactional,
        entry.is_control,
        entry.delete_horizon_ms,
        *of_batch,
        json_timestamp(entry.max_timestamp),
        entry.producer_id,
        entry.producer_epoch,
        entry.base_sequence,
        entry.last_sequence,
        entry.records_count,
    )


def codec_of(head: Head) -> str:
    """The codec of an entry; "unknown" for an id that Kafka does not know."""
    try:
        return head.entry.codec
    except KlogError:
        return "unknown"


def _segment_rows(piece: Piece, columns: Sequence[str], *, is_strict: bool) -> Iterator[Row]:
    from datetime import UTC, datetime

    storage = open_place(piece.place)[0]
    sizes = dict(piece.beside)
    row: dict[str, Any] = {
        "topic": piece.topic,
        "partition": piece.partition,
        "base_offset": piece.base_offset,
        "size": piece.log.size,
        "modified": datetime.fromtimestamp(piece.log.mtime_ms / 1000, UTC) if piece.log.mtime_ms >= 0 else None,
        "is_active": piece.next_base_offset is None,
        "index_size": sizes.get(FileKind.OFFSET_INDEX),
        "timeindex_size": sizes.get(FileKind.TIME_INDEX),
        "txnindex_size": sizes.get(FileKind.TXN_INDEX),
    }
    with storage.open(piece.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        row["file"] = file.path
        if any(name in WALKED for name in columns):
            row |= _walked(_heads(file, piece, is_strict=is_strict))
    yield tuple(row.get(name) for name in TABLES["segments"])


def _walked(heads: Iterator[Head]) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(("batches", "records", "control_batches", "transactional_batches"), 0)
    found |= {"valid_bytes": 0, "largest_batch": 0, "last_offset": None, "max_timestamp": None}
    magics, codecs = set(), set()
    for head in heads:
        entry = head.entry
        found["batches"] += 1
        found["records"] += 1 if entry.records_count is None else entry.records_count
        found["control_batches"] += entry.is_control
        found["transactional_batches"] += entry.is_transactional
        found["valid_bytes"], found["last_offset"] = head.end, entry.last_offset
        found["largest_batch"] = max(found["largest_batch"], head.size)
        found["max_timestamp"] = max(
            entry.max_timestamp, -1 if found["max_timestamp"] is None else found["max_timestamp"]
        )
        magics.add(entry.magic)
        codecs.add(codec_of(head))
    known = [*CODEC_NAMES, "unknown"]
    return found | {"magics": sorted(magics), "codecs": sorted(codecs, key=known.index)}
