"""Dedicated controllers that elect no leader any more, and a broker: a leader is elected again, and nothing is lost.

Each rescue is carried out as klogtool says it, in each release. What is lost: two disks of three, of a dynamic or a
static quorum; all controllers, and the broker's copy of the metadata is left; the disk of the only controller, or its
directory id; the addresses of all three; the logs of two, with which an empty leader may be elected; or kraft.version.
Afterwards topics have their ids, settings, access rules, credentials, committed offsets and records, the broker
registers, a producer goes on, and three controllers vote: those that were not there have joined.
"""

from __future__ import annotations

import pathlib
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from judge.nodes import CLUSTER, METADATA
from judge.quorum_faults import (
    another_cluster,
    another_node_id,
    append_records,
    damage_nothing,
    directory_id_of,
    edit_identity,
    empty_log,
    log_of,
    lose_directory_id,
    zeros_behind,
)
from quorums import BEGIN, new_topic
from running import run_here

from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.kraft_snapshot import Voter
from klogtool.quorum.metadata_copies import CopiesApart, compare

from .dedicated import Dedicated, can_listen, dedicated, run_lines
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
RELEASES = ("4.3.1", "3.9.2", "4.4.0")
PASTED = r"^  ((?:rm|sed) .*)$"
LOST = ("--standalone", "--destroyed", "2", "--destroyed", "3", "--accept-loss")
CHANCE = random.Random(13)
SNAPSHOTS = "metadata.log.max.snapshot.interval.ms"


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-quorum-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


Known = dict[str, object]


def begin(cluster: Dedicated) -> Known:
    """Start and fill it. It is stopped afterwards."""
    cluster.start(*cluster.founders)
    cluster.broker.start(timeout=150)
    cluster.fill()
    known = cluster.known()
    assert known["rules"]
    assert known["committed"]
    assert "SCRAM" in str(known["settings"])
    if SNAPSHOTS in cluster.nodes.settings[1]:
        wait_for_a_snapshot(cluster.nodes.metadata(1))
    cluster.broker.stop()
    cluster.stop(*cluster.founders)
    return known


def wait_for_a_snapshot(metadata: Path) -> None:
    """Until there is one that was begun now or later."""
    now, end = time.time(), time.monotonic() + 60
    while not any(path.stat().st_mtime > now + 1 for path in metadata.glob("*.checkpoint")):
        assert time.monotonic() < end


def serves(cluster: Dedicated, before: Known, leader: int, *voters: int, topic: str = "fresh") -> Known:
    """The broker comes back to the new quorum; nothing is lost, and all goes on. Return what is there then."""
    cluster.broker.start(timeout=150)
    assert cluster.known() == before
    assert cluster.voters(leader) == {*voters}
    cluster.go_on(topic)
    return before | {"values": cluster.values()}


def check(cluster: Dedicated, before: Known, leader: int = 1) -> None:
    """The whole: so it is with all controllers as voters. All nodes stop and start once more then: what they had, with
    what is new since the rescue, is still there."""
    everyone = [*cluster.nodes.ports]
    known = serves(cluster, before, leader, *everyone)
    cluster.broker.stop()
    cluster.stop(*everyone)
    cluster.start(*everyone)
    (leader,) = cluster.leaders()
    serves(cluster, known, leader, *everyone, topic="after-a-restart")


def check_with_others(cluster: Dedicated, before: Known) -> None:
    """Node 1, which was started, leads alone; the others join on new disks."""
    cluster.settle(1)
    others = [n for n in cluster.nodes.ports if n != 1]
    for node in others:
        cluster.new_disk(node)
    cluster.join(1, *others)
    check(cluster, before)


def klogtool(cluster: Dedicated, *words: object, status: int = 0) -> str:
    """What `quorum` prints, with what is an error."""
    done = run_here(["quorum", *map(str, words), "--kafka", cluster.nodes.kind.version], cluster.work)
    assert done.status == status, done.err
    return done.out.decode() + done.err


