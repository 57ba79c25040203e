"""truncate and roll on the command line: words for people, statuses, mistakes. What they decide is tested below."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here

LOG_DIR = FIXTURES / "leader-epochs" / "logdir"
NOW = ["--now", "2023-11-22T00:00:00Z"]


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs"))


def answers(out: bytes) -> list[Any]:
    return [row.get("answer", row) for row in map(json.loads, out.splitlines()) if row["type"] != "klogtool"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ["--to", "30"],
            "t-0: offsets 29 to 77 go, 2,439 bytes; then the log ends at offset 30, and at 29 after the next start of "
            "a broker",
        ),
        (["--to", "78"], "t-0: nothing to truncate; the log ends at offset 78"),
        (
            ["--start-at", "500"],
            "t-0: offsets 0 to 77 go, 4,108 bytes; then the log starts at 500 and ends at offset 500",
        ),
    ],
)
def test_truncate_says_first_what_goes(log_dir: pathlib.Path, given: list[str], told: str) -> None:
    done = run_here(["truncate", "logs/t-0", *given, *NOW], log_dir.parent)
    assert (done.status, done.out.decode().splitlines()[0]) == (0, told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "t-0: segment 42 is due; the next segment starts at offset 78"),
        (["--incoming-timestamp", "2023-11-15"], "t-0: segment 42 is not due"),
        (["--force"], "t-0: segment 42 is rolled because of --force; the next segment starts at offset 78"),
    ],
)
def test_roll_says_first_whether_it_is_due(log_dir: pathlib.Path, given: list[str], told: str) -> None:
    done = run_here(["roll", "logs/t-0", *given, *NOW], log_dir.parent)
    assert (done.status, done.out.decode().splitlines()[0]) == (0, told)
    assert all(len(line) <= 100 for line in done.out.decode().splitlines()[:10])


def test_zero_is_an_offset(log_dir: pathlib.Path) -> None:
    (answer, _) = answers(run_here(["truncate", "logs/t-0", "--to", "0", "--format", "json"], log_dir.parent).out)
    assert (answer["truncated"], answer["state"]["log_end_offset"]) == (True, 0)
    rolled = answers(
        run_here(["roll", "logs/t-0", "--incoming-timestamp", "0", "--format", "json"], log_dir.parent).out
    )
    assert rolled[0]["incoming"]["max_timestamp"] == 0


def test_with_force_nothing_is_asked(log_dir: pathlib.Path) -> None:
    answer = answers(run_here(["roll", "logs/t-0", "--force", "--format", "json"], log_dir.parent).out)[0]
    assert (answer["due"], answer["rolled_to"], "why" in answer) == (False, 78, False)


def test_in_place_and_back(log_dir: pathlib.Path) -> None:
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    assert run_here(["truncate", "logs/t-0", "--to", "30", "--purge", "--apply"], log_dir.parent).status == 0
    assert not list(log_dir.rglob("*.deleted"))
    assert "t 0 29" in (log_dir / "recovery-point-offset-checkpoint").read_text()
    assert run_here(["undo"], log_dir).status == 0
    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before


def test_a_refusal_is_an_answer(log_dir: pathlib.Path) -> None:
    done = run_here(["truncate", "logs/t-0", "--to", "-5", "--format", "json"], log_dir.parent)
    assert (done.status, answers(done.out)[-1]["error"]["class"]) == (3, "IllegalArgumentException")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["truncate", "logs/t-0"], "Give either --to N or --start-at N."),
        (["truncate", "logs/t-0", "--to", "1", "--start-at", "1"], "Give either --to N or --start-at N."),
        (["truncate", "logs/t-0", "--to", "1", "--log-start-offset-after", "1"], "needs --start-at"),
        (["truncate", "logs/t-0", "--to", "x"], "'x' is not a 64-bit number."),
        (["truncate", "logs", "--to", "1"], "not a partition dir"),
        (["roll", "logs/t-0", "--force", "--incoming-bytes", "1"], "remove --incoming-bytes"),
        (["roll", "nowhere"], "no such file or directory"),
    ],
)
def test_mistakes(log_dir: pathlib.Path, words: list[str], told: str) -> None:
    done = run_here(words, log_dir.parent)
    assert done.status == 2
    assert told in done.err
    assert not done.out
