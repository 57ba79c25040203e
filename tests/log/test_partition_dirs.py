"""Log dirs and partition dirs as objects: what their files and names say."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from damage import append_bytes, tear_at
from running import FIXTURES, fixture_files

import klogtool
from klogtool.format.checkpoints import EpochEntry
from klogtool.format.identity import CleanShutdown
from klogtool.format.indexes import AbortedTxn, OffsetIndexEntry, TimeIndexEntry
from klogtool.format.uuids import build_uuid
from klogtool.log.side_file import PARSERS

T0 = klogtool.TopicPartition("t", 0)


def log_dir(name: str) -> klogtool.LogDir:
    opened = klogtool.open(FIXTURES / name)
    assert isinstance(opened, klogtool.LogDir)
    return opened


def partition(name: str) -> klogtool.Partition:
    opened = klogtool.open(FIXTURES / name)
    assert isinstance(opened, klogtool.Partition)
    return opened


# ---------------------------------------------------------------- log dirs


def test_partitions_in_order_of_name_with_what_the_names_say() -> None:
    named = [(p.name.split(".")[0], p.topic, p.partition, p.state) for p in log_dir("two-disks/logdir/d2").partitions]
    assert named == [
        ("t-0", "t", 0, klogtool.PartitionDirState.DELETE),
        ("t-1", "t", 1, klogtool.PartitionDirState.FUTURE),
        ("t-2", "t", 2, klogtool.PartitionDirState.CURRENT),
    ]
    (ghost, *others) = log_dir("two-disks/logdir/d1").partitions
    assert (ghost.topic_partition, ghost.state) == (
        klogtool.TopicPartition("ghost", 0),
        klogtool.PartitionDirState.STRAY,
    )
    assert [p.name for p in others] == ["t-0", "t-1", "t-3"]


def test_checkpoints_by_topic_and_partition() -> None:
    found = log_dir("retention/logdir")
    inside = klogtool.TopicPartition("inside", 0)
    assert found.log_start_offsets is not None
    assert found.recovery_points is not None
    assert found.high_watermarks is not None
    assert 0 < found.log_start_offsets[inside] < found.high_watermarks[inside]
    assert set(found.recovery_points) >= {p.topic_partition for p in found.partitions if not p.state.value}
    compacted = log_dir("compacted/result-2").cleaner_offsets
    assert compacted is not None
    assert compacted[klogtool.TopicPartition("keep", 0)] > 0


def test_what_is_missing_is_none(tmp_path: pathlib.Path) -> None:
    empty = klogtool.LogDir(str(tmp_path))
    assert empty.partitions == ()
    for name in ("recovery_points", "high_watermarks", "log_start_offsets", "cleaner_offsets"):
        assert getattr(empty, name) is None
    assert (empty.meta_properties, empty.clean_shutdown, empty.bootstrap_snapshot) == (None, None, None)
    bare = klogtool.Partition(str(tmp_path))
    assert (bare.topic, bare.partition, bare.topic_partition) == (None, None, None)
    assert (bare.leader_epochs, bare.topic_id, bare.quorum_state) == (None, None, None)
    segment = klogtool.Segment(str(tmp_path / "00000000000000000000.log"))
    assert (segment.offset_index, segment.time_index, segment.txn_index) == (None, None, None)


def test_identity_and_the_marker_of_a_clean_stop() -> None:
    found = log_dir("metadata/logdir")
    assert found.meta_properties is not None
    assert (found.meta_properties.version, found.meta_properties.node_id) == (1, 1)
    assert isinstance(found.clean_shutdown, CleanShutdown)
    assert found.bootstrap_snapshot is not None
    assert sum(1 for _ in found.bootstrap_snapshot.records()) > 0
    assert log_dir("killed-mid-append/logdir").clean_shutdown is None


def test_an_empty_marker_is_as_clean(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert klogtool.LogDir(str(tmp_path)).clean_shutdown == CleanShutdown(None, None)


def test_foreign_names_and_leftovers_of_a_log_dir(copy_of: Callable[[str], pathlib.Path]) -> None:
    copy = copy_of("transactions/logdir")
    for name in ("notes.txt", "00000000000000000000.log", "replication-offset-checkpoint.tmp", ".lock"):
        (copy / name).touch()
    for name in ("lost+found", "t-0.bak", "remote-log-index-cache"):
        (copy / name).mkdir()
    found = klogtool.open(copy)
    assert isinstance(found, klogtool.LogDir)
    assert found.foreign_files == ("00000000000000000000.log", "notes.txt")
    assert found.foreign_folders == ("lost+found", "t-0.bak")
    assert [file.name for file in found.leftovers] == ["replication-offset-checkpoint.tmp"]
    assert found.partitions == tuple(klogtool.Partition(str(copy / p.name)) for p in found.partitions)
    assert len(found.partitions) == len(log_dir("transactions/logdir").partitions)


# ---------------------------------------------------------------- partition dirs


def test_segments_by_base_offset(copy_of: Callable[[str], pathlib.Path]) -> None:
    copy = copy_of("every-codec/logdir/append-0")
    for name in ("9.log", "100.log", "-3.log", "x.log", "00000000000000000038.log.deleted", "7.log.swap"):
        (copy / name).touch()
    (copy / "00000000000000000050.log").mkdir()
    found = klogtool.Partition(str(copy))
    assert [segment.base_offset for segment in found.segments] == [-3, 0, 9, 38, 100]
    assert [(file.name, file.suffix) for file in found.leftovers] == [
        ("00000000000000000038.log.deleted", ".deleted"),
        ("7.log.swap", ".swap"),
    ]
    assert found.foreign_files == ("x.log",)
    assert found.foreign_folders == ("00000000000000000050.log",)


def test_each_fixtures_partition_has_its_files_told_once() -> None:
    for path in sorted({path.parent for path in fixture_files() if path.suffix == ".log"}):
        found = klogtool.Partition(str(path))
        told = [segment.name.name for segment in found.segments]
        told += [pathlib.Path(snapshot.path).name for snapshot in found.producer_snapshots]
        told += [snapshot.name.name for snapshot in found.kraft_snapshots]
        told += [file.name for file in found.leftovers]
        for segment in found.segments:
            for kind, entries in (
                (klogtool.FileKind.OFFSET_INDEX, segment.offset_index),
                (klogtool.FileKind.TIME_INDEX, segment.time_index),
                (klogtool.FileKind.TXN_INDEX, segment.txn_index),
            ):
                told += [pathlib.Path(segment.side_path(kind)).name] if entries is not None else []
        kept = {
            "leader-epoch-checkpoint": found.leader_epochs,
            "partition.metadata": found.topic_id,
            "quorum-state": found.quorum_state,
        }
        told += [name for name, content in kept.items() if content is not None]
        assert sorted(told) == sorted(file.name for file in path.iterdir()), path
        assert found.foreign_files == found.foreign_folders == ()


def test_epochs_and_topic_id() -> None:
    found = partition("leader-epochs/logdir/t-0")
    assert found.leader_epochs is not None
    assert found.leader_epochs[0] == EpochEntry(0, 0)
    metadata = klogtool.open(FIXTURES / "leader-epochs/logdir/t-0/partition.metadata")
    assert isinstance(metadata, klogtool.PropertiesFile)
    assert found.topic_id == build_uuid(metadata.content.topic_id)
    assert len(found.topic_id or "") == 22


def test_producer_snapshots_and_aborted_transactions() -> None:
    found = partition("transactions/logdir/t-0")
    snapshots = found.producer_snapshots
    assert [s.base_offset for s in snapshots] == sorted(s.base_offset for s in snapshots)
    assert any(entry.current_txn_first_offset is not None for s in snapshots for entry in s.entries)
    aborted = [txn for segment in found.segments for txn in segment.txn_index or []]
    assert aborted
    assert all(isinstance(txn, AbortedTxn) for txn in aborted)


def test_the_metadata_log_of_a_kraft_cluster() -> None:
    found = partition("metadata/logdir/__cluster_metadata-0")
    assert found.quorum_state is not None
    assert found.quorum_state.leader_id == 1
    ends = [(s.end_offset, s.epoch) for s in found.kraft_snapshots]
    assert ends == sorted(ends)
    assert len(ends) == 4
    for snapshot in found.kraft_snapshots:
        assert snapshot.tail_bytes() == 0
        assert sum(1 for _ in snapshot.records()) > 1


# ---------------------------------------------------------------- side files


def test_an_index_points_to_batches() -> None:
    for path in sorted(FIXTURES.glob("transactions/logdir/*/*.log")):
        segment = klogtool.Segment(str(path))
        assert segment.offset_index is not None
        assert segment.time_index is not None
        for entry in segment.offset_index:
            assert isinstance(entry, OffsetIndexEntry)
            batch = next(segment.batches(entry.position))
            assert entry.offset == batch.last_offset
        assert all(isinstance(entry, TimeIndexEntry) and entry.timestamp > 0 for entry in segment.time_index)


def test_preallocated_zeros_of_an_index_are_no_entries() -> None:
    untrimmed = [
        segment
        for segment in (klogtool.Segment(str(p)) for p in FIXTURES.glob("killed-mid-append/logdir/*/*.log"))
        if segment.offset_index is not None
        and pathlib.Path(segment.side_path(klogtool.FileKind.OFFSET_INDEX)).stat().st_size == 4096
    ]
    assert untrimmed
    for segment in untrimmed:
        assert all(entry.position > 0 for entry in segment.offset_index or [])
        assert all(entry.timestamp > 0 for entry in segment.time_index or [])


def test_indexes_of_a_doomed_segment_are_doomed_too() -> None:
    path = next(iter(sorted(FIXTURES.glob("compacted/result-2/keep-0/*.log.deleted"))))
    segment = klogtool.open(path)
    assert isinstance(segment, klogtool.Segment)
    assert segment.side_path(klogtool.FileKind.OFFSET_INDEX).endswith(".index.deleted")
    assert segment.offset_index is not None


def test_each_kind_of_side_file_can_be_opened_alone() -> None:
    opened = set()
    for path in fixture_files():
        found = klogtool.open(path)
        if isinstance(found, klogtool.EntriesFile):
            assert isinstance(found.entries, list | dict)
            opened.add(found.kind)
        elif isinstance(found, klogtool.PropertiesFile):
            assert found.content is not None
            opened.add(found.kind)
    assert opened == set(PARSERS)


@pytest.mark.parametrize(
    ("name", "wound"),
    [
        ("00000000000000000003.snapshot", lambda path: tear_at(path, 30)),
        ("leader-epoch-checkpoint", lambda path: append_bytes(path, b"\nx")),
        ("partition.metadata", lambda path: tear_at(path, 11)),
    ],
)
def test_damage_in_a_side_file_names_the_file(
    copy_of: Callable[[str], pathlib.Path], name: str, wound: Callable[[pathlib.Path], None]
) -> None:
    path = next(copy_of("transactions/logdir/t-1").glob(name))
    wound(path)
    opened = klogtool.open(path)
    with pytest.raises(klogtool.Corrupt) as found:
        _ = opened.content if isinstance(opened, klogtool.PropertiesFile) else opened.entries  # type: ignore[union-attr]
    assert found.value.path == str(path)


def test_a_side_file_that_is_a_folder_is_not_taken_for_missing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0" / "leader-epoch-checkpoint").mkdir(parents=True)
    with pytest.raises(klogtool.KlogError, match="a folder, not a file"):
        _ = klogtool.Partition(str(tmp_path / "t-0")).leader_epochs


def test_a_text_file_of_absurd_size_is_refused_before_it_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "meta.properties"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(klogtool.AboveLimit, match="more than this kind of file can have"):
        _ = klogtool.LogDir(str(tmp_path)).meta_properties
