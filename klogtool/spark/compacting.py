"""`klogtool compact` as many tasks: each cleans partitions as one machine does, and writes the result.

One task cleans one partition, with its own offset map, filter and files. Many tasks clean a partition that is too large
for one (sharing.py). The result is a copy of the log dir with the cleaned partitions. It appears at once, when it is
complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.cleaning.cleaner import CleanLog, clean
from klogtool.broker.cleaning.shares import clean_in_shares
from klogtool.causes import Text
from klogtool.disk.assembling import Assembly, write_part
from klogtool.disk.output import NewFolder
from klogtool.errors import Changed, FileCause, KlogError, Refused
from klogtool.log.file import ReadErrors, Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.compact import (
    COMMAND,
    CompactQuestion,
    CompactResult,
    check_checkpoint,
    plan_one,
    refused_plan,
    why_left_alone,
)
from klogtool.plans.plan import Plan
from klogtool.plans.recover import walk_partition_dirs
from klogtool.plans.results import LeftAlone
from klogtool.spark.causes import LogCause, OptionCause
from klogtool.spark.findings import size_of
from klogtool.spark.notes import log_info
from klogtool.spark.sharing import TASK_BYTES, TASKS_A_SLOT, TaskCrew
from klogtool.spark.spreading import spread_groups
from klogtool.spark.starting import Session, SparkFailed

SHARE_BYTES = 256 << 20
Planned = tuple[Plan, CheckpointLines | None]


class CompactedFolder(Struct, frozen=True):
    """A folder of a log dir. why_not: why it is only copied, None if it is cleaned. is_partition: it has the name of
    one."""

    log_dir: str
    name: str
    why_not: Text | None = None
    is_partition: bool = True

    @property
    def path(self) -> str:
        """The path."""
        return os.path.join(self.log_dir, self.name)


class Compacted(Struct, frozen=True):
    """What a task made of a folder. plan: without its steps, for display. lines: for the log dir's checkpoints."""

    place: str
    plan: Plan | None
    lines: CheckpointLines | None


def find_folders(log_dir: str, question: CompactQuestion) -> list[CompactedFolder]:
    """Return all folders of a log dir. Raises KlogError if it is not one, and if a broker refuses it."""
    if not isinstance(open_path(log_dir), LogDir):
        raise KlogError(FileCause.NO_LOG_DIR(), path=log_dir)
    checkpoints = Checkpoints.of(log_dir)
    folders = {}
    for name, _, skipped in walk_partition_dirs(log_dir):
        why_not = skipped or why_left_alone(os.path.join(log_dir, name), question, checkpoints)
        folders[name] = CompactedFolder(log_dir, name, why_not)
    with ReadErrors(log_dir), os.scandir(log_dir) as entries:
        others = [entry.name for entry in entries if entry.is_dir() and entry.name not in folders]
    return [
        *folders.values(),
        *(CompactedFolder(log_dir, name, str(FileCause.NO_PARTITION_DIR()), is_partition=False) for name in others),
    ]


def of_topics(folders: Sequence[CompactedFolder], topics: Sequence[str]) -> list[CompactedFolder]:
    """Limit the cleaning to these topics. Raises Refused for a topic that does not exist."""
    names = [find_partition_dir_name(folder.name) for folder in folders]
    there = {name.topic for name in names if name is not None}
    if missing := [topic for topic in topics if topic not in there]:
        raise Refused(OptionCause.NO_SUCH_TOPIC(topics=tuple(missing)))
    return [
        folder
        if folder.why_not is not None or (name is not None and name.topic in topics)
        else replace(folder, why_not=str(LogCause.TOPIC_NOT_CHOSEN()))
        for folder, name in zip(folders, names, strict=True)
    ]


