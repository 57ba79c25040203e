"""compact --why: why a log is not compacted, judged by its log dirs, and what to do about it.

The causes are searched in the order in which a broker meets them: what ends the cleaner's thread, so that nothing is
compacted any more; what keeps the cleaner away from one log; and errors during cleaning, after which the broker leaves
the log alone until it is restarted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, LoadTerms, Offsets, terms_of
from klogtool.broker.cleaning.cleaner import clean
from klogtool.broker.cleaning.dirty_range import MIN_COMPACTION_LAG, LogToClean, find_log_to_clean, last_stable_offset
from klogtool.broker.cleaning.record_filter import OldFormat
from klogtool.broker.draft import Draft
from klogtool.broker.timestamps import duration_text, time_text
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.causes import Reason, Told
from klogtool.errors import Changed, Corrupt, KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind, TopicPartition, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.second_reading import read_again
from klogtool.log.side_file import find_content
from klogtool.plans.causes import ObstacleCause, ObstacleCure
from klogtool.plans.compact import CompactQuestion, find_first_dirty, why_due
from klogtool.plans.index_doubts import IndexDoubt, lag_doubts
from klogtool.plans.recover import walk_partition_dirs
from klogtool.verify.cures import drop_line, edit, number_of_lines, rebuild_index, salvage

_CHECKPOINT = FileKind.CLEANER_CHECKPOINT


class Obstacle(Struct, frozen=True, rename={"id": "reason"}):
    """One cause that holds the cleaner back. id: a word for scripts. cure: a command, or what to do, or None."""

    id: str
    detail: Reason
    cure: Reason | None = None


class CheckpointReason(Obstacle, frozen=True, kw_only=True):
    """A wrong cleaner-offset-checkpoint. ends_thread: the cleaner's thread ends at it."""

    ends_thread: bool


class LagReason(Obstacle, frozen=True, kw_only=True):
    """Records from an offset on are too young, or seem so."""

    offset: int
    index_doubts: list[IndexDoubt] | UnsetType = UNSET


class WatermarkReason(Obstacle, frozen=True, kw_only=True):
    """The high watermark is below the log end."""

    high_watermark: int


class TransactionReason(Obstacle, frozen=True, kw_only=True):
    """A transaction is open. began_ms: the time of its first record, None if unknown."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    began_ms: int | None
    last_offset: int


class FailureReason(Obstacle, frozen=True, kw_only=True, rename={"id": "reason", "kafka_class": "class"}):
    """The cleaner fails: Kafka's class, and the byte where."""

    kafka_class: str
    position: int | None


class Remaining(Struct, frozen=True):
    """What would stay if nothing held the cleaner back, in records and bytes, each with the total."""

    records: int
    of_records: int
    bytes: int
    of_bytes: int


class Standing(Struct, frozen=True):
    """The state of a log, or of a log dir. reasons: empty if nothing holds the cleaner back."""

    path: str
    reasons: tuple[Obstacle, ...]


