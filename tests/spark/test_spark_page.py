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


def test_every_column_is_named_where_its_table_is() -> None:
    of_all = {"cluster_id", "node_id", "log_dir"}
    before, *parts = re.split(r"^`table=(\w+)`", PAGE, flags=re.MULTILINE)
    sections = {"records": before, **dict(zip(parts[::2], parts[1::2], strict=True))}
    assert sections.keys() == TABLES.keys()
    for table, section in sections.items():
        named = set(re.findall(r"`(\w+)`", section)) | set(re.findall(r"^ \|-- (\w+):", section, re.MULTILINE))
        assert TABLES[table].keys() - named - of_all == set(), table
