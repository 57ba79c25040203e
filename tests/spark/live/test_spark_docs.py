"""What docs/spark.md shows is what a session prints."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from live.test_spark_session import HAS_STREAMS
from running import ROOT

OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
STREAMS, BEHIND = "\n## Streams\n", "\n## Write a log dir\n"


def test_the_tutorial_prints_what_the_page_shows(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it; without the section of streams where PySpark is older than that section says."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    names = {"spark": spark}
    shown = doctest.DocTestParser().get_doctest(page, names, "spark.md", "docs/spark.md", 0)
    if not HAS_STREAMS:
        first, last = (page[: page.index(title)].count("\n") for title in (STREAMS, BEHIND))
        shown.examples = [
            example
            for example in shown.examples
            if not first < example.lineno < last or example.source.startswith("import ")
        ]
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(shown)
    assert runner.tries > 15
    assert runner.failures == 0