class LogStanding(Standing, frozen=True):
    """How much of a log can be cleaned, as in LogToClean; uncleanable_bytes: of whole segments. remaining: None if
    unknown."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    bound: int
    clean_bytes: int
    cleanable_bytes: int
    cleanable_ratio: float | None
    eligible: bool
    uncleanable_bytes: int
    remaining: Remaining | None


def walk_standings(paths: Sequence[str], question: CompactQuestion) -> Iterator[Standing]:
    """Yield the state of each log dir of the paths (or around them), then of each compacted partition.

    Several log dirs belong to one broker. Raises KlogError if a path is neither kind of dir, or cannot be read.
    """
    log_dirs = list(dict.fromkeys(around for path in paths if (around := _log_dir_of(path)) is not None))
    broken = False
    for log_dir, reasons in _checkpoint_reasons(log_dirs).items():
        broken = broken or any(isinstance(reason, CheckpointReason) and reason.ends_thread for reason in reasons)
        if reasons:
            yield Standing(log_dir, tuple(reasons))
    for path in paths:
        if isinstance(open_path(path), LogDir):
            checkpoints = Checkpoints.of(path)
            for name, _, skipped in walk_partition_dirs(path):
                if skipped is None:
                    folder = os.path.join(path, name)
                    standing = read_again(partial(standing_of, folder, question, checkpoints, is_thread_dead=broken))
                    if standing.reasons[0].id != "policy":
                        yield standing
        else:
            checkpoints = Checkpoints.beside(path)
            yield read_again(partial(standing_of, path, question, checkpoints, is_thread_dead=broken))


def standing_of(
    path: str, question: CompactQuestion, checkpoints: Checkpoints, *, is_thread_dead: bool = False
) -> Standing:
    """Judge one partition. is_thread_dead: its broker compacts nothing, which was reported already."""
    terms = terms_of(path, question.circumstances, checkpoints=checkpoints)
    checkpoint, unread = (None, []) if is_thread_dead else _first_dirty(path, checkpoints)
    if question.first_dirty_offset is not None:
        checkpoint = question.first_dirty_offset
    try:
        log = LoadedLog(Draft.of(path), terms)
        candidate = find_log_to_clean(log, checkpoint, terms.now_ms)
    except (Changed, Unreadable):
        raise
    except KlogError as error:
        return Standing(path, (*unread, _breaks_off(error.at_path(path), path)))
    uncleanable = sum(segment.size for segment in log.segments.values(candidate.bound))
    held_back = list(_held_back(log, candidate, path))
    too_clean = _too_clean(log, candidate, path, question, is_held_back=bool(held_back))
    reset = Obstacle("checkpoint-reset", ObstacleCause.LINE_RESET(file=_CHECKPOINT.value))
    reasons = [*unread, *_policy(log), *([reset] if candidate.is_reset else ()), *held_back, *too_clean]
    trouble, remaining = _trial(path, terms, candidate)
    reasons += trouble
    if all(reason.id == "keyless" for reason in reasons):
        if is_thread_dead:
            first = Obstacle("cleaner-dead", ObstacleCause.SEE_LOG_DIR(what=ObstacleCause.THREAD_DIES()))
        else:
            first = Obstacle("due", ObstacleCause.DUE(why=why_due(log, candidate)), ObstacleCure.LOOK())
        reasons.insert(0, first)
    return LogStanding(
        path,
        tuple(reasons),
        candidate.first_dirty_offset,
        candidate.first_uncleanable_offset,
        candidate.bound,
        candidate.clean_bytes,
        candidate.cleanable_bytes,
        candidate.cleanable_ratio,
        candidate.is_eligible,
        uncleanable,
        remaining,
    )


# --- the checkpoints --------------------------------------------------------------------------------------------------


def _log_dir_of(path: str) -> str | None:
    whole = os.path.abspath(path)
    return whole if isinstance(open_path(whole), LogDir) else Checkpoints.beside(whole).log_dir


def _checkpoint_reasons(log_dirs: list[str]) -> dict[str, list[Obstacle]]:
    """Return what is wrong with cleaner-offset-checkpoint in each log dir, or in all together."""
    reasons: dict[str, list[Obstacle]] = {log_dir: [] for log_dir in log_dirs}
    read: dict[str, Offsets] = {}
    for log_dir in log_dirs:
        path = os.path.join(log_dir, _CHECKPOINT.value)
        if not os.path.exists(path):
            continue
        try:
            read[log_dir] = find_content(path)
        except Corrupt as error:
            is_number = error.kafka_class == "NumberFormatException"
            what = ObstacleCause.THREAD_DIES() if is_number else ObstacleCause.GOES_OFFLINE()
            detail = ObstacleCause.CHECKPOINT(file=_CHECKPOINT.value, error=error.reason, what=what)
            cure = ObstacleCure.REMOVE(file=quoted(path))
            reasons[log_dir].append(CheckpointReason("checkpoint-line", detail, cure, ends_thread=is_number))
    seen: dict[TopicPartition, str] = {}
    for log_dir, offsets in read.items():
        for key in offsets:
            reasons[log_dir] += _line_reasons(key, log_dir, seen.setdefault(key, log_dir), read, log_dirs)
    return reasons


def _first_dirty(path: str, checkpoints: Checkpoints) -> tuple[int | None, list[Obstacle]]:
    """Return the partition's line; or None and the reason if the file cannot be read."""
    try:
        return find_first_dirty(path, checkpoints), []
    except Corrupt:
        file = os.path.join(checkpoints.log_dir or "", _CHECKPOINT.value)
        detail = ObstacleCause.CHECKPOINT_UNREAD(file=_CHECKPOINT.value)
        return None, [Obstacle("checkpoint-line", detail, ObstacleCure.REMOVE(file=quoted(file)))]


