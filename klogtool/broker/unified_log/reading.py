"""What a fetch returns: which bytes of which segment (UnifiedLog.read, LocalLog.read, LogSegment.read).

This is decided by indexes and a few headers; the bytes themselves are only given as a range of a segment's `.log`. CRCs
are not checked, as in a broker's fetch.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import BatchPosition, LogSegment
from klogtool.errors import Corrupt, Refused
from klogtool.format.indexes import AbortedTxn

UNKNOWN = -1  # LogOffsetMetadata: no segment, no position
OUT_OF_RANGE = "OffsetOutOfRangeException"


class Isolation(Enum):
    """How far a fetch may read (FetchIsolation)."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    READ_COMMITTED = "read_committed"


class OffsetMetadata(Struct, frozen=True):
    """An offset, and the segment and position of its batch (LogOffsetMetadata); both UNKNOWN if not looked up."""

    offset: int
    segment: int = UNKNOWN
    position: int = UNKNOWN

    @property
    def is_offset_only(self) -> bool:
        """Whether the place of the offset is unknown."""
        return (self.segment, self.position) == (UNKNOWN, UNKNOWN)


class Fetched(Struct, frozen=True):
    """The bytes that a fetch returns: `size` bytes of a segment's `.log` from `position` on, where a batch begins.

    base_offset: of that batch; of releases that do not move a watermark to a batch, the offset that was asked for.
    first_entry_incomplete: it is cut, because it is larger than the requested size.
    aborted: for a read_committed fetch, the aborted transactions that a reader must know, in index order.
    first_batch_size: of the batch at `position`, None if there is none. end: where the isolation ends the log for this
    fetch.
    """

    base_offset: int
    segment: int
    position: int
    size: int
    end: int
    first_entry_incomplete: bool = False
    aborted: tuple[AbortedTxn, ...] | None = None
    first_batch_size: int | None = None

    @property
    def needed_bytes(self) -> int | None:
        """How many bytes a fetch of one complete batch needs, if this one has none; None if it has one, or there is
        none."""
        if self.first_batch_size is None or self.size >= self.first_batch_size:
            return None
        return self.first_batch_size


def fetch(
    log: LoadedLog,
    offset: int,
    max_bytes: int,
    *,
    min_one_message: bool = False,
    isolation: Isolation = Isolation.LOG_END,
) -> Fetched:
    """Return the bytes starting with the batch that contains (or follows) an offset, limited to `max_bytes`; the last
    batch may be cut.

    min_one_message: return the first batch whole, however large. Raises Refused (OffsetOutOfRangeException) for an
    offset outside the log; Corrupt or Unsupported if the search meets damage.
    """
    if offset < log.log_start_offset:
        raise Refused(
            f"Received request for offset {offset}, but we only have log segments starting from offset: "
            f"{log.log_start_offset}.",
            path=log.draft.path,
            kafka_class=OUT_OF_RANGE,
        )
    end = end_of(log, isolation)
    return _Fetch(log, offset, max_bytes, min_one_message, end, isolation is Isolation.READ_COMMITTED).run()


def end_of(log: LoadedLog, isolation: Isolation) -> OffsetMetadata:
    """Return where the log ends for a reader: at its end, at the high watermark or at the last stable offset."""
    if isolation is Isolation.LOG_END:
        return _log_end(log)
    # Inside a batch, the high watermark moves to the batch's beginning.
    is_end = log.high_watermark >= log.log_end_offset
    high_watermark = _log_end(log) if is_end else _locate(log, log.high_watermark)
    if isolation is Isolation.HIGH_WATERMARK:
        return high_watermark
    first_unstable = find_first_unstable(log)
    if first_unstable is None or first_unstable.offset >= high_watermark.offset:
        return high_watermark
    return first_unstable


def find_first_unstable(log: LoadedLog) -> OffsetMetadata | None:
    """Return the batch that begins the first transaction that is open or not decided below the high watermark, if any.

    Raises Corrupt or Unsupported if the search meets damage.
    """
    first_unstable = log.producers.first_unstable_offset
    return None if first_unstable is None else _locate(log, max(first_unstable, log.log_start_offset))


def _log_end(log: LoadedLog) -> OffsetMetadata:
    last = log.segments.last
    return OffsetMetadata(log.log_end_offset, last.base_offset, last.size)


def watermark_as_leader(log: LoadedLog) -> OffsetMetadata:
    """Return the high watermark of the only replica when it becomes the leader: the log's end, unless the batch that is
    found at the checkpointed one has a higher offset (Partition.makeLeader, UnifiedLog.maybeIncrementHighWatermark).

    Without a line in the checkpoint it is looked up at 0. Raises Corrupt or Unsupported if the search meets damage.
    """
    end, known = _log_end(log), max(log.log_start_offset, log.terms.high_watermark or 0)
    if known >= end.offset:
        return end
    located = _locate(log, known)
    is_raised = (located.offset, located.segment) < (end.offset, end.segment)
    return end if is_raised else located


