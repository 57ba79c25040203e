"""What a finding means, and how a command is used: from one text each."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import pytest
from running import ROOT, Done, run_here

from klogtool.cli.main import COMMANDS, GROUPS
from klogtool.render.explained import PAGE
from klogtool.verify.findings import KINDS

KlogTool = Callable[..., Done]
DOCS = ROOT / "docs/findings.md"


def test_the_page_is_the_one_of_the_docs() -> None:
    assert pathlib.Path(PAGE).read_bytes() == DOCS.read_bytes()
    assert "findings.md" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("finding_id", KINDS)
def test_every_finding_is_explained_in_the_words_of_the_docs(finding_id: str, klogtool: KlogTool) -> None:
    done = klogtool("explain", finding_id)
    page = DOCS.read_text(encoding="utf-8").partition(f"### `{finding_id}` ")[2].partition("\n")[2]
    words = page.partition("\n#")[0].replace("`", "").split()
    assert done.status == 0
    told = done.out.decode().split()
    assert told[1] == finding_id
    assert told[2:10] == words[:8]
    assert len(told) > 12


def test_several_at_once_and_as_json(klogtool: KlogTool) -> None:
    done = klogtool("explain", "batch-crc", "torn-batch", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row.get("id") for row in rows] == [None, "batch-crc", "torn-batch"]
    assert rows[1]["severity"] == "error"
    assert rows[1]["text"].startswith("A batch")
    text = klogtool("explain", "batch-crc", "torn-batch").out.decode()
    assert text.index("batch-crc\n") < text.index("torn-batch\n")


def test_without_an_id_all_are_listed(klogtool: KlogTool) -> None:
    listed = re.findall(r"^(?:error|warning|note) +([a-z-]+) ", klogtool("explain").out.decode(), re.MULTILINE)
    assert listed == list(KINDS)


@pytest.mark.parametrize(("typed", "meant"), [("batch-crcs", "batch-crc"), ("Torn-Batch", "torn-batch"), ("xyz", None)])
def test_an_id_that_there_is_not(typed: str, meant: str | None, klogtool: KlogTool) -> None:
    done = klogtool("explain", typed)
    assert (done.status, done.out) == (2, b"")
    assert f"no finding has the id '{typed}'" in done.told
    assert ("did you mean" in done.told) == (meant is not None)
    assert meant is None or meant in done.told


def test_a_file_in_place_of_its_text(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "server log"
    path.write_text("Failed to acquire lock on file .lock in /data.")
    failed = klogtool("explain", str(path))
    command = f"klogtool explain - < '{path}'"
    assert (failed.status, failed.told.splitlines()[-1]) == (2, f"That is a file: {command}")


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), ["spark", "verify"]], ids=" ".join)
def test_help_is_what_the_option_says(words: list[str]) -> None:
    assert run_here(["help", *words], ROOT) == run_here([*words, "--help"], ROOT)


def test_help_for_what_there_is_not(klogtool: KlogTool) -> None:
    assert klogtool("help", "salvag").status == 2
    assert "'salvage'" in klogtool("help", "salvag").told
    assert klogtool("help", "salvage", "more").status == 2


def test_help_begins_with_what_to_do_first_and_has_every_command_once() -> None:
    told = run_here(["--help"], ROOT).out.decode()
    assert told.index("klogtool recover") < told.index("Options:") < told.index("Mend:")
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(COMMANDS)
    assert all(len(re.findall(rf"^  {name} ", told, re.MULTILINE)) == 1 for name in COMMANDS)
