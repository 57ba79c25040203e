"""The scripts of docs/examples/jobs, run as somebody runs them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from running import FIXTURES, ROOT, run_here

JOBS = ROOT / "docs/examples/jobs"
TINY, LARGE = 100, 5000


def rows_of(job: str, *paths: object) -> list[list[str]]:
    """The rows that a job prints."""
    pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, JOBS / job, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_corrupt_batches_of_a_fleet() -> None:
    broken = "fixtures/killed-mid-append/logdir"
    assert rows_of("corrupt_batches.py", broken, "fixtures/groups/logdir") == [[broken, "flip-bit-0", "1", "47"]]
    assert rows_of("corrupt_batches.py", "fixtures/groups/logdir") == []


@pytest.mark.slow
def test_ten_thousand_partitions_with_skew(tmp_path: pathlib.Path) -> None:
    for n in range(10_000):
        folder = tmp_path / f"t{n % 10}-{n // 10}"
        folder.mkdir()
        with (folder / f"{0:020d}.log").open("wb") as file:
            os.truncate(file.fileno(), LARGE if n == 7 else TINY)
    rows = rows_of("skew.py", tmp_path)
    assert rows[0] == ["t7", "1000", str(LARGE), f"{LARGE / ((999 * TINY + LARGE) / 1000):.2f}"]
    assert rows[1:] == [[f"t{n}", "1000", str(TINY), "1.0"] for n in range(10) if n != 7]


@pytest.mark.slow
def test_sql_over_committed_offsets(tmp_path: pathlib.Path) -> None:
    rows = rows_of("committed_offsets.py", "fixtures/groups/logdir")
    assert ["g-new", "t", "2", "20"] in rows
    assert len(rows) == 7
    assert rows_of("committed_offsets.py", "fixtures/magic-0/logdir") == []


@pytest.mark.slow
def test_an_offline_compaction_is_checked(tmp_path: pathlib.Path) -> None:
    log_dir, compacted = FIXTURES / "retention" / "logdir", tmp_path / "compacted"
    words = ["--config", "cleanup.policy=compact", "--force", "--last-stop", "clean", "--now", "2026-11-30T00:00:00Z"]
    assert run_here(["compact", str(log_dir), "--output", str(compacted), *words], tmp_path).status == 0
    rows = [
        ["inside", "110", "64", "0"],
        ["size", "48", "30", "0"],
        ["start", "46", "33", "0"],
        ["time", "30", "19", "0"],
    ]
    assert rows_of("compaction_checked.py", log_dir, compacted) == rows
    min((compacted / "size-0").glob("*.log")).unlink()
    shutil.copy(log_dir / "start-0" / f"{96:020d}.log", compacted / "time-0" / f"{2000:020d}.log")
    found = {topic: int(wrong) for topic, *_, wrong in rows_of("compaction_checked.py", log_dir, compacted)}
    assert found["size"] > 0
    assert found["time"] > 0
    assert found["inside"] == found["start"] == 0


@pytest.mark.slow
def test_a_daily_export_goes_on(tmp_path: pathlib.Path) -> None:
    """Also where the name of a topic is a number, and where there is no record yet."""
    shutil.copytree(FIXTURES / "transactions/logdir/t-0", tmp_path / "logs/007-0")
    for new in ("52", "0"):
        assert rows_of("daily_export.py", tmp_path / "logs", tmp_path / "out") == [["007", "0", new, "52", "61"]]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/t-0").mkdir()
    (tmp_path / "empty/t-0" / f"{0:020d}.log").touch()
    assert rows_of("daily_export.py", tmp_path / "empty", tmp_path / "nothing") == []
