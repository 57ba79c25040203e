"""Dedicated controllers that lost their majority, and a broker: a leader is elected again, and nothing is lost.

What is lost: two disks of three; or all controllers, and the broker's copy of the metadata is left; or the addresses of
all three. Afterwards topics have their ids, settings, access rules, credentials, committed offsets and records, a
producer goes on, and the quorum has as many voters as before.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

import pytest
from running import run_here

from .dedicated import Dedicated, can_listen, dedicated, run_lines
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
RELEASES = ("4.3.1", "3.9.2", "4.4.0")


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-quorum-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def begin(cluster: Dedicated) -> dict[str, object]:
    """Start and fill it. It is stopped afterwards."""
    cluster.start(*cluster.nodes.ports)
    cluster.broker.start(timeout=150)
    cluster.fill()
    known = cluster.known()
    assert known["rules"]
    assert known["committed"]
    assert "SCRAM" in str(known["settings"])
    cluster.broker.stop()
    cluster.stop(*cluster.nodes.ports)
    return known


def check(cluster: Dedicated, before: dict[str, object], leader: int = 1) -> None:
    """The broker comes back to the new quorum; nothing is lost, and all goes on."""
    cluster.broker.start(timeout=150)
    assert cluster.known() == before
    assert cluster.voters(leader) == {*cluster.nodes.ports}
    cluster.go_on()
    check_after_a_restart(cluster)


def check_after_a_restart(cluster: Dedicated) -> None:
    """All nodes stop and start once more: what they had, with what is new since the rescue, is still there."""
    known = cluster.known()
    cluster.broker.stop()
    cluster.stop(*cluster.nodes.ports)
    cluster.start(*cluster.nodes.ports)
    (leader,) = cluster.leaders()
    cluster.broker.start(timeout=150)
    assert cluster.known() == known
    assert cluster.voters(leader) == {*cluster.nodes.ports}
    cluster.go_on(topic="after-a-restart")


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


@pytest.mark.parametrize(("version", "size"), [("4.3.1", 1), ("3.9.2", 1), ("4.4.0", 1), ("4.3.1", 3), ("3.9.2", 5)])
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


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]"])
def test_three_controllers_come_back_under_another_host_name(host: str, folder: Path) -> None:
    if not can_listen(host.strip("[]")):
        pytest.skip(f"this machine has no {host}")
    with dedicated("4.3.1", 3, folder) as cluster:
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
