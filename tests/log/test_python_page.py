"""docs/python.md is true: its examples run, and name what there is."""

from __future__ import annotations

import doctest
import re

import pytest
from running import ROOT

import klogtool

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```pycon\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_examples_print_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = [block for block in BLOCKS if "pyarrow" not in block or pytest.importorskip("pyarrow")]
    assert len(blocks) > 5
    found = doctest.DocTestParser().get_doctest("".join(blocks), {}, "python.md", "docs/python.md", 0)
    told: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(found, out=told.append).failed
    assert failed == 0, "".join(told)


@pytest.mark.parametrize("kind", [klogtool.LogDir, klogtool.Partition, klogtool.Segment, klogtool.KraftSnapshot])
def test_every_property_is_on_the_page(kind: type) -> None:
    names = [name for name in dir(kind) if isinstance(getattr(kind, name), property) and not name.startswith("_")]
    missing = [name for name in names if name not in PAGE]
    assert not missing


def test_every_public_name_is_on_the_page() -> None:
    missing = [name for name in klogtool.__all__ if name not in PAGE]
    assert missing == []
