"""What `quorum --standalone` refuses, done all the same on real controllers: the harm that it says comes of it."""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
import time

import pytest
from judge.nodes import ALONE, Kind, Nodes, lived
from judge.quorum_faults import append_records, empty_log, flip_bit, log_of
from quorums import TOPIC, new_topic
from running import Done, run_here

from klogtool.broker.metadata.image import read_cluster_metadata
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
