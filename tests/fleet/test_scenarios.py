"""Each file of scenarios/ is a disaster: what the brokers have, and below the dashes the plan for it."""

from __future__ import annotations

import pathlib

import pytest
from fleets import collect_broker, make_fleet
from running import ROOT

from klogtool.fleet.planning import make_fleet_plan
from klogtool.render.fleet_plan import fleet_plan_text

SCENARIOS = sorted((pathlib.Path(__file__).parent / "scenarios").glob("*.txt"))
RULE = "\n----\n"


def planned(text: str, root: pathlib.Path) -> str:
    """The plan for a fleet, as text; paths are relative to the root."""
    fleet, log_dirs = make_fleet(text, root)
    files = [collect_broker(paths, fleet) for paths in log_dirs.values()]
    told = "\n".join(fleet_plan_text(make_fleet_plan(files), is_verbose=True))
    return told.replace(f"{root}/", "")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario(scenario: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text, _, expected = scenario.read_text(encoding="utf-8").partition(RULE)
    assert planned(text, tmp_path) == expected.rstrip("\n")


def test_there_are_as_many_as_there_should_be() -> None:
    assert len(SCENARIOS) >= 20


def test_the_page_shows_a_scenario() -> None:
    page = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
    shown = (pathlib.Path(__file__).parent / "scenarios/longest_of_one_epoch_wins.txt").read_text(encoding="utf-8")
    assert f"```\n{shown.partition(RULE)[2]}```\n" in page
