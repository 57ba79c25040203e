"""Appending to a loaded log, as its leader or as a follower does (UnifiedLog.append), over a draft.

A refused call appends nothing, but what Kafka has done before the refusal stays: the epochs of its batches are noted,
and the segment may be rolled. When a broker flushes (flush.messages, flush.ms) makes no difference to the files,
because stopping it flushes everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from klogtool.broker.appending.analysis import (
    FIRST_OFFSETS_SHOWN,
    KERNEL_FROM_BYTES,
    UNKNOWN_OFFSET,
    AppendInfo,
    AppendRules,
    Batches,
    analyze,
    walk_offsets,
    walk_set,
)
from klogtool.broker.appending.checks import RecordsRefused, Validation
from klogtool.broker.appending.follower_sets import append_by_kernel
from klogtool.broker.appending.validator import Validated, validate
from klogtool.broker.content import Content, Part, add_part
from klogtool.broker.draft import span_of
from klogtool.broker.releases import new_map_of_updates
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import BatchMarks, LogSegment
from klogtool.broker.unified_log.rolling import Incoming, roll, should_roll
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import RecordBatch
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.java_numbers import MAX_INT, MAX_LONG, wrap_long
from klogtool.format.names import FileKind
from klogtool.log.entries import Entry
from klogtool.log.file import Unreadable
from klogtool.log.folder import own_name
from klogtool.log.producer_state import TV_0, TV_UNKNOWN, AppendOrigin, examine_producers

MOST_MERGED_BYTES = 16 << 20  # new bytes are merged up to this size: a file of many small parts is slow to read


class Call(Struct, frozen=True):
    """One append. content: the set, as bytes or ranges of files. is_follower: keep the given offsets; a leader assigns
    the next ones.

    leader_epoch: a leader gives it to its batches; a follower ends before the first batch with a higher one. now_ms:
    the clock; None if it is unchanged. to_magic: the format of the log, for a leader. file: the name of the set in the
    answer.
    """

    content: Content
    is_follower: bool
    leader_epoch: int
    now_ms: int | None
    origin: AppendOrigin = AppendOrigin.CLIENT
    transaction_version: int = TV_UNKNOWN
    to_magic: int = CURRENT_MAGIC
    file: str | None = None

    @property
    def from_whom(self) -> AppendOrigin:
        """The origin, which decides about the checks: a follower's batches come from its leader."""
        return AppendOrigin.REPLICATION if self.is_follower else self.origin


class RefusedRecord(Struct, frozen=True):
    """Why a record was refused. batch_index: which of its batch."""

    batch_index: int
    message: str


class CallError(Struct, frozen=True, rename={"kafka_class": "class"}):
    """Why a call was refused: Kafka's class and message; for refused records also the message of each."""

    kafka_class: str
    message: str
    invalid_class: str | UnsetType = UNSET
    record_errors: list[RefusedRecord] | UnsetType = UNSET


class Appended(Struct, frozen=True):
    """A call that succeeded (docs/contract.md). first_offset: as in AppendInfo. rolled: whether the active segment was
    closed."""

    file: str | UnsetType
    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    valid_bytes: int
    rolled: bool
    log_end_offset: int


class NotAppended(Struct, frozen=True):
    """A call that was refused. rolled: as in Appended."""

    file: str | UnsetType
    error: CallError
    rolled: bool
    log_end_offset: int


