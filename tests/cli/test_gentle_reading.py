"""A log dir that somebody works with: verify and plans say so, and take no lock themselves."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from running import FIXTURES, Done, run_here

from klogtool.log.holder import find_holder

KlogTool = Callable[..., Done]
HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(folder: pathlib.Path) -> Iterator[int]:
    """Meanwhile another process has the folder's lock, as a broker has; its id."""
    command = [sys.executable, "-c", HOLD, os.fspath(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "logs"
    shutil.copytree(FIXTURES / "leader-epochs/logdir", root)
    return root


COMMANDS = [["verify"], ["recover"], ["retain", "--config", "retention.ms=1"], ["compact"]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("below", ["", "t-0"])
def test_a_held_lock_is_mentioned(words: list[str], below: str, log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    args = [*words, os.fspath(log_dir / below)]
    with held(log_dir) as pid:
        told = run_here(args, tmp_path).told
        assert f"klogtool: {log_dir}/.lock: process {pid} holds it" in told
        assert told.count("holds it") == 1
        assert "holds it" not in run_here([*args, "--quiet"], tmp_path).told
    assert (log_dir / ".lock").exists()
    assert "holds it" not in run_here(args, tmp_path).told


@pytest.mark.parametrize("words", [["salvage"], ["truncate", "--to", "3"], ["rebuild-index"]], ids=" ".join)
def test_plans_of_a_partition_mention_it(words: list[str], log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with held(log_dir):
        assert "holds it" in run_here([*words, os.fspath(log_dir / "t-0")], tmp_path).told


def test_of_a_link_the_lock_where_it_leads_to_counts_as_well(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    (other / "t-0").symlink_to(log_dir / "t-0")
    for holder in (log_dir, other):
        with held(holder):
            assert f"{holder}/.lock" in run_here(["verify", os.fspath(other / "t-0")], tmp_path).told


def test_asking_takes_nothing(log_dir: pathlib.Path) -> None:
    lock = log_dir / ".lock"
    assert find_holder(os.fspath(lock)) is None
    assert not lock.exists()
    lock.write_bytes(b"")
    with held(log_dir) as pid:
        lock.chmod(0o444)
        before = lock.stat()
        assert find_holder(os.fspath(lock)) == f"process {pid}"
    assert find_holder(os.fspath(lock)) is None
    assert lock.stat() == before
