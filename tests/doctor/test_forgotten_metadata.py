"""What a controller forgets of the metadata log: because a start cuts it at damage, or because it is gone and only the
names of files beside it show that it was there. A broker 4.3.1 did so with both (`KafkaRaftLog.createLog`)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
from quorums import NOTHING, Disk, voter
from running import run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.doctor.answers import Diagnosis, What
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.log.partition import Partition
from klogtool.verify.findings import Severity

Path = pathlib.Path
RECORDS, SNAPSHOT, CUT, BEHIND = 18, 12, 6, 9  # offsets of records begin at 2; a batch has one
END = RECORDS + 2


def diagnosed(path: Path) -> Diagnosis:
    return examine([str(path)], Examination(Circumstances(now_ms=1_800_000_000_000)))


def disk_of(folder: Path, *ids: int) -> Disk:
    """A controller with a log that is longer than its snapshot."""
    voters = tuple(map(voter, ids))
    return Disk(folder, 1).voters(*voters).records(RECORDS, message=NOTHING).snapshot(SNAPSHOT, 1, *voters)


def nul(disk: Disk, first: int, end: int | None = None) -> None:
    """Zeros in place of the batches from one offset to another."""
    (segment,) = Partition(str(disk.metadata)).segments
    positions = {batch.base_offset: batch.position for batch in segment.batches()}
    data = bytearray(Path(segment.path).read_bytes())
    stop = len(data) if end is None else positions[end]
    data[positions[first] : stop] = bytes(stop - positions[first])
    Path(segment.path).write_bytes(data)


def producer_snapshot(disk: Disk, offset: int = END) -> None:
    (disk.metadata / f"{offset:020}.snapshot").write_bytes(b"")


def leader_epoch(disk: Disk) -> None:
    (disk.metadata / "leader-epoch-checkpoint").write_text(f"0\n2\n1 0\n2 {END}\n")


def quorum_says(*disks: Disk) -> tuple[int, list[str], list[list[int]], list[list[list[int]]]]:
    """The status, the causes, what no copy has any more, and what each has no more."""
    done = run_here(["quorum", *(str(disk.path) for disk in disks), "--json"], disks[0].path)
    row = json.loads(done.out.splitlines()[1])
    return done.status, row["causes"], row["gone_already"], [one["gone_already"] for one in row["here"]]


def told(found: Diagnosis) -> list[tuple[What, int | None, int | None]]:
    whats = (What.TRUNCATED, What.MISSING, What.METADATA_BEHIND)
    return [(point.what, point.first_offset, point.last_offset) for point in found.points if point.what in whats]


@pytest.mark.parametrize("witness", [producer_snapshot, leader_epoch])
def test_what_the_only_voter_had_once_is_gone(tmp_path: Path, witness: Callable[[Disk], None]) -> None:
    """The log ends in zeros, and its newest snapshot is older than what it had."""
    disk = disk_of(tmp_path, 1)
    nul(disk, CUT)
    assert told(diagnosed(disk.path)) == []  # nothing shows more than the snapshot has
    assert quorum_says(disk) == (0, [], [], [[]])
    witness(disk)
    gone = [[SNAPSHOT, END - 1]]
    assert quorum_says(disk) == (1, ["metadata-gone"], gone, [gone])
    found = diagnosed(disk.path)
    assert told(found) == [(What.MISSING, SNAPSHOT, END - 1)]
    done = run_here(["doctor", str(disk.path), "--json"], tmp_path)
    assert done.status == 1
    rows = map(json.loads, done.out.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"] == str(disk.metadata))
    assert claim["gone_already"]["ranges"] == [[SNAPSHOT, END - 1]]
    assert claim["gone_already"]["witness"] == [witness.__name__.replace("_", "-")]
    (trouble,) = (one for one in found.troubles if one.path == str(disk.metadata))
    assert trouble.options
    assert not any(option.remedies for option in trouble.options)


def test_one_of_three_voters_may_get_it_from_the_leader(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, 1, 2, 3)
    nul(disk, CUT)
    producer_snapshot(disk)
    found = diagnosed(disk.path)
    assert told(found) == [(What.METADATA_BEHIND, SNAPSHOT, END - 1)]
    assert all(point.severity is not Severity.ERROR for point in found.points if point.what is What.METADATA_BEHIND)


def test_a_whole_log_has_forgotten_nothing(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, 1)
    producer_snapshot(disk)
    producer_snapshot(disk, CUT)
    assert told(diagnosed(disk.path)) == []


@pytest.mark.parametrize("end", [SNAPSHOT - 1, SNAPSHOT, SNAPSHOT + 1, END])
def test_sound_batches_behind_damage_are_lost_if_the_snapshot_has_not_what_is_in_them(tmp_path: Path, end: int) -> None:
    """A start cuts the log at the damage. It is behind the snapshot then, and is thrown away as a whole."""
    disk = Disk(tmp_path, 1).voters(voter(1)).records(end - 2, message=NOTHING).snapshot(SNAPSHOT, 1, voter(1))
    nul(disk, CUT, BEHIND)
    assert told(diagnosed(disk.path)) == ([(What.TRUNCATED, SNAPSHOT, None)] if end > SNAPSHOT else [])


@pytest.mark.parametrize(
    ("first", "stop", "kept"),
    [(2, 4, SNAPSHOT), (CUT, BEHIND, SNAPSHOT), (SNAPSHOT - 1, SNAPSHOT, SNAPSHOT), (SNAPSHOT + 2, SNAPSHOT + 4, None)],
)
def test_what_the_snapshot_has_is_not_lost(tmp_path: Path, first: int, stop: int, kept: int | None) -> None:
    """The start, the option that does the same, and the claims have one number."""
    disk = disk_of(tmp_path, 1)
    nul(disk, first, stop)
    found = diagnosed(disk.path)
    lost = END - (kept or stop)  # behind the damage, and behind the snapshot
    (point,) = (one for one in found.points if one.what is What.TRUNCATED)
    assert (point.lost_records, point.is_uncounted, found.lost_records) == (lost, False, lost)
    (option,) = (one for trouble in found.troubles for one in trouble.options if one.remedies)
    assert option.lost is not None
    assert (option.lost_records, option.lost.ranges) == (lost, ((END - lost, END - 1),))


def test_what_is_lost_and_what_is_gone_are_told_apart(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, 1)
    nul(disk, CUT, BEHIND)
    producer_snapshot(disk, END + 5)
    assert told(diagnosed(disk.path)) == [(What.TRUNCATED, SNAPSHOT, None), (What.MISSING, END, END + 4)]


@pytest.mark.parametrize("ends", [(END, END), (SNAPSHOT + 3, SNAPSHOT), (SNAPSHOT, SNAPSHOT)])
def test_what_another_copy_has_is_not_gone(tmp_path: Path, ends: tuple[int, int]) -> None:
    """quorum says what no copy has any more; of each copy it says the same as the doctor."""
    first = disk_of(tmp_path, 1, 2, 3)
    nul(first, CUT)
    producer_snapshot(first)
    voters = tuple(map(voter, (1, 2, 3)))
    others = [
        Disk(tmp_path, node).voters(*voters).records(end - 2, message=NOTHING).snapshot(SNAPSHOT, 1, *voters)
        for node, end in zip((2, 3), ends, strict=True)
    ]
    _, causes, gone, of_each = quorum_says(first, *others)
    best = max(ends)
    assert gone == ([] if best == END else [[best, END - 1]])
    assert ("metadata-gone" in causes) is (best < END)
    assert of_each == [[[SNAPSHOT, END - 1]], [], []]
