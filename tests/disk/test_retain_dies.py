"""retain and delete-records --apply, killed after every call and inside of it: what is left has no hole.

After a start, as klogtool foresees a broker's, retention once more ends where it should have ended at once.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from crash_scene import Scene, Work
from dying import after_a_start, copy_own_files, keep_only, saved_plans
from made import contents
from mortal import HastyDisk
from running import FIXTURES

from klogtool.disk.output import carry_out_to
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.plans.saved_plan import SavedPlan

LOGS = FIXTURES / "retention" / "logdir"
NOW_MS = 1_700_000_300_000  # minutes after the records
LAST_STOPS = ("unclean", "clean")  # the log dir has a clean marker, which a broker would believe
LOG_END = 110  # of each of them
EPOCHS = "leader-epoch-checkpoint"
# A kill leaves an old line in log-start-offset-checkpoint, and a log that looks tiered: retain would ask.
LOCAL = {"remote.storage.enable": "false"}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "some by size": ("inside-0", "retain", {"config": LOCAL | {"retention.bytes": "3000", "retention.ms": "-1"}}),
    "all by time": ("start-0", "retain", {"config": LOCAL | {"retention.ms": "1"}}),
    "all, purged": ("inside-0", "retain", {"config": LOCAL | {"retention.ms": "1"}, "purge": True}),
    "records": ("inside-0", "delete-records", {"before": 100}),
    "all records": ("start-0", "delete-records", {"before": -1}),
}


def decided(command: str, folder: pathlib.Path, more: dict[str, Any]) -> list[SavedPlan]:
    return saved_plans(command, folder, {"now_ms": NOW_MS, "jobs": 1, **more})


def lasting(folder: pathlib.Path) -> dict[str, Any]:
    """Its files, without those that a broker removes now or at its next start: a snapshot at the very beginning of the
    log is one of them, and a leader epoch at its very end. Of leader epochs those that the log reaches."""
    files: dict[str, Any] = {
        name: data for name, data in contents(folder).items() if not name.endswith((".deleted", ".tmp"))
    }
    first = bases_of(files)[0]
    files.pop(f"{first:020d}.snapshot", None)
    epochs = LeaderEpochFileCache(parse_leader_epoch_checkpoint(files[EPOCHS]))
    epochs.truncate_from_start(first)
    epochs.truncate_from_end(LOG_END)
    return {**files, EPOCHS: epochs.entries}


def bases_of(files: dict[str, Any]) -> list[int]:
    return sorted(int(name[:20]) for name in files if name.endswith(".log"))


def done_again(
    log_dir: pathlib.Path, case: str, at: pathlib.Path, last_stop: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a start makes of the partition that believes this of the last stop, and what the command makes of that."""
    name, command, more = CASES[case]
    started = at / "started" / name
    shutil.rmtree(at, ignore_errors=True)
    for folder in (started.parent, at / "again"):
        folder.mkdir(parents=True)
    copy_own_files(log_dir, started.parent)
    after_a_start(log_dir / name, started, {"now_ms": NOW_MS, "last_stop": last_stop, "jobs": 1})
    carry_out_to(decided(command, started, more), str(started), str(at / "again" / name), disk=HastyDisk())
    return lasting(started), lasting(at / "again" / name)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_left_has_no_hole_and_is_finished_later(box: pathlib.Path, case: str) -> None:
    name, command, more = CASES[case]
    aside = box.parent / "aside"

    def make(box: pathlib.Path) -> Work:
        log_dir = box / "logdir"
        shutil.copytree(LOGS, log_dir)
        keep_only(log_dir, name)
        return Work(log_dir, lambda: decided(command, log_dir / name, more))

    scene = Scene(box, make)
    log_dir = scene.log_dir
    scene.put(scene.states.before)
    before = bases_of(lasting(log_dir / name))
    wanted = {last_stop: done_again(log_dir, case, aside, last_stop)[1] for last_stop in LAST_STOPS}
    seen: list[dict[str, bytes]] = []  # a start sees nothing else
    for n, world in scene.states.walk_deaths("nothing", "everything", "mixed 1"):
        if (left := world.contents(box, without=(".klogtool/", "/.lock"))) in seen:
            continue
        seen.append(left)
        scene.put(world)
        for last_stop in LAST_STOPS:
            started, again = done_again(log_dir, case, aside, last_stop)
            bases = bases_of(started)
            new = [base for base in bases if base not in before]
            assert bases in [[*before[gone:], *new] for gone in range(len(before) + 1)], (n, bases)
            assert again == wanted[last_stop], n
    assert len(seen) > 3
