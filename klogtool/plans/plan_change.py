"""What all commands share that change a partition as a running broker does: load, change, stop, plan.

The log is loaded as its log dir says, or as after a clean stop if it is in none. Then it is changed, and stopped as a
broker stops. If loading a damaged log removes records, the answer reports them as `lost_by_recovery`; records missing
at the log's end are reported as `behind_end`. The difference to the files is the plan. If the partition dir is in a log
dir, the log dir's own files get plans of their own: see checkpoint_lines.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import REMOTE_STORAGE, REMOTE_SYSTEM, Checkpoints, LoadTerms, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import Fact, facts_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.causes import Reason, Text
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, build_file_name, parse_file_name
from klogtool.log.opened import open_partition_dir
from klogtool.log.second_reading import read_again
from klogtool.plans.causes import PlanNote
from klogtool.plans.checkpoint_lines import CheckpointLines, end_at_next_start, lines_of, plan_checkpoints
from klogtool.plans.loading_steps import order_steps
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.question import Question
from klogtool.plans.recover_answer import losses_of_loading
from klogtool.plans.recover_gaps import Gap, find_gaps, find_perhaps_missing, with_erased
from klogtool.plans.recover_reach import find_behind_end
from klogtool.plans.results import ChangeResult, LogState
from klogtool.verify.only_copies import find_orphans

_KRAFT_DELETED = ".checkpoint" + DELETED


class Change(Struct, frozen=True):
    """What was done to a loaded log: the answer, verdicts, notes.

    first_dirty_at_most: where cleaning has to begin at the latest, if the operation lowers that; first_dirty: where it
    begins next, if the operation was a cleaning.
    """

    result: ChangeResult
    verdicts: tuple[SegmentVerdict, ...] = ()
    notes: tuple[Text, ...] = ()
    first_dirty_at_most: int | None = None
    first_dirty: int | None = None


# Changes a log and reports what it did.
ChangeLog: TypeAlias = Callable[[LoadedLog], Change]


def plan_change(command: str, path: str, question: Question, change: ChangeLog) -> Iterator[Plan]:
    """Plan for one partition dir, and for its log dir's files before and after it, if they change.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, if a broker refuses; KlogError for what is not a
    partition dir.
    """
    checkpoints = Checkpoints.beside(path)
    plan, lines = plan_partition(command, path, question, change, checkpoints)
    if checkpoints.log_dir is None or lines is None:
        yield plan
        return
    before, after = plan_checkpoints(command, checkpoints.log_dir, question, [lines])
    yield from (some for some in (before, plan, after) if some is not None)


def plan_partition(
    command: str, path: str, question: Question, change: ChangeLog, checkpoints: Checkpoints
) -> tuple[Plan, CheckpointLines | None]:
    """Return the plan for one partition dir, and its checkpoint lines: for commands over several. Reads again if a file
    goes away meanwhile. Raises as `plan_change` does."""
    return read_again(lambda: _plan_partition(command, path, question, change, checkpoints))


def _plan_partition(
    command: str, path: str, question: Question, change: ChangeLog, checkpoints: Checkpoints
) -> tuple[Plan, CheckpointLines | None]:
    open_partition_dir(path)
    terms = terms_of(path, question.circumstances, checkpoints=checkpoints)
    draft = Draft.of(path)
    in_log_dir = checkpoints.log_dir is not None
    shown = replace(question.circumstances, config={}, config_sections=())
    compaction = terms_of(path, shown, checkpoints=checkpoints).compaction
    return plan_draft(
        command, question, draft, facts_of(draft), terms, change, in_log_dir=in_log_dir, compaction=compaction
    )


def plan_draft(
    command: str,
    question: Question,
    draft: Draft,
    facts: tuple[Fact, ...],
    terms: LoadTerms,
    change: ChangeLog,
    *,
    in_log_dir: bool = False,
    compaction: Reason | None = None,
) -> tuple[Plan, CheckpointLines | None]:
    """Return the plan for a draft, which may be of a dir that does not exist yet. in_log_dir: a broker may start on it
    next. compaction: evidence of it outside of the log, without the settings that somebody gave: who looks for gaps
    later may not give them."""
    lacking: Reason | None = None
    try:
        log = LoadedLog(draft, terms, jobs=question.threads)
        behind = find_behind_end(log)
        losses = losses_of_loading(log, behind)
        lacking = None if behind is None else behind.reason(log.log_end_offset)
        # Gaps may not be told afterwards if this cleans, or if loading deleted what tells of them.
        may_erase = command == "compact" or log.report.removed or find_orphans(log.draft.before)
        gaps = find_gaps(log, compaction) if may_erase else []
        perhaps = find_perhaps_missing(log, gaps, compaction)
        start, end = log.log_start_offset, log.log_end_offset
        unserved = tuple(_note_on_remote(log))
        changed = change(log)
        log.stop()
        if in_log_dir:
            _lower_snapshots_beyond(log)
    except KlogError as error:
        error.at_path(draft.path)
        if lacking is not None:
            error.add_note(f"{draft.path}: {lacking}")
        raise
    if question.purge:
        # Delete what a broker deletes after file.delete.delay.ms.
        for name in draft.names_found():
            if name.endswith(DELETED) and not name.endswith(_KRAFT_DELETED):
                draft.delete(name)
    is_cleaned = bool(log.report.cleaned) or changed.first_dirty is not None
    erased = _walk_erased(log, with_erased(log, gaps, compaction, is_cleaned=is_cleaned), start, end)
    losses = replace(losses, missing=list(erased) or UNSET)
    steps = order_steps(draft, log.report)
    notes = (*terms.notes, *changed.notes, *unserved, *_note_on_line(log))
    if is_cleaned:  # which explains what is missing
        notes += tuple(PlanNote.ERASES_DOUBT(first=first, last=last) for first, last in perhaps)
    plan = Plan(command, draft.path, question, facts, steps, changed.verdicts, changed.result, notes, losses=losses)
    return plan, lines_of(log, changed.first_dirty_at_most, changed.first_dirty)


def _walk_erased(log: LoadedLog, gaps: Iterable[Gap], start: int, end: int) -> Iterator[Gap]:
    """Yield what nothing tells of any more, but for what somebody asked to delete. start, end: of the log before."""
    lowest = log.log_start_offset if log.log_start_offset > start else 0
    highest = log.log_end_offset - 1 if log.log_end_offset < end else MAX_LONG
    for gap in gaps:
        first, last = max(gap.first_offset, lowest), min(gap.last_offset, highest)
        if gap.erased and first <= last:
            yield replace(gap, first_offset=first, last_offset=last)


def _note_on_remote(log: LoadedLog) -> Iterator[Reason]:
    """Yield that a loaded log has records in remote storage only, and its broker has none: the settings may be those of
    another broker."""
    first, last = log.terms.log_start_offset, log.segments.first.base_offset - 1
    if log.terms.is_remote_off and first <= last:
        yield PlanNote.REMOTE_OFF(first=first, last=last, setting=REMOTE_SYSTEM)


def _note_on_line(log: LoadedLog) -> Iterator[Reason]:
    """Yield why a line of log-start-offset-checkpoint stays that only a tiered topic needs."""
    line = log.log_start_checkpoint
    if log.terms.keeps_start_line and line is not None and line <= log.segments.first.base_offset:
        yield PlanNote.LINE_STAYS(file=FileKind.LOG_START_CHECKPOINT.value, line=line, setting=REMOTE_STORAGE)


def _lower_snapshots_beyond(log: LoadedLog) -> None:
    """Move snapshots beyond the log's end to that end.

    A log that was cut inside a batch is stopped with a snapshot at the cut. The next start finds the log's end below
    it, deletes it, and reads the state up to that end from the batches (ProducerStateManager.truncateAndReload). That
    state is the same, because no batch is between. So the snapshot moves to that end. It must not simply be deleted: a
    clean start without any snapshot reads nothing, and forgets every open transaction
    (UnifiedLog.rebuildProducerState).
    """
    end = end_at_next_start(log)
    snapshots = {
        file.base_offset: file.name
        for file in map(parse_file_name, log.draft.names())
        if file.kind is FileKind.PRODUCER_SNAPSHOT and not file.suffix and file.base_offset is not None
    }
    for offset in sorted((offset for offset in snapshots if offset > end), reverse=True):
        if end in snapshots:
            log.draft.delete(snapshots[offset])
        else:
            snapshots[end] = build_file_name(FileKind.PRODUCER_SNAPSHOT, end)
            log.draft.move(snapshots[offset], snapshots[end])


def settle(log: LoadedLog) -> LogState:
    """Do what a broker does later in the background, and return the log's state then."""
    log.run_scheduled()
    return LogState(log.log_start_offset, log.log_end_offset, log.log_start_checkpoint)
