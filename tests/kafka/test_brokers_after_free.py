"""A broker's disk is full to the last byte, and the broker is killed. After `free` it starts, and serves what is left.

The disk is a file system of its own. One release is asked here; all of them with KLOGTOOL_EVERY_START=1.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from .beside import module_beside
from .brokers import CUTS, VERSIONS, Served, a_broker, records_of, served
from .test_brokers_start_on_it import klogtool as run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
LONG_AGO_MS = 1_700_000_000_000
STRAY = f"kept-0.{'0123456789abcdef' * 2}-stray"
ASKED = VERSIONS if os.environ.get("KLOGTOOL_EVERY_START") == "1" else VERSIONS[:1]
LATER = {"file.delete.delay.ms": 600_000, "log.initial.task.delay.ms": 600_000}


@pytest.fixture
def small_disk() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True).returncode:
            pytest.skip("mounting is not permitted here")
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def fill_up(place: pathlib.Path) -> None:
    with (place / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))


def feed(broker: Any, topic: str, **settings: object) -> None:
    """Some dozen segments of records that are years old."""
    record = module_beside("brokers/broker.py").Record
    small = {"internal_segment_bytes": 60_000} if broker.version == "4.3.1" else {"segment_bytes": 60_000}
    broker.create_topic(topic, 1, **small, **settings)
    for start in range(0, 200, 10):
        numbers = range(start, start + 10)
        broker.produce(topic, 0, [record(os.urandom(5000), b"k%d" % n, LONG_AGO_MS + n) for n in numbers])


def free(log_dir: pathlib.Path, *words: str) -> dict[str, Any]:
    done = run("free", log_dir, "--format", "json", *words)
    assert done.status == 0, done.err
    found: dict[str, Any] = next(row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
    return found["answer"]  # type: ignore[no-any-return]


def from_first_segment(records: Served, partition: pathlib.Path) -> Served:
    first = min(int(path.name[:20]) for path in partition.glob("*.log"))
    return [record for record in records if record[0] >= first]


@pytest.mark.slow
@pytest.mark.parametrize("version", ASKED)
def test_after_free_a_broker_starts_and_serves_what_is_left(
    version: str, small_disk: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log_dir = small_disk / "logs"
    with a_broker(version, tmp_path / "work", log_dir=log_dir, metadata_in_log_dir=True, config=LATER) as broker:
        broker.start()
        feed(broker, "kept", retention_ms=-1)
        feed(broker, "old", retention_ms=3_600_000)
        feed(broker, "gone", retention_ms=-1)
        broker.delete_topic("gone")
        broker.kill()
        shutil.copytree(log_dir / "kept-0", log_dir / STRAY)
        before = {topic: records_of(log_dir / f"{topic}-0") for topic in ("kept", "old")}
        fill_up(small_disk)
        assert os.statvfs(log_dir).f_bavail == 0
        most = free(log_dir, "--except", "stray")
        assert {item["kind"] for item in most["items"]} == {"delete-folder", "retention"}
        free(log_dir, "--bytes", str(most["freed_bytes"]), "--apply", "--no-undo")
        assert os.statvfs(log_dir).f_bavail * os.statvfs(log_dir).f_frsize == most["freed_bytes"] > 1 << 20
        left = from_first_segment(before["old"], log_dir / "old-0")
        assert 0 < len(left) < len(before["old"])
        broker.start()
        told = broker.log_text()
        assert not [words for words in CUTS if words in told]
        assert served(broker, "kept") == before["kept"]
        assert served(broker, "old") == left
        assert broker.offsets("old", 0) == (left[0][0], len(before["old"]))
        record = module_beside("brokers/broker.py").Record
        assert broker.produce("kept", 0, [record(b"new")]) == [len(before["kept"])]
        assert broker.produce("old", 0, [record(b"new")]) == [len(before["old"])]
        broker.stop()
    assert len(records_of(log_dir / STRAY)) == len(before["kept"])
    assert run("verify", log_dir).status == 0
