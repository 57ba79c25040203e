"""Decoded keys and values as further columns: `key_decoded`, `key_error`, `value_decoded`, `value_error`.

The raw bytes stay in `key` and `value`. What cannot be decoded is null, with the reason beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from klogtool.decoding.decoded import AS_THEY_ARE, Decoded, json_text
from klogtool.decoding.record_values import KEY_AND_VALUE, Decoding, Formats, decoding_of
from klogtool.decoding.schemas import Schemas
from klogtool.escape import escaped

if TYPE_CHECKING:
    import pyarrow as pa

# The others are JSON.
_TYPES = {
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
}


class DecodedColumns:
    """The columns of one export. Each task has its own, made of the schemas that the driver has read."""

    def __init__(self, formats: Formats, schemas: Schemas | None) -> None:
        self._decoding: Decoding = decoding_of(formats, schemas)
        self._pieces = [name for name in KEY_AND_VALUE if getattr(self._decoding, name) is not None]

    @property
    def failed(self) -> int:
        """How many keys and values could not be decoded so far."""
        return sum(getattr(self._decoding, name).failed for name in self._pieces)

    def added_to(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with these columns behind its own."""
        import pyarrow as pa

        for name in self._pieces:
            kind = _TYPES.get(getattr(self._decoding, name).form, "string")
            schema = schema.append(pa.field(f"{name}_decoded", getattr(pa, kind)()))
            schema = schema.append(pa.field(f"{name}_error", pa.string()))
        return schema

    def of(self, raw: pa.RecordBatch, rows: pa.RecordBatch, topic: str | None, schema: pa.Schema) -> pa.RecordBatch:
        """Return rows with these columns. raw: the same rows with keys and values as bytes."""
        import pyarrow as pa

        columns = list(rows.columns)
        for name in self._pieces:
            piece = getattr(self._decoding, name)
            found = [None if data is None else piece.decoded(data, topic) for data in raw.column(name).to_pylist()]
            kind = schema.field(f"{name}_decoded").type
            cell = _cell_of(kind)
            columns.append(pa.array([None if one is None else cell(one) for one in found], kind))
            columns.append(pa.array([None if one is None else _failure(one) for one in found], pa.string()))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cell_of(kind: Any) -> Callable[[Decoded], Any]:
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return lambda one: None if one.reading is None else float(one.reading.value)  # also of "NaN"
    return _text if pa.types.is_string(kind) else lambda one: None if one.reading is None else one.reading.value


def _failure(one: Decoded) -> str | None:
    return None if one.failure is None else escaped(one.failure)


def _text(one: Decoded) -> str | None:
    """Return text as it is, other values as JSON. What UTF-8 does not have is escaped."""
    if one.reading is None:
        return None
    value = one.reading.value
    if isinstance(value, str) and one.form in AS_THEY_ARE:
        return value
    return json_text(value)
