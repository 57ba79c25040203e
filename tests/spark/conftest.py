"""Tests of klogtool on Spark. Those that need Spark are in `live`, and left out where PySpark is missing."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("pyspark", "pandas", "moto", "fsspec")
MISSING = [name for name in NEEDED if find_spec(name) is None]
collect_ignore = ["live"] if MISSING else []


def pytest_report_header() -> str:
    """Which tests there will not be."""
    return f"tests/spark/live is left out: {', '.join(MISSING)} not installed (make test-spark)" if MISSING else ""
