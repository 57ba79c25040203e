"""What docs/spark.md shows is what a session prints."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from live.test_spark_session import needs_limits
from running import ROOT

OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@needs_limits
def test_the_tutorial_prints_what_the_page_shows(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(
        str(ROOT / "docs" / "spark.md"), module_relative=False, extraglobs={"spark": spark}, optionflags=OPTIONS
    )
    assert found.attempted > 15
    assert found.failed == 0
