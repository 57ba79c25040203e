"""Keys and values by their formats: what each becomes, and what it says of bytes that are not its own."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.decoding.bounds import MOST_BYTES, MOST_DEPTH, MOST_ITEMS
from klogtool.decoding.formats import FORMATS, find_decoder
from klogtool.decoding.record_values import Formats, PartDecoder, decoding_of
from klogtool.errors import Corrupt, KlogError
from klogtool.render.decoded_text import decoded_text

DEEP = MOST_DEPTH + 1


def value_of(form: str, data: bytes) -> Any:
    return find_decoder(form, None, is_key=False)(data, "t").value


def failure_of(form: str, data: bytes) -> str:
    found = PartDecoder(form, find_decoder(form, None, is_key=False)).decoded(data, "t")
    assert found.reading is None
    assert found.row() == {"format": form, "error": found.failure, "hex": data[: 1 << 20].hex()}
    return str(found.failure)


@pytest.mark.parametrize(
    ("form", "hex_bytes", "value"),
    [
        ("string", "c3a4ff", "ä\ufffd"),
        ("string", "", ""),
        ("hex", "00ff", "00ff"),
        ("short", "fffe", -2),
        ("int", "7fffffff", 2**31 - 1),
        ("int", "ffffffff", -1),
        ("long", "8000000000000000", -(2**63)),
        ("float", "3dcccccd", 0.1),
        ("float", "7f7fffff", 3.4028235e38),
        ("float", "00000001", 1e-45),
        ("float", "7fc00000", "NaN"),
        ("double", "fff0000000000000", "-Infinity"),
        ("double", "3fb999999999999a", 0.1),
        ("boolean", "01", True),
        ("uuid", b"6F1C7A52-0000-0000-0000-000000000001".hex(), "6f1c7a52-0000-0000-0000-000000000001"),
        ("uuid", b"1-2-3-4-5".hex(), "00000001-0002-0003-0004-000000000005"),
        ("json", b' {"a": [1, 2.5, null]} '.hex(), {"a": [1, 2.5, None]}),
        ("json", b'\x00\x00\x00\x00\x11{"a":1}'.hex(), {"a": 1}),
        ("json", b"123456789012345678901234567890".hex(), 123456789012345678901234567890),
        ("msgpack", "82a178ffa179c3", {"x": -1, "y": True}),
        ("msgpack", "93c0ca3dcccccdc403c3a4ff", [None, 0.1, {"base64": "w6T/"}]),
        ("msgpack", "8101a161", {"1": "a"}),
        ("msgpack", "d6ff00000001", {"ext": -1, "data": {"utf8": "\0\0\0\x01"}}),
    ],
)
def test_a_value_becomes(form: str, hex_bytes: str, value: Any) -> None:
    assert value_of(form, bytes.fromhex(hex_bytes)) == value


@pytest.mark.parametrize(
    ("form", "data", "reason"),
    [
        ("int", b"", "0 bytes, not 4"),
        ("int", b"12345", "5 bytes, not 4"),
        ("long", b"1234", "4 bytes, not 8"),
        ("boolean", b"\x02", "the byte is 2, not 0 or 1"),
        ("uuid", b"1-2-3-4", "not a UUID"),
        ("uuid", b"\xff" * 36, "not a UUID"),
        ("void", b"", "0 bytes, where only null is allowed"),
        ("json", b"", "not JSON: empty"),
        ("json", b'{"a":NaN}', "not JSON: NaN"),
        ("json", b'{"a":1,"a":2}', 'the name "a" is twice in an object'),
        ("json", b"[1e999]", "a number beyond a double"),
        ("json", b"1e-999", "a number beyond a double"),
        ("json", b"1" * 5000, "a number with 5,000 digits"),
        ("json", b'"\xff"', "not UTF-8 at byte 1"),
        ("json", '{"ä":x}'.encode(), "not JSON at byte 6"),
        ("json", b"\xef\xbb\xbf1", "not JSON at byte 0"),
        ("json", b"[" * DEEP + b"]" * DEEP, "nested deeper than 100"),
        ("json", b"[" * 500_000, "nested too deeply"),
        ("json", b"[" + b"0," * MOST_ITEMS + b"0]", "too large to decode: more than 1,048,576 items"),
        ("msgpack", b"", "it ends at byte 0, inside a value"),
        ("msgpack", b"\xc1", "byte 0 is 0xc1, which MessagePack never uses"),
        ("msgpack", b"\x01\x02", "1 bytes are left behind the value"),
        ("msgpack", b"\xdd\xff\xff\xff\xff", "4,294,967,295 items in 0 bytes"),
        ("msgpack", b"\xdb\xff\xff\xff\xff", "it ends at byte 5, inside a value"),
        ("msgpack", b"\x91" * DEEP * 2 + b"\x01", "nested deeper than 100"),
        ("msgpack", b"\x82\x01\x01\x01\x02", "a key is twice in a map"),
        ("msgpack", b"\x81\x90\x01", "an object's key is an array, a map or an extension, which JSON does not have"),
        ("msgpack", b"\x82\x01\x01\xa11\x02", "two keys of an object are the same in JSON"),
    ],
)
def test_bytes_that_are_no_such_value_have_a_reason(form: str, data: bytes, reason: str) -> None:
    assert failure_of(form, data) == reason


def test_a_value_that_is_too_large_is_not_decoded() -> None:
    data = bytes(MOST_BYTES + 1)
    found = PartDecoder("string", find_decoder("string", None, is_key=False)).decoded(data, "t")
    assert found.failure == "larger than 16 MiB"
    assert decoded_text(found).endswith("... and 15,728,641 bytes more (not decoded: larger than 16 MiB)")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def as_shown(value: Any) -> Any:
    """A value with infinite numbers as klogtool shows them."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: as_shown(item) for key, item in value.items()}
    return [as_shown(item) for item in value] if isinstance(value, list) else value