def settings_of(cluster: Dedicated, *nodes: int) -> list[str]:
    """Of these nodes, and of their release."""
    files = [word for n in nodes for word in ("--config-file", str(cluster.nodes.file(n)))]
    return [*files, "--kafka", cluster.nodes.kind.version]


@pytest.mark.parametrize("version", RELEASES)
def test_two_of_three_are_lost(version: str, folder: Path) -> None:
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        cluster.lose(2)
        cluster.lose(3)
        copies = [str(cluster.nodes.disk(1)), str(cluster.broker_copy)]
        lost = ["--destroyed", "2", "--destroyed", "3", "--accept-loss"]
        words = ["quorum", *copies, *settings_of(cluster, 1), "--standalone", *lost, "--apply"]
        done = run_here(words, folder)
        if done.status == 3:  # the broker may have one record more
            assert run_lines(done.err, r"First take the better copy: (.*)$", folder)
            done = run_here(words, folder)
        assert done.status == 0, done.err
        cluster.start(1)
        cluster.settle(1)
        cluster.join_as_printed(done.out.decode(), 2, 3)
        check(cluster, before)
        cluster.stop(1)
        assert cluster.leaders()
        cluster.go_on(topic="with-two")


@pytest.mark.parametrize(("version", "size"), [("4.3.1", 1), ("3.9.2", 1), ("4.4.0", 3), ("4.3.1", 3), ("3.9.2", 5)])
def test_all_controllers_are_lost_and_a_broker_has_a_copy(version: str, size: int, folder: Path) -> None:
    with dedicated(version, size, folder) as cluster:
        before = begin(cluster)
        for node in cluster.nodes.ports:
            cluster.new_disk(node)
        copies = [str(cluster.nodes.disk(1)), str(cluster.broker_copy)]
        lost = [word for n in cluster.nodes.ports for word in ("--destroyed", str(n))]
        words = ["quorum", *copies, *settings_of(cluster, 1), "--standalone", *lost, "--accept-loss", "--apply"]
        refused = run_here(words, folder)
        assert refused.status == 3
        assert run_lines(refused.err, r"First take the better copy: (.*)$", folder)
        done = run_here(words, folder)
        assert done.status == 0, done.err
        cluster.start(1)
        cluster.settle(1)
        cluster.join(1, *(n for n in cluster.nodes.ports if n != 1))
        check(cluster, before)


@pytest.mark.parametrize(
    ("version", "host"),
    [
        ("4.3.1", "localhost"),
        ("4.3.1", "127.0.0.2"),
        ("4.3.1", "[::1]"),
        ("3.9.2", "localhost"),
        ("4.4.0", "127.0.0.2"),
    ],
)
def test_three_controllers_come_back_under_another_host_name(version: str, host: str, folder: Path) -> None:
    if not can_listen(host.strip("[]")):
        pytest.skip(f"this machine has no {host}")
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        ports = [cluster.module.free_port() for _ in cluster.nodes.ports]
        cluster.move_to({n: f"{host}:{port}" for n, port in zip(cluster.nodes.ports, ports, strict=True)})
        disks = [str(cluster.nodes.disk(n)) for n in cluster.nodes.ports]
        voters = ",".join(f"{n}@{address}" for n, address in cluster.addresses.items())
        files = settings_of(cluster, *cluster.nodes.ports)
        before_it = run_here(["quorum", *disks, *files, "--format", "json"], folder)
        assert '"leader":"never"' in before_it.out.decode()
        done = run_here(["quorum", *disks, *files, "--voters", voters, "--apply"], folder)
        assert done.status == 0, done.err
        cluster.start(*cluster.nodes.ports)
        (leader,) = cluster.leaders()
        check(cluster, before, leader)


