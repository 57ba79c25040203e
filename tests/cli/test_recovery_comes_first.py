"""A broker recovers a log after an unclean stop before it does anything else, and may cut records as it does so. Every
command that works on the log as a broker would says that first, since its own subject is another."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from running import FIXTURES, run_here
from working import NOW_MS, WORK, put_input, words_of

LOG_DIR = FIXTURES / "killed-mid-append" / "logdir"
LOST = {"first_offset": 47, "last_offset": 70}


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    put_input(tmp_path / "given")
    return pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs"))


def lines_of(log_dir: pathlib.Path, words: list[str]) -> list[str]:
    return run_here(words, log_dir.parent).out.decode().splitlines()


@pytest.mark.parametrize("work", sorted(WORK.keys() - {"batches", "requests"}))  # whose offsets are another log's
def test_what_recovery_loses_is_said_first(log_dir: pathlib.Path, work: str) -> None:
    words = words_of(work, log_dir / "flip-bit-0", log_dir.parent / "given")
    first, cut, deleted, replicated, cure = lines_of(log_dir, words)[:5]
    assert first == "flip-bit-0: LOSES offsets 47 to 70 before anything else: a broker recovers this log first"
    assert cut.startswith("  truncated  00000000000000000045.log at byte 182: 333 bytes go; Record is corrupt")
    assert deleted == "  deleted    1 segment (51): 1,479 bytes of records"
    assert replicated.startswith("  replicated 6 offsets (47 to 52) below the high watermark 53: ")
    assert "klogtool salvage" in cure
    rows = map(json.loads, lines_of(log_dir, [*words, "--format", "json"]))
    (answer,) = (row["answer"] for row in rows if "lost_by_recovery" in row.get("answer", row))
    assert answer["lost_by_recovery"]["lost"] == LOST


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_over_a_log_dir_each_partition_says_its_own(log_dir: pathlib.Path, command: str) -> None:
    words = [command, "logs", "--now", str(NOW_MS), "--config", "cleanup.policy=compact,delete"]
    said = [line for line in lines_of(log_dir, words) if "before anything else" in line]
    assert [line.partition(":")[0] for line in said] == ["flip-bit-0", "torn-tail-0"]


@pytest.mark.parametrize("partition", ["zero-tail-0", "remove-indexes-0"])
def test_recovery_without_loss_needs_no_word(log_dir: pathlib.Path, partition: str) -> None:
    words = ["roll", f"logs/{partition}", "--force", "--now", str(NOW_MS)]
    assert "before anything else" not in "".join(lines_of(log_dir, words))
    assert "lost_by_recovery" not in "".join(lines_of(log_dir, [*words, "--format", "json"]))
