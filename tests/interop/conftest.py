"""klogtool's data source beside Spark's own kafka source: `make interop`, which sets up what they need."""

from __future__ import annotations

from spark40 import IS_THERE

collect_ignore = [] if IS_THERE else ["test_interop.py"]


def pytest_report_header() -> str:
    """Which tests there will not be."""
    return "" if IS_THERE else "tests/interop is left out: no Spark with a kafka source (make interop)"
