"""The list of ids: each has its severity, its sentence on the screen, its paragraph in the docs."""

from __future__ import annotations

import re

from running import ROOT

from klogtool.causes import from_text
from klogtool.render.findings import FindingText, meanings
from klogtool.verify.findings import Finding, Kind

PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^### `([a-z-]+)` \((\w+)\)$", re.MULTILINE)


def test_every_id_has_its_paragraph_and_every_paragraph_its_id() -> None:
    described = dict(HEADING.findall(PAGE))
    assert described == {kind.value: kind.row.severity.value for kind in Kind}
    assert len(HEADING.findall(PAGE)) == len(described)


def test_a_paragraph_says_more_than_the_screen() -> None:
    sections = re.split(r"^#+ .*$", PAGE, flags=re.MULTILINE)
    paragraphs = dict(zip(HEADING.findall(PAGE), [s for s in sections if s.strip()][-len(Kind) :], strict=False))
    assert [kind for kind, paragraph in paragraphs.items() if len(paragraph) <= 80] == []


def test_every_id_has_a_sentence() -> None:
    assert list(meanings()) == list(Kind)
    assert all(kind.meaning.endswith(".") and len(kind.meaning) < 200 for kind in meanings().values())


def test_every_id_can_be_shown() -> None:
    text = FindingText(["d"], width=80)
    for kind in Kind:
        block = text.block(
            Finding(kind, "d/t-0/x", from_text("this is so"), 1, 2, 3, 4, "length", cured_by=from_text("do this"))
        )
        assert block.splitlines()[0].split() == [block.split()[0], "t-0/x"]
        assert block.splitlines()[1].split() == [
            kind,
            "length",
            "bytes",
            "1",
            "to",
            "2",
            "offsets",
            "3",
            "to",
            "4",
        ]
        assert "This is so." in block
        assert block.splitlines()[-1] == "         →  do this"
