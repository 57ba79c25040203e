"""Numbers in text as Java 17 reads them: what passes, what does not, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.errors import Corrupt
from klogtool.format.java_numbers import parse_java_int, parse_java_long, wrap_int, wrap_long

longs = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+5", 5),
        ("-5", -5),
        ("-0", 0),
        ("007", 7),
        ("0" * 100 + "1", 1),
        ("\u0663", 3),  # Arabic-Indic three
        ("\uff11\u0967", 11),  # a fullwidth one, a Devanagari one
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
    ],
)
def test_accepted(text: str, number: int) -> None:
    assert parse_java_int(text) == parse_java_long(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "abc", " 1", "1 ", "1\n", "1_0", "0x1", "1.0", "--1", "+-1", "9" * 20, "²", "½", "\U0001d7d8"],
)
def test_refused(text: str) -> None:
    for parse in (parse_java_int, parse_java_long):
        with pytest.raises(Corrupt) as found:
            parse(text)
        assert found.value.kafka_class == "NumberFormatException"
        assert found.value.reason == f'For input string: "{text}"'


def test_ranges() -> None:
    for text in ("2147483648", "-2147483649"):
        assert parse_java_long(text) == int(text)
        with pytest.raises(Corrupt):
            parse_java_int(text)
    assert parse_java_long("-9223372036854775808") == -(1 << 63)
    for text in ("9223372036854775808", "-9223372036854775809"):
        with pytest.raises(Corrupt):
            parse_java_long(text)


@given(longs)
def test_every_long_is_read_back(number: int) -> None:
    assert parse_java_long(str(number)) == number


@given(longs, longs)
def test_arithmetic_wraps(a: int, b: int) -> None:
    assert wrap_long(a + b) % (1 << 64) == (a + b) % (1 << 64)
    assert -(1 << 63) <= wrap_long(a + b) < 1 << 63
    assert -(1 << 31) <= wrap_int(a) < 1 << 31
    assert wrap_int((1 << 31) - 1 + 1) == -(1 << 31)
