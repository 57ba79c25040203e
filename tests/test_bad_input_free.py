"""Whatever lies in a log dir or beside it: free has a plan or a line about it, no traceback, and nothing is written."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from bad_input import FILES_OF_A_PARTITION, garbage_for, writable_copy
from running import ROOT, Done, run_apart, run_here, without_power_over_files

Path = pathlib.Path
Unchanged = Callable[[Path], AbstractContextManager[None]]
ID = "0123456789ab-1"
ROOT_FILES = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log_dir = writable_copy("transactions/logdir", tmp_path / "box" / "logdir")
    (log_dir / "t-0" / "x.log.deleted").write_bytes(bytes(5000))
    (tmp_path / "box" / "logdir.klogtool" / ID).mkdir(parents=True)
    (tmp_path / "box" / "a.rejected").mkdir()
    return log_dir


def asked(log_dir: Path, *words: str) -> Done:
    settings = ["--config", "retention.ms=1", "--config", "cleanup.policy=compact,delete"]
    done = run_here(["free", str(log_dir), *settings, "--now", "1700000400000", *words], ROOT)
    assert "Traceback" not in done.err
    assert done.status in (0, 1, 3, 4)
    assert done.status == 0 or "klogtool: " in done.err or b"NOT ENOUGH" in done.out
    return done


def places(log_dir: Path) -> list[Path]:
    beside = [log_dir.parent / "logdir.klogtool" / ID / name for name in ("plan.jsonl", "manifest.json")]
    of_partition = [log_dir / "t-0" / name for name in FILES_OF_A_PARTITION]
    return [
        *of_partition,
        *(log_dir / name for name in ROOT_FILES),
        *beside,
        log_dir.parent / "a.rejected/manifest.json",
    ]


@pytest.mark.slow
def test_garbage_in_a_file(log_dir: Path, unchanged: Unchanged) -> None:
    for path in places(log_dir):
        kept = path.read_bytes() if path.exists() else None
        for data in [
            *garbage_for(path),
            b"[" * 100_000,
            b"{}",
            b'{"ranges":[7],"partition":[]}',
            b'{"ranges":{"a":1}}',
        ]:
            path.write_bytes(data)
            with unchanged(log_dir.parent):
                asked(log_dir)
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


@pytest.mark.slow
def test_files_that_are_gone_or_something_else(log_dir: Path, unchanged: Unchanged) -> None:
    for path in places(log_dir):
        kept = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        for put in (lambda at: None, os.mkdir, os.mkfifo, lambda at: os.symlink(at, at)):
            put(path)
            with unchanged(log_dir.parent):
                asked(log_dir)
            if os.path.lexists(path):
                path.rmdir() if path.is_dir() else path.unlink()
        if kept is not None:
            path.write_bytes(kept)


def test_what_may_not_be_read_is_left_alone(log_dir: Path) -> None:
    """The other partitions are still judged."""
    (log_dir / "t-1").chmod(0)
    (log_dir / "t-0" / "leader-epoch-checkpoint").chmod(0)
    words = ["free", str(log_dir), "--config", "retention.ms=1", "--now", "1700000400000"]
    done = run_apart(*words, before=without_power_over_files)
    (log_dir / "t-1").chmod(0o755)
    assert done.status == 0
    assert b"x.log.deleted" in done.out
    assert b"left alone" in done.out
    assert b"t-1" in done.out


@pytest.mark.parametrize(
    "name", ["-stray", "x-0.-stray", "a-b-stray", "x-99999999999", "\u0661-0", "-0", ".x-0", "a" * 250]
)
def test_odd_folders(log_dir: Path, name: str, unchanged: Unchanged) -> None:
    (log_dir / name).mkdir()
    (log_dir / name / f"{0:020d}.log.deleted").write_bytes(bytes(5000))
    with unchanged(log_dir.parent):
        asked(log_dir)


def test_an_empty_log_dir_and_none(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    assert asked(tmp_path / "logs").out.startswith(os.fsencode(tmp_path) + b"/logs: 0 B can be freed\n")
    done = run_here(["free", str(tmp_path / "none")], ROOT)
    assert (done.status, done.out) == (2, b"")
