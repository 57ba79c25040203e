"""Describes a recovery: the answer, what became of each segment and why, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from klogtool.broker.content import Content
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import SWAP
from klogtool.causes import Reason, Text
from klogtool.errors import KlogError
from klogtool.format.names import (
    INDEX_KINDS,
    MAPPED_INDEXES,
    FileKind,
    build_file_name,
    find_renamed_log,
    is_log_name,
    parse_file_name,
)
from klogtool.log.folder import own_name
from klogtool.log.probing import ends_in_zeros
from klogtool.plans.causes import PlanNote, RecoverCause, VerdictCause
from klogtool.plans.plan import SegmentVerdict
from klogtool.plans.recover_gaps import Gap, find_gaps, find_perhaps_missing, with_erased
from klogtool.plans.recover_reach import HIGH_WATERMARK, BehindEnd, damage_at, find_behind_end, find_lost_offsets
from klogtool.plans.recover_result import (
    BelowHighWatermark,
    LoadingLosses,
    MayLose,
    OffsetSpan,
    Recovery,
    RecoveryLoss,
    TruncatedSegment,
)
from klogtool.verify.only_copies import may_have
from klogtool.verify.swaps import find_lost_by_swap, offsets_in_log

INTERVAL = "index.interval.bytes"


class CutOffVerdict(SegmentVerdict, frozen=True):
    """A segment whose `.log` is cut, as in TruncatedSegment."""

    position: int
    bytes: int

    @property
    def why(self) -> Text:
        """The reason."""
        return self.reason or VerdictCause.NOT_WHOLE_BATCH()


def recovery_of(
    log: LoadedLog, stray: Reason | None, *, is_interval_known: bool, could_be_known: bool = True
) -> Recovery:
    """Return what the recovery of a stopped log did. stray: why a broker hides the partition. is_interval_known:
    whether somebody says the topic's `index.interval.bytes`. could_be_known: whether a log dir could have it."""
    report, loses_records, loss = log.report, *_loss(log)
    missing = with_erased(log, find_gaps(log, log.terms.compaction), log.terms.compaction)
    perhaps = [OffsetSpan(*span) for span in find_perhaps_missing(log, missing, log.terms.compaction)]
    behind = find_behind_end(log)
    may_lose = None if is_interval_known else find_may_lose(log, loss.lost)
    is_guessed = not is_interval_known and could_be_known and _makes_entries(log)
    return Recovery(
        report.recovered,
        loss.truncated,
        loss.deleted_segments,
        report.was_split,
        _rebuilt(log),
        loses_records,
        loss.lost,
        loss.why,
        log.log_start_offset,
        log.log_end_offset,
        behind,
        missing,
        _below_high_watermark(log),
        stray,
        INTERVAL if may_lose or is_guessed else UNSET,
        loss.lost_by_swap,
        may_lose or UNSET,
        perhaps or UNSET,
        list(_walk_renamed(log, [*missing, *([] if behind is None else [behind])])) or UNSET,
    )


def _walk_renamed(log: LoadedLog, missing: Iterable[Gap | BehindEnd]) -> Iterator[str]:
    """Yield the files that have a segment's name with another end, and by that name may have some of these offsets."""
    spans = [(each.first_offset, each.last_offset) for each in missing]
    known = [(first, last) for first, last in spans if first is not None and last is not None]
    named = ((name, find_renamed_log(name)) for name, file in sorted(log.draft.before.items()) if known and file.size)
    yield from may_have({name: plain for name, plain in named if plain}, log.draft.before, known)


def find_may_lose(log: LoadedLog, lost: OffsetSpan | None = None) -> MayLose | None:
    """Return what goes if recovery empties the first segment whose batches are out of order, for a topic whose
    `index.interval.bytes` nobody knows. lost: what goes anyway."""
    report = log.report
    refused = [base for base, error in report.emptied.items() if error.kafka_class == "InvalidOffsetException"]
    base = min((*report.needing_order, *refused), default=None)
    if base is None:
        return None
    last = max(log.log_end_offset - 1, base, -1 if lost is None else lost.last_offset, _highest_from(log, base))
    # A segment without a sound index is recovered when it is loaded, and there the error is not caught.
    is_load = base in report.unfit or build_file_name(FileKind.OFFSET_INDEX, base) not in log.draft.before
    return MayLose(base, base, last, is_load)


