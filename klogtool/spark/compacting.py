"""`klogtool compact` over many tasks: each cleans partitions as one machine does, and writes what it leaves of them.

A partition is one task: its map of keys, its filter and its files stay in it. One that is too large for that is done by
many (sharing.py). The result is a copy of the log dir with these partitions in it, and appears at once, when all of it
is there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from klogtool.disk.assembling import Assembly, write_part
from klogtool.disk.output import NewFolder
from klogtool.errors import KlogError
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.file import unreadable
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.repair.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.repair.circumstances import Checkpoints, is_log_dir
from klogtool.repair.cleaning.cleaner import CleanLog, clean
from klogtool.repair.cleaning.shares import clean_in_shares
from klogtool.repair.compact import COMMAND, plan_one, why_left_alone
from klogtool.repair.plan import Plan
from klogtool.repair.recover_logdir import walk_partition_dirs
from klogtool.spark.findings import size_of
from klogtool.spark.session import Session, SparkFailed
from klogtool.spark.sharing import TaskCrew
from klogtool.spark.spreading import spread

SHARE_BYTES = 256 << 20
LOGGER = logging.getLogger("klogtool.spark")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a log dir. why_not: why it is only copied, None if it is cleaned; is_partition: it has the name of
    one."""

    log_dir: str
    name: str
    why_not: str | None = None
    is_partition: bool = True

    @property
    def path(self) -> str:
        """Where it is."""
        return os.path.join(self.log_dir, self.name)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a task made of a folder. plan: without its steps, for people; lines: for the log dir's checkpoints."""

    place: str
    plan: Plan | None
    lines: CheckpointLines | None


def find_folders(log_dir: str, arguments: Mapping[str, Any]) -> list[Folder]:
    """All folders of a log dir. Raises KlogError for what is none, and where a broker refuses it."""
    if not isinstance(open_path(log_dir), LogDir):
        raise KlogError("not a log dir", path=log_dir)
    checkpoints = Checkpoints(log_dir if is_log_dir(log_dir) else None)
    found = {}
    for name, parsed, skipped in walk_partition_dirs(log_dir):
        path = os.path.join(log_dir, name)
        why_not = why_left_alone(path, parsed.state, skipped, arguments, checkpoints)
        found[name] = Folder(log_dir, name, why_not)
    try:
        with os.scandir(log_dir) as entries:
            others = [entry.name for entry in entries if entry.is_dir() and entry.name not in found]
    except OSError as error:
        raise unreadable(log_dir, error) from error
    return [*found.values(), *(Folder(log_dir, name, "no partition dir", is_partition=False) for name in others)]


def compact_with_spark(
    session: Session,
    assembly: Assembly,
    arguments: Mapping[str, Any],
    folders: Sequence[Folder],
    *,
    share_bytes: int = SHARE_BYTES,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[Folder, Plan]]:
    """Clean, and let the result appear; the plan of each partition dir, without its steps.

    share_bytes: partitions of so many bytes are done by several tasks. Raises Corrupt, Unsupported or Refused, with
    Kafka's class, where a broker's cleaner breaks off; nothing appears.
    """
    sizes = {folder: size_of(folder.path) for folder in folders}
    found: dict[Folder, Compacted] = {}
    for folder in folders:
        if folder.why_not is None and sizes[folder] >= share_bytes:
            shared = _compact_in_shares(session, assembly.stage, arguments, folder)
            if shared is not None:
                found[folder] = shared
                on_progress(sizes[folder])
    left = [folder for folder in folders if folder not in found]
    work = partial(compact_folder, assembly.stage, dict(arguments))
    left_sizes = [sizes[folder] for folder in left]
    found |= zip(left, spread(session, work, left, sizes=left_sizes, on_progress=on_progress), strict=True)
    made = [(folder, found[folder]) for folder in folders]
    for name, log_dir in assembly.log_dirs.items():
        here = [(folder, found) for folder, found in made if folder.log_dir == log_dir]
        lines = [found.lines for _, found in sorted(here, key=_dirtiness) if found.lines is not None]
        plans = plan_checkpoints(COMMAND, log_dir, arguments, lines, is_path=True) if lines else ()
        places = {folder.name: found.place for folder, found in here}
        assembly.finish_log_dir(name, [plan for plan in plans if plan is not None], places)
    assembly.publish()
    return [(folder, found.plan) for folder, found in made if found.plan is not None]


def _dirtiness(made: tuple[Folder, Compacted]) -> float:
    """The filthiest first: in this order they come to be in the checkpoint."""
    plan = made[1].plan
    passes = plan.answer.get("passes") if plan is not None else None
    ratio = passes[0]["cleanable_ratio"] if passes else None
    return 1.0 if ratio is None else -float(ratio)


def _compact_in_shares(session: Session, stage: str, arguments: Mapping[str, Any], folder: Folder) -> Compacted | None:
    """None where one task is to say what comes of it: whatever a broker's cleaner would refuse, too."""
    crew = TaskCrew(session, stage)
    try:
        return _compacted(stage, arguments, folder, partial(clean_in_shares, crew), crew.write_files)
    except SparkFailed:
        raise
    except KlogError as error:
        LOGGER.info("%s: compacted by one task: %s", folder.path, error)
        return None


def compact_folder(stage: str, arguments: Mapping[str, Any], folder: Folder) -> Compacted:
    """What one task does."""
    if folder.why_not is not None:
        told = Plan(COMMAND, folder.path, arguments, (), (), (), {"skipped": folder.why_not}, (folder.why_not,))
        return Compacted(write_part(stage, folder.path, None), told if folder.is_partition else None, None)
    return _compacted(stage, arguments, folder)


def _compacted(
    stage: str,
    arguments: Mapping[str, Any],
    folder: Folder,
    cleaning: CleanLog = clean,
    ready: Callable[[NewFolder], Mapping[str, str]] = lambda _: {},
) -> Compacted:
    checkpoints = Checkpoints(folder.log_dir if is_log_dir(folder.log_dir) else None)
    plan, lines = plan_one(folder.path, arguments, checkpoints, cleaning=cleaning)
    place = write_part(stage, folder.path, plan, ready)
    is_told = lines is not None and (plan.steps or lines.first_dirty is not None)
    brief = Plan(COMMAND, plan.path, arguments, (), (), plan.segments, plan.answer, plan.notes)
    return Compacted(place, brief, lines if is_told else None)
