"""What the cleaner keeps of a batch, and the new batch that it makes (Cleaner.cleanInto, MemoryRecords.filterTo).

A batch of magic 2 that stays whole is copied, even with a wrong checksum. A batch that loses records is rebuilt with a
right checksum. Whether kept messages of magic 0 and 1 become batches of magic 2, and which batch stays although it has
lost all of its records, depends on the release: see broker/releases.py.

This is the reference of kernels/_clean.pxi: change a rule in both places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.cleaning.offset_map import KeyMap
from klogtool.broker.decompressed_sizes import walk_limited
from klogtool.errors import AtPath, Corrupt, Refused
from klogtool.format import message as format_message
from klogtool.format.batch import (
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Record,
    build_batch,
    build_emptied_batch,
    rewritten_headers,
)
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.java_numbers import MAX_INT, wrap_long
from klogtool.format.message import build_message_set, to_record, walk_messages
from klogtool.format.producers import ProducerState
from klogtool.log.entries import Entry, Message, RecordBatch

REASONS = ("superseded", "tombstones", "keyless", "aborted", "markers")
Part: TypeAlias = Record | format_message.Message


class OldFormat(Corrupt):
    """Kafka keeps an emptied batch as a header, which a message before magic 2 has not."""


class CleaningTally(Struct):
    """Records and bytes that were read and kept of a segment, and how many records were removed, by reason.

    superseded: a later record has the key. tombstones: expired tombstones. keyless: without a key. aborted: of aborted
    transactions, by the count in the header. markers: of transactions without any records left. unproved: how many
    batches were met that have a wrong checksum, or whose checksum was not looked at; more may follow them.
    """

    messages_read: int = 0
    bytes_read: int = 0
    messages_written: int = 0
    bytes_written: int = 0
    superseded: int = 0
    tombstones: int = 0
    keyless: int = 0
    aborted: int = 0
    markers: int = 0
    unproved: int = 0

    def add(self, other: CleaningTally) -> None:
        """Add another tally."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def gone(self) -> dict[str, int]:
        """Counts of removed records by reason, without those that are 0."""
        return {reason: count for reason in REASONS if (count := getattr(self, reason))}


class KeptBatch(Struct, frozen=True):
    """What is kept of a batch: the batch as it is (data None), or other bytes. max_offset: the largest kept offset.
    messages: the count of kept records."""

    max_offset: int
    messages: int
    data: bytes | None = None


class FilterTerms(Struct):
    """What the filter depends on: the map, the clock, and terms of the pass.

    emptied_end: a batch that ends there (exclusive) stays, even if it loses all of its records.
    retains_legacy_tombstones: for the current segment. keeps_magic: kept messages keep their magic.
    max_record_size: of a record of a compressed batch; None if any size is read.
    """

    offsets: KeyMap
    now_ms: int
    delete_retention_ms: int
    emptied_end: int
    producers: Mapping[int, ProducerState]
    keeps_magic: bool = False
    max_record_size: int | None = None
    retains_legacy_tombstones: bool = False
    tally: CleaningTally = field(default_factory=CleaningTally)


def filter_batch(batch: Entry, terms: FilterTerms, *, can_discard: bool) -> KeptBatch | None:
    """Return what is kept of a batch, or None. can_discard: the answer of CleanedTransactions.

    Raises Corrupt, Unsupported or Refused, with Kafka's class, where Kafka's cleaner fails.
    """
    tally = terms.tally
    tally.bytes_read += batch.size
    discards = should_discard(batch, terms, can_discard=can_discard)
    retains_empty = _is_last_of_producer(batch, terms) or wrap_long(batch.last_offset + 1) == terms.emptied_end
    if discards:
        count_discarded(batch, tally)
        if not retains_empty:
            return None
    kept = _keep(batch, terms, discards=discards, sets_marker_horizon=can_discard and batch.is_control)
    if kept is None and retains_empty:
        kept = KeptBatch(batch.last_offset, 0, _emptied(batch))
    if kept is not None:
        tally.messages_written += kept.messages
        tally.bytes_written += batch.size if kept.data is None else len(kept.data)
    return kept


def put_records(
    batch: Entry, offsets: KeyMap, first_dirty: int, max_record_size: int | None = None
) -> tuple[int, bool]:
    """Put the keys of a batch into the map, with the offsets of their records. Returns how many records were read, and
    whether all had room. Raises KlogError."""
    count = 0
    for part in walk_parts(batch, max_record_size):
        if part.key_size >= 0 and part.offset >= first_dirty:
            if offsets.is_full:
                return count, False
            offsets.put(part.key or b"", part.offset)
        count += 1
    return count, True


def should_discard(batch: Entry, terms: FilterTerms, *, can_discard: bool) -> bool:
    """Whether all records of a batch are removed. A marker is removed only after its delete horizon."""
    if not batch.is_control:
        return can_discard
    horizon = batch.delete_horizon_ms
    return can_discard and horizon is not None and horizon <= terms.now_ms


def _is_last_of_producer(batch: Entry, terms: FilterTerms) -> bool:
    """Whether a batch has the last sequence number or epoch of a producer that is still known."""
    if batch.producer_id <= NO_PRODUCER_ID:
        return False
    producer = terms.producers.get(batch.producer_id)
    if producer is None:
        return False
    if producer.last_data_offset >= 0:
        return bool(batch.last_offset == producer.last_data_offset)
    return bool(batch.is_control and batch.producer_epoch == producer.producer_epoch)


def count_discarded(batch: Entry, tally: CleaningTally) -> None:
    """Count a batch that is removed without being read, by its header."""
    count = batch.records_count or 0
    if batch.is_control:
        tally.markers += count
    else:
        tally.aborted += count