def _line_reasons(
    key: TopicPartition, log_dir: str, first: str, read: Mapping[str, Offsets], log_dirs: Sequence[str]
) -> Iterator[Obstacle]:
    """Yield what is wrong with one line. first: the first log dir that has a line for the partition. read: the
    checkpoints, by log dir."""
    name = f"{key.topic}-{key.partition}"
    if first != log_dir:
        stale = log_dir if os.path.isdir(os.path.join(first, name)) else first
        what = ObstacleCause.THREAD_DIES()
        detail = ObstacleCause.TWO_LINES(name=name, file=_CHECKPOINT.value, first=first, log_dir=log_dir, what=what)
        lines = [drop_line(key), number_of_lines(len(read[stale]) - 1)]
        cure = ObstacleCure.EDIT(command=str(edit(os.path.join(stale, _CHECKPOINT.value), lines)))
        yield CheckpointReason("checkpoint-duplicate", detail, cure, ends_thread=True)
    elif not any(os.path.isdir(os.path.join(other, name)) for other in log_dirs):
        yield Obstacle("checkpoint-stale", ObstacleCause.STALE_LINE(file=_CHECKPOINT.value, name=name))


# --- what keeps the cleaner away --------------------------------------------------------------------------------------


def _policy(log: LoadedLog) -> Iterator[Obstacle]:
    config = log.terms.config
    if not config.compact:
        yield Obstacle("policy", ObstacleCause.NO_COMPACT(policy=",".join(config.cleanup_policy) or "empty"))
    if not config.log_cleaner_enable:
        yield Obstacle("disabled", ObstacleCause.CLEANER_OFF(), Told.TEXT(text="log.cleaner.enable=true"))


def _held_back(log: LoadedLog, candidate: LogToClean, path: str) -> Iterator[Obstacle]:
    """Yield why not everything up to the active segment can be cleaned."""
    active = log.segments.last.base_offset
    if candidate.bound >= active or candidate.first_dirty_offset >= active:
        return
    if candidate.why == MIN_COMPACTION_LAG:
        yield _lag(log, candidate, path)
        return
    stable = last_stable_offset(log)
    txn = next((txn for txn in log.producers.ongoing_txns if txn.first_offset <= stable), None)
    if stable < log.high_watermark and txn is not None:
        yield _open_transaction(log, txn.producer_id, txn.first_offset, path)
    else:
        detail = ObstacleCause.HIGH_WATERMARK(high_watermark=log.high_watermark, end=log.log_end_offset)
        yield WatermarkReason("high-watermark", detail, ObstacleCure.SYNC(), high_watermark=log.high_watermark)


def _lag(log: LoadedLog, candidate: LogToClean, path: str) -> Obstacle:
    """Return that records are too young, or that a false time index says so."""
    lag = duration_text(log.terms.config.min_compaction_lag_ms)
    false = next((doubt for doubt in lag_doubts(log, candidate) if doubt.segment == candidate.bound), None)
    if false is None:
        return LagReason("lag", ObstacleCause.YOUNG(offset=candidate.bound, lag=lag), offset=candidate.bound)
    detail = ObstacleCause.SEEMS_YOUNG(
        segment=candidate.bound,
        lag=lag,
        which=ObstacleCause.FILE_TIME() if false.is_file_time else ObstacleCause.TIME_INDEX(),
        believed=time_text(false.believed_timestamp),
        newest=time_text(false.log_timestamp),
    )
    cure = Told.TEXT(text=str(rebuild_index(path, "timeindex")))
    return LagReason("lag", detail, cure, offset=candidate.bound, index_doubts=[false])


