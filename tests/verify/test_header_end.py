"""Two ends of a log: by its index, as far as bytes go; and by headers alone, as far as they follow each other."""

from __future__ import annotations

import pathlib
import struct

import pytest
from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.log.log_end import find_log_end
from klogtool.log.partition import Partition
from klogtool.verify.header_end import find_header_end

BATCHES = [build_batch([Record(offset, 0, None, b"v")], partition_leader_epoch=0) for offset in range(5, 8)]


def partition_of(path: pathlib.Path, log: bytes, index: bytes) -> Partition:
    (path / "t-0").mkdir()
    (path / "t-0" / f"{5:020d}.log").write_bytes(log)
    (path / "t-0" / f"{5:020d}.index").write_bytes(index)
    return Partition(str(path / "t-0"))


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_damage_ends_the_one_and_the_index_of_the_other_leaps_over_it(
    tmp_path: pathlib.Path, is_damaged: bool, has_index: bool
) -> None:
    log, position = bytearray(b"".join(BATCHES)), len(BATCHES[0])
    if is_damaged:
        log[position + 8 : position + 12] = bytes(4)  # the length of the second batch
    index = struct.pack(">ii", 2, 2 * position) if has_index else b""
    partition = partition_of(tmp_path, bytes(log), index)
    assert find_header_end(partition) == (6 if is_damaged else 8)
    assert find_log_end(partition) == (6 if is_damaged and not has_index else 8)


def test_of_nothing(tmp_path: pathlib.Path) -> None:
    partition = partition_of(tmp_path, b"", b"")
    assert find_header_end(partition) == find_log_end(partition) == 5
    (tmp_path / "empty-0").mkdir()
    empty = Partition(str(tmp_path / "empty-0"))
    assert (find_header_end(empty), find_log_end(empty)) == (0, None)
