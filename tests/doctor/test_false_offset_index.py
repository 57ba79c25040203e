"""Offset indexes that a start leaves as they are, and that point beside the batches (as after a segment was restored
from another copy, and its index was not)."""

from __future__ import annotations

import json
import pathlib
import random
from itertools import accumulate
from typing import Any

import pytest
from damage import flip_bit
from raw_batches import build_batch
from running import run_here

from klogtool.format.batch import Record

COUNT, END = 10, 60  # batches of three records in each of two segments


def batch(first: int) -> bytes:
    return build_batch([Record(first + n, 1000 + first + n, b"k", b"%d" % first * 9) for n in range(3)])


def index_of(batches: list[bytes], base: int, firsts: list[int]) -> bytes:
    """An entry for each batch but the first one: its last offset, its position."""
    positions = [0, *accumulate(map(len, batches))]
    entries = zip(firsts[1:], positions[1:-1], strict=True)
    return b"".join((first + 2 - base).to_bytes(4, "big") + at.to_bytes(4, "big") for first, at in entries)


def make(log_dir: pathlib.Path, *, start: int, without: int | None) -> pathlib.Path:
    """A log dir after a clean stop. without: the number of a batch of the first segment that its `.log` has no more,
    while the index knows it."""
    folder = log_dir / "t-0"
    folder.mkdir(parents=True)
    for base in (0, 30):
        firsts = list(range(base, base + 30, 3))
        batches = [batch(first) for first in firsts]
        kept = [each for n, each in enumerate(batches) if base or n != without]
        (folder / f"{base:020}.log").write_bytes(b"".join(kept))
        (folder / f"{base:020}.index").write_bytes(index_of(batches, base, firsts))
        (folder / f"{base:020}.timeindex").write_bytes((1000 + base + 29).to_bytes(8, "big") + (29).to_bytes(4, "big"))
    for name in ("recovery-point-offset", "replication-offset"):
        (log_dir / f"{name}-checkpoint").write_text(f"0\n1\nt 0 {END}\n")
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n" if start else "0\n0\n")
    (log_dir / ".kafka_cleanshutdown").write_text("")
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return folder


def asked(log_dir: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_here(["doctor", str(log_dir), "--json"], log_dir).out.splitlines()]


def claim_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["type"] == "claim" and row["about"] == "partition")


def about_index(rows: list[dict[str, Any]]) -> list[str]:
    return [row["what"] for row in rows if row["type"] == "ahead" and row["what"] in ("index-false", "hidden")]


def test_an_index_that_leads_to_its_batches_is_no_trouble(tmp_path: pathlib.Path) -> None:
    make(tmp_path, start=0, without=None)
    assert about_index(asked(tmp_path)) == []


@pytest.mark.parametrize("without", range(COUNT - 2))
def test_a_false_index_is_told_and_mended(tmp_path: pathlib.Path, without: int) -> None:
    folder = make(tmp_path, start=0, without=without)
    rows = asked(tmp_path)
    assert about_index(rows) == ["index-false"]
    assert claim_of(rows)["hidden"]["records"] == 0  # one fetch from the log start gets all
    cure = f"klogtool rebuild-index {folder} --only index --apply"
    assert cure in [row["command"] for row in rows if row["type"] == "option"]
    assert run_here(cure.split()[1:], tmp_path).status == 0
    assert about_index(asked(tmp_path)) == []


def test_what_a_consumer_from_the_log_start_does_not_get_is_hidden(tmp_path: pathlib.Path) -> None:
    """A broker 4.3.1 was asked (a batch was left out, then delete-records): its consumer got the next segment only."""
    folder = make(tmp_path, start=21, without=0)
    rows = asked(tmp_path)
    assert about_index(rows) == ["hidden"]
    hidden = claim_of(rows)["hidden"]
    assert (hidden["records"], hidden["ranges"], hidden["why"]) == (9, [[21, 29]], ["index"])
    options = [row["command"] for row in rows if row["type"] == "option"]
    assert options[0] == f"klogtool rebuild-index {folder} --only index --apply"
    assert run_here(options[0].split()[1:], tmp_path).status == 0
    assert claim_of(asked(tmp_path))["hidden"]["records"] == 0


@pytest.mark.parametrize("seed", range(60))
def test_damage_of_a_log_is_not_its_indexs_fault(tmp_path: pathlib.Path, seed: int) -> None:
    draw = random.Random(seed)
    folder = make(tmp_path, start=draw.choice((0, 12)), without=None)
    log = folder / f"{draw.choice((0, 30)):020}.log"
    flip_bit(log, draw.randrange(log.stat().st_size), draw.randrange(8))
    assert "index-false" not in about_index(asked(tmp_path))
    assert "index" not in claim_of(asked(tmp_path))["hidden"]["why"]
