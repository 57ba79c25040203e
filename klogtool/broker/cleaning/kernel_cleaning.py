"""Cleaning by the kernel, over runs of regular batches. The reference cleans the other batches, one by one.

The kernel has the map of keys, decides about records, and makes the bytes and indexes of the new segment. This module
decides about transactional batches. The reference handles codecs that the kernel does not have, old formats and damage.
If the new segment cannot hold a batch, the reference cleans the whole group, because it knows what Kafka does then.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from klogtool import kernels
from klogtool.broker.cleaning.cleaned_transactions import CleanedTransactions
from klogtool.broker.cleaning.read_buffer import ReadBuffer, walk_batches
from klogtool.broker.cleaning.record_filter import (
    FilterTerms,
    KeptBatch,
    count_discarded,
    filter_batch,
    put_records,
    should_discard,
)
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.content_writer import ContentWriter
from klogtool.broker.unified_log.kernel_recovery import latest_of, pick_up_indexes, put_down_entries
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.errors import AtPath
from klogtool.format.framing import CURRENT_MAGIC, walk_frames
from klogtool.format.message import parse_entry
from klogtool.log.entries import Entry, RecordBatch, read_entry
from klogtool.log.late_zstd import LateZstd

PUT_DOWN_BYTES = 1 << 20  # what the kernel has made is written from this size on
MOST_IN_TURN = 1 << 10  # batches for the reference at a time, if the kernel finds nothing regular between them
COUNTS = ("messages_read", "bytes_read", "messages_written", "bytes_written", "superseded", "tombstones", "keyless")


class IrregularGroup(Exception):
    """Not an error: the reference has to clean the whole group."""


def has_kernels_map(offsets: object) -> bool:
    """Whether a map is the kernel's, so that the kernel can clean with it."""
    return isinstance(offsets, kernels.native.OffsetMap)


def walk(taker: MapFilling | GroupCleaning, file: ContentFile, start: int, buffer: ReadBuffer) -> bool:
    """Take all batches from a position on, up to one that ends the walk. Returns whether the walk reached the end.

    Raises KlogError where Kafka's cleaner fails.
    """
    reader = _CleanerReader(taker, file, buffer)
    if start < file.size:
        walk_mapped(file, reader, start=start, most_in_turn=MOST_IN_TURN)
    return not reader.is_ended


class _CleanerReader:
    """A mapped_windows.Reader: batches as the cleaner reads them. is_ended: a batch has ended the walk."""

    def __init__(self, taker: MapFilling | GroupCleaning, file: ContentFile, buffer: ReadBuffer) -> None:
        self._taker, self._file, self._buffer = taker, file, buffer
        self.is_ended = False

    def take(self, window: MappedWindow) -> int:
        """Take the whole batches of a piece, up to one that only the reference can take."""
        self._taker.prove(window)
        native, why = kernels.native, kernels.native.LARGE
        while why in (native.LARGE, native.DECIDE, native.BODY, native.DEFLATE):
            why = self._take(window)
            if why == native.LARGE:
                self._buffer.grow(self._file, window.reached)
        self._taker.put_down(self._file)
        self.is_ended = window.last = why == native.MAP_FULL
        return native.DONE if self.is_ended else why

    def _take(self, window: MappedWindow) -> int:
        native, taker = kernels.native, self._taker
        taker.kernel.capacity = self._buffer.capacity
        with AtPath(self._file.path):
            at, why = taker.take(window)
            window.reached = window.base + at
            if why in (native.DECIDE, native.BODY, native.DEFLATE):
                # A batch of magic 2, which is whole in the piece.
                frame = next(walk_frames(window.data, at, len(window.data)))
                entry = read_entry(window, frame, window.path)
                batch = cast("RecordBatch", entry)
                if not taker.take_one(window, batch, why):
                    return native.MAP_FULL
                window.reached += batch.size
        return why

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        count = size = 0
        for batch in islice(walk_batches(file, self._buffer, position), most):
            if not self._taker.take_by_reference(batch):
                self.is_ended = True
                break
            count, size = count + 1, size + batch.size
        self._taker.put_down(file)
        return count, size


