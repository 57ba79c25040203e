"""Records in JSON lines: what dump-log prints goes back in; what is no record is refused by its line."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from appending import NOW_MS, Record, batch, leader, plan_of
from deciding import decided

from klogtool.broker.content import read_content
from klogtool.errors import KlogError
from klogtool.log.entries import Entry, walk_entries
from klogtool.plans.plan import Plan, Write
from klogtool.render.words import words


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "t-0").mkdir()
    return tmp_path / "t-0"


def plan_for(folder: pathlib.Path, *rows: Any, text: str | None = None, **more: Any) -> Plan:
    lines = "".join(json.dumps(row) + "\n" for row in rows) if text is None else text
    (plan,) = decided("append", str(folder), {"now_ms": NOW_MS, "jobs": 1, "records_text": lines, **more})
    return plan


def entries_of(plan: Plan, at: pathlib.Path) -> list[Entry]:
    (log,) = (step for step in plan.steps if isinstance(step, Write) and step.path.endswith(".log"))
    (at / "log").write_bytes(read_content(log.content))
    return list(walk_entries(str(at / "log")))


def records_of(plan: Plan, at: pathlib.Path) -> list[Record]:
    return [record for entry in entries_of(plan, at) for record in entry.records()]


ROWS: list[dict[str, Any]] = [
    {"type": "klogtool", "version": "1", "schema": 1, "command": "dump-log"},
    {"type": "batch", "base_offset": 5},
    {"type": "record", "offset": 5, "timestamp": NOW_MS, "key": {"utf8": "k"}, "value": {"base64": "AP8="}},
    {"timestamp": None, "key": None, "value": {"utf8": ""}, "headers": [["h", {"utf8": "x"}], ["", None]]},
    {"type": "record", "is_control": True, "key": {"base64": "AAAAAA=="}, "value": None},
    {"key": "plain text", "value": None, "headers": [["?", None]], "header_keys": [{"base64": "/w=="}]},
]


def test_they_get_the_next_offsets(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    plan = plan_for(folder, *ROWS)
    found = records_of(plan, tmp_path)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == [
        (0, NOW_MS, b"k", b"\0\xff"),
        (1, -1, None, b""),
        (2, NOW_MS, b"plain text", None),
    ]
    assert [[(h.key, h.value) for h in r.headers] for r in found] == [
        [],
        [(b"h", b"x"), (b"", None)],
        [(b"\xff", None)],
    ]
    assert "left out: 1 control records, which only a broker writes" in map(words, plan.notes)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_any_codec_and_format(folder: pathlib.Path, tmp_path: pathlib.Path, magic: int, codec: str) -> None:
    if magic < 2 and codec == "zstd":
        with pytest.raises(KlogError, match="zstd is not for magic"):
            plan_for(folder, {"key": "k", "value": "v"}, magic=magic, codec=codec)
        return
    plan = plan_for(folder, *({"key": "k", "value": f"v{n}"} for n in range(5)), magic=magic, codec=codec)
    entries = entries_of(plan, tmp_path)
    assert {(entry.magic, entry.codec) for entry in entries} == {(magic, codec)}
    assert [record.value for entry in entries for record in entry.records()] == [b"v%d" % n for n in range(5)]
    assert [record.offset for entry in entries for record in entry.records()] == list(range(5))


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, [9]),
        ({"batch_records": 4}, [4, 4, 1]),
        ({"batch_bytes": 300}, [2, 2, 2, 2, 1]),
        ({"batch_bytes": 1}, [1] * 9),
    ],
)
def test_batches_are_as_large_as_was_said(
    folder: pathlib.Path, tmp_path: pathlib.Path, given: dict[str, int], counts: list[int]
) -> None:
    plan = plan_for(folder, *({"key": None, "value": "x" * 100} for _ in range(9)), **given)
    assert [entry.records_count for entry in entries_of(plan, tmp_path)] == counts
    assert len(plan.answer["appends"]) == len(counts)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 3: not JSON"),
        ("[1]", "line 3: not a JSON object"),
        ("[" * 100_000, "line 3: not JSON"),
        ('{"key": 5}', "line 3: bytes are"),
        ('{"key": {"base64": "%%"}}', "line 3: "),
        ('{"key": {"utf8": 1}}', "line 3: bytes are"),
        ('{"value": {"utf8": "a", "base64": "b"}}', "line 3: bytes are"),
        ('{"timestamp": "now"}', "line 3: a timestamp is"),
        ('{"timestamp": 1e400}', "line 3: a timestamp is"),
        ('{"timestamp": 99999999999999999999}', "line 3: a timestamp is"),
        ('{"headers": {"a": 1}}', "line 3: headers are"),
        ('{"headers": [["a"]]}', "line 3: a header is"),
        ('{"headers": [["a", null]], "header_keys": [{"utf8": "a"}, {"utf8": "b"}]}', "line 3: header_keys"),
        ('{"type": "error", "detail": "the file ends"}', "line 3: not a record: error: the file ends"),
        ('{"type": "transaction"}', "line 3: not a record: transaction"),
        ('{"key": "\\ud800"}', "line 3: "),
    ],
)
def test_a_line_that_is_no_record(folder: pathlib.Path, line: str, told: str) -> None:
    with pytest.raises(KlogError) as caught:
        plan_for(folder, text='{"key": "a"}\n\n' + line + "\n")
    assert str(caught.value).startswith(f"standard input: {told}")


def test_headers_need_magic_2(folder: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="line 1: records of magic 1 have no headers"):
        plan_for(folder, {"headers": [["h", None]]}, magic=1)


def test_the_plan_says_where_settings_are_from(folder: pathlib.Path) -> None:
    assert "settings: Kafka's defaults, because nothing else is known" in map(
        words, plan_for(folder, {"key": "k"}).notes
    )
    notes = list(
        map(
            words, plan_for(folder, {"key": "k"}, config={"compression.type": "zstd", "segment.bytes": "2000000"}).notes
        )
    )
    assert "segment.bytes: 2000000, as given" in notes
    assert "compression.type: zstd, as given" in notes
    assert notes[-1] == "all other settings: Kafka's defaults"


def test_the_leader_epoch_is_the_latest(folder: pathlib.Path) -> None:
    assert "leader epoch: 0, the log knows none" in map(words, plan_for(folder, {"key": "k"}).notes)
    (folder / f"{0:020d}.log").write_bytes(batch(2, partition_leader_epoch=6))
    (folder / "leader-epoch-checkpoint").write_bytes(b"0\n1\n6 0\n")
    plan = plan_for(folder, {"key": "k"}, last_stop="unclean")
    assert "leader epoch: 6, the latest of the log" in map(words, plan.notes)
    assert plan.answer["appends"][0]["first_offset"] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"as": "leader"}', "neither 'hex' nor 'file'"),
        ('{"hex": "0"}', "not a call of append"),
        ('{"hex": "zz"}', "not a call of append"),
        ('{"hex": "00 00"}', "hexadecimal"),
        ('{"hex": 5}', "hexadecimal"),
        ('{"hex": "", "as": "king"}', "leader or follower"),
        ('{"hex": "", "leader_epcoh": 5}', "a call has no field leader_epcoh (did you mean leader_epoch?)"),
        ('{"hex": "", "isolation": 5}', "a call has no field isolation"),
        ('{"hex": "", "hex": "00"}', "the field hex is there twice"),
        ('{"hex": "", "file": "x"}', "both 'hex' and 'file'"),
        ('{"hex": "", "origin": "moon"}', "no such origin"),
        ('{"hex": "", "leader_epoch": 4294967296}', "out of range"),
        ('{"hex": "", "now_ms": "soon"}', "whole number"),
        ('{"hex": "", "record_version": 3}', "out of range"),
        ('{"file": "no/such"}', "no such file"),
    ],
)
def test_a_line_that_is_no_call(folder: pathlib.Path, line: str, told: str) -> None:
    with pytest.raises(KlogError) as caught:
        list(decided("append", str(folder), {"now_ms": NOW_MS, "requests_text": line, "folder": str(folder)}))
    assert told in str(caught.value)


def test_no_input_at_all(folder: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="one of batches, records, requests"):
        list(decided("append", str(folder), {"now_ms": NOW_MS}))
    assert plan_for(folder, text="").answer["appends"] == []


def test_many_small_calls_become_few_parts(folder: pathlib.Path) -> None:
    plan = plan_of(folder, *[leader(batch(1))] * 3000)
    (log,) = (step for step in plan.steps if isinstance(step, Write) and step.path.endswith(".log"))
    assert len(log.content) < 10
