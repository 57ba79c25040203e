"""Whether controllers elect a leader, by their disks: the states of real quorums, made small; and the real disks."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from quorums import NOTHING, Disk, control_batch, cures_of, data_batch, directory_id, properties, static, voter
from running import run_here

from klogtool.format.java_text import parse_properties
from klogtool.log.file import Unreadable, unreadable
from klogtool.quorum import controllers
from klogtool.quorum.controllers import Position, read_controller
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, judge_election
from klogtool.render.quorum import quorum_row, quorum_text

Path = pathlib.Path
SAMPLES = pathlib.Path(__file__).parents[3] / "shared/quorum-samples"
THREE = (voter(1), voter(2), voter(3))


def judged(*disks: Disk, settings: dict[int, dict[str, str]] | None = None) -> Election:
    found = []
    for disk in disks:
        own = (settings or {}).get(disk.node_id)
        found.append(read_controller(str(disk.path), own))
    election = judge_election(found)
    assert election.outcome is ElectionOutcome.ELECTED or cures_of(election), "a trouble without anything to do"
    assert quorum_text(election)
    return election


def three(folder: Path, *, ends: tuple[int, int, int] = (5, 5, 5)) -> list[Disk]:
    return [Disk(folder, n).voters(*THREE).records(end) for n, end in zip((1, 2, 3), ends, strict=True)]


def leads(election: Election) -> tuple[str, tuple[int, ...]]:
    return election.outcome.value, election.may_lead


def test_a_lone_voter_leads_with_its_own_directory_id_only(tmp_path: Path) -> None:
    assert leads(judged(Disk(tmp_path / "a", 1).voters(voter(1)))) == ("elected", (1,))
    for name, directory in (("lost", None), ("new", directory_id(7))):
        election = judged(Disk(tmp_path / name, 1, directory=directory).voters(voter(1)))
        assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.OTHER_DIRECTORY,))
        assert f"directory.id={directory_id(1)}" in cures_of(election)[0]


def test_names_of_hosts_are_told_because_no_disk_tells_whether_they_resolve(tmp_path: Path) -> None:
    named = (voter(1, host="c-1.example"), voter(2, host="10.0.0.2"), voter(3))
    disks = [Disk(tmp_path, n).voters(*named) for n in (1, 2)]
    settings = {2: properties(2) | {"listeners": "CONTROLLER://c-2.example:9002"}}
    settings[1] = properties(1) | {"listeners": "CONTROLLER://:9001", "advertised.listeners": "CONTROLLER://a:9001"}
    assert judged(*disks, settings=settings).names == ("c-1.example", "c-2.example")
    told = quorum_text(judged(*disks))
    assert told.splitlines()[:2] == [
        "A leader is elected: one of the nodes 1, 2.",
        "It is taken for granted that the nodes resolve c-1.example.",
    ]
    assert not judged(*three(tmp_path / "localhost")).names
    for disk in (disks[0], *three(tmp_path / "no-names")[:1]):
        told = run_here(["doctor", str(disk.path), "--json"], tmp_path).out.decode()
        assert ("the nodes resolve c-1.example:" in told) == (disk is disks[0])


def test_two_of_three_lead_and_one_does_not(tmp_path: Path) -> None:
    one, two, _ = three(tmp_path)
    assert leads(judged(one, two)) == ("elected", (1, 2))
    alone = judged(one)
    assert (alone.outcome, alone.causes, alone.missing) == (ElectionOutcome.NEVER, (ElectionCause.NO_MAJORITY,), (2, 3))
    *disks, last = cures_of(alone)
    assert [directory_id(n) in line for n, line in zip((2, 3), disks, strict=True)] == [True, True]
    assert f"klogtool quorum {shlex.quote(str(one.path))} --standalone --destroyed 2 --destroyed 3" in last


def test_empty_disks_with_the_old_directory_ids_vote_and_others_do_not(tmp_path: Path) -> None:
    whole = three(tmp_path / "old")[0]
    kept = [Disk(tmp_path / "kept", n) for n in (2, 3)]
    new = [Disk(tmp_path / "new", n, directory=directory_id(n + 5)) for n in (2, 3)]
    assert leads(judged(whole, *kept)) == ("elected", (1,))
    assert judged(whole, *kept).lost is None
    assert judged(whole, *new).outcome is ElectionOutcome.NEVER


def test_empty_disks_with_their_first_snapshot_may_elect_an_empty_leader(tmp_path: Path) -> None:
    whole = three(tmp_path / "old")[0]
    wiped = [Disk(tmp_path / "wiped", n).snapshot(0, 0, *THREE) for n in (2, 3)]
    election = judged(whole, *wiped)
    assert (leads(election), election.leader_is_empty) == (("elected", (1, 2, 3)), True)
    assert (
        f"start the controller of {whole.path} with 1 of the other voters; once it leads, start the rest"
        in cures_of(election)
    )
    assert leads(judged(whole, wiped[0])) == ("elected", (1,))
    assert not election.is_sound


@pytest.mark.parametrize(("ends", "may_lead", "lost"), [((2, 5, 5), (2, 3), None), ((2, 2, 5), (1, 2, 3), (4, 6))])
def test_older_copies_lead_where_they_are_a_majority(
    tmp_path: Path, ends: tuple[int, int, int], may_lead: tuple[int, ...], lost: tuple[int, int] | None
) -> None:
    election = judged(*three(tmp_path, ends=ends))
    assert (leads(election), election.lost) == (("elected", may_lead), lost)
    assert election.lost_records == (3 if lost else 0)


@pytest.mark.parametrize(
    ("snapshot", "told"),
    [
        (None, "Whether this was committed is unknown."),
        (4, "Whether this was committed is unknown."),
        (6, "What is below offset 6 was committed, as a snapshot tells; whether the rest was is unknown."),
        (7, "All of this was committed, as a snapshot tells."),
    ],
)
def test_what_a_snapshot_has_was_committed(tmp_path: Path, snapshot: int | None, told: str) -> None:
    """A controller makes a snapshot of what is below the high watermark, which no file has."""
    disks = [Disk(tmp_path, n).voters(*THREE).records(end) for n, end in ((1, 2), (2, 2), (3, 5))]
    if snapshot is not None:
        disks[2].snapshot(snapshot, 1, *THREE)
    election = judged(*disks)
    assert election.lost == (4, 6)
    assert told in quorum_text(election)
    assert [seat.controller.log.committed for seat in election.seats] == [0, 0, snapshot or 0]


def test_records_that_change_nothing_are_no_loss(tmp_path: Path) -> None:
    one, two, more = three(tmp_path)
    more.records(4, message=NOTHING)
    assert judged(one, two, more).is_sound


def test_what_each_disk_and_its_settings_say_is_told(tmp_path: Path) -> None:
    """And what it lacks of the most complete copy, and where its own copy takes it for a voter."""
    one, two, removed = (Disk(tmp_path, n).voters(*THREE).records(end) for n, end in ((1, 5), (2, 3), (3, 1)))
    for disk, more in ((one, 3), (two, 1)):
        disk.voters(*THREE[:2], epoch=2).records(more, epoch=2)
    one.state(1, 1, 2)
    two.state(1, -1, 3, voted=1)
    removed.state(0, -1, 1)
    settings = {1: properties(1), 2: properties(2, static(1, 2), roles="broker,controller")}
    election = judged(one, two, removed, settings=settings)
    here: Any = quorum_row(election)["here"]
    of_one, of_two, of_removed = here
    state = {"leader_id": -1, "leader_epoch": 3, "voted_id": 1, "voted_directory_id": directory_id(1)}
    assert (of_two["quorum_state"], of_one["quorum_state"]["leader_id"]) == (state, 1)
    assert of_one["settings"] == {
        "roles": ["controller"],
        "voters": [],
        "servers": ["localhost:9001"],
        "listeners": ["CONTROLLER://localhost:9001"],
    }
    assert of_two["settings"]["voters"] == ["1@localhost:9001", "2@localhost:9002"]
    assert of_removed["settings"] is None
    lacks = [(seat["lacks"], seat["lacks_records"]) for seat in (of_one, of_two, of_removed)]
    assert lacks == [([], 0), ([(5, 11)], 5), ([(3, 11)], 7)]
    assert (of_removed["is_voter"], of_removed["believes"]) == (False, True)
    told = quorum_text(election)
    for words in (
        "quorum-state: node 1 leads epoch 2",
        "quorum-state: no leader is known in epoch 3, voted for node 1",
        "no voter: no voter has this node.id, but by its own copy it is one",
        "process.roles=broker,controller; controller.quorum.voters=1@localhost:9001,2@localhost:9002; it listens at",
        "controller.quorum.bootstrap.servers=localhost:9001",
        "lacks offsets 5 to 11 of the most complete copy, 5 records of metadata",
    ):
        assert words in told


def test_a_higher_epoch_beats_a_longer_log(tmp_path: Path) -> None:
    one, two, longer = three(tmp_path, ends=(5, 5, 9))
    for disk in (one, two):
        disk.records(1, epoch=2)
    election = judged(one, two, longer)
    assert (election.may_lead, election.best) == ((1, 2), str(one.path))


@pytest.mark.parametrize("same", [0, 1, 3])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_two_logs_are_never_taken_for_one(same: int, place: int, tmp_path: Path) -> None:
    """Kafka compares epochs and offsets only: what differs below them stays so for ever."""
    disks = three(tmp_path, ends=(same, same, same))
    assert judged(*disks).is_sound
    for n, disk in enumerate(disks):
        disk.records(2 + n, message=None if n == place else NOTHING)
    election = judged(*disks)
    is_left = place == 0  # a majority of one log, whoever leads; else followers may end at what the leader goes on with
    outcome = ElectionOutcome.ELECTED if is_left else ElectionOutcome.UNKNOWN
    assert (election.outcome, election.causes) == (outcome, (ElectionCause.COPIES_DIFFER,))
    assert {seat.mixes for seat in election.seats} == {True, not is_left}
    apart = election.apart
    assert apart is not None
    assert (apart.offset, apart.epoch, apart.better) == (2 + same, 1, election.best)
    assert not election.is_sound
    assert "these are two logs" in quorum_text(election)


def test_an_end_of_an_older_epoch_is_cut_and_no_other_log(tmp_path: Path) -> None:
    one, two, other = three(tmp_path)
    other.records(3, message=NOTHING)
    for disk in (one, two):
        disk.records(1, epoch=2)
    assert judged(one, two, other).apart is None


@pytest.mark.parametrize(
    ("lists", "is_double"),
    [
        ([(1,), (2, 3), (1, 2, 3)], True),
        ([(1,), (1, 2, 3), (1, 2, 3)], True),
        ([(1, 2, 3), (1, 2, 3), (1, 2, 3)], False),
        ([(1, 2), (1, 2, 3), (1, 2, 3)], False),
    ],
)
def test_two_may_lead_where_the_voters_are_not_the_same(
    lists: list[tuple[int, ...]], is_double: bool, tmp_path: Path
) -> None:
    """Measured: node 1 led its own list, and node 2 the two others, in one epoch."""
    disks = [Disk(tmp_path, n).records(2) for n in (1, 2, 3)]
    election = judged(*disks, settings={n: properties(n, static(*ids)) for n, ids in enumerate(lists, 1)})
    assert election.outcome is ElectionOutcome.ELECTED
    assert (ElectionCause.VOTERS_DIFFER in election.causes) == is_double
    # A node that leads by its own list may shut out another one, which a person has to know of.
    is_same = len(set(lists)) == 1
    assert (ElectionCause.SETTINGS_DIFFER in election.causes, election.is_sound) == (not is_same, is_same)
    assert is_same or cures_of(election) == ("name the same voters in controller.quorum.voters of all controllers",)


def test_a_leader_that_is_no_voter(tmp_path: Path) -> None:
    """quorum-state of another cluster. Measured: nodes 2 and 3 asked node 1 and ended ("Unknown leader endpoints");
    with the line that is printed there was a leader."""
    for case in ("of another cluster", "of a disk that was wiped"):
        disks = [Disk(tmp_path / case, n).voters(*THREE).records(3) for n in (1, 2, 3)]
        if case == "of a disk that was wiped":
            (disks[0].metadata / f"{0:020}.log").unlink()
        disks[0].state(1, 7, 900)
        election = judged(*disks)
        assert (election.outcome, election.is_sound) == (ElectionOutcome.UNKNOWN, False)
        assert ElectionCause.STRANGE_LEADER in election.causes
        assert [(seat.misleads, seat.misled) for seat in election.seats] == [
            (True, False),
            (False, True),
            (False, True),
        ]
        (line,) = (line for line in cures_of(election) if "quorum-state" in line)
        subprocess.run(["bash", "-c", line], check=True)
        assert leads(judged(*disks))[0] == "elected"
        for disk in disks:  # who knows the same is not told anything new
            disk.state(1, 7, 900)
        assert ElectionCause.STRANGE_LEADER not in judged(*disks).causes
    assert judged(Disk(tmp_path / "alone", 1).voters(voter(1)).records(3).state(1, 7, 900)).is_sound


def test_who_knows_a_leader_that_is_no_voter_asks_anybody(tmp_path: Path) -> None:
    """Measured, 3.9.2, twice of ten times: nodes 1 to 4 asked node 5, which led and was removed, and all four ended
    ("leader OptionalInt[2] and epoch 3 which is inconsistent with current leader OptionalInt[5]")."""
    voters = [voter(n) for n in range(1, 6)]
    disks = [Disk(tmp_path, n).voters(*voters).records(3) for n in range(1, 6)]
    for disk in disks[:4]:
        disk.voters(*voters[:4]).state(1, 5, 3)
    disks[4].state(1, 2, 3)
    election = judged(*disks)
    assert election.outcome is ElectionOutcome.UNKNOWN
    assert ElectionCause.LEADERS_DIFFER in election.causes
    assert all(seat.hears_otherwise for seat in election.seats)


def test_a_candidate_that_others_take_for_the_leader(tmp_path: Path) -> None:
    """It voted for itself, which counts more than the leader that it names (QuorumState.initialize). Measured, 4.4.0:
    node 3 ended ("Cannot transition to Follower with leader 3 and epoch 2 since it matches the local node.id")."""
    disks = [Disk(tmp_path, n).voters(*THREE).records(3).state(1, 3, 2) for n in (1, 2, 3)]
    disks[2].state(1, 1, 2, voted=3)
    election = judged(*disks)
    assert [seat.forgot for seat in election.seats] == [False, False, True]
    assert ElectionCause.FORGOT_EPOCH in election.causes


def test_a_majority_that_knows_such_a_leader_is_said_to_end_others(tmp_path: Path) -> None:
    """Measured, 4.4.0: one of the three led, and nodes 4 and 5 had ended ("Unknown leader endpoints")."""
    disks = [Disk(tmp_path, n).voters(*map(voter, range(1, 6))).records(3) for n in range(1, 6)]
    for disk in disks[:3]:
        disk.state(1, 7, 900)
    election = judged(*disks)
    assert (election.outcome, election.is_sound) == (ElectionOutcome.ELECTED, False)
    assert ElectionCause.STRANGE_LEADER in election.causes
    assert [seat.misled for seat in election.seats] == [False, False, False, True, True]


def test_a_leader_that_resigns_is_not_known_to_a_new_disk(tmp_path: Path) -> None:
    """Measured, twice of three times on a busy machine: nodes 2 and 3 were asked before they had asked, and ended
    ("Unknown leader endpoints"); started again, they voted."""
    disks = [Disk(tmp_path, n) for n in (1, 2, 3)]
    disks[0].voters(*THREE).records(3).state(1, 1, 7)
    for disk in disks[1:]:
        disk.metadata.mkdir(exist_ok=True)
    election = judged(*disks)
    assert (election.outcome, election.is_sound) == (ElectionOutcome.ELECTED, False)
    assert ElectionCause.LEADER_RESIGNED in election.causes
    assert [(seat.resigns, seat.hears_resigned) for seat in election.seats] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    (line,) = (line for line in cures_of(election) if "quorum-state" in line)
    subprocess.run(["bash", "-c", line], check=True)
    assert ElectionCause.LEADER_RESIGNED not in judged(*disks).causes
    disks[0].state(1, 1, 7)
    for disk in disks[1:]:  # who knows the voters knows the address
        disk.voters(*THREE).records(3)
    assert judged(*disks).is_sound


def test_nobody_has_metadata(tmp_path: Path) -> None:
    """Two disks that were wiped and kept their first snapshot: measured, the leader that they elect is empty."""
    whole, *wiped = [Disk(tmp_path, n) for n in (1, 2, 3)]
    for disk in wiped:
        disk.snapshot(0, 0, *THREE)
    election = judged(*wiped)
    assert (leads(election), election.begins_anew, election.is_sound) == (("elected", (2, 3)), True, False)
    row = quorum_row(election)
    assert (row["leader_is_empty"], "never started" in str(row["why"])) == (True, True)
    assert not judged(whole.voters(*THREE).records(3), *wiped).begins_anew


def test_the_copy_of_a_broker_is_the_best(tmp_path: Path) -> None:
    """A voter gets it: the broker cannot lead, and is to stay no controller."""
    voters = [Disk(tmp_path, n).voters(*THREE).records(3) for n in (1, 2)]
    broker = Disk(tmp_path, 4, directory=directory_id(8)).voters(*THREE).records(5)
    election = judged(*voters, broker)
    lines = cures_of(election)
    assert (election.lost, election.best) == ((5, 6), str(broker.path))
    assert not any("add-controller" in line or f"controller of {broker.path}" in line for line in lines)
    assert any(f"cp -a {broker.path}/__cluster_metadata-0" in line for line in lines)
    assert not cures_of(judged(*voters, Disk(tmp_path / "b", 4, directory=directory_id(8)).voters(*THREE).records(3)))


def test_the_voters_are_those_of_who_may_lead(tmp_path: Path) -> None:
    """Measured: the only copy with the record is cut, and its node votes again."""
    five = [voter(n) for n in range(1, 6)]
    disks = [Disk(tmp_path, n).voters(*five).records(5) for n in range(1, 5)]
    disks[0].voters(*five[1:])
    election = judged(*disks)
    assert leads(election) == ("elected", (2, 3, 4))
    assert ([one.id for one in election.voters], election.seats[0].why_not) == ([1, 2, 3, 4, 5], None)
    assert (election.missing, election.majority, election.best) == ((5,), 3, str(disks[0].path))
    alone = judged(disks[0])
    assert (len(alone.voters), alone.seats[0].why_not) == (4, ElectionCause.UNKNOWN_NODE)


def test_the_last_record_of_voters_counts_wherever_it_is(tmp_path: Path) -> None:
    appended = Disk(tmp_path / "a", 1).voters(*THREE).records(3).voters(voter(1), epoch=2)
    assert leads(judged(appended)) == ("elected", (1,))
    assert judged(appended).seats[0].controller.log.voters_at == Position(2, 6)
    in_snapshot = Disk(tmp_path / "b", 1).voters(*THREE).records(3).snapshot(5, 2, voter(1))
    assert leads(judged(in_snapshot)) == ("elected", (1,))
    before_snapshot = Disk(tmp_path / "c", 1).voters(voter(1)).records(3).snapshot(3, 1, *THREE)
    assert judged(before_snapshot).outcome is ElectionOutcome.NEVER


def test_a_log_behind_its_snapshot_is_thrown_away(tmp_path: Path) -> None:
    for name, end, epoch in (("later", 20, 1), ("epoch", 3, 2)):
        found = judged(Disk(tmp_path / name, 1).voters(voter(1)).records(9).snapshot(end, epoch, voter(1)))
        log = found.seats[0].controller.log
        assert (log.is_behind_snapshot, log.position.end_offset, log.position.epoch) == (True, end, epoch)


def test_endpoints_decide_where_the_configuration_is_known(tmp_path: Path) -> None:
    disks = three(tmp_path)
    as_before = {n: properties(n) for n in (1, 2, 3)}
    moved = {n: properties(n, port=9500 + n) for n in (1, 2, 3)}
    assert judged(*disks, settings=as_before).is_sound
    election = judged(*disks, settings=moved)
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.ENDPOINTS_STALE,))
    assert judged(*disks, settings=as_before | {3: moved[3]}).outcome is ElectionOutcome.ELECTED


@pytest.mark.parametrize(
    ("known", "own", "outcome"),
    [
        ("localhost", "c{n}", "unknown"),  # it may be another name of the same host
        ("kafka-{n}", "KAFKA-{n}", "elected"),
        ("kafka-{n}", "", "elected"),
        ("kafka-{n}", "10.0.0.{n}", "unknown"),
        ("localhost", "127.0.0.1", "elected"),
        ("127.0.0.1", "LocalHost", "elected"),
        ("127.0.0.1", "127.0.0.2", "never"),
        ("127.0.0.1", "[::1]", "never"),
        ("::1", "[::1]", "elected"),
        ("fd00::1", "[FD00:0:0:0:0:0:0:1]", "elected"),
        ("10.0.0.{n}", "0.0.0.0", "elected"),
    ],
)
def test_two_addresses_are_compared_and_two_names_may_be_one_host(
    tmp_path: Path, known: str, own: str, outcome: str
) -> None:
    three_ = tuple(voter(n, host=known.format(n=n)) for n in (1, 2, 3))
    disks = [Disk(tmp_path, n).voters(*three_).records(5) for n in (1, 2, 3)]
    settings = {n: {**properties(n), "listeners": f"CONTROLLER://{own.format(n=n)}:{9000 + n}"} for n in (1, 2, 3)}
    assert judged(*disks, settings=settings).outcome.value == outcome


def test_a_controller_ends_if_no_voter_is_known_at_its_listener(tmp_path: Path) -> None:
    """Measured: VoterSet.voterNode, FollowerState.leaderNode. The only voter looks for nobody."""
    disks = three(tmp_path)
    renamed = {n: {key: text.replace("CONTROLLER", "CTRL") for key, text in properties(n).items()} for n in (1, 2, 3)}
    assert leads(judged(*disks, settings={1: renamed[1]})) == ("elected", (2, 3))
    election = judged(*disks, settings=renamed)
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.LISTENER_UNKNOWN,))
    assert leads(judged(Disk(tmp_path / "alone", 1).voters(voter(1)), settings=renamed)) == ("elected", (1,))
    both = properties(1) | {"controller.listener.names": "CONTROLLER,CTRL"}
    both["listeners"] += ",CTRL://localhost:9101"
    assert judged(*disks, settings={1: both}).is_sound


def test_a_static_quorum_is_that_of_the_configuration(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1, directory=None).records(5)
    assert (judged(disk).outcome, judged(disk).causes) == (ElectionOutcome.UNKNOWN, (ElectionCause.SETTINGS_UNKNOWN,))
    told = [run_here(["quorum", str(disk.path), *words], tmp_path).out.decode() for words in ((), ("--json",))]
    assert [text for text in ("no voter", '"is_voter":false') if text in "".join(told)] == []
    assert ("voter or not: the voters are in its settings" in told[0], '"is_voter":null' in told[1]) == (True, True)
    wanted: dict[str, tuple[ElectionOutcome, tuple[ElectionCause, ...]]] = {
        static(1): (ElectionOutcome.ELECTED, ()),
        static(1, 2, 3): (ElectionOutcome.NEVER, (ElectionCause.NO_MAJORITY,)),
        static(2): (ElectionOutcome.NEVER, (ElectionCause.SETTINGS_REFUSED,)),
        "controller.quorum.bootstrap.servers=localhost:9001": (ElectionOutcome.NEVER, (ElectionCause.NO_VOTERS,)),
    }
    for line, outcome in wanted.items():
        election = judged(disk, settings={1: properties(1, line)})
        assert (election.outcome, election.causes) == outcome, line


def test_two_new_disks_of_a_static_quorum_may_elect_an_empty_leader(tmp_path: Path) -> None:
    disks = [Disk(tmp_path, 1).records(5), Disk(tmp_path, 2), Disk(tmp_path, 3)]
    settings = {n: properties(n, static(1, 2, 3)) for n in (1, 2, 3)}
    assert judged(*disks, settings=settings).leader_is_empty
    disks[1].records(5)
    assert leads(judged(*disks, settings=settings)) == ("elected", (1, 2))


def test_who_voted_for_itself_in_the_epoch_of_its_log_ends(tmp_path: Path) -> None:
    settings = {n: properties(n, static(1, 2, 3)) for n in (1, 2)}
    stale, empty = Disk(tmp_path, 1).records(5, epoch=2).state(0, 2, 2, voted=1), Disk(tmp_path, 2)
    election = judged(stale, empty, settings=settings)
    assert (election.outcome, election.causes) == (
        ElectionOutcome.UNKNOWN,
        (ElectionCause.STALE_CANDIDATE,),
    )  # who is up first decides
    assert "rm " in cures_of(election)[0]
    stale.state(0, 2, 3, voted=1)
    assert judged(stale, empty, settings=settings).outcome is ElectionOutcome.ELECTED


def test_who_knows_a_leader_that_most_do_not_know_is_told_to_forget_it(tmp_path: Path) -> None:
    """The doctor tells the same, and has a person ask `klogtool quorum`."""
    disks = [Disk(tmp_path, n).voters(*map(voter, (1, 2, 3, 4, 5))).records(5).state(1, -1, 1) for n in (1, 2, 3, 4)]
    disks[0].state(1, 5, 2)
    election = judged(*disks)
    assert (election.outcome, election.causes) == (ElectionOutcome.ELECTED, (ElectionCause.KNOWN_TO_FEW,))
    (line,) = (line for line in cures_of(election) if line.startswith("sed "))
    subprocess.run(["bash", "-c", line], check=True)
    assert judged(*disks).causes == ()


def test_who_ends_as_a_stale_candidate_is_told_beside_others_that_elect_a_leader(tmp_path: Path) -> None:
    """Measured, 4.3.1: one that had lost the last election ended so at an ordinary start."""
    disks = three(tmp_path)
    disks[0].state(1, 2, 1, voted=1)
    election = judged(*disks)
    assert (election.outcome, election.causes) == (ElectionOutcome.ELECTED, (ElectionCause.STALE_CANDIDATE,))
    (line,) = cures_of(election)
    subprocess.run(["bash", "-c", line], check=True)
    assert judged(*disks).is_sound


def test_a_version_without_voters_ends_who_is_elected(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).log(data_batch(0, 1), control_batch(1, 1, None))
    election = judged(disk, settings={1: properties(1, static(1))})
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.VERSION_WITHOUT_VOTERS,))
    others = [Disk(tmp_path, n).log(data_batch(0, 1)) for n in (2, 3)]
    settings = {n: properties(n, static(1, 2, 3)) for n in (1, 2, 3)}
    election = judged(disk, *others, settings=settings)  # measured, 3.9.2: it won the first election, and ended
    assert (election.outcome, election.causes) == (ElectionOutcome.ELECTED, (ElectionCause.VERSION_WITHOUT_VOTERS,))
    assert not election.is_sound
    assert judged(*others, settings=settings).is_sound


SIDE_FILES = {
    "leader-epoch-checkpoint": ["garbage\n", "0\n1\n", "0\n1\n-3 0\n", "1\n0\n"],
    "partition.metadata": ["garbage", "version: 0\ntopic_id: kAhN5UfKTXmouKliDVLmuw", ""],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SIDE_FILES.items() for text in texts])
def test_a_small_file_beside_the_log_may_end_a_start(name: str, text: str, tmp_path: Path) -> None:
    one, two, third = three(tmp_path, ends=(5, 5, 9))
    (third.metadata / name).write_text(text)
    election = judged(one, third)
    assert (election.outcome, election.seats[1].why_not) == (ElectionOutcome.NEVER, ElectionCause.SIDE_FILE_CORRUPT)
    assert f"klogtool doctor {shlex.quote(str(third.path))}" in cures_of(election)
    with_all = judged(one, two, third)
    assert (leads(with_all), with_all.best, with_all.lost) == (("elected", (1, 2)), str(third.path), (7, 10))


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_who_is_to_be_a_candidate_and_is_no_voter_does_not_start(is_dynamic: bool, tmp_path: Path) -> None:
    """Measured: "Local replica (3, ...) must be in the set of voters"."""
    disks = [Disk(tmp_path, n) for n in (1, 2, 3)]
    for disk in disks:
        disk.voters(*THREE[:2]) if is_dynamic else disk.records(2)
    settings = {n: properties(n, *(() if is_dynamic or n == 3 else [static(1, 2, 3)])) for n in (1, 2, 3)}
    assert judged(*disks, settings=settings).causes == ()
    disks[2].state(int(is_dynamic), 1, 1, 3)
    election = judged(*disks, settings=settings)
    assert (leads(election), election.causes) == (("elected", (1, 2)), (ElectionCause.CANDIDATE_NO_VOTER,))
    assert not election.seats[2].starts
    if is_dynamic:
        assert any(line.startswith("rm ") for line in cures_of(election))


def test_after_the_last_epoch_there_is_none(tmp_path: Path) -> None:
    """Measured: the epoch that follows is negative; candidates end, and who answers them takes it for its own."""
    lone = Disk(tmp_path, 1).voters(voter(1)).state(1, -1, 2**31 - 1)
    assert judged(lone).causes == (ElectionCause.NO_EPOCH_LEFT,)
    one, two, third = three(tmp_path / "three")
    one.state(1, -1, 2**31 - 1)
    assert judged(one, two).outcome is ElectionOutcome.NEVER
    assert leads(judged(one, two, third)) == ("unknown", (2, 3))
    assert judged(two, third).is_sound


def test_a_stale_candidate_is_not_told_as_a_moved_endpoint(tmp_path: Path) -> None:
    one, two, _ = three(tmp_path)
    one.records(1)
    two.records(0).state(1, 1, 1, 2)
    election = judged(one, two, settings={n: properties(n) for n in (1, 2)})
    assert (election.outcome, election.causes) == (ElectionOutcome.UNKNOWN, (ElectionCause.STALE_CANDIDATE,))


def test_what_does_not_start_does_not_vote(tmp_path: Path) -> None:
    def unreadable_state(disk: Disk) -> None:
        (disk.metadata / "quorum-state").write_text("garbage")

    def no_identity(disk: Disk) -> None:
        (disk.path / "meta.properties").unlink()

    ways: list[tuple[Callable[[Disk], None], ElectionCause]] = [
        (unreadable_state, ElectionCause.STATE_CORRUPT),
        (no_identity, ElectionCause.NO_IDENTITY),
    ]
    for change, cause in ways:
        one, two, _ = three(tmp_path / cause.value)
        change(two)
        election = judged(one, two)
        assert (election.outcome, cause in election.causes) == (ElectionOutcome.NEVER, True)


def test_another_cluster_does_not_vote_and_a_broker_neither(tmp_path: Path) -> None:
    one = three(tmp_path)[0]
    stranger = Disk(tmp_path / "x", 2, cluster="AmugKK5HRqOZ6ob2pMJQaw").voters(*THREE).records(5)
    broker = Disk(tmp_path / "y", 4).voters(*THREE).records(9)
    election = judged(one, one_like(tmp_path, 3), stranger, broker, settings={4: properties(4, roles="broker")})
    assert [seat.why_not for seat in election.seats] == [
        None,
        None,
        ElectionCause.OTHER_CLUSTER,
        ElectionCause.NO_CONTROLLER,
    ]
    assert (election.best, election.lost) == (str(broker.path), (7, 10))
    further = Disk(tmp_path / "z", 2, cluster="AmugKK5HRqOZ6ob2pMJQaw").voters(*THREE).records(20)
    assert judged(one, one_like(tmp_path / "z", 3), further).best == str(one.path)


def one_like(folder: Path, node_id: int) -> Disk:
    return Disk(folder / "like", node_id).voters(*THREE).records(5)


def test_a_start_cuts_a_damaged_log_and_what_only_it_had_is_not_counted(tmp_path: Path) -> None:
    """Measured: "Corruption found in segment 0, truncating to offset", at every start."""
    one, two, third = three(tmp_path)
    log = third.metadata / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"x")
    with_others = judged(one, two, third)
    assert (with_others.outcome, with_others.causes) == (ElectionOutcome.ELECTED, (ElectionCause.LOG_DAMAGED,))
    assert (with_others.is_sound, with_others.lost_records) == (False, None)
    assert leads(judged(one, third)) == ("elected", (1,))
    assert "a start cuts the log there" in quorum_text(judged(third))


@pytest.mark.parametrize("zeros", [1, 16, 17, 5000])
def test_zeros_behind_the_log_are_no_damage_and_a_segment_that_is_cut_takes_those_after_it(
    zeros: int, tmp_path: Path
) -> None:
    """Of a preallocated file. LogLoader.recoverLog cuts them, and deletes the segments after a cut."""
    one, two, third = three(tmp_path)
    log = third.metadata / f"{0:020}.log"
    end = read_controller(str(third.path)).log.position
    with log.open("ab") as file:
        file.write(bytes(zeros))
    found = read_controller(str(third.path)).log
    assert (found.is_whole, found.position, found.cut_bytes) == (True, end, 0)
    assert judged(one, two, third).is_sound
    later = third.metadata / f"{end.end_offset:020}.log"
    later.write_bytes(data_batch(end.end_offset, 1))
    cut = read_controller(str(third.path)).log
    assert (cut.position, cut.cut_bytes, cut.damage is None) == (end, zeros + later.stat().st_size, False)


@pytest.mark.parametrize("change", ["flipped", "log begins after it"])
def test_a_controller_does_not_start_without_its_newest_snapshot(tmp_path: Path, change: str) -> None:
    one, two, third = three(tmp_path)
    third.snapshot(4, 1, *THREE)
    (newest,) = third.metadata.glob("*.checkpoint")
    if change == "flipped":
        newest.write_bytes(newest.read_bytes()[:-1] + b"x")
    else:
        (third.metadata / f"{0:020}.log").rename(third.metadata / f"{5:020}.log")
    election = judged(one, third)
    assert (election.outcome, election.seats[1].why_not) == (ElectionOutcome.NEVER, ElectionCause.LOG_DAMAGED)
    assert leads(judged(one, two, third)) == ("elected", (1, 2))


def test_an_empty_file_in_place_of_the_first_snapshot_stops_nobody(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1)).records(3)
    (disk.metadata / f"{0:020}-{0:010}.checkpoint").touch()
    assert leads(judged(disk)) == ("elected", (1,))
    assert run_here(["doctor", str(disk.path)], tmp_path).out.startswith(b"A broker 4.3.1 would start")


def test_the_newest_snapshot_is_that_of_the_latest_epoch(tmp_path: Path) -> None:
    """OffsetAndEpoch.compareTo; and of those that end before the log begins, none."""
    disk = (
        Disk(tmp_path / "a", 1).voters(voter(1)).records(9).snapshot(9, 1, voter(1), voter(2)).snapshot(8, 2, voter(1))
    )
    assert judged(disk).seats[0].controller.log.position == Position(2, 8)
    assert leads(judged(disk)) == ("elected", (1,))


def test_a_line_of_the_epoch_checkpoint_counts_as_the_epoch_of_the_log(tmp_path: Path) -> None:
    """Measured: that controller was elected, and others were cut where the line begins."""
    one, two, _ = three(tmp_path)
    (one.metadata / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n7 7\n")
    assert leads(judged(one, two)) == ("elected", (1, 2))
    (one.metadata / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n7 4\n")
    assert leads(judged(one, two)) == ("elected", (1,))


def test_what_a_later_epoch_wrote_is_lost_if_a_longer_log_of_an_earlier_one_leads(tmp_path: Path) -> None:
    one, two, later = three(tmp_path, ends=(9, 9, 3))
    later.records(2, epoch=2)
    election = judged(one, two, later)
    assert (election.best, election.may_lead) == (str(later.path), (1, 2, 3))
    assert (election.lost, election.lost_records) == ((5, 6), 2)


def test_quorum_state_is_read_whatever_it_says(tmp_path: Path) -> None:
    """An epoch, a leader or a vote that fits nothing keeps nobody from being elected (measured)."""
    for n, (leader, epoch, voted) in enumerate([(9, 5, -1), (-1, 99, -1), (-1, 3, 7), (1, 1, -1)]):
        disk = Disk(tmp_path / str(n), 1).voters(voter(1)).records(2).state(n % 2, leader, epoch, voted)
        assert leads(judged(disk)) == ("elected", (1,))


# The disks of a sample lie as they were before an edit that the sample is about, or before its later steps.
EDITED_LATER = {
    *("r1-append-same-epoch", "r1-id-back", "r1-rewrite-both", "rs-snap-append", "k3-two-lost-voters-cut-qs-deleted"),
    *("r3-old-pair-first-again", "r3-old-pair-first-bump1000", "r3-one-old-n2-later", "r3-one-old-pair-later"),
    *("r3-one-rewrite-old-pair-later", "r3-one-rewrite-readd", "d3-ports-changed", "d3-two-ports-changed"),
}
STEPS = ("cluster", "real", "pair", "n1 alone")


@pytest.mark.shared
def test_real_quorums_did_what_their_disks_said() -> None:
    wrong, compared = [], 0
    for expected in sorted(SAMPLES.glob("*/expected.json")):
        told = json.loads(expected.read_text())
        step = next((told[name] for name in STEPS if isinstance(told.get(name), dict)), None)
        if step is None or expected.parent.name in EDITED_LATER:
            continue
        disks = sorted(expected.parent.glob("n*"))
        settings = [parse_properties((disk / "s.properties").read_bytes()) for disk in disks]
        pairs = zip(disks, settings, strict=True)
        election = judge_election([read_controller(str(disk), own) for disk, own in pairs])
        leader = None if not step["leader"] else step["leader"][0][0]
        never = (
            {ElectionOutcome.NEVER, ElectionOutcome.UNKNOWN}
            if ElectionCause.STALE_CANDIDATE in election.causes
            else {ElectionOutcome.NEVER}
        )
        fits = election.outcome in never if leader is None else leader in election.may_lead
        compared += 1
        if not fits and expected.parent.name != "k3-voters-differ":  # it had a leader after all (`then`)
            wrong.append((expected.parent.name, leader, leads(election)))
    assert (wrong, compared > 40) == ([], True)


def test_damage_of_the_best_copy_is_no_sound_quorum(tmp_path: Path) -> None:
    """What only that copy had cannot be counted, so it is never "nothing"."""

    def torn(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:100])

    def flipped(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)

    for name, change in (("torn", torn), ("flipped", flipped)):
        best, two, three_ = three(tmp_path / name, ends=(9, 5, 5))
        assert not judged(best, two, three_).is_sound
        change(best.metadata / f"{0:020}.log")
        election = judged(best, two, three_)
        assert (election.is_sound, election.lost_records, election.best) == (False, None, str(two.path)), name
        assert any("klogtool doctor" in line for line in cures_of(election)), name


def test_a_snapshot_that_cannot_be_read_proves_no_end(tmp_path: Path) -> None:
    best, empty = Disk(tmp_path, 1).voters(voter(1)).records(3), Disk(tmp_path, 2).voters(voter(1)).records(1)
    (empty.metadata / f"{50:020}-{2:010}.checkpoint").touch()
    election = judged(best, empty)
    assert (election.best, election.lost, election.is_sound) == (str(best.path), None, False)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_lines_for_two_new_disks_elect_the_one_that_is_whole(place: int, tmp_path: Path) -> None:
    """The old directory.id may stand in any line. And who takes a new disk for the leader must not tell it so."""
    whole = Disk(tmp_path, 1).voters(*THREE).records(5).state(1, 2, 1)
    disks = [whole, *(Disk(tmp_path, n, directory=directory_id(n + 3)) for n in (2, 3))]
    for disk in disks[1:]:
        path = disk.path / "meta.properties"
        lines = path.read_text().splitlines()
        lines.insert(place, lines.pop())
        path.write_text("\n".join(lines) + "\n")
    before = judged(*disks)
    for line in (line for line in cures_of(before) if line.startswith("sed ")):
        subprocess.run(["bash", "-c", line], check=True)
    after = judged(*disks)
    assert (before.outcome, leads(after)) == (ElectionOutcome.NEVER, ("elected", (1,)))
    state = after.seats[0].controller.quorum_state
    assert state is not None
    assert (state.leader_id, state.leader_epoch, any(seat.forgot for seat in after.seats)) == (-1, 1, False)


@pytest.mark.parametrize(("leader", "epoch"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_who_is_to_forget_a_leader_is_no_candidate_then(leader: int, epoch: int, tmp_path: Path) -> None:
    """It voted for itself, and led or lost: without a leader that vote would make it stand in the same epoch again."""
    disks = [
        Disk(tmp_path, 1).voters(*THREE).records(5).state(1, leader, epoch, voted=1),
        *(Disk(tmp_path, n) for n in (2, 3)),
    ]
    for line in (line for line in cures_of(judged(*disks)) if line.startswith(("sed ", "rm "))):
        subprocess.run(["bash", "-c", line], check=True)
    after = judged(*disks)
    assert (leads(after), after.causes) == (("elected", (1,)), ())
    assert not any(seat.repeats_epoch for seat in after.seats)


def test_a_disk_without_its_identity_is_never_to_be_formatted(tmp_path: Path) -> None:
    one, two, _ = three(tmp_path)
    (two.path / "meta.properties").unlink()
    cures = cures_of(judged(one, two))
    assert directory_id(2) in cures[0]
    assert not any("kafka-storage format" in line and str(two.path) in line for line in cures)


@pytest.mark.parametrize("key", ["controller.quorum.voters", "controller.quorum.bootstrap.servers", "listeners"])
def test_a_port_of_any_length_is_refused_as_kafka_refuses_it(tmp_path: Path, key: str) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1))
    number = "9" * 5000
    texts = {"controller.quorum.voters": f"1@h:{number}", "listeners": f"CONTROLLER://h:{number}"}
    judged(disk, settings={1: {**properties(1), key: texts.get(key, f"h:{number}")}})


def test_a_path_that_is_no_log_dir_is_wrong_usage(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1))
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "nope", tmp_path / "other", disk.metadata):
        assert run_here(["quorum", str(path)], tmp_path).status in (2, 4), path
    assert run_here(["quorum", str(disk.path)], tmp_path).status == 0
    assert run_here(["quorum", str(disk.path), f"{disk.path}/"], tmp_path).status == 2
    for command in ("quorum", "doctor"):  # it would be told that the settings are not known
        done = run_here([command, str(disk.path), "--config-file", str(disk.path / "meta.properties")], tmp_path)
        assert (done.status, "not the server.properties" in done.err) == (2, True)
    assert run_here(["quorum", str(disk.path), str(disk.path)], tmp_path).status == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("node.id=one", "Invalid value one for configuration broker.id: Not a number of type INT"),
        ("node.id=-1", "Invalid value -1 for configuration node.id: Value must be at least 0"),
        (
            "controller.quorum.fetch.timeout.ms=2s",
            "Invalid value 2s for configuration controller.quorum.fetch.timeout.ms: Not a number of type INT",
        ),
        (
            "initial.broker.registration.timeout.ms=3000000000",
            "Invalid value 3000000000 for configuration initial.broker.registration.timeout.ms: Not a number of type "
            "INT",
        ),
    ],
)
def test_a_number_that_kafka_refuses_ends_the_start(tmp_path: Path, line: str, why: str) -> None:
    name, _, value = line.partition("=")
    disk = Disk(tmp_path, 1).voters(voter(1))
    election = judged(disk, settings={1: {**properties(1), name: value}})
    assert (election.outcome, election.causes) == (ElectionOutcome.NEVER, (ElectionCause.SETTINGS_REFUSED,))
    assert str(election.seats[0].controller.refusal) == why


def test_what_klogtool_alone_may_not_read_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's user may read its log: then nobody knows how it ends, and the answer is an error."""
    disk = Disk(tmp_path, 1).voters(*THREE).records(5)
    log = disk.metadata / f"{0:020d}.log"

    def denied(*_: object) -> None:
        raise unreadable(str(log), PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    monkeypatch.setattr(controllers, "load_metadata", denied)
    with pytest.raises(Unreadable):
        read_controller(str(disk.path))
    monkeypatch.setattr(controllers, "may_read", lambda *_: False)
    assert judge_election([read_controller(str(disk.path))]).seats[0].why_not is ElectionCause.NOT_OPENED
