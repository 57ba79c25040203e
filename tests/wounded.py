"""A wound for each id that verify can find, in a copy of a fixture that is sound but for that."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from damage import append_bytes, flip_bit, overwrite
from msgspec.structs import replace
from raw_batches import build_batch
from verifying import NOW_MS, copy_file, edit_snapshot, edit_txn_index

from klogtool.format.batch import CRC_COVERS_FROM, Record, RecordBatch
from klogtool.format.checksums import crc32c
from klogtool.format.control import ControlRecordType, build_control_key
from klogtool.format.control_values import build_control_value
from klogtool.format.fields import field_positions
from klogtool.format.indexes import OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.kraft_snapshot import Endpoint, Voter
from klogtool.format.layouts import BATCH_HEADER
from klogtool.log.segment import Segment
from klogtool.testing import wounds

Path = pathlib.Path
Wound = Callable[[Path], object]
FIRST, ACTIVE = f"{0:020d}", f"{42:020d}"  # the segments of leader-epochs/logdir/t-0
FIELDS = {name: at for name, at, _ in field_positions(BATCH_HEADER)}


@dataclass(frozen=True)
class Case:
    """A wound in a copy of a fixture. beside: what else comes of it; paths: in the fixture, that are verified."""

    wound: Wound
    fixture: str = "leader-epochs/logdir"
    beside: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ("",)
    now_ms: int = NOW_MS


def batch_at(log: Path, number: int) -> RecordBatch:
    batch = list(Segment(str(log)).batches())[number]
    assert isinstance(batch, RecordBatch)
    return batch


def edit_batch(log: Path, number: int, field: str, new: bytes, *, heal: bool = False) -> None:
    """Another value in a field of a batch; heal: with a checksum that holds."""
    batch = batch_at(log, number)
    data = bytearray(log.read_bytes())
    at = batch.position + FIELDS[field]
    data[at : at + len(new)] = new
    if heal:
        crc = crc32c(bytes(data[batch.position + CRC_COVERS_FROM : batch.position + batch.size]))
        data[batch.position + FIELDS["crc"] : batch.position + FIELDS["crc"] + 4] = crc.to_bytes(4, "big")
    log.write_bytes(data)


def log_of(log_dir: Path, base: str = FIRST) -> Path:
    return log_dir / f"t-0/{base}.log"


def side_of(log_dir: Path, kind: str, base: str = FIRST) -> Path:
    return log_dir / f"t-0/{base}.{kind}"


def swap_batches(log: Path, number: int) -> None:
    one, other = batch_at(log, number), batch_at(log, number + 1)
    data = log.read_bytes()
    log.write_bytes(data[: one.position] + bytes(other.data) + bytes(one.data) + data[other.position + other.size :])


def swap_entries(path: Path, size: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])


def no_indexes(log_dir: Path, base: str) -> None:
    side_of(log_dir, "index", base).unlink()
    side_of(log_dir, "timeindex", base).unlink()


def bad_records(log_dir: Path) -> None:
    batch = batch_at(log_of(log_dir), 2)
    data = bytearray(log_of(log_dir).read_bytes())
    data[batch.position + 61] ^= 0xFF
    log_of(log_dir).write_bytes(data)
    edit_batch(log_of(log_dir), 2, "attributes", batch.attributes.to_bytes(2, "big"), heal=True)


def far_offsets(log_dir: Path) -> None:
    """The last batches, and with them the end of the log, far away: as compaction by old brokers could leave them."""
    log = log_of(log_dir, ACTIVE)
    for batch in list(Segment(str(log)).batches())[-3:]:
        overwrite(log, batch.position, (batch.last_offset + 2**31).to_bytes(8, "big"))


def lower_epochs(log_dir: Path) -> None:
    log = log_of(log_dir, ACTIVE)
    for batch in list(Segment(str(log)).batches())[-3:]:
        overwrite(log, batch.position + FIELDS["partition_leader_epoch"], (1).to_bytes(4, "big"))


def lost_batch(log_dir: Path) -> None:
    """The sequence numbers of an idempotent producer leave some out."""
    log = log_dir / f"create-1/{FIRST}.log"
    batch = batch_at(log, 3)
    edit_batch(log, 3, "base_sequence", (batch.base_sequence + 5).to_bytes(4, "big"), heal=True)


def swap_of_the_first(log_dir: Path) -> None:
    for kind in ("log", "index", "timeindex"):
        copy_file(side_of(log_dir, kind), f"{FIRST}.{kind}.swap")


def copied_segment(log_dir: Path) -> None:
    for kind in ("log", "index", "timeindex"):
        copy_file(log_dir / f"t-1/{29:020d}.{kind}", f"{20:020d}.{kind}")


INDEX, TIME = OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
TXNS = "transactions/logdir"
TXN_INDEX = f"t-0/{7:020d}.txnindex"
METADATA = "metadata/logdir"
LOST_END = frozenset({"checkpoint-entry"})


def append_unknown_fencing(log_dir: Path) -> None:
    """A sound batch at the end of the metadata log: a broker is fenced that nobody registered."""
    log = log_dir / f"__cluster_metadata-0/{FIRST}.log"
    last = list(Segment(str(log)).batches())[-1]
    value = build_metadata_record("FenceBrokerRecord", 0, {"id": 77, "epoch": 1})
    record = Record(last.last_offset + 1, NOW_MS, None, value)
    append_bytes(log, build_batch([record], partition_leader_epoch=last.partition_leader_epoch))


def another_voter(log_dir: Path) -> None:
    """A dynamic quorum whose only voter is this node, with another directory id."""
    log = log_dir / f"__cluster_metadata-0/{FIRST}.log"
    last = list(Segment(str(log)).batches())[-1]
    voters = {"voters": [Voter(1, "Y7LnmvEGQ1-8Sy8cxKBpmg", (Endpoint("CONTROLLER", "localhost", 9093),)).as_record()]}
    told = ((ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 1}), (ControlRecordType.KRAFT_VOTERS, voters))
    records = [
        Record(last.last_offset + 1 + n, NOW_MS, build_control_key(kind), build_control_value(kind, values))
        for n, (kind, values) in enumerate(told)
    ]
    append_bytes(log, build_batch(records, is_control=True, partition_leader_epoch=last.partition_leader_epoch))


OF_SCRUB = {"bytes-changed"}  # verify remembers nothing, so it cannot find this: tests/scrub
CASES = {
    "batch-crc": Case(lambda d: wounds.flip_bit(d / "t-0", segment=0, batch=2, at=70)),
    "batch-header": Case(lambda d: wounds.set_field(d / "t-0", segment=0, batch=2, field="magic", value=3, heal=False)),
    "batch-attributes": Case(
        lambda d: wounds.set_field(d / "t-0", segment=0, batch=2, field="records_count", value=-1)
    ),
    "torn-batch": Case(
        lambda d: wounds.tear_at(log_of(d, ACTIVE), at=-5),
        beside=LOST_END | {"clean-marker-false"},
    ),
    "zero-tail": Case(lambda d: wounds.zero_tail(d / "t-0", size=500), beside=frozenset({"clean-marker-false"})),
    "foreign-bytes": Case(
        lambda d: wounds.insert(d / "t-0", segment=0, batch=2, at=0, hex=b"this is no batch at all".hex()),
        beside=frozenset({"index-entry"}),
    ),
    "offset-order": Case(
        lambda d: wounds.duplicate_batch(d / "t-0", batch=1),
        beside=frozenset({"index-entry", "clean-marker-false"}),
    ),
    "offset-overflow": Case(far_offsets, beside=frozenset({"batch-header", "snapshot-missing"})),
    "records-invalid": Case(bad_records),
    "epoch-order": Case(lower_epochs),
    "sequence-gap": Case(lost_batch, "every-codec/logdir"),
    "timestamp-implausible": Case(lambda d: None, now_ms=1_700_000_000_000),
    "index-missing": Case(lambda d: wounds.drop_index(d / "t-0", segment=0)),
    "index-size": Case(lambda d: append_bytes(side_of(d, "index"), b"\1\2\3")),
    "index-order": Case(lambda d: swap_entries(side_of(d, "index"), INDEX)),
    "index-entry": Case(lambda d: overwrite(side_of(d, "index"), 3, b"\x09")),
    "timeindex-missing": Case(lambda d: wounds.drop_timeindex(d / "t-0", segment=0)),
    "timeindex-size": Case(lambda d: append_bytes(side_of(d, "timeindex"), b"\1\2\3")),
    "timeindex-order": Case(lambda d: swap_entries(side_of(d, "timeindex"), TIME)),
    "timeindex-entry": Case(lambda d: overwrite(side_of(d, "timeindex"), 7, b"\x09")),
    "timeindex-max": Case(lambda d: wounds.stale_index(d / "t-0", segment=0, kind="timeindex")),
    "txnindex-missing": Case(lambda d: wounds.drop_file(d / TXN_INDEX), TXNS),
    "txnindex-size": Case(lambda d: append_bytes(d / TXN_INDEX, b"\1\2\3"), TXNS),
    "txnindex-entry": Case(
        lambda d: edit_txn_index(d / TXN_INDEX, lambda entries: [replace(entries[0], first_offset=5), *entries[1:]]),
        TXNS,
    ),
    "index-untrimmed": Case(lambda d: wounds.preallocate_index(d / "t-0", size=1024)),
    "snapshot-corrupt": Case(lambda d: flip_bit(side_of(d, "snapshot", ACTIVE), 20)),
    "snapshot-content": Case(
        lambda d: edit_snapshot(
            side_of(d, "snapshot", ACTIVE), lambda entries: [replace(entries[0], last_offset=7), *entries[1:]]
        )
    ),
    "snapshot-stray": Case(lambda d: copy_file(side_of(d, "snapshot", ACTIVE), f"{99:020d}.snapshot")),
    "snapshot-missing": Case(lambda d: wounds.drop_snapshot(d / "t-0", segment=42)),
    "epochs-corrupt": Case(lambda d: (d / "t-0/leader-epoch-checkpoint").write_text("hello")),
    "epochs-content": Case(lambda d: (d / "t-0/leader-epoch-checkpoint").write_text("0\n1\n9 0\n")),
    "epochs-missing": Case(lambda d: wounds.drop_epochs(d / "t-0")),
    "partition-metadata-corrupt": Case(lambda d: (d / "t-0/partition.metadata").write_text("")),
    "partition-metadata-missing": Case(lambda d: (d / "t-0/partition.metadata").unlink(), TXNS),
    "topic-id-mismatch": Case(
        lambda d: shutil.copy(d / "topic-0-0/partition.metadata", d / "topic-1-0/partition.metadata"), METADATA
    ),
    "segment-gap": Case(lambda d: wounds.drop_segment(d / "t-1", segment=29), "two-disks/logdir/d1"),
    "segment-overlap": Case(
        copied_segment, "two-disks/logdir/d1", beside=frozenset({"index-entry", "timeindex-entry"})
    ),
    "segment-name": Case(lambda d: (d / "t-0/foo.log").write_bytes(b"")),
    "orphan-file": Case(lambda d: copy_file(side_of(d, "index"), f"{7:020d}.index")),
    "leftover-cleaned": Case(lambda d: copy_file(log_of(d), f"{FIRST}.log.cleaned")),
    "leftover-swap": Case(swap_of_the_first),
    "leftover-deleted": Case(lambda d: copy_file(log_of(d), f"{FIRST}.log.deleted")),
    "foreign-file": Case(lambda d: (d / "t-0/README").write_bytes(b"")),
    "foreign-folder": Case(lambda d: (d / "lost+found").mkdir()),
    "unreadable": Case(lambda d: os.mkfifo(d / f"t-0/{99:020d}.log")),
    "duplicate-partition": Case(lambda d: shutil.copytree(d / "t-0", d / "t-00")),
    "checkpoint-corrupt": Case(lambda d: (d / "cleaner-offset-checkpoint").write_text("hello")),
    "checkpoint-entry": Case(lambda d: (d / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 79\n")),
    "meta-properties-corrupt": Case(lambda d: (d / "meta.properties").write_text("version=7")),
    "meta-properties-missing": Case(lambda d: (d / "meta.properties").unlink()),
    "meta-properties-conflict": Case(
        lambda d: shutil.copy(d / "d1/meta.properties", d / "d2/meta.properties"),
        "two-disks/logdir",
        paths=("d1", "d2"),
    ),
    "unclean-shutdown": Case(wounds.unclean_stop),
    "clean-marker-false": Case(lambda d: wounds.garbage_tail(d / "t-0", size=3), beside=frozenset({"torn-batch"})),
    "kraft-snapshot-corrupt": Case(
        lambda d: wounds.empty_file(max(d.glob("__cluster_metadata-0/*.checkpoint"))), METADATA
    ),
    "metadata-replay": Case(append_unknown_fencing, METADATA),
    "quorum-voter": Case(another_voter, METADATA),
    "quorum-state-corrupt": Case(lambda d: wounds.empty_file(d / "__cluster_metadata-0/quorum-state"), METADATA),
}
