"""Records with a sound checksum at which a start ends; odd voters that do not end it; leaders that contradict each
other. Each was put to real controllers of 4.3.1."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from msgspec.structs import replace
from quorums import NOTHING, Disk, cures_of, directory_id, properties, voter
from raw_batches import build_batch
from running import run_here

from klogtool.broker.releases import rules_of
from klogtool.format.batch import Record
from klogtool.format.control import ControlRecordType, build_control_key
from klogtool.format.control_values import build_control_value
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.kraft_snapshot import build_snapshot
from klogtool.format.names import KraftSnapshotName, build_kraft_snapshot_name
from klogtool.quorum.controllers import read_controller
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, judge_election

Path = pathlib.Path
VERSION, VOTERS = ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS
THREE = (voter(1), voter(2), voter(3))
UNKNOWN_BROKER = ("FenceBrokerRecord", 0, {"id": 77, "epoch": 1})


def of_version(level: int) -> tuple[bytes, bytes]:
    return build_control_key(VERSION), build_control_value(VERSION, {"kRaftVersion": level})


REFUSED: dict[str, tuple[bytes | None, bytes]] = {
    "Unknown KRaft feature level: 2": of_version(2),
    "Unknown KRaft feature level: -1": of_version(-1),
    "Tried to allocate a collection of size 8": (build_control_key(VOTERS), b"\0\0\x09"),
    "Unknown control record type UNKNOWN": (b"\0\0\0\x09", b"\0\0"),
    "Unknown control record type COMMIT": (b"\0\0\0\x01", b"\0\0\0\0\0\0"),
    "Missing key in the record when a key was expected": (None, b"\0\0"),
    "Got an unexpected empty value in the record": (build_control_key(VERSION), b""),
}


def judged(*disks: Disk) -> Election:
    election = judge_election([read_controller(str(disk.path), properties(disk.node_id)) for disk in disks])
    assert election.outcome is ElectionOutcome.ELECTED or cures_of(election)
    return election


def of_three(folder: Path) -> list[Disk]:
    return [Disk(folder, n).voters(*THREE).records(3, message=NOTHING) for n in (1, 2, 3)]


def with_record(disk: Disk, key: bytes | None, value: bytes) -> Disk:
    batch = build_batch([Record(disk.end, 0, key, value)], is_control=True, partition_leader_epoch=1)
    disk.end += 1
    return disk.log(batch)


def claim(disk: Disk) -> dict[str, Any]:
    rows = map(json.loads, run_here(["doctor", str(disk.path), "--json"], disk.path.parent).out.splitlines())
    return next(row for row in rows if row["type"] == "claim" and row["about"] == "broker")


@pytest.mark.parametrize("message", REFUSED)
def test_a_start_ends_at_a_control_record_that_raft_refuses(message: str, tmp_path: Path) -> None:
    """It is not cut: its checksum holds (KRaftControlRecordStateMachine.maybeLoadLog)."""
    lone = with_record(Disk(tmp_path / "lone", 1).voters(voter(1)), *REFUSED[message])
    election = judged(lone)
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.RECORD_REFUSED,))
    told = claim(lone)
    assert (told["starts"], told["message"][: len(message)]) == (False, message)
    one, two, third = of_three(tmp_path)
    with_record(third, *REFUSED[message])
    assert judged(one, third).outcome is ElectionOutcome.NEVER
    assert judged(one, two, third).may_lead == (1, 2)


def test_a_record_of_metadata_that_does_not_parse_ends_a_start_too(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1))
    disk.log(build_batch([Record(disk.end, 0, None, b"\x01\x63\0\0")], partition_leader_epoch=1))
    assert judged(disk).causes == (ElectionCause.RECORD_REFUSED,)


def test_who_reads_what_a_replay_refuses_ends_after_the_election(tmp_path: Path) -> None:
    """By the rule of doctor and verify: a broker is fenced that nobody registered."""
    one, two, third = of_three(tmp_path)
    for disk in (one, two):
        disk.records(1, message=UNKNOWN_BROKER)
    election = judged(one, two, third)
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.REPLAY_REFUSED,))
    assert election.may_lead == (1, 2)
    assert cures_of(election)[:2] == (f"klogtool doctor {one.path}", f"klogtool doctor {two.path}")
    done = run_here(["quorum", str(one.path), str(two.path), str(third.path)], tmp_path)
    assert done.status == 1
    assert (
        b"No leader stays if these controllers start, and no others: one of the nodes 1, 2 wins the election, and ends."
        in done.out
    )
    assert b"Node 1 ends when it replays the record at offset" in done.out
    assert claim(one)["starts"] is False


def test_a_level_of_a_later_release_is_said_to_be_one(tmp_path: Path) -> None:
    """Without --kafka the answer is about another release than the controllers'."""
    level = ("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 30})
    disk = Disk(tmp_path, 1).voters(voter(1)).records(1, message=level)
    older = judge_election([read_controller(str(disk.path), properties(1), rules_of("3.9.2"))])
    assert older.outcome is ElectionOutcome.NEVER
    assert "name it with --kafka: this one does not know that level of metadata.version" in cures_of(older)[0]
    assert judged(disk).outcome is ElectionOutcome.ELECTED


def test_a_record_that_is_refused_and_that_no_leader_has_is_cut(tmp_path: Path) -> None:
    one, two, third = of_three(tmp_path)
    third.records(1, message=UNKNOWN_BROKER)
    assert ElectionCause.REPLAY_REFUSED in judged(one, two, third).causes  # it may lead
    for disk in (one, two):
        disk.records(1, epoch=2, message=NOTHING)
    assert judged(one, two, third).causes == ()


@pytest.mark.parametrize(
    ("starting", "refusing", "outcome"),
    [
        ((1, 2, 3), (3,), ElectionOutcome.ELECTED),
        ((1, 3), (3,), ElectionOutcome.UNKNOWN),
        ((1, 2, 3), (1,), ElectionOutcome.UNKNOWN),
        ((1, 2, 3), (1, 2, 3), ElectionOutcome.NEVER),
    ],
)
def test_followers_that_end_may_take_the_majority_with_them(
    starting: tuple[int, ...], refusing: tuple[int, ...], outcome: ElectionOutcome, tmp_path: Path
) -> None:
    """Some have a snapshot that their own replay refuses. The logs are whole, and that of node 3 is older."""
    disks = of_three(tmp_path)
    for disk in (disk for disk in disks if disk.node_id in refusing):
        value = build_metadata_record(*UNKNOWN_BROKER)
        data = b"".join(build_snapshot([value], epoch=1, timestamp_ms=0, voters=THREE))
        (disk.metadata / build_kraft_snapshot_name(KraftSnapshotName(2, 1))).write_bytes(data)
    for disk in disks[:2]:
        disk.records(1, epoch=2, message=NOTHING)
    election = judged(*(disk for disk in disks if disk.node_id in starting))
    assert election.may_lead == tuple(node for node in starting if node < 3)
    assert election.outcome is outcome
    assert (ElectionCause.REPLAY_REFUSED in election.causes) is (outcome is not ElectionOutcome.ELECTED)


def test_voters_that_are_odd_but_read(tmp_path: Path) -> None:
    """Without a directory id any will do; of two entries of one node the last one counts; a version above 0 is read as
    version 0 (ReplicaKey.of, VoterSet.fromVotersRecord, ControlRecordUtils)."""
    zeros = replace(voter(1), directory_id="")
    twice = [voter(1, directory=directory_id(7)), voter(1)]
    for n, voters in enumerate(([zeros], twice)):
        value = build_control_value(VOTERS, {"voters": [one.as_record() for one in voters]})
        for version in (0, 1):
            disk = Disk(tmp_path / f"{n}{version}", 1).voters(voter(1))
            with_record(disk, build_control_key(VOTERS), version.to_bytes(2) + value[2:])
            election = judged(disk)
            assert (election.outcome, election.causes) == (ElectionOutcome.ELECTED, ())
            assert election.voters == (voters[-1],)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abcde", 'Cannot invoke "java.lang.Integer.intValue()"'),
        (b"garbage!" * 20, "Invalid magic found in record: 103"),
        (bytes(30), "Record size 0 is less than the minimum record overhead (14)"),
        (None, None),
    ],
)
@pytest.mark.parametrize("is_behind", [False, True])
def test_bytes_that_are_no_batch_in_the_first_snapshot(
    content: bytes | None, message: str | None, is_behind: bool, tmp_path: Path
) -> None:
    """RecordsIterator reads them in memory, and checks them; less than the head of a batch behind others is nothing."""
    disk = Disk(tmp_path, 1).voters(voter(1)).records(3, message=NOTHING).snapshot(0, 0, voter(1))
    (path,) = disk.metadata.glob("*.checkpoint")
    whole = path.read_bytes()
    path.write_bytes((whole if is_behind else b"") + (whole[:100] if content is None else content))
    ends = message is not None and not (is_behind and content == b"abcde")
    assert judged(disk).outcome is (ElectionOutcome.NEVER if ends else ElectionOutcome.ELECTED)
    told = claim(disk)
    assert (told["starts"], told["message"]) == ((False, message) if ends else (True, None))


