"""retain: what a broker's retention would delete of a partition dir, or of each partition dir of a log dir.

By time, by size, by log start offset, guarded by the high watermark. Each segment has its reason, also one that stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.names import PartitionDirState
from klogtool.log.file import Unreadable
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.repair.change import Change, plan_change, plan_partition
from klogtool.repair.checkpoint_lines import plan_checkpoints
from klogtool.repair.circumstances import Checkpoints, is_log_dir
from klogtool.repair.plan import Plan, SegmentVerdict
from klogtool.repair.recover_logdir import first_of, walk_partition_dirs
from klogtool.repair.timestamps import duration_text
from klogtool.repair.unified_log.kept_segments import Age, Kept, ages_of, explain_kept
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.retention import LOG_START, SIZE, Deletion, delete_old_segments

COMMAND = "retain"
SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "remote.storage.enable", "remote.log.copy.disable")


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plan for a partition dir, or for each of a log dir, and for the log dir's checkpoints.

    arguments: those of Circumstances; `purge`: no `.deleted` file stays; `jobs`. Raises Corrupt, Refused or
    Unsupported, with Kafka's class, where a broker does not load it; KlogError for what is neither.
    """
    opened = open_path(path)
    if isinstance(opened, LogDir):
        yield from _plan_log_dir(path, arguments)
    elif isinstance(opened, Partition):
        yield from plan_change(COMMAND, path, arguments, _retain)
    else:
        raise KlogError("neither a partition dir nor a log dir", path=path)


def _plan_log_dir(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """A plan for each partition dir, and the last one for the checkpoints. Where partitions are refused, the first of
    these errors is raised behind the plans of the others."""
    checkpoints = Checkpoints(path if is_log_dir(path) else None)
    all_lines, errors = [], []
    for name, parsed, skipped in walk_partition_dirs(path):
        folder = os.path.join(path, name)
        if parsed.state is PartitionDirState.STRAY:
            skipped = "stray: no partition of this broker, which leaves it alone"
        if skipped is not None:
            yield Plan(COMMAND, folder, arguments, (), (), (), {"skipped": skipped}, (skipped,))
            continue
        try:
            plan, lines = plan_partition(COMMAND, folder, arguments, _retain, checkpoints)
        except Unreadable:
            raise
        except KlogError as error:
            errors.append(error)
            continue
        yield plan
        if lines is not None and plan.answer["deletions"]:
            all_lines.append(lines)
    if errors:
        raise first_of(errors)
    if all_lines and checkpoints.log_dir is not None:
        plans = plan_checkpoints(COMMAND, path, arguments, all_lines, is_path=True)
        yield from (plan for plan in plans if plan is not None)


def _retain(log: LoadedLog) -> Change:
    """Retention once, at the log's clock."""
    start_before, ages = log.log_start_offset, ages_of(log)
    deleted = delete_old_segments(log)
    kept = list(explain_kept(log, ages))
    settings = [*log.terms.setting_notes(SETTINGS), *_tiered_note(log, min(ages))]
    answer = {
        "deletions": deletions_answer(deleted),
        "kept": [segment.as_json() for segment in kept],
        "log_start_offset_before": start_before,
        "settings": settings,
    }
    verdicts = (*deletion_verdicts(log, deleted, ages), *_kept_verdicts(kept, ages))
    return Change(answer, verdicts, tuple(settings))


def _tiered_note(log: LoadedLog, first_base: int) -> Iterator[str]:
    """A log start below all segments is how a tiered topic looks from here, and hardly anything else."""
    line = log.terms.log_start_offset
    if 0 < line < first_base and not log.terms.config.remote_storage_enable:
        yield (
            f"the log start, {line}, is below the first segment: if the topic is tiered, say so with --config "
            "remote.storage.enable=true"
        )


def deletions_answer(deleted: list[Deletion]) -> list[dict[str, Any]]:
    """The contract's `deletions`."""
    return [{"segment": deletion.segment, "reason": deletion.by} for deletion in deleted]


def deletion_verdicts(log: LoadedLog, deleted: list[Deletion], ages: Mapping[int, Age]) -> Iterator[SegmentVerdict]:
    """Each segment that goes, by base offset, and why."""
    for deletion in deleted:
        age = ages[deletion.segment]
        yield SegmentVerdict(deletion.segment, "delete", _why_deleted(log, deletion), _more(age))


def _kept_verdicts(kept: list[Kept], ages: Mapping[int, Age]) -> Iterator[SegmentVerdict]:
    for segment in kept:
        age = ages.get(segment.segment)
        if age is None:
            yield SegmentVerdict(segment.segment, "create", "a log is never without a segment")
        else:
            yield SegmentVerdict(segment.segment, "keep", segment.detail, _more(age))


def _more(age: Age) -> dict[str, Any]:
    return {"size": age.size, "newest_ms": age.timestamp if age.size else None, "file_time": age.offset is None}


def _why_deleted(log: LoadedLog, deletion: Deletion) -> str:
    config = log.terms.config
    if deletion.by == LOG_START:
        return "below the log start offset"
    if deletion.by == SIZE:
        return f"retention.bytes: the log has {config.retention_bytes:,} bytes or more without it"
    over_ms = log.terms.now_ms - deletion.largest_timestamp - config.retention_ms
    by = "retention.ms, by the file's own time" if deletion.is_file_time else "retention.ms"
    return f"{by}: {duration_text(over_ms)} past its time"
