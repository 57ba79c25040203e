"""What a broker's first check of retention, and its first append, do by false indexes after a start.

A start does not look at the indexes of closed segments, nor, after a clean stop, at those of the active one. Half a
minute later (log.initial.task.delay.ms) retention goes by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.timestamps import duration_text, time_text
from klogtool.broker.unified_log.kept_segments import ages_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import TIME, Deletion, delete_old_segments
from klogtool.doctor.answers import Ahead, What
from klogtool.errors import Corrupt, Refused
from klogtool.format.names import PartitionDirState
from klogtool.log.file import LogFile
from klogtool.log.partition import Partition
from klogtool.plans.guessed_settings import Beside, check_retention
from klogtool.plans.index_doubts import (
    IndexDoubt,
    Timekeeper,
    first_too_early,
    retention_doubts,
    true_ages,
    zeros_that_fill,
)
from klogtool.salvage.stretches import Run, walk_stretches
from klogtool.verify.findings import Severity


def walk_retention(path: str, log: LoadedLog, checkpoints: Checkpoints) -> Iterator[Ahead]:
    """Yield what is ahead of a loaded log because of false indexes. It changes the log: nobody may use it afterwards.

    A folder that ends in -delete, -stray or -future has nothing ahead: nobody appends to it, and LogManager.cleanupLogs
    passes it over. Raises KlogError if a log cannot be read.
    """
    if Partition(path).state is not PartitionDirState.CURRENT:
        return
    if zeros := zeros_that_fill(log):
        yield _rolls(path, log, zeros)
    segments = {segment.base_offset: segment for segment in log.segments.all}
    logs = {segment.base_offset: segment.path for segment in log.segments.all}
    try:
        ages, keeper = ages_of(log), Timekeeper(log)
        deleted = delete_old_segments(log)
    except (Corrupt, Refused):  # a broker's check fails there, and deletes nothing
        return
    by_time = [deletion for deletion in deleted if deletion.by == TIME]
    if not by_time:
        return
    doubts = retention_doubts(log, keeper, {d.segment: ages[d.segment] for d in by_time}, deleted, ())
    try:
        check_retention(log, deleted, segments, true_ages(ages, doubts), Beside.of(path, checkpoints))
    except Refused:  # the disk contradicts Kafka's default: nobody knows what this broker's retention is
        return
    doubt = first_too_early(doubts)
    if doubt is not None:
        early = [deletion for deletion in by_time if deletion.segment >= doubt.segment]
        yield _deletes(path, log, early, doubt, [logs[deletion.segment] for deletion in early])


def _rolls(path: str, log: LoadedLog, zeros: int) -> Ahead:
    detail = (
        f"{zeros:,} entries of the active segment's indexes are zeros, which the broker takes for entries: its first "
        f"append rolls segment {log.segments.last.base_offset}, and retention then takes the segment for one of 1970"
    )
    return Ahead(path, What.ROLLS_EARLY, detail, Severity.WARNING)


def _deletes(path: str, log: LoadedLog, early: Sequence[Deletion], doubt: IndexDoubt, logs: Sequence[str]) -> Ahead:
    runs = [run for deletion, file in zip(early, logs, strict=True) for run in _runs(file, deletion.segment)]
    source = "as set" if "retention.ms" in log.terms.sources else "Kafka's default"
    what = f"segment {doubt.segment}" if len(early) == 1 else f"{len(early)} segments from {doubt.segment} on"
    which = "the time of its file" if doubt.is_file_time else "its time index"
    detail = (
        f"the first check of retention deletes {what} too early: by {which}, the newest record is of "
        f"{time_text(doubt.believed_timestamp)}, by its batches it is of {time_text(doubt.log_timestamp)} "
        f"(retention.ms: {duration_text(log.terms.config.retention_ms)}, {source})"
    )
    return Ahead(
        path,
        What.EXPIRES_EARLY,
        detail,
        Severity.ERROR,
        min((run.first_offset for run in runs), default=None),
        max((run.last_offset for run in runs), default=None),
        sum(run.records for run in runs),
        sum(deletion.size for deletion in early),
    )


def _runs(path: str, base_offset: int) -> list[Run]:
    with LogFile(path) as file:
        return [part for part in walk_stretches(file, base_offset) if isinstance(part, Run)]
