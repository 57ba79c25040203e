"""Lines of records by msgspec: the batches of the slow way, to the byte, and its errors of the same lines."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from looped import for_each
from running import FIXTURES, run_here

from klogtool.broker.appending import records
from klogtool.broker.appending.records import Batching
from klogtool.errors import KlogError

NOW_MS = 1_700_000_000_000
PATH = "lines"

PLAIN = [
    '{"type":"record","offset":5,"timestamp":17,"key":{"utf8":"k"},"value":{"base64":"AP8="},"is_control":false}',
    '{"type":"record","is_control":true,"key":{"base64":"AAAAAA=="}}',
    '{"key":"a text with \\": in it, twice: \\":"}',
    '{"type":"batch","base_offset":5,"delete_horizon_ms":null,"crc_valid":true}',
    '{"headers":[["h",{"utf8":"x"}],["\\u00e9\\ud83d\\ude00",null]],"value":""}',
    ' { "key": "a\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000" ,\t"value":null , "timestamp":\tnull } \r',
    '{"key":"é€😀","timestamp":-999999999999999999}',
    '{"headers":null,"is_control":null}',
    "{}",
    "",
    " \t\r",
]
FOR_THE_SLOW_WAY = [
    ' { "key" : "a\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000" ,\t"value":null , "timestamp" : null } \r',
    '{"type":"record","is_control":true,"key":{"base64":"AAAAAA=="},"decoded":{"type":"COMMIT","n":[1,{}]}}',
    '{"key":":begins"}',
    '{"timestamp":9223372036854775807}',
    '{"timestamp":-9223372036854775808}',
    '{"decoded":1.5e3,"key":"k"}',
    '{"decoded":' + "[" * 40 + "]" * 40 + "}",
    '{"base_offset":5,"type":"batch"}',
    '{"type":"batch","base_offset":5,"crc":1,"crc":2}',
    '{"headers":[["?",null]],"header_keys":[{"base64":"/w=="}]}',
    '{"headers":{}}',
    '{"is_control":1}',
    '{"type":"klogtool"}',
    '{"type":"summary","batches":1}',
    "\x0b",
]
UNKNOWN = {
    '{"key":"a","vaule":"b"}': "a record has no field vaule (did you mean value?)",
    '{"Key":"a"}': "a record has no field Key (did you mean key?)",
    '{"x\\\\":1,"key":":"}': "a record has no field x\\",
    '{"":1}': "a record has no field ",
    '{"payload":"x"}': "a record has no field payload",
    '{"base_offset":1,"key":"a"}': "a record has no field base_offset (did you mean offset?)",
    '{"is_control":true,"zz":1}': "a record has no field zz",
    '{"key":{"utf-8":"a"}}': "an object for bytes has no field utf-8 (did you mean utf8?)",
    '{"value":{"utf8":"a","bas64":"YQ=="}}': "an object for bytes has no field bas64 (did you mean base64?)",
    '{"value":{"utf8":"a","base64":"YQ=="}}': 'bytes are {"utf8": ...}, {"base64": ...} or null',
    '{"headers":[["h",{"text":"a"}]]}': "an object for bytes has no field text",
    '{"headers":[["h",null]],"header_keys":[{"hex":"aa"}]}': "an object for bytes has no field hex",
}
TWICE = {
    '{"key":"a","key":"b"}': "the field key is there twice",
    '{"offset":1,"key":"a","offset":1}': "the field offset is there twice",
    '{"decoded":1,"decoded":2}': "the field decoded is there twice",
    '{"key" :"a","key":"b"}': "the field key is there twice",
    '{"key":"a","k\\u0065y":"b"}': "the field key is there twice",
    '{"key":{"utf8":"a","utf8":"b"}}': "the field utf8 is there twice",
    '{"headers":[["h",{"base64":"","base64":""}]]}': "the field base64 is there twice",
}
WRONG = [
    '{"key":5}',
    '{"key":{"base64":"%%"}}',
    '{"key":{"base64":"A==="}}',
    '{"key":{"base64":"===="}}',
    '{"key":{"utf8":"\\ud800"}}',
    '{"key":"\\udc00\\ud800"}',
    '{"key":"a\tb"}',
    '{"key":"\\x"}',
    '{"offset":01}',
    '{"offset":-}',
    '{"offset":tru}',
    '{"offset":1,}',
    '{"offset":1}}',
    *UNKNOWN,
    *TWICE,
    '{"a" 1}',
    '{"timestamp":true}',
    '{"headers":[["a",null],]}',
    '{"headers":[["a"]]}',
    '{"type":null}',
    '{"type":"error"}',
    "{",
    "[]",
    '"',
]


def batching(**given: Any) -> Batching:
    return Batching(
        **{"codec": "none", "magic": 2, "batch_bytes": 400, "batch_records": 7} | given, leader_epoch=0, now_ms=NOW_MS
    )


def outcome(calls: Iterator[Any], batching: Batching) -> tuple[Any, ...]:
    """The batches, or the error behind them."""
    made = []
    try:
        for call in calls:
            made.append(call.content)
    except KlogError as error:
        return made, str(error)
    return made, batching.control_records


def pieces_of(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def assert_same(text: bytes, **given: Any) -> tuple[Any, ...]:
    one, other = batching(**given), batching(**given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_read", lambda _: None)
        expected = outcome(records.walk_record_calls(iter([text]), PATH, one), one)
    for size in (len(text) + 1, 5):
        other = batching(**given)
        assert outcome(records.walk_record_calls(pieces_of(text, size), PATH, other), other) == expected
    return expected


@pytest.mark.parametrize("line", PLAIN)
def test_msgspec_reads_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(line.encode())
    monkeypatch.setattr(records, "_parse_row", lambda *_: pytest.fail("left to the slow way"))
    given = batching()
    assert isinstance(outcome(records.walk_record_calls(iter([line.encode()]), PATH, given), given)[1], int)


@pytest.mark.parametrize("line", FOR_THE_SLOW_WAY)
def test_the_slow_way_reads_it(line: str) -> None:
    _, control_records = assert_same(b'{"key":"before"}\n' + line.encode() + b'\n{"key":"behind"}')
    assert isinstance(control_records, int)


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_told_with_its_line(line: str) -> None:
    made, error = assert_same(b'{"key":"a"}\n\n' + line.encode() + b'\n{"key":"b"}\n')
    assert error.startswith(f"{PATH}: line 3: ")
    assert made == []


@pytest.mark.parametrize(("line", "told"), (UNKNOWN | TWICE).items())
def test_a_field_that_is_not_known_or_is_there_twice_is_refused_by_name(line: str, told: str) -> None:
    """What it was to say would be lost: a value that is called vaule makes a tombstone."""
    assert assert_same(line.encode())[1] == f"{PATH}: line 1: {told}"


@pytest.mark.slow
def test_all_that_dump_log_prints_of_a_record_is_known() -> None:
    for fixture in ("transactions", "every-codec", "groups", "magic-0", "three-magics"):
        for log in sorted((FIXTURES / fixture).glob("**/*.log")):
            done = run_here(["dump-log", str(log), "--format", "json"], log.parent)
            rows = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "record"]
            assert {name for row in rows for name in row} <= records.FIELDS
            assert isinstance(assert_same(done.out)[1], int)


@pytest.mark.parametrize("given", [{}, {"batch_records": 1}, {"batch_bytes": 1}, {"batch_bytes": 10**6}])
@pytest.mark.parametrize("codec", ["none", "lz4", "snappy", "gzip", "zstd"])
def test_batches_in_any_codec_end_where_the_slow_way_ends_them(codec: str, given: dict[str, int]) -> None:
    made, _ = assert_same("\n".join(itertools.chain(PLAIN, FOR_THE_SLOW_WAY, PLAIN)).encode(), codec=codec, **given)
    assert made


@for_each(range(150), "seed {}".format)
def test_at_random(seed: int) -> None:
    rng = random.Random(seed)
    text = b"\n".join(some_line(rng) for _ in range(rng.choice((1, 2, 30)))) + rng.choice([b"", b"\n"])
    assert_same(text, batch_records=rng.choice((1, 3, 100)))


def some_line(rng: random.Random) -> bytes:
    """A line as somebody may write it, now and then with a byte that is another one."""
    line = bytearray(
        json.dumps(
            some_row(rng),
            ensure_ascii=rng.random() < 0.5,
            separators=rng.choice([(",", ":"), (", ", ": "), (",\t", " : ")]),
        ).encode(errors="surrogatepass")
    )
    if rng.random() < 0.03:
        line[rng.randrange(len(line))] = rng.choice([0, 31, 34, 92, 128, 192, 237, rng.randrange(256)])
    return bytes(line if rng.random() < 0.99 else line[: rng.randrange(len(line))])


def some_row(rng: random.Random) -> dict[str, Any]:
    times = [None, -1, 0, NOW_MS, 2**63 - 1, -(2**63)]
    row = {
        "type": rng.choice(["record"] * 30 + ["batch", "answer", "klogtool"]),
        "key": some_bytes(rng),
        "value": some_bytes(rng),
        "timestamp": rng.choice(times),
        "is_control": rng.choice([False] * 9 + [True, None]),
        "headers": rng.choice([[], None, [[some_text(rng), some_bytes(rng)] for _ in range(rng.randrange(4))]]),
        "offset": rng.randrange(10**9),
        rng.choice(["codec", "crc_valid", "crc", "file"] if rng.random() < 0.99 else ["zz", "Key"]): some_value(rng, 3),
        "decoded": some_value(rng, 0),
    }
    names = [name for name in row if rng.random() < 0.7]
    rng.shuffle(names)
    return {name: row[name] for name in names}


def some_text(rng: random.Random) -> str:
    letters = [
        "a",
        "é",
        "€",
        "😀",
        "\n",
        '"',
        "\\",
        "\0",
        "/",
        "\x7f",
        "x" * 20,
        "\ud800" if rng.random() < 0.02 else "z",
    ]
    return "".join(rng.choices(letters, k=rng.randrange(12)))


def some_bytes(rng: random.Random) -> Any:
    coded = base64.b64encode(rng.randbytes(rng.randrange(8))).decode()
    good = [None, some_text(rng), {"utf8": some_text(rng)}, {"base64": coded}]
    return rng.choice(good if rng.random() < 0.99 else [5, {"utf8": 1}, {"base64": "AB=="}, {"base64": "A"}, [], {}])


def some_value(rng: random.Random, depth: int) -> Any:
    found = [1, -5, True, None, some_text(rng), 10**17, 10**25, 1.5]
    if depth < 4:
        found.append([some_value(rng, depth + 1) for _ in range(rng.randrange(3))])
        found.append({some_text(rng): some_value(rng, depth + 1) for _ in range(rng.randrange(3))})
    return rng.choice(found)
