"""A new set of voters: in which copy it is written, what is refused and why, and that an election follows."""

from __future__ import annotations

import pathlib
import random
import shlex
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import asdict
from quorums import Disk, directory_id, properties, static, voter

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.errors import KlogError, Refused
from klogtool.format.java_text import parse_properties
from klogtool.plans.plan import Plan, Write
from klogtool.plans.quorum_voters import VotersQuestion, VotersResult, decide
from klogtool.quorum.controllers import read_controller, walk_metadata_values
from klogtool.quorum.election import ElectionOutcome, judge_election
from klogtool.render.quorum import voters_text

Path = pathlib.Path
THREE = (voter(1), voter(2), voter(3))
SAMPLES = pathlib.Path(__file__).parents[3] / "shared/quorum-samples"
MOVED = "1@c1:9101,2@c2:9102,3@c3:9103"


def asked(disks: Sequence[Disk], settings: Sequence[dict[str, str] | None] = (), **wish: object) -> VotersQuestion:
    wish = {"standalone": "voters" not in wish, **wish}
    copies = tuple(str(disk.path) for disk in disks)
    return VotersQuestion(**asdict(Circumstances(now_ms=1000)), copies=copies, settings=tuple(settings), **wish)


def planned(
    *disks: Disk, settings: Sequence[dict[str, str] | None] = (), **wish: object
) -> tuple[VotersResult, dict[str, bytes]]:
    """The answer of the plan, and the files that it writes."""
    (plan,) = decide(str(disks[0].path), asked(disks, settings, **wish))
    assert voters_text(plan)
    assert isinstance(plan.result, VotersResult)
    return plan.result, {step.path: read_content(step.content) for step in plan.steps if isinstance(step, Write)}


def refused(*disks: Disk, settings: Sequence[dict[str, str] | None] = (), **wish: object) -> str:
    with pytest.raises(Refused) as error:
        list(decide(str(disks[0].path), asked(disks, settings, **wish)))
    assert error.value.cure, "a refusal without a way out"
    return f"{error.value} {error.value.cure}"


