"""Batches that somebody moved into other segments, or exchanged: what salvage keeps and says is true."""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from damage import frames_of
from running import FIXTURES, run_here
from working import NOW_MS

from klogtool.format.batch import RecordBatch
from klogtool.log.entries import walk_entries

Records = set[tuple[int, bytes | None, bytes | None]]


def records_of(folder: pathlib.Path) -> Records:
    entries = (entry for path in folder.glob("*.log") for entry in walk_entries(str(path)))
    data = (entry for entry in entries if not (isinstance(entry, RecordBatch) and entry.is_control))
    return {(record.offset, record.key, record.value) for entry in data for record in entry.records()}


def disturb(partition: pathlib.Path, rng: random.Random, most: int = 2) -> None:
    """Exchange the first batches of two segments, or any two; move one into another segment, or copy it there."""
    logs = {path: path.read_bytes() for path in sorted(partition.glob("*.log")) if path.stat().st_size}
    batches = {path: [data[f.position : f.position + f.size] for f in frames_of(data)] for path, data in logs.items()}
    way = rng.choice(("first batches", "exchange", "move", "copy"))
    for _ in range(rng.randrange(1, most + 1)):
        one, other = (batches[path] for path in rng.sample(list(batches), 2))
        n, m = (0, 0) if way == "first batches" else (rng.randrange(len(one)), rng.randrange(len(other)))
        if way in ("first batches", "exchange"):
            one[n], other[m] = other[m], one[n]
        elif way == "copy":
            other.insert(m, one[n])
        elif len(one) > 1:
            other.insert(m, one.pop(n))
    for path, parts in batches.items():
        path.write_bytes(b"".join(parts))


@pytest.mark.some(10)
@pytest.mark.parametrize("seed", range(100))
def test_all_is_kept_under_its_own_offset(tmp_path: pathlib.Path, seed: int) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logs"))
    disturb(log_dir / "t-0", random.Random(seed))
    before = records_of(log_dir / "t-0")
    done = run_here(["salvage", "logs/t-0", "--output", "out", "--format", "json", "--now", str(NOW_MS)], tmp_path)
    after = records_of(tmp_path / "out") if (tmp_path / "out").exists() else records_of(log_dir / "t-0")
    assert after == before
    answers = (row["answer"] for line in done.out.splitlines() if "answer" in (row := json.loads(line)))
    assert [loss for answer in answers for loss in answer["lost"] if loss["first_offset"] is not None] == []
    if (tmp_path / "out").exists():
        assert run_here(["verify", "out", "--deep"], tmp_path).status == 0


@pytest.mark.some(10)
@pytest.mark.parametrize("seed", range(100))
def test_what_is_not_kept_is_told(tmp_path: pathlib.Path, seed: int) -> None:
    """In a compacted log a batch may have no place of its own: its offsets are in a hole that others do not fill. Where
    it is, there may be room for it; then its base offset counts as damaged, and the correction is told."""
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "compacted" / "result-2", tmp_path / "logs"))
    for path in log_dir.glob("*/*.deleted"):
        path.unlink()
    disturb(log_dir / "keep-0", random.Random(seed), most=1)
    before = records_of(log_dir / "keep-0")
    done = run_here(["salvage", "logs/keep-0", "--output", "out", "--format", "json", "--now", str(NOW_MS)], tmp_path)
    after = records_of(tmp_path / "out") if (tmp_path / "out").exists() else before
    kept = {(key, value) for _, key, value in after}
    assert kept <= {(key, value) for _, key, value in before}
    answers = [row["answer"] for line in done.out.splitlines() if "answer" in (row := json.loads(line))]
    losses = [loss for answer in answers for loss in answer["lost"] if loss["first_offset"] is not None]
    gone = {offset for offset, key, value in before if (key, value) not in kept}
    assert not gone - {n for loss in losses for n in range(loss["first_offset"], loss["last_offset"] + 1)}
    corrected = [row for answer in answers for row in answer["mended"] if row["field"] == "base_offset"]
    assert corrected or after <= before
