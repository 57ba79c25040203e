"""Log dirs as tables of Spark: `spark.read.format("klog").load(PATH)`.

    source, streaming    what Spark calls: the data source, its readers
    options, filters     what a query asks for
    copies, offsets      which partitions and which of their offsets that is
    planning             which task reads what
    reading, tables      rows as Arrow record batches
    findings, fetching   what verify finds, of log dirs here and elsewhere
    storage, heads       files here and elsewhere; headers of batches

Only the first line knows Spark; all the others are plain Python, and need pyarrow at most.
"""

from __future__ import annotations

from typing import Any

from klogtool.errors import Unsupported

WITHOUT_SPARK = "Spark needs pyspark 4.1 or later, pyarrow and pandas: pip install klogtool[spark]"


def register(spark: Any) -> None:
    """Make `format("klog")` known to a session that does not find it by itself: where klogtool came by --py-files."""
    spark.dataSource.register(data_source())


def data_source() -> type[Any]:
    """The class behind `format("klog")`. Raises Unsupported where PySpark is missing or too old."""
    try:
        import pyspark.sql.datasource as api
    except ImportError as error:
        raise Unsupported(WITHOUT_SPARK) from error
    if not hasattr(api, "Filter"):
        raise Unsupported(WITHOUT_SPARK)
    from klogtool.spark.source import KlogDataSource

    return KlogDataSource