def _keep(batch: Entry, terms: FilterTerms, *, discards: bool, sets_marker_horizon: bool) -> KeptBatch | None:
    """Return the kept records as a batch; None if there are none."""
    kept: list[Part] = []
    is_whole = batch.magic >= CURRENT_MAGIC or terms.keeps_magic
    for part in walk_parts(batch, terms.max_record_size):
        terms.tally.messages_read += 1
        if not discards and (batch.is_control or _should_retain(batch, part, terms)):
            kept.append(part)
            # KAFKA-4298: a wrapper message may contain messages of another magic.
            is_whole = is_whole and (isinstance(part, Record) or part.magic == batch.magic)
        else:
            is_whole = False
    if not kept:
        return None
    has_tombstones = any(part.value_size < 0 for part in kept)
    sets_horizon = (has_tombstones or sets_marker_horizon) and batch.delete_horizon_ms is None
    if terms.keeps_magic and batch.magic < CURRENT_MAGIC:
        sets_horizon = False
    last_kept = max(part.offset for part in kept)
    if is_whole and not sets_horizon:
        return KeptBatch(batch.last_offset, len(kept))
    horizon_ms = wrap_long(terms.now_ms + terms.delete_retention_ms) if sets_horizon else batch.delete_horizon_ms
    return KeptBatch(last_kept, len(kept), _build(batch, kept, horizon_ms, keeps_magic=terms.keeps_magic))


def walk_parts(batch: Entry, max_record_size: int | None = None) -> Iterator[Part]:
    """Yield the records or messages of a batch. Key and value of a message are read only on access, so damage in a
    removed message does no harm. Raises Corrupt or Unsupported, also at a record above `max_record_size`."""
    if isinstance(batch, RecordBatch):
        yield from walk_limited(batch, batch.records(), max_record_size)
        return
    with AtPath(batch.path):
        yield from walk_limited(batch, walk_messages(batch), max_record_size)


def _should_retain(batch: Entry, part: Part, terms: FilterTerms) -> bool:
    """Cleaner.shouldRetainRecord."""
    if part.offset > terms.offsets.latest_offset:
        return True
    key = part.key if part.key_size >= 0 else None
    if key is None:
        terms.tally.keyless += 1
        return False
    if part.offset < terms.offsets.get(key):
        terms.tally.superseded += 1
        return False
    if part.value_size >= 0:
        return True
    horizon = batch.delete_horizon_ms
    retains = terms.retains_legacy_tombstones
    if batch.magic >= CURRENT_MAGIC:
        retains = horizon is None or terms.now_ms < horizon
    terms.tally.tombstones += not retains
    return retains


# --- what is written --------------------------------------------------------------------------------------------------


def _emptied(batch: Entry) -> bytes:
    """Return only the batch's header, which keeps its producer and offsets (DefaultRecordBatch.writeEmptyHeader)."""
    if not isinstance(batch, RecordBatch):
        raise OldFormat(
            "Empty batches are only supported for magic v2 and above",
            path=batch.path,
            position=batch.position,
            kafka_class="IllegalStateException",
        )
    return build_emptied_batch(
        batch.origin, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.timestamp_type
    )


def _build(batch: Entry, parts: list[Part], horizon_ms: int | None, *, keeps_magic: bool) -> bytes:
    """Build a batch of the kept records (buildRetainedRecordsInto)."""
    records = [part if isinstance(part, Record) else to_record(part) for part in parts]
    kept = [replace(record, headers=rewritten_headers(record.headers)) for record in records]
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    if isinstance(batch, Message) and keeps_magic:
        return build_message_set(
            kept, magic=batch.magic, codec=batch.codec, timestamp_type=batch.timestamp_type, log_append_time=append_time
        )
    first, last = kept[0].offset, kept[-1].offset
    if isinstance(batch, RecordBatch):
        first, last = batch.base_offset, batch.last_offset
    _check(batch, kept, first)
    return build_batch(
        kept,
        batch.origin,
        codec=batch.codec,
        base_offset=first,
        last_offset=last,
        append_time_ms=append_time,  # messages of magic 0 have no timestamp and get none
        delete_horizon_ms=horizon_ms if horizon_ms is not None and horizon_ms >= 0 else None,
    )


def _check(batch: Entry, kept: list[Record], base_offset: int) -> None:
    """Raise Refused (IllegalArgumentException) for what MemoryRecordsBuilder does not build."""
    previous = None
    for record in kept:
        if previous is not None and record.offset <= previous:
            raise _illegal(batch, f"Illegal offset {record.offset} following previous offset {previous}")
        if record.timestamp < 0 and record.timestamp != NO_TIMESTAMP:
            raise _illegal(batch, f"Invalid negative timestamp {record.timestamp}")
        if wrap_long(record.offset - base_offset) > MAX_INT:
            raise _illegal(batch, f"Maximum offset delta exceeded, base offset: {base_offset}")
        previous = record.offset
    if batch.is_transactional and batch.producer_id == NO_PRODUCER_ID:
        raise _illegal(batch, "Cannot write transactional messages without a valid producer ID")
    if batch.producer_id != NO_PRODUCER_ID:
        if batch.producer_epoch == NO_PRODUCER_EPOCH:
            raise _illegal(batch, "Invalid negative producer epoch")
        if batch.base_sequence < 0 and not batch.is_control:
            raise _illegal(batch, "Invalid negative sequence number used")


def _illegal(batch: Entry, reason: str) -> Refused:
    return Refused(reason, path=batch.path, position=batch.position, kafka_class="IllegalArgumentException")
