"""The cookbook: each page's commands, run in order on a copy, print what the page shows, and the cure cures."""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Iterator

import pytest
from running import ROOT, in_shell
from test_docs import CONSOLE_BLOCK, pattern_of

COOKBOOK = ROOT / "docs/cookbook"
PAGES = [path for path in sorted(COOKBOOK.glob("*.md")) if path.name != "index.md"]
SECTIONS = ["Look", "Copy first", "Cure", "Check again", "What it cost"]
MADE_BY = re.compile(r"<!-- made by\n(.*?)-->", re.DOTALL)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A folder with a short path: klogtool breaks its lines where they broke when the pages were written."""
    with tempfile.TemporaryDirectory(prefix="cb", dir="/tmp") as path:
        yield pathlib.Path(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows_and_cure(page: pathlib.Path, folder: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in ("fixtures", "docs"):
        (folder / name).symlink_to(ROOT / name)
    setup = MADE_BY.search(text)
    assert setup is not None
    said, status = in_shell(f"set -e\n{setup[1]}chmod -R u+w .", folder)
    assert status == 0, said
    cured_from = text.index("\n## Check again\n")
    commands = 0
    for block in CONSOLE_BLOCK.finditer(text):
        for shown in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            command, _, output = shown.partition("\n")
            printed, status = in_shell(command, folder)
            assert re.fullmatch(pattern_of(output), printed), f"{command}\nprinted:\n{printed}"
            assert status == 0 or block.start() < cured_from, f"{command}: after the cure it ends with status {status}"
            assert status in (0, 1), f"{command}: status {status}"
            commands += 1
    assert commands >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_five_steps_and_is_in_the_index(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == SECTIONS
    assert f"]({page.name})" in (COOKBOOK / "index.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_there_is_a_page_for_each_trouble() -> None:
    assert len(PAGES) == 21
