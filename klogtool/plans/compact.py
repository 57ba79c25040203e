"""compact: what the broker's log cleaner makes of a partition, in one pass or several as the clock moves on.

Each pass is judged as a broker does: a log that is not due is left alone, unless it is forced. A pass that fails
refuses the whole. After each pass retention runs, as in the cleaner's own thread. In a log dir, the partitions whose
cleanup.policy has compact are cleaned, the dirtiest first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from klogtool.broker.causes import LoadNote
from klogtool.broker.circumstances import Checkpoints, LoadTerms, Long, terms_of
from klogtool.broker.cleaning.cleaner import CleaningStats, CleanLog, clean
from klogtool.broker.cleaning.dirty_range import LogToClean, find_log_to_clean
from klogtool.broker.draft import Draft
from klogtool.broker.releases import EmptiedBatch
from klogtool.broker.spools import CountingSpool, MakeSpool
from klogtool.broker.unified_log.kept_segments import ages_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import Deletion, delete_old_segments
from klogtool.causes import Reason, Text
from klogtool.errors import Changed, Corrupt, KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind, TopicPartition, build_file_name
from klogtool.format.typed import Moment
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.segment import Segment
from klogtool.log.thread_pool import in_order
from klogtool.parameters import NOT_GIVEN, Given, Unit, parameter
from klogtool.plans.causes import PassCause, PlanNote, ProducersFrom, VerdictCause
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.guessed_settings import Beside, check_forced_cleaning, check_kept_for_longer
from klogtool.plans.index_doubts import (
    IndexDoubt,
    Timekeeper,
    first_too_early,
    lag_doubts,
    refusal_of,
    retention_doubts,
    true_ages,
)
from klogtool.plans.plan import Plan, SegmentVerdict, SizedVerdict
from klogtool.plans.plan_change import Change, ChangeLog, plan_change, plan_partition, settle
from klogtool.plans.question import DeletingQuestion
from klogtool.plans.recover import walk_partition_dirs
from klogtool.plans.results import ChangeResult, LeftAlone, Result
from klogtool.plans.retain import DeletedSegment, deleted_segments
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentContext
from klogtool.verify.verify_segment import verify_segment

COMMAND = "compact"
SETTINGS = (
    "cleanup.policy",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
    "log.cleaner.dedupe.buffer.size",
)


class CompactQuestion(DeletingQuestion, frozen=True, kw_only=True):
    """What would the log cleaner do?"""

    first_dirty_offset: Annotated[
        Long | None,
        parameter("Use N instead of the checkpointed first dirty offset. It is validated the same way."),
    ] = None
    passes_at_ms: Annotated[
        Given[tuple[Long, ...] | None, Sequence[Moment] | None],
        parameter(
            "Run one cleaner pass at this time. Repeatable.  [default: one pass, at --now]",
            Unit.TIME,
            option="pass-at",
        ),
    ] = NOT_GIVEN
    force: Annotated[
        bool,
        parameter(
            "Also clean a log that is not due, and a partition dir whose cleanup.policy does not contain compact."
        ),
    ] = False
    keep_magic: Annotated[
        bool, parameter("Keep messages of magic 0 and 1 in their format, as brokers before 4.0 do.")
    ] = False


QUESTION = CompactQuestion


class CleanedBytes(Struct, frozen=True):
    """How much a pass read and wrote. map_messages_read: to fill the offset map."""

    messages_read: int
    messages_written: int
    map_messages_read: int
    bytes_read: int
    bytes_written: int


class CleanerPass(Struct, frozen=True):
    """One pass of the cleaner, and of retention after it. end_offset to split: only if it cleaned.
    gone: how many records were removed, by the word for the reason; split: a segment is only split."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    bound: int
    clean_bytes: int
    cleanable_bytes: int
    uncleanable_bytes: int
    cleanable_ratio: float | None
    eligible: bool
    why: Reason
    reset_checkpoint: bool
    high_watermark: int
    now_ms: int
    end_offset: int | UnsetType = UNSET
    stats: CleanedBytes | UnsetType = UNSET
    gone: Mapping[str, int] | UnsetType = UNSET
    map_is_full: bool | UnsetType = UNSET
    split: bool | UnsetType = UNSET
    deletions: Sequence[DeletedSegment] = ()


