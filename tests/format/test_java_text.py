"""Lines, fields and properties as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt
from klogtool.format.java_text import build_properties, parse_properties, split_fields, walk_lines


def lines_of(data: bytes) -> list[str]:
    return list(walk_lines(data, kafka_class="KafkaStorageException"))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\rc\n", ["a", "b", "c"]),
        (b"a\n\n", ["a", ""]),
        (b"a\x0bb\x1cc\x85"[:5], ["a\x0bb\x1cc"]),
        ("\u2028\u00e9".encode(), ["\u2028\u00e9"]),
        (b"\xef\xbb\xbfa", ["\ufeffa"]),
    ],
)
def test_lines(data: bytes, lines: list[str]) -> None:
    assert lines_of(data) == lines


def test_broken_utf8_is_met_with_the_first_buffer() -> None:
    with pytest.raises(Corrupt) as found:
        lines_of(b"0\n1\n\xff")
    assert (found.value.kafka_class, found.value.position) == ("KafkaStorageException", 4)
    later = walk_lines(b"0\n" + b"x" * 8192 + b"\n\xff", kafka_class="KafkaStorageException")
    assert next(later) == "0"  # Java's reader decodes 8192 characters ahead
    with pytest.raises(Corrupt):
        next(later)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a 0 1", ["a", "0", "1"]),
        ("a\t \x0b\f0", ["a", "0"]),
        (" 0 1", ["", "0", "1"]),
        ("a 0 ", ["a", "0"]),
        ("", [""]),
        ("  ", []),
        ("a\u00a00\x1c1", ["a\u00a00\x1c1"]),
    ],
)
def test_fields(line: str, fields: list[str]) -> None:
    assert split_fields(line) == fields


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("# c\n! c\n\n  a=1\n", {"a": "1"}),
        ("a=1\r\nb:2\rc 3", {"a": "1", "b": "2", "c": "3"}),
        ("a = : 1 ", {"a": ": 1 "}),
        ("a\tb", {"a": "b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=1\\\n   2\\\\\nb=3", {"a": "12\\", "b": "3"}),
        ("a=\\\n# no comment", {"a": "# no comment"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n#comment\nb", {"b": ""}),
        ("\\\n", {"": ""}),
        ("\\\r\n", {}),
        ("\\u0041=\\t\\n\\r\\f\\q", {"A": "\t\n\r\fq"}),
        ("a=\\ud83d\\ude00\u00e9", {"a": "\U0001f600\u00e9"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == properties


@pytest.mark.parametrize("text", ["a=\\u004", "a\\u00=41", "a=\\uxyzw", "\\u"])
def test_an_escape_that_lacks_digits(text: str) -> None:
    with pytest.raises(Corrupt, match=r"Malformed \\uxxxx encoding") as found:
        parse_properties(text.encode())
    assert found.value.kafka_class == "IllegalArgumentException"


def test_properties_are_stored_as_java_stores_them() -> None:
    built = build_properties({" k#!=\u00e9": " v\u00e9#!: \t\x01\x7f\u00e9\n"}, ("", "today"))
    assert (
        built
        == rb"""#
#today
\ k\#\!\=\u00E9=\ v\u00E9\#\!\: \t\u0001\u007F\u00E9\n
"""
    )


@given(st.dictionaries(st.text(), st.text()))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    assert parse_properties(build_properties(properties, ("",))) == properties


@given(st.binary(max_size=80))
def test_any_bytes(data: bytes) -> None:
    assert kafka_class_of(parse_properties, data) in (None, "IllegalArgumentException")
    assert kafka_class_of(lines_of, data) in (None, "KafkaStorageException")
