"""The class of the data source, if PySpark is installed."""

from __future__ import annotations

from typing import Any

from klogtool.errors import Unsupported

WITHOUT_SPARK = "Spark needs pyspark 4.1 or later, pyarrow and pandas: pip install klogtool[spark]"


def find_data_source() -> type[Any]:
    """Return the class behind `format("klog")`. Raises Unsupported if PySpark is missing or too old."""
    try:
        import pyspark.sql.datasource as api
    except ImportError as error:
        raise Unsupported(WITHOUT_SPARK) from error
    if not hasattr(api, "Filter"):
        raise Unsupported(WITHOUT_SPARK)
    from klogtool.spark.source import KlogDataSource

    return KlogDataSource