def write(disk: Disk, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (disk.metadata / name).write_bytes(data)


LOST = {"destroyed": (2, 3), "accept_loss": True}


def test_the_survivor_becomes_the_only_voter_far_above_all_epochs(tmp_path: Path) -> None:
    one = Disk(tmp_path, 1).voters(*THREE).records(5).state(1, 2, 7)
    before = (one.metadata / f"{0:020}.log").read_bytes()
    result, files = planned(one, **LOST)
    assert (result.offset, result.epoch, result.leader, result.was) == (7, 1007, "elected", [1, 2, 3])
    assert (result.unseen, result.may_lose, result.unseen_epoch) == ([2, 3], True, 7)
    assert files[f"{0:020}.log"].startswith(before)
    assert files["leader-epoch-checkpoint"].splitlines()[-1] == b"1007 7"
    assert b'"leaderId":-1,"leaderEpoch":1007,"votedId":-1' in files["quorum-state"]
    write(one, files)
    election = judge_election([read_controller(str(one.path))])
    assert (election.outcome, election.may_lead, election.majority) == (ElectionOutcome.ELECTED, (1,), 1)


def test_zeros_behind_the_log_are_written_over(tmp_path: Path) -> None:
    one = Disk(tmp_path, 1).voters(*THREE).records(5)
    whole = planned(one, **LOST)[1]
    one.log(bytes(5000))
    files = planned(one, **LOST)[1]
    assert files[f"{0:020}.log"] == whole[f"{0:020}.log"]
    static_ = planned(one, static=True, settings=[properties(1, static(1))], **LOST)[1]
    assert any(name.endswith(".checkpoint") for name in static_)


def test_a_log_that_a_start_throws_away_begins_anew_at_the_snapshot(tmp_path: Path) -> None:
    for name, disk in {
        "behind": Disk(tmp_path / "a", 1).voters(*THREE).records(5).snapshot(40, 3, *THREE),
        "alone": Disk(tmp_path / "b", 1).snapshot(40, 3, *THREE),
    }.items():
        result, files = planned(disk, **LOST)
        assert (result.offset, result.epoch) == (40, 1003), name
        assert f"{40:020}.log" in files, name
        assert files["leader-epoch-checkpoint"].split() == [b"0", b"1", b"1003", b"40"], name


def test_who_may_end_before_there_is_a_leader_is_named(tmp_path: Path) -> None:
    """Node 2 led until its stop, and node 3 has a new disk: that one does not know where node 2 listens."""
    one = Disk(tmp_path, 1).voters(*THREE).records(9).state(1, 2, 3)
    two = Disk(tmp_path, 2).voters(*THREE).records(5).state(1, 2, 3)
    new = Disk(tmp_path, 3)
    voters = "1@c1:9101,2@c2:9102,3@c3:9103"
    wish = {"voters": voters, "destroyed": (3,), "accept_loss": True}
    question = asked([one, two, new], **wish)
    (plan,) = decide(str(one.path), question)
    assert (plan.result.node_id, plan.result.leader, plan.result.may_end) == (1, "elected", [3])
    assert "Node 3 may end before there is a leader: start it again then." in voters_text(plan)
    two.state(1, 1, 3)
    one.state(1, 1, 3)
    (plan,) = decide(str(one.path), question)
    assert plan.result.may_end == []
    assert "may end before" not in voters_text(plan)
    two.state(1, 1, 1, voted=2)  # in the epoch of its log
    (plan,) = decide(str(one.path), question)
    assert plan.result.may_end == [2]


def test_a_brokers_copy_counts_and_the_better_one_has_to_be_taken(tmp_path: Path) -> None:
    one = Disk(tmp_path, 1).voters(*THREE).records(5)
    broker = Disk(tmp_path, 4).voters(*THREE).records(8)
    text = refused(one, broker, **LOST)
    assert "has 3 records of metadata more" in text
    assert f"cp -a {shlex.quote(str(broker.metadata))} {shlex.quote(str(one.path))}/" in text
    one.records(3)
    assert planned(one, broker, **LOST)[0].offset == 10
    empty = Disk(tmp_path / "new", 1, directory=directory_id(8))
    assert "has records more" in refused(empty, broker, destroyed=(1, 2, 3), accept_loss=True, voters="1@c1:9001")


def test_loss_is_accepted_only_where_it_is_possible(tmp_path: Path) -> None:
    disks = [Disk(tmp_path, n).voters(*THREE).records(5 + n) for n in (1, 2, 3)]
    result, _ = planned(*disks, voters=MOVED)
    assert (result.node_id, result.may_lose, result.unseen, result.leader) == (3, False, [], "elected")
    assert [one.directory_id for one in result.voters] == [directory_id(n) for n in (1, 2, 3)]
    assert not planned(disks[1], disks[2], voters=MOVED)[0].may_lose
    text = refused(disks[2], voters=MOVED)
    assert "only 1, 2 had would be lost" in text
    assert "--accept-loss" in text


Make = Callable[[Path], tuple[list[Disk], dict[str, object]]]


@pytest.mark.parametrize("is_later", [False, True])
def test_a_set_of_voters_that_may_not_be_committed_does_not_hide_the_one_before(is_later: bool, tmp_path: Path) -> None:
    """Killed while voter 3 was removed: 2 and 3 may have gone on without node 1, until a later epoch has the record;
    from then on node 2 alone, if it has removed node 1."""
    one = Disk(tmp_path, 1).voters(*THREE).records(3).voters(*THREE[:2])
    if is_later:
        one.records(1, epoch=2)
        result, _ = planned(one, destroyed=(2,), accept_loss=True)
        assert (result.may_lose, result.unseen) == (True, [2])
        return
    assert "--accept-loss" in refused(one, destroyed=(2, 3))
    result, _ = planned(one, destroyed=(2,), accept_loss=True)
    assert (result.may_lose, result.unseen, result.was) == (True, [2, 3], [1, 2])
    five = [voter(n) for n in range(1, 6)]
    added = Disk(tmp_path / "x", 1).voters(*five[:3]).records(1).voters(*five[:4])
    assert "--destroyed 2 --destroyed 3" in refused(added, destroyed=(4,), accept_loss=True)


def test_of_two_equal_copies_the_voters_is_taken(tmp_path: Path) -> None:
    removed, one = (Disk(tmp_path, n).voters(*THREE[:2]).records(2) for n in (3, 1))
    result, _ = planned(removed, one, settings=[properties(3), properties(1)], destroyed=(2,), accept_loss=True)
    assert result.node_id == 1


def test_half_of_a_dynamic_set_may_have_gone_on_alone(tmp_path: Path) -> None:
    """Node 2 has removed node 1, which was down: then it is the only voter, and only it knows."""
    one = Disk(tmp_path, 1).voters(*THREE[:2]).records(3)
    assert "--destroyed 2" in refused(one, accept_loss=True)
    assert "--accept-loss" in refused(one, destroyed=(2,))
    four = [voter(n) for n in range(1, 5)]
    disks = [Disk(tmp_path / "four", n).voters(*four).records(3) for n in (1, 2)]
    assert "--destroyed 3 --destroyed 4" in refused(*disks, accept_loss=True)
    assert planned(*disks, destroyed=(3, 4), accept_loss=True)[0].may_lose


def whole_three(folder: Path) -> list[Disk]:
    return [Disk(folder, n).voters(*THREE).records(5) for n in (1, 2, 3)]


def different_bytes(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one, two, _ = whole_three(folder)
    other = ("TopicRecord", 0, {"name": "pay", "topicId": "kAhN5UfKTXmouKliDVLmuw"})
    one.records(1)
    two.records(1, message=other)
    return [one, two], {"voters": MOVED}


def other_cluster(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one = whole_three(folder)[0]
    return [one, Disk(folder / "x", 2, cluster="AmugKK5HRqOZ6ob2pMJQaw").voters(*THREE)], LOST


def one_directory_id(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one = whole_three(folder)[0]
    return [one, Disk(folder / "x", 4, directory=directory_id(1)).voters(*THREE)], dict(LOST)


def whole_majority(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return whole_three(folder)[:2], LOST


def empty_majority(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    wiped = [Disk(folder / "wiped", n).snapshot(0, 0, *THREE) for n in (2, 3)]
    return [whole_three(folder)[0], *wiped], LOST


def damaged(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one = whole_three(folder)[0]
    log = one.metadata / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    return [one], LOST


def torn(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one = whole_three(folder)[0]
    log = one.metadata / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    return [one], LOST


def last_epoch(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return [whole_three(folder)[0].state(1, 2, (1 << 31) - 1000)], LOST


def one_disk_twice(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    one = Disk(folder, 1).voters(*THREE).records(5)
    return [one, Disk(folder / "x", 1).voters(*THREE).records(5)], dict(LOST)


def no_directory_id(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return [Disk(folder, 1, directory=None).voters(*THREE).records(5)], LOST | {"destroyed": (1, 2, 3)}


def unknown_directory_id(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return whole_three(folder)[:1], LOST | {"voters": "1@c1:9001,5@c5:9005"}


def nothing(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return [Disk(folder, 1).snapshot(0, 0, *THREE)], LOST


def static_unknown(folder: Path) -> tuple[list[Disk], dict[str, object]]:
    return [Disk(folder, 1).records(5)], LOST


REFUSALS: dict[Make, str] = {
    different_bytes: "these are two logs",
    other_cluster: "of different clusters",
    one_directory_id: "the second ends when it registers",
    one_disk_twice: "count as one voter",
    whole_majority: "they elect a leader by themselves",
    empty_majority: "all topics would be lost",
    damaged: "is damaged",
    torn: "torn batch",
    last_epoch: "no epoch is left",
    no_directory_id: "nothing is lost: sed",
    unknown_directory_id: "directory.id of node 5 is unknown",
    nothing: "has any metadata",
    static_unknown: "names no voters",
}


@pytest.mark.parametrize("make", REFUSALS, ids=lambda make: make.__name__)
def test_what_could_do_harm_is_refused(tmp_path: Path, make: Make) -> None:
    disks, wish = make(tmp_path)
    assert REFUSALS[make] in refused(*disks, **wish)


def test_controllers_that_are_no_brokers_may_have_one_directory_id(tmp_path: Path) -> None:
    disks, wish = one_directory_id(tmp_path)
    alone = [properties(1), properties(4)]
    assert planned(*disks, settings=alone, **wish)[0].voters[0].id == 1
    both = [properties(1), properties(4, roles="broker,controller")]
    assert "the second ends when it registers" in refused(*disks, settings=both, **wish)


def test_old_disks_that_are_no_majority_may_stay(tmp_path: Path) -> None:
    one = whole_three(tmp_path)[0]
    assert "--destroyed 2 --destroyed 3" in refused(one, accept_loss=True)
    assert planned(one, destroyed=(2,), accept_loss=True)[0].leader == "elected"


def test_a_static_quorum_becomes_dynamic(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).records(5).state(0, 2, 2, voted=1)
    result, files = planned(disk, settings=[properties(1, static(1, 2, 3))], **LOST)
    assert (result.was, result.was_dynamic, result.leader) == ([1, 2, 3], False, "elected")
    write(disk, files)
    found = read_controller(str(disk.path), properties(1))
    assert (found.log.quorum.kraft_version, found.is_dynamic) == (1, True)
    assert judge_election([found]).outcome is ElectionOutcome.ELECTED
    alone = [properties(1, static(1))]
    assert "kafka-features upgrade" in refused(disk_of(tmp_path / "alone"), settings=alone)


def test_a_dynamic_quorum_becomes_static_by_a_snapshot_of_all_metadata(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1)).records(3)
    disk.records(1, message=("BeginTransactionRecord", 0, {})).records(2)
    disk.records(1, message=("AbortTransactionRecord", 0, {"reason": None}))
    disk.records(1, message=("BeginTransactionRecord", 0, {})).records(1)
    disk.records(1, message=("EndTransactionRecord", 0, {})).records(1)
    disk.records(1, message=("BeginTransactionRecord", 0, {})).records(5)  # has no end
    result, files = planned(disk, static=True)
    assert (result.kraft_version, result.may_lose, result.leader) == (0, False, "unknown")
    (name,) = files
    assert name == f"{result.offset:020}-0000001001.checkpoint"
    for path in disk.metadata.glob("*"):
        path.unlink()
    write(disk, files)
    assert len(list(walk_metadata_values(str(disk.metadata)))) == 3 + 1 + 1
    found = read_controller(str(disk.path), properties(1, static(1)))
    assert (found.log.quorum.kraft_version, found.is_dynamic) == (0, False)
    assert judge_election([found]).outcome is ElectionOutcome.ELECTED
    assert "one voter" in refused(*whole_three(tmp_path / "three"), voters=MOVED, static=True)


def disk_of(folder: Path) -> Disk:
    return Disk(folder, 1).records(5)


def test_an_uncommitted_end_of_an_older_epoch_is_named_and_not_taken(tmp_path: Path) -> None:
    one, two = (Disk(tmp_path, n).voters(*THREE).records(5) for n in (1, 2))
    one.records(1, epoch=3)
    two.records(4)
    text = refused(one, two, voters="1@c1:9101,2@c2:9102", destroyed=(3,))
    assert f"{two.path}: its offsets 7 to 10 would be lost: {one.path} has a later epoch" in text
    result, _ = planned(one, two, voters="1@c1:9101,2@c2:9102", destroyed=(3,), accept_loss=True)
    (tail,) = result.not_taken
    assert (result.node_id, tail.first, tail.last) == (1, 7, 10)


def test_what_no_copy_has_any_more_is_named(tmp_path: Path) -> None:
    """A producer snapshot shows that the log went further once."""
    disk = Disk(tmp_path, 1).voters(*THREE).records(3)
    assert planned(disk, **LOST)[0].gone_already == []
    (disk.metadata / f"{9:020}.snapshot").touch()
    (plan,) = decide(str(disk.path), asked([disk], **LOST))
    assert isinstance(plan.result, VotersResult)
    assert plan.result.gone_already == [(5, 8)]
    assert "gone already: offsets 5 to 8, which a copy here had once" in voters_text(plan)


def test_of_two_ends_that_part_none_is_chosen_where_absent_voters_may_have_committed_either(tmp_path: Path) -> None:
    """Figure 8 of the Raft paper: node 1 led epoch 1, node 5 epoch 3, of which nobody else has a record, and then node
    1 led again, and committed its older records with nodes 3 and 4, which are lost. Node 2 was not up to date yet."""
    five = [voter(n) for n in range(1, 6)]
    two, last = (Disk(tmp_path, n).voters(*five).records(2) for n in (2, 5))
    two.records(3)
    last.records(1, epoch=3)
    gone = (1, 3, 4)
    text = refused(two, last, voters="2@c2:9001,5@c5:9001", destroyed=gone, accept_loss=True)
    assert f"{two.path}: it has offsets 4 to 6, and {last.path} has others there, in epoch 3." in text
    for left_out, (disk, end) in {2: (last, 5), 5: (two, 7)}.items():
        wish = {"voters": f"{disk.node_id}@c:9001", "destroyed": (*gone, left_out), "accept_loss": True}
        assert planned(disk, **wish)[0].offset == end
    three_ = Disk(tmp_path, 3).voters(*five).records(2)
    result, _ = planned(two, last, three_, voters="2@c2:9001,3@c3:9001,5@c5:9001", destroyed=(1, 4), accept_loss=True)
    assert (result.may_lose, [(one.first, one.last) for one in result.not_taken]) == (False, [(4, 6)])


def test_two_of_three_have_moved(tmp_path: Path) -> None:
    one, two, three = whole_three(tmp_path)
    one.records(1)
    voters = "1@localhost:9001,2@c2:9102,3@c3:9103"
    assert planned(one, two, three, voters=voters)[0].node_id == 1
    two.records(2)  # now node 1 would vote for it, at its old address
    assert "they elect a leader by themselves" in refused(one, two, three, voters=voters)


def plan_or_cure(question: VotersQuestion) -> tuple[Plan | None, str | None]:
    try:
        (plan,) = decide(question.copies[0], question)
    except Refused as error:
        return None, error.cure
    return plan, None


@pytest.mark.shared
def test_real_disks_are_refused_where_they_elect_a_leader_without_it() -> None:
    """And no refusal is without a way out."""
    plans = refusals = 0
    for expected in sorted(SAMPLES.glob("*/expected.json")):
        paths = tuple(map(str, sorted(expected.parent.glob("n*"))))
        settings = tuple(parse_properties((Path(path) / "s.properties").read_bytes()) for path in paths)
        wish = {"standalone": True, "destroyed": (1, 2, 3), "accept_loss": True}
        question = VotersQuestion(**asdict(Circumstances(now_ms=1000)), copies=paths, settings=settings, **wish)
        pairs = zip(paths, settings, strict=True)
        elects = judge_election([read_controller(*pair) for pair in pairs]).outcome is ElectionOutcome.ELECTED
        plan, cure = plan_or_cure(question)
        assert voters_text(plan) if plan else cure, expected.parent.name
        assert plan is None or not elects, expected.parent.name
        plans, refusals = plans + (plan is not None), refusals + (plan is None)
    assert (plans > 15, refusals > 30) == (True, True)


@pytest.mark.slow
def test_damaged_bytes_give_a_plan_or_a_refusal_and_a_plan_elects(tmp_path: Path) -> None:
    """Any byte of any file: nothing else is raised. A plan leaves every byte of the log in front of its own."""
    chance, plans = random.Random(7), 0
    for n in range(150):
        one = Disk(tmp_path / str(n), 1).voters(*THREE).records(5).snapshot(3, 1, *THREE).state(1, 2, 4)
        broker = Disk(tmp_path / str(n), 4).voters(*THREE).records(4)
        files = sorted(path for path in (tmp_path / str(n)).rglob("*") if path.is_file())
        for path in chance.sample(files, chance.randint(1, 2)):
            data = bytearray(path.read_bytes())
            if chance.random() < 0.3:
                del data[chance.randrange(len(data)) :]
            else:
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
        wish = {"voters": "1@h:9001", "destroyed": (2, 3), "accept_loss": True, "static": n % 3 == 0}
        try:
            (plan,) = decide(str(one.path), asked([one, broker], **wish))
        except KlogError:
            continue
        plans += 1
        assert isinstance(plan.result, VotersResult)
        log = (one.metadata / f"{0:020}.log").read_bytes()
        for step in plan.steps:
            if isinstance(step, Write) and step.path == f"{0:020}.log":
                assert read_content(step.content).startswith(log)
    assert plans > 20