@pytest.mark.parametrize("version", RELEASES)
def test_the_directory_id_of_the_only_controller_is_written_back(version: str, folder: Path) -> None:
    """By the doctor's first option. No log is changed."""
    with dedicated(version, 3, folder, founders=1) as cluster:
        before = begin(cluster)
        meta, log = cluster.nodes.disk(1) / "meta.properties", cluster.nodes.metadata(1) / f"{0:020}.log"
        was, data = sorted(meta.read_text().split()), log.read_bytes()
        lose_directory_id(cluster.nodes, 1, random.Random(0))
        words = ["doctor", str(cluster.nodes.disk(1)), "--kafka", version, "--fix", "--option", "1"]
        assert run_here([*words, "--plan-out", "plan.json"], folder).status == 0
        done = run_here(["apply", "plan.json"], folder)
        assert done.status == 0, done.err
        assert (sorted(meta.read_text().split()), log.read_bytes()) == (was, data)
        cluster.start(1)
        check_with_others(cluster, before)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("kept", ["*", "*.checkpoint"])
def test_the_disk_of_the_only_controller_is_replaced(kept: str, version: str, folder: Path) -> None:
    """Its metadata were copied to a new disk, with another directory id; the old id is not written back. Of the
    metadata all is left, or only snapshots."""
    with dedicated(version, 3, folder, founders=1) as cluster:
        cluster.nodes.settings[1][SNAPSHOTS] = "2000"
        before = begin(cluster)
        cluster.new_disk(1)
        metadata = cluster.nodes.metadata(1)
        shutil.rmtree(metadata, ignore_errors=True)
        metadata.mkdir()
        for path in (folder / "gone-1" / metadata.name).glob(kept):
            shutil.copy2(path, metadata)
        told = klogtool(cluster, cluster.nodes.disk(1), "--standalone", "--destroyed", 1, "--accept-loss", "--apply")
        assert "node 1 is the only voter" in told
        cluster.start(1)
        check_with_others(cluster, before)


@pytest.mark.parametrize("version", RELEASES)
def test_a_dynamic_quorum_becomes_static_and_dynamic_again(version: str, folder: Path) -> None:
    """The way back is that of an operator who has lost two others that the settings name."""
    with dedicated(version, 3, folder, founders=1) as cluster:
        before = begin(cluster)
        klogtool(cluster, cluster.nodes.disk(1), "--standalone", "--static", "--apply")
        cluster.name_voters(1)
        cluster.start(1)
        cluster.settle(1)
        known = serves(cluster, before, 1, 1, topic="static")
        cluster.broker.stop()
        cluster.stop(1)
        cluster.name_voters(1, 2, 3)
        lost = ("--standalone", "--destroyed", 2, "--destroyed", 3, "--accept-loss", "--apply")
        told = klogtool(cluster, cluster.nodes.disk(1), "--config-file", cluster.nodes.file(1), *lost)
        assert "remove controller.quorum.voters" in told
        cluster.name_voters()
        cluster.start(1)
        check_with_others(cluster, known)


@pytest.mark.parametrize("version", RELEASES)
def test_two_of_three_of_a_static_quorum_are_lost(version: str, folder: Path) -> None:
    """The settings name the one that is left; later all three again, and it starts with one of them, as is said."""
    with dedicated(version, 3, folder, is_dynamic=False) as cluster:
        before = begin(cluster)
        one = (cluster.nodes.disk(1), "--config-file", cluster.nodes.file(1))
        assert "delete quorum-state of the controller that is left" in klogtool(cluster, *one, status=1)
        (cluster.nodes.metadata(1) / "quorum-state").unlink()
        cluster.name_voters(1)
        cluster.start(1)
        cluster.settle(1)
        known = serves(cluster, before, 1, 1, topic="alone")
        cluster.broker.stop()
        cluster.stop(1)
        cluster.name_voters(1, 2, 3)
        for node in (2, 3):
            cluster.new_disk(node)
        start_with_one_other(cluster)
        check(cluster, known)


@pytest.mark.parametrize("version", RELEASES)
def test_a_static_quorum_that_lost_two_becomes_dynamic(version: str, folder: Path) -> None:
    with dedicated(version, 3, folder, is_dynamic=False) as cluster:
        before = begin(cluster)
        lost = ("--standalone", "--destroyed", 2, "--destroyed", 3, "--accept-loss", "--apply")
        told = klogtool(cluster, cluster.nodes.disk(1), "--config-file", cluster.nodes.file(1), *lost)
        assert "remove controller.quorum.voters" in told
        cluster.name_voters()
        cluster.start(1)
        check_with_others(cluster, before)


