"""Rows put where `write.format("klog")` needs them: all of a partition in one task, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # Spark asks for the types of a function when it is made

from klogtool.errors import Refused
from klogtool.spark.written_columns import partitions_by_key

IN_ORDER_OF = ("offset", "timestamp")


def deal(rows: Any, partitions: int | None) -> Any:
    """See `klogtool.spark.by_partition`."""
    names = {name.lower(): name for name in rows.columns}
    if partitions is not None:
        if "partition" in names:
            raise Refused("the rows have a column partition already")
        if partitions < 1:
            raise Refused(f"there is one partition at least, got {partitions}")
        rows = rows.withColumn("partition", _partition_column(names, partitions))
        names["partition"] = "partition"
    if "partition" not in names:
        raise Refused("the rows have no column partition: say how many partitions there are")
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