class CompactResult(ChangeResult, frozen=True):
    """What the passes do. cleaner_checkpoint: the line afterwards. producers: where their state is from."""

    passes: list[CleanerPass]
    cleaner_checkpoint: int | None
    producers: Reason
    index_doubts: list[IndexDoubt] | UnsetType = UNSET

    @property
    def is_cleaned(self) -> bool:
        """Whether any pass cleaned."""
        return any(one.stats for one in self.passes)


class ErrorText(Struct, frozen=True, rename={"kafka_class": "class"}):
    """An error, by Kafka's class and message where it is Kafka's."""

    kafka_class: str
    message: str


class CleanerFailure(Result, frozen=True):
    """A partition at which a broker's cleaner fails."""

    error: ErrorText


class CleanedVerdict(SegmentVerdict, frozen=True):
    """into: the base offset of the segment that has what stays of this one. gone: as in CleanerPass."""

    into: int
    size: int
    bytes_written: int
    gone: Mapping[str, int]


class UncleanedVerdict(SizedVerdict, frozen=True):
    """part: of the log, as the cleaner sees it: clean, dirty, uncleanable."""

    part: str


def decide(path: str, question: CompactQuestion, make_spool: MakeSpool | None = None) -> Iterator[Plan]:
    """Plan for a partition dir, or for each compacted one of a log dir; then for the log dir's checkpoints.

    make_spool: for each new segment, called on any thread; without it, new segments stay in memory. Raises Corrupt,
    Unsupported or Refused, with Kafka's class, if a broker refuses to load a log or its cleaner fails; KlogError if the
    path is neither kind of dir.
    """
    if isinstance(open_path(path), LogDir):
        yield from _plan_log_dir(path, question, make_spool)
        return
    change = _change_of(path, question, Checkpoints.beside(path), make_spool, clean)
    yield from plan_change(COMMAND, path, question, change)


def _change_of(
    path: str, question: CompactQuestion, checkpoints: Checkpoints, make_spool: MakeSpool | None, cleaning: CleanLog
) -> ChangeLog:
    checkpoint = question.first_dirty_offset
    if checkpoint is None:
        checkpoint = find_first_dirty(path, checkpoints)
    beside = Beside.of(path, checkpoints)
    return lambda log: compact_log(log, checkpoint, question, beside, make_spool, cleaning)


def find_first_dirty(path: str, checkpoints: Checkpoints) -> int | None:
    """Return a partition's line in cleaner-offset-checkpoint, or None.

    Raises Corrupt, with Kafka's class, if a broker's cleaner cannot read the file: then it cleans no log any more.
    """
    name = find_partition_dir_name(own_name(path))
    if name is None or checkpoints.log_dir is None:
        return None
    offset, source = checkpoints.find(FileKind.CLEANER_CHECKPOINT, TopicPartition(name.topic, name.partition))
    if source.cause is LoadNote.UNREADABLE:
        raise Corrupt(str(source), path=checkpoints.log_dir, kafka_class="NumberFormatException")
    return offset


# --- a log dir --------------------------------------------------------------------------------------------------------


def _plan_log_dir(path: str, question: CompactQuestion, make_spool: MakeSpool | None) -> Iterator[Plan]:
    """Yield plans: first partitions that are left alone, then the dirtiest first, checkpoints last. A refused partition
    gets a plan without steps that says why, because a broker's cleaner continues with the others too."""
    checkpoints = Checkpoints.of(path)
    ratios: dict[str, float] = {}
    for name, _, skipped in walk_partition_dirs(path):
        folder = os.path.join(path, name)
        skipped = skipped or why_left_alone(folder, question, checkpoints)
        if skipped is None:
            ratios[folder] = dirty_ratio(folder, question, checkpoints)
        else:
            yield Plan(COMMAND, folder, question, (), (), (), LeftAlone(skipped), (skipped,))
    if ratios:
        check_checkpoint(next(iter(ratios)), question, checkpoints)
    all_lines: list[CheckpointLines] = []
    filthiest_first = sorted(ratios, key=lambda folder: -ratios[folder])
    for folder, planned in _planned(filthiest_first, question, checkpoints, make_spool):
        if isinstance(planned, KlogError):
            yield refused_plan(folder, question, planned)
            continue
        plan, lines = planned
        yield plan
        if lines is not None and (plan.steps or lines.first_dirty is not None):
            all_lines.append(lines)
    if all_lines and checkpoints.log_dir is not None:
        plans = plan_checkpoints(COMMAND, path, question, all_lines, is_path=True)
        yield from (plan for plan in plans if plan is not None)