def compact_with_spark(
    session: Session,
    assembly: Assembly,
    question: CompactQuestion,
    folders: Sequence[CompactedFolder],
    *,
    share_bytes: int = SHARE_BYTES,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[CompactedFolder, Plan]]:
    """Clean, and let the result appear; return the plan of each partition dir, without its steps.

    share_bytes: several tasks clean a partition of at least this size. A partition at which a broker's cleaner fails is
    copied unchanged, and its plan has the error. Raises Corrupt, with Kafka's class, for a cleaner-offset-checkpoint
    that ends the cleaner, and Unreadable; then nothing appears.
    """
    for folder in {folder.log_dir: folder for folder in folders if folder.why_not is None}.values():
        check_checkpoint(folder.path, question, Checkpoints.of(folder.log_dir))
    sizes = {folder: size_of(folder.path) for folder in folders}
    compacted: dict[CompactedFolder, Compacted] = {}
    for folder in folders:
        if folder.why_not is None and sizes[folder] >= share_bytes:
            shared = _compact_in_shares(session, assembly.stage, question, folder)
            if shared is not None:
                compacted[folder] = shared
                on_progress(sizes[folder])
    left = [folder for folder in folders if folder not in compacted]
    work = partial(compact_folder, assembly.stage, question)
    # A few tasks for each slot, so that small folders share tasks.
    most = max(1, min(TASK_BYTES, sum(sizes[folder] for folder in left) // (session.slots * TASKS_A_SLOT)))
    results = spread_groups(session, work, left, sizes.__getitem__, most, on_progress=on_progress)
    compacted |= zip(left, results, strict=True)
    pairs = [(folder, compacted[folder]) for folder in folders]
    for name, log_dir in assembly.log_dirs.items():
        here = [(folder, result) for folder, result in pairs if folder.log_dir == log_dir]
        lines = [result.lines for _, result in sorted(here, key=_dirtiness) if result.lines is not None]
        plans = plan_checkpoints(COMMAND, log_dir, question, lines, is_path=True) if lines else ()
        places = {folder.name: result.place for folder, result in here}
        assembly.finish_log_dir(name, [plan for plan in plans if plan is not None], places)
    assembly.publish()
    return [(folder, result.plan) for folder, result in pairs if result.plan is not None]


def _dirtiness(pair: tuple[CompactedFolder, Compacted]) -> float:
    """Sort key: the dirtiest first, which is their order in the checkpoint."""
    plan = pair[1].plan
    result = None if plan is None else plan.result
    ratio = result.passes[0].cleanable_ratio if isinstance(result, CompactResult) else None
    return 1.0 if ratio is None else -ratio


def _compact_in_shares(
    session: Session, stage: str, question: CompactQuestion, folder: CompactedFolder
) -> Compacted | None:
    """Compact with several tasks. Return None if one task has to do it, for example if a broker's cleaner would
    refuse."""
    crew = TaskCrew(session, stage)
    try:
        planned = _planned(question, folder, partial(clean_in_shares, crew))
        return _written(stage, question, folder, planned, crew.write_files)
    except SparkFailed:
        raise
    except KlogError as error:
        log_info(LogCause.ONE_TASK(path=folder.path, error=str(error)))
        return None


def compact_folder(stage: str, question: CompactQuestion, folder: CompactedFolder) -> Compacted:
    """Clean a folder, or copy it, into a place of the stage."""
    if folder.why_not is not None:
        left_alone = Plan(COMMAND, folder.path, question, (), (), (), LeftAlone(folder.why_not), (folder.why_not,))
        return Compacted(write_part(stage, folder.path, None), left_alone if folder.is_partition else None, None)
    try:
        planned = _planned(question, folder, clean)
    except (Changed, Unreadable):
        raise
    except KlogError as error:
        refused = refused_plan(folder.path, question, error.at_path(folder.path))
        return Compacted(write_part(stage, folder.path, None), refused, None)
    return _written(stage, question, folder, planned)


def _planned(question: CompactQuestion, folder: CompactedFolder, cleaning: CleanLog) -> Planned:
    return plan_one(folder.path, question, Checkpoints.of(folder.log_dir), cleaning=cleaning)


def _written(
    stage: str,
    question: CompactQuestion,
    folder: CompactedFolder,
    planned: Planned,
    ready: Callable[[NewFolder], Mapping[str, str]] = lambda _: {},
) -> Compacted:
    plan, lines = planned
    place = write_part(stage, folder.path, plan, ready)
    is_told = lines is not None and (plan.steps or lines.first_dirty is not None)
    brief = Plan(COMMAND, plan.path, question, (), (), plan.segments, plan.result, plan.notes, losses=plan.losses)
    return Compacted(place, brief, lines if is_told else None)
