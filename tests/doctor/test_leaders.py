"""What the doctor says of the states that were measured on real quorums, each made small: does a leader come?"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence

import pytest
from quorums import TOPIC, Disk, control_batch, directory_id, properties, static, voter
from running import run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.doctor.answers import Diagnosis, Starts, Strategy, What
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import BrokerClaim
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.render.doctor import headline
from klogtool.render.words import words
from klogtool.verify.findings import Severity

Path = pathlib.Path
THREE = (voter(1), voter(2), voter(3))
BOTH = "broker,controller"
MORE = ("PartitionRecord", 0, {"topicId": "kAhN5UfKTXmouKliDVLmuw"})
LONE_STATIC = static(1)


def diagnosed(disk: Disk, settings: dict[str, str] | None = None, others: Sequence[Disk] = ()) -> Diagnosis:
    sections = () if settings is None else ((None, settings),)
    how = Examination(
        Circumstances(now_ms=0, config_sections=sections), controllers=tuple((str(one.path), None) for one in others)
    )
    found = examine([str(disk.path)], how)
    if found.lead.elected is False:
        assert found.starts is Starts.REFUSES
    if found.lead.elected is not True or found.lead.ends:
        assert not headline(found).endswith(("lose nothing.", "lose nothing more.")) or not found.lead.is_open
    for trouble in found.troubles:
        assert trouble.options, "a trouble without anything to do"
    return found


def lone(folder: Path, *, directory: str | None = "") -> Disk:
    return Disk(folder, 1, directory=directory).voters(voter(1)).records(1)


def one_of(folder: Path, node_id: int = 1, more: int = 0, *, directory: str | None = "") -> Disk:
    return (
        Disk(folder, node_id, directory=directory).voters(*THREE).records(1, message=TOPIC).records(more, message=MORE)
    )


def static_disk(folder: Path, node_id: int = 1, *, directory: str | None = "") -> Disk:
    return Disk(folder, node_id, directory=directory).records(1)


def kinds(found: Diagnosis) -> set[What]:
    return {point.what for point in found.points}


LONE: dict[str, tuple[Callable[[Path], Disk], bool, set[What]]] = {
    "as it was": (lone, True, set()),
    "its directory id is lost": (lambda at: lone(at, directory=None), False, {What.NOT_VOTER}),
    "a new directory id": (lambda at: lone(at, directory=directory_id(7)), False, {What.NOT_VOTER}),
    "another node id": (
        lambda at: Disk(at, 7, directory=directory_id(1)).voters(voter(1)).records(1),
        False,
        {What.NOT_VOTER},
    ),
    "a state of version 0": (lambda at: lone(at).state(0, 1, 1), True, set()),
    "a state of a far epoch": (lambda at: lone(at).state(1, -1, 99), True, set()),
    "a state with a stranger as leader": (lambda at: lone(at).state(1, 9, 1), True, set()),
    "a vote for another directory": (lambda at: lone(at).state(1, -1, 1, voted=3), True, set()),
    "a snapshot ahead of its log": (lambda at: lone(at).snapshot(20, 1, voter(1)), True, set()),
    "one voter appended behind three": (lambda at: one_of(at).voters(voter(1), epoch=2), True, set()),
}


@pytest.mark.parametrize("name", LONE)
def test_a_lone_controller(name: str, tmp_path: Path) -> None:
    """A broker beside it ends after a minute without a leader; alone it waits for ever."""
    make, elected, troubles = LONE[name]
    disk = make(tmp_path)
    for roles, ends in ((BOTH, True), ("controller", False)):
        settings = properties(disk.node_id, roles=roles)
        found = diagnosed(disk, settings)
        assert (found.lead.elected, kinds(found)) == (elected, troubles)
        if not elected:
            assert (found.lead.ends, found.lead.ends_after_ms) == (ends, 60_000 if ends else None)
            assert found.lead.message
    assert diagnosed(disk).lead.elected is elected


STATIC: dict[str, tuple[str, bool | None, set[What]]] = {
    "as it was": (LONE_STATIC, True, set()),
    "voters that never were": (static(1, 2, 3), None, {What.NO_MAJORITY}),
    "another id only": (static(2), None, {What.REFUSES}),
    "bootstrap servers only": ("controller.quorum.bootstrap.servers=localhost:9001", False, {What.NOT_VOTER}),
    "another port of its own": ("controller.quorum.voters=1@localhost:9999", True, {What.ENDPOINT_STALE}),
    "another host, and another port": ("controller.quorum.voters=1@c1:9999", True, {What.ENDPOINT_STALE}),
}


@pytest.mark.parametrize("name", STATIC)
def test_a_lone_static_controller(name: str, tmp_path: Path) -> None:
    line, elected, troubles = STATIC[name]
    disk = static_disk(tmp_path, directory=None)
    state = QuorumState(0, 1, 1, -1, current_voters=(1,))
    (disk.metadata / "quorum-state").write_bytes(build_quorum_state(state))
    found = diagnosed(disk, properties(1, line, roles=BOTH))
    assert (found.lead.elected, kinds(found)) == (elected, troubles)
    is_unreached = name == "another port of its own"  # what forwards another host's port is not known
    assert found.lead.ends is (True if is_unreached or elected is False else None)


def test_a_version_without_voters_ends_a_lone_node_only(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).log(control_batch(0, 1, None))
    disk.end = 1
    disk.records(1)
    assert kinds(diagnosed(disk, properties(1, LONE_STATIC))) == {What.REFUSES}
    several = diagnosed(disk, properties(1, static(1, 2, 3)))
    assert (several.starts, several.lead.elected) == (Starts.YES, None)
    assert What.NOT_VOTER in kinds(several)
    assert process(several).starts is None  # who wins the election ends


def test_one_of_three_depends_on_the_others(tmp_path: Path) -> None:
    disk = one_of(tmp_path)
    alone = diagnosed(disk)
    assert (alone.lead.elected, alone.is_silent, alone.lead.needed) == (None, True, 2)
    assert "2 of the voters 1, 2, 3" in headline(alone)
    moved = diagnosed(disk, properties(1, port=9500))
    assert kinds(moved) == {What.NO_MAJORITY, What.ENDPOINT_STALE}
    new = [Disk(tmp_path / "new", n, directory=directory_id(n + 5)) for n in (2, 3)]
    assert diagnosed(disk, others=new).lead.elected is False
    lost = [one_of(tmp_path / "lost", n, directory=None) for n in (2, 3)]
    assert diagnosed(disk, others=lost).lead.elected is False
    assert diagnosed(new[0], others=[disk, new[1]]).lead.elected is False
    one_lost = diagnosed(lost[0])
    assert (one_lost.lead.elected, kinds(one_lost) - {What.NO_MAJORITY}) == (None, {What.NOT_VOTER})


def test_a_new_disk_alone_promises_nothing(tmp_path: Path) -> None:
    found = diagnosed(Disk(tmp_path, 2))
    assert (found.lead.elected, found.lead.is_open) == (None, True)


def test_a_worse_copy_that_may_lead_is_said(tmp_path: Path) -> None:
    whole = one_of(tmp_path / "whole", 1, more=3)
    older = [one_of(tmp_path / "older", n) for n in (2, 3)]
    wiped = [Disk(tmp_path / "wiped", n).snapshot(0, 0, *THREE) for n in (2, 3)]
    kept = [Disk(tmp_path / "kept", n) for n in (2, 3)]
    for others, severity in ((older, Severity.WARNING), (wiped, Severity.ERROR), (kept, None)):
        found = diagnosed(whole, others=others)
        behind = [point.severity for point in found.points if point.what is What.METADATA_BEHIND]
        assert behind == ([] if severity is None else [severity])
        assert ("MAY LOSE METADATA" in headline(found)) == (severity is not None)
    assert What.METADATA_BEHIND in kinds(diagnosed(wiped[0]))


def test_a_state_that_contradicts_the_log(tmp_path: Path) -> None:
    """A vote for itself in the epoch of its log: it ends at the first answer; the only voter leads that epoch again."""
    disk = static_disk(tmp_path).state(0, 2, 1, voted=1)
    empty = Disk(tmp_path / "x", 2)
    for line in (static(1, 2, 3), LONE_STATIC):
        (point,) = (one for one in diagnosed(disk, properties(1, line)).points if one.what is What.STATE_CONTRADICTS)
        assert point.severity is Severity.WARNING
    found = diagnosed(disk, properties(1, static(1, 2)), others=[empty])
    assert (found.lead.elected, found.lead.ends) == (None, None)  # which of the two is up first decides
    assert any(option.remedies for trouble in found.troubles for option in trouble.options)


def process(found: Diagnosis) -> BrokerClaim:
    claim = next(walk_claims(found))
    assert isinstance(claim, BrokerClaim)
    return claim


def test_after_the_last_epoch_a_lone_controller_ends_and_one_of_several_may(tmp_path: Path) -> None:
    found = diagnosed(lone(tmp_path / "one").state(1, 1, 2**31 - 1), properties(1, roles=BOTH))
    assert (found.lead.elected, found.lead.ends, found.lead.ends_after_ms) == (False, True, None)
    assert "invalid partition leader epoch entry" in (process(found).message or "")
    assert What.STATE_CONTRADICTS in kinds(found)
    two = diagnosed(one_of(tmp_path, 1).state(1, -1, 2**31 - 1), others=[one_of(tmp_path, 2)])
    assert (two.lead.elected, two.lead.ends) == (None, None)


def test_who_is_to_be_a_candidate_and_is_no_voter_ends(tmp_path: Path) -> None:
    removed = Disk(tmp_path, 3).voters(*THREE[:2]).state(1, 1, 1, 3)
    for found in (diagnosed(removed, properties(3)), diagnosed(removed, others=[one_of(tmp_path, 1)])):
        claim = process(found)
        assert (claim.starts, claim.ends, claim.error) == (False, True, "IllegalArgumentException")
        assert f"Local replica (3, {directory_id(3)}) must be in the set of voters" in (claim.message or "")
        assert any(option.remedies for trouble in found.troubles for option in trouble.options)


def test_an_id_that_a_start_draws_is_in_no_message(tmp_path: Path) -> None:
    """Measured, 3.9.2: "Local replica (2, boSSQqX9pti4b_wBE_0QJg) must be in the set of voters"."""
    removed = Disk(tmp_path, 3, directory=None).voters(*THREE[:2]).state(0, -1, 1, 3)
    claim = process(diagnosed(removed, properties(3)))
    assert (claim.error, claim.message) == ("IllegalArgumentException", "Local replica (3, ")


def test_two_logs_are_never_taken_for_one(tmp_path: Path) -> None:
    one, other = one_of(tmp_path / "a", 1, more=2), one_of(tmp_path / "b", 2).records(2)
    found = diagnosed(one, others=[other])
    assert any("these are two logs" in words(point.detail) for point in found.points)
    assert not any("these are two logs" in words(point.detail) for point in diagnosed(one, others=[]).points)


def test_who_knows_a_leader_of_an_epoch_that_most_have_forgotten_may_end(tmp_path: Path) -> None:
    """Measured: "leader OptionalInt[2] and epoch 2 which is inconsistent with current leader OptionalInt[3]"."""
    knows = one_of(tmp_path, 1).state(1, 3, 5)
    older = [one_of(tmp_path, n).state(1, -1, 4) for n in (2, 3)]
    assert process(diagnosed(knows, others=older)).starts is None
    aware = one_of(tmp_path / "aware", 3).state(1, 3, 5)
    assert What.STATE_CONTRADICTS not in kinds(diagnosed(knows, others=[older[0], aware]))


@pytest.mark.parametrize(
    ("name", "text", "logged"),
    [
        ("leader-epoch-checkpoint", "garbage", "Malformed line in checkpoint file [/d/f]: garbage"),
        ("leader-epoch-checkpoint", "0\n1\n", "Expected [1] entries in checkpoint file [/d/f], but found only [0]"),
        ("partition.metadata", "garbage", "Malformed line in partition metadata file [/d/f]: garbage"),
        ("partition.metadata", "garbage", "Malformed line in checkpoint file [/d/f]: garbage"),
    ],
)
def test_the_message_about_a_file_goes_up_to_its_path(name: str, text: str, logged: str, tmp_path: Path) -> None:
    """Measured with 4.3.1; 3.9.2 calls partition.metadata a checkpoint file."""
    disk = lone(tmp_path)
    (disk.metadata / name).write_text(text)
    message = process(diagnosed(disk)).message
    assert message is not None
    assert message in logged


def test_who_is_no_voter_goes_on_with_the_leader_that_it_knew(tmp_path: Path) -> None:
    """Measured: it is the follower of a node that nobody hears of any more, and never changes."""
    others = [one_of(tmp_path, n, directory=None) for n in (1, 3)]
    for leader, logged in (2, "FollowerState("), (9, "Unattached"):
        lost = one_of(tmp_path / str(leader), 8, directory=directory_id(2)).state(1, leader, 1)
        found = diagnosed(lost, properties(8), others=others)
        assert (found.lead.elected, found.lead.message) == (False, f"Completed transition to {logged}")


def test_another_cluster_is_no_voter(tmp_path: Path) -> None:
    stranger = Disk(tmp_path, 1, cluster="AmugKK5HRqOZ6ob2pMJQaw").voters(*THREE).records(1)
    others = [one_of(tmp_path / "others", n) for n in (2, 3)]
    assert What.NOT_VOTER in kinds(diagnosed(stranger, others=others))


def test_who_led_an_epoch_that_it_forgot_is_not_said_to_stay(tmp_path: Path) -> None:
    """KafkaRaftClient.hasConsistentLeader: told that it leads, it ends."""
    forgetful = Disk(tmp_path, 1).snapshot(0, 0, *THREE)
    teller = one_of(tmp_path, 2).state(1, 1, 5)
    found = diagnosed(forgetful, others=[teller])
    assert (found.lead.elected, found.lead.ends) == (None, None)
    assert What.STATE_CONTRADICTS in kinds(found)
    assert process(diagnosed(forgetful, others=[teller, one_of(tmp_path, 3).state(1, 1, 5)])).starts is None
    known = one_of(tmp_path / "known", 1).state(1, 1, 5)
    assert "metadata-copy-behind" not in {point.what.value for point in diagnosed(known, others=[teller]).points}


def test_the_settings_of_the_others_decide_whether_they_are_reached(tmp_path: Path) -> None:
    """Without them they are taken to listen where the voters' record has them. Files go by order; some may be left
    out."""
    disks = [one_of(tmp_path, n) for n in (1, 2, 3)]

    def doctor(moved: Sequence[int], given: int = 2, *more: str) -> tuple[bool | None, int]:
        files = []
        for disk in disks:
            port = 9900 + disk.node_id if disk.node_id in moved else None
            files.append(tmp_path / f"of {disk.node_id}.properties")
            lines = properties(disk.node_id, port=port)
            files[-1].write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        words = ["doctor", str(disks[0].path), "--config-file", str(files[0]), "--format", "json", *more]
        for n, disk in enumerate(disks[1:]):
            words += ["--controller", str(disk.path)]
            words += ["--controller-config-file", str(files[n + 1])] if n < given else []
        done = run_here(words, tmp_path)
        if not done.out:
            return None, done.status
        rows = [json.loads(line) for line in done.out.splitlines()]
        (claim,) = (row for row in rows if row["type"] == "claim" and "leader_elected" in row)
        return claim["leader_elected"], done.status

    assert doctor(())[0] is True
    assert doctor((2,), 0)[0] is None
    assert doctor((2,))[0] is True  # by 1 and 3
    assert doctor((1, 2, 3))[0] is False
    assert doctor((2, 3), 1)[0] is None
    assert doctor((), 2, "--controller-config-file", str(tmp_path / "of 1.properties")) == (None, 2)
    words = ["doctor", str(disks[0].path), "--controller", str(disks[1].path)]
    for bad in ("nowhere", "n1"):
        done = run_here([*words, "--controller-config-file", str(tmp_path / bad)], tmp_path)
        assert (done.status in (2, 4), done.out) == (True, b""), bad


def test_another_controller_that_is_not_there_is_never_passed_over(tmp_path: Path) -> None:
    own = str(one_of(tmp_path).path)
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nope", tmp_path / "empty", one_of(tmp_path, 2).metadata):
        assert run_here(["doctor", own, "--controller", str(path)], tmp_path).status in (2, 4), path
    (tmp_path / "n2/meta.properties").write_bytes(b"\xff\xfe\\u12")
    done = run_here(["doctor", own, "--controller", str(tmp_path / "n2")], tmp_path)
    assert (done.status, done.out) == (1, b"")
    assert "meta.properties" in done.err


def test_the_options_begin_with_what_loses_nothing_and_end_with_other_voters(tmp_path: Path) -> None:
    """Options are numbered by what they cost: an old id, the other disks, the old listeners, another set of voters."""
    others = ["bring voter 2", "bring voter 3"]
    last = "make this node the only voter"
    states = {
        f"write directory.id {directory_id(1)} back": (one_of(tmp_path / "lost", directory=None), None, []),
        "bring voter 2": (one_of(tmp_path / "whole"), None, others[1:]),
        "start it with its old endpoint": (one_of(tmp_path / "moved"), properties(1, port=9500), others),
    }
    for first, (disk, settings, between) in states.items():
        options = [option for trouble in diagnosed(disk, settings).troubles for option in trouble.options]
        assert [words(option.title) for option in options] == [first, *between, last]
        assert {option.strategy for option in options[:-1]} == {Strategy.NOTHING_LOST}
        assert (options[-1].strategy, "is lost" in words(options[-1].price or "")) == (Strategy.MAY_DIVERGE, True)
        assert words(options[-1].command).startswith(f"klogtool quorum {disk.path} --standalone")


def test_who_has_no_leader_is_refused_by_none(tmp_path: Path) -> None:
    """Measured: a lone node that got another node.id ended after its timeout; nobody said INVALID_REGISTRATION, which
    the leader would (ClusterControlManager.registerBroker). Whether one of three finds a leader its disk does not show:
    where two had exchanged their disks nobody led, and they ended so, too."""
    registered = {"brokerId": 1, "brokerEpoch": 5, "incarnationId": directory_id(1), "endPoints": []}
    message = ("RegisterBrokerRecord", 3, registered | {"logDirs": [directory_id(1)]})
    disk = Disk(tmp_path, 7, directory=directory_id(1)).voters(voter(1)).records(1, message=message)
    claim = process(diagnosed(disk, properties(7, roles=BOTH)))
    assert (claim.leader_elected, claim.error, claim.ends_after_ms) == (False, None, 60_000)
    assert claim.message is not None
    assert claim.message.startswith("Unable to register the broker because the RPC got timed out")
    three = Disk(tmp_path / "three", 7, directory=directory_id(1)).voters(*THREE).records(1, message=message)
    claim = process(diagnosed(three, properties(7, roles=BOTH)))
    assert (claim.leader_elected, claim.ends, claim.error, claim.message) == (None, True, None, None)


def test_what_only_a_leader_brings_is_not_known_of_one_disk_of_three(tmp_path: Path) -> None:
    """Nothing is replayed before a leader knows what is committed: until then a broker waits, and then ends."""
    level = ("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 99})
    for voters, known in (((voter(1),), True), (THREE, False)):
        disk = Disk(tmp_path / str(len(voters)), 1).voters(*voters).records(1, message=level)
        claims = [process(diagnosed(disk, properties(1, roles=roles))) for roles in (BOTH, "controller")]
        assert [(claim.error is not None, claim.ends) for claim in claims] == [(known, True), (known, known or None)]


def test_who_may_be_told_of_a_leader_without_one_may_end_before_its_timeout(tmp_path: Path) -> None:
    """Measured, 4.4.0, combined: node 3 had a new disk and had led, by node 1's quorum-state; it ended after 4 s
    ("inconsistent with current leader OptionalInt.empty and epoch 0"), the others after their timeout."""
    whole = one_of(tmp_path, 1).state(1, 3, 3, voted=3)
    new = [Disk(tmp_path, n, directory=directory_id(n + 5)) for n in (2, 3)]
    for disk, after_ms in zip((whole, *new), (60_000, 60_000, None), strict=True):
        others = [one for one in (whole, *new) if one is not disk]
        claim = process(diagnosed(disk, properties(disk.node_id, roles=BOTH), others))
        assert (claim.leader_elected, claim.ends, claim.ends_after_ms) == (False, True, after_ms), disk.node_id
        assert (claim.message is None) is (after_ms is None)
        alone = process(diagnosed(disk, properties(disk.node_id), others))
        assert (alone.leader_elected, alone.ends) == (False, None if after_ms is None else False)
