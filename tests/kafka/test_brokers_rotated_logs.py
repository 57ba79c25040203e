"""logrotate takes segments for logs of a program: it renames or copies them, empties them, packs the copies. A real
broker runs meanwhile, and writes on; it is killed. What the doctor advises first brings all records back."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from running import run_here

from .brokers import a_broker, served
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
RECORDS = 30  # before each rotation


@pytest.fixture
def work() -> Iterator[Path]:
    folder = scratch_folder("klogtool-rotated-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def copytruncate(log: Path) -> None:
    """As logrotate does it: a copy, and the file is made empty. An older copy moves on."""
    if (older := log.with_name(f"{log.name}.1")).exists():
        older.rename(log.with_name(f"{log.name}.2"))
    shutil.copy(log, log.with_name(f"{log.name}.1"))
    with log.open("r+b") as file:
        file.truncate(0)


def compressed(log: Path) -> None:
    copytruncate(log)
    subprocess.run(["gzip", str(log.with_name(f"{log.name}.1"))], check=True)


def renamed(log: Path) -> None:
    """With `create`: a new, empty file has its name."""
    log.rename(log.with_name(f"{log.name}.1"))
    log.touch()


def feed(broker: Any) -> None:
    record = sys.modules[type(broker).__module__].Record
    for n in range(RECORDS):
        broker.produce("t", 0, [record(key=b"k%d" % n, value=b"v" * 100)])


@pytest.mark.slow
@pytest.mark.parametrize(("rotate", "times"), [(copytruncate, 1), (copytruncate, 2), (compressed, 1), (renamed, 1)])
def test_what_logrotate_took_comes_back(work: Path, rotate: Callable[[Path], None], times: int) -> None:
    with a_broker("4.3.1", work, metadata_in_log_dir=True) as broker:
        broker.start()
        broker.create_topic("t", 1)
        partition = broker.partition_dir("t", 0)
        log = partition / f"{0:020d}.log"
        for _ in range(times):
            feed(broker)
            rotate(log)
        feed(broker)
        broker.kill()
        (log_dir,) = broker.log_dirs
        done = run_here(["doctor", str(log_dir), "--json"], work)
        rows = [json.loads(line) for line in done.out.splitlines()]
        options = [row for row in rows if row["type"] == "option" and row["for"] == str(partition)]
        option = next(row for row in options if f"{log.name}.1" in row["command"])
        assert rotate is compressed or option == options[0]  # nobody unpacks it to see what it loses
        subprocess.run(["sh", "-c", option["command"]], check=True)
        rows = [json.loads(line) for line in run_here(["doctor", str(log_dir), "--json"], work).out.splitlines()]
        assert [row for row in rows if row["type"] == "ahead" and row["path"] == str(partition)] == []
        broker.start()
        assert [offset for offset, _, _ in served(broker, "t")] == list(range(RECORDS * (times + 1)))
        feed(broker)
        assert len(served(broker, "t")) == RECORDS * (times + 2)
        broker.stop()
