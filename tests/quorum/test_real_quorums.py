"""States of our own on real controllers, of three releases: what klogtool says of the disks is what the nodes do."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from judge.nodes import ALONE, BOTH, Kind, Nodes, lived
from judge.quorum_faults import (
    another_cluster,
    another_node_id,
    append_records,
    append_voters,
    cut_log,
    damage_nothing,
    directory_id_of,
    dynamic_settings,
    empty_log,
    flip_bit,
    garbage_side_file,
    garbage_state,
    half_upgraded,
    last_epoch,
    log_of,
    lose_directory_id,
    metadata_elsewhere,
    move_port,
    new_directory_id,
    newer_snapshot,
    no_first_snapshot,
    no_metadata,
    no_state,
    removed,
    swap_disks,
    take_copy,
    voters_of,
    zeros_behind,
)
from judge.quorums import differences_of, run_as_told, told_of
from msgspec.structs import replace
from quorums import BEGIN, TOPIC
from running import run_here
from sampling import chance

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.doctor.messages import recognise
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.kraft_snapshot import Endpoint, Voter
from klogtool.format.uuids import parse_uuid

pytestmark = [pytest.mark.nightly, pytest.mark.shared]
CHANCE = random.Random(7)
VERSIONS = ("4.3.1", "3.9.2", "4.4.0")
EVERY = os.environ.get("KLOGTOOL_EVERY_START") == "1"
A_NIGHT = 40  # cases of the other kinds, by the seed of the run; with KLOGTOOL_EVERY_START=1 all, in some hours


@dataclass(frozen=True)
class State:
    """change: of the disks. leader: what klogtool says of an election; starting: the nodes, if not all."""

    kind: Kind
    change: Callable[[Nodes], object]
    leader: str
    starting: Sequence[int] = ()


def each(*nodes_and_faults: tuple[int, Callable[[Nodes, int, random.Random], None]]) -> Callable[[Nodes], object]:
    return lambda nodes: [fault(nodes, node, CHANCE) for node, fault in nodes_and_faults]


def one(version: str, *, is_dynamic: bool = True, roles: str = BOTH) -> Kind:
    return Kind(version, 1, roles, is_dynamic)


def three(version: str, *, is_dynamic: bool = True) -> Kind:
    return Kind(version, 3, ALONE, is_dynamic)


def five(version: str) -> Kind:
    return Kind(version, 5, ALONE, True)


def removes_itself(nodes: Nodes) -> None:
    """Node 1 was killed while it removed itself: no other copy has the record."""
    append_voters(nodes, 1, voters_of(nodes, [2, 3, 4, 5]))


def begun_anew(nodes: Nodes) -> None:
    """Nodes 2 and 3 were formatted with their old ids, and lived without node 1, whose log has a later epoch than they
    come to, however often they elect one."""
    append_voters(nodes, 1, voters_of(nodes, [1, 2, 3]), epochs=20)
    for node in (2, 3):
        empty_log(nodes, node, CHANCE)
    assert nodes.run([2, 3]).leader


def only_voter(node: int, epochs: int) -> Callable[[Nodes], object]:
    return lambda nodes: append_voters(nodes, node, voters_of(nodes, [node]), epochs=epochs)


def removed_while_down(nodes: Nodes) -> None:
    """The others have removed voter 3, which still takes itself for one. Node 1 led them then."""
    for node in (1, 2):
        append_voters(nodes, node, voters_of(nodes, [1, 2]), epochs=1)
        state = QuorumState(1, 1, log_of(nodes, node).position.epoch, -1, bytes(16))
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def inside_a_transaction(nodes: Nodes) -> None:
    """Node 1 has the begin of a transaction that no other copy has."""
    append_records(nodes, 1, BEGIN, TOPIC)


def the_leader_forgets(nodes: Nodes) -> None:
    """Node 2 led, by the state of the others; its disk is that of the day of its formatting."""
    empty_log(nodes, 2, CHANCE)
    for node in (1, 3):
        state = QuorumState(1, 2, 50, -1, bytes(16))
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def state_of_another_cluster(nodes: Nodes) -> None:
    """Node 1 names a leader that is no voter, in an epoch that the others do not know."""
    (nodes.metadata(1) / "quorum-state").write_bytes(build_quorum_state(QuorumState(1, 7, 900, -1, bytes(16))))


def known_to_three(nodes: Nodes) -> None:
    """Nodes 1 to 3 name such a leader: each of the others that asks one of them ends."""
    for node in (1, 2, 3):
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(QuorumState(1, 7, 900, -1, bytes(16))))


def its_leader_was_removed(nodes: Nodes) -> None:
    """Nodes 1 to 4 have removed node 5, which led; it does not know of either."""
    epoch = log_of(nodes, 1).position.epoch
    for node in (1, 2, 3, 4):
        append_voters(nodes, node, voters_of(nodes, [1, 2, 3, 4]))
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(QuorumState(1, 5, epoch, -1, bytes(16))))
    (nodes.metadata(5) / "quorum-state").write_bytes(build_quorum_state(QuorumState(1, 2, epoch, -1, bytes(16))))


def another_list(nodes: Nodes) -> None:
    """Node 3 does not name node 2."""
    named = nodes.settings[3]["controller.quorum.voters"].split(",")
    nodes.settings[3]["controller.quorum.voters"] = ",".join(word for word in named if not word.startswith("2@"))


def voted_for_itself(nodes: Nodes) -> None:
    epoch = log_of(nodes, 1).position.epoch
    state = QuorumState(0, 2, epoch, 1, current_voters=(1, 2, 3))
    (nodes.metadata(1) / "quorum-state").write_bytes(build_quorum_state(state))
    no_metadata(nodes, 2, CHANCE)


def unknown_version(nodes: Nodes) -> None:
    """kraft.version of a later release: a start ends at it."""
    append_voters(nodes, 1, None, version=2)


def voters_without_ids(nodes: Nodes) -> None:
    """Any directory id will do then."""
    append_voters(nodes, 1, [replace(voter, directory_id="") for voter in voters_of(nodes, [1])])
    new_directory_id(nodes, 1, CHANCE)


def garbage_behind_the_snapshot(nodes: Nodes) -> None:
    (snapshot,) = nodes.metadata(1).glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes() + bytes(14))


def others_that_never_were(nodes: Nodes) -> None:
    nodes.settings[1]["controller.quorum.voters"] += ",8@127.0.0.1:20997,9@127.0.0.1:20999"


def of_many_voters(nodes: Nodes) -> None:
    """quorum-state of version 0 names others; nobody asks (QuorumState)."""
    epoch = log_of(nodes, 1).position.epoch
    state = QuorumState(0, 1, epoch, -1, current_voters=(1, 2))
    (nodes.metadata(1) / "quorum-state").write_bytes(build_quorum_state(state))


def voters_without_a_version(nodes: Nodes) -> None:
    """A record of voters in a static quorum, without kraft.version 1."""
    own = Voter(1, directory_id_of(nodes, 1), (Endpoint("CONTROLLER", "127.0.0.1", nodes.ports[1]),))
    append_voters(nodes, 1, [own], version=0)


def two_leaders_of_an_epoch(nodes: Nodes) -> None:
    for node, leader in ((1, 2), (2, 3), (3, 3)):
        state = QuorumState(1, leader, 50, -1, bytes(16))
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


STATES = {
    "a lone combined node without its directory id": State(one("3.9.2"), each((1, lose_directory_id)), "never"),
    "a lone controller with another directory id": State(
        one("4.3.1", roles=ALONE), each((1, new_directory_id)), "never"
    ),
    "its metadata in a log dir of its own": State(one("4.4.0"), each((1, metadata_elsewhere)), "elected"),
    "static, with bootstrap servers only": State(one("4.3.1", is_dynamic=False), each((1, dynamic_settings)), "never"),
    "kraft.version 1 without voters": State(one("4.3.1", is_dynamic=False), each((1, half_upgraded)), "never"),
    "a snapshot ahead of the log": State(one("4.3.1"), each((1, newer_snapshot)), "elected"),
    "no snapshot and no state": State(one("3.9.2"), each((1, no_first_snapshot), (1, no_state)), "elected"),
    "the disks of two controllers exchanged": State(
        three("4.3.1"), each((1, swap_disks), (2, new_directory_id)), "never"
    ),
    "one voter by the longest copy": State(three("4.4.0"), only_voter(1, 1), "elected", (1,)),
    "one voter by one copy, and the others start": State(three("4.3.1"), only_voter(1, 1), "elected"),
    "the ports of two have moved": State(three("4.4.0"), each((1, move_port), (2, move_port)), "elected"),
    "all ports have moved": State(three("3.9.2"), each((1, move_port), (2, move_port), (3, move_port)), "never"),
    "one has another cluster id, and one is down": State(three("4.3.1"), each((1, another_cluster)), "never", (1, 2)),
    "two are empty, with their old ids": State(three("3.9.2"), each((2, no_metadata), (3, no_metadata)), "elected"),
    "two older copies": State(three("4.4.0"), each((1, cut_log), (2, cut_log)), "elected"),
    "a copy of another controller": State(three("4.3.1"), each((1, take_copy)), "elected"),
    "the leader has forgotten its epoch": State(three("4.3.1"), the_leader_forgets, "unknown", (1, 2)),
    "static, a vote in the epoch of the log": State(
        three("4.3.1", is_dynamic=False), voted_for_itself, "unknown", (1, 2)
    ),
    "a voter was removed while it was down": State(three("4.3.1"), removed_while_down, "elected"),
    "a removed voter and one of two that are left": State(three("4.4.0"), removed_while_down, "never", (1, 3)),
    "a copy ends inside a transaction": State(three("4.3.1"), inside_a_transaction, "elected"),
    "a flipped bit in a copy": State(three("4.4.0"), each((1, flip_bit)), "elected"),
    "a flipped bit in a lone copy": State(one("4.3.1"), each((1, flip_bit)), "elected"),
    "zeros behind the logs": State(three("3.9.2"), each((1, zeros_behind), (2, zeros_behind)), "elected"),
    "two of five are lost": State(five("4.3.1"), each(), "elected", (1, 3, 5)),
    "three of five are lost": State(five("4.3.1"), each(), "never", (2, 4)),
    "one of five removed itself, and another is lost": State(five("4.3.1"), removes_itself, "elected", (1, 2, 3, 4)),
    "one of five removed itself, and two are lost": State(five("4.3.1"), removes_itself, "never", (1, 2, 3)),
    "three of five are empty, with their old ids": State(
        five("4.3.1"), each((3, no_metadata), (4, no_metadata), (5, no_metadata)), "elected"
    ),
    "three of five name a leader that is no voter": State(five("4.4.0"), known_to_three, "elected"),
    "one of five led, and was removed": State(five("3.9.2"), its_leader_was_removed, "unknown"),
    "the same in 4.4.0": State(five("4.4.0"), its_leader_was_removed, "unknown"),
    "two controllers began anew": State(three("4.3.1"), begun_anew, "unknown"),
    "a removed voter with a vote for itself": State(three("3.9.2"), each((3, removed)), "elected"),
    "a small file beside the log is damaged": State(three("4.4.0"), each((1, garbage_side_file)), "never", (1, 2)),
    "kraft.version of a later release": State(one("4.3.1", roles=ALONE), unknown_version, "never"),
    "the same in 3.9.2": State(one("3.9.2", roles=ALONE), unknown_version, "never"),
    "voters without directory ids": State(one("4.3.1", roles=ALONE), voters_without_ids, "elected"),
    "garbage behind the first snapshot": State(one("4.3.1", roles=ALONE), garbage_behind_the_snapshot, "never"),
    "two states name two leaders of an epoch": State(three("4.3.1"), two_leaders_of_an_epoch, "unknown", (1, 2)),
    "no epoch is left": State(one("4.3.1"), each((1, last_epoch)), "never"),
    "the state of another cluster": State(three("4.3.1"), state_of_another_cluster, "unknown"),
    "the same, combined": State(Kind("4.3.1", 3, BOTH, True), state_of_another_cluster, "unknown"),
    "static, another list": State(three("4.3.1", is_dynamic=False), another_list, "elected"),
    "two wiped ones begin anew": State(three("4.3.1"), each((2, empty_log), (3, empty_log)), "elected", (2, 3)),
    "one port moved, and two are wiped": State(
        three("4.3.1"), each((1, move_port), (2, no_metadata), (3, no_metadata)), "elected"
    ),
    # The other rows of facts/quorum.md.
    "another node.id": State(one("4.3.1"), each((1, another_node_id)), "never"),
    "a lone controller whose log is gone": State(one("4.4.0"), each((1, empty_log)), "elected"),
    "a lone controller that has moved": State(one("3.9.2"), each((1, move_port)), "elected"),
    "static, no directory id": State(one("3.9.2", is_dynamic=False), each((1, lose_directory_id)), "elected"),
    "static, voters that never were": State(one("4.4.0", is_dynamic=False), others_that_never_were, "never"),
    "static, a state of many voters": State(one("3.9.2", is_dynamic=False), of_many_voters, "elected"),
    "static, a record of voters": State(one("4.3.1", is_dynamic=False), voters_without_a_version, "elected"),
    "one new disk": State(three("4.4.0"), each((3, no_metadata), (3, new_directory_id)), "elected"),
    "one directory id is lost": State(three("3.9.2"), each((1, lose_directory_id)), "elected"),
    "two directory ids are lost": State(three("4.4.0"), each((1, lose_directory_id), (2, lose_directory_id)), "never"),
    "two new disks": State(
        three("3.9.2"), each(*((n, fault) for n in (2, 3) for fault in (no_metadata, new_directory_id))), "never"
    ),
    "no state at all": State(three("4.4.0"), each((1, no_state), (2, no_state), (3, no_state)), "elected"),
    "one state is garbage": State(three("3.9.2"), each((1, garbage_state)), "elected"),
    "one has another node.id": State(three("4.4.0"), each((3, another_node_id)), "elected"),
    "one has another cluster id": State(three("3.9.2"), each((3, another_cluster)), "elected"),
    "one log is older": State(three("3.9.2"), each((3, cut_log)), "elected"),
    "one listens elsewhere": State(three("4.4.0"), each((2, move_port)), "elected"),
    "combined, two are lost": State(Kind("3.9.2", 3, BOTH, True), each(), "never", (1,)),
    "combined, two new disks": State(
        Kind("4.4.0", 3, BOTH, True),
        each(*((n, fault) for n in (2, 3) for fault in (no_metadata, new_directory_id))),
        "never",
    ),
    "combined and static, two are lost": State(Kind("4.4.0", 3, BOTH, False), each(), "never", (2,)),
    "static, one is empty": State(three("3.9.2", is_dynamic=False), each((3, no_metadata)), "elected"),
    "static, two new disks": State(
        three("4.4.0", is_dynamic=False), each((2, no_metadata), (3, no_metadata)), "elected"
    ),
}


def other_kinds(state: State) -> Iterator[Kind]:
    """Yield each release, combined and dedicated. What happens to a lone node happens to one of three, too."""
    sizes = (1, 3) if state.kind.size == 1 else (state.kind.size,)
    for version, size, roles in itertools.product(VERSIONS, sizes, (ALONE, BOTH) if state.kind.size < 5 else (ALONE,)):
        yield Kind(version, size, roles, state.kind.is_dynamic)


def all_kinds() -> dict[str, tuple[str, Kind]]:
    """Each state in each kind in which it has no row of its own."""
    own = {(state.change, state.kind) for state in STATES.values()}
    found = {
        (state.change, state.starting, kind): (name, kind)
        for name, state in reversed(STATES.items())  # the first name of a change is kept
        for kind in other_kinds(state)
        if (state.change, kind) not in own
    }
    return {f"{name}, {kind.name}": (name, kind) for name, kind in sorted(found.values(), key=str)}


OTHER_KINDS = all_kinds()


def check_what_was_said(name: str, kind: Kind, work: pathlib.Path) -> None:
    """What klogtool says before a start is what happens, and what a person sees then is known."""
    state = STATES[name]
    CHANCE.seed(name)
    nodes = lived(kind, work)
    state.change(nodes)
    starting = (state.kind.size == kind.size and state.starting) or list(nodes.ports)
    told = told_of(nodes, starting)
    truth = run_as_told(nodes, told, starting)
    assert not list(differences_of(nodes, told, truth)), (told.quorum, truth.ended)
    assert kind != state.kind or told.quorum["leader"] == state.leader  # elsewhere other copies go further
    for node, said in truth.said.items():
        known = {one.situation.name for one in recognise(said)} - {"starting-voters"}
        assert truth.leader or known, (node, said[-2000:])


@pytest.mark.parametrize("name", STATES)
def test_real_nodes_do_what_was_said(name: str, tmp_path: pathlib.Path) -> None:
    check_what_was_said(name, STATES[name].kind, tmp_path)


@pytest.mark.parametrize("case", OTHER_KINDS if EVERY else chance("kinds").sample(list(OTHER_KINDS), A_NIGHT))
def test_nodes_of_other_kinds_do_what_was_said(case: str, tmp_path: pathlib.Path) -> None:
    check_what_was_said(*OTHER_KINDS[case], tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leader", [1, 2])
def test_the_lines_for_two_new_disks_are_run_and_nobody_ends(leader: int, version: str, tmp_path: pathlib.Path) -> None:
    """Node 1 led, by a vote for itself, or takes node 2 for the leader, as after a kill; nodes 2 and 3 have new disks
    (hasConsistentLeader)."""
    nodes = lived(three(version), tmp_path)
    before = log_of(nodes, 1).position
    voted = (1, parse_uuid(directory_id_of(nodes, 1))) if leader == 1 else (-1, bytes(16))
    state = QuorumState(1, leader, before.epoch, *voted)
    (nodes.metadata(1) / "quorum-state").write_bytes(build_quorum_state(state))
    for node in (2, 3):
        no_metadata(nodes, node, CHANCE)
        new_directory_id(nodes, node, CHANCE)
    done = run_here(["quorum", *(str(nodes.disk(n)) for n in nodes.ports)], tmp_path)
    for line in re.findall(r"^  (sed .*)$", done.out.decode(), flags=re.MULTILINE):
        subprocess.run(["bash", "-c", line], check=True)
    assert told_of(nodes, list(nodes.ports)).quorum["leader"] == "elected"
    truth = nodes.run()
    assert (truth.leader, truth.ended) == (1, {})
    assert log_of(nodes, 1).position > before


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_who_knows_another_leader_of_an_epoch_than_the_others_ends(version: str, tmp_path: pathlib.Path) -> None:
    """Node 1 takes node 2 for the leader of an epoch that the others do not know, and in which they elect node 3: it
    starts when that is so (KafkaRaftClient.maybeTransition). Before there were pre-votes, node 2 itself might raise the
    epoch first."""
    nodes = lived(three(version), tmp_path)
    epoch = log_of(nodes, 3).position.epoch
    for node, leader, known in ((1, 2, epoch + 1), (2, -1, epoch), (3, -1, epoch)):
        state = QuorumState(1, leader, known, -1, bytes(16))
        (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))
    cut_log(nodes, 2, CHANCE)  # so nobody votes for it
    assert "leader-known-to-few" in told_of(nodes, list(nodes.ports)).quorum["causes"]
    truth = nodes.run(late=[1], ending=[1])
    assert truth.leader == 3
    assert re.search(rf"FollowerState\(.*epoch={epoch + 1}, leader(Id)?=3", truth.said[2]), truth.said[2][-3000:]
    assert list(truth.ended) == [1], truth.said[1][-3000:]
    assert recognise(truth.said[1])


RESCUES: dict[str, tuple[Kind, Callable[[Nodes], object]]] = {
    "inside a transaction": (three("4.3.1"), inside_a_transaction),
    "features in the snapshot": (three("4.4.0"), each((1, newer_snapshot))),
    "zeros behind the log": (three("4.3.1"), each((1, zeros_behind))),
    "the only voter of 4.4.0 becomes static": (one("4.4.0", roles=ALONE), each()),
}


@pytest.mark.parametrize("name", RESCUES)
def test_one_controller_that_is_left_becomes_the_only_voter(name: str, tmp_path: pathlib.Path) -> None:
    """Topics, features and settings are as before; a transaction that had no end is aborted."""
    kind, change = RESCUES[name]
    nodes = lived(kind, tmp_path)
    change(nodes)
    before = read_cluster_metadata(str(nodes.metadata(1)))
    lost = [word for n in nodes.ports if n != 1 for word in ("--destroyed", str(n))]
    words = ["quorum", str(nodes.disk(1)), "--config-file", str(nodes.file(1)), "--standalone", *lost]
    words += ["--kafka", kind.version]
    words += ["--static"] if "static" in name else ["--accept-loss"]
    done = run_here([*words, "--apply"], tmp_path)
    assert done.status == 0, done.err
    if "static" in name:
        del nodes.settings[1]["controller.quorum.bootstrap.servers"]
        nodes.settings[1]["controller.quorum.voters"] = f"1@127.0.0.1:{nodes.ports[1]}"
    truth = nodes.run([1])
    assert (truth.leader, truth.ended) == (1, {})
    after = read_cluster_metadata(str(nodes.metadata(1)))
    assert (after.problem, after.topic_ids, after.features) == (None, before.topic_ids, before.features)
    assert after.features
    assert "orders" not in after.topic_ids


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_two_of_three_of_a_static_quorum_are_lost(version: str, is_dynamic: bool, tmp_path: pathlib.Path) -> None:
    """As it is said: its settings name only the one that is left, without its quorum-state; or it becomes dynamic."""
    nodes = lived(three(version, is_dynamic=False), tmp_path)
    append_records(nodes, 1, TOPIC)
    before = read_cluster_metadata(str(nodes.metadata(1)))
    words = ["quorum", str(nodes.disk(1)), "--config-file", str(nodes.file(1)), "--kafka", version]
    told = run_here(words, tmp_path)
    assert (told.status, b"delete quorum-state of the controller that is left" in told.out) == (1, True)
    if is_dynamic:
        lost = ["--standalone", "--destroyed", "2", "--destroyed", "3", "--accept-loss", "--apply"]
        done = run_here([*words, *lost], tmp_path)
        assert (done.status, b"remove controller.quorum.voters" in done.out) == (0, True), done.err
        dynamic_settings(nodes, 1, CHANCE)
    else:
        no_state(nodes, 1, CHANCE)
        nodes.settings[1]["controller.quorum.voters"] = f"1@127.0.0.1:{nodes.ports[1]}"
    assert told_of(nodes, [1]).quorum["leader"] == "elected"
    truth = nodes.run([1])
    assert (truth.leader, truth.ended) == (1, {})
    after = read_cluster_metadata(str(nodes.metadata(1)))
    assert (after.topic_ids, after.features, "orders" in after.topic_ids) == (before.topic_ids, before.features, True)
    assert (after.quorum.voters is not None) is is_dynamic


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_has_the_best_copy_and_a_voter_gets_it(version: str, tmp_path: pathlib.Path) -> None:
    """By the lines that are printed. Without them the topic is cut away."""
    nodes = lived(three(version), tmp_path)
    longest = max(nodes.ports, key=lambda n: log_of(nodes, n).position)
    broker = tmp_path / "n9"
    shutil.copytree(nodes.disk(longest), broker)
    meta = (broker / "meta.properties").read_text().replace(f"node.id={longest}", "node.id=9")
    own = directory_id_of(nodes, longest)
    (broker / "meta.properties").write_text(meta.replace(own, "kAhN5UfKTXmouKliDVLmuw"))
    for path in broker.glob("__cluster_metadata-0/*.checkpoint"):
        path.unlink()
    (broker / "__cluster_metadata-0/quorum-state").unlink()
    nodes.ports[9] = 0
    append_records(nodes, 9, TOPIC)
    del nodes.ports[9]
    disks = [str(nodes.disk(n)) for n in (1, 2, 3, 9)]
    told = run_here(["quorum", *disks, "--kafka", version, "--json"], tmp_path)
    row = json.loads(told.out.splitlines()[-1])
    assert (row["most_complete"], len(row["would_be_lost"]), row["would_be_lost_records"]) == (str(broker), 1, 1)
    for line in (line for line in row["cures"] if line.startswith(("rm ", "mv "))):
        subprocess.run(["bash", "-c", line], check=True)
    (first,) = (line for line in row["cures"] if "with 1 of the other voters; once it leads, start the rest" in line)
    (node,) = (node for node in nodes.ports if f"the controller of {nodes.disk(node)} " in first)
    for other in nodes.ports:
        state = nodes.metadata(other) / "quorum-state"
        assert not state.exists() or json.loads(state.read_bytes())["leaderId"] != node
    assert nodes.run([node, min(set(nodes.ports) - {node})]).leader == node
    assert nodes.run([1, 2, 3]).leader is not None
    assert "orders" in read_cluster_metadata(str(nodes.metadata(1))).topic_ids


@pytest.mark.parametrize("version", VERSIONS)
def test_a_salvaged_log_of_a_lone_controller_is_replayed(version: str, tmp_path: pathlib.Path) -> None:
    """A record that changed nothing was damaged: what came after it is there, and the controller goes on."""
    nodes = lived(one(version, roles=ALONE), tmp_path)
    before, folder = read_cluster_metadata(str(nodes.metadata(1))), str(nodes.metadata(1))
    end = log_of(nodes, 1).position
    damage_nothing(nodes, 1, CHANCE)
    assert log_of(nodes, 1).position < end
    asked = ["doctor", str(nodes.disk(1)), "--kafka", version]
    assert f"klogtool salvage {folder}" in run_here(asked, tmp_path).out.decode()
    run_here([*asked, "--fix", "--option", "1", "--plan-out", "plan.json"], tmp_path)
    done = run_here(["apply", "plan.json"], tmp_path)
    assert done.status in (0, 1), done.err  # 1: a batch is lost
    assert "salvage" in done.out.decode()
    assert log_of(nodes, 1).position == end
    truth = nodes.run()
    assert (truth.leader, truth.ended) == (1, {})
    after = read_cluster_metadata(folder)
    assert (after.problem, after.topic_ids, after.features) == (None, before.topic_ids, before.features)
    assert log_of(nodes, 1).position > end


def test_the_only_copy_that_is_left_is_damaged_and_salvaged(tmp_path: pathlib.Path) -> None:
    """What is behind the damage is kept, and the node leads as the only voter."""
    nodes = lived(three("4.3.1"), tmp_path)
    append_records(nodes, 1, TOPIC)
    before, folder = read_cluster_metadata(str(nodes.metadata(1))), nodes.metadata(1)
    damage_nothing(nodes, 1, CHANCE)
    words = ["quorum", str(nodes.disk(1)), "--standalone", "--destroyed", "2", "--destroyed", "3", "--accept-loss"]
    refused = run_here([*words, "--apply"], tmp_path)
    assert (refused.status, f"klogtool salvage {folder} --output DIR" in refused.err) == (3, True)
    assert run_here(["salvage", str(folder), "--output", "salvaged"], tmp_path).status == 1
    folder.rename(tmp_path / "damaged")
    (tmp_path / "salvaged").rename(folder)
    done = run_here([*words, "--apply"], tmp_path)
    assert done.status == 0, done.err
    truth = nodes.run([1])
    assert (truth.leader, truth.ended) == (1, {})
    after = read_cluster_metadata(str(folder))
    assert (after.problem, after.topic_ids, after.features) == (None, before.topic_ids, before.features)
    assert "orders" in after.topic_ids


@pytest.mark.parametrize("version", VERSIONS)
def test_host_names_that_do_not_resolve(version: str, tmp_path: pathlib.Path) -> None:
    """What was taken for granted is told, nobody leads, and what the nodes log then is known."""
    nodes = lived(three(version), tmp_path)
    named = [
        replace(known, endpoints=tuple(replace(end, host=f"controller-{known.id}.invalid") for end in known.endpoints))
        for known in voters_of(nodes, list(nodes.ports))
    ]
    for node, port in nodes.ports.items():
        append_voters(nodes, node, named)
        advertised = {"advertised.listeners": f"CONTROLLER://controller-{node}.invalid:{port}"}
        nodes.settings[node] |= {"listeners": f"CONTROLLER://:{port}"} | advertised
    told = told_of(nodes, list(nodes.ports)).quorum
    assert told["leader"] == "elected"
    assert all(f"controller-{n}.invalid" in told["why"] for n in nodes.ports)
    truth = nodes.run()
    assert (truth.leader, truth.ended) == (None, {})
    (line, *_) = re.findall(r"^.*Error connecting to node controller-.*$", truth.said[1], flags=re.MULTILINE)
    assert recognise(line)[0].situation.name == "host-name-unresolved"
