"""Variable-length integers as Java reads them: where they end, and which bits are dropped."""

from __future__ import annotations

import io
from typing import Any

import pytest
from construct import Construct, StreamError
from hypothesis import given
from hypothesis import strategies as st
from kafka import layout

from klogtool.format.java_numbers import to_signed
from klogtool.format.varint import (
    VARINT_BITS,
    Overlong,
    OverlongVarint,
    Varint,
    VarintBytes,
    Varlong,
    build_unsigned,
    build_zigzag,
    read_groups,
    read_unsigned,
)

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)

VALUES = [
    ("00", 0),
    ("01", -1),
    ("02", 1),
    ("7e", 63),
    ("7f", -64),
    ("8001", 64),
    ("8101", -65),
    ("feff 0f", 2**17 - 1),
    ("feffffff0f", 2**31 - 1),
    ("ffffffff0f", -(2**31)),
]
LONG_VALUES = [
    ("8080808010", 2**31),
    ("fdffffffffffffffff01", -(2**63) + 1),
    ("feffffffffffffffff01", 2**63 - 1),
    ("ffffffffffffffffff01", -(2**63)),
]


def parse(kind: Construct, text: str) -> Any:
    return kind.parse(bytes.fromhex(text))


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_varint(text: str, value: int) -> None:
    assert parse(Varint, text) == parse(Varlong, text) == value
    assert Varint.build(value) == Varlong.build(value) == build_zigzag(value) == bytes.fromhex(text)


@pytest.mark.parametrize(("text", "value"), LONG_VALUES)
def test_varlong(text: str, value: int) -> None:
    assert parse(Varlong, text) == value
    assert Varlong.build(value) == bytes.fromhex(text)


@pytest.mark.parametrize("dropped", ["0f", "1f", "4f", "7f"])
def test_of_the_fifth_byte_a_varint_keeps_four_bits(dropped: str) -> None:
    assert parse(Varint, f"ffffffff{dropped}") == -(2**31)


@pytest.mark.parametrize("dropped", ["01", "03", "41", "7f"])
def test_of_the_tenth_byte_a_varlong_keeps_one_bit(dropped: str) -> None:
    assert parse(Varlong, f"ffffffffffffffffff{dropped}") == -(2**63)


@pytest.mark.parametrize("text", ["8000", "808000", "8080808000"])
def test_more_bytes_than_needed_are_the_same_number(text: str) -> None:
    assert parse(Varint, text) == 0


@pytest.mark.parametrize("text", ["ffffffff80", "8080808080", "ffffffffff", "8080808080 00", "ffffffffff 01"])
def test_a_varint_ends_after_five_bytes(text: str) -> None:
    with pytest.raises(OverlongVarint, match="more than 5 bytes"):
        parse(Varint, text)
    with pytest.raises(Overlong):
        read_unsigned(io.BytesIO(bytes.fromhex(text)).read, VARINT_BITS)


@pytest.mark.parametrize("text", ["80808080808080808080", "ffffffffffffffffffff 01"])
def test_a_varlong_ends_after_ten_bytes(text: str) -> None:
    with pytest.raises(OverlongVarint, match="more than 10 bytes"):
        parse(Varlong, text)


@pytest.mark.parametrize("text", ["", "80", "ffff", "ffffffff"])
def test_one_that_is_cut_off_is_an_error_of_the_stream(text: str) -> None:
    for kind in (Varint, Varlong):
        with pytest.raises(StreamError) as found:
            parse(kind, text)
        assert not isinstance(found.value, OverlongVarint)


def test_unsigned_ones_have_no_sign() -> None:
    for text, value in (("ffffffff0f", 2**32 - 1), ("ffffffff7f", 2**32 - 1), ("01", 1), ("ac02", 300)):
        assert read_unsigned(io.BytesIO(bytes.fromhex(text)).read, VARINT_BITS) == value
    assert build_unsigned(300) == bytes.fromhex("ac02")


def test_a_caller_may_look_at_the_bits_that_are_dropped() -> None:
    overlong = io.BytesIO(b"\xff\xff\xff\xff\x7f")
    assert read_groups(overlong.read, VARINT_BITS) == 2**35 - 1
    overlong.seek(0)
    assert read_unsigned(overlong.read, VARINT_BITS) == 2**32 - 1
    with pytest.raises(Overlong) as found:
        read_unsigned(io.BytesIO(b"\xff\xff\xff\xff\x87").read, VARINT_BITS)
    assert found.value.groups == 2**31 - 1
    with pytest.raises(EOFError):
        read_unsigned(io.BytesIO(b"\xff").read, VARINT_BITS)


def test_nothing_behind_a_number_is_read() -> None:
    assert parse(Varint, "02 ff") == 1


@given(ints)
def test_what_is_built_is_read_again(value: int) -> None:
    assert Varint.parse(build_zigzag(value)) == value
    assert build_zigzag(value) == layout.varint(value)
    assert len(build_zigzag(value)) <= 5


@given(longs)
def test_what_is_built_is_read_again_as_a_long(value: int) -> None:
    assert Varlong.parse(build_zigzag(value)) == value
    assert build_zigzag(value) == layout.varint(value, 64)
    assert len(build_zigzag(value)) <= 10


@given(st.integers())
def test_to_signed_is_javas_wrap_around(value: int) -> None:
    for bits in (32, 64):
        wrapped = to_signed(value, bits)
        assert -(2 ** (bits - 1)) <= wrapped < 2 ** (bits - 1)
        assert (wrapped - value) % 2**bits == 0


# ---------------------------------------------------------------- bytes behind their length


@pytest.mark.parametrize(
    ("text", "value"),
    [("00", b""), ("02 61", b"a"), ("01", None), ("03", None), ("0f", None), ("ffffffff0f", None)],
)
def test_any_negative_length_is_null(text: str, value: bytes | None) -> None:
    assert parse(VarintBytes(), text) == value


def test_null_is_written_as_minus_one() -> None:
    assert VarintBytes().build(None) == b"\x01"
    assert VarintBytes().build(b"") == b"\x00"
    assert VarintBytes().build(b"ab") == bytes.fromhex("04 6162")


def test_where_null_is_not_legal_a_negative_length_is_an_error() -> None:
    assert parse(VarintBytes(null=False), "00") == b""
    with pytest.raises(StreamError, match="-1"):
        parse(VarintBytes(null=False), "01")


@pytest.mark.parametrize("text", ["02", "04 61", "feffffff0f 61"])
def test_a_length_beyond_the_end_is_an_error(text: str) -> None:
    with pytest.raises(StreamError):
        parse(VarintBytes(), text)