def start_with_one_other(cluster: Dedicated) -> None:
    """As it is said where an empty leader may be elected, or an older one."""
    disks = [cluster.nodes.disk(n) for n in cluster.nodes.ports]
    files = [word for n in cluster.nodes.ports for word in ("--config-file", cluster.nodes.file(n))]
    told = klogtool(cluster, *disks, *files, status=1)
    run_lines(told, PASTED, cluster.work)  # node 1 may take another one for the leader
    assert f"start the controller of {disks[0]} with 1 of the other voters; once it leads, start the rest" in told
    cluster.start(1, 2)
    cluster.settle(1)
    cluster.start(3)


@pytest.mark.parametrize("version", RELEASES)
def test_two_logs_are_lost_and_the_whole_one_leads(version: str, folder: Path) -> None:
    """Disks with only their first snapshot, which would elect an empty leader."""
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        for node in (2, 3):
            empty_log(cluster.nodes, node, random.Random(0))
        start_with_one_other(cluster)
        check(cluster, before)


@pytest.mark.parametrize("version", RELEASES)
def test_a_voter_gets_the_copy_of_a_broker(version: str, folder: Path) -> None:
    """All controllers are restored from older disks; what was made since then only the broker has."""
    with dedicated(version, 3, folder) as cluster:
        cluster.start(*cluster.founders)
        cluster.leaders()
        cluster.stop(*cluster.founders)
        for node in cluster.founders:
            shutil.copytree(cluster.nodes.disk(node), folder / f"older-{node}")
        before = begin(cluster)
        for node in cluster.founders:
            cluster.lose(node)
            (folder / f"older-{node}").rename(cluster.nodes.disk(node))
        disks = [*(cluster.nodes.disk(n) for n in cluster.founders), cluster.broker_copy]
        told = klogtool(cluster, *disks, status=1)
        assert run_lines(told, r"^  (mv .*)$", folder)
        start_with_one_other(cluster)
        check(cluster, before)


def garbage_states(cluster: Dedicated) -> None:
    """Two nodes end at their quorum-state."""
    for node in (2, 3):
        (cluster.nodes.metadata(node) / "quorum-state").write_bytes(b"{")


