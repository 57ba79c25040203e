"""Keys and values as bytes, as text or as JSON; and rows by day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.spark.causes import LogCause

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = ("binary", "string", "json")


class Form(Struct, frozen=True):
    """The form of keys and values, each one of FORMS."""

    key: str = "binary"
    value: str = "binary"


def target_schema(schema: pa.Schema, form: Form) -> pa.Schema:
    """Return the columns of records with keys and values in the wanted form."""
    import pyarrow as pa

    kinds = {"binary": pa.binary(), "string": pa.string(), "json": pa.json_() if hasattr(pa, "json_") else pa.string()}
    fields = [
        pa.field(field.name, kinds[getattr(form, field.name)]) if field.name in ("key", "value") else field
        for field in schema
    ]
    return pa.schema(fields)


def converted(batch: pa.RecordBatch, schema: pa.Schema, form: Form, *, is_strict: bool) -> tuple[pa.RecordBatch, int]:
    """Return the rows with the columns of the schema, and how many keys and values do not have the wanted form.

    In text, bytes that are not UTF-8 become U+FFFD, as in Kafka's StringDeserializer. What is not valid JSON becomes
    null; if `is_strict`, it raises Corrupt with the place of the record.
    """
    import pyarrow as pa

    columns, invalid = [], 0
    for field in schema:
        column = batch.column(field.name)
        wanted = getattr(form, field.name) if field.name in ("key", "value") else "binary"
        if wanted != "binary":
            column = _as_text(column)
        if wanted == "json":
            column, wrong = _only_json(column)
            if wrong and is_strict:
                raise _no_json(batch, field.name, wrong[0])
            invalid += len(wrong)
            if field.type != pa.string():
                column = pa.ExtensionArray.from_storage(field.type, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema), invalid


def _as_text(column: Any) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array((None if v is None else v.decode("utf-8", "replace") for v in column.to_pylist()), pa.string())


def _only_json(column: Any) -> tuple[Any, list[int]]:
    """Return the column with null for what is not valid JSON, and the numbers of those rows."""
    import pyarrow as pa

    texts = column.to_pylist()
    wrong = [n for n, text in enumerate(texts) if text is not None and not _is_json(text)]
    if not wrong:
        return column, wrong
    for n in wrong:
        texts[n] = None
    return pa.array(texts, pa.string()), wrong


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python accepts but JSON does not have."""
    raise ValueError(name)


def _no_json(batch: pa.RecordBatch, name: str, row: int) -> Corrupt:
    topic, partition = (batch.column(column)[row].as_py() for column in ("topic", "partition"))
    offset = batch.column("offset")[row].as_py()
    return Corrupt(LogCause.NO_JSON(name=name, partition=f"{topic}-{partition}", offset=offset))


def days_of(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows by the day of their timestamps (UTC), such as 2026-01-31, in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    days = pc.cast(pc.cast(batch.column("timestamp"), pa.date32(), safe=False), pa.int32())
    every = sorted(pc.unique(days).to_pylist())
    if len(every) == 1:
        yield _day_name(every[0]), batch
        return
    for day in every:
        yield _day_name(day), batch.filter(pc.equal(days, pa.scalar(day, pa.int32())))


def _day_name(day: int) -> str:
    """Return the name of a day since 1970; those that no calendar has keep their number."""
    try:
        return (date(1970, 1, 1) + timedelta(days=day)).isoformat()
    except OverflowError:
        return str(day)
