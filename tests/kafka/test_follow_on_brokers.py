"""`dump-log --follow` on the log dir of a running broker: records as they are produced, over rolls of the log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from .brokers import a_broker
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.timeout(300)]
COUNT = 60


def test_what_is_produced_is_followed() -> None:
    scratch = scratch_folder("klogtool-follow-")
    try:
        with a_broker("4.3.1", scratch / "broker") as broker:
            record = sys.modules[type(broker).__module__].Record
            broker.start()
            broker.create_topic("t", 1, segment_bytes=1048576)
            (log_dir,) = broker.log_dirs
            command = [sys.executable, "-m", "klogtool", "dump-log", "--follow", f"{log_dir}/t-0", "--format", "json"]
            followed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for n in range(COUNT):
                broker.produce("t", 0, [record(value=b"%d" % n + b"x" * 60_000)])
            assert followed.stdout is not None
            offsets, segments = [], set()
            while len(offsets) < COUNT:  # the test's own limit ends it
                row = json.loads(followed.stdout.readline())
                if row["type"] == "record":
                    offsets.append(row["offset"])
                    segments.add(row["file"])
            followed.terminate()
            _, told = followed.communicate(timeout=60)
            assert (followed.returncode, told) == (130, b"")
            assert offsets == list(range(COUNT))
            assert len(segments) > 2
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