def check_checkpoint(folder: str, question: CompactQuestion, checkpoints: Checkpoints) -> None:
    """Raises Corrupt, with Kafka's class, for a cleaner-offset-checkpoint that ends the cleaner's thread.

    folder: any partition dir of the log dir; the error is about all of them.
    """
    if question.first_dirty_offset is None:
        find_first_dirty(folder, checkpoints)


def refused_plan(folder: str, question: CompactQuestion, error: KlogError) -> Plan:
    """Return a plan without steps for a partition at which a broker's cleaner fails; its answer has the error."""
    error_text = ErrorText(error.kafka_class or type(error).__name__, error.kafka_message or str(error))
    return Plan(COMMAND, folder, question, (), (), (), CleanerFailure(error_text), (f"refused: {error}",))


def why_left_alone(folder: str, question: CompactQuestion, checkpoints: Checkpoints) -> Reason | None:
    """Return why the cleaner ignores a partition dir that a broker loads, or None."""
    return None if _terms(folder, question, checkpoints).config.compact else PassCause.NOT_COMPACTED()


def plan_one(
    folder: str,
    question: CompactQuestion,
    checkpoints: Checkpoints,
    make_spool: MakeSpool | None = None,
    cleaning: CleanLog = clean,
) -> tuple[Plan, CheckpointLines | None]:
    """Plan one partition dir of a log dir, with its checkpoint lines. Raises as `decide` does.

    make_spool: as in `decide`; cleaning: how a pass is done.
    """
    change = _change_of(folder, question, checkpoints, make_spool, cleaning)
    return plan_partition(COMMAND, folder, question, change, checkpoints)


def _planned(
    folders: list[str], question: CompactQuestion, checkpoints: Checkpoints, make_spool: MakeSpool | None
) -> Iterator[tuple[str, tuple[Plan, CheckpointLines | None] | KlogError]]:
    """Plan several partitions at a time, each on its own thread."""

    def plan(folder: str) -> tuple[Plan, CheckpointLines | None] | KlogError:
        try:
            return plan_one(folder, question, checkpoints, make_spool)
        except (Changed, Unreadable):
            raise
        except KlogError as error:
            return error.at_path(folder)

    jobs = question.threads
    yield from in_order(lambda: plan, iter(folders), jobs)


def dirty_ratio(folder: str, question: CompactQuestion, checkpoints: Checkpoints) -> float:
    """Return how dirty a log is, from a quick look; -1 if it has nothing to clean, or cannot be loaded."""
    try:
        log = LoadedLog(Draft.of(folder), _terms(folder, question, checkpoints))
        ratio = find_log_to_clean(log, find_first_dirty(folder, checkpoints), log.terms.now_ms).cleanable_ratio
    except (Changed, Unreadable):
        raise
    except KlogError:  # reported when the partition is planned
        return -1.0
    return -1.0 if ratio is None else ratio


def _terms(folder: str, question: CompactQuestion, checkpoints: Checkpoints) -> LoadTerms:
    return terms_of(folder, question.circumstances, checkpoints=checkpoints)


# --- a partition ------------------------------------------------------------------------------------------------------


