"""Names of files and partition dirs: taken apart, put together, refused where Kafka refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt
from klogtool.format.names import (
    MAX_DIR_NAME_LENGTH,
    FileKind,
    FileName,
    KraftSnapshotName,
    PartitionDirName,
    PartitionDirState,
    build_file_name,
    build_kraft_snapshot_name,
    build_partition_dir_name,
    filename_prefix_from_offset,
    parse_base_offset,
    parse_file_name,
    parse_kraft_snapshot_name,
    parse_partition_dir_name,
)

HEX = "0123456789abcdef0123456789abcdef"
SEGMENT_KINDS = [kind for kind in FileKind if kind.has_base_offset]
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
name_parts = st.lists(
    st.sampled_from(
        ["a", "-", "-0", ".", ".log", ".index", "0", "7", "-delete", ".deleted", ".checkpoint", " ", "é", "\n"]
    )
)


# Files.


@pytest.mark.parametrize(
    ("name", "kind", "base_offset", "suffix"),
    [
        ("00000000000000000042.log", FileKind.LOG, 42, ""),
        ("00000000000000000042.log.deleted", FileKind.LOG, 42, ".deleted"),
        ("00000000000000000005.log.swap", FileKind.LOG, 5, ".swap"),
        ("00000000000000000005.log.cleaned", FileKind.LOG, 5, ".cleaned"),
        ("00000000000000000005.log.cleaned.deleted", FileKind.LOG, 5, ".cleaned.deleted"),
        ("00000000000000000000.index", FileKind.OFFSET_INDEX, 0, ""),
        ("00000000000000000000.timeindex.swap", FileKind.TIME_INDEX, 0, ".swap"),
        ("00000000000000000000.txnindex", FileKind.TXN_INDEX, 0, ""),
        ("00000000000000000007.snapshot.deleted", FileKind.PRODUCER_SNAPSHOT, 7, ".deleted"),
        ("5.log", FileKind.LOG, 5, ""),
        ("+5.log", FileKind.LOG, 5, ""),
        ("-5.log", FileKind.LOG, -5, ""),
        ("abc.log", FileKind.LOG, None, ""),
        ("99999999999999999999.log", FileKind.LOG, None, ""),
        (".log", FileKind.LOG, None, ""),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCH_CHECKPOINT, None, ""),
        ("leader-epoch-checkpoint.tmp", FileKind.LEADER_EPOCH_CHECKPOINT, None, ".tmp"),
        ("partition.metadata", FileKind.PARTITION_METADATA, None, ""),
        ("quorum-state", FileKind.QUORUM_STATE, None, ""),
        ("recovery-point-offset-checkpoint", FileKind.RECOVERY_POINT_CHECKPOINT, None, ""),
        ("replication-offset-checkpoint", FileKind.REPLICATION_CHECKPOINT, None, ""),
        ("log-start-offset-checkpoint", FileKind.LOG_START_CHECKPOINT, None, ""),
        ("cleaner-offset-checkpoint", FileKind.CLEANER_CHECKPOINT, None, ""),
        ("meta.properties", FileKind.META_PROPERTIES, None, ""),
        (".kafka_cleanshutdown", FileKind.CLEAN_SHUTDOWN, None, ""),
        (".lock", FileKind.LOCK, None, ""),
        ("bootstrap.checkpoint", FileKind.BOOTSTRAP_SNAPSHOT, None, ""),
        ("foo.txt", FileKind.FOREIGN, None, ""),
        ("foo.deleted", FileKind.FOREIGN, None, ""),
        ("log", FileKind.FOREIGN, None, ""),
        (".deleted", FileKind.FOREIGN, None, ""),
        ("", FileKind.FOREIGN, None, ""),
        ("00000000000000000042-0000000003-copy.checkpoint", FileKind.FOREIGN, None, ""),
        ("é.log", FileKind.LOG, None, ""),
        ("\udcff.log", FileKind.FOREIGN, None, ""),
        ("00000000000000000005.\udcff.log.deleted", FileKind.FOREIGN, None, ""),
        ("\udcff.snapshot", FileKind.PRODUCER_SNAPSHOT, None, ""),
        ("\udcff.checkpoint", FileKind.KRAFT_SNAPSHOT, None, ""),
    ],
)
def test_file_names(name: str, kind: FileKind, base_offset: int | None, suffix: str) -> None:
    assert parse_file_name(name) == FileName(name, kind, base_offset, None, suffix)


@pytest.mark.parametrize(
    ("name", "end_offset", "epoch", "suffix"),
    [
        ("00000000000000000178-0000000002.checkpoint", 178, 2, ""),
        ("00000000000000000178-0000000002.checkpoint.deleted", 178, 2, ".deleted"),
        ("00000000000000000178-0000000002-8371.checkpoint.part", 178, 2, ".part"),
        ("foo.checkpoint", None, None, ""),
    ],
)
def test_kraft_snapshots_among_files(name: str, end_offset: int | None, epoch: int | None, suffix: str) -> None:
    assert parse_file_name(name) == FileName(name, FileKind.KRAFT_SNAPSHOT, end_offset, epoch, suffix)


@pytest.mark.parametrize(
    ("offset", "prefix"),
    [
        (0, "00000000000000000000"),
        (-5, "-00000000000000000005"),
        ((1 << 63) - 1, "09223372036854775807"),
        (-(1 << 63), "-09223372036854775808"),
    ],
)
def test_prefixes(offset: int, prefix: str) -> None:
    assert filename_prefix_from_offset(offset) == prefix


@pytest.mark.parametrize(
    ("name", "kafka_class"),
    [
        ("abc.log", "NumberFormatException"),
        (".log", "NumberFormatException"),
        ("99999999999999999999.log", "NumberFormatException"),
        ("5", "StringIndexOutOfBoundsException"),
    ],
)
def test_names_without_a_base_offset(name: str, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_base_offset(name)
    assert found.value.kafka_class == kafka_class


@given(st.sampled_from(SEGMENT_KINDS), longs, st.sampled_from(["", ".deleted", ".swap", ".cleaned"]))
def test_file_name_round_trip(kind: FileKind, base_offset: int, suffix: str) -> None:
    name = build_file_name(kind, base_offset, suffix)
    assert parse_file_name(name) == FileName(name, kind, base_offset, None, suffix)


# Partition dirs.


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("a-0", "a", 0),
        ("a-b-1", "a-b", 1),
        ("a-007", "a", 7),
        ("a-+1", "a", 1),
        ("a--1", "a-", 1),
        ("a b-0", "a b", 0),
        (".x-1", ".x", 1),
        ("a-٣", "a", 3),
        ("__cluster_metadata-0", "__cluster_metadata", 0),
        ("delete-1", "delete", 1),
    ],
)
def test_partition_dirs(name: str, topic: str, partition: int) -> None:
    assert parse_partition_dir_name(name) == PartitionDirName(topic, partition)


@pytest.mark.parametrize("state", [PartitionDirState.DELETE, PartitionDirState.FUTURE, PartitionDirState.STRAY])
def test_renamed_partition_dirs(state: PartitionDirState) -> None:
    for name in (
        PartitionDirName("a", 0, HEX, state),
        PartitionDirName("a.b-c", 12, HEX, state),
        PartitionDirName("delete", 0, "xyz", state),
    ):
        assert parse_partition_dir_name(build_partition_dir_name(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "", "a", "a_0", "-0", "a-", "a-x", "a-99999999999", "a-1 ", "a-0.5",
        "a-0-delete", "a-0.-delete", "-0.x-delete", "a-.x-delete", "a b-0.x-delete", "a.b-delete", "a-b.c-d.e-delete",
        "a-0-future", "a-0-stray", "-delete", ".-delete",
    ],
)  # fmt: skip
def test_refused_partition_dirs(name: str) -> None:
    with pytest.raises(Corrupt, match="is not in the form of topic-partition") as found:
        parse_partition_dir_name(name)
    assert found.value.kafka_class == "KafkaException"


@pytest.mark.parametrize(
    ("state", "length"),
    [(PartitionDirState.DELETE, 255), (PartitionDirState.STRAY, 255), (PartitionDirState.FUTURE, 249 + 2 + 33 + 7)],
)
def test_the_topic_of_a_doomed_dir_is_cut(state: PartitionDirState, length: int) -> None:
    name = build_partition_dir_name(PartitionDirName("t" * 249, 3, HEX, state))
    assert len(name) == length
    assert name.endswith(f"t-3.{HEX}{state.value}")
    assert parse_partition_dir_name(name).topic == "t" * (length - len(f"-3.{HEX}{state.value}"))
    assert MAX_DIR_NAME_LENGTH == 255


@given(st.text("abc._-09", min_size=1, max_size=249), st.integers(0, (1 << 31) - 1))
def test_partition_dir_round_trip(topic: str, partition: int) -> None:
    name = PartitionDirName(topic, partition)
    assert parse_partition_dir_name(build_partition_dir_name(name)) == name


# KRaft snapshots.


@given(st.builds(KraftSnapshotName, st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1)))
def test_kraft_snapshot_round_trip(name: KraftSnapshotName) -> None:
    for state in ({}, {"partial": True}, {"deleted": True}):
        snapshot = KraftSnapshotName(name.end_offset, name.epoch, **state)
        assert parse_kraft_snapshot_name(build_kraft_snapshot_name(snapshot)) == snapshot


def test_kraft_snapshot_columns_are_fixed() -> None:
    # whatever stands between the columns, and between them and the suffix
    assert parse_kraft_snapshot_name("00000000000000000005x0000000001whatever.checkpoint") == KraftSnapshotName(5, 1)
    assert parse_kraft_snapshot_name("00000000000000000005-0000000001.snapshot") is None
    assert parse_kraft_snapshot_name("quorum-state") is None


@pytest.mark.parametrize(
    ("name", "kafka_class"),
    [
        ("bootstrap.checkpoint", "NumberFormatException"),
        (".checkpoint", "StringIndexOutOfBoundsException"),
        ("00000000000000000005.checkpoint", "NumberFormatException"),
        ("00000000000000000005-1.checkpoint", "NumberFormatException"),
        ("00000000000000000005-9999999999.checkpoint", "NumberFormatException"),
        ("0000000000000000005-0000000001.checkpoint", "NumberFormatException"),
    ],
)
def test_refused_kraft_snapshots(name: str, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_kraft_snapshot_name(name)
    assert found.value.kafka_class == kafka_class


@given(st.text(max_size=60) | name_parts.map("".join))
def test_any_name(name: str) -> None:
    assert parse_file_name(name).name == name
    for parse in (parse_base_offset, parse_partition_dir_name, parse_kraft_snapshot_name):
        assert kafka_class_of(parse, name) in (
            None,
            "KafkaException",
            "NumberFormatException",
            "StringIndexOutOfBoundsException",
        )
