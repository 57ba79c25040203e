"""Logs that grow in one direction: many segments, many leader epochs, many partitions. Small batches, sound files.

What a command does to n and to 4n of them says how its work grows: tests count it, `make bench` measures it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from built import write_log_dir
from quorums import Disk, directory_id, voter

from klogtool.building import Batch, File, LogDirSpec, PartitionSpec, RecordSpec, SegmentSpec, Spec, StepSpec
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.names import FileKind
from klogtool.format.uuids import build_uuid

FIRST_MS = 1_700_000_000_000
PRODUCER_ID = 7
RECORDS = 2  # of a batch
TOPIC = "t"
NO_LINES = build_offset_checkpoint({}).decode()


def make_segments(
    log_dir: pathlib.Path, count: int, *, side_files: bool = True, epochs: bool = False, is_clean: bool = True
) -> pathlib.Path:
    """A partition of `count` segments of one batch each; returns its dir. side_files: all that a broker writes, else
    the `.log` alone. epochs: each segment has a leader epoch of its own. is_clean: the broker stopped in order."""
    segments = (SegmentSpec(base=n * RECORDS, log=(_batch(n, n if epochs else 0),)) for n in range(count))
    _make(log_dir, [PartitionSpec(topic=TOPIC, topic_id=None, segments=tuple(segments))], is_clean=is_clean)
    folder = log_dir / f"{TOPIC}-0"
    for path in folder.iterdir() if not side_files else ():
        if path.suffix != FileKind.LOG.value:
            path.unlink()
    return folder


def make_epochs(log_dir: pathlib.Path, count: int, *, is_clean: bool = True) -> pathlib.Path:
    """A partition of one segment, whose `count` batches have a leader epoch each; returns its dir."""
    steps = tuple(_batch(n, n) for n in range(count))
    segments = (SegmentSpec(base=0, log=steps),)
    _make(log_dir, [PartitionSpec(topic=TOPIC, topic_id=None, segments=segments)], is_clean=is_clean)
    return log_dir / f"{TOPIC}-0"


def make_partitions(log_dir: pathlib.Path, count: int, *, is_clean: bool = True) -> pathlib.Path:
    """A log dir of `count` partitions of one segment with one batch; returns it."""
    log = (_batch(0, 0),)
    partitions = (PartitionSpec(topic=TOPIC, partition=n, topic_id=None, log=log) for n in range(count))
    _make(log_dir, partitions, is_clean=is_clean)
    return log_dir


def make_metadata(log_dir: pathlib.Path, count: int) -> pathlib.Path:
    """The metadata of a controller: `count` topics of two partitions, each made in a transaction of its own, of which
    every fourth is aborted, and a broker with as many log dirs; returns its dir."""
    disk = Disk(log_dir, 1).voters(voter(1))
    directories = [build_uuid((9000 + n).to_bytes(16, "big")) for n in range(count)]
    broker = {"brokerId": 1, "brokerEpoch": 1, "logDirs": directories, "incarnationId": directory_id(1)}
    disk.records(1, message=("RegisterBrokerRecord", 3, broker))
    for n in range(count):
        topic_id = build_uuid((n + 2).to_bytes(16, "big"))
        topic = [("TopicRecord", 0, {"name": f"t-{n}", "topicId": topic_id})]
        topic += [("PartitionRecord", 1, _of_partition(topic_id, index, directories[n])) for index in (0, 1)]
        end = "AbortTransactionRecord" if n % 4 == 3 else "EndTransactionRecord"
        for message in (("BeginTransactionRecord", 0, {"name": "t"}), *topic, (end, 0, {})):
            disk.records(1, message=message)
    return disk.metadata


def _of_partition(topic_id: str, index: int, directory: str) -> dict[str, object]:
    return {"topicId": topic_id, "partitionId": index, "replicas": [1], "isr": [1], "directories": [directory]}


def _batch(n: int, epoch: int) -> StepSpec:
    record = RecordSpec(key=f"key-{n % 1000:03d}", value="value", timestamp=FIRST_MS + n * 1000)
    return StepSpec(batch=Batch(producer=PRODUCER_ID, leader_epoch=epoch, records=(record,) * RECORDS))


def _make(log_dir: pathlib.Path, partitions: Iterable[PartitionSpec], *, is_clean: bool) -> None:
    own = LogDirSpec(
        cluster_id="growing",
        directory_id=build_uuid(bytes(range(16))),
        stop="clean" if is_clean else "unclean",
        broker_epoch=5,
    )
    unflushed = File(name=FileKind.RECOVERY_POINT_CHECKPOINT.value, content=NO_LINES)
    spec = Spec(log_dir=own, partitions=tuple(partitions), files=() if is_clean else (unflushed,))
    write_log_dir(spec, log_dir)
