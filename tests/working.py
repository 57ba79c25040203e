"""Every command that changes a log as a broker does, as it is asked over the partition dir of a fixture."""

from __future__ import annotations

import json
import pathlib

from raw_batches import build_batch

from klogtool.format.batch import Record

SOURCE, NAME = "transactions/logdir", "t-0"
LOG_END = 62
NOW_MS = 1_700_000_300_000  # minutes after the records

WORK: dict[str, list[str]] = {
    "records": ["append", "--records", "INPUT/records", "--batch-records", "2", "--config", "segment.bytes=1500"],
    "batches": ["append", "--batches", "INPUT/batches"],
    "requests": ["append", "--requests", "INPUT/requests"],
    "cut": ["truncate", "--to", "20"],
    "anew": ["truncate", "--start-at", "500"],
    "roll": ["roll", "--force"],
    "retain": ["retain", "--config", "retention.ms=1"],
    "delete": ["delete-records", "--before", "40"],
    "compact": ["compact", "--force", "--config", "cleanup.policy=compact"],
}


def put_input(folder: pathlib.Path) -> None:
    """What is to be appended."""
    folder.mkdir(parents=True)
    rows = [{"key": {"utf8": f"k{n}"}, "value": {"utf8": "v" * 300}} for n in range(10)]
    (folder / "records").write_text("\n".join(map(json.dumps, rows)))
    batch = build_batch([Record(LOG_END, NOW_MS, b"k", b"v")], partition_leader_epoch=0)
    (folder / "batches").write_bytes(batch)
    (folder / "requests").write_text(json.dumps({"as": "follower", "hex": batch.hex(), "leader_epoch": 1}))


def words_of(work: str, partition: pathlib.Path, given: pathlib.Path) -> list[str]:
    """The command line, without what says where to write."""
    command, *options = (word.replace("INPUT", str(given)) for word in WORK[work])
    return [command, str(partition), *options, "--now", str(NOW_MS)]
