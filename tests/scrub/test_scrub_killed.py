"""Runs that are killed at any moment: the next one reads again at most the segment that was being read, and leaves out
none."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import time

import pytest
from running import run_here
from scrub.scrubbed import DAY_MS, NOW_MS, closed_logs, make_log_dir

from klogtool.scrub import segment_check

Path = pathlib.Path


def start_and_kill(words: list[str], folder: Path, noted: Path, seconds: float) -> bool:
    """Run klogtool in a process that notes each log as it is opened, and kill it. Returns whether it was too late."""
    noted.touch()
    child = os.fork()
    if child == 0:
        really, fd = segment_check.SummedFile.__init__, os.open(noted, os.O_WRONLY | os.O_APPEND)

        def note(file: segment_check.SummedFile, path: str) -> None:
            if path.endswith(".log"):
                os.write(fd, f"{path}\n".encode())
            really(file, path)

        try:
            segment_check.SummedFile.__init__ = note  # type: ignore[assignment,method-assign]
            run_here(words, folder)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


def covered(state: Path, checked_ms: int) -> set[tuple[int, int]]:
    """Partition and base offset of each segment that the state has as read at a time."""
    lines = state.read_bytes().rpartition(b"\n")[0].splitlines()[1:] if state.exists() else []
    rows = [json.loads(line[9:]) for line in lines]
    return {(row["id"]["partition"], row["id"]["base_offset"]) for row in rows if row["checked_ms"] == checked_ms}


def id_of(path: str) -> tuple[int, int]:
    return int(path.split("/")[-2].rpartition("-")[2]), int(path.split("/")[-1].partition(".")[0])


@pytest.mark.slow
@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_kill_costs_one_segment(kills: int, tmp_path: Path) -> None:
    log_dir, state = make_log_dir(tmp_path / "logs", records=1200), tmp_path / "state"
    logs, rng, day, late = {id_of(str(log)) for log in closed_logs(log_dir)}, random.Random(kills), 0, 0
    began = time.monotonic()
    run_here(["scrub", str(log_dir), "--state", str(tmp_path / "other")], tmp_path)
    whole = time.monotonic() - began
    reads = 0
    for n in range(kills):
        now_ms = NOW_MS + day * DAY_MS
        words = ["scrub", str(log_dir), "--state", str(state), "--now", str(now_ms)]
        before, seen = covered(state, now_ms), tmp_path / f"seen-{n}"
        late += start_and_kill(words, tmp_path, seen, rng.uniform(0, whole * 0.7))
        read = [id_of(line) for line in seen.read_text().splitlines()]
        after = covered(state, now_ms)
        assert len(read) == len(set(read))  # none twice
        assert before.isdisjoint(read)  # none that was read before
        assert after - before in (set(read), set(read[:-1]))  # and all are remembered, but perhaps the last
        assert before <= after
        reads += len(read)
        if after == logs:  # all: the next period
            day += 31
    done = run_here([*words, "--json"], tmp_path)
    assert covered(state, now_ms) == logs
    assert json.loads(done.out.splitlines()[-1])["damaged"] == 0
    print(f"{kills} kills, {late} too late, {reads} reads, {day // 31} periods of {len(logs)} segments, {whole:.2f} s")
    assert late < kills / 2
