"""Decoded keys and values as further columns: `key_decoded`, `key_error`, `value_decoded`, `value_error`.

The raw bytes stay in `key` and `value`. What cannot be decoded is null, with the reason beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def decoded_schema(formats: Formats) -> pa.Schema:
    """Return names and types of the columns of decoded keys and values."""
    import pyarrow as pa

    fields = []
    for name in KEY_AND_VALUE:
        if (form := getattr(formats, name)) is not None:
            kind = getattr(pa, _TYPES.get(form, "string"))()
            fields += [pa.field(f"{name}_decoded", kind), pa.field(f"{name}_error", pa.string())]
    return pa.schema(fields)


class DecodedColumns:
    """How columns of decoded keys and values are made. Each task has its own, made of the schemas that the driver has
    read.

    Raises KlogError for a format that does not exist, or without the schemas or the package that it needs.
    """

    def __init__(self, formats: Formats, schemas: Schemas | None) -> None:
        self._decoding: Decoding = decoding_of(formats, schemas)
        self._sources = [name for name in KEY_AND_VALUE if getattr(formats, name) is not None]
        self.schema = decoded_schema(formats)

    @property
    def failed(self) -> int:
        """How many keys and values could not be decoded so far."""
        return sum(getattr(self._decoding, name).failed for name in self._sources)

    def needs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of records from which the columns of these names are made."""
        sources = dict.fromkeys(name.partition("_")[0] for name in names)
        return (*sources, "topic") if sources else ()

    def arrays(self, records: pa.RecordBatch, topic: str | None, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the columns of these names by name. records: with keys and values as bytes, all of one topic."""
        wanted = set(names)
        arrays: dict[str, pa.Array] = {}
        for name in self._sources:
            if {f"{name}_decoded", f"{name}_error"} & wanted:
                arrays |= self._arrays_of(name, records.column(name), topic)
        return {name: array for name, array in arrays.items() if name in wanted}

    def _arrays_of(self, name: str, column: pa.Array, topic: str | None) -> dict[str, pa.Array]:
        import pyarrow as pa

        decoder, kind = getattr(self._decoding, name), self.schema.field(f"{name}_decoded").type
        cell, values = _cell_of(kind), column.to_pylist()
        cells = [None if data is None else decoder.json_text(data, topic) for data in values]
        errors: list[str | None] = [None] * len(values)
        for row, data in enumerate(values):
            if data is not None and cells[row] is None:
                one = decoder.decoded(data, topic)
                cells[row], errors[row] = cell(one), None if one.failure is None else escaped(one.failure)
        return {f"{name}_decoded": pa.array(cells, kind), f"{name}_error": pa.array(errors, pa.string())}


def _cell_of(kind: Any) -> Callable[[Decoded], Any]:
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return lambda one: None if one.reading is None else float(one.reading.value)  # also of "NaN"
    return _text if pa.types.is_string(kind) else lambda one: None if one.reading is None else one.reading.value


def _text(one: Decoded) -> str | None:
    """Return text as it is, other values as JSON. What UTF-8 does not have is escaped."""
    if one.reading is None:
        return None
    value = one.reading.value
    if isinstance(value, str) and one.form in AS_THEY_ARE:
        return value
    return json_text(value)