def leaders_differ(cluster: Dedicated) -> None:
    """Two leaders of one epoch."""
    for node, leader in ((1, 2), (2, 3), (3, 3)):
        state = QuorumState(1, leader, 50, -1, bytes(16))
        (cluster.nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def no_epoch_is_left(cluster: Dedicated) -> None:
    """Each knows of the last epoch, by its quorum-state."""
    for node in cluster.founders:
        state = QuorumState(1, -1, 2**31 - 1, -1, bytes(16))
        (cluster.nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("change", [garbage_states, leaders_differ, no_epoch_is_left], ids=lambda one: one.__name__)
def test_the_lines_that_are_printed_are_typed(change: Callable[[Dedicated], None], version: str, folder: Path) -> None:
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        change(cluster)
        disks = [cluster.nodes.disk(n) for n in cluster.founders]
        assert run_lines(klogtool(cluster, *disks, status=1), PASTED, folder)
        run_lines(
            run_here(["quorum", *map(str, disks)], folder).out.decode(), PASTED, folder
        )  # what is left to do then
        klogtool(cluster, *disks)
        cluster.start(*cluster.founders)
        (leader,) = cluster.leaders()
        check(cluster, before, leader)


def opened_a_transaction(cluster: Dedicated) -> None:
    append_records(cluster.nodes, 1, BEGIN, new_topic(500))


def has_zeros_behind(cluster: Dedicated) -> None:
    zeros_behind(cluster.nodes, 1, CHANCE)


def is_damaged(cluster: Dedicated) -> None:
    """It is salvaged, as is said."""
    damage_nothing(cluster.nodes, 1, CHANCE)
    metadata = cluster.nodes.metadata(1)
    told = klogtool(cluster, cluster.nodes.disk(1), *LOST, status=3)
    assert f"klogtool salvage {metadata} --output DIR" in told
    assert run_here(["salvage", str(metadata), "--output", "salvaged"], cluster.work).status == 1
    metadata.rename(cluster.work / "damaged")
    (cluster.work / "salvaged").rename(metadata)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(
    "change",
    [opened_a_transaction, has_zeros_behind, is_damaged],
    ids=lambda one: one.__name__,
)
def test_the_only_copy_that_is_left(change: Callable[[Dedicated], None], version: str, folder: Path) -> None:
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        for node in (2, 3):
            cluster.lose(node)
        change(cluster)
        klogtool(cluster, cluster.nodes.disk(1), *LOST, "--apply")
        cluster.start(1)
        check_with_others(cluster, before)


@pytest.mark.parametrize("version", RELEASES)
def test_the_log_of_the_only_controller_is_salvaged(version: str, folder: Path) -> None:
    """By the doctor's first option."""
    with dedicated(version, 3, folder, founders=1) as cluster:
        before = begin(cluster)
        end = log_of(cluster.nodes, 1).position
        damage_nothing(cluster.nodes, 1, CHANCE)
        words = ["doctor", str(cluster.nodes.disk(1)), "--kafka", version, "--fix", "--option", "1"]
        run_here([*words, "--plan-out", "plan.json"], folder)
        done = run_here(["apply", "plan.json"], folder)
        assert (done.status in (0, 1), "salvage" in done.out.decode()) == (True, True), done.err  # 1: a batch is lost
        assert log_of(cluster.nodes, 1).position == end
        cluster.start(1)
        check_with_others(cluster, before)


def all_disks(cluster: Dedicated) -> list[Path]:
    return [cluster.nodes.disk(n) for n in cluster.founders]


def type_all_lines(cluster: Dedicated) -> None:
    """And those that are printed when they have been typed."""
    files = settings_of(cluster, *cluster.founders)
    for _ in range(2):
        run_lines(
            run_here(["quorum", *map(str, all_disks(cluster)), *files], cluster.work).out.decode(), PASTED, cluster.work
        )


@pytest.mark.parametrize("version", RELEASES)
def test_node_ids_are_written_back(version: str, folder: Path) -> None:
    """Two nodes got other ones, in their settings and on their disks."""
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        for node in (2, 3):
            another_node_id(cluster.nodes, node, CHANCE)
        told = klogtool(cluster, *all_disks(cluster), *settings_of(cluster, *cluster.founders), status=1)
        for node in (2, 3):
            meta = cluster.nodes.disk(node) / "meta.properties"
            assert f"set node.id={node} again, in the settings and in {meta}" in told
            edit_identity(cluster.nodes, node, "node.id", str(node))
            cluster.nodes.settings[node]["node.id"] = str(node)
        type_all_lines(cluster)
        cluster.start(*cluster.founders)
        (leader,) = cluster.leaders()
        check(cluster, before, leader)


@pytest.mark.parametrize("version", RELEASES)
def test_a_cluster_id_is_written_back(version: str, folder: Path) -> None:
    """Of one node; another one is away, and comes back later."""
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        cluster.lose(3)
        another_cluster(cluster.nodes, 2, CHANCE)
        told = klogtool(cluster, cluster.nodes.disk(1), cluster.nodes.disk(2), cluster.broker_copy, status=1)
        meta = cluster.nodes.disk(2) / "meta.properties"
        assert f"look at cluster.id in {meta}: it is of another cluster" in told
        edit_identity(cluster.nodes, 2, "cluster.id", CLUSTER)
        cluster.start(1, 2)
        cluster.leaders()
        (folder / "gone-3").rename(cluster.nodes.disk(3))
        cluster.start(3)
        (leader,) = cluster.leaders()
        check(cluster, before, leader)


@pytest.mark.parametrize("version", RELEASES)
def test_those_with_other_voters_start_once_the_best_one_leads(version: str, folder: Path) -> None:
    """They were taken for lost when node 1 became the only voter."""
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        for node in (2, 3):
            cluster.lose(node)
        klogtool(cluster, cluster.nodes.disk(1), *LOST, "--apply")
        for node in (2, 3):
            (folder / f"gone-{node}").rename(cluster.nodes.disk(node))
        told = klogtool(cluster, *all_disks(cluster), status=1)
        assert (
            f"start the controller of {cluster.nodes.disk(1)} first, and those with other voters once it leads" in told
        )
        cluster.start(1)
        cluster.settle(1)
        cluster.join(1, 2, 3)
        check(cluster, before)


@pytest.mark.parametrize("version", RELEASES)
def test_listeners_are_as_before_and_change_one_after_the_other(version: str, folder: Path) -> None:
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        old, new = cluster.addresses, {n: f"127.0.0.1:{cluster.module.free_port()}" for n in cluster.founders}
        cluster.move_to(new)
        told = klogtool(cluster, *all_disks(cluster), *settings_of(cluster, *cluster.founders), status=1)
        advice = (
            "start them with the listeners in the voters' record; when there is a leader, change one after the other"
        )
        assert advice in told
        cluster.move_to(old)
        cluster.start(*cluster.founders)
        for node in cluster.founders:
            cluster.leaders()
            cluster.stop(node)
            cluster.move_to(cluster.addresses | {node: new[node]})
            cluster.start(node)
            wait_for_its_address(cluster, node)
        (leader,) = cluster.leaders()
        check(cluster, before, leader)
        assert {endpoint.address for one in voters_now(cluster) for endpoint in one.endpoints} == {*new.values()}


def voters_now(cluster: Dedicated) -> Sequence[Voter]:
    return log_of(cluster.nodes, 1).quorum.voters or ()


def wait_for_its_address(cluster: Dedicated, node: int) -> None:
    """Until the leader has it in the record of voters. A follower of 3.9.2 never tells it."""
    if cluster.nodes.kind.version == "3.9.2":
        which = ("--controller-id", node, "--controller-directory-id", directory_id_of(cluster.nodes, node))
        cluster.quorum(cluster.leaders()[0], "remove-controller", *which)
        cluster.quorum(cluster.leaders()[0], "add-controller", config=node)
    end = time.monotonic() + 60
    while cluster.addresses[node] not in cluster.quorum(cluster.leaders()[0], "describe", "--status"):
        assert time.monotonic() < end


@pytest.mark.parametrize("version", RELEASES)
def test_of_two_logs_that_of_the_cluster_is_kept(version: str, folder: Path) -> None:
    """Nodes 2 and 3 were formatted with their old ids, and lived without node 1."""
    with dedicated(version, 3, folder) as cluster:
        before = begin(cluster)
        own = cluster.nodes.disk(1)
        while not all(isinstance(compare(str(own), str(cluster.nodes.disk(n))), CopiesApart) for n in (2, 3)):
            begin_anew(cluster, 2, 3)  # in the same epochs, most often
        advice = r"find out whether the copy of (\S+) or (\S+) is the cluster's; start the other controller only with"
        disks = all_disks(cluster)
        while found := re.search(advice, run_here(["quorum", *map(str, disks)], folder).out.decode()):
            (other,) = {*map(Path, found.groups())} - {own}
            shutil.rmtree(other / METADATA)
            (other / METADATA).mkdir()
        assert [any((cluster.nodes.metadata(n)).iterdir()) for n in (1, 2, 3)] == [True, False, False]
        type_all_lines(cluster)
        cluster.start(1, 2, 3)
        time.sleep(2)
        cluster.again()
        (leader,) = cluster.leaders()
        check(cluster, before, leader)


def begin_anew(cluster: Dedicated, *nodes: int) -> None:
    for node in nodes:
        empty_log(cluster.nodes, node, CHANCE)
    cluster.start(*nodes)
    cluster.leaders()
    end = time.monotonic() + 60
    while not all(log_of(cluster.nodes, node).position.end_offset for node in nodes):
        assert time.monotonic() < end
    cluster.stop(*nodes)