class Appender:
    """Appends to one log, call by call. The high watermark follows the log's end, unless it was given.

    rolls: False: the active segment takes everything, because the caller rolls.
    """

    def __init__(self, log: LoadedLog, *, rolls: bool = True) -> None:
        self._log, self._partition, self._rolls = log, own_name(log.draft.path), rolls
        self._follows_end = log.terms.high_watermark is None

    def reply(self, call: Call) -> Appended | NotAppended:
        """Make a call, and return whether it is done or refused.

        Raises KlogError if a file cannot be read.
        """
        segments = len(self._log.segments)
        try:
            done: AppendInfo | KlogError = self.append(call)
        except KlogError as error:
            if error.kafka_class is None or isinstance(error, Unreadable):
                raise
            done = error
        if self._follows_end:
            self._log.update_high_watermark(self._log.log_end_offset)
        self._log.run_scheduled()
        return self._reply(call, done, rolled=len(self._log.segments) > segments)

    def _reply(self, call: Call, done: AppendInfo | KlogError, *, rolled: bool) -> Appended | NotAppended:
        file, end = UNSET if call.file is None else call.file, self._log.log_end_offset
        if isinstance(done, KlogError):
            refusal = CallError(done.kafka_class or "", done.reason)
            if isinstance(done, RecordsRefused):
                wrong = [RefusedRecord(one.index, one.message) for one in done.record_errors]
                refusal = replace(refusal, invalid_class=done.invalid_class, record_errors=wrong)
            return NotAppended(file, refusal, rolled, end)
        return Appended(
            file,
            done.first_offset,
            done.last_offset,
            done.max_timestamp,
            done.log_append_time,
            done.valid_bytes,
            rolled,
            end,
        )

    def append(self, call: Call) -> AppendInfo:
        """Append a set. Raises Refused, Corrupt or Unsupported, with Kafka's class, if it is refused."""
        if call.now_ms is not None and call.now_ms != self._log.terms.now_ms:
            self._log.terms = replace(self._log.terms, now_ms=call.now_ms)
            self._log.producers.now_ms = call.now_ms
        origin = call.from_whom
        keeps_offsets = call.is_follower or origin is AppendOrigin.RAFT_LEADER
        limit = None if call.is_follower else self._log.terms.config.max_message_bytes
        # A follower takes no batches above its leader epoch.
        takes_any = call.is_follower and not self._log.terms.rules.stops_at_higher_epoch
        epoch = MAX_INT if takes_any else call.leader_epoch
        rules = AppendRules(self._partition, origin, epoch, keeps_offsets, limit)
        with ContentFile(self._partition, call.content) as file:
            info = analyze(file, rules, self._log.jobs)
            if not info.valid_bytes:
                return info
            if keeps_offsets:
                self._check_offsets(file, info)
                content, validated = span_of(call.content, 0, info.valid_bytes), None
            else:
                validated = self._validated(file, info, call)
                content = (validated.data,)
        with ContentFile(self._partition, content) as valid:
            batches = Batches(valid)
            if validated is not None:
                info.epochs = [
                    (entry.partition_leader_epoch if isinstance(entry, RecordBatch) else None, entry.base_offset or 0)
                    for entry in batches
                ]
                self._check_sizes(batches if validated.may_differ else ())
            return self._append_valid(valid, batches, content, info, call)

    # Offsets.

    def _check_offsets(self, file: ContentFile, info: AppendInfo) -> None:
        """Raise Refused if the given offsets begin below the log end offset."""
        first, log = info.first_or_last_offset_of_first_batch, self._log
        if first >= log.log_end_offset:
            return
        if info.first_offset == UNKNOWN_OFFSET:
            next(walk_offsets(file), None)
        offsets = [str(offset) for offset, _ in zip(walk_offsets(file), range(FIRST_OFFSETS_SHOWN), strict=False)]
        which = "First offset" if info.first_offset != UNKNOWN_OFFSET else "Last offset of the first batch"
        raise Refused(
            f"Unexpected offset in append to {self._partition}. {which} {first} is less than the next offset "
            f"{log.log_end_offset}. First 10 offsets in append: {', '.join(offsets)}, last offset in append: "
            f"{info.last_offset}. Log start offset = {log.log_start_offset}",
            kafka_class="UnexpectedAppendOffsetException",
        )

    def _validated(self, file: ContentFile, info: AppendInfo, call: Call) -> Validated:
        """Return the set as a leader writes it, with offsets from the log end on."""
        log, config = self._log, self._log.terms.config
        with ContentFile(self._partition, (file.read(0, info.valid_bytes),)) as whole:
            entries = list(walk_set(whole))
            rules = Validation(
                self._partition,
                config,
                call.origin,
                call.leader_epoch,
                call.to_magic,
                info.codec,
                log.terms.now_ms,
                log.terms.max_record_size,
            )
            info.first_offset = log.log_end_offset
            valid = validate(entries, log.log_end_offset, rules)
        info.last_offset, info.max_timestamp = wrap_long(valid.last_offset), valid.max_timestamp
        info.log_append_time = rules.now_ms if rules.is_append_time else info.log_append_time
        return valid

    def _check_sizes(self, built: Iterable[Entry]) -> None:
        most = self._log.terms.config.max_message_bytes
        for entry in built:
            if entry.size > most:
                raise Refused(
                    f"Message batch size is {entry.size} bytes in append to partition {self._partition} which "
                    f"exceeds the maximum configured size of {most}.",
                    kafka_class="RecordTooLargeException",
                )

    # What is valid.

    def _append_valid(
        self, file: ContentFile, batches: Batches, content: Content, info: AppendInfo, call: Call
    ) -> AppendInfo:
        if info.last_offset == MAX_LONG:  # Kafka fails only after it has appended the set
            raise Refused("High watermark offset should be non-negative", kafka_class="IllegalArgumentException")
        self._assign_epochs(info)
        self._check_fits_a_segment(file.size)
        segment = self._maybe_roll(file.size, info)
        # The kernel makes index entries for batches, never one for the whole set.
        is_for_kernel = call.is_follower and self._log.terms.rules.index_entry_per_batch
        is_large = is_for_kernel and file.size >= KERNEL_FROM_BYTES
        begun = self._append_by_kernel(segment, file, info) if is_large else None
        if begun is None:
            begun = self._append_batch_by_batch(segment, batches, info, call)
        if begun is None:
            return info
        _grow(segment, content)
        self._log.note_appended(info.last_offset + 1, begun)
        return info

    def _assign_epochs(self, info: AppendInfo) -> None:
        epochs = self._log.epochs
        before = list(epochs.entries)
        for epoch, offset in info.epochs:
            if epoch is not None:
                epochs.assign(epoch, offset)
            elif epochs.entries:
                epochs.clear()
        self._log.report.epochs_appended |= epochs.entries != before

    def _check_fits_a_segment(self, size: int) -> None:
        most = self._log.terms.config.segment_bytes
        if size > most:
            raise Refused(
                f"Message batch size is {size} bytes in append to partition {self._partition}, which exceeds the "
                f"maximum configured segment size of {most}.",
                kafka_class="RecordBatchTooLargeException",
            )

    def _maybe_roll(self, size: int, info: AppendInfo) -> LogSegment:
        incoming = Incoming(size, info.max_timestamp, info.last_offset)
        if not self._rolls or not should_roll(self._log, incoming).due:
            return self._log.segments.last
        # The first offset of a set of magic 0 or 1 is known only when it is opened; this value is not above it.
        is_known = info.first_offset != UNKNOWN_OFFSET
        return roll(self._log, info.first_offset if is_known else info.last_offset - MAX_INT)

    def _append_by_kernel(self, segment: LogSegment, file: ContentFile, info: AppendInfo) -> list[int] | None:
        """Append a large set. None, with nothing changed, if it is refused: the reference finds Kafka's first error."""
        unopened = segment.unopened_indexes()
        try:
            segment.ensure_offset_in_range(info.last_offset)
            return append_by_kernel(self._log, segment, file)
        except KlogError:
            segment.close_again(unopened)
            return None

    def _append_batch_by_batch(
        self, segment: LogSegment, batches: Batches, info: AppendInfo, call: Call
    ) -> list[int] | None:
        """Append a set, and return the first offsets of its transactions. None for a duplicate, whose answer is that of
        the first append."""
        log, producers = self._log, self._log.producers
        verifies = log.terms.config.transaction_partition_verification_enable
        version = call.transaction_version if log.terms.rules.checks_marker_version else TV_0
        updated = new_map_of_updates(log.terms.rules)
        examined = examine_producers(producers, batches, call.from_whom, version, verifies=verifies, updated=updated)
        if examined.duplicate is not None:
            info.first_offset, info.last_offset = examined.duplicate.first_offset, examined.duplicate.last_offset
            info.log_append_time = examined.duplicate.timestamp
            return None
        if batches.size:
            segment.ensure_offset_in_range(info.last_offset)
            if log.terms.rules.index_entry_per_batch:
                _note_batches(segment, batches)
            else:
                marks = (BatchMarks(batch.size, batch.last_offset, batch.max_timestamp) for batch in batches)
                segment.note_write(marks, segment.size, info.last_offset)
        for aborted in examined.apply_to(producers):
            segment.txn_index.append(aborted)
        return [txn.first_offset for update in examined.updates for txn in update.started]


def _note_batches(segment: LogSegment, entries: Iterable[Entry]) -> None:
    """Add index entries for the next batches. If an index refuses one of several batches, Kafka leaves bytes in the
    file that nothing refers to; here nothing of the set is appended."""
    position, kept = segment.size, segment.index_marks()
    try:
        for entry in entries:
            segment.note_batch(entry, position)
            position += entry.size
    except Corrupt:
        segment.return_to(kept)
        raise


def _grow(segment: LogSegment, content: Content) -> None:
    draft, name = segment.draft, segment.name_of(FileKind.LOG)
    parts = list(draft.files[name].content)
    for part in content:
        if add_part(parts, part):
            _merge_tail(parts)
    draft.write(name, tuple(parts))


def _merge_tail(parts: list[Part]) -> None:
    """Merge new bytes with the new bytes before them, if these are not more than twice as large. So each byte is copied
    only a few times, for any number of calls."""
    while len(parts) > 1:
        before, last = parts[-2:]
        if not (isinstance(before, bytes) and isinstance(last, bytes)) or len(before) > 2 * len(last):
            return
        if len(before) + len(last) > MOST_MERGED_BYTES:
            return
        parts[-2:] = [before + last]
