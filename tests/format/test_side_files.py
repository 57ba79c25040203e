"""Every side file in the fixtures, as brokers of eight releases wrote it, is read and built again byte for byte."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from running import fixture_files

from klogtool.format.checkpoints import (
    build_leader_epoch_checkpoint,
    build_offset_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from klogtool.format.identity import (
    build_clean_shutdown,
    build_meta_properties,
    build_partition_metadata,
    build_quorum_state,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, build_txn_index, parse_txn_index
from klogtool.format.names import FileKind, parse_base_offset, parse_file_name, parse_partition_dir_name
from klogtool.format.producer_snapshot import build_producer_snapshot, parse_producer_snapshot


def rebuilt_offset_index(data: bytes, name: str) -> bytes:
    base_offset = parse_base_offset(name)
    return OFFSET_ENTRIES.build(OFFSET_ENTRIES.parse(data, base_offset), base_offset)


def rebuilt_time_index(data: bytes, name: str) -> bytes:
    base_offset = parse_base_offset(name)
    return TIME_ENTRIES.build(TIME_ENTRIES.parse(data, base_offset), base_offset)


def rebuilt_meta_properties(data: bytes, name: str) -> bytes:
    _, date, *_ = data.decode().splitlines()
    return build_meta_properties(parse_meta_properties(data), date=date.removeprefix("#"))


def rebuilt_offset_checkpoint(data: bytes, name: str) -> bytes:
    # A broker creates the file empty, before it has anything to say.
    return build_offset_checkpoint(parse_offset_checkpoint(data)) if data else data


def rebuilt_epochs(data: bytes, name: str) -> bytes:
    return build_leader_epoch_checkpoint(parse_leader_epoch_checkpoint(data)) if data else data


REBUILT: dict[FileKind, Callable[[bytes, str], bytes]] = {
    FileKind.OFFSET_INDEX: rebuilt_offset_index,
    FileKind.TIME_INDEX: rebuilt_time_index,
    FileKind.TXN_INDEX: lambda data, _: build_txn_index(parse_txn_index(data)),
    FileKind.PRODUCER_SNAPSHOT: lambda data, _: build_producer_snapshot(parse_producer_snapshot(data)),
    FileKind.LEADER_EPOCH_CHECKPOINT: rebuilt_epochs,
    FileKind.RECOVERY_POINT_CHECKPOINT: rebuilt_offset_checkpoint,
    FileKind.REPLICATION_CHECKPOINT: rebuilt_offset_checkpoint,
    FileKind.LOG_START_CHECKPOINT: rebuilt_offset_checkpoint,
    FileKind.CLEANER_CHECKPOINT: rebuilt_offset_checkpoint,
    FileKind.META_PROPERTIES: rebuilt_meta_properties,
    FileKind.PARTITION_METADATA: lambda data, _: build_partition_metadata(parse_partition_metadata(data)),
    FileKind.CLEAN_SHUTDOWN: lambda data, _: build_clean_shutdown(parse_clean_shutdown(data)),
    FileKind.QUORUM_STATE: lambda data, _: build_quorum_state(parse_quorum_state(data)),
}


def files_of(kind: FileKind) -> list[pathlib.Path]:
    return [path for path in fixture_files() if parse_file_name(path.name).kind is kind]


@pytest.mark.parametrize("kind", REBUILT, ids=lambda kind: kind.name)
def test_what_brokers_wrote_is_built_again(kind: FileKind) -> None:
    files = files_of(kind)
    assert files, f"no fixture has a {kind.name}"
    for path in files:
        data = path.read_bytes()
        assert REBUILT[kind](data, path.name) == data, path


def test_every_folder_with_a_log_is_a_partition_dir() -> None:
    for path in files_of(FileKind.LOG):
        assert parse_partition_dir_name(path.parent.name).partition >= 0, path
