"""docs/spark.md names every option and every column."""

from __future__ import annotations

import re

from running import ROOT

from klogtool.spark.options import SPELLED
from klogtool.spark.tables import TABLES

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def test_every_option_is_in_the_table() -> None:
    table = PAGE[PAGE.index("| option |") : PAGE.index("### Damage")].lower()
    named = set(re.findall(r"`([a-z.*]+)`", table))
    assert SPELLED.keys() - named == set()


def test_every_column_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE)) | set(re.findall(r"^ \|-- (\w+):", PAGE, re.MULTILINE))
    assert {name for table in TABLES.values() for name in table} - named == set()
