"""Rehearses the start of one partition: it is loaded as a broker loads it, over a draft, and nothing is written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.overflow_split import CLEANED, DELETED, SWAP
from klogtool.broker.unified_log.reading import watermark_as_leader
from klogtool.causes import from_text
from klogtool.doctor.answers import Ahead, Prospect, What, Work, ahead_of
from klogtool.doctor.claims import Gone, Hidden, HiddenBy, Lost, OffsetRange, PartitionClaim, WhyUnknown
from klogtool.doctor.file_systems import Growth
from klogtool.doctor.lazy_indexes import LAZY, fails_at_read, walk_unopened
from klogtool.doctor.measured import Measured, find_set_aside
from klogtool.doctor.partition_claims import judge_loaded, last_timestamp, span_of
from klogtool.doctor.passed_over import LEAST_READ_BYTES
from klogtool.doctor.permissions import find_denied
from klogtool.doctor.readable import Readable, ranges_of
from klogtool.doctor.retention_ahead import walk_retention
from klogtool.errors import Changed, Corrupt, KlogError, Unsupported
from klogtool.escape import quoted
from klogtool.format.names import OFFSET_DIGITS, FileKind, PartitionDirState, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import names_in
from klogtool.log.partition import Partition
from klogtool.log.second_reading import TRIES, has_changed, read_again
from klogtool.plans.plan import Plan
from klogtool.plans.recover import recover_partition
from klogtool.plans.recover_log_dir import RecoverQuestion, log_bytes
from klogtool.plans.recover_reach import BehindEnd
from klogtool.plans.recover_result import Recovery
from klogtool.salvage.corrections import find_closed_end
from klogtool.verify.closed_end import judge_last_batch
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.stops import offline, stop_of
from klogtool.verify.verify_names import verify_names

LOG = FileKind.LOG
_CANONICAL = OFFSET_DIGITS + len(LOG.value)

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
    path: str, question: RecoverQuestion, checkpoints: Checkpoints, threads: int, most_unread: int = LEAST_READ_BYTES
) -> Rehearsed:
    """Rehearse the start of a partition dir. An error is a point. most_unread: bytes to read beyond what the start
    reads.

    A file that went away since the folder was listed is none: the rehearsal begins anew. Raises Unreadable or Changed
    if that happens each time: a broker is running. It also begins anew if there are points and logs became longer: what
    a broker was writing looks torn. That may happen each time.
    """

    def attempt() -> Rehearsed:
        before = _names_in(path)
        found = _rehearse(path, question, checkpoints, threads, most_unread)
        if not before <= _names_in(path):
            raise Changed("a file went away while the folder was read", path=path)
        return found

    for _ in range(TRIES - 1):
        size, found = log_bytes(path), read_again(attempt)
        if not found.ahead or log_bytes(path) <= size:
            return found
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
            return Rehearsed(_unknown(path), (broken, *_walk_refused_beside(path, question, checkpoints, threads)))
        return Rehearsed(not_loaded(path), (_refused(path, error),))
    if (denied := find_denied(path, log)) is not None:
        return Rehearsed(not_loaded(path), (denied,))
    unopened = tuple(walk_unopened(path, log))  # what judges the log opens more than a start does
    judged = judge_loaded(path, log, recovery, most_unread)
    state = _RehearsedLog(
        path,
        log,
        recovery,
        judged.claim,
        judged.measured or Measured(),
        judged.consumers_fail_at,
        judged.consumers_wait_at,
        judged.watermark,
        judged.behind_end,
        judged.fails_inside,
    )
    ignored = [_counted(point, state) for point in walk_ignored(Partition(path))]
    wrong_end = _walk_wrong_end(log, find_closed_end(path, question.circumstances, checkpoints))
    ahead = (*_walk_ahead(state), *wrong_end, *unopened, *(ignored or _walk_set_aside(state)))
    depends = log.report.has_odd_txn_version or judged.is_odd  # how a batch is found differs
    prospect = _prospect(path, log, plan, recovery, time.monotonic() - began, judged.claim)
    ends_early = any(point.what is What.ENDS_EARLY for point in ahead)
    ahead = (*ahead, *walk_retention(path, log, checkpoints, ends_early=ends_early))
    return Rehearsed(prospect, ahead, log.looked_up_unstable, depends, Growth.of(plan))


def not_loaded(path: str, why: WhyUnknown = WhyUnknown.NOT_LOADED, work: Work = Work.NOT_LOADED) -> Prospect:
    """Return the prospect of a partition dir whose start is not rehearsed: nothing is known of it."""
    claim = PartitionClaim(
        path,
        None if why is WhyUnknown.NAMES_ONLY else False,
        lost=Lost(None, (), why),
        gone_already=Gone(None, reason=why),
        hidden=Hidden(None, reason=why),
        deleted=None,
        renamed=None,
        rewritten=None,
        reason=why,
    )
    return Prospect(path, work, claim=claim)


def walk_ignored(partition: Partition) -> Iterator[Ahead]:
    """Yield segments that a broker never reads, because their names have not 20 digits. Raises KlogError if the folder
    cannot be listed."""
    names = [name for name in names_in(partition.path) if name.endswith(LOG.value) and len(name) != _CANONICAL]
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
        if finding.id == Kind.UNREADABLE and kind in LAZY and os.path.isdir(finding.path):
            yield fails_at_read(finding.path, "Is a directory")
        elif finding.id == Kind.UNREADABLE:
            yield Ahead(finding.path, What.OFFLINE, finding.detail, finding=finding)
        elif finding.id == Kind.SEGMENT_NAME:
            name = parse_file_name(os.path.basename(finding.path))
            what = What.REFUSES if name.base_offset is None else What.IGNORED
            if name.base_offset is None or name.base_offset >= 0:  # a name below zero does no harm
                yield Ahead(
                    finding.path,
                    what,
                    finding.detail,
                    lost_bytes=os.path.getsize(finding.path) if what is What.IGNORED else 0,
                    finding=finding,
                    cure=finding.cure,
                )


def _broken_link(error: KlogError) -> Ahead | None:
    """Return the point about a link that leads nowhere. A broker takes it for a name that is no file, so the segment of
    such a `.log` is not there, and its indexes are deleted. Other files are made anew through the link, if they can
    be; but CheckpointFile makes its file only where no name is, and reads it then."""
    link = error.path
    if link is None or not os.path.islink(link) or os.path.exists(link):
        return None
    told = "a link to a file that is not there: the broker does not see it"
    kind, cure = parse_file_name(os.path.basename(link)).kind, _cure_of_link(link)
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        stop = offline("KafkaStorageException", f"Error while reading checkpoint file {link}")
        finding = Finding(
            Kind.UNREADABLE, link, from_text(f"{told}, and takes the log dir offline"), stop=stop, cure=cure
        )
        return replace(ahead_of(finding, What.OFFLINE), cure_looks=True)
    if kind is FileKind.PARTITION_METADATA:
        detail = f"{told}, so it does not know the topic id"
    elif kind is LOG:
        detail = f"{told}, deletes the indexes of this segment, and serves nobody its records"
    else:
        detail = f"{told}, and makes it anew where the link leads, or takes the log dir offline if it cannot"
    return replace(
        ahead_of(Finding(Kind.UNREADABLE, link, from_text(detail), cure=cure), What.LINK_BROKEN), cure_looks=True
    )


def _cure_of_link(link: str) -> str:
    return f"ls -l {quoted(link)}  # mount the disk that it leads to, or put the file back, before any start"


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


def _unknown(path: str) -> Prospect:
    """Return the prospect of a partition dir that a broker loads otherwise than klogtool."""
    prospect = not_loaded(path)
    if prospect.claim is None:
        return prospect
    return replace(prospect, claim=replace(prospect.claim, served=None, reason=WhyUnknown.UNREADABLE))


def _refused(path: str, error: KlogError) -> Ahead:
    if isinstance(error, Unreadable):
        detail = f"{error.reason}: if the broker's user cannot read it either, the log dir goes offline"
        return ahead_of(Finding(Kind.UNREADABLE, error.path or path, from_text(detail)), What.OFFLINE)
    stop = stop_of(error)
    at = error.path or path
    is_name = stop.kafka_class == "NumberFormatException" and parse_file_name(os.path.basename(at)).base_offset is None
    detail = f"{stop.kafka_class}: {error.reason}"
    finding = Finding(Kind.SEGMENT_NAME, at, from_text(detail), stop=stop) if is_name and os.path.isfile(at) else None
    return Ahead(at, What(stop.outcome.value), detail, stop=stop, finding=finding)


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


class _RehearsedLog(Struct, frozen=True):
    """A loaded log, and what is known of it."""

    path: str
    log: LoadedLog
    recovery: Recovery
    claim: PartitionClaim
    measured: Measured
    consumers_fail_at: tuple[int, ...] = ()
    consumers_wait_at: int | None = None
    watermark: int | None = None
    behind_end: tuple[Readable, ...] = ()
    fails_inside: bool = False


def _walk_ahead(state: _RehearsedLog) -> Iterator[Ahead]:
    behind = state.recovery.behind_end
    hidden, below, passed_over, behind_damage = (
        [part for why, part in state.measured.hidden if why is reason]
        for reason in (HiddenBy.BEYOND_END, HiddenBy.BELOW_START, HiddenBy.ORDER, HiddenBy.DAMAGE)
    )
    if state.recovery.loses_records or state.claim.lost.records != 0:
        yield _cut(state)
    if below:
        start = state.log.log_start_offset
        detail = f"the name of the first segment is too high: the broker takes {start:,} for the log start, and serves "
        yield _hidden(state, below, f"{detail}nobody {offsets_text(ranges_of(below))} in it")
    if hidden and not (state.log.terms.is_clean and state.behind_end):
        yield _behind_end(state, hidden)
    hidden = list(state.behind_end) if state.log.terms.is_clean else []
    if passed_over:
        yield _unread(state, passed_over, "batches are out of order: a consumer passes over")
    if behind_damage:
        told = "a consumer does not get what lies in or behind damage:"
        yield replace(_unread(state, behind_damage, told), hidden_by=HiddenBy.DAMAGE)
    if behind is not None and behind.served:
        yield _served_damage(state, behind)
    elif hidden or (behind is not None and behind.clean_marker_false and behind.damage):
        yield _ends_early(state, hidden, None if behind is None else behind.damage)
    elif state.consumers_fail_at:
        yield _consumers_fail(state)
    if (error := _fails_as_leader(state)) is not None:
        yield error
    if state.consumers_wait_at is not None:
        yield _consumers_wait(state, state.consumers_wait_at)
    if ranges := state.claim.gone_already.ranges:
        yield _gone(state, ranges)
    elif behind is not None and behind.damage and not behind.clean_marker_false and not hidden:
        yield Ahead(state.path, What.MISSING, f"its end is damaged: {behind.damage}", severity=Severity.WARNING)


def _cut(state: _RehearsedLog) -> Ahead:
    log, lost = state.log, state.claim.lost
    all_gone = bool(log.report.below_start)
    kept = None if all_gone else last_timestamp(log)
    first, last = span_of(lost.ranges) or (None, None)
    return Ahead(
        state.path,
        What.ALL_DELETED if all_gone else What.TRUNCATED,
        _cut_text(state, all_gone=all_gone),
        first,
        last,
        lost.records or 0,
        state.measured.lost_bytes,
        _between(kept, state.measured.lost),
        kept,
        is_uncounted=lost.records is None,
        severity=Severity.WARNING if lost.records == 0 and not all_gone else Severity.ERROR,
    )


def _between(kept: int | None, lost: Iterable[Readable]) -> int:
    newest = max((part.newest_timestamp for part in lost), default=-1)
    return 0 if kept is None or newest < 0 else max(0, newest - kept)


def _cut_text(state: _RehearsedLog, *, all_gone: bool) -> str:
    recovery, size, lost = state.recovery, state.measured.lost_bytes, state.claim.lost
    span = f", {offsets_text(lost.ranges)}" if lost.ranges else ""
    nothing = "" if lost.ranges else "; no record that can be read is lost"
    if all_gone:
        start = state.log.terms.log_start_offset
        return f"all segments are deleted ({size:,} bytes{span}): the log ends below its log start {start:,}"
    where = ""
    if recovery.truncated:
        cut = recovery.truncated[0]
        where = f" at {cut.segment:020d}.log:{cut.position}"
    segments = len(recovery.deleted_segments)
    deleted = f", and {segments} segment{'s' * (segments != 1)} after the cut deleted" if segments else ""
    why = f" ({recovery.why})" if recovery.why else ""
    is_cut = recovery.truncated or recovery.deleted_segments or state.log.report.replaced
    left = " and ".join(sorted({name for name in state.log.report.removed if name.endswith(_LEFT_LOGS)}))
    if not is_cut and lost.ranges and left:
        return f"{left} will be deleted, and no other file has {offsets_text(lost.ranges)}"
    if (state.log.report.replaced or not is_cut) and not recovery.truncated:
        return f"a .swap file replaces segments that have more: {size:,} bytes are deleted{span}{nothing}"
    return f"truncated by {size:,} bytes{span}{where}{why}{deleted}{nothing}"


def offsets_text(ranges: Sequence[OffsetRange]) -> str:
    """Return offsets in a few words."""
    told = ", ".join(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges[:3])
    more = f", ... {ranges[-1][1]:,}" if len(ranges) > 3 else ""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"offset{'s' * (not is_one)} {told}{more}"


def _ends_early(state: _RehearsedLog, hidden: Sequence[Readable], damage: str | None) -> Ahead:
    kept, ranges = last_timestamp(state.log), ranges_of(hidden)
    first, last = span_of(ranges) or (None, None)
    told = (
        f"the clean marker is false: the broker takes {state.log.log_end_offset:,} for the end, and does not see "
        f"{offsets_text(ranges) if ranges else 'damaged bytes'}; "
        f"what is appended next {'goes there' if ranges else 'follows them'}{_no_roll(state.log)}"
    )
    return Ahead(
        state.path,
        What.ENDS_EARLY,
        told + (f" ({damage})" if damage else ""),
        first,
        last,
        sum(part.records for part in hidden),
        sum(part.stop - part.start for part in hidden),
        _between(kept, hidden),
        kept,
    )


def _no_roll(log: LoadedLog) -> str:
    """Say so if a write that needs a new segment fails: the new one would have the base offset of the active segment,
    which is not empty (LocalLog.roll). Nothing is written then, so each later write fails, too."""
    active = log.segments.last
    if log.log_end_offset != active.base_offset or not active.size:
        return ""
    return ", and from the first write on that needs a new segment, every write fails (UnknownServerException)"


def _walk_wrong_end(log: LoadedLog, closed_at: int | None) -> Iterator[Ahead]:
    """Yield the point about a last batch whose header goes beyond the end at which the log was closed."""
    segment = next((each for each in reversed(log.segments.all) if each.size), None)
    if closed_at is None or segment is None or log.log_end_offset <= closed_at:
        return
    try:
        found = list(judge_last_batch(segment.path, (0, segment.size), segment.base_offset, closed_at))
    except KlogError:  # told elsewhere
        return
    for each in found:
        does = f"the broker takes {log.log_end_offset:,} for the end, and appends there"
        wrong = "; it serves these records under wrong offsets" if each.id == Kind.BATCH_HEADER else ""
        told = f"{each.detail}: {does}{wrong}"
        yield Ahead(log.draft.path, What.ENDS_LATE, told, finding=each)


def _unread(state: _RehearsedLog, hidden: Sequence[Readable], told: str) -> Ahead:
    return _hidden(state, hidden, f"{told} {offsets_text(ranges_of(hidden))}")


def _behind_end(state: _RehearsedLog, hidden: Sequence[Readable]) -> Ahead:
    end = state.log.log_end_offset
    told = (
        f"batches are out of order: the broker takes {end:,} for the end, after the last batch in the file, and serves "
        "nobody"
    )
    return _hidden(state, hidden, f"{told} {offsets_text(ranges_of(hidden))}")


def _hidden(state: _RehearsedLog, hidden: Sequence[Readable], detail: str) -> Ahead:
    first, last = span_of(ranges_of(hidden)) or (None, None)
    size = sum(part.stop - part.start for part in hidden)
    return Ahead(state.path, What.HIDDEN, detail, first, last, _records(hidden), size)


def _records(parts: Iterable[Readable]) -> int:
    return sum(part.records for part in parts)


def _served_damage(state: _RehearsedLog, behind: BehindEnd) -> Ahead:
    told = (
        f"its last batch, up to offset {state.log.log_end_offset - 1:,}, is damaged ({behind.damage}): a broker "
        "does not check it after a clean stop and serves it, so consumers stop there; what is appended next follows it"
    )
    return Ahead(state.path, What.DAMAGED, told)


def _consumers_fail(state: _RehearsedLog) -> Ahead:
    log = state.log
    is_read = {segment.base_offset for segment in log.segments.all} <= set(log.report.recovered)
    why = "a batch has damaged records, and no start looks into them" if is_read else _UNREAD
    inside = ", or at a later one of its batch" if state.fails_inside else ""
    told = f"{why}: consumers fail at offset {state.consumers_fail_at[0]:,}{inside}"
    return Ahead(state.path, What.DAMAGED, told)


_UNREAD = "a segment is damaged, and the start does not read it"


def _fails_as_leader(state: _RehearsedLog) -> Ahead | None:
    """Return the point if the broker cannot become the leader. It looks up the batch at the high watermark, if that is
    below the log's end (Partition.makeLeader, UnifiedLog.fetchHighWatermarkMetadata). Without a line in the checkpoint
    it is 0. An IOException does less harm: only this partition is offline then."""
    log = state.log
    mark = max(log.log_start_offset, log.terms.high_watermark or 0)
    if mark >= log.log_end_offset or Partition(state.path).state is not PartitionDirState.CURRENT:
        return None
    try:
        watermark_as_leader(log)
    except (Corrupt, Unsupported) as error:
        stop = stop_of(error)
        detail = (
            f"the batch at the high watermark, {mark:,}, cannot be looked up, since the start leaves damage before it "
            f"({error.reason}): the broker fails when it becomes the leader ({stop.kafka_class}), and may leave other "
            "partitions of the broker without a leader, too"
        )
        return Ahead(state.path, What.LEADER_FAILS, detail)
    return None


def _consumers_wait(state: _RehearsedLog, position: int) -> Ahead:
    end = state.log.log_end_offset
    told = (
        f"the broker takes {end:,} for the end, above all records: consumers wait at offset "
        f"{position:,}, so their lag does not become 0 before something is appended"
    )
    if state.watermark is not None:
        told = (
            f"batches are out of order: the broker takes {state.watermark:,} for the high watermark, above its end "
            f"{end:,}, so consumers wait at offset {position:,} until that much is appended"
        )
    return Ahead(state.path, What.HIDDEN, told, severity=Severity.WARNING)


def _gone(state: _RehearsedLog, ranges: tuple[OffsetRange, ...]) -> Ahead:
    first, last = span_of(ranges) or (None, None)
    shown = ", ".join(witness.value for witness in state.claim.gone_already.witness)
    verb = "is" if len(ranges) == 1 and first == last else "are"
    packed = next(iter(find_set_aside(state.log.draft.before, packed=True)), None)
    but = f", unless {packed} has one" if packed else ""
    detail = f"{offsets_text(ranges)} {verb} missing already: no file has a sound copy{but} (shown by {shown})"
    return Ahead(state.path, What.MISSING, detail, first, last, severity=Severity.WARNING)


def _walk_set_aside(state: _RehearsedLog) -> Iterator[Ahead]:
    """Yield a point for the segments that somebody gave names like `.log.bak`, if they have records."""
    draft = state.log.draft
    names = list(find_set_aside(draft.before))
    hidden = [part for why, part in state.measured.hidden if why is HiddenBy.NAME]
    if names and hidden:
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        told = f"{offsets_text(ranges_of(hidden))} are in {names[0]}{others} alone: a broker does not read that"
        size = sum(part.stop - part.start for part in hidden)
        yield _counted(Ahead(state.path, What.IGNORED, told, lost_bytes=size), state)


def _counted(point: Ahead, state: _RehearsedLog) -> Ahead:
    """Return the point of a file that no broker reads, with the records that only it has."""
    hidden = [part for why, part in state.measured.hidden if why is HiddenBy.NAME]
    ranges = ranges_of(hidden)
    first, last = span_of(ranges) or (None, None)
    return replace(point, lost_records=_records(hidden), first_offset=first, last_offset=last)