def _open_transaction(log: LoadedLog, producer_id: int, first_offset: int, path: str) -> Obstacle:
    producer = log.producers.producers[producer_id]
    began_ms = _timestamp_at(log, first_offset)
    detail = ObstacleCause.OPEN_TRANSACTION(
        producer_id=producer_id,
        epoch=producer.producer_epoch,
        first=first_offset,
        ago="" if began_ms is None else f", {duration_text(max(0, log.terms.now_ms - began_ms))} ago",
        last=producer.last_data_offset,
    )
    name = find_partition_dir_name(own_name(path))
    cure = ObstacleCure.ABORT(
        topic=name.topic if name else "...",
        partition=name.partition if name else "...",
        offset=first_offset,
        path=quoted(path),
    )
    return TransactionReason(
        "transaction",
        detail,
        cure,
        producer_id=producer_id,
        producer_epoch=producer.producer_epoch,
        first_offset=first_offset,
        began_ms=began_ms,
        last_offset=producer.last_data_offset,
    )


def _timestamp_at(log: LoadedLog, offset: int) -> int | None:
    segment = log.segments.floor(offset)
    position = None if segment is None else segment.translate_offset(offset)
    if segment is None or position is None:
        return None
    with segment.open_log() as file:
        entry = next(walk_entries(file, position.position), None)
        return None if entry is None or entry.max_timestamp < 0 else int(entry.max_timestamp)


def _too_clean(
    log: LoadedLog, candidate: LogToClean, path: str, question: CompactQuestion, *, is_held_back: bool
) -> Iterator[Obstacle]:
    """Yield a reason if too little could be cleaned, even if nothing held the cleaner back."""
    if candidate.is_eligible:
        return
    active = log.segments.last
    free = _as_if_free(log, candidate)
    if not free.cleanable_bytes:
        yield Obstacle("active-segment", ObstacleCause.ONLY_ACTIVE(size=active.size), ObstacleCure.ROLL())
    elif not (is_held_back and free.is_eligible):
        settings = "".join(
            f" --config {quoted(f'{key}={value}')}" for key, value in question.circumstances.config.items()
        )
        cure = ObstacleCure.FORCE(path=quoted(path), settings=settings)
        yield Obstacle("ratio", why_due(log, candidate), cure)


def _as_if_free(log: LoadedLog, candidate: LogToClean) -> LogToClean:
    """Return the range as it would be if it reached the active segment."""
    bound = log.segments.last.base_offset
    dirty = log.segments.values(min(candidate.first_dirty_offset, bound), bound)
    return replace(candidate, bound=bound, cleanable_bytes=sum(segment.size for segment in dirty))


# --- what the cleaner does when it gets there -------------------------------------------------------------------------


def _trial(path: str, terms: LoadTerms, candidate: LogToClean) -> tuple[list[Obstacle], Remaining | None]:
    """Clean the log as if nothing held the cleaner back: return the error, or how much would stay."""
    log = LoadedLog(Draft.of(path), terms)
    free = _as_if_free(log, candidate)
    if free.bound <= candidate.first_dirty_offset:
        return [], None
    try:
        _, stats = clean(log, free, terms.now_ms)
    except (Changed, Unreadable):
        raise
    except KlogError as error:
        return [_breaks_off(error.at_path(path), path)], None
    if stats.aborted:
        return [Obstacle("overflow", ObstacleCause.OVERFLOW())], None
    total = stats.total
    before = total.messages_written + sum(total.gone.values())
    remaining = Remaining(total.messages_written, before, total.bytes_written, total.bytes_read)
    keyless = [Obstacle("keyless", ObstacleCause.KEYLESS(records=total.keyless))] if total.keyless else []
    return keyless, remaining


def _breaks_off(error: KlogError, path: str) -> Obstacle:
    """Return what a broker's cleaner reports: the log is uncleanable until the broker is restarted."""
    kafka_class = error.kafka_class or type(error).__name__
    detail = ObstacleCause.FAILS(error=str(error), kafka_class=kafka_class)
    is_damage = isinstance(error, Corrupt) and not isinstance(error, OldFormat)
    cure = _cure_of_damage(error.path or path, path) if is_damage else None
    return FailureReason("breaks-off", detail, cure, kafka_class=kafka_class, position=error.position)


def _cure_of_damage(damaged: str, partition: str) -> Reason:
    """damaged: the file that cannot be read, or the partition dir."""
    kind = parse_file_name(os.path.basename(damaged)).kind
    if kind is FileKind.LOG:
        return ObstacleCure.SALVAGE(command=str(salvage(partition)))
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        return Told.TEXT(text=str(rebuild_index(partition, kind.value)))
    return ObstacleCure.VERIFY(path=quoted(partition))
