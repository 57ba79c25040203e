"""docs/one-file.md and the Dockerfile say what the start script does."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
START = (ROOT / "tools/onefile/start.sh").read_text()
PAGE = (ROOT / "docs/one-file.md").read_text()


def test_the_page_names_each_folder_that_is_tried() -> None:
    (places,) = re.findall(r"for place in (.*); do", START)
    for name in re.findall(r"\$\{?([A-Z_]+)", places):
        assert f"${name}" in PAGE
    for path in re.findall(r" (/[a-z/]+)", places):
        assert f"`{path}`" in PAGE


def test_the_page_names_each_program_that_is_needed() -> None:
    (told,) = re.findall(r"^# Needs (.*), such as", START, re.MULTILINE)
    for name in re.split(r", | and ", told):
        assert f"`{name}`" in PAGE


def test_the_page_names_each_option_of_the_start() -> None:
    for option in re.findall(r"^  (--[a-z]+)\)$", START, re.MULTILINE):
        assert f"`{option}" in PAGE


def test_what_is_left_out_is_a_list_of_patterns() -> None:
    lines = (ROOT / "tools/onefile/leave_out.txt").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns
    assert not [line for line in patterns if line.startswith("/") or ".." in line]
