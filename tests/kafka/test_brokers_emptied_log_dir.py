"""A cleaner of /tmp deleted all files of a log dir beside its partition dirs, and the cluster's metadata. What a real
broker does with it is what the doctor says, and docs/cookbook/emptied-log-dir.md brings everything back."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from running import run_here

from .brokers import a_broker
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
METADATA = "__cluster_metadata-0"
TOPICS, RECORDS = {"a": 2, "b": 1}, 20


@pytest.fixture
def work() -> Iterator[Path]:
    folder = scratch_folder("klogtool-emptied-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def feed(broker: Any) -> None:
    record = sys.modules[type(broker).__module__].Record
    for topic, partitions in TOPICS.items():
        broker.create_topic(topic, partitions)
        for n in range(partitions):
            broker.produce(topic, n, [record(key=b"k%d" % i, value=b"v%d" % i) for i in range(RECORDS)])
    broker.join_group("readers", "b", 5)


def empty(log_dir: Path) -> None:
    shutil.rmtree(log_dir / METADATA)
    for path in log_dir.iterdir():
        if path.is_file():
            path.unlink()


def diagnosed(broker: Any) -> list[dict[str, Any]]:
    """What the doctor says by the broker's server.properties."""
    done = run_here(["doctor", "--config-file", str(broker.work / "broker.properties"), "--json"], broker.work)
    return [json.loads(line) for line in done.out.splitlines()]


def folders(log_dir: Path) -> set[str]:
    return {path.name for path in log_dir.iterdir() if path.is_dir() and path.name != METADATA}


@pytest.mark.parametrize("is_rebuilt", [False, True], ids=["begun anew", "rebuilt"])
def test_a_broker_does_with_an_emptied_log_dir_what_the_doctor_said(work: Path, is_rebuilt: bool) -> None:
    with a_broker("4.3.1", work / "work", log_dir=work / "logs", metadata_in_log_dir=True) as broker:
        broker.start()
        feed(broker)
        broker.stop()
        (log_dir,) = broker.log_dirs
        before = folders(log_dir)
        empty(log_dir)
        broker._format = lambda: None  # nobody formats it
        module = sys.modules[type(broker).__module__]
        with pytest.raises(module.BrokerError):
            broker.start()
        rows = diagnosed(broker)
        (claim,) = (row for row in rows if row["type"] == "claim" and row["about"] == "broker")
        assert claim["starts"] is False
        assert claim["error"] in broker.output
        assert claim["message"] in broker.output
        (log_dir / "meta.properties").write_text(f"version=1\ncluster.id={module.new_uuid()}\nnode.id=1\n")
        if is_rebuilt:
            collected = run_here(["fleet", "collect", "--quiet", str(log_dir)], work)
            (work / "broker.klog").write_bytes(collected.out)
            rebuilt = run_here(["fleet", "metadata", "broker.klog", "--output", "rebuilt"], work)
            assert rebuilt.status == 0, rebuilt
            shutil.copytree(work / "rebuilt", log_dir / METADATA)
        said = [row for row in diagnosed(broker) if row["type"] == "ahead"]
        assert [row["what"] for row in said] == ([] if is_rebuilt else ["metadata-lost"])
        broker.start()
        served = {name: len(broker.consume(name, 0)) for name in TOPICS} if is_rebuilt else {}
        broker.stop()
        assert served == (dict.fromkeys(TOPICS, RECORDS) if is_rebuilt else {})
        if is_rebuilt:
            assert folders(log_dir) == before
        else:
            assert {name.partition(".")[0] for name in folders(log_dir) if name.endswith("-stray")} == before
            assert all(name.endswith("-stray") for name in folders(log_dir))
