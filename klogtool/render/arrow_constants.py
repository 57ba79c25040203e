"""Arrow columns with the same value in every row of a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def column_text(name: str) -> str:
    """Return a name of a file or folder as a column can hold it: bytes that are not UTF-8 are escaped."""
    try:
        data = os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that does not represent a byte
        data = name.encode("utf-8", "surrogatepass")
    return data.decode("utf-8", "backslashreplace")


class Constants:
    """Columns with the same value in every row, made once and cut to length."""

    def __init__(self, path: str, topic: str | None, partition: int | None, schema: pa.Schema) -> None:
        self._made: dict[tuple[str, object], pa.Array] = {}
        self._schema = schema
        segment = column_text(os.path.basename(path))
        self.values = {"topic": topic and column_text(topic), "partition": partition, "_segment": segment}

    def column(self, name: str, rows: int, value: object = None) -> pa.Array:
        """Return a column of `rows` times `value`; for topic, partition and segment the value is that of the file."""
        import pyarrow

        value = self.values.get(name, value)
        created = self._made.get((name, value))
        if created is None or len(created) < rows:
            scalar = pyarrow.scalar(value, self._schema.field(name).type)
            created = self._made[name, value] = pyarrow.repeat(scalar, 1 << (rows - 1).bit_length())
        return created.slice(0, rows)
