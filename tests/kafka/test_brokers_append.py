"""Brokers serve what klogtool appended, and append to it further.

A broker of each release is fed and stopped. Then klogtool appends in its log dir: records to a topic that has some,
rolling segments; batches of that one to a topic that is empty; as another producer would go on. The next life believes
the clean marker, serves all of it in order, takes more, and leaves a log in which nothing is wrong.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import pytest
from running import run_here

from .brokers import VERSIONS, a_broker, served
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
pytestmark = [pytest.mark.kafka, pytest.mark.shared]
FED, EMPTY = "fed", "empty"


def appended(log_dir: pathlib.Path, topic: str, *words: str) -> None:
    done = run_here(["append", str(log_dir / f"{topic}-0"), *words, "--apply", "--config", "segment.bytes=9000"], HERE)
    assert done.status == 0, done.err + done.out.decode()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_appended_is_served_and_appended_to(version: str) -> None:
    scratch = scratch_folder("klogtool-brokers-append-")
    try:
        with a_broker(version, scratch / "broker") as broker:
            record = sys.modules[type(broker).__module__].Record
            small = {"internal_segment_bytes": 9000} if version == "4.3.1" else {"segment_bytes": 9000}
            broker.start()
            for topic in (FED, EMPTY):
                broker.create_topic(topic, 1, retention_ms=-1, **small)
            given = [(b"k%d" % n, b"from a client " * 20) for n in range(30)]
            broker.produce(FED, 0, [record(key=key, value=value) for key, value in given])
            broker.stop()

            (log_dir,) = broker.log_dirs
            lines = scratch / "lines"
            ours = [(b"o%d" % n, b"from klogtool " * 30) for n in range(60)]
            rows = ({"key": {"utf8": key.decode()}, "value": {"utf8": value.decode()}} for key, value in ours)
            lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
            appended(log_dir, FED, "--records", str(lines), "--codec", "lz4", "--batch-bytes", "3000")
            logs = sorted((log_dir / f"{FED}-0").glob("*.log"))
            copies = [shutil.copy(path, scratch / path.name) for path in logs]
            appended(log_dir, EMPTY, "--batches", *map(str, copies))
            assert len(logs) > 1, "it rolled"

            broker.start()
            said = [line for line in broker.log_text().splitlines() if "__cluster_metadata" not in line]
            assert not [line for line in said if "Recovering unflushed segment" in line]
            expected = [(offset, *pair) for offset, pair in enumerate([*given, *ours])]
            more = [record(key=b"m", value=b"and more")] * 3
            for topic in (FED, EMPTY):
                assert served(broker, topic) == expected, topic
                assert broker.produce(topic, 0, more) == [90, 91, 92], topic
                assert served(broker, topic)[90:] == [(n, b"m", b"and more") for n in (90, 91, 92)], topic
            broker.stop()
            done = run_here(["verify", str(log_dir), "--deep"], HERE)
            assert done.status == 0, done.out.decode()
    finally:
        shutil.rmtree(scratch)
