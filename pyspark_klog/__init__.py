"""Where Spark finds klogtool's data source: it looks for modules of such a name, and in each for DefaultSource."""

from klogtool.spark.source import KlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
