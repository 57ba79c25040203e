"""Checks a set of batches before any of it is appended (UnifiedLog.analyzeAndValidateRecords).

A set is bytes as a client sends them, or as a fetch returns them: whole batches, perhaps followed by a part of one,
which is left out. The checks depend on the origin of the set.

This is the reference of kernels/_append.pxi: change a rule in both places.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field

from klogtool import kernels
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import walk_windows_of
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    RecordBatch,
)
from klogtool.format.framing import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH, Frame, walk_frames
from klogtool.format.message import walk_messages
from klogtool.log.entries import Entry, read_entry
from klogtool.log.producer_state import AppendOrigin
from klogtool.log.windows import Window

UNKNOWN_OFFSET = -1
FIRST_OFFSETS_SHOWN = 10  # UnexpectedAppendOffsetException
OFFSETS_SHOWN = 1000  # OffsetsOutOfOrderException, where Kafka shows all
_LAST_OFFSET_DELTA_END = 27  # a batch that ends before this byte has no last offset
KERNEL_FROM_BYTES = 1 << 16  # the reference checks a smaller set


class AppendRules(Struct, frozen=True):
    """The rules for a set. partition: its topic and number, for messages. max_message_bytes: None if any size is valid.

    is_follower: offsets stay as given, and must increase.
    """

    partition: str
    origin: AppendOrigin
    leader_epoch: int
    is_follower: bool
    max_message_bytes: int | None


class AppendInfo(Struct):
    """The result of an append (LogAppendInfo). first_offset: UNKNOWN_OFFSET for a follower's set of magic 0 or 1.

    codec: of the last batch that has one. epochs: for each run of batches, the leader epoch (None for magic 0 and 1)
    and the base offset of the first batch. A batch with a lower base offset begins a new run, even with the same epoch.
    """

    first_offset: int = UNKNOWN_OFFSET
    last_offset: int = -1
    max_timestamp: int = NO_TIMESTAMP
    log_append_time: int = NO_TIMESTAMP
    codec: str = "none"
    valid_bytes: int = 0
    last_offset_of_first_batch: int = -1
    epochs: list[tuple[int | None, int]] = field(default_factory=list)

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        """The first offset of the set, as far as it is known without opening a wrapper message."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch


def analyze(file: ContentFile, rules: AppendRules, jobs: int = 1) -> AppendInfo:
    """Check all batches of a set. jobs: threads, for a large set.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, for a set that is refused; KlogError if it cannot be
    read.
    """
    analysis = _Analysis(file, rules)
    if not rules.is_follower or file.size < KERNEL_FROM_BYTES:
        analysis.take_by_reference(file, 0, file.size)
    else:
        walk_mapped(file, analysis, jobs=jobs, are_checked=jobs > 1)
    _check_tail(file, analysis.position)
    return analysis.info


class _Analysis:
    """A mapped_windows.Reader. position: after the last whole batch. skips: an epoch above the leader's was found."""

    def __init__(self, file: ContentFile, rules: AppendRules) -> None:
        self.info, self.position, self.skips = AppendInfo(), 0, False
        self._file, self._rules = file, rules
        self._kernel = kernels.native.AppendSurvey()

    def take(self, window: MappedWindow) -> int:
        kernel, info, base = self._kernel, self.info, window.base
        if self.skips or not info.valid_bytes:  # the reference takes the first batch, which sets the first offset
            return kernels.native.REFERENCE
        kernel.leader_epoch, kernel.last_offset = self._rules.leader_epoch, info.last_offset
        kernel.max_timestamp, kernel.codec = info.max_timestamp, CODEC_NAMES.index(info.codec)
        epoch, kernel.latest_start = info.epochs[-1]
        kernel.latest_epoch = _OLD_FORMAT if epoch is None else epoch
        to, why = kernel.take(window.data, window.reached - base, window.stop - base, window.checked - base)
        info.last_offset, info.max_timestamp = kernel.last_offset, kernel.max_timestamp
        info.codec = CODEC_NAMES[kernel.codec]
        info.valid_bytes += base + to - window.reached
        info.epochs += [(None if epoch == _OLD_FORMAT else epoch, offset) for epoch, offset in kernel.fetch_epochs()]
        window.reached = self.position = base + to
        return why

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        count = size = 0
        for entry in islice(walk_set(file, position), most):
            count, size = count + 1, size + entry.size
            self._take_entry(entry)
            self.position = position + size
        return count, size

    def _take_entry(self, entry: Entry) -> None:
        rules = self._rules
        self._check_origin(entry)
        epoch = entry.partition_leader_epoch
        is_of_higher = epoch not in (NO_PARTITION_LEADER_EPOCH,) and epoch > rules.leader_epoch
        self.skips = self.skips or (rules.origin is AppendOrigin.REPLICATION and is_of_higher)
        if not self.skips:
            self._note(entry)

    def _check_origin(self, entry: Entry) -> None:
        rules = self._rules
        if rules.origin is AppendOrigin.RAFT_LEADER and entry.partition_leader_epoch != rules.leader_epoch:
            raise invalid_record(
                f"Append from Raft leader did not set the batch epoch correctly, expected {rules.leader_epoch} but the "
                f"batch has {entry.partition_leader_epoch}"
            )
        if isinstance(entry, RecordBatch) and rules.origin is AppendOrigin.CLIENT and entry.base_offset != 0:
            raise invalid_record(
                f"The baseOffset of the record batch in the append to {rules.partition} should be 0, "
                f"but it is {entry.base_offset}"
            )

    def _note(self, entry: Entry) -> None:
        info, is_batch = self.info, isinstance(entry, RecordBatch)
        if is_batch and entry.size < _LAST_OFFSET_DELTA_END:
            raise Corrupt("the batch ends inside its header", kafka_class="IndexOutOfBoundsException")
        if not info.valid_bytes:
            info.first_offset = entry.base_offset or 0 if is_batch else UNKNOWN_OFFSET
            info.last_offset_of_first_batch = entry.last_offset
        is_monotonic = info.last_offset < entry.last_offset
        info.last_offset = entry.last_offset
        self._check_size_and_checksum(entry)
        info.max_timestamp = max(info.max_timestamp, entry.max_timestamp)
        info.valid_bytes += entry.size
        if entry.attributes & CODEC_MASK:
            info.codec = entry.codec  # raises for an unknown codec
        if self._rules.is_follower and not is_monotonic:
            raise self._out_of_order()
        epoch, base_offset = entry.partition_leader_epoch if is_batch else None, entry.base_offset or 0
        is_lower = is_batch and info.epochs and base_offset < info.epochs[-1][1]
        if not info.epochs or epoch != info.epochs[-1][0] or is_lower:
            info.epochs.append((epoch, base_offset))

    def _check_size_and_checksum(self, entry: Entry) -> None:
        rules = self._rules
        if rules.max_message_bytes is not None and entry.size > rules.max_message_bytes:
            raise Refused(
                f"The record batch size in the append to {rules.partition} is {entry.size} bytes which exceeds the "
                f"maximum configured value of {rules.max_message_bytes}).",
                kafka_class="RecordTooLargeException",
            )
        if not entry.crc_valid:
            raise Corrupt(
                f"Record is corrupt (stored crc = {entry.crc}) in topic partition {rules.partition}.",
                kafka_class="CorruptRecordException",
            )

    def _out_of_order(self) -> KlogError:
        shown: list[str] = []
        for offset in walk_offsets(self._file):  # to the end: if Kafka finds damage there, that is its answer
            if len(shown) < OFFSETS_SHOWN:
                shown.append(str(offset))
        offsets = ",".join(shown)
        return Refused(
            f"Out of order offsets found in append to {self._rules.partition}: {offsets}",
            kafka_class="OffsetsOutOfOrderException",
        )


