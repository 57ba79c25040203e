"""free from the command line: sizes, kinds, and what is refused."""

from __future__ import annotations

import fcntl
import pathlib
import subprocess
import sys

import pytest
from bad_input import writable_copy
from running import Done, run_here

NOW = ["--now", "2026-11-22"]


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return writable_copy("retention/logdir", tmp_path / "logs")


def free(log_dir: pathlib.Path, *words: str) -> Done:
    return run_here(["free", str(log_dir), *NOW, *words], log_dir.parent)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("8192", "8 KiB"),
        ("8,192", "8 KiB"),
        ("8K", "8 KiB"),
        ("0.5MiB", "512 KiB"),
        ("8kB", "7.8 KiB"),
        ("2 GB", "1.9 GiB"),
        ("1B", "1 B"),
    ],
)
def test_sizes(log_dir: pathlib.Path, typed: str, told: str) -> None:
    assert f"; {told} were asked for" in free(log_dir, "--bytes", typed).out.decode().splitlines()[0]


@pytest.mark.parametrize("typed", ["", "0", "-1", "1e9", "8 q", "KiB", "9" * 30, "0.0001", "99999999999P", "1_000"])
def test_what_is_no_size(log_dir: pathlib.Path, typed: str) -> None:
    done = free(log_dir, "--bytes", typed)
    assert (done.status, done.out) == (2, b"")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--output", "elsewhere"], "free has no --output"),
        (["--apply", "--no-undo"], "need --bytes"),
        (["--only", "stray", "--except", "stray"], "leave no kind"),
        (["--only", "everything"], "'everything' is not one of"),
        (["--bytes", "1", "--to", "there"], "--journal needs --apply"),
        (["--bytes", "1", "--apply", "--no-undo", "--to", "there"], "does not go with"),
    ],
)
def test_wrong_usage(log_dir: pathlib.Path, words: list[str], told: str) -> None:
    done = free(log_dir, *words)
    assert done.status == 2
    assert told in done.told


def test_a_broker_that_runs(log_dir: pathlib.Path) -> None:
    with (log_dir / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        asked = ["klogtool", "free", str(log_dir), *NOW, "--bytes", "1", "--apply", "--no-undo"]
        done = subprocess.run([sys.executable, "-m", *asked], capture_output=True, text=True)
    assert done.returncode == 3
    assert "in use" in done.stderr


def test_a_partition_dir_is_no_log_dir(log_dir: pathlib.Path) -> None:
    done = free(log_dir / "time-0")
    assert done.status == 2
    assert "not a log dir" in done.told


def test_help_for_what_to_do_next(log_dir: pathlib.Path) -> None:
    for_good = free(log_dir, "--bytes", "8K", "--no-undo").out.decode()
    assert for_good.endswith("--apply does it, and it cannot be taken back.\n")
    assert "--apply --to DIR" in free(log_dir, "--bytes", "8K").out.decode()


def test_what_was_done_is_said(log_dir: pathlib.Path) -> None:
    done = free(log_dir, "--bytes", "8K", "--apply", "--no-undo")
    assert done.status == 0
    assert done.out.decode().endswith("Done. 8,192 bytes are freed. Nothing is kept for undo.\n")
