"""A link in place of a file: a broker follows it, and no plan changes it, because a change could not be undone."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest
from asking_doctor import asked, wounded
from running import run_here
from startup import EPOCHS, HELLO, UNCLEAN, Scenario, T, Wound, both, flipped, gone, log, moved, put, side, torn

Path = pathlib.Path


def linked(name: str) -> Wound:
    """The file is beside the log dirs, and a link is in its place."""

    def wound(disks: Path) -> None:
        file, target = disks / name, disks / f"elsewhere.{Path(name).name}"
        file.rename(target)
        file.symlink_to(os.path.relpath(target, file.parent))

    return wound


@pytest.mark.parametrize(
    "wound",
    [
        both(torn(log(32), 1200), linked(log(32))),
        both(UNCLEAN, flipped(log(22), 300), gone(side(22, "index")), linked(log(22))),
        both(put(f"{T}/{EPOCHS}", HELLO), linked(f"{T}/{EPOCHS}")),
        both(*(gone(log(base)) for base in (0, 11, 22)), moved(log(32), log(40)), linked(log(40))),
    ],
    ids=["active", "closed", "epochs", "name"],
)
def test_every_plan_that_is_made_is_carried_out(tmp_path: Path, wound: Wound) -> None:
    scenario = Scenario(wound, "")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    options = [row for row in rows if row["type"] == "option"]
    assert options
    fixable = [row for row in options if row["fix"]]
    for row in fixable:
        words = ["doctor", *scenario.log_dirs, "--now", "1800000000000", "--fix", "--option", str(row["number"])]
        assert run_here([*words, "--plan-out", f"../{row['number']}.json"], disks).status == 0
        assert run_here(["apply", f"../{row['number']}.json"], disks).status == 0
        assert run_here(["undo", row["for"].removeprefix(f"{disks}/").split("/")[0]], disks).status == 0
    assert fixable or any("--remove-destination" in row["command"] or row["lost_records"] == 0 for row in options)


def test_a_log_that_cannot_roll_takes_no_writes(tmp_path: Path) -> None:
    """4.3.1: "Trying to roll a new log segment ... while it already exists", at each write that needs a new segment."""
    scenario = Scenario(put(log(32), bytes(500)), "")
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    (point,) = [row for row in rows if row.get("what") == "ends-early"]
    assert "every write fails" in point["detail"]


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_two_log_dirs_cannot_have_one_lock_file(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """As cp -al leaves it. A broker 4.3.1 that was started on both ends with this message."""
    scenario = Scenario(lambda _: None, "")
    disks = wounded(scenario, tmp_path / "disks")
    locks = [disks / name / ".lock" for name in ("d0", "d1")]
    for lock in locks:
        lock.unlink(missing_ok=True)
    locks[0].touch()
    link(locks[0], locks[1])
    (point,) = (row for row in asked(disks, scenario) if row.get("what") == "refuses")
    assert point["path"].endswith("d1/.lock")
    assert point["exception"]["class"] == "KafkaException"
    assert point["exception"]["message"].startswith("Failed to acquire lock on file .lock in ")
    locks[1].unlink()
    assert [row for row in asked(disks, scenario) if row.get("what") == "refuses"] == []