def _highest_from(log: LoadedLog, base: int) -> int:
    """Return the highest offset of this segment and of later ones as they were: the last batch need not have it."""
    names = (
        name for name in log.draft.before if is_log_name(name) and (parse_file_name(name).base_offset or 0) >= base
    )
    each = (offsets_in_log(log.draft.before[name].content).all.ranges for name in names)
    return max((ranges[-1][1] for ranges in each if ranges), default=base)


def _makes_entries(log: LoadedLog) -> bool:
    """Return whether an index with entries is made anew: how many batches lie between them is a setting."""
    return any(parse_file_name(name).kind in MAPPED_INDEXES and log.draft.size(name) for name in _rebuilt(log))


def _loss(log: LoadedLog) -> tuple[bool, RecoveryLoss]:
    """Return whether loading removes more than zeros, and what it removes."""
    truncated = [cut for segment in log.segments.all if (cut := _cut_of(log, segment)) is not None]
    damaged = [cut for cut in truncated if not _is_zeros(log, cut)]
    deleted = [name for name in log.draft.files if name.endswith(FileKind.LOG.value + DELETED)]
    deletes_records = bool(log.report.deleted_segments) and any(map(log.draft.size, deleted))
    is_cut = deletes_records or bool(damaged)
    why, claimed = _damage_of(log, damaged[0]) if damaged else (None, None)
    lost = _lost(log, claimed) if is_cut else None
    start = 0 if log.report.below_start else log.terms.log_start_offset
    by_swap = find_lost_by_swap(log.draft.before, log.report, log.terms.is_compacted, start).whole
    is_sure = by_swap is not None and not by_swap.unless_compacted
    if lost is not None and by_swap is not None and is_sure and lost.first_offset <= by_swap.first_offset:
        lost, by_swap = OffsetSpan(lost.first_offset, max(lost.last_offset, by_swap.last_offset)), None
    loss = RecoveryLoss(truncated, log.report.deleted_segments, lost, why, by_swap or UNSET)
    return is_cut or by_swap is not None, loss


def _lost(log: LoadedLog, claimed_end: int | None) -> OffsetSpan | None:
    """Return the offsets that are removed, judged by sound batches and the header of the damaged one."""
    first = log.report.below_start[0] if log.report.below_start else log.log_end_offset
    lost = find_lost_offsets(log.draft, first)
    end = max(lost[1] + 1 if lost else 0, claimed_end or 0)
    return OffsetSpan(first, end - 1) if end > first else None


def _damage_of(log: LoadedLog, cut: TruncatedSegment) -> tuple[Reason | None, int | None]:
    """Return what is wrong where a segment is cut, and the offset up to which the damaged header claims records."""
    segment = log.segments[cut.segment]
    with ContentFile(segment.path, _content_before(log, segment)) as file:
        return damage_at(file, segment.base_offset, cut.position)


def _below_high_watermark(log: LoadedLog) -> BelowHighWatermark | None:
    offsets = [evidence.offset for evidence in log.terms.evidence if evidence.by == HIGH_WATERMARK]
    end = log.log_end_offset
    if not offsets or offsets[0] <= end:
        return None
    return BelowHighWatermark(offsets[0], end, offsets[0] - 1, offsets[0] - end)


def losses_of_loading(log: LoadedLog, behind: BehindEnd | None) -> LoadingLosses:
    """Return what the log lost when it was loaded, and what is missing after its end. Call it before any other change
    to the log."""
    report = log.report
    loses_records, loss = _loss(log) if report.recovered or report.deleted_segments or report.swapped else (False, None)
    return LoadingLosses(
        loss if loss is not None and loses_records else UNSET,
        behind or UNSET,
        _below_high_watermark(log) if behind is not None else UNSET,
    )


def recovery_verdicts(log: LoadedLog) -> tuple[SegmentVerdict, ...]:
    """Return what becomes of each segment, by base offset."""
    why_deleted = _why_deleted(log)
    verdicts = {base: SegmentVerdict(base, "delete", why_deleted) for base in log.report.deleted_segments}
    recovered, swapped = set(log.report.recovered), set(log.report.swapped)
    for segment in log.segments.all:
        is_swapped = segment.log_name + SWAP in swapped
        verdicts[segment.base_offset] = _verdict(
            log, segment, is_recovered=segment.base_offset in recovered, is_swapped=is_swapped
        )
    return tuple(verdicts[base] for base in sorted(verdicts))


