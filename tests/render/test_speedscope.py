"""`dump-log --format speedscope`: the published schema, and bytes that add up to those of the disk."""

from __future__ import annotations

import json
import os
import pathlib
from collections import Counter
from typing import Any

import jsonschema
import pytest
from raw_batches import build_batch
from running import FIXTURES, Done, run_here

from klogtool.format.batch import Header, Record

pytest.importorskip("pyarrow")
SCHEMA = pathlib.Path(__file__).parents[1] / "cli/data/schemas/speedscope-file-format.json"
TIME = 1_700_000_000_000


def asked(folder: pathlib.Path, *words: object) -> tuple[Done, dict[str, Any], Counter[tuple[str, ...]]]:
    """The run, the file, and the bytes of each stack."""
    done = run_here(["dump-log", *map(str, words), "--format", "speedscope"], folder)
    found = json.loads(done.out)
    jsonschema.validators.validator_for(json.loads(SCHEMA.read_text()))(json.loads(SCHEMA.read_text())).validate(found)
    names = [frame["name"] for frame in found["shared"]["frames"]]
    (sampled,) = found["profiles"]
    stacks: Counter[tuple[str, ...]] = Counter()
    for sample, weight in zip(sampled["samples"], sampled["weights"], strict=True):
        stacks[tuple(names[n] for n in sample)] += weight
    assert sum(stacks.values()) == sampled["endValue"]
    return done, found, stacks


def bytes_below(folder: pathlib.Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("scenario", ["transactions", "every-codec", "three-magics"])
def test_all_bytes_of_a_log_dir_are_there(scenario: str) -> None:
    (log_dir, *_) = sorted((FIXTURES / scenario).glob("logdir*"))
    done, _, stacks = asked(FIXTURES, log_dir)
    assert (done.status, done.told) == (0, "")
    assert sum(stacks.values()) == bytes_below(log_dir)
    assert {stack[0] for stack in stacks} == {str(log_dir)}


def test_keys_values_and_headers_of_a_partition(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a b-3"
    folder.mkdir()
    data = build_batch([Record(n, TIME, b"key", b"value" * 10, (Header(b"h", b"12"),)) for n in range(4)])
    (folder / "00000000000000000000.log").write_bytes(data)
    (folder / "00000000000000000000.index").write_bytes(bytes(16))
    _, found, stacks = asked(tmp_path, folder)
    segment = ("topic a b", "a b-3", "segment 00000000000000000000")
    assert stacks[(*segment, "keys")] == 12
    assert stacks[(*segment, "values")] == 200
    assert stacks[(*segment, "headers")] == 12
    assert stacks[(*segment, "batch and record overhead")] == len(data) - 224
    assert stacks[(*segment, "offset index")] == 16
    assert found["profiles"][0]["unit"] == "bytes"


def test_compressed_records_take_their_share(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = build_batch([Record(n, TIME, b"k", b"v" * 99) for n in range(100)], codec="lz4")
    (folder / "00000000000000000000.log").write_bytes(data)
    _, _, stacks = asked(tmp_path, folder)
    packed = {stack[-2:]: size for stack, size in stacks.items()}
    assert sum(packed.values()) == len(data)
    assert packed["compressed: lz4", "values"] == 99 * len(data) // 100


def test_damage_is_told_and_counted() -> None:
    log_dir = FIXTURES / "killed-mid-append/logdir"
    done, _, stacks = asked(FIXTURES, log_dir)
    assert done.status == 1
    assert "zero-tail-0" in done.told
    assert sum(stacks.values()) == bytes_below(log_dir)


def test_names_of_any_bytes(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"")
    (folder / os.fsdecode(b"\xff\x1b")).write_bytes(b"xyz")
    _, _, stacks = asked(tmp_path, folder)
    assert stacks["topic t", "t-0", "files of the partition", "\\xff\\x1b"] == 3


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--offsets", "1..2", "t-0"], 2, "--offsets does not go with --format speedscope."),
        (["t-0/00000000000000000000.log"], 4, "a file; speedscope needs a log dir or a partition dir"),
        (["nothing"], 2, "no such file or directory"),
        (["--output", "x", "t-0"], 2, "--output is for arrow and parquet"),
    ],
)
def test_what_has_no_profile(tmp_path: pathlib.Path, words: list[str], status: int, told: str) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").touch()
    done = run_here(["dump-log", *words, "--format", "speedscope"], tmp_path)
    assert (done.status, done.out) == (status, b"")
    assert told in done.told
