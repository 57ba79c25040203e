"""`remote verify --state`: runs that are cut short find together what one run finds, and read nothing twice."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pytest
from remote_stores import LOGS, STORE, WOUNDS, tiered_log_dir
from running import ROOT, run_here

Path = pathlib.Path
SEGMENTS = 6


def verify(store: Path, *words: str | Path, day: int = 1) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    now = f"2026-11-{day:02d}"
    done = run_here(["remote", "verify", str(store), *map(str, words), "--now", now, "--json"], ROOT)
    assert done.status in (0, 1), done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    return done.status, [row for row in rows if row["type"] == "finding"], rows[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiered_log_dir(tmp_path_factory.mktemp("tiered"), segments=SEGMENTS + 1)


def test_runs_that_are_cut_short_read_all_once(built: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["--metadata", built[0], "--state", tmp_path / "state", "--for", "0", "--jobs", "1"]
    for run in range(SEGMENTS + 1):
        status, findings, summary = verify(built[1], *words)
        left = summary.get("left_out", {"segments": 0})["segments"]
        assert (status, findings, summary["files"]) == (0, [], int(run < SEGMENTS))
        assert left == SEGMENTS - summary["files"]
    assert verify(built[1], *words[:4], day=30)[2]["files"] == 0
    assert verify(built[1], *words[:4], "--every", "1d", day=30)[2]["files"] == SEGMENTS
    assert verify(built[1], *words[:4], "--deep", day=30)[2]["files"] == SEGMENTS  # nobody opened the batches


@pytest.mark.parametrize("wound", WOUNDS)
def test_what_changed_is_read_again_and_what_is_wrong_stays_wrong(
    built: tuple[Path, Path], tmp_path: Path, wound: Any
) -> None:
    store = shutil.copytree(built[1], tmp_path / "store")
    words = ["--metadata", built[0], "--state", tmp_path / "state"]
    assert verify(store, *words)[:2] == (0, [])
    path = sorted(store.rglob("*.log"))[2]
    wound(path)
    if path.exists():
        os.utime(path, (2_000_000_000, 2_000_000_000))
    plain = verify(store, *words[:2])
    for _ in range(2):
        status, findings, summary = verify(store, *words)
        assert (status, findings) == plain[:2]
        assert findings
        assert summary["files"] == 1


def test_gaps_and_orphans_are_found_each_time(tmp_path: Path) -> None:
    words = ["--metadata", LOGS, "--local", LOGS]
    plain = verify(STORE, *words)
    for _ in range(2):
        assert verify(STORE, *words, "--state", tmp_path / "state")[:2] == plain[:2]


def test_other_files_are_no_state(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("klogtool scrub 1\n")
    words = ["remote", "verify", str(STORE), "--state"]
    assert run_here([*words, str(tmp_path / "other")], ROOT).status == 3
    assert (tmp_path / "other").read_text() == "klogtool scrub 1\n"
    assert run_here([*words[:3], "--every", "1d"], ROOT).status == 2


def test_the_text_says_what_was_not_read(built: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["remote", "verify", str(built[1]), "--state", str(tmp_path / "state")]
    assert b"time was up" in run_here([*words, "--for", "0", "--jobs", "1"], ROOT).out
    run_here(words, ROOT)
    assert b"an earlier run read them and found nothing" in run_here(words, ROOT).out