def recovery_notes(log: LoadedLog) -> Iterator[Reason]:
    """Yield notes about leftovers."""
    report = log.report
    if report.removed:
        yield PlanNote.LEFTOVERS_REMOVED(files=len(report.removed))
    if report.swapped:
        yield PlanNote.SWAP_COMPLETED(files=len(report.swapped))
    if report.replaced:
        yield PlanNote.REPLACED_REMOVED(files=len(report.replaced))
    if report.was_split:
        yield PlanNote.SPLIT()


def _verdict(log: LoadedLog, segment: LogSegment, *, is_recovered: bool, is_swapped: bool) -> SegmentVerdict:
    base, report = segment.base_offset, log.report
    cut = _cut_of(log, segment)
    if _size_before(log, segment) is None:
        is_part = report.was_split and segment.size
        return SegmentVerdict(base, "create", VerdictCause.SPLIT_OFF() if is_part else VerdictCause.NEEDED())
    if cut is not None:
        action = "empty" if base in report.emptied else "truncate"
        return CutOffVerdict(base, action, cut.reason, cut.position, cut.bytes)
    if is_recovered:
        return SegmentVerdict(base, "recover", VerdictCause.REBUILT())
    if is_swapped:
        return SegmentVerdict(base, "swap", VerdictCause.SWAPPED())
    why = VerdictCause.CLEAN_STOP if log.terms.is_clean else VerdictCause.BELOW_RECOVERY_POINT
    return SegmentVerdict(base, "keep", why())


def _why_deleted(log: LoadedLog) -> Reason:
    cut = next((segment.base_offset for segment in log.segments.all if _cut_of(log, segment) is not None), None)
    if cut is None:
        return VerdictCause.ENDS_BELOW_START(start=log.terms.log_start_offset)
    return VerdictCause.AFTER_CUT(segment=cut)


def _cut_of(log: LoadedLog, segment: LogSegment) -> TruncatedSegment | None:
    """Return a row of `truncated`, or None. After a split, sizes say nothing."""
    before = _size_before(log, segment)
    if before is None or segment.size >= before or log.report.was_split:
        return None
    return TruncatedSegment(segment.base_offset, segment.size, before - segment.size, _reason(log, segment.base_offset))


def _reason(log: LoadedLog, base_offset: int) -> Text | None:
    if (error := log.report.emptied.get(base_offset)) is not None:
        if error.kafka_class == "InvalidOffsetException":
            return RecoverCause.NOT_ASCENDING()
        return RecoverCause.EMPTIED(file=own_name(error.path or log.draft.path), why=error.reason)
    stopped_by: KlogError | None = log.report.stopped_by.get(base_offset)
    return None if stopped_by is None else stopped_by.reason


def _name_before(log: LoadedLog, segment: LogSegment) -> str | None:
    """Return the name that its `.log` had: that of a swap, if there was one."""
    names = (segment.log_name + SWAP, segment.log_name)
    return next((name for name in names if name in log.draft.before), None)


def _size_before(log: LoadedLog, segment: LogSegment) -> int | None:
    name = _name_before(log, segment)
    return None if name is None else log.draft.before[name].size


def _content_before(log: LoadedLog, segment: LogSegment) -> Content:
    name = _name_before(log, segment)
    return log.draft.before[name].content if name else ()


def _rebuilt(log: LoadedLog) -> list[str]:
    """Return the names of side files of recovered segments that are new or changed."""
    changed = (parse_file_name(name) for name in sorted(log.draft.changed()) if name in log.draft)
    recovered = set(log.report.recovered)
    return [
        file.name for file in changed if file.kind in INDEX_KINDS and not file.suffix and file.base_offset in recovered
    ]


def _is_zeros(log: LoadedLog, cut: TruncatedSegment) -> bool:
    """Return whether only zeros are cut off, as in a preallocated file."""
    segment = log.segments[cut.segment]
    with ContentFile(segment.path, _content_before(log, segment)) as file:
        return ends_in_zeros(file, cut.position)
