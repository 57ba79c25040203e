"""Snapshots of `__cluster_metadata`: what is built is read back, and has the shape of what a controller writes."""

from __future__ import annotations

import pathlib

from running import FIXTURES

from klogtool.format import kraft_snapshot
from klogtool.format.batch import RecordBatch
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.control_values import parse_control_value
from klogtool.format.kraft_snapshot import Endpoint, Voter, build_snapshot
from klogtool.log.segment import BatchFile

EPOCH, TIME = 7, 1_700_000_000_000
VOTERS = (
    Voter(1, "A" * 22, (Endpoint("CONTROLLER", "a.example", 9093),)),
    Voter(2, "B" * 21 + "A", (Endpoint("OTHER", "b.example", 9094), Endpoint("CONTROLLER", "b.example", 9093))),
)


def written(folder: pathlib.Path, data: bytes) -> list[RecordBatch]:
    """The batches of a snapshot, each with a right checksum, and offsets without a gap."""
    path = folder / "00000000000000000009-0000000007.checkpoint"
    path.write_bytes(data)
    batches = [batch for batch in BatchFile(str(path)).batches() if isinstance(batch, RecordBatch)]
    assert sum(batch.size for batch in batches) == len(data)
    assert all(batch.crc_valid for batch in batches)
    offsets = [record.offset for batch in batches for record in batch.records()]
    assert offsets == list(range(len(offsets)))
    return batches


def controls(batch: RecordBatch) -> list[ControlRecordType]:
    return [ControlRecordType.of(parse_control_type_id(record.key)) for record in batch.records()]


def test_a_snapshot_of_a_controller_built_again_is_the_same(tmp_path: pathlib.Path) -> None:
    """All but times and epochs: the controller writes the header a moment before the records."""
    original = max((FIXTURES / "metadata" / "logdir" / "__cluster_metadata-0").glob("*.checkpoint"))
    theirs = [batch for batch in BatchFile(str(original)).batches() if isinstance(batch, RecordBatch)]
    values = [record.value or b"" for batch in theirs if not batch.is_control for record in batch.records()]
    ours = written(
        tmp_path, b"".join(build_snapshot(values, epoch=theirs[0].partition_leader_epoch, timestamp_ms=TIME))
    )
    told = (
        "base_offset",
        "last_offset",
        "size",
        "attributes",
        "partition_leader_epoch",
        "producer_id",
        "base_sequence",
    )
    assert [[getattr(batch, name) for name in told] for batch in ours] == [
        [getattr(batch, name) for name in told] for batch in theirs
    ]
    assert [record.value for batch in ours if not batch.is_control for record in batch.records()] == values
    assert [controls(batch) for batch in ours if batch.is_control] == [
        controls(batch) for batch in theirs if batch.is_control
    ]


def test_voters_are_in_the_first_batch(tmp_path: pathlib.Path) -> None:
    first, *_ = written(tmp_path, b"".join(build_snapshot([b"x"], epoch=EPOCH, timestamp_ms=TIME, voters=VOTERS)))
    kinds = [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS]
    assert controls(first) == kinds
    _, version, voters = (parse_control_value(k, r.value or b"") for k, r in zip(kinds, first.records(), strict=True))
    assert version["kRaftVersion"] == 1
    assert [(v["voterId"], v["voterDirectoryId"], v["endpoints"][0]["name"]) for v in voters["voters"]] == [
        (1, "A" * 22, "CONTROLLER"),
        (2, "B" * 21 + "A", "OTHER"),
    ]


def test_many_records_take_several_batches(tmp_path: pathlib.Path) -> None:
    values = [b"%05d" % n * 100 for n in range(2000)]
    batches = written(tmp_path, b"".join(build_snapshot(values, epoch=EPOCH, timestamp_ms=TIME)))
    assert len(batches) == 2 + -(-2000 * 500 // kraft_snapshot.BATCH_BYTES)
    assert all(batch.size < 2 * kraft_snapshot.BATCH_BYTES for batch in batches)
    assert [record.value for batch in batches[1:-1] for record in batch.records()] == values


def test_no_records_are_a_header_and_a_footer(tmp_path: pathlib.Path) -> None:
    assert [batch.is_control for batch in written(tmp_path, b"".join(build_snapshot([], epoch=0, timestamp_ms=0)))] == [
        True,
        True,
    ]
