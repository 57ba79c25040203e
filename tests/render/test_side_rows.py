"""Files other than logs as rows: every field, under the names that JSON lines give them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.render.file_dump import WALKS, walk_side_rows

SNAPSHOT = bytes.fromhex(
    "0001 26bf595c 00000002"  # version, CRC-32C, count
    "0000000000000032 0002 00000000 000000000000000e 00000000 00000174876e8258 00000007 ffffffffffffffff"
    "0000000000000033 0000 ffffffff ffffffffffffffff 00000000 ffffffffffffffff ffffffff 0000000000000005"
)


def rows_of(name: str, data: bytes) -> list[dict[str, Any]]:
    found = list(walk_side_rows(parse_file_name(name), data))
    for row in found:
        assert next(iter(row)) == "type"
        json.dumps(row)  # nothing in it that JSON has no word for
    return found


def test_an_offset_index() -> None:
    data = bytes.fromhex("00000005 000000a2  00000009 00000144")
    assert rows_of("00000000000000000100.index", data) == [
        {"type": "index-entry", "offset": 105, "position": 162},
        {"type": "index-entry", "offset": 109, "position": 324},
    ]


def test_zeros_behind_an_index_are_no_entries() -> None:
    data = bytes.fromhex("00000005 000000a2") + bytes(80)
    assert len(rows_of("00000000000000000100.index", data)) == 1
    assert rows_of("00000000000000000100.index", bytes(80)) == []
    assert rows_of("00000000000000000100.timeindex", bytes(120)) == []


def test_a_time_index() -> None:
    data = bytes.fromhex("00000174876e8019 00000005") + bytes(24)
    assert rows_of("00000000000000000007.timeindex", data) == [
        {"type": "timeindex-entry", "timestamp": 1600000000025, "offset": 12}
    ]


def test_offsets_of_indexes_wrap() -> None:
    data = bytes.fromhex("00000001 00000000")
    assert rows_of("09223372036854775807.index", data)[0]["offset"] == -(2**63)


def test_a_transaction_index() -> None:
    data = bytes.fromhex("0000 0000000000000032 000000000000000e 0000000000000010 000000000000000f")
    expected = {"version": 0, "producer_id": 50, "first_offset": 14, "last_offset": 16, "last_stable_offset": 15}
    assert rows_of("00000000000000000000.txnindex", data) == [{"type": "txnindex-entry", **expected}]


def test_a_producer_snapshot() -> None:
    first, second = rows_of("00000000000000000017.snapshot", SNAPSHOT)
    assert first == {
        "type": "producer",
        "producer_id": 50,
        "producer_epoch": 2,
        "last_sequence": 0,
        "last_offset": 14,
        "offset_delta": 0,
        "timestamp": 1600000000600,
        "coordinator_epoch": 7,
        "current_txn_first_offset": None,
        "has_batch": True,
        "first_sequence": 0,
    }
    assert (second["timestamp"], second["current_txn_first_offset"], second["has_batch"]) == (None, 5, False)


def test_leader_epochs() -> None:
    assert rows_of("leader-epoch-checkpoint", b"0\n2\n3 0\n4 20\n") == [
        {"type": "leader-epoch", "epoch": 3, "start_offset": 0},
        {"type": "leader-epoch", "epoch": 4, "start_offset": 20},
    ]
    assert rows_of("leader-epoch-checkpoint", b"") == []


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ],
)
def test_offset_checkpoints(name: str) -> None:
    assert rows_of(name, b"0\n1\nmy-topic 3 12\n") == [
        {"type": "checkpoint-entry", "topic": "my-topic", "partition": 3, "offset": 12}
    ]


def test_meta_properties() -> None:
    (row,) = rows_of("meta.properties", b"#\nversion=1\nnode.id=2\ncluster.id=c\ndirectory.id=AAAAAAAAAAEAAAAAAAAAAg\n")
    assert (row["type"], row["version"], row["node_id"], row["cluster_id"], row["directory_id"]) == (
        "meta-properties",
        1,
        2,
        "c",
        "AAAAAAAAAAEAAAAAAAAAAg",
    )


def test_partition_metadata() -> None:
    assert rows_of("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg") == [
        {"type": "partition-metadata", "version": 0, "topic_id": "AAAAAAAAAAEAAAAAAAAAAg"}
    ]


def test_a_clean_shutdown() -> None:
    (row,) = rows_of(".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":12}')
    assert (row["type"], row["broker_epoch"]) == ("clean-shutdown", 12)
    assert rows_of(".kafka_cleanshutdown", b"")[0]["type"] == "clean-shutdown"


def test_a_quorum_state() -> None:
    data = b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    (row,) = rows_of("quorum-state", data)
    assert (row["type"], row["leader_id"], row["leader_epoch"]) == ("quorum-state", 1, 5)


def test_a_lock_and_what_is_not_kafkas() -> None:
    assert rows_of(".lock", b"") == [{"type": "lock"}]
    assert rows_of("notes.txt", b"mine") == [{"type": "unknown-file", "size": 4}]


def test_a_suffix_does_not_change_what_a_file_is() -> None:
    data = bytes.fromhex("00000005 000000a2")
    for suffix in ("", ".deleted", ".swap", ".cleaned"):
        assert rows_of(f"00000000000000000100.index{suffix}", data)[0]["offset"] == 105


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("00000000000000000000.txnindex", bytes.fromhex("0100" + "00" * 32)),
        ("00000000000000000017.snapshot", SNAPSHOT[:-1]),
        ("00000000000000000017.snapshot", SNAPSHOT[:20] + b"x" + SNAPSHOT[21:]),
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n"),
        ("replication-offset-checkpoint", b"garbage"),
        ("meta.properties", b"version=7\n"),
        ("partition.metadata", b"version: 0\n"),
        ("quorum-state", b"{"),
    ],
)
def test_what_kafkas_reader_gives_up_on(name: str, data: bytes) -> None:
    with pytest.raises(KlogError):
        rows_of(name, data)


def test_every_kind_but_logs_has_rows() -> None:
    logs = {FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT}
    assert set(WALKS) == set(FileKind) - logs - {FileKind.FOREIGN}