def compact_log(
    log: LoadedLog,
    checkpoint: int | None,
    question: CompactQuestion,
    beside: Beside,
    make_spool: MakeSpool | None,
    cleaning: CleanLog = clean,
) -> Change:
    """Run all passes over a log. checkpoint: where its dirty part begins, None if unknown; cleaning: how a pass is
    done.

    Raises as `decide` does.
    """
    if question.force:
        check_forced_cleaning(log, beside)
    passes: list[CleanerPass] = []
    verdicts: dict[int, SegmentVerdict] = {}
    line: int | None = None
    sizes = {segment.base_offset: segment.size for segment in log.segments.all}
    doubts: list[IndexDoubt] = []
    passes_at_ms = question.passes_at_ms or [log.terms.now_ms]
    false_checksums: list[Text] = []
    for n, now_ms in enumerate(passes_at_ms, 1):
        log.draft.make_spool = make_spool if make_spool is not CountingSpool or n == len(passes_at_ms) else None
        log.terms = replace(log.terms, now_ms=now_ms)
        log.producers.now_ms = now_ms
        to_clean = find_log_to_clean(log, checkpoint, now_ms)
        done = _looked_at(log, to_clean)
        doubts += lag_doubts(log, to_clean)
        if to_clean.is_reset:
            line = to_clean.first_dirty_offset
        if (to_clean.is_eligible and log.terms.config.compact) or question.force:
            loaded = _as_loaded(log, to_clean)
            checkpoint, stats = cleaning(log, to_clean, now_ms, keeps_magic=question.keep_magic)
            false_checksums = false_checksums or _false_checksums(log, loaded, stats)
            line, done = checkpoint, _cleaned(done, checkpoint, stats)
            log.report.cleaned |= set(stats.groups)
            for verdict in _verdicts(stats, sizes):
                verdicts.setdefault(verdict.segment, verdict)
        log.run_scheduled()
        # The cleaner does not touch a log without compact in its policy; retention runs on such logs at other times.
        deletions = deleted_segments(_retain(log, doubts)) if log.terms.config.compact else []
        log.run_scheduled()
        passes.append(replace(done, deletions=deletions))
    kept = [_kept_verdict(base, size, to_clean) for base, size in sizes.items() if base not in verdicts]
    if question.no_undo and (doubt := first_too_early(doubts)) is not None:
        raise refusal_of(log.draft.path, doubt)
    result = CompactResult(passes, checkpoint, _producers_from(log), doubts or UNSET, state=settle(log))
    notes: list[Text] = [*false_checksums, *log.terms.setting_notes(SETTINGS)]
    if log.terms.rules.keeps_emptied_batch is EmptiedBatch.STAYS_AT_HIGH_WATERMARK:  # then the cleaner needs it
        notes.insert(0, PlanNote.EMPTIED_BATCH(high_watermark=log.high_watermark))
    in_order_of_base = sorted((*verdicts.values(), *kept), key=lambda verdict: verdict.segment)
    return Change(result, tuple(in_order_of_base), tuple(notes), first_dirty=line)


def _as_loaded(log: LoadedLog, to_clean: LogToClean) -> dict[int, str]:
    """Return the paths of the segments that a pass cleans, by base offset, without those that the load has changed:
    these are sound."""
    segments = [segment for segment in log.segments.all if segment.base_offset < to_clean.bound]
    return {
        segment.base_offset: segment.path
        for segment in segments
        if os.path.isfile(segment.path) and os.path.getsize(segment.path) == segment.size
    }


def _false_checksums(log: LoadedLog, loaded: Mapping[int, str], stats: CleaningStats) -> list[Text]:
    """Return the note about batches with a wrong checksum, if there are any: a cleaner does not look at it
    (Cleaner.cleanInto), so what they hold replaces sound records."""
    wrong: list[Finding] = []
    for base, path in loaded.items():
        tally = stats.tallies.get(base)
        if tally is None or tally.unproved:
            findings, _ = verify_segment(Segment(path), SegmentContext(log.terms.now_ms))
            wrong += (finding for finding in findings if finding.id is Kind.BATCH_CRC)
    if not wrong:
        return []
    file, folder = os.path.basename(wrong[0].path), quoted(log.draft.path)
    return [PlanNote.FALSE_CHECKSUMS(count=len(wrong), file=file, position=wrong[0].start or 0, folder=folder)]


