"""Commands with several steps, killed after every call: how many kills fall between two steps, and that each is mended.

A kill between two steps leaves some of them done and some not. Undo then gives every byte back, resume finishes.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import crash_scene
import pytest
import test_append_dies
import test_fleet_apply_dies
import test_quorum_dies
from crash_scene import Scene, told
from dying import NAME, carry_out, dies, saved_plans, stopped_log_dir, take_back
from fleets import collect_broker, make_fleet
from made import contents
from mortal import StoppedInside
from msgspec.structs import replace
from running import run_here

from klogtool.fleet.planning import make_fleet_plan
from klogtool.plans.saved_plan import SavedPlan, parse_saved_plans

NOW_MS = 1_700_000_000_000
LOSSES = ("nothing", "everything", "mixed 1")
LEAST_STEPS = 3


class Work:
    """A log dir, and what a command is to do there. named: what its command line names; None: the log dir."""

    def __init__(
        self, log_dir: pathlib.Path, plans: Callable[[], list[SavedPlan]], named: pathlib.Path | None = None
    ) -> None:
        self.log_dir, self.plans, self.named = log_dir, plans, named or log_dir

    def files(self) -> dict[str, bytes]:
        """All files, also those moved out, and folders without files."""
        found = {}
        for folder in (self.log_dir, pathlib.Path(f"{self.log_dir}.moved-out")):
            found |= {f"{folder.name}/{name}": data for name, data in contents(folder).items()}
            found |= {f"{folder.name}/{path.name}/": b"" for path in folder.glob("*") if path.is_dir()}
        return {name: data for name, data in found.items() if not name.endswith(".lock")}


def rebuilding(box: pathlib.Path) -> Work:
    """Indexes of all segments are damaged."""
    log_dir = stopped_log_dir(box)
    for path in (log_dir / NAME).glob("*index"):
        path.write_bytes(path.read_bytes() + b"\1\2\3")
    asked = {"now_ms": NOW_MS, "jobs": 1}
    return Work(log_dir, lambda: saved_plans("rebuild-index", log_dir / NAME, asked), log_dir / NAME)


def appending(box: pathlib.Path) -> Work:
    """Batches that fill several segments."""
    log_dir = stopped_log_dir(box)
    return Work(log_dir, lambda: test_append_dies.planned(log_dir / NAME), log_dir / NAME)


def sharing(box: pathlib.Path) -> Work:
    """One copy is cut, one is moved out, one gets its plain name."""
    fleet, log_dirs = make_fleet(test_fleet_apply_dies.FLEET, box / "fleet")
    plan = make_fleet_plan([collect_broker(paths, fleet) for paths in log_dirs.values()])
    (log_dir,) = log_dirs[2]
    made = test_fleet_apply_dies.shares(plan, log_dir)
    return Work(log_dir, lambda: made)


def moving(box: pathlib.Path) -> Work:
    """Folders in which a broker would see a partition twice, or which are none: the doctor moves them out."""
    log_dir = stopped_log_dir(box)
    for name in ("lost", "found", "README.d"):
        (log_dir / name).mkdir()
        (log_dir / name / "file").write_text(name)
    shutil.copytree(log_dir / NAME, log_dir / "t-00")
    plan = box.parent / "plan"
    done = run_here(["doctor", str(log_dir), "--fix", "--plan-out", str(plan), "--now", str(NOW_MS), "-q"], box)
    assert done.status == 0, done.err
    lines = plan.read_bytes().splitlines()
    plan.unlink()
    _, saved = parse_saved_plans(lines, str(plan))
    assert saved
    return Work(log_dir, lambda: [_anew(each) for each in saved])


def _anew(plan: SavedPlan) -> SavedPlan:
    """For a log dir whose files a MortalDisk has a name for."""
    facts = tuple(replace(fact, ino=None, ctime_ns=None) for fact in plan.facts)
    return replace(plan, row=replace(plan.row, facts=facts))


def voting(box: pathlib.Path) -> Work:
    """One of three controllers becomes the only voter."""
    log_dir = test_quorum_dies.survivor(box)
    return Work(log_dir, lambda: test_quorum_dies.voting(log_dir))


WORKS = {
    "rebuild-index": rebuilding,
    "append": appending,
    "fleet apply": sharing,
    "doctor --fix": moving,
    "quorum": voting,
}


@pytest.mark.slow
@pytest.mark.parametrize("command", WORKS)
def test_kills_between_two_steps_are_mended(box: pathlib.Path, command: str) -> None:
    made = WORKS[command](box)
    steps = sum(len(plan.steps) for plan in made.plans())
    assert steps >= LEAST_STEPS
    scene = Scene(box, lambda _: crash_scene.Work(made.log_dir, made.plans, named=made.named))
    last = made.files()
    scene.put(scene.states.before)
    first, between = made.files(), set()
    seen: list[tuple[dict[str, bytes], object]] = []
    for n, world in scene.states.walk_deaths(*LOSSES):
        scene.put(world)
        entry, left = scene.entry(), made.files()
        if (state := (left, entry is not None and (entry.is_torn() or entry.progress()))) in seen:
            continue
        seen.append(state)
        if left not in (first, last):
            between.add(n)
        for check in (scene.check_undo, scene.check_resume):
            scene.put(world)
            told(check, f"after {n} calls")
    assert between, "no kill fell between two steps"
    assert len(seen) > min(steps, LEAST_STEPS), "the kills saw too few of the states between"
    print(f"{command}: {steps} steps, {len(scene.states.changes)} kills, {len(between)} between, {len(seen)} states")


def test_the_disk_of_the_tests_stops_inside_its_verbs(box: pathlib.Path) -> None:
    """Also between two calls of the system that one verb makes."""
    work = rebuilding(box)
    StoppedInside.count.clear()
    for n in range(carry_out(work.plans(), box)):
        take_back(work.log_dir)
        dies(work.plans(), box, n, "nothing", work.named)
    inside = {name for name, calls in StoppedInside.count if calls}
    assert "describe" in inside
