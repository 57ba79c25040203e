"""Side files with a bit flipped, cut, or with bytes put in, at every place: what makes a difference is found."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable

import pytest
from damage import append_bytes, flip_bit, tear_at
from verifying import found, ids, run_verify

from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import parse_meta_properties, parse_partition_metadata
from klogtool.format.indexes import ABORTED_TXN_SIZE

Path = pathlib.Path
CopyOf = Callable[[str], Path]
UNREAD_BYTE = 1  # the lower byte of an aborted transaction's version: Kafka does not look at it


@pytest.fixture
def partition(copy_of: CopyOf) -> Path:
    return copy_of("transactions/logdir/t-0")


def each_flip(path: Path) -> list[tuple[int, int]]:
    """A bit of each byte, another one each time, but always the same ones."""
    rng = random.Random(path.name)
    return [(position, rng.randrange(8)) for position in range(path.stat().st_size)]


@pytest.mark.slow
def test_a_flip_in_a_snapshot_is_found_wherever_it_is(partition: Path) -> None:
    path = partition / f"{36:020d}.snapshot"
    whole = path.read_bytes()
    for position, bit in each_flip(path):
        flip_bit(path, position, bit)
        assert ids(found(path)) == {"snapshot-corrupt"}, position
        path.write_bytes(whole)


def test_a_flip_in_a_transaction_index_is_found_wherever_it_is_read(partition: Path) -> None:
    path = partition / f"{7:020d}.txnindex"
    whole = path.read_bytes()
    for position, bit in each_flip(path):
        flip_bit(path, position, bit)
        is_unread = position % ABORTED_TXN_SIZE == UNREAD_BYTE
        is_older_version = position % ABORTED_TXN_SIZE == 0 and bit == 7  # negative: read like 0
        expected = set() if is_unread or is_older_version else {"txnindex-entry"}
        assert ids(found(path)) == expected, (position, bit)
        path.write_bytes(whole)


@pytest.mark.parametrize("name", [f"{36:020d}.snapshot", f"{7:020d}.txnindex", "partition.metadata"])
def test_a_cut_is_found_wherever_it_is(partition: Path, name: str) -> None:
    path = partition / name
    whole = path.read_bytes()
    for size in range(len(whole)):
        tear_at(path, size)
        assert found(path), size
        path.write_bytes(whole)


@pytest.mark.parametrize("name", [f"{36:020d}.snapshot", f"{7:020d}.txnindex"])
@pytest.mark.parametrize("more", [b"\0", b"abc", bytes(34), bytes(46), b"\xff" * 100])
def test_bytes_too_many_are_found(partition: Path, name: str, more: bytes) -> None:
    append_bytes(partition / name, more)
    assert found(partition / name)


def meaning(parse: Callable[[bytes], object], data: bytes) -> object:
    try:
        return parse(data)
    except KlogError as error:
        return str(error)


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("t-0/leader-epoch-checkpoint", parse_leader_epoch_checkpoint),
        ("t-0/partition.metadata", parse_partition_metadata),
        ("recovery-point-offset-checkpoint", parse_offset_checkpoint),
        ("replication-offset-checkpoint", parse_offset_checkpoint),
        ("meta.properties", parse_meta_properties),
    ],
)
def test_a_flip_in_a_text_file_that_makes_no_sense_of_it_is_found(
    copy_of: CopyOf, name: str, parse: Callable[[bytes], object]
) -> None:
    """One that leaves it readable may be anything: another id, an offset that could be."""
    log_dir = copy_of("leader-epochs/logdir")
    path = log_dir / name
    whole = path.read_bytes()
    for position, bit in each_flip(path):
        flip_bit(path, position, bit)
        if isinstance(meaning(parse, path.read_bytes()), str):
            assert found(log_dir), (position, bit)
        path.write_bytes(whole)
    assert found(log_dir) == []


@pytest.mark.slow
def test_a_file_that_is_gone_is_found_where_it_was_needed(copy_of: CopyOf) -> None:
    """Of every file of a log dir: what a broker would miss is missed."""
    log_dir = copy_of("transactions/logdir")
    forgotten = set()
    files = [path for path in log_dir.rglob("*") if path.is_file()]
    before = ids(run_verify(log_dir)[0])
    for path in sorted(files):
        whole = path.read_bytes()
        path.unlink()
        if not ids(run_verify(log_dir)[0]) - before:
            forgotten.add(path.name)
        path.write_bytes(whole)
    assert forgotten == {
        "bootstrap.checkpoint",  # read where the metadata log is
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        f"{20:020d}.snapshot",  # of logs without producers: 10 bytes that say so
        f"{46:020d}.snapshot",
    }