def test_leaders_of_one_epoch_that_differ(tmp_path: Path) -> None:
    """Measured: "Received request or response with leader OptionalInt[3] and epoch 50 which is inconsistent with
    current leader OptionalInt[2] and epoch 50"."""
    one, two, third = of_three(tmp_path)
    one.state(1, 2, 50)
    two.state(1, 3, 50)
    assert judged(one, two).outcome is ElectionOutcome.UNKNOWN
    third.state(1, 3, 50)
    election = judged(one, two, third)
    assert (election.outcome, election.causes) == (ElectionOutcome.ELECTED, (ElectionCause.LEADERS_DIFFER,))
    assert [seat.hears_otherwise for seat in election.seats] == [True, False, False]
    assert any("leaderId" in cure and str(one.path) in cure for cure in cures_of(election))
    two.state(1, 2, 50)
    third.state(1, 2, 50)
    assert judged(one, two, third).is_sound


def test_two_that_resign_as_leaders_of_one_epoch(tmp_path: Path) -> None:
    one, two, _ = of_three(tmp_path)
    one.state(1, 1, 50)
    two.state(1, 2, 50)
    election = judged(one, two)
    assert (election.outcome, election.causes) == (ElectionOutcome.UNKNOWN, (ElectionCause.LEADERS_DIFFER,))
    assert sum("rm " in cure for cure in cures_of(election)) == 2


@pytest.mark.parametrize("change", ["cluster.id=", "node.id=", "directory.id=xyz", "version=7"])
def test_one_of_three_with_a_damaged_meta_properties(change: str, tmp_path: Path) -> None:
    """It does not start; the answer is about the others all the same."""
    one, two, third = of_three(tmp_path)
    path = third.path / "meta.properties"
    name, _, value = change.partition("=")
    kept = [line for line in path.read_text().splitlines() if not line.startswith(name)]
    path.write_text("\n".join([*kept, change] if value else kept) + "\n")
    election = judged(one, two, third)
    assert (election.outcome, election.may_lead) == (ElectionOutcome.ELECTED, (1, 2))
    assert election.seats[2].why_not is ElectionCause.IDENTITY_CORRUPT
    assert judged(one, third).outcome is ElectionOutcome.NEVER
