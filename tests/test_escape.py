"""Text from a disk, as a terminal may see it and a shell may read it; and rows of JSON without lone surrogates."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import unicodedata

import pytest

from klogtool.escape import escaped, escaped_json, joined, quoted
from klogtool.json_rows import presentable, restored, row_line

HOSTILE = [
    "\x1b[2J",
    "\x9b2J",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
    "\ufeff",
    "\U000e0041",
    "\n",
    "\r",
    "\x7f",
    "\t",
]
HOSTILE += ["\udcff", "\ud800", "\u00ad", "\ufe0f", "\u3164", "\u115f", "\u00a0", "\ue000"]


@pytest.mark.slow
def test_nothing_that_moves_hides_or_reorders_is_left() -> None:
    for char in map(chr, range(sys.maxunicode + 1)):
        shown = escaped(char)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            assert shown.isascii(), hex(ord(char))
            assert shown != char
        shown.encode()
        assert "\n" not in shown


@pytest.mark.parametrize("text", ["orders-0", "Zürich-3", "日本-0", "café → …", "a\\b", "it's"])
def test_what_can_be_read_stays(text: str) -> None:
    assert escaped(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x9b \u202e \U000e0041", r"\u009b \u202e \U000e0041"),
        ("byte \udcff", r"byte \xff"),
        ("\ud800", r"\ud800"),
    ],
)
def test_how_it_is_shown(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_name_does_not_begin_a_line_of_its_own() -> None:
    assert joined(["t-0: nothing is lost", "a\nt-1: nothing is lost"]).count("\n") == 1


@pytest.mark.parametrize("text", ["", "a b", "it's", "$(id)", "`id`", "\\", "*", *(f"a{c}'\\b1" for c in HOSTILE)])
def test_a_quoted_word_is_that_word_to_a_shell_and_can_be_shown(text: str) -> None:
    word = quoted(text)
    assert escaped(word) == word
    if "\ud800" in text:
        return  # stands for no byte: no name on disk is like that
    told = subprocess.run(["bash", "-c", f"printf %s {word}"], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C"})
    assert told.stdout == os.fsencode(text)


def test_a_name_that_is_not_utf8_has_its_bytes_beside_it() -> None:
    row = {"type": "x", "path": "/d/\udcff", "paths": ["ok", "\udcfe"], "facts": [{"path": "a\udc80"}], "n": 1}
    for ascii_only in (True, False):
        line = row_line(row, ascii_only=ascii_only)
        line.encode()
        told = json.loads(line)
        assert told["path"] == "/d/\\xff"
        assert base64.b64decode(told["path_base64"]) == b"/d/\xff"
        assert told["paths"] == ["ok", "\\xfe"]
        assert list(map(base64.b64decode, told["paths_base64"])) == [b"ok", b"\xfe"]
        assert list(told)[1:3] == ["path", "path_base64"]
        assert restored(told) == row


def test_any_other_row_is_as_it_was() -> None:
    row = {"path": "/d/日本 \x1b \U0001f600", "list": [1, None, "a"], "empty": []}
    assert presentable(row) == row
    assert "_base64" not in row_line(row)
    assert json.loads(row_line(row)) == row


@pytest.mark.parametrize("char", [c for c in HOSTILE if c != "\n"])
def test_json_on_a_terminal_is_the_same_json(char: str) -> None:
    row = {"value": f"a{char}b", "list": [char]}
    line = json.dumps(row, ensure_ascii=False)
    shown = escaped_json(line)
    assert json.loads(shown) == row
    assert escaped(shown) == shown
    shown.encode()
