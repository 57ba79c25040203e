"""What the tests of commands share that die while they write: a log dir that was stopped cleanly, a run that is killed
after so many calls, the start of a broker as klogtool foresees it, and what gives everything back.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

from deciding import decided
from made import HEAD, Picture, contents, picture
from mortal import Died, HastyDisk, MortalDisk, reusable
from running import FIXTURES

from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, resume, undo
from klogtool.plans.saved_plan import SavedPlan

LOGS, NAME = FIXTURES / "transactions" / "logdir", "t-0"


def stopped_log_dir(box: pathlib.Path) -> pathlib.Path:
    """One partition, and the files of its log dir, with the marker of a clean stop."""
    path = box / "logdir"
    path.mkdir()
    shutil.copytree(LOGS / NAME, path / NAME)
    copy_own_files(LOGS, path)
    return path


def copy_own_files(log_dir: pathlib.Path, to: pathlib.Path) -> None:
    """The files of a log dir that lie in no partition."""
    for file in log_dir.iterdir():
        if file.is_file():
            shutil.copy2(file, to)


def keep_only(log_dir: pathlib.Path, name: str) -> None:
    """Of the partitions that one alone."""
    for other in log_dir.iterdir():
        if other.is_dir() and other.name != name:
            shutil.rmtree(other)


def saved_plans(command: str, folder: pathlib.Path, asked: Mapping[str, Any]) -> list[SavedPlan]:
    return [reusable(plan) for plan in decided(command, folder, asked)]


def carry_out(plans: list[SavedPlan], box: pathlib.Path) -> int:
    """Carried out to the end. How many calls that took."""
    disk = MortalDisk([box])
    InPlace(plans, HEAD, disk=disk).carry_out()
    return disk.done


def dies(
    plans: list[SavedPlan], box: pathlib.Path, after: int, loses: str, *paths: pathlib.Path
) -> tuple[bool, InPlace]:
    """Whether it died, carried out on a disk that does after so many calls; what was not synced is lost as `loses`
    says. paths: what the command line named, for who resumes it."""
    disk = MortalDisk([box], after)
    run = InPlace(plans, {**HEAD, "paths": [str(path) for path in paths]} if paths else HEAD, disk=disk)
    try:
        run.carry_out()
    except Died:
        disk.crash(loses)
        return True, run
    return False, run


def after_a_start(folder: pathlib.Path, at: pathlib.Path, asked: Mapping[str, Any]) -> dict[str, bytes]:
    """The files after a start and a stop, as klogtool foresees it; they lie at `at`."""
    shutil.rmtree(at, ignore_errors=True)
    at.parent.mkdir(parents=True, exist_ok=True)
    carry_out_to(saved_plans("recover", folder, asked), str(folder), str(at), disk=HastyDisk())
    return contents(at)


def entries(log_dir: pathlib.Path) -> list[Entry]:
    """Of the journal beside it."""
    journal = pathlib.Path(f"{log_dir}.klogtool")
    return list(walk_entries(str(journal))) if journal.is_dir() else []


def take_back(log_dir: pathlib.Path) -> None:
    """Undo, of all that the journal has."""
    for entry in entries(log_dir):
        undo(entry, disk=HastyDisk())
    (log_dir / ".lock").unlink(missing_ok=True)


def finish(log_dir: pathlib.Path) -> bool:
    """Resume, of the one run that the journal has. Whether there was anything to finish."""
    for entry in entries(log_dir):
        if not entry.is_torn() and entry.progress() is not Progress.DONE:
            resume(entry, disk=HastyDisk())
            return True
    return False


def changed(before: Picture, log_dir: pathlib.Path) -> set[str]:
    """What is not as it was, in bytes, times or modes; the time of the log dir itself does not count."""
    after = picture(log_dir)
    return {path for path in before | after if before.get(path) != after.get(path)} - {"."}


def without_lock(log_dir: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(log_dir).items() if not name.endswith(".lock")}


def logs_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.endswith(".log")}