def _locate(log: LoadedLog, offset: int) -> OffsetMetadata:
    """Return the batch of an offset; only the offset if it is outside the log (maybeConvertToOffsetMetadata)."""
    try:
        return _locate_or_refuse(log, offset)
    except Refused as refused:
        if refused.kafka_class != OUT_OF_RANGE:
            raise
        return OffsetMetadata(offset)


def _locate_or_refuse(log: LoadedLog, offset: int) -> OffsetMetadata:
    fetched = _Fetch(log, offset, 1, False, _log_end(log), False).run()
    return OffsetMetadata(fetched.base_offset, fetched.segment, fetched.position)


class _Fetch:
    """One fetch, which ends at `end` (LocalLog.read)."""

    def __init__(
        self, log: LoadedLog, offset: int, max_bytes: int, min_one_message: bool, end: OffsetMetadata, committed: bool
    ) -> None:
        self.log, self.offset, self.max_bytes, self.min_one_message = log, offset, max_bytes, min_one_message
        self.end, self.committed = end, committed

    def run(self) -> Fetched:
        segment = self.log.segments.floor(self.offset)
        if self.offset > self.log.log_end_offset or segment is None:
            raise Refused(
                f"Received request for offset {self.offset}, but we only have log segments upto "
                f"{self.log.log_end_offset}.",
                path=self.log.draft.path,
                kafka_class=OUT_OF_RANGE,
            )
        if self.offset == self.end.offset:
            return self._empty(self.end)
        if self.offset > self.end.offset:
            return self._empty(_locate_or_refuse(self.log, self.offset))
        while segment is not None:
            if self.max_bytes < 0:
                raise Refused(
                    f"Invalid max size {self.max_bytes} for log read from segment {segment.log_name}",
                    path=segment.path,
                    kafka_class="IllegalArgumentException",
                )
            batch = segment.translate_offset(self.offset)
            if batch is not None:
                return self._cut(segment, batch)
            segment = self.log.segments.higher(segment.base_offset)
        # Everything after the offset is gone, although the log's end is higher.
        at_end = _log_end(self.log)
        return Fetched(at_end.offset, at_end.segment, at_end.position, 0, self.end.offset)

    def _empty(self, at: OffsetMetadata) -> Fetched:
        aborted = () if self.committed else None
        return Fetched(at.offset, at.segment, at.position, 0, self.end.offset, aborted=aborted)

    def _cut(self, segment: LogSegment, first: BatchPosition) -> Fetched:
        """Read as LogSegment.read, from its first batch on."""
        wanted = max(self.max_bytes, first.size) if self.min_one_message else self.max_bytes
        end_position = self._end_position(segment)
        is_empty = wanted == 0 or end_position is None
        size = 0 if end_position is None or is_empty else self._slice(segment, first.position, end_position, wanted)
        aborted = self._aborted(segment, first.position, size) if self.committed else None
        is_cut = not is_empty and wanted < first.size
        readable = None if end_position is None else first.size
        moved_to = first.base_offset if self.log.terms.rules.moves_watermark_to_batch else self.offset
        return Fetched(moved_to, segment.base_offset, first.position, size, self.end.offset, is_cut, aborted, readable)

    def _end_position(self, segment: LogSegment) -> int | None:
        """Return where a fetch ends in a segment; None if unknown, so that nothing is read."""
        if segment.base_offset < self.end.segment:
            return segment.size
        if segment.base_offset == self.end.segment and not self.end.is_offset_only:
            return self.end.position
        return None

    def _slice(self, segment: LogSegment, position: int, end_position: int, wanted: int) -> int:
        """Return how many bytes there are (FileRecords.slice). Raises Corrupt (IllegalArgumentException) if the end is
        before the start, as with offsets out of order."""
        size = min(end_position - position, wanted)
        if size < 0:
            raise Corrupt(
                f"Invalid size: {size} in read from {segment.log_name}",
                path=segment.path,
                position=position,
                kafka_class="IllegalArgumentException",
            )
        return min(size, segment.size - position)

    def _aborted(self, segment: LogSegment, position: int, size: int) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions of the fetched bytes (addAbortedTransactions)."""
        bound = segment.offset_index.find_upper_bound(position + size)
        if bound is not None:
            upper_bound_offset = bound.offset
        else:
            higher = self.log.segments.higher(segment.base_offset)
            upper_bound_offset = self.log.log_end_offset if higher is None else higher.base_offset
        return collect_aborted_txns(self.log, segment, self.offset, upper_bound_offset)


def collect_aborted_txns(
    log: LoadedLog, segment: LogSegment | None, offset: int, upper_bound_offset: int
) -> tuple[AbortedTxn, ...]:
    """Return the transaction index entries, from a segment on, that concern offsets from `offset` up to (without) the
    bound.

    Raises Corrupt (KafkaException) at an entry of a later version (collectAbortedTransactions).
    """
    aborted: list[AbortedTxn] = []
    while segment is not None:
        more, is_complete = segment.txn_index.collect(offset, upper_bound_offset)
        aborted += more
        if is_complete:
            break
        segment = log.segments.higher(segment.base_offset)
    return tuple(aborted)
