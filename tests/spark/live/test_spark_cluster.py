"""Several executors, each a process of its own; one of them killed amid the work."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from planned import read
from running import FIXTURES, ROOT

LOG_DIR = FIXTURES / "transactions" / "logdir"
HERE = pathlib.Path(__file__).parent
SECONDS = 240


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    found = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    paths = [str(ROOT), str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "spark")]
    return {**found, "SPARK_WORKER_DIR": str(tmp_path / "work"), "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def running(command: list[str], environment: dict[str, str], log: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which is gone afterwards, with all that it started."""
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(what: Callable[[], Any], log: pathlib.Path) -> Any:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


def job(master: str, records: int) -> list[str]:
    return [sys.executable, str(HERE / "cluster_job.py"), master, str(LOG_DIR), str(records)]


def rows_of(log: pathlib.Path) -> tuple[list[list[Any]], set[int]]:
    """What the job printed, and which executors read it."""
    found = json.loads(log.read_text().splitlines()[-1])
    return [row[:3] for row in found], {row[3] for row in found}


def planned_rows() -> list[list[Any]]:
    table = read(LOG_DIR)
    names = ("topic", "partition", "offset")
    return sorted(map(list, zip(*(table.column(name).to_pylist() for name in names), strict=True)))


def test_two_executors_read_every_record_once(environment: dict[str, str], tmp_path: pathlib.Path) -> None:
    log = tmp_path / "job.log"
    with running(job("local-cluster[2,1,512]", 10), environment, log) as process:
        assert process.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
    rows, executors = rows_of(log)
    assert rows == planned_rows()
    assert len(executors) == 2


def test_an_executor_that_is_killed_costs_no_record_and_doubles_none(
    environment: dict[str, str], tmp_path: pathlib.Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as processes:

        def start(name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
            log = tmp_path / f"{name}.log"
            return processes.enter_context(running([*arguments], environment, log)), log

        spark_class = [sys.executable, "-m", "pyspark.find_spark_home"]
        home = subprocess.run(spark_class, env=environment, capture_output=True, text=True, check=True).stdout.strip()
        deploy = [f"{home}/bin/spark-class"]
        at_master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        _, said = start("master", *deploy, *at_master, "--webui-port", "0")
        wait_for(lambda: "I have been elected leader" in said.read_text(errors="replace"), said)
        at_worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "2", "--memory", "1g", "--webui-port", "0"]
        worker, said = start("worker", *deploy, *at_worker, "--host", "127.0.0.1", master)
        wait_for(lambda: "Successfully registered" in said.read_text(errors="replace"), said)
        query, log = start("job", *job(master, 1))
        victim = wait_for(lambda: busy_executors(worker.pid), log)[0]
        os.kill(victim, signal.SIGKILL)
        assert query.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
        rows, executors = rows_of(log)
    assert rows == planned_rows()
    assert victim not in executors, "what it read was not read again, by another one"
    assert "exitStatus 137" in said.read_text(errors="replace"), "it was not killed"


def busy_executors(worker: int) -> list[int]:
    """Executors under a worker that have processes of Python: tasks have begun."""
    parents = dict(processes())
    found = []
    for pid, parent in parents.items():
        if parent == worker and any(p == pid for p in parents.values()):
            found.append(pid)
    return found


def processes() -> Iterator[tuple[int, int]]:
    """(process, the one that started it)"""
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it is gone
                continue
