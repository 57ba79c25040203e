"""A topic that was deleted by mistake comes back, if its broker dies in the first minute: the page of the cookbook.

The broker makes a topic, deletes it, and is killed. klogtool reads what lies in the -delete folder, and transplants it
into the topic that is created again. The broker then serves every record, and takes new ones.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import time
from typing import Any

import pytest
from running import run_here

from klogtool.log.logdir import LogDir

from .beside import module_beside
from .brokers import VERSIONS, a_broker, served
from .kafka import BRIEF_JVM
from .test_brokers_start_on_it import a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
RECORDS = 40


def done(*words: object) -> None:
    told = run_here([str(word) for word in words], pathlib.Path.cwd())
    assert told.status == 0, told.err + told.out.decode()


def delete_topic(broker: Any, topic: str) -> None:
    classes = module_beside("brokers/broker.py").classpath(broker.version)
    words = ["--bootstrap-server", f"127.0.0.1:{broker.port}", "--delete", "--topic", topic]
    command = ["java", *BRIEF_JVM, "-cp", classes, "org.apache.kafka.tools.TopicCommand", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def renamed_folder(log_dir: pathlib.Path, topic: str) -> pathlib.Path:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = list(log_dir.glob(f"{topic}-0.*-delete"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError("the broker did not rename the folder")


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_deleted_topic_comes_back(is_killed: bool) -> None:
    version = VERSIONS[0]
    record = module_beside("brokers/broker.py").Record
    with a_scratch_folder() as work, a_broker(version, work / "broker") as broker:
        broker.start()
        broker.create_topic("t", 1, internal_segment_bytes=9000)
        broker.produce("t", 0, [record(key=b"%d" % n, value=b"x" * 60) for n in range(RECORDS)])
        before = served(broker, "t")
        delete_topic(broker, "t")
        folder = renamed_folder(broker.log_dirs[0], "t")
        broker.kill() if is_killed else broker.stop()
        log_dir, copy, sound, new = broker.log_dirs[0], work / "t-0", work / "sound", work / "new"
        assert (
            f"| offset: {RECORDS - 1} ".encode()
            in run_here(["read", str(folder), "--offset", str(RECORDS - 1), "--records"], work).out
        )
        shutil.move(folder, copy)
        broker.start()
        broker.create_topic("t", 1, internal_segment_bytes=9000)
        broker.stop()
        done("salvage", copy, "--output", sound)
        at = ("--topic", "t", "--partition", "0", "--log-dir", log_dir)
        done("transplant", sound, *at, "--output", new)
        shutil.move(log_dir / "t-0", work / "empty")
        shutil.move(new, log_dir / "t-0")
        broker.start()
        assert served(broker, "t") == before
        broker.produce("t", 0, [record(key=b"new", value=b"one")])
        assert len(served(broker, "t")) == RECORDS + 1
        assert not [one for one in LogDir(str(log_dir)).partitions if one.state.value]
