"""--output, and the power fails: in each state that a crash leaves (crash_states.py) the new folder is not there, or it
is whole, with what was to lie beside it. Nothing else but a folder with a temporary name has changed."""

from __future__ import annotations

import pathlib

import pytest
from crash_states import CrashStates, RecordingDisk, Stage
from made import contents, make_log_dir, make_plan, picture

from klogtool.broker.content import Content, FileRange
from klogtool.disk.output import carry_out_to
from klogtool.plans.plan import Truncate, Write

PASSING = (".part", "-delete")


@pytest.mark.parametrize("place", ["out", "other/t-7"], ids=["outside", "in a log dir"])
def test_a_new_folder_is_whole_or_not_there(box: pathlib.Path, place: str) -> None:
    log_dir = make_log_dir(box)
    (box / "other").mkdir()
    (box / "other" / "meta.properties").write_bytes(b"")
    log = "00000000000000000000.log"
    plans = [make_plan(log_dir / "t-0", [Truncate(log, 8000), Write("00000000000000000000.index", (b"new index",))])]
    rejected: dict[str, Content] = {"manifest.json": (b"{}",), "piece": (FileRange(str(log_dir / "t-0" / log), 5, 10),)}
    before = picture(box)
    disk = RecordingDisk(Stage(box))
    carry_out_to(plans, str(log_dir / "t-0"), str(box / place), beside={str(box / "rejected"): rejected}, disk=disk)
    whole = {name: contents(box / name) for name in ("rejected", place)}
    assert all(whole.values())
    states, seen = CrashStates(disk), set[tuple[str, ...]]()
    for n, world in states.walk():
        disk.stage.put(world)
        there = tuple(name for name in whole if (box / name).is_dir())
        assert {name: contents(box / name) for name in there} == {name: whole[name] for name in there}, n
        assert there in ((), ("rejected",), ("rejected", place)), "what is rejected is there first"
        assert {name for name, facts in picture(box).items() if before.get(name) != facts} <= _new(box, whole), n
        seen.add(there)
    assert len(seen) == 3
    assert len(states.groups) > 20


def _new(box: pathlib.Path, places: dict[str, dict[str, bytes]]) -> set[str]:
    """The names in the new folders and in those with temporary names, the folders around, and the lock of a log dir,
    which stays as a broker's does."""
    found = {str(path.relative_to(box)) for path in box.rglob("*")}
    made = {name for name in found if any(part.endswith(PASSING) for part in name.split("/"))}
    at_place = {name for name in found if any(name == place or name.startswith(f"{place}/") for place in places)}
    return made | at_place | {".", "other", "other/.lock"}
