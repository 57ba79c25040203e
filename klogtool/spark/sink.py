"""How Spark writes with `write.format("klog")`: how rows are dealt to tasks, the tasks, and the commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # Spark asks for the types of a function when it is made
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from klogtool.disk.new_log_dir import NewLogDir
from klogtool.errors import Refused
from klogtool.spark.causes import OptionCause, SparkCure, WriteCause
from klogtool.spark.notes import log_info, log_warning
from klogtool.spark.reading import spare_collections
from klogtool.spark.source_reader import as_arrow
from klogtool.spark.write_options import check_rows, parse_write_options
from klogtool.spark.writing import Written, publish, write_rows
from klogtool.spark.written_columns import partitions_by_key

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

IN_ORDER_OF = ("offset", "timestamp")
EXECUTION, OUTER_EXECUTION = "spark.sql.execution.id", "spark.sql.execution.root.id"
OF_STREAM = "streaming.sql.batchId"


class PartitionsWritten(WriterCommitMessage):
    """What a task sends when it is done."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.written = tuple(written)


class KlogWriter(DataSourceArrowWriter):
    """Made once, where Spark plans; tasks write, and the driver commits or aborts."""

    def __init__(self, options: dict[str, str], schema: StructType, *, overwrite: bool) -> None:
        """Check everything that is known before rows come, and make the folder for tasks. Raises Refused."""
        if overwrite:
            raise Refused(WriteCause.REPLACES())
        notes: list[str] = []
        path, self._how = parse_write_options(options, notes)
        check_rows(as_arrow(schema), self._how)
        self._log_dir = NewLogDir.at(path)
        self._ids_from = uuid.uuid4().bytes
        self._log_dir.begin()
        for note in notes:
            log_warning(note)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. Raises Refused if the write is to make a table of Spark's catalog."""
        refuse_tables(_local_properties())
        spare_collections()
        return PartitionsWritten(write_rows(iterator, self._how, self._log_dir, self._ids_from))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Let the log dir appear."""
        by_task = [message.written for message in messages if isinstance(message, PartitionsWritten)]
        written = [one for some in by_task for one in some]
        publish(written, self._log_dir)
        for one in written:
            log_info(f"{one.name}: {one.records:,} records, offsets {one.start} to {one.end} (exclusive)")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote."""
        self._log_dir.abandon()


def _local_properties() -> Mapping[str, str]:
    """Return what Spark's driver says of the job of this task."""
    task = TaskContext.get()
    names = (EXECUTION, OUTER_EXECUTION, OF_STREAM)
    return {name: value for name in names if task is not None and (value := task.getLocalProperty(name)) is not None}


def refuse_tables(properties: Mapping[str, str]) -> None:
    """Raises Refused if a job writes for saveAsTable or CREATE TABLE AS SELECT.

    Their options, schema and mode are those of `save`, and nothing before the tasks can tell. But Spark runs their
    write inside another execution (V2CreateTableAsSelectBaseExec.writeToTable). So it does with a batch of a stream,
    which has its number (MicroBatchExecution.BATCH_ID_KEY).
    """
    execution = properties.get(EXECUTION)
    if OF_STREAM not in properties and execution != properties.get(OUTER_EXECUTION, execution):
        raise Refused(OptionCause.TABLE_MADE(), cure=SparkCure.AS_VIEW())


# Rows put where the sink needs them: all of a partition in one task, in order.


def deal(rows: Any, partitions: int | None) -> Any:
    """See `klogtool.spark.by_partition`."""
    names = {name.lower(): name for name in rows.columns}
    if partitions is not None:
        if "partition" in names:
            raise Refused(WriteCause.ALREADY_PARTITION())
        if partitions < 1:
            raise Refused(WriteCause.NO_PARTITIONS(partitions=partitions))
        rows = rows.withColumn("partition", _partition_column(names, partitions))
        names["partition"] = "partition"
    if "partition" not in names:
        raise Refused(WriteCause.HOW_MANY())
    places = [names[name] for name in ("topic", "partition") if name in names]
    order = [names[name] for name in IN_ORDER_OF if name in names][:1]
    return rows.repartition(*places).sortWithinPartitions(*places, *order)


def _partition_column(names: dict[str, str], partitions: int) -> Any:
    from pyspark.sql.functions import col, lit
    from pyspark.sql.pandas.functions import arrow_udf

    def of_rows(keys: pa.Array, values: pa.Array) -> pa.Array:
        return partitions_by_key(keys, values, len(values), partitions).cast("int32")

    key = col(names["key"]).cast("binary") if "key" in names else lit(None).cast("binary")
    return arrow_udf(of_rows, "int")(key, col(names["value"]).cast("binary"))
