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
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from msgspec import Struct
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
            with suppress(ProcessLookupError):
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
    return offsets_in(LOG_DIR)


def offsets_in(log_dir: pathlib.Path) -> list[list[Any]]:
    table = read(log_dir)
    names = ("topic", "partition", "offset")
    return sorted(map(list, zip(*(table.column(name).to_pylist() for name in names), strict=True)))


def test_two_executors_read_every_record_once(environment: dict[str, str], tmp_path: pathlib.Path) -> None:
    log = tmp_path / "job.log"
    with running(job("local-cluster[2,1,512]", 10), environment, log) as process:
        assert process.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
    rows, executors = rows_of(log)
    assert rows == planned_rows()
    assert len(executors) == 2


class Cluster(Struct):
    """A standalone cluster of processes that end with the test."""

    environment: dict[str, str]
    folder: pathlib.Path
    processes: ExitStack
    master: str = ""

    def start(self, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
        log = self.folder / f"{name}.log"
        return self.processes.enter_context(running([*arguments], self.environment, log)), log

    def deploy(self, name: str, kind: str, *arguments: str) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
        find = [sys.executable, "-m", "pyspark.find_spark_home"]
        told = subprocess.run(find, env=self.environment, capture_output=True, text=True, check=True)
        command = f"{told.stdout.strip()}/bin/spark-class", f"org.apache.spark.deploy.{kind}"
        return self.start(name, *command, "--webui-port", "0", *arguments)

    def start_master(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        _, said = self.deploy("master", "master.Master", "--host", "127.0.0.1", "--port", str(port))
        wait_for(lambda: "I have been elected leader" in said.read_text(errors="replace"), said)

    def start_worker(self, host: str) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
        size = "--cores", "2", "--memory", "1g"
        worker, said = self.deploy(f"worker-{host}", "worker.Worker", *size, "--host", host, self.master)
        wait_for(lambda: "Successfully registered" in said.read_text(errors="replace"), said)
        return worker, said


@pytest.fixture
def cluster(environment: dict[str, str], tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with ExitStack() as processes:
        found = Cluster(environment, tmp_path, processes)
        found.start_master()
        yield found


def test_an_executor_that_is_killed_costs_no_record_and_doubles_none(cluster: Cluster) -> None:
    worker, said = cluster.start_worker("127.0.0.1")
    query, log = cluster.start("job", *job(cluster.master, 1))
    victim = wait_for(lambda: busy_executors(worker.pid), log)[0]
    os.kill(victim, signal.SIGKILL)
    assert query.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
    rows, executors = rows_of(log)
    assert rows == planned_rows()
    assert victim not in executors, "what it read was not read again, by another one"
    assert "exitStatus 137" in said.read_text(errors="replace"), "it was not killed"


@pytest.mark.skipif(sys.platform != "linux", reason="needs the loopback addresses of Linux")
def test_speculation_and_a_killed_executor_write_every_record_once(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    """The first attempts of two tasks never end. Spark starts second ones beside them, on another host only."""
    (tmp_path / "shared").mkdir()
    worker, said = cluster.start_worker("127.0.0.2")
    cluster.start_worker("127.0.0.3")
    query, log = cluster.start("job", *job(cluster.master, 10), str(tmp_path / "shared" / "out"))
    os.kill(wait_for(lambda: busy_executors(worker.pid), log)[0], signal.SIGKILL)
    assert query.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
    assert offsets_in(tmp_path / "shared" / "out") == planned_rows()
    assert os.listdir(tmp_path / "shared") == ["out"]
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
