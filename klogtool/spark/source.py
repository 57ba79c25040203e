"""The data source that Spark knows as `klog`. `source_reader`, `streaming` and `sink` do its work.

It registers itself if klogtool is installed (package pyspark_klog), else by `klogtool.spark.register(spark)`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

from klogtool.spark.options import check_options, parse_shape
from klogtool.spark.source_reader import KlogFilteringReader, KlogReader
from klogtool.spark.streaming import make_stream_reader
from klogtool.spark.tables import ddl, default_columns, table_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
WRITE_WORKER = "pyspark.sql.worker.write_into_data_source"


class KlogDataSource(DataSource):
    """Kafka's log dirs as tables; options and schema are those of Spark's kafka source, see docs/spark.md."""

    def __init__(self, options: dict[str, str]) -> None:
        """Check options and paths, so that errors appear at `load`, not at the first action."""
        super().__init__(options)
        if WRITE_WORKER not in sys.modules:
            check_options(dict(self.options))

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "klog"

    def schema(self) -> str:
        """Return the columns that the options select."""
        shape = parse_shape(dict(self.options))
        return ddl(table_schema(shape, default_columns(shape)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of these columns.

        If the session's setting for filters is off, a reader that takes filters makes the query fail. So Spark gets one
        only if it asks for filters, which it does in a worker module of its own.
        """
        kind = KlogFilteringReader if PUSHDOWN_WORKER in sys.modules else KlogReader
        return kind(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of a new log dir."""
        from klogtool.spark.sink import KlogWriter

        return KlogWriter(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> Any:
        """Return a reader of appended records. Raises Unsupported before PySpark 4.2, which cannot limit a stream."""
        return make_stream_reader(dict(self.options), schema)
