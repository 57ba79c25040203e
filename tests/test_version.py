"""The version stands in one place; what else tells it takes it from there, or is held here."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
from running import ROOT, run_here

from klogtool.cli.version import VERSION

HELD = {"CHANGELOG.md", "klogtool/cli/version.py"}  # the heading of a release, and the place itself


def test_pyproject_takes_it_from_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "klogtool.cli.version.VERSION"}
    assert run_here(["--version"], ROOT).out.decode().startswith(f"klogtool {VERSION} ")


def test_the_newest_release_in_the_changelog_is_this_one() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == VERSION


def test_no_other_file_states_it_but_the_man_pages() -> None:
    """What git knows, outside of the tests and the fixtures."""
    stated = re.compile(rf'(?<![\w_])VERSION = "\d|klogtool[ -]v?{re.escape(VERSION)}')
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs git")
    names = [name for name in listed.stdout.split() if name.endswith((".py", ".md", ".toml", ".yml", ".sh"))]
    names = [name for name in names if not name.startswith(("tests/", "fixtures/"))]
    assert {name for name in names if stated.search((ROOT / name).read_text(encoding="utf-8"))} == HELD
