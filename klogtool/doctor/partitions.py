"""Rehearses the start of one partition: it is loaded as a broker loads it, over a draft, and nothing is written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.broker.unified_log.reading import watermark_as_leader
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, Prospect, What, Work, ahead_of
from klogtool.doctor.bad_sectors import unread
from klogtool.doctor.causes import AdviceCause, AheadCause, few_names, offsets_in
from klogtool.doctor.claims import Gone, Hidden, HiddenBy, Lost, OffsetRange, PartitionClaim, WhyUnknown
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.file_systems import Growth
from klogtool.doctor.measured import find_doubtful_copies, find_emptied, find_set_aside
from klogtool.doctor.partition_claims import Judgement, judge_loaded, last_timestamp, span_of
from klogtool.doctor.permissions import find_denied, not_permitted, refused_by_special, special_text
from klogtool.doctor.readable import Readable, ranges_of
from klogtool.doctor.running_broker import (
    fails_at_read,
    find_uncopied,
    find_unloaded,
    find_unserved,
    walk_retention,
    walk_unopened,
)
from klogtool.errors import Changed, Corrupt, KlogError, Unsupported
from klogtool.escape import quoted
from klogtool.format.names import MAPPED_INDEXES, FileKind, is_log_name, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_nested_logs, is_broken_link, is_fifo, logs_beside, names_in, why_leads_nowhere
from klogtool.log.partition import Partition
from klogtool.log.second_reading import TRIES, has_changed, read_again
from klogtool.plans.plan import Plan
from klogtool.plans.recover import RecoverQuestion, log_bytes, recover_partition
from klogtool.plans.recover_result import MayLose, Recovery
from klogtool.salvage.corrections import find_closed_end
from klogtool.verify.closed_end import judge_last_batch
from klogtool.verify.cures import FROM_A_CONTROLLER, move_out_of_partition
from klogtool.verify.false_offset_index import find_false_entry
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.misplaced import walk_recovered
from klogtool.verify.only_copies import may_have
from klogtool.verify.stops import stop_of
from klogtool.verify.verify_names import verify_names

LOG = FileKind.LOG

_LEFT_LOGS = tuple(LOG.value + suffix for suffix in (CLEANED, SWAP, DELETED))


class Rehearsed(Struct, frozen=True):
    """A partition's start: the prospect, and what is ahead beyond ordinary work.

    looks_up_unstable: loading looks up where the first transaction begins that is open, or that ended in replayed
    batches. depends_on_release: not all releases load the log alike. growth: of files on the disk.
    """

    prospect: Prospect
    ahead: tuple[Ahead, ...] = ()
    looks_up_unstable: bool = False
    depends_on_release: bool = False
    growth: Growth = Growth()


def rehearse(
    path: str, question: RecoverQuestion, checkpoints: Checkpoints, threads: int, most_unread: int
) -> Rehearsed:
    """Rehearse the start of a partition dir. An error is a point. most_unread: bytes to read beyond what the start
    reads.

    A file that went away since the folder was listed is none: the rehearsal begins anew. Raises Unreadable or Changed
    if that happens each time: a broker is running. It also begins anew if there are points and logs became longer: what
    a broker was writing looks torn. That may happen each time.
    """

    def attempt() -> Rehearsed:
        before = _names_in(path)
        rehearsed = _rehearse(path, question, checkpoints, threads, most_unread)
        if not before <= _names_in(path):
            raise Changed("a file went away while the folder was read", path=path)
        return rehearsed

    for _ in range(TRIES - 1):
        size, rehearsed = log_bytes(path), read_again(attempt)
        if not rehearsed.ahead or log_bytes(path) <= size:
            return rehearsed
    return read_again(attempt)


def _names_in(path: str) -> set[str]:
    """Return the names in a folder; none if it cannot be listed, which the rehearsal tells."""
    try:
        return set(names_in(path))
    except Unreadable:
        return set()


def _rehearse(
    path: str, question: RecoverQuestion, checkpoints: Checkpoints, threads: int, most_unread: int
) -> Rehearsed:
    began = time.monotonic()
    try:
        log, plan, recovery = recover_partition(path, question, checkpoints, threads)
    except KlogError as error:
        if has_changed(error):
            raise
        if (broken := _broken_link(error)) is not None and broken.what is What.OFFLINE:
            return Rehearsed(not_loaded(path), (broken,))
        if broken is not None:
            unknown = not_loaded(path, reason=WhyUnknown.UNREADABLE)  # a broker loads it otherwise than klogtool
            return Rehearsed(unknown, (broken, *_walk_refused_beside(path, question, checkpoints, threads)))
        return Rehearsed(not_loaded(path), (_refused(path, error),))
    if (denied := find_denied(path, log)) is not None:
        return Rehearsed(not_loaded(path), (denied,))
    try:
        return _judged(path, question, checkpoints, most_unread, (log, plan, recovery), time.monotonic() - began)
    except Unreadable as error:
        if not error.is_of_disk:
            raise
        return Rehearsed(not_loaded(path, reason=WhyUnknown.UNREADABLE), (unread(error, path),))


def _judged(
    path: str,
    question: RecoverQuestion,
    checkpoints: Checkpoints,
    most_unread: int,
    recovered: tuple[LoadedLog, Plan, Recovery],
    seconds: float,
) -> Rehearsed:
    """Return what is ahead of a log that a start loads, and what of it is lost, hidden or damaged."""
    log, plan, recovery = recovered
    unopened = tuple(walk_unopened(path, log))  # what judges the log opens more than a start does
    judged = judge_loaded(path, log, recovery, most_unread)
    ignored = [_counted(point, judged) for point in walk_ignored(Partition(path))]
    wrong_end = _walk_wrong_end(log, find_closed_end(path, question.circumstances, checkpoints))
    ahead = (*_walk_ahead(judged), *wrong_end, *unopened, *(ignored or _walk_set_aside(judged)))
    depends = log.report.has_odd_txn_version or bool(judged.followed.odd)  # how a batch is found differs
    prospect = _prospect(path, log, plan, recovery, seconds, judged.claim)
    ends_early = any(point.what is What.ENDS_EARLY for point in ahead)
    ahead = (
        *ahead,
        *filter(None, [find_unserved(path, log), find_uncopied(path, log), find_unloaded(path, log, most_unread)]),
        *walk_retention(path, log, checkpoints, ends_early=ends_early),
    )
    return Rehearsed(prospect, ahead, log.looked_up_unstable, depends, Growth.of(plan))


def not_loaded(
    path: str,
    why: WhyUnknown = WhyUnknown.NOT_LOADED,
    work: Work = Work.NOT_LOADED,
    reason: WhyUnknown | None = None,
) -> Prospect:
    """Return the prospect of a partition dir whose start is not rehearsed: nothing is known of it. reason: why it
    may be served all the same."""
    claim = PartitionClaim(
        path,
        None if reason or why is WhyUnknown.NAMES_ONLY else False,
        lost=Lost(None, (), why),
        gone_already=Gone(None, reason=why),
        hidden=Hidden(None, reason=why),
        deleted=None,
        renamed=None,
        rewritten=None,
        reason=reason or why,
    )
    return Prospect(path, work, claim=claim)


def walk_ignored(partition: Partition) -> Iterator[Ahead]:
    """Yield segments that a broker never reads, because their names have not 20 digits. Raises KlogError if the folder
    cannot be listed."""
    names = [name for name in names_in(partition.path) if name.endswith(LOG.value) and not is_log_name(name)]
    if names:
        yield from (point for point in _walk_names(partition) if point.what is What.IGNORED)


def glance(partition: Partition) -> Rehearsed:
    """Judge a partition dir by its names alone (`--quick`). What a start would cut is not known then."""
    try:
        ahead = tuple(_walk_names(partition))
    except KlogError as error:
        return Rehearsed(not_loaded(partition.path), (_refused(partition.path, error),))
    prospect = not_loaded(partition.path, WhyUnknown.NAMES_ONLY, Work.NAMES_ONLY)
    return Rehearsed(replace(prospect, log_bytes=log_bytes(partition.path)), ahead)


def _walk_names(partition: Partition) -> Iterator[Ahead]:
    for finding in verify_names(partition)[1]:
        kind = parse_file_name(os.path.basename(finding.path)).kind
        if finding.id == Kind.UNREADABLE and kind in MAPPED_INDEXES and os.path.isdir(finding.path):
            yield fails_at_read(finding.path, "Is a directory")
        elif finding.id == Kind.UNREADABLE:
            yield Ahead(finding.path, What.OFFLINE, finding.reason, finding=finding)
        elif finding.id == Kind.SEGMENT_NAME:
            name = parse_file_name(os.path.basename(finding.path))
            what = What.REFUSES if name.base_offset is None else What.IGNORED
            if name.base_offset is None or name.base_offset >= 0:  # a name below zero does no harm
                size = os.path.getsize(finding.path) if what is What.IGNORED else 0
                yield replace(ahead_of(finding, what), lost_bytes=size)


_LINKS = {FileKind.PARTITION_METADATA: AheadCause.LINK_OF_TOPIC_ID, LOG: AheadCause.LINK_OF_LOG}


def _broken_link(error: KlogError) -> Ahead | None:
    """Return the point about a link that leads nowhere. A broker takes it for a name that is no file, so the segment of
    such a `.log` is not there, and its indexes are deleted. Other files are made anew through the link, if they can
    be; but CheckpointFile makes its file only where no name is, and reads it then."""
    link = error.path
    if link is None or not is_broken_link(link):
        return None
    name = parse_file_name(os.path.basename(link))
    is_new = bool(name.suffix) and why_leads_nowhere(link) is None
    kind = FileKind.FOREIGN if is_new else name.kind
    detail = _LINKS.get(kind, AheadCause.LINK_MADE_ANEW)()
    cure, finding = AdviceCause.BEFORE_ANY_START(path=quoted(link)), Finding(Kind.UNREADABLE, link, detail)
    point = Ahead(link, What.LINK_BROKEN, detail, finding=finding, cure=cure, cure_looks=True)
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        stop = stop_at("checkpoint-unreadable", is_fatal=False, path=link)
        return replace(point, what=What.OFFLINE, detail=AheadCause.LINK_OF_EPOCHS(), stop=stop)
    return point


def _walk_refused_beside(
    path: str, question: RecoverQuestion, checkpoints: Checkpoints, threads: int
) -> Iterator[Ahead]:
    """Yield what ends the start of a partition dir, beside links that lead nowhere."""
    try:
        recover_partition(path, question, checkpoints, threads, passes_over_links=True)
    except KlogError as error:
        if has_changed(error):
            raise
        if _broken_link(error) is None:
            yield _refused(path, error)


def _refused(path: str, error: KlogError) -> Ahead:
    at = error.path or path
    if (point := refused_by_special(error)) is not None:
        return point
    if isinstance(error, Unreadable):
        if error.is_denied:
            return not_permitted(error, os.path.dirname(path))
        if error.is_of_disk:
            return unread(error, path)
        return ahead_of(Finding(Kind.UNREADABLE, at, AheadCause.UNREADABLE(why=error.reason)), What.OFFLINE)
    stop = stop_of(error)
    is_name = stop.kafka_class == "NumberFormatException" and parse_file_name(os.path.basename(at)).base_offset is None
    detail = AheadCause.EXCEPTION(kafka_class=stop.kafka_class, why=error.reason)
    finding = Finding(Kind.SEGMENT_NAME, at, detail) if is_name and os.path.isfile(at) else None
    return Ahead(at, What(stop.outcome.value), detail, stop=stop, finding=finding)


def refused_metadata(folder: str, error: KlogError) -> Ahead:
    """Return the point about an error at which the loading of the metadata log in a partition dir ends: the process
    ends, too (KafkaRaftLog.createLog). A start makes side files anew. Raises Unreadable for what klogtool alone may not
    read."""
    at = error.path or folder
    kind = parse_file_name(os.path.basename(at)).kind
    cure = FROM_A_CONTROLLER if kind in (LOG, FileKind.KRAFT_SNAPSHOT) else move_out_of_partition(at)
    if is_link := is_broken_link(at):
        cure = AdviceCause.BEFORE_ANY_START(path=quoted(at))
    is_text = kind in (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
    if is_text and (point := special_text(at)) is not None:
        return point
    is_denied = isinstance(error, Unreadable) and error.is_denied
    if error.kafka_class is None and not is_fifo(at) and not is_denied:
        return Ahead(at, What.REFUSES, AheadCause.ENDS_AT_FILE(why=error.reason), cure=cure, cure_looks=is_link)
    point = _refused(folder, error)
    stop = None if point.stop is None else point.stop.ending_the_broker()
    return replace(point, what=What.REFUSES, stop=stop, cure=cure, cure_looks=is_link)


def _prospect(
    path: str, log: LoadedLog, plan: Plan, recovery: Recovery, seconds: float, claim: PartitionClaim
) -> Prospect:
    sizes = plan.log_sizes
    recovered = sum(sizes.get(base, 0) for base in set(recovery.recovered))
    looked_at = {*recovery.recovered, *recovery.deleted_segments}
    return Prospect(
        path,
        _work(log, recovery),
        recovered,
        sum(sizes.values()),
        sum(size for base, size in sizes.items() if base not in looked_at),
        max(0, plan.bytes_freed),
        log.log_end_offset,
        seconds if recovered else 0.0,
        len(sizes),
        claim=claim,
    )


def _work(log: LoadedLog, recovery: Recovery) -> Work:
    report = log.report
    if recovery.truncated or recovery.deleted_segments:
        return Work.CUT
    if recovery.split:
        return Work.SPLIT
    if recovery.recovered:
        return Work.REBUILT if recovery.rebuilt else Work.RECOVERED
    return Work.LEFTOVERS if report.removed or report.swapped or report.replaced else Work.CLEAN


# What is ahead.


def _walk_ahead(state: Judgement) -> Iterator[Ahead]:
    path, log, claim, behind = state.claim.path, state.log, state.claim, state.recovery.behind_end
    hidden, below, passed_over, behind_damage, by_index = (
        [part for why, part in state.measured.hidden if why is reason]
        for reason in (HiddenBy.BEYOND_END, HiddenBy.BELOW_START, HiddenBy.ORDER, HiddenBy.DAMAGE, HiddenBy.INDEX)
    )
    if state.recovery.loses_records or claim.lost.records != 0:
        yield _cut(state)
    if below:
        yield _hidden(path, below, AheadCause.NAME_TOO_HIGH, start=log.log_start_offset)
    if hidden and not (log.terms.is_clean and state.behind_end):
        yield _hidden(path, hidden, AheadCause.BEYOND_END, end=log.log_end_offset)
    hidden = list(state.behind_end) if log.terms.is_clean else []
    if passed_over:
        yield _hidden(path, passed_over, AheadCause.PASSED_OVER)
    if behind_damage:
        yield replace(_hidden(path, behind_damage, AheadCause.BEHIND_DAMAGE), hidden_by=HiddenBy.DAMAGE)
    if by_index:
        yield replace(_hidden(path, by_index, AheadCause.BY_FALSE_INDEX), hidden_by=HiddenBy.INDEX)
    elif (false := find_false_entry(log)) is not None:
        detail = AheadCause.INDEX_FALSE(segment=false.segment, offset=false.offset, position=false.position)
        yield Ahead(path, What.INDEX_FALSE, detail, severity=Severity.WARNING)
    if behind is not None and behind.served:
        damaged = AheadCause.LAST_BATCH_DAMAGED(last=log.log_end_offset - 1, damage=behind.damage or "")
        yield Ahead(path, What.DAMAGED, damaged)
    elif hidden or (behind is not None and behind.clean_marker_false and behind.damage):
        yield _ends_early(state, hidden, None if behind is None else behind.damage)
    elif state.followed.fails_at:
        yield Ahead(path, What.DAMAGED, _why_consumers_fail(state))
    elif (stops := state.followed.stops) is not None and not state.measured.hidden:
        yield Ahead(path, What.DAMAGED, AheadCause.CONSUMERS_STOP(offset=stops[0], again=stops[1] + 1))
    if (error := _fails_as_leader(state)) is not None:
        yield error
    if state.followed.waits_at is not None:
        yield Ahead(path, What.HIDDEN, _why_consumers_wait(state, state.followed.waits_at), severity=Severity.WARNING)
    if ranges := claim.gone_already.ranges:
        first, last = ranges[0][0], ranges[-1][1]
        yield Ahead(path, What.MISSING, _why_missing(state, ranges), first, last, severity=Severity.WARNING)
    elif behind is not None and behind.damage and not behind.clean_marker_false and not hidden:
        damaged = AheadCause.END_DAMAGED(damage=behind.damage)
        yield Ahead(path, What.MISSING, damaged, severity=Severity.WARNING)
    if perhaps := claim.gone_already.perhaps:
        unsure = AheadCause.PERHAPS_MISSING(offsets=offsets_in(perhaps))
        yield Ahead(path, What.PERHAPS_MISSING, unsure, perhaps[0][0], perhaps[-1][1], severity=Severity.INFO)


def _cut(state: Judgement) -> Ahead:
    log, lost = state.log, state.claim.lost
    all_gone = bool(log.report.below_start)
    kept = None if all_gone else last_timestamp(log)
    first, last = span_of(lost.ranges) or (None, None)
    return Ahead(
        state.claim.path,
        What.ALL_DELETED if all_gone else What.TRUNCATED,
        _why_cut(state),
        first,
        last,
        state.lost_at_least if lost.records is None else lost.records,
        state.measured.lost_bytes,
        _between(kept, state.measured.lost),
        kept,
        is_uncounted=lost.records is None,
        severity=Severity.WARNING if lost.records == 0 and not all_gone else Severity.ERROR,
    )


def _between(kept: int | None, lost: Iterable[Readable]) -> int:
    newest = max((part.newest_timestamp for part in lost), default=-1)
    return 0 if kept is None or newest < 0 else max(0, newest - kept)


def _why_cut(state: Judgement) -> Reason:
    recovery, report, ranges = state.recovery, state.log.report, state.claim.lost.ranges
    size, offsets = state.measured.lost_bytes, offsets_in(ranges) if ranges else ""
    span = AheadCause.SPAN(offsets=offsets) if ranges else ""
    nothing = "" if ranges else AheadCause.NOTHING_LOST()
    if recovery.may_lose:
        return _why_may_lose(recovery.may_lose, state.lost_at_least)
    if report.below_start:
        return AheadCause.ALL_DELETED(size=size, span=span, start=state.log.terms.log_start_offset)
    is_cut = recovery.truncated or recovery.deleted_segments or report.replaced
    left = sorted({name for name in report.removed if name.endswith(_LEFT_LOGS)})
    if not is_cut and ranges and left:
        return AheadCause.LEFTOVERS_DELETED(names=" and ".join(left), offsets=offsets)
    if (report.replaced or not is_cut) and not recovery.truncated:
        return AheadCause.SWAP_REPLACES(size=size, span=span, nothing=nothing)
    at, deleted = recovery.truncated, len(recovery.deleted_segments)
    after = AheadCause.SEGMENT_DELETED if deleted == 1 else AheadCause.SEGMENTS_DELETED
    return AheadCause.CUT(
        size=size,
        span=span,
        # What a .swap replaces lies elsewhere.
        where=AheadCause.CUT_AT(segment=at[0].segment, position=at[0].position) if at and not report.replaced else "",
        why=AheadCause.IN_BRACKETS(why=recovery.why) if recovery.why else "",
        deleted=after(segments=deleted) if deleted else "",
        nothing=nothing,
    )


def _why_may_lose(may_lose: MayLose, at_least: int) -> Reason:
    cause = AheadCause.MAY_FAIL if may_lose.is_offline else AheadCause.MAY_EMPTY
    offsets = offsets_in(((may_lose.first_offset, may_lose.last_offset),))
    reason = cause(segment=may_lose.segment, offsets=offsets)
    return AheadCause.LOST_ANYWAY(why=reason, records=at_least) if at_least else reason


def _ends_early(state: Judgement, hidden: Sequence[Readable], damage: Reason | None) -> Ahead:
    """A write that needs a new segment fails if that would have the base offset of the active segment, which is not
    empty (LocalLog.roll). Nothing is written then, so each later write fails, too."""
    log, kept, ranges = state.log, last_timestamp(state.log), ranges_of(hidden)
    end, active = log.log_end_offset, log.segments.last
    first, last = span_of(ranges) or (None, None)
    return Ahead(
        state.claim.path,
        What.ENDS_EARLY,
        (AheadCause.ENDS_BEFORE_RECORDS if ranges else AheadCause.ENDS_BEFORE_DAMAGE)(
            end=end,
            offsets=offsets_in(ranges) if ranges else "",
            roll=AheadCause.NO_ROLL() if end == active.base_offset and active.size else "",
            damage=AheadCause.IN_BRACKETS(why=damage) if damage else "",
        ),
        first,
        last,
        sum(part.records for part in hidden),
        sum(part.stop - part.start for part in hidden),
        _between(kept, hidden),
        kept,
    )


def _walk_wrong_end(log: LoadedLog, closed_at: int | None) -> Iterator[Ahead]:
    """Yield the point about a last batch whose header goes beyond the end at which the log was closed."""
    segment = next((each for each in reversed(log.segments.all) if each.size), None)
    if closed_at is None or segment is None or log.log_end_offset <= closed_at:
        return
    try:
        findings = list(judge_last_batch(segment.path, (0, segment.size), segment.base_offset, closed_at))
    except KlogError:  # told elsewhere
        return
    for each in findings:
        offsets = AheadCause.WRONG_OFFSETS() if each.id == Kind.BATCH_HEADER else ""
        detail = AheadCause.ENDS_LATE(wrong=each.detail, end=log.log_end_offset, offsets=offsets)
        yield Ahead(log.draft.path, What.ENDS_LATE, detail, finding=each)


def _hidden(path: str, hidden: Sequence[Readable], cause: AheadCause, **values: int) -> Ahead:
    ranges, size = ranges_of(hidden), sum(part.stop - part.start for part in hidden)
    detail = cause(offsets=offsets_in(ranges), **values)
    first, last = span_of(ranges) or (None, None)
    return Ahead(path, What.HIDDEN, detail, first, last, sum(part.records for part in hidden), size)


def _why_consumers_fail(state: Judgement) -> Reason:
    is_read = {segment.base_offset for segment in state.log.segments.all} <= set(state.log.report.recovered)
    return AheadCause.CONSUMERS_FAIL(
        why=AheadCause.RECORDS_DAMAGED() if is_read else AheadCause.SEGMENT_DAMAGED(),
        offset=state.followed.fails_at[0],
        inside=AheadCause.OR_LATER() if state.followed.fails_inside else "",
    )


def _why_consumers_wait(state: Judgement, offset: int) -> Reason:
    end, watermark = state.log.log_end_offset, state.followed.watermark
    if watermark is None:
        return AheadCause.CONSUMERS_WAIT(end=end, offset=offset)
    return AheadCause.CONSUMERS_WAIT_LONG(watermark=watermark, end=end, offset=offset)


def _why_missing(state: Judgement, ranges: tuple[OffsetRange, ...]) -> Reason:
    draft = state.log.draft
    copies = find_doubtful_copies(draft.before, is_compacted=state.log.terms.is_compacted)
    copies |= find_nested_logs(draft.path, draft.folders, draft.before)
    copies |= {f"../{name}": name for name in logs_beside(draft.path) if name not in draft.before}
    recovered = dict(walk_recovered(os.path.dirname(draft.path)))
    copies |= {path: name for path, name in recovered.items() if name not in draft.before}
    names = may_have(copies, draft.before, ranges)
    unless = AheadCause.UNLESS_COPY if len(names) == 1 else AheadCause.UNLESS_COPIES
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return (AheadCause.MISSING_ONE if is_one else AheadCause.MISSING_MANY)(
        offsets=offsets_in(ranges),
        but=unless(name=few_names(names)) if names else AheadCause.TORN() if state.followed.torn else "",
        witness=tuple(witness.value for witness in state.claim.gone_already.witness),
    )


def _fails_as_leader(state: Judgement) -> Ahead | None:
    """Return the point if the broker cannot become the leader. It looks up the batch at the high watermark, if that is
    below the log's end (Partition.makeLeader, UnifiedLog.fetchHighWatermarkMetadata). Without a line in the checkpoint
    it is 0. An IOException does less harm: only this partition is offline then."""
    log, path = state.log, state.claim.path
    mark = max(log.log_start_offset, log.terms.high_watermark or 0)
    if mark >= log.log_end_offset or not Partition(path).state.is_current:
        return None
    try:
        watermark_as_leader(log)
    except (Corrupt, Unsupported) as error:
        kafka_class = stop_of(error).kafka_class
        detail = AheadCause.LEADER_FAILS(watermark=mark, why=error.reason, kafka_class=kafka_class)
        return Ahead(path, What.LEADER_FAILS, detail)
    return None


def _walk_set_aside(state: Judgement) -> Iterator[Ahead]:
    """Yield a point for the segments that somebody gave names like `.log.bak`, if they have records."""
    files = state.log.draft.before
    names = sorted(find_set_aside(files) | find_emptied(files, packed=False))
    hidden = [part for why, part in state.measured.hidden if why is HiddenBy.NAME]
    if names and hidden:
        others = AheadCause.AND_MORE(more=len(names) - 1) if len(names) > 1 else ""
        detail = AheadCause.SET_ASIDE(offsets=offsets_in(ranges_of(hidden)), name=names[0], others=others)
        size = sum(part.stop - part.start for part in hidden)
        yield _counted(Ahead(state.claim.path, What.IGNORED, detail, lost_bytes=size), state)


def _counted(point: Ahead, state: Judgement) -> Ahead:
    """Return the point of a file that no broker reads, with the records that only it has."""
    hidden = [part for why, part in state.measured.hidden if why is HiddenBy.NAME]
    first, last = span_of(ranges_of(hidden)) or (None, None)
    return replace(point, lost_records=sum(part.records for part in hidden), first_offset=first, last_offset=last)
