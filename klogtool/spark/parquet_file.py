"""A Parquet file that is being written: rows wait until they fill a row group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, BinaryIO

from klogtool.errors import KlogError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 32 << 20


class ParquetFile:
    """The file. context: opens it. with_dictionary: the columns with a dictionary, by the first rows; None: all."""

    def __init__(
        self,
        context: AbstractContextManager[BinaryIO],
        schema: pa.Schema,
        compression: str,
        with_dictionary: Callable[[pa.Table], Sequence[str]] | None = None,
    ) -> None:
        self._context, self._schema, self._compression = context, schema, compression
        self._with_dictionary = with_dictionary
        self._sink = context.__enter__()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._waiting_bytes = 0

    @property
    def bytes(self) -> int:
        """About how large the file is."""
        return self._sink.tell() + self._waiting_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._rows >= ROWS_AT_ONCE or self._waiting_bytes >= BYTES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            if self._writer is None:
                names = True if self._with_dictionary is None else self._with_dictionary(table)
                options = {"compression": self._compression, "use_dictionary": names}
                self._writer = pq.ParquetWriter(self._sink, self._schema, **options)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._rows, self._waiting_bytes = [], 0, 0

    def close(self) -> int:
        """Finish the file; return its size."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        size = self._sink.tell()
        self._context.__exit__(None, None, None)
        return size

    def give_up(self) -> None:
        """Close the file unfinished, while it still can be: pyarrow would try it later, and say that it failed."""
        with suppress(OSError, KlogError):
            if self._writer is not None:
                self._writer.close()
            self._context.__exit__(None, None, None)
