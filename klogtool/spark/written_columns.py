"""Rows of Arrow as they come from Spark, made into the columns that batches are encoded from.

Knows nothing of files. Rows of several partitions are told apart here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from klogtool import kernels
from klogtool.errors import Refused
from klogtool.format.batch import NO_TIMESTAMP
from klogtool.format.batch_encoding import BytesColumn, HeadersColumn, RecordColumns
from klogtool.format.java_numbers import MAX_INT
from klogtool.spark.causes import WriteCause
from klogtool.spark.write_options import HowToWrite, check_topic

LOG_APPEND_TIME = 1
MOST_RUNS = 64  # of rows of one partition, in a batch of Arrow; if there are more, the rows are sorted first
US_A_MS = 1000
NO_TIME = -2  # of a run of records that keep their own time


def partitions_in(batch: pa.RecordBatch, how: HowToWrite) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the rows of each partition, in order: topic, partition, and the columns of `rows_of`.

    Raises Refused for a topic or a partition that cannot be.
    """
    if not batch.num_rows:
        return
    named = {name.lower(): batch.column(n) for n, name in enumerate(batch.schema.names)}
    rows, places = rows_of(named, batch.num_rows, how), _places(named, batch.num_rows, how)
    ends = _ends_of_runs(places)
    if len(ends) > MOST_RUNS:
        table = pa.table([*places], names=["topic", "partition"])
        order = pc.sort_indices(table, sort_keys=[("topic", "ascending"), ("partition", "ascending")])  # stable
        rows, places = rows.take(order), [place.take(order) for place in places]
        ends = _ends_of_runs(places)
    start = 0
    for end in ends:
        topic, partition = places[0][start].as_py(), places[1][start].as_py()
        _check_place(topic, partition)
        yield topic, partition, rows.slice(start, end - start)
        start = end


def _check_place(topic: str | None, partition: int | None) -> None:
    if topic is None:
        raise Refused(WriteCause.ROW_WITHOUT_TOPIC())
    check_topic(topic)
    if partition is None or not 0 <= partition <= MAX_INT:
        raise Refused(WriteCause.ROW_OF_PARTITION(topic=topic, partition=str(partition)))


def _places(named: dict[str, pa.Array], rows: int, how: HowToWrite) -> list[Any]:
    topic = named.get("topic") if how.topic is None else None
    topics = pa.repeat(pa.scalar(how.topic, pa.string()), rows) if topic is None else topic
    if "partition" in named:
        return [topics, named["partition"].cast(pa.int64())]
    return [topics, partitions_by_key(named.get("key"), named["value"], rows, how.partitions)]


def partitions_by_key(keys: pa.Array | None, values: pa.Array, rows: int, partitions: int) -> pa.Array:
    """Return the partition of each row, as a producer gives it to a key. A producer gives any to a record without a
    key; here its value decides, so that a task that is tried again gives the same."""
    by_value = _partitions_of(values, rows, partitions)
    numbers = by_value if keys is None else pc.coalesce(_partitions_of(keys, rows, partitions), by_value)
    return pc.fill_null(numbers, 0).cast(pa.int64())


def _partitions_of(column: pa.Array, rows: int, partitions: int) -> pa.Array:
    numbers = kernels.native.partitions_of(bytes_column(_as_bytes(column)), rows, partitions)
    dealt = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(numbers)])
    return pc.if_else(pc.equal(dealt, -1), pa.scalar(None, pa.int32()), dealt)


def _ends_of_runs(columns: Sequence[Any]) -> list[int]:
    """Return where runs of rows end that are equal in all columns."""
    ends = {end for column in columns for end in pc.run_end_encode(column).run_ends.to_pylist()}
    return sorted(ends)


def rows_of(named: dict[str, pa.Array], rows: int, how: HowToWrite) -> pa.Table:
    """Return key, value, stamp (ms) and, where rows have them, offset, headers and append_time: the time of batches
    with LogAppendTime, or NO_TIME."""
    stamps = _stamps(named.get("timestamp"), rows)
    columns = {"key": _as_bytes(named.get("key"), rows), "value": _as_bytes(named["value"]), "stamp": stamps}
    if "offset" in named:
        columns["offset"] = named["offset"].cast(pa.int64())
    if "headers" in named:
        columns["headers"] = _as_headers(named["headers"])
    times = _append_times(named.get("timestamptype"), stamps, how)
    if times is not None:
        columns["append_time"] = times
    return pa.table(columns)


