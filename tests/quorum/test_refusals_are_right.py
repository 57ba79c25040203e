"""What `quorum --standalone` refuses, done all the same on real controllers: the harm that it says comes of it."""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
import time

import pytest
from judge.nodes import ALONE, BOTH, CLUSTER, Kind, Nodes, lived
from judge.quorum_faults import (
    ANOTHER_ID,
    another_cluster,
    append_records,
    append_voters,
    directory_id_of,
    edit_identity,
    empty_log,
    flip_bit,
    log_of,
    tear_log,
    voters_of,
)
from msgspec.structs import replace
from quorums import TOPIC, control_batch, new_topic
from running import Done, run_here

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.log.partition import Partition
from klogtool.quorum.metadata_copies import CopiesApart, compare

pytestmark = [pytest.mark.nightly, pytest.mark.shared]
CHANCE = random.Random(11)
LOST = ("--destroyed", "2", "--destroyed", "3", "--accept-loss")


@pytest.fixture(params=["4.3.1", "3.9.2", "4.4.0"])
def nodes(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Nodes:
    """Three controllers, of which all know a topic."""
    made = lived(Kind(request.param, 3, ALONE, True), tmp_path)
    assert made.run().leader
    for node in made.ports:
        (made.metadata(node) / "quorum-state").unlink()
        end = max(log_of(made, n).position for n in made.ports)
        if log_of(made, node).position < end:
            copy_log(made, max(made.ports, key=lambda n: log_of(made, n).position), node)
    for node in made.ports:
        append_records(made, node, TOPIC)
    return made


def copy_log(nodes: Nodes, source: int, target: int) -> None:
    """The same bytes, so that both are one log."""
    for path in (*nodes.metadata(source).glob("*.log"), nodes.metadata(source) / "leader-epoch-checkpoint"):
        (nodes.metadata(target) / path.name).write_bytes(path.read_bytes())


def asked(nodes: Nodes, *disks: int, words: tuple[str, ...] = LOST) -> Done:
    paths = [str(nodes.disk(n)) for n in disks]
    return run_here(["quorum", *paths, "--standalone", *words, "--apply", "--kafka", nodes.kind.version], nodes.work)


def refused(nodes: Nodes, *disks: int, words: tuple[str, ...] = LOST) -> str:
    done = asked(nodes, *disks, words=words)
    assert (done.status, done.out) == (3, b""), done.err
    return done.err


def topics(nodes: Nodes, node: int) -> set[str]:
    return set(read_cluster_metadata(str(nodes.metadata(node))).topic_ids)


def test_a_majority_that_is_here_elects_by_itself(nodes: Nodes) -> None:
    assert "they elect a leader by themselves, and lose less" in refused(nodes, 1, 2)
    truth = nodes.run([1, 2])
    assert truth.leader in (1, 2)
    assert "orders" in topics(nodes, truth.leader or 0)


def test_disks_with_only_their_first_snapshot_elect_an_empty_leader(nodes: Nodes) -> None:
    for node in (2, 3):
        empty_log(nodes, node, CHANCE)
    told = refused(nodes, 1, 2, 3)
    assert "all topics would be lost" in told
    assert f"start the controller of {nodes.disk(1)} with 1 of the other voters; once it leads, start the rest" in told
    kept = nodes.work / "kept"
    for node in nodes.ports:
        shutil.copytree(nodes.disk(node), kept / f"n{node}")
    truth = nodes.run([2, 3])
    assert truth.leader in (2, 3)
    assert not topics(nodes, truth.leader or 0)
    for node in nodes.ports:  # what is said to be done
        shutil.rmtree(nodes.disk(node))
        (kept / f"n{node}").rename(nodes.disk(node))
    assert nodes.run([1, 2]).leader == 1
    assert nodes.run([1, 2, 3]).leader is not None
    assert "orders" in topics(nodes, 1)


def test_a_copy_that_is_behind_costs_what_the_better_one_has(nodes: Nodes) -> None:
    append_records(nodes, 2, new_topic(500))
    words = ("--voters", f"1@127.0.0.1:{nodes.ports[1]}", *LOST)
    told = run_here(["quorum", *(str(nodes.disk(n)) for n in (1, 2)), *words, "--apply"], nodes.work)
    assert (told.status, "has 1 record of metadata more" in told.err) == (3, True)
    lone = nodes.disk(2)
    lone.rename(nodes.work / "aside")
    assert asked(nodes, 1).status == 0  # done all the same: the better copy is not named
    (nodes.work / "aside").rename(lone)
    assert "orders-500" in topics(nodes, 2)
    assert nodes.run([1]).leader == 1
    for _ in range(5):  # until node 2 has heard of the leader
        assert nodes.run([1, 2]).leader == 1
        if "orders-500" not in topics(nodes, 2):
            break
    assert (topics(nodes, 1), topics(nodes, 2)) == ({"orders"}, {"orders"})


def test_old_disks_that_start_elect_a_leader_of_their_own(nodes: Nodes) -> None:
    assert "they would elect a leader of their own" in refused(nodes, 1, words=("--accept-loss",))
    assert asked(nodes, 1).status == 0  # named as destroyed, and they are not
    assert nodes.run([1]).leader == 1
    assert nodes.run([2, 3]).leader in (2, 3)
    assert log_of(nodes, 1).position.epoch > 1000 > log_of(nodes, 2).position.epoch


def test_two_logs_stay_two(nodes: Nodes) -> None:
    """Kafka compares epochs and offsets only."""
    for node, topic in ((1, 500), (2, 600), (3, 600)):
        append_records(nodes, node, new_topic(topic))
    assert "these are two logs" in refused(nodes, 1, 2)
    truth = nodes.run([1, 2, 3])
    assert truth.leader is not None
    others = {node for node in (2, 3) if isinstance(compare(str(nodes.disk(1)), str(nodes.disk(node))), CopiesApart)}
    assert others == {2, 3}
    assert topics(nodes, 1) != topics(nodes, 2)


def test_a_start_cuts_a_damaged_log_at_the_damage(nodes: Nodes) -> None:
    end = log_of(nodes, 1).position.end_offset
    flip_bit(nodes, 1, CHANCE)
    assert "is damaged" in refused(nodes, 1)
    assert nodes.run([1]).leader is None
    assert log_of(nodes, 1).position.end_offset < end


def test_a_log_dir_that_is_in_use_is_refused(nodes: Nodes) -> None:
    """By a controller that waits for the others."""
    with (nodes.work / "out").open("wb") as out:
        command = nodes.java("kafka.Kafka", str(nodes.file(1)))
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while "Starting voters" not in (nodes.work / "out").read_text(errors="replace"):
            assert time.monotonic() < end
            time.sleep(0.3)
        before = log_of(nodes, 1).position
        assert "in use" in refused(nodes, 1)
        assert log_of(nodes, 1).position == before
    finally:
        process.kill()
        process.wait()


def test_what_only_the_others_have_is_lost(nodes: Nodes) -> None:
    """Without --accept-loss: nodes 2 and 3 have committed a topic since node 1 stopped."""
    for node in (2, 3):
        append_records(nodes, node, new_topic(500))
    assert nodes.run([2, 3]).leader in (2, 3)
    assert "orders-500" in topics(nodes, 2) & topics(nodes, 3)
    assert "committed ones as well: how many cannot be known" in refused(nodes, 1, words=LOST[:-1])
    assert asked(nodes, 1).status == 0
    assert nodes.run([1]).leader == 1
    assert topics(nodes, 1) == {"orders"}


@pytest.mark.parametrize("committed", [1, 9])
def test_no_disk_here_tells_which_of_two_ends_was_committed(nodes: Nodes, committed: int) -> None:
    """Node 1 led an epoch of its own, which a broker does not have; the broker has records of the epoch before. Nodes 2
    and 3 went on from one of the two, and are lost. The disks that are here are the same both times."""
    append_records(nodes, 2, new_topic(600))
    broker = a_broker_with_the_copy_of(nodes, 2)
    append_voters(nodes, 1, voters_of(nodes, [1, 2, 3]), epochs=1)
    append_records(nodes, 1, new_topic(500))
    topic = "orders-500" if committed == 1 else "orders-600"
    for node in (2, 3):
        copy_log(nodes, 1 if committed == 1 else 2, node)
    before = {path: path.read_bytes() for path in nodes.disk(1).rglob("*.log")}
    assert nodes.run([2, 3]).leader in (2, 3)
    assert topics(nodes, 2) == topics(nodes, 3) == {"orders", topic}
    words = ["quorum", str(nodes.disk(1)), str(broker), "--standalone", *LOST, "--apply", "--kafka", nodes.kind.version]
    told = run_here(words, nodes.work)
    assert (told.status, "No disk here tells which of the two were committed" in told.err) == (3, True)
    assert before == {path: path.read_bytes() for path in nodes.disk(1).rglob("*.log")}
    assert asked(nodes, 1).status == 0  # the other copy is left out: a guess
    assert nodes.run([1]).leader == 1
    assert topics(nodes, 1) == {"orders", "orders-500"}  # right for one of the two histories


def a_broker_with_the_copy_of(nodes: Nodes, node: int) -> pathlib.Path:
    """The metadata log dir of a broker that has fetched what this controller has."""
    broker = nodes.work / "n9"
    shutil.copytree(nodes.disk(node), broker)
    meta = (broker / "meta.properties").read_text().replace(f"node.id={node}", "node.id=9")
    (broker / "meta.properties").write_text(meta.replace(directory_id_of(nodes, node), ANOTHER_ID))
    for path in broker.glob("__cluster_metadata-0/*.checkpoint"):
        path.unlink()
    return broker


def test_what_a_later_epoch_went_on_without_is_lost(nodes: Nodes) -> None:
    """Without --accept-loss: node 2 has more of the old epoch, node 1 a later one. They have moved, node 3 is lost."""
    append_records(nodes, 2, new_topic(600))
    append_voters(nodes, 1, voters_of(nodes, [1, 2, 3]), epochs=1)
    for node, port in nodes.ports.items():
        nodes.ports[node] = port + 1
        nodes.settings[node]["listeners"] = f"CONTROLLER://127.0.0.1:{port + 1}"
    servers = ",".join(f"127.0.0.1:{port}" for port in nodes.ports.values())
    for node in nodes.ports:
        nodes.settings[node]["controller.quorum.bootstrap.servers"] = servers
    voters = ",".join(f"{n}@127.0.0.1:{nodes.ports[n]}" for n in (1, 2))
    words = ["quorum", str(nodes.disk(1)), str(nodes.disk(2)), "--voters", voters, "--destroyed", "3", "--apply"]
    told = run_here([*words, "--kafka", nodes.kind.version], nodes.work)
    assert (told.status, "a later epoch, which went on without them" in told.err) == (3, True), told.err
    assert run_here([*words, "--kafka", nodes.kind.version, "--accept-loss"], nodes.work).status == 0
    assert "orders-600" in topics(nodes, 2)
    assert nodes.run([1, 2]).leader is not None
    assert topics(nodes, 1) == topics(nodes, 2) == {"orders"}


def test_a_node_of_another_cluster_does_not_vote(nodes: Nodes) -> None:
    another_cluster(nodes, 2, CHANCE)
    assert "are of different clusters" in refused(nodes, 1, 2)
    made_voters(nodes, 1, 2)
    truth = nodes.run([1, 2])
    assert truth.leader is None
    assert "INCONSISTENT_CLUSTER_ID" in "".join(truth.said.values())


def made_voters(nodes: Nodes, *ids: int) -> None:
    """What is refused is done all the same, by hand, in the copy of the first of them."""
    append_voters(nodes, ids[0], voters_of(nodes, ids), epochs=1000)
    state = QuorumState(1, -1, log_of(nodes, ids[0]).position.epoch, -1, bytes(16))
    (nodes.metadata(ids[0]) / "quorum-state").write_bytes(build_quorum_state(state))


def test_a_disk_and_its_copy_are_one_voter(nodes: Nodes) -> None:
    """Node 2 has a copy of the other one's disk, with its node.id."""
    shutil.rmtree(nodes.disk(2))
    shutil.copytree(nodes.disk(1), nodes.disk(2))
    nodes.settings[2]["node.id"] = "1"
    done = asked(nodes, 1, 2)
    assert (done.status, "are both of node 1: name one at a time" in done.err) == (2, True), done.err
    made_voters(nodes, 1, 2)
    copy_log(nodes, 1, 2)
    truth = nodes.run([1, 2])
    assert (truth.leader, truth.ended) == (None, {})
    assert "doesn't match the local key" in truth.said[2]


def test_two_controllers_may_have_one_directory_id(nodes: Nodes) -> None:
    """It is not refused, where the settings say that they are no brokers."""
    edit_identity(nodes, 2, "directory.id", directory_id_of(nodes, 1))
    voters = ",".join(f"{n}@127.0.0.1:{nodes.ports[n]}" for n in (1, 2))
    words = ["quorum", str(nodes.disk(1)), str(nodes.disk(2)), "--voters", voters, "--destroyed", "3", "--accept-loss"]
    words += ["--destroyed", "2", "--kafka", nodes.kind.version, "--apply"]
    assert run_here(words, nodes.work).status == 3
    files = [word for n in (1, 2) for word in ("--config-file", str(nodes.file(n)))]
    done = run_here([*words, *files], nodes.work)
    assert done.status == 0, done.err
    truth = nodes.run([1, 2])
    assert (truth.leader, truth.ended) == (1, {})


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2", "4.4.0"])
def test_of_two_brokers_with_one_directory_id_one_ends(version: str, tmp_path: pathlib.Path) -> None:
    nodes = lived(Kind(version, 3, BOTH, True), tmp_path)
    edit_identity(nodes, 2, "directory.id", directory_id_of(nodes, 1))
    assert "of two brokers with one directory.id the second ends when it registers" in refused(nodes, 1, 2)
    for node in (1, 2):
        own = [replace(voter, directory_id=directory_id_of(nodes, voter.id)) for voter in voters_of(nodes, [1, 2])]
        append_voters(nodes, node, own, epochs=1000)
        (nodes.metadata(node) / "quorum-state").unlink()
    truth = nodes.run([1, 2], ending=[1, 2])
    (ended,) = truth.ended
    assert "INVALID_REGISTRATION" in truth.said[ended]


def test_a_node_ends_at_its_settings(nodes: Nodes) -> None:
    """They name other voters only. Without them nothing is refused."""
    nodes.settings[1]["controller.quorum.voters"] = "9@127.0.0.1:20999"
    words = ("--config-file", str(nodes.file(1)), *LOST)
    assert "its start ends before it looks at the quorum" in refused(nodes, 1, words=words)
    assert asked(nodes, 1).status == 0
    truth = nodes.run([1])
    assert (truth.leader, [*truth.ended]) == (None, [1])
    assert "must be included in the set of voters" in truth.said[1]


def test_voters_that_listen_elsewhere_elect_nobody(nodes: Nodes) -> None:
    """Two new voters, and one of them is not where it is said to be."""
    voters = f"1@127.0.0.1:{nodes.ports[1] + 1},2@127.0.0.1:{nodes.ports[2] + 1}"
    nodes.settings[1]["listeners"] = f"CONTROLLER://127.0.0.1:{nodes.ports[1] + 1}"
    disks = (str(nodes.disk(1)), str(nodes.disk(2)), "--kafka", nodes.kind.version)
    words = ["quorum", *disks, "--voters", voters, "--destroyed", "3", "--accept-loss", "--apply"]
    files = [word for n in (1, 2) for word in ("--config-file", str(nodes.file(n)))]
    told = run_here([*words, *files], nodes.work)
    assert (told.status, "no leader would be elected all the same: voter-endpoint-stale" in told.err) == (3, True), told
    assert run_here(words, nodes.work).status == 0
    assert nodes.run([1, 2]).leader is None


def test_no_epoch_comes_after_the_last_one(nodes: Nodes) -> None:
    """With the last epoch there is in place of a wide step: who is elected ends."""
    state = nodes.metadata(1) / "quorum-state"
    state.write_bytes(build_quorum_state(QuorumState(1, -1, 2**31 - 2, -1, bytes(16))))
    assert "no epoch is left: 2,147,483,646 and 1,000 more do not fit in 32 bits" in refused(nodes, 1)
    last = 2**31 - 1
    append_voters(nodes, 1, voters_of(nodes, [1]), epochs=last - log_of(nodes, 1).position.epoch)
    state.write_bytes(build_quorum_state(QuorumState(1, -1, last, -1, bytes(16))))
    truth = nodes.run([1])
    assert (truth.leader, [*truth.ended]) == (None, [1])


def test_what_is_behind_a_torn_batch_is_cut(nodes: Nodes) -> None:
    """Also a record of voters. After `klogtool recover` nothing is refused, and it leads."""
    tear_log(nodes, 1, CHANCE)
    told = refused(nodes, 1)
    assert ("ends with a torn batch" in told, f"klogtool recover {nodes.metadata(1)}" in told) == (True, True)
    kept, folder = nodes.work / "kept", nodes.metadata(1)
    shutil.copytree(folder, kept)
    log = log_of(nodes, 1)
    with pathlib.Path(Partition(str(folder)).segments[-1].path).open("ab") as file:
        file.write(control_batch(log.position.end_offset, log.position.epoch, voters_of(nodes, [1])))
    assert nodes.run([1]).leader is None
    assert {voter.id for voter in log_of(nodes, 1).quorum.voters or ()} == {1, 2, 3}
    shutil.rmtree(folder)
    kept.rename(folder)
    assert run_here(["recover", str(folder), "--apply"], nodes.work).status == 1  # the torn batch is lost
    assert asked(nodes, 1).status == 0
    assert nodes.run([1]).leader == 1


def test_a_leader_without_metadata_has_no_topics(nodes: Nodes) -> None:
    """Kafka's own command makes one. What is refused is no better."""
    empty_log(nodes, 1, CHANCE)
    assert "no copy here has any metadata" in refused(nodes, 1)
    shutil.rmtree(nodes.disk(1))
    main = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(nodes.file(1))]
    subprocess.run(nodes.java(*main, "--standalone"), check=True, capture_output=True)
    assert nodes.run([1]).leader == 1
    assert topics(nodes, 1) == set()