@given(JSON)
def test_messagepack_is_read_as_others_write_it(value: Any) -> None:
    assert value_of("msgpack", msgspec.msgpack.encode(value)) == as_shown(value)


@given(JSON.filter(lambda value: as_shown(value) == value))
def test_json_is_read_as_others_write_it(value: Any) -> None:
    assert value_of("json", json.dumps(value).encode()) == value


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("avro", "protobuf")])
@given(data=st.binary(max_size=300))
def test_no_bytes_end_in_an_error(form: str, data: bytes) -> None:
    found = PartDecoder(form, find_decoder(form, None, is_key=False)).decoded(data, "t")
    assert json.loads(json.dumps(found.row(), allow_nan=False))["format"] == form
    assert "\n" not in decoded_text(found)


def test_null_stays_null_and_empty_is_not_null() -> None:
    decoding = decoding_of(Formats(value="string"))
    assert decoding.fields(b"k", None, "t") == {"value_decoded": None}
    assert decoding.fields(b"k", b"", "t") == {"value_decoded": {"format": "string", "value": ""}}
    assert decoding_of(Formats()).fields(b"k", b"v", "t") == {}


def test_text_of_a_value_is_one_line_without_control_characters() -> None:
    (found,) = [
        PartDecoder("string", find_decoder("string", None, is_key=False)).decoded(b"a\n\x1b[2J\xe2\x80\xae", "t")
    ]
    assert decoded_text(found) == r"a\n\x1b[2J\u202e"
    found = PartDecoder("json", find_decoder("json", None, is_key=False)).decoded('"\\u001b\u202e"'.encode(), "t")
    assert decoded_text(found) == r'"\u001b\u202e"'


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(KlogError, match="no such format: xml"):
        find_decoder("xml", None, is_key=False)
    with pytest.raises(KlogError, match="avro needs --schemas"):
        find_decoder("avro", None, is_key=False)
    with pytest.raises(Corrupt):
        find_decoder("int", None, is_key=False)(b"", None)
