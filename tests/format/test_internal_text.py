"""Java's text: malformed UTF-8 as java.lang.String decodes it (expected values are Java 17's)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.format.text import did_you_mean, java_utf8, near_names


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", ""),
        ("c3bc e282ac f09f9880", "ü€😀"),
        ("eda080", "\ufffd"),  # an encoded surrogate is one
        ("eda080 41", "\ufffdA"),
        ("eda0", "\ufffd"),
        ("ed", "\ufffd"),
        ("e080af", "\ufffd\ufffd\ufffd"),  # overlong
        ("e0a0", "\ufffd"),
        ("e0a041", "\ufffdA"),
        ("c0af", "\ufffd\ufffd"),
        ("f0808080", "\ufffd" * 4),
        ("f4908080", "\ufffd" * 4),  # above U+10FFFF
        ("f5808080", "\ufffd" * 4),
        ("f09f98", "\ufffd"),
        ("f09f9841", "\ufffdA"),
        ("f09f41", "\ufffdA"),
        ("80 bf ff", "\ufffd\ufffd\ufffd"),
        ("c3", "\ufffd"),
        ("c341", "\ufffdA"),
        ("00 7f", "\x00\x7f"),
    ],
)
def test_malformed_bytes_become_as_many_signs_as_in_java(data: str, text: str) -> None:
    assert java_utf8(bytes.fromhex(data)) == text


@given(st.text())
def test_sound_bytes_are_read_as_ever(text: str) -> None:
    assert java_utf8(text.encode()) == text


@given(st.binary(max_size=20), st.text(max_size=3))
def test_damage_ends_where_a_sound_character_begins(data: bytes, text: str) -> None:
    assert java_utf8(data + b"\n" + text.encode()).endswith("\n" + text)


def test_a_megabyte_of_damage_takes_linear_time() -> None:
    started = time.process_time()
    assert len(java_utf8(b"\xff" * 1_000_000)) == 1_000_000
    assert time.process_time() - started < 10


KNOWN = ("startingOffsets", "endingOffsets", "deep")


def test_names_that_were_probably_meant() -> None:
    assert did_you_mean("endingoffset", KNOWN) == " (did you mean endingOffsets?)"
    assert did_you_mean("DEEP", KNOWN, at_least=1) == " (did you mean deep?)"
    assert did_you_mean("xyz", KNOWN) == ""
    assert near_names("tartingoffsets", KNOWN) == ["startingOffsets", "endingOffsets"]
