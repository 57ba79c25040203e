"""The screens in docs/ show what klogtool prints; each page has its place in the site; plots come from tables."""

from __future__ import annotations

import re
from typing import Any

import pytest
from running import ROOT, run_here, tool

SITE = ROOT / "tools/site"
screens = tool("site/screens")


@pytest.mark.parametrize("screen", screens.ALL, ids=lambda screen: screen.name)
def test_a_screen_shows_what_klogtool_prints(screen: Any) -> None:
    drawn = screens.SCREENS / f"{screen.name}.svg"
    assert screens.described(drawn) == screens.plain(screens.text_of(screen)), "run `make docs`"


def test_a_screen_fetches_nothing_and_each_is_one_of_ours() -> None:
    names = {path.stem for path in screens.SCREENS.glob("*.svg")}
    assert names == {screen.name for screen in screens.ALL}
    for path in screens.SCREENS.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"url\(|src=|href=", re.sub(r"url\(#[\w-]+\)", "", text))


def test_each_page_has_its_place_in_the_site() -> None:
    """mkdocs says so, too, but only where it is installed."""
    menu = re.findall(r"([\w/-]+\.md)$", (SITE / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    made = {"changelog.md", "contributing.md", "security.md", "reference/index.md"}
    made |= {str(path.relative_to(ROOT / "docs").with_suffix(".md")) for path in (ROOT / "docs").rglob("*.ipynb")}
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(menu) == sorted(pages | made)


def test_the_reference_has_each_command_and_option() -> None:
    pages = tool("site/reference").pages()
    assert {"index.md", "recover.md", "fleet-plan.md", "spark-compact.md"} <= set(pages)
    assert "--mark-clean" in pages["recover.md"]
    for name in ("recover", "fleet plan", "spark compact"):
        told = run_here([*name.split(), "--help"], ROOT).out.decode()
        page = pages[name.replace(" ", "-") + ".md"]
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told)) <= set(
            re.findall(r"(?<![\w-])--?[a-z][a-z-]*", page)
        )