def _retain(log: LoadedLog, doubts: list[IndexDoubt]) -> list[Deletion]:
    """Return what retention deletes after a pass. doubts: gets the segments of which it has a wrong date."""
    ages = ages_of(log) if log.terms.config.delete else {}
    keeper = Timekeeper(log)
    deleted = delete_old_segments(log)
    if ages:
        false_ages = retention_doubts(log, keeper, ages, deleted, ())
        check_kept_for_longer(log, deleted, true_ages(ages, false_ages))
        doubts += false_ages
    return deleted


def _looked_at(log: LoadedLog, to_clean: LogToClean) -> CleanerPass:
    """Return a pass that has cleaned nothing yet."""
    uncleanable = log.segments.values(to_clean.bound)
    return CleanerPass(
        to_clean.first_dirty_offset,
        to_clean.first_uncleanable_offset,
        to_clean.bound,
        to_clean.clean_bytes,
        to_clean.cleanable_bytes,
        sum(segment.size for segment in uncleanable),
        to_clean.cleanable_ratio,
        to_clean.is_eligible,
        why_due(log, to_clean),
        to_clean.is_reset,
        log.high_watermark,
        log.terms.now_ms,
    )


def why_due(log: LoadedLog, to_clean: LogToClean) -> Reason:
    """Return why a pass is due, or why not."""
    ratio, least = to_clean.cleanable_ratio, to_clean.min_cleanable_dirty_ratio
    if ratio is None:
        return PassCause.UNCLEANABLE() if log.segments.last.size else PassCause.EMPTY()
    if to_clean.is_eligible and ratio <= least:
        return PassCause.LAG_EXCEEDED(delay=to_clean.compaction_delay_ms)
    cause = PassCause.RATIO if log.terms.config.compact else PassCause.NOT_COMPACTED_RATIO
    return cause(ratio=f"{ratio:.3f}", least=f"{least:g}")


def _cleaned(looked_at: CleanerPass, end_offset: int, stats: CleaningStats) -> CleanerPass:
    total = stats.total
    written = CleanedBytes(
        total.messages_read, total.messages_written, stats.map_messages_read, total.bytes_read, total.bytes_written
    )
    return replace(
        looked_at,
        end_offset=end_offset,
        stats=written,
        gone=total.gone,
        map_is_full=stats.map_is_full,
        split=stats.aborted,
    )


def _verdicts(stats: CleaningStats, sizes: Mapping[int, int]) -> Iterator[CleanedVerdict]:
    """Yield a verdict for each cleaned segment: the base offset of the new one, how much stays and how much is
    removed."""
    for into, group in stats.groups.items():
        for base in group:
            tally = stats.tallies.get(base)
            if base not in sizes or tally is None:
                continue
            gone = ", ".join(f"{count:,} {reason}" for reason, count in tally.gone.items()) or "nothing"
            action = "clean" if base == into else "merge"
            reason = VerdictCause.CLEANED(records=tally.messages_written, size=tally.bytes_written, gone=gone)
            yield CleanedVerdict(base, action, reason, into, sizes[base], tally.bytes_written, tally.gone)


def _kept_verdict(base: int, size: int, to_clean: LogToClean) -> UncleanedVerdict:
    if base >= to_clean.bound:
        return UncleanedVerdict(base, "keep", f"uncleanable: {to_clean.why}", size, "uncleanable")
    part = "clean" if base < to_clean.first_dirty_offset else "dirty"
    return UncleanedVerdict(base, "keep", part, size, part)


def _producers_from(log: LoadedLog) -> Reason:
    """Return from where the producer state comes that decides which batches are a producer's last."""
    offset = log.producers.loaded_from
    if offset is None:
        return ProducersFrom.LOG() if log.producers.producers else ProducersFrom.NOTHING()
    name = build_file_name(FileKind.PRODUCER_SNAPSHOT, offset)
    cause = ProducersFrom.SNAPSHOT if offset >= log.log_end_offset else ProducersFrom.SNAPSHOT_AND_LOG
    return cause(file=name)
