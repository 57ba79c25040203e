"""retain: what a broker's retention would delete of a partition dir, or of each partition dir of a log dir.

By time, by size and by log start offset, limited by the high watermark. Each segment has its reason, also one that
stays. Settings, and whether the topic is tiered, are in the terms of the log (broker/circumstances.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

from msgspec import UNSET, Struct, UnsetType

from klogtool.broker.circumstances import REMOTE_STORAGE, Checkpoints
from klogtool.broker.timestamps import duration_text, is_in_seconds, time_text
from klogtool.broker.unified_log.kept_segments import Kept, ages_of, explain_kept
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import LOG_START, SIZE, Deletion, delete_old_segments
from klogtool.broker.unified_log.segment_age import Age
from klogtool.causes import Reason, Text
from klogtool.errors import Changed, FileCause, KlogError
from klogtool.log.file import Unreadable
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.second_reading import has_changed
from klogtool.plans.causes import PlanNote, VerdictCause
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.guessed_settings import Beside, KnownSettings, check_retention, check_settings_are_known
from klogtool.plans.index_doubts import IndexDoubt, Timekeeper, first_too_early, refusal_of, retention_doubts, true_ages
from klogtool.plans.plan import Plan, SegmentVerdict, SizedVerdict
from klogtool.plans.plan_change import Change, plan_change, plan_partition, settle
from klogtool.plans.question import DeletingQuestion, Question
from klogtool.plans.recover import first_of, walk_partition_dirs
from klogtool.plans.results import ChangeResult, LeftAlone

COMMAND = "retain"
SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "remote.storage.enable", "remote.log.copy.disable")


class RetainQuestion(DeletingQuestion, frozen=True, kw_only=True):
    """What would retention delete?"""


QUESTION = RetainQuestion


class DeletedSegment(Struct, frozen=True):
    """A segment that retention deletes. reason: which rule, a word of broker/unified_log/retention.py."""

    segment: int
    reason: str


class RetainResult(ChangeResult, frozen=True):
    """What retention deletes, what stays and why, and by which settings."""

    deletions: list[DeletedSegment]
    kept: list[Kept]
    log_start_offset_before: int
    settings: list[Text]
    index_doubts: list[IndexDoubt] | UnsetType = UNSET


class AgedVerdict(SizedVerdict, frozen=True):
    """newest_ms: the time of the newest record, None for an empty segment. file_time: it is the file's."""

    newest_ms: int | None
    file_time: bool


def decide(path: str, question: RetainQuestion) -> Iterator[Plan]:
    """Plan for a partition dir, or for each of a log dir and for the log dir's checkpoints.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, if a broker does not load it; KlogError if the path is
    neither kind of dir.
    """
    opened = open_path(path)
    if isinstance(opened, LogDir):
        yield from _plan_log_dir(path, question)
    elif isinstance(opened, Partition):
        retain = partial(_retain, beside=Beside.of(path, Checkpoints.beside(path)), no_undo=question.no_undo)
        yield from plan_change(COMMAND, path, question, retain)
    else:
        raise KlogError(FileCause.NO_DIR(), path=path)


def _plan_log_dir(path: str, question: RetainQuestion) -> Iterator[Plan]:
    """Yield a plan for each partition dir, and last the one for the checkpoints. If partitions are refused, the first
    error is raised after the plans of the others."""
    checkpoints = Checkpoints.of(path)
    all_lines, errors = [], []
    for name, _, skipped in walk_partition_dirs(path):
        folder = os.path.join(path, name)
        if skipped is not None:
            yield Plan(COMMAND, folder, question, (), (), (), LeftAlone(skipped), (skipped,))
            continue
        try:
            plan, lines = plan_one(folder, question, checkpoints)
        except KlogError as error:
            if has_changed(error) and not os.path.lexists(folder):
                continue  # the topic was deleted, or the partition moved, since the log dir was listed
            if isinstance(error, Changed | Unreadable):
                raise
            errors.append(error)
            continue
        yield plan
        if lines is not None and isinstance(plan.result, RetainResult) and plan.result.deletions:
            all_lines.append(lines)
    if errors:
        raise first_of(errors)
    if all_lines and checkpoints.log_dir is not None:
        plans = plan_checkpoints(COMMAND, path, question, all_lines, is_path=True)
        yield from (plan for plan in plans if plan is not None)


