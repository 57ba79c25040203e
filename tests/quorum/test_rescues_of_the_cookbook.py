"""The cookbook's pages about controllers, each command of them typed over the disks of real controllers of three
releases: then those elect a leader, and it has the topic that was there before."""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from judge.nodes import ALONE, CLUSTER, Kind, Nodes, lived
from judge.quorum_faults import append_records, log_of
from quorums import TOPIC
from running import ROOT, in_shell
from test_docs import CONSOLE_BLOCK

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.quorum.controllers import Position

pytestmark = [pytest.mark.nightly, pytest.mark.shared]
VERSIONS = ("4.3.1", "3.9.2", "4.4.0")


@dataclass(frozen=True)
class Page:
    """change: what has happened to the disks. present: nodes whose disks the page has. starting: after the cure."""

    change: Callable[[Nodes], None]
    present: tuple[int, ...]
    starting: tuple[int, ...]


def nothing(nodes: Nodes) -> None:
    pass


def new_disks(nodes: Nodes) -> None:
    """Nodes 2 and 3 have new disks, formatted as the page says."""
    for node in (2, 3):
        nodes.disk(node).rename(nodes.work / f"gone-{node}")
        words = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--no-initial-controllers", "--config"]
        subprocess.run(nodes.java(*words, str(nodes.file(node))), check=True, capture_output=True)


def other_addresses(nodes: Nodes) -> None:
    """All listen at other ports now. The page's names are those of its example."""
    servers = []
    for node, port in nodes.ports.items():
        nodes.ports[node] = port + 1
        nodes.settings[node]["listeners"] = f"CONTROLLER://127.0.0.1:{port + 1}"
        servers.append(f"127.0.0.1:{port + 1}")
    for node in nodes.ports:
        nodes.settings[node]["controller.quorum.bootstrap.servers"] = ",".join(servers)


PAGES = {
    "two-controllers-lost": Page(nothing, (1,), (1,)),
    "controller-disk-replaced": Page(new_disks, (1, 2, 3), (1, 2, 3)),
    "restored-under-other-names": Page(other_addresses, (1, 2, 3), (1, 2, 3)),
}


def commands_of(page: str, nodes: Nodes) -> list[tuple[str, bool]]:
    """The commands of a page, and whether each comes after the cure."""
    text = (ROOT / f"docs/cookbook/{page}.md").read_text(encoding="utf-8")
    cured_from = text.index("\n## Check again\n")
    shown = [
        (line.partition("\n")[0], block.start() > cured_from)
        for block in CONSOLE_BLOCK.finditer(text)
        for line in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]
    ]
    return [
        (re.sub(r"c(\d)\.new:9093", lambda found: f"127.0.0.1:{nodes.ports[int(found[1])]}", line), is_check)
        for line, is_check in shown
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_give_real_controllers_a_leader(name: str, version: str, tmp_path: pathlib.Path) -> None:
    page, nodes = PAGES[name], lived(Kind(version, 3, ALONE, True), tmp_path / "q")
    end, epoch = log_of(nodes, 1).position.end_offset, log_of(nodes, 1).position.epoch
    append_records(nodes, 1, TOPIC)  # node 1 has the most complete copy, as on the pages
    assert log_of(nodes, 1).position == max(log_of(nodes, n).position for n in nodes.ports) == Position(epoch, end + 1)
    page.change(nodes)
    before = read_cluster_metadata(str(nodes.metadata(1)))
    folder = tmp_path / "page"
    folder.mkdir()
    for node in page.present:
        nodes.disk(node).rename(folder / f"controller-{node}")
        (folder / f"{node}.properties").write_bytes(nodes.file(node).read_bytes())
    for command, is_check in commands_of(name, nodes):
        asked = re.sub(r"^(klogtool quorum (?:controller-\d ?)+)", rf"\1 --kafka {version} ", command)
        printed, status = in_shell(asked, folder)
        assert status in ((0,) if is_check else (0, 1)), (asked, printed)
    for node in page.present:
        (folder / f"controller-{node}").rename(nodes.disk(node))
    truth = nodes.run(page.starting)
    if any("Unknown leader endpoints" in said for said in truth.said.values()):  # a second start is the cure
        truth = nodes.run(page.starting)
    assert (truth.leader is not None, truth.ended) == (True, {}), truth.said
    after = read_cluster_metadata(str(nodes.metadata(1)))
    assert "orders" in after.topic_ids
    assert (after.topic_ids, after.features) == (before.topic_ids, before.features)
