"""One pass of the log cleaner over a log (Cleaner.doClean): it builds the map of keys, groups the segments, and makes
one segment of each group.

Only the draft changes: afterwards the log has the cleaned segments, and the replaced segments are `.deleted`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct, field

from klogtool.broker.cleaning.cleaned_transactions import CleanedTransactions
from klogtool.broker.cleaning.dirty_range import LogToClean
from klogtool.broker.cleaning.kernel_cleaning import GroupCleaning, IrregularGroup, MapFilling, has_kernels_map, walk
from klogtool.broker.cleaning.offset_map import KeyMap, new_key_map, new_secret
from klogtool.broker.cleaning.read_buffer import ReadBuffer, walk_batches
from klogtool.broker.cleaning.record_filter import CleaningTally, FilterTerms, KeptBatch, filter_batch, put_records
from klogtool.broker.config import LogConfig
from klogtool.broker.decompressed_sizes import may_have_too_large
from klogtool.broker.releases import EmptiedBatch
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.content_writer import ContentWriter
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import BatchMarks, LogSegment, LogSegmentOffsetOverflow, walk_entries
from klogtool.broker.unified_log.overflow_split import CLEANED, copy_mtime, replace_segments, split_overflowed_segment
from klogtool.broker.unified_log.segment_age import last_modified_ms
from klogtool.errors import Corrupt, Unsupported
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.framing import walk_frames
from klogtool.format.indexes import AbortedTxn
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.message import parse_entry
from klogtool.log.entries import Entry

NO_OFFSET = -MAX_LONG - 1  # no batch ends there


class CleaningStats(Struct):
    """What a pass read and wrote.

    groups: base offset of each new segment -> base offsets of its sources. tallies: one for each source. map_is_full:
    the pass ended where the map had no room for another key. aborted: a segment overflowed and was split instead; a
    broker cleans again later.
    """

    map_messages_read: int = 0
    map_entries: int = 0
    map_is_full: bool = False
    total: CleaningTally = field(default_factory=CleaningTally)
    groups: dict[int, list[int]] = field(default_factory=dict)
    tallies: dict[int, CleaningTally] = field(default_factory=dict)
    aborted: bool = False


class CleanLog(Protocol):
    """A function that does what `clean` does, perhaps in another way."""

    def __call__(
        self, log: LoadedLog, to_clean: LogToClean, now_ms: int, *, keeps_magic: bool = False
    ) -> tuple[int, CleaningStats]:
        """Clean a log, as `clean` does."""


def clean(log: LoadedLog, to_clean: LogToClean, now_ms: int, *, keeps_magic: bool = False) -> tuple[int, CleaningStats]:
    """Clean a range. Returns the offset where the next pass begins, and what this pass did.

    Raises Corrupt, Unsupported or Refused, with Kafka's class, where a broker's cleaner fails.
    """
    return Pass(log, to_clean, now_ms, keeps_magic=keeps_magic).run()


def new_offset_map(config: LogConfig, secret: bytes) -> KeyMap:
    """Return a map as large as that of a cleaner thread. Raises Refused for a size that Kafka refuses."""
    memory = min(config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads, MAX_INT)
    return new_key_map(memory, config.log_cleaner_io_buffer_load_factor, secret)


class Pass:
    """A pass over a loaded log. Its two long parts, the map and the groups, can also be done in shares: see shares.py.

    Raises Refused for settings with which Kafka cannot create a cleaner.
    """

    def __init__(
        self, log: LoadedLog, to_clean: LogToClean, now_ms: int, *, keeps_magic: bool, secret: bytes | None = None
    ) -> None:
        self.log, self.to_clean, self.now_ms, self.rules = log, to_clean, now_ms, log.terms.rules
        self.keeps_magic = keeps_magic or not self.rules.rewrites_old_magic
        self.config, self.first_dirty, self.bound = log.terms.config, to_clean.first_dirty_offset, to_clean.bound
        self.offsets, self.buffer = new_offset_map(self.config, secret or new_secret()), ReadBuffer(self.config)
        self.transactions = CleanedTransactions()
        self.stats = CleaningStats()
        self._bases_with_aborted: list[int] | None = None
        # delete.retention.ms of tombstones of magic 0 and 1 counts from the time of the last clean segment
        # (Cleaner.doClean). Those of magic 2 have a delete horizon of their own: see record_filter.
        clean_part = log.segments.values(0, self.first_dirty)
        self.legacy_horizon_ms = 0
        if clean_part:
            self.legacy_horizon_ms = last_modified_ms(log, clean_part[-1]) - self.config.delete_retention_ms

    def run(self) -> tuple[int, CleaningStats]:
        """Do the pass. Returns the offset where the next pass begins, and what this pass did."""
        self.build_map()
        end_offset = self.offsets.latest_offset + 1
        try:
            self.clean_groups(self._grouped(self.log.segments.values(0, end_offset)))
        except CleaningAborted:
            self.log.report.was_split = True
            return self.first_dirty, CleaningStats(groups=self.stats.groups, aborted=True)
        return end_offset, self.stats

    # The map (buildOffsetMap).

    @property
    def dirty(self) -> list[LogSegment]:
        """The segments whose keys go into the map."""
        return self.log.segments.values(self.first_dirty, self.bound)

    def build_map(self) -> None:
        """Put the last offset of each key of the dirty part into the map, until it is full."""
        dirty, transactions = self.dirty, CleanedTransactions()
        transactions.add_aborted(self.aborted_between(self.first_dirty, self.bound))
        for n, segment in enumerate(dirty):
            end = dirty[n + 1].base_offset if n + 1 < len(dirty) else self.bound
            if not self.map_segment(segment, transactions):
                self.stats.map_is_full = True
                break
            self.offsets.latest_offset = end - 1  # includes offsets that no record has
            self.buffer.restore()
        self.stats.map_entries = self.offsets.entries

    def map_segment(self, segment: LogSegment, transactions: CleanedTransactions) -> bool:
        """Put a segment's keys into the map. Returns whether all of them had room."""
        first_dirty, stats = self.first_dirty, self.stats
        start = segment.offset_index.lookup(first_dirty).position
        with segment.open_log() as file:
            if self._is_for_kernel(segment) and start >= 0:
                filling = MapFilling(self.offsets, first_dirty, transactions)
                is_all = walk(filling, file, start, self.buffer)
                stats.map_messages_read += filling.messages_read
                return is_all
            for batch in walk_batches(file, self.buffer, start):
                if not self._map_batch(batch, transactions):
                    return False
                if batch.last_offset >= first_dirty:
                    self.offsets.latest_offset = batch.last_offset
        return True

    def _is_for_kernel(self, segment: LogSegment) -> bool:
        """Whether a kernel can read a segment. The reference has to, if a record may be larger than a broker reads."""
        limit = self.log.terms.max_record_size
        if limit is None or not has_kernels_map(self.offsets):
            return has_kernels_map(self.offsets)
        try:
            with segment.open_log() as file:
                return not any(may_have_too_large(entry, limit) for entry in walk_entries(file))
        except (Corrupt, Unsupported):  # the reference meets it where Kafka's cleaner does
            return False

    def _map_batch(self, batch: Entry, transactions: CleanedTransactions) -> bool:
        is_aborted = transactions.can_discard(batch)
        if batch.is_control or is_aborted:
            self.stats.map_messages_read += 1 if batch.is_control else batch.records_count or 0
            return True
        count, is_all = put_records(batch, self.offsets, self.first_dirty, self.log.terms.max_record_size)
        self.stats.map_messages_read += count
        return is_all

    def aborted_between(self, start: int, end: int) -> Iterator[AbortedTxn]:
        """Yield the aborted transactions of [start, end) from the transaction indexes, and perhaps some others.

        Raises Corrupt for an entry that cannot be read (collectAbortedTransactions).
        """
        first = self.log.segments.floor(start)
        for segment in () if first is None else self._with_aborted_from(first.base_offset):
            for txn in segment.txn_index.parse():
                if txn.last_offset >= self.log.log_start_offset and txn.first_offset < end:
                    yield txn
                if txn.last_stable_offset >= end:
                    return

    def _with_aborted_from(self, base_offset: int) -> Iterator[LogSegment]:
        """Yield the segments from `base_offset` on that have aborted transactions. Most logs have few, so the list is
        kept (a pass puts no new segment at or after one that it still has to clean)."""
        if self._bases_with_aborted is None:
            self._bases_with_aborted = [one.base_offset for one in self.log.segments.all if not one.txn_index.is_empty]
        first = bisect_left(self._bases_with_aborted, base_offset)
        for n in range(first, len(self._bases_with_aborted)):
            yield self.log.segments[self._bases_with_aborted[n]]

    # Groups (groupSegmentsBySize).

    def _grouped(self, segments: list[LogSegment]) -> list[list[LogSegment]]:
        """Return groups of neighbours that become one segment each: as many as fit by their current sizes."""
        groups: list[list[LogSegment]] = []
        sizes: tuple[int, ...] = ()
        limits = (self.config.segment_bytes, self.config.segment_index_bytes, self.config.segment_index_bytes)
        for n, segment in enumerate(segments):
            indexes = (segment.offset_index, segment.time_index)
            own = (segment.size, *(index.entries * index.entry_size for index in indexes))
            last = segments[n + 1].base_offset - 1 if n + 1 < len(segments) else self.bound - 1
            together = tuple(map(sum, zip(sizes or (0, 0, 0), own, strict=True)))
            fits = groups and all(size <= limit for size, limit in zip(together, limits, strict=True))
            if fits and (not segment.size or last - groups[-1][0].base_offset <= MAX_INT):
                groups[-1].append(segment)
                sizes = together
            else:
                groups.append([segment])
                sizes = own
        return groups

    # Cleaning (cleanSegments, cleanInto).

    def clean_groups(self, groups: list[list[LogSegment]]) -> None:
        """Replace each group by one new segment."""
        for group in groups:
            self.put_in_place(self.clean_group(group), group)

    def clean_group(self, group: list[LogSegment]) -> LogSegment:
        """Return the new segment of a group: complete, and still `.cleaned`."""
        base_offset, terms = group[0].base_offset, self._filter_terms()
        self.stats.groups[base_offset] = [segment.base_offset for segment in group]
        # The kernel makes index entries for batches, never one for a whole write.
        is_for_kernel = self.rules.index_entry_per_batch and all(map(self._is_for_kernel, group))
        cleaned = self._clean_by_kernel(group, terms) if is_for_kernel else None
        if cleaned is None:
            cleaned = LogSegment(self.log.draft, base_offset, self.config, CLEANED)
            self._clean_by_reference(group, cleaned, terms)
        cleaned.become_inactive()
        cleaned.write_back()
        return cleaned

    def put_in_place(self, cleaned: LogSegment, group: list[LogSegment]) -> None:
        """Replace the group by the cleaned segment."""
        for segment in group:
            self.stats.total.add(self.stats.tallies[segment.base_offset])
        copy_mtime(cleaned, group[-1])
        for segment in replace_segments(self.log.segments, [cleaned], group):
            self.log.producers.mark_snapshot_deleted(segment.base_offset)

    def _clean_by_kernel(self, group: list[LogSegment], terms: FilterTerms) -> LogSegment | None:
        """Return the new segment. None, with nothing changed, if the reference has to find out what is wrong."""
        cleaned = LogSegment(self.log.draft, group[0].base_offset, self.config, CLEANED)
        before, self.transactions = self.transactions, self.transactions.copy(cleaned.txn_index)
        cleaning = GroupCleaning(cleaned, terms, self.transactions)
        try:
            for segment in self._walk_group(group, terms):
                with segment.open_log() as file:
                    cleaning.clean(file, self.buffer)
                self.buffer.restore()
        except IrregularGroup:
            cleaned.delete()
            self.transactions = before
            return None
        cleaning.finish()
        return cleaned

    def _clean_by_reference(self, group: list[LogSegment], cleaned: LogSegment, terms: FilterTerms) -> None:
        self.transactions.index = cleaned.txn_index
        writer = ContentWriter(self.log.draft.new_spool())
        for segment in self._walk_group(group, terms):
            terms.tally.unproved += 1  # it looks at no checksum
            try:
                self._clean_into(cleaned, segment, writer, terms)
            except LogSegmentOffsetOverflow:
                # As a broker does: split the segment, and end the pass. It cleans again later.
                cleaned.delete()
                del self.stats.groups[cleaned.base_offset]
                for gone in split_overflowed_segment(segment, self.log.segments):
                    self.log.producers.mark_snapshot_deleted(gone.base_offset)
                raise CleaningAborted from None
        self.log.draft.write(cleaned.log_name, writer.content())

    def _walk_group(self, group: list[LogSegment], terms: FilterTerms) -> Iterator[LogSegment]:
        """Yield each segment, after the terms and the transactions are set for it."""
        for n, segment in enumerate(group):
            self.transactions.add_aborted(self.aborted_of(group, n))
            terms.tally = self.stats.tallies[segment.base_offset] = CleaningTally()
            terms.retains_legacy_tombstones = last_modified_ms(self.log, segment) > self.legacy_horizon_ms
            yield segment

    def aborted_of(self, group: list[LogSegment], n: int) -> Iterator[AbortedTxn]:
        """Yield the aborted transactions that matter for a segment of a group."""
        next_offset = group[n].read_next_offset()  # Kafka reads it in any case, and fails on damage there
        end = group[n + 1].base_offset if n + 1 < len(group) else next_offset
        return self.aborted_between(group[n].base_offset, end)

    def _filter_terms(self) -> FilterTerms:
        return FilterTerms(
            self.offsets,
            self.now_ms,
            self.config.delete_retention_ms,
            self._emptied_end(),
            self.log.producers.producers,
            self.keeps_magic,
            self.log.terms.max_record_size,
        )

    def _emptied_end(self) -> int:
        """Return the offset before which a batch stays, even if it loses all of its records."""
        match self.rules.keeps_emptied_batch:
            case EmptiedBatch.STAYS:
                return self.bound
            case EmptiedBatch.STAYS_AT_HIGH_WATERMARK:
                return self.log.high_watermark
            case EmptiedBatch.GOES:
                return NO_OFFSET

    def _clean_into(self, cleaned: LogSegment, source: LogSegment, writer: ContentWriter, terms: FilterTerms) -> None:
        with source.open_log() as file:
            chunk = _CleanedChunk(cleaned, writer, self.buffer, per_batch=self.rules.index_entry_per_batch)
            for batch in walk_batches(file, self.buffer):
                chunk.begin(batch)
                kept = filter_batch(batch, terms, can_discard=self.transactions.can_discard(batch))
                if kept is not None:
                    chunk.append(file, batch, kept)
            chunk.end()
            writer.end_run()
        self.buffer.restore()


