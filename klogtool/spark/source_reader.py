"""How Spark runs a query of `format("klog")`: the partitions of its scan, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from klogtool.errors import Refused
from klogtool.spark.causes import OptionCause
from klogtool.spark.filters import Bounds, bounds_of
from klogtool.spark.findings import plan_parts, read_findings
from klogtool.spark.notes import log_warning
from klogtool.spark.options import Query, parse_query
from klogtool.spark.planning import Split, plan_splits
from klogtool.spark.tables import checked_columns, ddl, derived_columns, read_records, read_table, table_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from klogtool.spark.findings import Part


class KlogPartition(InputPartition):
    """What one task reads. split: of records, batches or segments; part: of a log dir, for findings."""

    def __init__(self, split: Split | None = None, part: Part | None = None) -> None:
        self.split, self.part = split, part


class KlogReader(DataSourceReader):
    """Plans once, on the driver; reads in the tasks."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._notes: list[str] = []
        self.query: Query = parse_query(options, self._notes)
        self.columns = columns_wanted(self.query, schema)
        self.names = tuple(schema.fieldNames())
        self.bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each split."""
        if self.query.shape.table == "findings":
            parts = [KlogPartition(part=part) for part in plan_parts(self.query)]
        else:
            parts = [KlogPartition(split) for split in plan_splits(self.query, self.bounds, self._notes)]
        for note in self._notes:
            log_warning(note)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return renamed(read_partition(partition, self.query, self.columns, self.bounds), self.names)


class KlogFilteringReader(KlogReader):
    """A reader that takes Spark's filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow what is read. All filters are returned, so Spark applies them again."""
        self.bounds = bounds_of(filters, prefix="" if self.query.shape.internal is None else "_")
        return filters


def read_partition(
    partition: InputPartition, query: Query, columns: Sequence[str], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition of any table."""
    if not isinstance(partition, KlogPartition):  # Spark makes a partition of its own if there is none
        return iter(())
    if partition.part is not None:
        return read_findings(partition.part, columns, deep=query.deep)
    if partition.split is None:
        return iter(())
    if query.shape.table == "records":
        return read_records(partition.split, query, columns, bounds)
    return read_table(partition.split, query.shape.table, columns, mode=query.mode)


def renamed(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the names of Spark's schema, which may be written in other cases."""
    for batch in batches:
        yield batch if batch.schema.names == list(names) else batch.rename_columns(list(names))


def columns_wanted(query: Query, schema: StructType) -> tuple[str, ...]:
    """Return the columns that Spark wants, as the table spells them. Raises Refused if a user's schema has others, or
    other types; KlogError if what decodes them is missing."""
    columns = checked_columns(query.shape, schema.fieldNames())
    wanted = table_schema(query.shape, columns)
    if as_arrow(schema).types != wanted.types:
        raise Refused(OptionCause.OTHER_TYPES(columns=ddl(wanted)))
    derived_columns(query)
    return columns


def as_arrow(schema: StructType) -> pa.Schema:
    """Return the schema as Arrow. Times are UTC: PySpark 4.1 assumes it, later versions have to be told."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