def test_who_has_not_followed_a_static_voter_goes_by_the_old_set(nodes: Nodes) -> None:
    """Nodes 2 and 3 elect each other then. One that follows first has the same voters as the settings afterwards."""
    voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in nodes.ports.items())
    words = ["quorum", *(str(nodes.disk(n)) for n in nodes.ports), "--static", *LOST, "--kafka", nodes.kind.version]
    told = run_here([*words, "--voters", voters, "--apply"], nodes.work)
    assert (told.status, "they go by their old set, and may elect each other" in told.err) == (3, True), told.err
    assert asked(nodes, 1, words=("--static", *LOST)).status == 0  # with one voter
    for settings in nodes.settings.values():
        del settings["controller.quorum.bootstrap.servers"]
        settings["controller.quorum.voters"] = voters
    kept = nodes.work / "kept"
    shutil.copytree(nodes.disk(2), kept)
    assert nodes.run([2, 3]).leader in (2, 3)
    assert log_of(nodes, 1).position.epoch > 1000 > log_of(nodes, 2).position.epoch
    assert log_of(nodes, 2).quorum.voters is not None
    shutil.rmtree(nodes.disk(2))
    kept.rename(nodes.disk(2))
    assert nodes.run([1, 2]).leader is not None
    assert [log_of(nodes, n).quorum.voters for n in (1, 2)] == [None, None]
    assert topics(nodes, 1) == topics(nodes, 2) == {"orders"}