_OLD_FORMAT = -(1 << 40)  # the kernel's epoch of a run of magic 0 and 1


def invalid_record(reason: str) -> Refused:
    """Return the error for a batch that is refused as InvalidRecordException."""
    return Refused(reason, kafka_class="InvalidRecordException")


def walk_set(file: ContentFile, start: int = 0) -> Iterator[Entry]:
    """Yield the whole batches of a set, each valid until the next one is requested (ByteBufferLogInputStream).

    Raises Corrupt (CorruptRecordException) at an impossible length or magic.
    """
    is_small = file.size < KERNEL_FROM_BYTES
    for window, frame in _walk_small(file, start) if is_small else walk_windows_of(file, start):
        if not 0 <= frame.magic <= CURRENT_MAGIC:
            raise _invalid_magic(frame.magic, window.base + frame.position)
        yield _read(window, frame, file.path)


class Batches:
    """The whole batches of a set, which can be iterated several times; a large set is read again each time.

    size: bytes of the set.
    """

    def __init__(self, file: ContentFile) -> None:
        self._file, self.size = file, file.size
        self._all = list(walk_set(file)) if file.size < KERNEL_FROM_BYTES else None

    def __iter__(self) -> Iterator[Entry]:
        return walk_set(self._file) if self._all is None else iter(self._all)


def _walk_small(file: ContentFile, start: int) -> Iterator[tuple[Window, Frame]]:
    """Yield the same as walk_windows_of, in one window."""
    data = memoryview(file.read(start, file.size - start))
    window = Window(start, data, len(data), last=True)
    for frame in walk_frames(data, 0, len(data), base=start):
        yield window, frame


def walk_offsets(file: ContentFile) -> Iterator[int]:
    """Yield the offsets of all records. Raises Corrupt or Unsupported if they cannot be read."""
    end = 0
    for entry in walk_set(file):
        end = entry.position + entry.size
        for record in entry.records() if isinstance(entry, RecordBatch) else walk_messages(entry):
            yield record.offset
    _check_tail(file, end)


def _read(window: Window, frame: Frame, path: str) -> Entry:
    """Return the entry, even if fewer bytes are left than its header has."""
    if len(window.data) - frame.position >= RECORD_BATCH_OVERHEAD or frame.magic < CURRENT_MAGIC:
        return read_entry(window, frame, path)
    padded = bytes(window.data[frame.position :]).ljust(RECORD_BATCH_OVERHEAD, b"\0")
    whole = Window(window.base + frame.position, memoryview(padded), frame.size, last=True)
    return read_entry(whole, Frame(0, frame.offset, frame.size, frame.magic), path)


def _check_tail(file: ContentFile, position: int) -> None:
    """Raise Corrupt (CorruptRecordException) if the bytes after the last whole batch cannot begin a batch."""
    head = file.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if len(head) < LOG_OVERHEAD:
        return
    length = int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
    if length < MIN_LENGTH:
        raise Corrupt(
            f"Record size {length} is less than the minimum record overhead ({MIN_LENGTH})",
            position=position,
            kafka_class="CorruptRecordException",
        )
    if len(head) == HEADER_SIZE_UP_TO_MAGIC:
        magic = int.from_bytes(head[-1:], "big", signed=True)
        if not 0 <= magic <= CURRENT_MAGIC:
            raise _invalid_magic(magic, position)


def _invalid_magic(magic: int, position: int) -> Corrupt:
    return Corrupt(f"Invalid magic found in record: {magic}", position=position, kafka_class="CorruptRecordException")
