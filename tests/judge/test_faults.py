"""The kinds of damage: one seed does one thing, and what is told was done."""

from __future__ import annotations

import pathlib
import random
import shutil

import pytest
from running import FIXTURES, tree_of

from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

from .cases import ANYWHERE
from .disks import Disks, Fault, damage, partitions_of, read_lines, write_lines
from .records_on_disk import Batch, batches_in, batches_of, names_and_bytes, records_of

FAULTS = [fault for fault, _ in ANYWHERE]
TRIES = 30


def disks_in(place: pathlib.Path) -> pathlib.Path:
    """d0 and d1, each with partitions of the fixtures."""
    shutil.copytree(FIXTURES / "killed-mid-append" / "logdir", place / "d0")
    shutil.copytree(FIXTURES / "transactions" / "logdir", place / "d1")
    (place / "d0" / "__cluster_metadata-0").mkdir(exist_ok=True)
    (place / "d0" / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(b"metadata")
    return place


def done(fault: Fault, root: pathlib.Path, older: pathlib.Path, seed: int) -> str | None:
    told = damage(Disks(random.Random(seed), root, [older]), [(fault, 1)], range(1))
    return told[0] if told else None


@pytest.mark.some(20)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_a_fault_changes_something_and_one_seed_does_one_thing(fault: Fault, tmp_path: pathlib.Path) -> None:
    older, before = disks_in(tmp_path / "older"), disks_in(tmp_path / "sound")
    snapshot = next((before / "d1" / "t-0").glob("*.snapshot"))  # so that two files of one partition are equal
    shutil.copy(snapshot, snapshot.with_name(f"{0:020d}.snapshot"))
    for seed in range(TRIES):
        one, other = (pathlib.Path(shutil.copytree(before, tmp_path / f"{seed}-{n}")) for n in (0, 1))
        told = done(fault, one, older, seed)
        assert told == done(fault, other, older, seed)
        assert tree_of(one, with_bytes=True).keys() == tree_of(other, with_bytes=True).keys()
        if told and tree_of(one) != tree_of(before):
            return
    raise AssertionError(f"{fault.__name__} changed nothing with {TRIES} seeds")


def test_sound_records_are_those_that_klogtool_reads() -> None:
    for partition in partitions_of_fixtures():
        batches = [batch for segment in Partition(str(partition)).segments for batch in Segment(segment.path).batches()]
        expected = {record.offset for batch in batches if not batch.is_control for record in batch.records()}
        assert {record.offset for record in records_of(batches_of(partition))} == expected, partition


def partitions_of_fixtures() -> list[pathlib.Path]:
    return sorted(path for path in (FIXTURES / "transactions" / "logdir").iterdir() if path.is_dir())


def test_sound_records_behind_damage_are_found(tmp_path: pathlib.Path) -> None:
    source = partitions_of_fixtures()[0]
    partition = pathlib.Path(shutil.copytree(source, tmp_path / source.name))
    log = next(iter(sorted(partition.glob("*.log"))))
    before = batches_of(partition)
    data = bytearray(log.read_bytes())
    data[61] ^= 1
    log.write_bytes(data)
    assert batches_of(partition) == before[1:]


def test_only_a_marker_that_was_appended_is_left_out(tmp_path: pathlib.Path) -> None:
    log = next(
        path for path in sorted(FIXTURES.glob("transactions/logdir/*/*.log")) if any(map(_marks, batches_in(path)))
    )
    data, read = log.read_bytes(), batches_in(log)
    starts = {batch: sum(each.size for each in read[:n]) for n, batch in enumerate(read)}
    sound = pathlib.Path(tmp_path / log.name)
    for batch, at in starts.items():
        for shift, is_left_out in ((0, batch.is_control), (-1, False)):
            end = read[-1].last_offset + 1
            again = (end + shift).to_bytes(8, "big") + data[
                at + 8 : at + batch.size
            ]  # its checksum leaves out the offset
            sound.write_bytes(data)
            before = names_and_bytes(tmp_path)
            sound.write_bytes(data + again)
            assert (names_and_bytes(tmp_path, end) == before) is is_left_out


def _marks(batch: Batch) -> bool:
    return batch.is_control


def test_checkpoints_are_read_as_they_are_written(tmp_path: pathlib.Path) -> None:
    lines = {"t-0": 5, "a-b-12": 7}
    write_lines(tmp_path / "checkpoint", lines)
    assert (tmp_path / "checkpoint").read_text() == "0\n2\nt 0 5\na-b 12 7\n"
    assert read_lines(tmp_path / "checkpoint") == lines


def test_partitions_are_those_of_both_log_dirs(tmp_path: pathlib.Path) -> None:
    root = disks_in(tmp_path)
    names = {path.name for path in partitions_of(root)}
    assert "__cluster_metadata-0" not in names
    assert {path.parent.name for path in partitions_of(root)} == {"d0", "d1"}