def plan_one(
    folder: str, question: Question, checkpoints: Checkpoints, *, needs_known_settings: bool = False
) -> tuple[Plan, CheckpointLines | None]:
    """Plan one partition dir of a log dir, with its checkpoint lines. needs_known_settings: refuse to delete
    by a setting that may not be the topic's, or by a false time index. Raises as `decide` does."""
    known = KnownSettings.of(folder, question.circumstances, checkpoints.cluster) if needs_known_settings else None
    no_undo = needs_known_settings or question.no_undo
    retain = partial(_retain, beside=Beside.of(folder, checkpoints), known=known, no_undo=no_undo)
    return plan_partition(COMMAND, folder, question, retain, checkpoints)


def _retain(log: LoadedLog, beside: Beside, known: KnownSettings | None = None, *, no_undo: bool = False) -> Change:
    """Run retention once, at the log's clock. no_undo: nothing takes it back. Raises Refused if it would delete by a
    guessed setting, or for good by a false time index."""
    start_before, ages, keeper = log.log_start_offset, ages_of(log), Timekeeper(log)
    segments = {segment.base_offset: segment for segment in log.segments.all}
    deleted = delete_old_segments(log)
    kept = list(explain_kept(log, ages))
    doubts = retention_doubts(log, keeper, ages, deleted, kept)
    check_retention(log, deleted, segments, true_ages(ages, doubts), beside)
    if known is not None:
        check_settings_are_known(log, deleted, known)
    if no_undo and (doubt := first_too_early(doubts)) is not None:
        raise refusal_of(log.draft.path, doubt)
    settings: list[Text] = [*log.terms.setting_notes(SETTINGS), *_tiered_note(log, min(ages))]
    verdicts = (*deletion_verdicts(log, deleted, ages), *_kept_verdicts(kept, ages))
    result = RetainResult(deleted_segments(deleted), kept, start_before, settings, doubts or UNSET, state=settle(log))
    return Change(result, verdicts, tuple(settings))


def _tiered_note(log: LoadedLog, first_base: int) -> Iterator[Reason]:
    """Yield a note: a log start below all segments may mean that the topic has remote storage."""
    line = log.terms.log_start_offset
    if 0 < line < first_base and REMOTE_STORAGE not in log.terms.sources:
        yield PlanNote.LOOKS_TIERED(start=line)


def deleted_segments(deleted: list[Deletion]) -> list[DeletedSegment]:
    """Return the `deletions` of docs/contract.md."""
    return [DeletedSegment(deletion.segment, deletion.by) for deletion in deleted]


def deletion_verdicts(log: LoadedLog, deleted: list[Deletion], ages: Mapping[int, Age]) -> Iterator[SegmentVerdict]:
    """Yield each deleted segment, by base offset, and why."""
    for deletion in deleted:
        age = ages[deletion.segment]
        yield _aged(deletion.segment, "delete", _why_deleted(log, deletion), age)


def _kept_verdicts(kept: list[Kept], ages: Mapping[int, Age]) -> Iterator[SegmentVerdict]:
    for segment in kept:
        age = ages.get(segment.segment)
        if age is None:
            yield SegmentVerdict(segment.segment, "create", VerdictCause.ALWAYS_ONE())
        else:
            yield _aged(segment.segment, "keep", segment.detail, age)


def _aged(segment: int, action: str, reason: Text, age: Age) -> AgedVerdict:
    return AgedVerdict(segment, action, reason, age.size, age.timestamp if age.size else None, age.is_file_time)


def _why_deleted(log: LoadedLog, deletion: Deletion) -> Reason:
    config = log.terms.config
    if deletion.by == LOG_START:
        return VerdictCause.BELOW_START()
    if deletion.by == SIZE:
        return VerdictCause.PAST_SIZE(size=config.retention_bytes)
    over_ms = log.terms.now_ms - deletion.largest_timestamp - config.retention_ms
    over = duration_text(over_ms)
    if deletion.is_file_time:
        return VerdictCause.PAST_FILE_TIME(over=over)
    if is_in_seconds(deletion.largest_timestamp, log.terms.now_ms):
        return VerdictCause.PAST_SECONDS(over=over, time=time_text(deletion.largest_timestamp * 1000))
    return VerdictCause.PAST_TIME(over=over)