def can_discard(batch: Entry, transactions: CleanedTransactions) -> bool:
    """Whether a batch can go because of its transaction. Only transactional batches and markers are looked at."""
    return (batch.is_control or batch.is_transactional) and transactions.can_discard(batch)


class MapFilling:
    """Puts batches into the map (Cleaner.buildOffsetMap). messages_read: records so far; those of aborted transactions
    are counted by the header."""

    def __init__(self, offsets: Any, first_dirty: int, transactions: CleanedTransactions) -> None:
        work = kernels.native.Workspace()
        self.kernel = kernels.native.MapFiller(offsets, work, first_dirty)
        self._offsets, self._first_dirty, self._transactions = offsets, first_dirty, transactions
        self._zstd, self._messages_read = LateZstd(work), 0

    @property
    def messages_read(self) -> int:
        """How many records were read, by the kernel and by the reference."""
        return self._messages_read + int(self.kernel.messages_read)

    def prove(self, window: MappedWindow) -> None:
        """Do nothing: what is cleaned is proved, and all of that is read again."""

    def take(self, window: MappedWindow) -> tuple[int, int]:
        """Batches that the kernel takes."""
        at, why = self.kernel.take(window.data, window.reached - window.base, window.stop - window.base)
        return at, why

    def take_one(self, window: MappedWindow, batch: RecordBatch, why: int) -> bool:
        """Take a batch of a transaction, or of a codec that the kernel does not have."""
        if self._is_none_of_the_maps(batch):
            return True
        native = kernels.native
        answer = self.kernel.take_one(batch.data)
        if answer == native.BODY:
            answer = self.kernel.take_one(batch.data, self._zstd.inflate(batch))
        if answer in (native.REFERENCE, native.BODY):
            return self._put_records(batch)
        return bool(answer != native.MAP_FULL)

    def take_by_reference(self, batch: Entry) -> bool:
        """One of an old format, or damaged."""
        return self._is_none_of_the_maps(batch) or self._put_records(batch)

    def put_down(self, file: ContentFile) -> None:
        """Do nothing: everything is in the map."""

    def _is_none_of_the_maps(self, batch: Entry) -> bool:
        if not can_discard(batch, self._transactions) and not batch.is_control:
            return False
        self._messages_read += 1 if batch.is_control else batch.records_count or 0
        self.kernel.see(batch.last_offset, batch.size)
        return True

    def _put_records(self, batch: Entry) -> bool:
        count, is_all = put_records(batch, self._offsets, self._first_dirty)
        self._messages_read += count
        if is_all:
            self.kernel.see(batch.last_offset, batch.size)
        return is_all


