"""Whatever lies in a log dir, verify says so and goes on: no traceback, no wait, bounded memory, nothing written."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from bad_input import MEMORY_BYTES, writable_copy
from damage import overwrite, tear_at
from running import KLOGTOOL, ROOT, Done, run_apart, with_memory
from verifying import NOW_MS

GARBAGE_BYTES = 10 << 20
Path = pathlib.Path
SIDE_FILES = [
    f"t-0/{7:020d}.index",
    f"t-0/{7:020d}.timeindex",
    f"t-0/{7:020d}.txnindex",
    f"t-0/{7:020d}.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "bootstrap.checkpoint",
]
FILES = [f"t-0/{7:020d}.log", f"t-0/{38:020d}.log", *SIDE_FILES]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return writable_copy("transactions/logdir", tmp_path / "logdir")


def verified(path: Path, *options: str, expected: tuple[int, ...] = (0, 1)) -> list[dict[str, Any]]:
    """The rows that verify prints, in a process with little memory; and nothing is on stderr."""
    done = run_apart("verify", f"--now={NOW_MS}", path, "--format", "json", *options, before=with_memory(MEMORY_BYTES))
    assert_quiet(done)
    assert done.status in expected
    return [json.loads(line) for line in done.out.splitlines()]


def assert_quiet(done: Done) -> None:
    assert "Traceback" not in done.err
    assert done.told == ""


def others_were_read(rows: list[dict[str, Any]]) -> bool:
    return rows[-1]["type"] == "summary" and rows[-1]["partitions"] == 5 and rows[-1]["batches"] > 60


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file(log_dir: Path, name: str) -> None:
    tear_at(log_dir / name, 0)
    assert others_were_read(verified(log_dir))


@pytest.mark.parametrize("name", FILES)
def test_megabytes_of_garbage(log_dir: Path, name: str) -> None:
    (log_dir / name).write_bytes(random.Random(name).randbytes(GARBAGE_BYTES))
    assert others_were_read(verified(log_dir))


@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"\n", b"0\n", b"0 0\n", b"9" * 50 + b"\n"])
@pytest.mark.parametrize("name", SIDE_FILES)
def test_megabytes_of_the_same(log_dir: Path, name: str, filling: bytes) -> None:
    (log_dir / name).write_bytes(filling * (GARBAGE_BYTES // len(filling)))
    assert others_were_read(verified(log_dir))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_longer_than_any_of_its_kind(log_dir: Path, name: str) -> None:
    with (log_dir / name).open("r+b") as file:
        file.truncate(3 << 30)
    assert others_were_read(verified(log_dir))


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_its_place(log_dir: Path, name: str) -> None:
    (log_dir / name).unlink()
    (log_dir / name).mkdir()
    if name == ".kafka_cleanshutdown":  # an empty folder is as good a marker; one with a file in it cannot be deleted
        verified(log_dir, expected=(0,))
        (log_dir / name / "file").touch()
    verified(log_dir, expected=(1,))


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_regular_file_is_not_waited_for(log_dir: Path, name: str) -> None:
    path = log_dir / name
    for make in (lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero"), lambda: path.symlink_to(path)):
        path.unlink()
        make()
        verified(log_dir)


def test_a_socket(log_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        folder = os.open(log_dir / "t-0", os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{folder}/{99:020d}.log")
        os.close(folder)
        assert "unreadable" in [row.get("id") for row in verified(log_dir)]


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x0f\xff\xff"])
def test_an_absurd_count_in_a_snapshot(log_dir: Path, count: bytes) -> None:
    overwrite(log_dir / f"t-0/{7:020d}.snapshot", 6, count)
    assert "snapshot-corrupt" in [row.get("id") for row in verified(log_dir)]


@pytest.mark.parametrize("name", ["t-0/leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize("count", ["2147483647", "-2147483648", "9" * 10_000])
def test_an_absurd_count_in_a_checkpoint(log_dir: Path, name: str, count: str) -> None:
    (log_dir / name).write_text(f"0\n{count}\n")
    assert {"checkpoint-corrupt", "epochs-corrupt"} & {row.get("id") for row in verified(log_dir)}


def test_names_of_all_kinds(log_dir: Path) -> None:
    folder = os.fsencode(log_dir / "t-0")
    for name in (b"\xff.log", b"a\nb.index", b"-.snapshot", b".log", b"..log", b"+5.log", b"0" * 200 + b".log"):
        with open(os.path.join(folder, name), "wb"):
            pass
    assert "segment-name" in [row.get("id") for row in verified(log_dir)]


def test_very_many_segments(log_dir: Path) -> None:
    for offset in range(100, 3100):
        (log_dir / f"t-0/{offset:020d}.log").write_bytes(b"")
    assert others_were_read(verified(log_dir))


def test_links_in_a_circle_of_folders(log_dir: Path) -> None:
    (log_dir / "t-5").symlink_to(log_dir)
    verified(log_dir)


def test_an_interrupt_is_quiet(log_dir: Path) -> None:
    with (log_dir / f"t-0/{38:020d}.log").open("r+b") as file:
        file.truncate(200 << 20)
    command = [*KLOGTOOL, "verify", str(log_dir), "--notes", "--jobs", "2"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode in (130, 0, 1, -signal.SIGINT)  # the last if it was about to end anyway
    assert told == b""


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_read(log_dir: Path) -> None:
    log = log_dir / f"t-0/{38:020d}.log"
    log.write_bytes(log.read_bytes() * 20_000)
    command = [*KLOGTOOL, "verify", str(log_dir), "--format", "json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    os.truncate(log, 1000)
    _, told = process.communicate(timeout=100)
    assert process.returncode in (0, 1), told
    assert b"Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: shutil.rmtree(path.parent)])
def test_what_goes_while_it_is_read(log_dir: Path, change: Callable[[Path], None]) -> None:
    for n in range(200):
        shutil.copytree(log_dir / "t-0", log_dir / f"u-{n}")
    command = [*KLOGTOOL, "verify", str(log_dir), "--format", "json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    change(log_dir / f"u-99/{7:020d}.log")
    _, told = process.communicate(timeout=60)
    assert process.returncode in (0, 1), told
    assert b"Traceback" not in told


LATE = """
import os, signal, sys
from klogtool import interrupts
from klogtool.cli.main import guarded

interrupts.leave_quietly()
end_work = interrupts.end_work

def late():
    os.kill(os.getpid(), signal.SIGINT)
    end_work()

interrupts.end_work = late
sys.exit(guarded(lambda: 0))
"""


def test_an_interrupt_on_the_way_out_is_quiet() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")
