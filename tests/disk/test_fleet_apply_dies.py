"""fleet apply, killed after every call: it is finished or begun again, and then all is as the plan wants it."""

from __future__ import annotations

import pathlib

import pytest
from dying import dies, finish
from fleets import FIRST_MS, collect_broker, make_fleet
from mortal import reusable
from msgspec.structs import asdict

from klogtool.broker.circumstances import Circumstances
from klogtool.fleet.checking import check
from klogtool.fleet.planning import FleetPlan, make_fleet_plan
from klogtool.fleet.sharing import Todo, find_share
from klogtool.plans.decisions import decide
from klogtool.plans.fleet_share import COMMAND, FleetShareQuestion
from klogtool.plans.saved_plan import SavedPlan

FLEET = """
metadata cut-0 replicas 1 2 isr 1 leader 1
metadata stray-0 replicas 1 2 isr 1 2 leader 1
broker 1 clean
  cut-0 epochs 0:0 3:4 end 6
  stray-0 epochs 0:0 end 3
broker 2 clean
  cut-0 epochs 0:0 2:4 end 6 checkpoint 0:0 3:4
  stray-0 epochs end 0
  stray-0 epochs 0:0 end 5 state stray
"""
CIRCUMSTANCES = Circumstances(now_ms=FIRST_MS)


def shares(plan: FleetPlan, log_dir: pathlib.Path) -> list[SavedPlan]:
    """What is left to do on broker 2."""
    found = find_share(plan, [str(log_dir)], CIRCUMSTANCES)
    acts = tuple(each.act for each in found if isinstance(each, Todo))
    question = FleetShareQuestion(**asdict(CIRCUMSTANCES), jobs=1, acts=acts)
    return [reusable(each) for each in decide(COMMAND, str(log_dir), question)] if acts else []


@pytest.mark.slow
@pytest.mark.parametrize("loses", ["nothing", "everything"])
def test_a_run_that_was_killed_is_finished_by_the_next_one(tmp_path: pathlib.Path, loses: str) -> None:
    after = 0
    while True:
        root = tmp_path / f"after-{after}"
        fleet, log_dirs = make_fleet(FLEET, root)
        plan = make_fleet_plan([collect_broker(paths, fleet) for paths in log_dirs.values()])
        (log_dir,) = log_dirs[2]
        died, _ = dies(shares(plan, log_dir), root / "b2", after, loses, log_dir)
        finish(log_dir)
        left = shares(plan, log_dir)
        if left:
            assert not dies(left, root / "b2", 1 << 30, loses, log_dir)[0]
        found = list(check(plan, [collect_broker(paths, fleet) for paths in log_dirs.values()]))
        assert [each.why for each in found if each.why is not None] == [], after
        if not died:
            break
        after += 1
    assert after > 20