class GroupCleaning:
    """Cleans the batches of a group of segments into a new segment (Cleaner.cleanInto)."""

    def __init__(self, cleaned: LogSegment, terms: FilterTerms, transactions: CleanedTransactions) -> None:
        work = kernels.native.Workspace()
        self.kernel = kernels.native.BatchCleaner(
            cast("kernels.native.OffsetMap", terms.offsets),
            work,
            terms.now_ms,
            terms.delete_retention_ms,
            terms.emptied_end,
        )
        pick_up_indexes(self.kernel.indexes, cleaned, cleaned.bytes_since_last_index_entry)
        self.kernel.set_producers(
            sorted((p.producer_id, p.last_data_offset, p.producer_epoch) for p in terms.producers.values())
        )
        self.writer = ContentWriter(cleaned.draft.new_spool())
        self._cleaned, self._terms, self._transactions = cleaned, terms, transactions
        self._zstd, self._knows_lz4, self._unproved = LateZstd(work), False, 0

    def clean(self, file: ContentFile, buffer: ReadBuffer) -> None:
        """Clean one more segment, and count in the terms' tally. Raises IrregularGroup or KlogError."""
        walk(self, file, 0, buffer)
        self._put_all_down(file)
        self.writer.end_run()
        tally = self._terms.tally
        for name in COUNTS:
            setattr(tally, name, getattr(tally, name) + getattr(self.kernel, name))
            setattr(self.kernel, name, 0)
        tally.unproved, self._unproved = tally.unproved + self._unproved, 0

    def prove(self, window: MappedWindow) -> None:
        """Look at checksums, which Kafka's cleaner does not. A pass of its own would cost a tenth of the time."""
        if window.checked <= window.reached and window.check() == kernels.native.REFERENCE:
            self._unproved += 1

    def finish(self) -> None:
        """Give the new segment its content, its index entries and its largest timestamp."""
        cleaned, latest = self._cleaned, latest_of(self.kernel.indexes)
        cleaned.draft.write(cleaned.log_name, self.writer.content())
        cleaned.note_timestamp(latest.timestamp, latest.offset)
        put_down_entries(self.kernel.indexes, cleaned)

    def take(self, window: MappedWindow) -> tuple[int, int]:
        """Batches that the kernel takes."""
        base = window.base
        at, why = self.kernel.take(window.data, window.reached - base, window.stop - base, base)
        self._check(why)
        return at, why

    def take_one(self, window: MappedWindow, batch: RecordBatch, why: int) -> bool:
        """Take a batch of a transaction, of a codec that the kernel does not have, or with records to compress."""
        native, terms = kernels.native, self._terms
        if why == native.DEFLATE:
            self._deflate(batch)
            return True
        can_go = can_discard(batch, self._transactions)
        discards = should_discard(batch, terms, can_discard=can_go)
        base, is_marker = window.base, can_go and batch.is_control
        where = (window.data, batch.position - base, batch.size, base, discards, is_marker)
        answer = self.kernel.take_one(*where)
        if answer == native.BODY:
            answer = self.kernel.take_one(*where, self._zstd.inflate(batch))
        self._check(answer)
        if answer in (native.REFERENCE, native.BODY):
            self._by_reference(batch, can_discard=can_go)
            return True
        if answer == native.DEFLATE:
            self._deflate(batch)
        if discards:
            count_discarded(batch, terms.tally)
        return True

    def take_by_reference(self, batch: Entry) -> bool:
        """One of an old format, or damaged."""
        self._by_reference(batch, can_discard=can_discard(batch, self._transactions))
        return True

    def put_down(self, file: ContentFile) -> None:
        """Write what the kernel has made into the content, from PUT_DOWN_BYTES on."""
        if self.kernel.out_size >= PUT_DOWN_BYTES:
            self._put_all_down(file)

    def _put_all_down(self, file: ContentFile) -> None:
        parts, data = self.kernel.take_parts()
        at = 0
        for start, stop in parts:
            if start < 0:
                self.writer.write(data[at : at + stop])
                at += stop
            else:
                self.writer.copy(file, start, stop)

    def _by_reference(self, batch: Entry, *, can_discard: bool) -> None:
        kept = filter_batch(batch, self._terms, can_discard=can_discard)
        if kept is not None:
            self._append(batch, kept)

    def _append(self, batch: Entry, kept: KeptBatch) -> None:
        data = bytes(batch.data) if kept.data is None else kept.data
        for frame in walk_frames(data, 0, len(data)):
            entry = parse_entry(data, frame)
            part = data[frame.position : frame.position + frame.size]
            if not self.kernel.append(part, entry.last_offset, entry.max_timestamp, kept.max_offset):
                raise IrregularGroup

    def _deflate(self, batch: RecordBatch) -> None:
        if batch.codec == "lz4" and not self._knows_lz4:
            self._knows_lz4 = True
            kernels.learn_lz4(self.kernel)  # for the next one
        self._check(
            self.kernel.deflated(batch.data, kernels.compress(batch.codec, self.kernel.body(), magic=CURRENT_MAGIC))
        )

    def _check(self, why: int) -> None:
        if why == kernels.native.IRREGULAR:
            raise IrregularGroup
