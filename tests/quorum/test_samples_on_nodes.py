"""The disks of ../shared/quorum-samples, started once more: what klogtool says of each is what its nodes do."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest
from judge.nodes import ALONE, BOTH, REGISTRATION_S, Kind, Nodes, home_of
from judge.quorums import differences_of, run_as_told, told_of

from klogtool.doctor.messages import recognise
from klogtool.format.java_text import parse_properties

pytestmark = [pytest.mark.nightly, pytest.mark.shared]
SAMPLES = pathlib.Path(__file__).parents[3] / "shared/quorum-samples"
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/expected.json"))
RELEASES = {"c392": "3.9.2", "c440": "4.4.0"}  # of the others 4.3.1


class Sample(Nodes):
    """The nodes of a sample, with the settings that it has. Of a broker's logs it has none."""

    def __init__(self, name: str, work: pathlib.Path) -> None:
        found = {int(disk.name[1:]): disk for disk in sorted((SAMPLES / name).glob("n*"))}
        own = {n: parse_properties((disk / "s.properties").read_bytes()) for n, disk in found.items()}
        roles = own[min(own)]["process.roles"]
        is_dynamic = "controller.quorum.bootstrap.servers" in own[min(own)]
        kind = Kind(
            RELEASES.get(name.partition("-")[0], "4.3.1"), len(found), ALONE if roles == ALONE else BOTH, is_dynamic
        )
        self.kind, self.work = kind, work
        ports = {n: re.search(r"CONTROLLER://[^,:]*:(\d+)", one["listeners"]) for n, one in own.items()}
        self.ports = {n: int(port[1]) for n, port in ports.items() if port}
        self.settings = {}
        for n, disk in found.items():
            shutil.copytree(disk, self.disk(n))
            more = {"log.dirs": str(self.disk(n)), "initial.broker.registration.timeout.ms": str(1000 * REGISTRATION_S)}
            self.settings[n] = own[n] | more
        home_of(kind).mkdir(parents=True, exist_ok=True)


@pytest.mark.some(20)
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_what_was_said(name: str, tmp_path: pathlib.Path) -> None:
    nodes = Sample(name, tmp_path)
    starting = [n for n in nodes.ports if "controller" in nodes.settings[n]["process.roles"]]
    told = told_of(nodes, starting)
    truth = run_as_told(nodes, told, starting)
    assert not list(differences_of(nodes, told, truth)), (json.dumps(told.quorum), truth.ended)
    for node, said in truth.said.items():  # what a person sees is known
        known = {one.situation.name for one in recognise(said)} - {"starting-voters"}
        assert truth.leader or known, (node, said[-2000:])
