"""The documents are true: what they show is what klogtool prints, what klogtool has is in them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from running import ROOT, in_shell, run_here, tool

from klogtool.cli.main import COMMANDS

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> Iterator[Any]:
    """The commands of each console block, each with its output: a line with a `$`, and what follows up to the next."""
    for page in PAGES:
        for n, block in enumerate(CONSOLE_BLOCK.findall(page.read_text(encoding="utf-8"))):
            shown = [part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
            examples = [(command, output) for command, _, output in shown if command.startswith("klogtool")]
            if examples:
                yield pytest.param(examples, id=f"{page.name}-{n}-{examples[0][0][:60]}")


def pattern_of(output: str) -> str:
    """A line of `...` stands for any lines, `...` in a line for the rest of a word or line."""
    lines = [
        "(.*\n)*?" if line.strip() == "..." else re.escape(line).replace(re.escape("..."), ".*") + "\n"
        for line in output.splitlines()
    ]
    return "".join(lines)


def commands() -> list[str]:
    """The commands that `klogtool --help` lists: all that there are."""
    listed = run_here(["--help"], ROOT).out.decode()
    assert all(re.search(rf"^  {name} ", listed, flags=re.MULTILINE) for name in COMMANDS)
    return list(COMMANDS)


@pytest.mark.parametrize("block", list(blocks()))
def test_an_example_prints_what_the_page_shows(block: list[tuple[str, str]], tmp_path: pathlib.Path) -> None:
    """What a page writes to /tmp goes into a folder of the test: in /tmp that name may be another user's."""
    for command, output in block:
        printed = in_shell(command.replace("/tmp/", f"{tmp_path}/"), ROOT)[0].replace(f"{tmp_path}/", "/tmp/")
        assert re.fullmatch(pattern_of(output), printed), f"klogtool printed:\n{printed}"


def test_every_command_has_help_and_a_page_that_names_every_option() -> None:
    """What commands share is in options.md, for the pages that link to it."""
    assert "dump-log" in commands()
    shared = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    for command in commands():
        told = run_here([command, "--help"], ROOT)
        assert told.status == 0
        page = ROOT / "docs" / f"{command}.md"
        assert page.exists(), f"klogtool {command} has no page in docs/"
        text = page.read_text(encoding="utf-8")
        text += shared if "](options.md)" in text else ""
        missing = {option for option in re.findall(r"--[a-z][a-z-]+", told.out.decode()) if option not in text}
        assert not missing, f"{page.name} does not name {sorted(missing)}"


def test_the_tables_of_the_pages_are_what_the_declarations_say() -> None:
    make_docs = tool("make_docs")
    pages = [path.read_text(encoding="utf-8") for path in make_docs.PAGES]
    for page in pages:
        assert make_docs.with_tables(page) == page, "run `make docs`"
    for path in make_docs.pages_of_options():
        page = path.read_text(encoding="utf-8")
        assert make_docs.with_tables(page) == page, f"{path.name}: run `make docs`"
    format_page, releases_page, contract, findings = pages
    assert make_docs.with_sections(findings) == findings, "run `make docs`"
    assert "<!-- findings " in contract
    assert format_page.count("<!-- layout ") > 10
    assert "`rewrites_old_magic`" in releases_page


def test_a_new_section_of_a_finding_stands_where_the_table_has_its_kind() -> None:
    make_docs = tool("make_docs")
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("##")]
    for kind in make_docs.Kind:
        section = re.compile(rf"^{re.escape(make_docs.heading(kind))}$.*?(?=^##|\Z)", re.MULTILINE | re.DOTALL)
        anew = make_docs.with_sections(section.sub("", page))
        assert [line for line in anew.splitlines() if line.startswith("##")] == headings
        assert make_docs.meanings()[kind].meaning in anew


def test_the_kernels_are_compiled_with_the_layout_of_the_declarations() -> None:
    from klogtool.format.kernel_layout import pxi_text

    committed = (ROOT / "klogtool/kernels/_layout.pxi").read_text(encoding="utf-8")
    assert committed == pxi_text(), "run `python -m klogtool.format.kernel_layout > klogtool/kernels/_layout.pxi`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_inside_the_project_leads_somewhere(page: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