def _as_bytes(column: Any, rows: int = 0) -> Any:
    return pa.nulls(rows, pa.binary()) if column is None else column.cast(pa.binary())


def _as_headers(column: Any) -> Any:
    kind = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    cast = column.cast(kind)
    return pc.coalesce(cast, pa.scalar([], kind)) if cast.null_count else cast


def _stamps(column: Any, rows: int) -> Any:
    """Return ms. Times that Spark has finer are cut."""
    if column is None:
        return pa.repeat(pa.scalar(NO_TIMESTAMP, pa.int64()), rows)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        column = pc.divide(column, US_A_MS)
    return pc.fill_null(column, NO_TIMESTAMP)


def _append_times(kinds: Any, stamps: Any, how: HowToWrite) -> Any:
    """Return the append time of each row, or None if no row can have one."""
    if kinds is None:
        return stamps if how.timestamp_type == "LogAppendTime" else None
    is_append = pc.fill_null(pc.equal(kinds, LOG_APPEND_TIME), False)
    return pc.if_else(is_append, stamps, pa.scalar(NO_TIME, pa.int64()))


# What the kernel takes.


def record_columns(rows: pa.Table, offsets: Any) -> RecordColumns:
    """Return the columns of rows in one piece; offsets: 64-bit numbers."""
    column = {name: rows.column(name).chunk(0) for name in rows.schema.names}
    headers = column.get("headers")
    return RecordColumns(
        offsets,
        numbers(column["stamp"], 8, "q"),
        bytes_column(column["key"]),
        bytes_column(column["value"]),
        None if headers is None or not len(headers.values) else _headers_column(headers),
    )


def checked_offsets(column: Any, before: int | None, where: str) -> Any:
    """Return a column of offsets as 64-bit numbers. Raises Refused unless they ascend, and come after `before`."""
    if column.null_count:
        raise Refused(WriteCause.ROW_WITHOUT_OFFSET(partition=where))
    first = column[0].as_py()
    if first < 0 or (before is not None and first <= before):
        raise _not_in_order(where, first, before)
    steps = pc.pairwise_diff(column)
    if len(column) > 1 and pc.min(steps).as_py() <= 0:
        n = pc.index(pc.less_equal(steps, 0), True).as_py()
        raise _not_in_order(where, column[n].as_py(), column[n - 1].as_py())
    return numbers(column, 8, "q")


def _not_in_order(where: str, offset: int, before: int | None) -> Refused:
    if before is None:
        return Refused(WriteCause.ROW_NEGATIVE(partition=where, offset=offset))
    return Refused(WriteCause.ROW_BEFORE(partition=where, offset=offset, before=before))


def bytes_column(column: Any) -> BytesColumn:
    """Return a binary array as the kernel takes it."""
    validity, starts, data = column.buffers()
    rows = len(column)
    first = column.offset
    if starts is None or not starts.size:
        return BytesColumn(array("i", bytes(4 * (rows + 1))), b"", _validity(column))
    view = memoryview(starts)[4 * first : 4 * (first + rows + 1)].cast("i")
    whole = b"" if data is None or not data.size else memoryview(data).cast("B")
    return BytesColumn(view, whole, None if validity is None else _validity(column))


def _validity(column: Any) -> Any:
    if not column.null_count:
        return None
    return numbers(pc.is_valid(column).cast(pa.uint8()), 1, "B")


def numbers(column: Any, size: int, code: Literal["B", "i", "q"]) -> memoryview:
    """Return an array of numbers without nulls as a view."""
    return memoryview(column.buffers()[1])[size * column.offset : size * (column.offset + len(column))].cast(code)


def _headers_column(column: Any) -> HeadersColumn:
    starts = memoryview(column.buffers()[1])[4 * column.offset : 4 * (column.offset + len(column) + 1)].cast("i")
    keys, values = column.values.flatten()
    return HeadersColumn(starts, bytes_column(keys), bytes_column(values))


def stretches(rows: pa.Table) -> Iterator[tuple[int, int, int | None]]:
    """Yield runs of rows whose batches have the same append time: start, stop, and that time or None."""
    if "append_time" not in rows.schema.names:
        yield 0, rows.num_rows, None
        return
    times = rows.column("append_time").chunk(0)
    start = 0
    for end in _ends_of_runs([times]):
        time = times[start].as_py()
        yield start, end, None if time == NO_TIME else time
        start = end
