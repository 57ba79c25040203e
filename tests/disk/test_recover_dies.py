"""recover --apply, killed after every call: a start, as klogtool foresees it, ends where it should have.

The logs are what real brokers left that were killed themselves; losing what was not synced comes on top.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from crash_scene import Scene, Work, told
from dying import after_a_start, carry_out, changed, dies, keep_only, saved_plans, take_back
from made import contents, picture
from mortal import HastyDisk
from running import FIXTURES, run_here

from klogtool.disk.journal import walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import resume
from klogtool.plans.saved_plan import SavedPlan

LOGS = FIXTURES / "killed-mid-append" / "logdir"
PARTITIONS = sorted(path.name for path in LOGS.iterdir() if path.is_dir())
ASKED: dict[str, Any] = {"now_ms": 1_700_000_000_000, "last_stop": "unclean", "jobs": 1}


def recover(folder: pathlib.Path) -> list[SavedPlan]:
    return saved_plans("recover", folder, ASKED)


def lasting(folder: pathlib.Path, at: pathlib.Path) -> dict[str, bytes]:
    """What a broker's start makes of the folder; what it removes a minute later is gone."""
    files = after_a_start(folder, at, ASKED)
    return {name: data for name, data in files.items() if not name.endswith(".deleted") and name != ".lock"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_a_start_ends_in_the_same_whenever_it_died(box: pathlib.Path, name: str) -> None:
    def make(box: pathlib.Path) -> Work:
        log_dir = box / "logdir"
        shutil.copytree(LOGS, log_dir)
        keep_only(log_dir, name)
        return Work(log_dir, lambda: recover(log_dir / name))

    scene = Scene(box, make)
    seen: list[dict[str, bytes]] = []  # a start sees nothing else
    started, out = box.parent / "started", box.parent / "out"
    scene.put(scene.states.before)
    wanted = lasting(scene.log_dir / name, out)
    for n, world in scene.states.walk_deaths("nothing", "everything", "mixed 1"):
        scene.put(world)
        if (left := contents(scene.log_dir)) not in seen:
            seen.append(left)
            shutil.rmtree(started, ignore_errors=True)
            shutil.copytree(scene.log_dir, started)
            assert lasting(started / name, out) == wanted, n
        told(scene.check_undo, f"after {n} calls")
    assert len(scene.states.changes) > 30
    assert len(seen) > 3


def test_resuming_a_whole_log_dir(box: pathlib.Path) -> None:
    log_dir = box / "logdir"
    shutil.copytree(LOGS, log_dir)
    wanted = lasting(log_dir, box / "wanted")
    calls = carry_out(recover(log_dir), box)
    shutil.rmtree(f"{log_dir}.klogtool")
    for n in (calls // 8, calls // 2, calls - 10):
        shutil.rmtree(log_dir)
        shutil.copytree(LOGS, log_dir)
        plans = recover(log_dir)
        assert dies(plans, box, n, "everything", log_dir)[0]
        (entry,) = walk_entries(f"{log_dir}.klogtool")
        resume(entry, disk=HastyDisk())
        assert {k: v for k, v in contents(log_dir).items() if not k.endswith((".deleted", ".lock"))} == wanted
        shutil.rmtree(f"{log_dir}.klogtool")


@pytest.mark.slow
def test_the_clean_marker_is_there_only_if_all_is_done(box: pathlib.Path) -> None:
    """A marker over a damaged tail is the most dangerous state of all: nobody looks there again."""

    def make(box: pathlib.Path) -> Work:
        log_dir = box / "logdir"
        shutil.copytree(LOGS, log_dir)
        return Work(log_dir, lambda: saved_plans("recover", log_dir, {**ASKED, "mark_clean": True}))

    scene = Scene(box, make, inside=False)
    seen = set()
    for n, world in scene.states.walk_deaths("nothing", "everything", "mixed 1", "mixed 2", "mixed 3"):
        left = world.contents(box, without=(".klogtool/", "/.lock"))
        seen.add(marked := "logdir/.kafka_cleanshutdown" in left)
        assert not marked or left == scene.wanted, n
    assert seen == {False, True}


@pytest.mark.slow
def test_a_false_marker_goes_first_and_comes_back_last(box: pathlib.Path) -> None:
    """The run's first step and its last one are about the same file."""
    log_dir, asked = box / "logdir", {**ASKED, "mark_clean": True}
    shutil.copytree(LOGS, log_dir)
    (marker := log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    before = picture(log_dir)
    plans = saved_plans("recover", log_dir, asked)
    calls = carry_out(plans, box)
    wanted, seen = contents(log_dir), set()
    assert marker.exists()
    for n in (*range(calls // 2, calls - 6, 83), *range(calls - 6, calls)):
        take_back(log_dir)
        assert changed(before, log_dir) == set(), n
        assert dies(plans, box, n, "everything")[0]
        done = {**contents(log_dir), ".lock": b""} == {**wanted, ".lock": b""}
        (entry,) = walk_entries(f"{log_dir}.klogtool")
        seen.add(marker.exists())
        assert not marker.exists() or done or entry.progress() is Progress.PREPARING, n
        if entry.progress() is Progress.STAGED and n % 2:
            resume(entry, disk=HastyDisk())
            assert {**contents(log_dir), ".lock": b""} == {**wanted, ".lock": b""}, n
    assert seen == {False, True}


@pytest.mark.slow
def test_from_the_command_line(box: pathlib.Path) -> None:
    """Saved, carried out, taken back; then in place, marked clean, and taken back."""
    log_dir = box / "logdir"
    shutil.copytree(LOGS, log_dir)
    before = picture(log_dir)
    asked = ["recover", str(log_dir), "--now", "1700000000000"]
    assert run_here([*asked, "--plan-out", str(box / "plan")], box).status == 1, "records are lost"
    assert picture(log_dir) == before
    assert run_here(["apply", str(box / "plan")], box).status == 1, "and were lost"
    assert picture(log_dir) != before
    assert run_here(["undo"], log_dir).status == 0
    assert picture(log_dir) == before
    assert run_here([*asked, "--apply"], box).status == 1
    marked = [*asked, "--apply", "--mark-clean"]
    done = run_here(marked, box)
    assert done.status == 0, "the checkpoints were brought down with the log"
    assert run_here(asked, box).status == 0
    assert (log_dir / ".kafka_cleanshutdown").exists()
    for _ in range(2):
        assert run_here(["undo"], log_dir).status == 0
    assert picture(log_dir) == before