class CleaningAborted(Exception):
    """Not an error: a broker tries again later."""


class _CleanedChunk:
    """The batches that fit into the buffer together, and what is kept of them. Only when they are appended together is
    their largest offset checked against the segment's range."""

    def __init__(self, cleaned: LogSegment, writer: ContentWriter, buffer: ReadBuffer, *, per_batch: bool) -> None:
        """per_batch: each batch can get an index entry."""
        self._cleaned, self._writer, self._buffer, self._per_batch = cleaned, writer, buffer, per_batch
        self._start, self._stop = 0, 0
        self._clear()

    def _clear(self) -> None:
        self._batches: list[tuple[BatchMarks, int]] = []
        self._written, self._max_offset = 0, -1

    def begin(self, batch: Entry) -> None:
        """Begin the next batch. It joins the batches before it if the buffer has room for it and for what is kept."""
        self._stop = batch.position + batch.size
        if self._stop - self._start > self._buffer.capacity or self._written > self._buffer.capacity:
            self.end()
            self._start = batch.position

    def append(self, source: ContentFile, batch: Entry, kept: KeptBatch) -> None:
        position = self._writer.size
        if kept.data is None:
            self._writer.copy(source, batch.position, self._stop)
            self._batches.append((_marks(batch), position))
        else:
            self._writer.write(kept.data)
            for frame in walk_frames(kept.data, 0, len(kept.data)):
                self._batches.append((_marks(parse_entry(kept.data, frame)), position + frame.position))
        self._written += self._writer.size - position
        self._max_offset = max(self._max_offset, kept.max_offset)

    def end(self) -> None:
        """Append the chunk. Raises LogSegmentOffsetOverflow, and Corrupt if an index refuses a batch."""
        if self._batches:
            self._cleaned.ensure_offset_in_range(self._max_offset)
            if not self._per_batch:
                self._cleaned.note_write((marks for marks, _ in self._batches), self._batches[0][1], self._max_offset)
        for marks, position in self._batches if self._per_batch else ():
            self._cleaned.note_batch(marks, position)
        self._clear()


def _marks(batch: format_batch.RecordBatch | format_message.Message) -> BatchMarks:
    return BatchMarks(batch.size, batch.last_offset, batch.max_timestamp)
