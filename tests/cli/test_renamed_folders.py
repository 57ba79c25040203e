"""Partition dirs with the suffix -delete, -stray or -future: their records can be read and brought back like others.

A broker does something of its own with such a folder; the bytes in it are not worse for that. So each command gives the
answer that it gives for the folder under its plain name, and says what a broker does with the folder.
"""

import json
import pathlib
import shlex
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here

from klogtool.format.names import PartitionDirState

PLAIN = "t-0"
SUFFIXES = [state.value for state in PartitionDirState if state.value]
UNIQUE_ID = "4f6b2c1e9a7d4e0fb1c2d3e4f5a6b7c8"
NOW = ["--now", "1700000300000"]
NAMED = ["--topic", "t", "--partition", "0", "--topic-id", "AAECAwQFBgcICQoLDA0ODw"]
COMMANDS: dict[str, list[str]] = {
    "read": ["--offset", "0", "--max-bytes", "100000"],
    "lookup": ["--offset", "3", "--timestamp", "earliest", "--timestamp", "latest"],
    "txns": [],
    "recover": [],
    "salvage": [],
    "transplant --check": [*NAMED, "--forget-open-transactions"],
    "roll": ["--force"],
    "truncate": ["--to", "30"],
    "delete-records": ["--before", "9"],
    "rebuild-index": [],
}
READING = ("read", "lookup", "txns")


def log_dir_with(tmp_path: pathlib.Path, name: str, *, is_clean: bool) -> pathlib.Path:
    """A log dir with one partition, and the lines that a clean stop writes."""
    tmp_path.mkdir()
    shutil.copytree(FIXTURES / "leader-epochs" / "logdir" / PLAIN, tmp_path / name)
    shutil.copy(FIXTURES / "leader-epochs" / "logdir" / "meta.properties", tmp_path)
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").write_text("")
    return tmp_path


def answers(log_dir: pathlib.Path, name: str, command: str) -> tuple[int, list[Any], str]:
    words = [*command.split(), name, *COMMANDS[command], *NOW, "--format", "json"]
    done = run_here(words, log_dir)
    rows = [json.loads(line) for line in done.out.splitlines()][1:]
    return done.status, [row.get("answer", row) for row in rows], done.err


def without_paths(rows: Any) -> Any:
    """Drop what names the folder."""
    text = json.dumps(rows)
    for suffix in SUFFIXES:
        text = text.replace(f"{PLAIN}.{UNIQUE_ID}{suffix}", PLAIN)
    return json.loads(text)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
def test_the_answer_is_that_of_the_plain_folder(
    tmp_path: pathlib.Path, suffix: str, command: str, is_clean: bool
) -> None:
    renamed = f"{PLAIN}.{UNIQUE_ID}{suffix}"
    wanted = answers(log_dir_with(tmp_path / "a", PLAIN, is_clean=is_clean), PLAIN, command)
    found = answers(log_dir_with(tmp_path / "b", renamed, is_clean=is_clean), renamed, command)
    wanted_rows, found_rows = without_paths(wanted[1]), without_paths(found[1])
    for row in (*wanted_rows, *found_rows):
        row.pop("stray", None)  # a folder without its name is no stray
    wanted_rows = wanted_rows[: len(found_rows)]  # a folder that is not held has no lines in checkpoints
    assert (found[0], found_rows) == (wanted[0], wanted_rows), found[2]
    assert found_rows
    assert "FALSE" not in found[2]
    if command in READING:
        assert "a broker" in found[2]


@pytest.mark.parametrize("suffix", ["-delete", "-stray"])
def test_no_next_step_gives_the_result_a_name_that_nobody_serves(tmp_path: pathlib.Path, suffix: str) -> None:
    renamed = f"{PLAIN}.{UNIQUE_ID}{suffix}"
    log_dir = log_dir_with(tmp_path / "a", renamed, is_clean=True)
    done = run_here(["salvage", renamed, "--output", str(tmp_path / "out"), *NOW], log_dir)
    assert done.status == 0, done.err
    steps = [line for line in done.out.decode().splitlines() if line.startswith("  klogtool ") or " mv " in line]
    assert [line.split()[:2] for line in steps] == [["klogtool", "transplant"]]
    assert f"--topic t --partition 0 --log-dir {shlex.quote(str(log_dir))}" in steps[0]


def test_checkpoints_are_those_of_the_folder_that_took_its_place(tmp_path: pathlib.Path) -> None:
    """A topic was created again: its log start must not delete what the old folder has."""
    renamed = f"{PLAIN}.{UNIQUE_ID}-delete"
    log_dir = log_dir_with(tmp_path / "a", renamed, is_clean=True)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 500\n")
    (log_dir / PLAIN).mkdir()
    _, (answer, *_), told = answers(log_dir, renamed, "recover")
    assert (answer["log_start_offset"], answer["log_end_offset"]) == (0, 78), told


@pytest.mark.parametrize("suffix", ["-delete", "-stray"])
def test_the_id_of_a_topic_is_not_taken_from_a_folder_that_is_gone(tmp_path: pathlib.Path, suffix: str) -> None:
    log_dir = log_dir_with(tmp_path / "a", f"{PLAIN}.{UNIQUE_ID}{suffix}", is_clean=True)
    shutil.copytree(FIXTURES / "leader-epochs" / "logdir" / PLAIN, tmp_path / "t-1")
    done = run_here(["transplant", str(tmp_path / "t-1"), "--log-dir", str(log_dir), "--output", "x"], tmp_path)
    assert done.status == 3
    assert "nothing in" in done.err
