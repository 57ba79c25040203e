"""A partition as a broker has it loaded, for lookups by offset, time and leader epoch, and for the bytes of a fetch.

It is loaded as a broker loads it (broker/unified_log/log_loader.py), in memory only: what a broker would repair is
repaired in memory, and the folder does not change. After a clean stop only a few small files are read, whatever the
size of the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from klogtool.broker.causes import WrongWord
from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.content import Content
from klogtool.broker.draft import Draft, span_of
from klogtool.broker.unified_log import lookup, reading
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.broker.unified_log.log_transactions import (
    LogTransactions,
    Transaction,
    transaction_state,
    walk_transactions,
)
from klogtool.broker.unified_log.reading import Fetched, Isolation
from klogtool.errors import AtPath, KlogError
from klogtool.format.batch import Record
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.indexes import AbortedTxn
from klogtool.format.typed import Moment, parse_moment, whole_number
from klogtool.log.cores import usable_cores
from klogtool.log.entries import Entry
from klogtool.log.opened import open_partition_dir
from klogtool.log.second_reading import read_again

CHUNK_BYTES = 1 << 20


def load(
    path: str, circumstances: Circumstances, jobs: int | None = None, checkpoints: Checkpoints | None = None
) -> LoadedPartition:
    """Load a partition dir. jobs: threads, if a broker would recover; default: all cores. checkpoints: of the log dir,
    for callers that load several of its partitions; default: those beside the partition.

    What changes while it is read is read again. Raises KlogError for what is not a partition dir; Corrupt, Refused or
    Unsupported, with Kafka's class, if a broker refuses to load it.
    """
    open_partition_dir(path)
    with AtPath(path):
        terms = terms_of(path, circumstances, checkpoints=checkpoints)
        return read_again(lambda: LoadedPartition(LoadedLog(Draft.of(path), terms, jobs=jobs or usable_cores())))


class LoadedPartition:
    """Lookups in a loaded log. It is the log as it was when loaded; later appends are not seen."""

    def __init__(self, log: LoadedLog) -> None:
        self.log = log

    def __repr__(self) -> str:
        """Return the path and the offsets that readers may ask for."""
        return f"<LoadedPartition {self.path}: offsets {self.log_start_offset} to {self.log_end_offset}>"

    @property
    def path(self) -> str:
        """The partition dir."""
        return self.log.draft.path

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which all is replicated: as given, else from the checkpoint, else the log's end."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided. Raises Corrupt or Unsupported if a search meets
        damage."""
        return reading.end_of(self.log, Isolation.READ_COMMITTED).offset

    def lookup_offset(self, offset: int, *, explain: bool = False) -> lookup.OffsetFound:
        """Return the batch that contains an offset or follows it. explain: also the record in it, and the steps of the
        search.

        Raises Refused (OffsetOutOfRangeException) for an offset outside the log; Corrupt or Unsupported at damage.
        """
        number = whole_number("offset", offset)
        with AtPath(self.path):
            return lookup.lookup_offset(self.log, number, explain=explain)

    def lookup_timestamp(self, timestamp: Moment) -> lookup.TimestampFound:
        """Return the first record from a time (epoch ms, ISO 8601) on; or `earliest`, `latest`, `max`,
        `earliest-local`, `latest-tiered`. Raises Corrupt or Unsupported if the search meets damage, KlogError for
        another word."""
        number = lookup.WORDS.get(timestamp) if isinstance(timestamp, str) else None
        if number is None:
            try:
                number = parse_moment(timestamp)
            except KlogError:
                raise KlogError(WrongWord.NO_TIME(word=str(timestamp), words=tuple(lookup.WORDS))) from None
        with AtPath(self.path):
            return lookup.lookup_timestamp(self.log, number)

    def end_offset_for_epoch(self, leader_epoch: int) -> lookup.EpochEnd:
        """Return where a leader epoch ended."""
        return lookup.end_offset_for_epoch(self.log, whole_number("leader_epoch", leader_epoch))

    def read(
        self, offset: int, max_bytes: int, *, min_one_message: bool = False, isolation: str | Isolation = "log_end"
    ) -> FetchedBytes:
        """Return what a fetch from this offset on gets, limited to `max_bytes`; see `Fetched`.

        isolation: "log_end", "high_watermark" or "read_committed". Raises Refused (OffsetOutOfRangeException) for an
        offset outside the log; Corrupt or Unsupported if the search meets damage.
        """
        offset, max_bytes = whole_number("offset", offset), whole_number("max_bytes", max_bytes)
        with AtPath(self.path):
            fetched = reading.fetch(
                self.log, offset, max_bytes, min_one_message=min_one_message, isolation=Isolation(isolation)
            )
        return FetchedBytes(self.log, offset, fetched)

    def transactions(self) -> Iterator[Transaction]:
        """Yield every transaction of the log, in the order of markers, open ones last. Reads the whole log.

        Raises Corrupt or Unsupported if a batch cannot be read.
        """
        with AtPath(self.path):
            yield from walk_transactions(self.log)

    def transaction_state(self) -> LogTransactions:
        """Return what a broker knows of producers and transactions. Raises Corrupt or Unsupported at damage."""
        with AtPath(self.path):
            return transaction_state(self.log)


class FetchedBytes:
    """The bytes that a fetch returned. fetched: their place. offset: the requested one."""

    def __init__(self, log: LoadedLog, offset: int, fetched: Fetched) -> None:
        self.offset, self.fetched = offset, fetched
        self._log = log

    def __repr__(self) -> str:
        """Return the requested offset and how many bytes there are."""
        return f"<FetchedBytes at offset {self.offset}: {self.fetched.size} bytes>"

    @property
    def content(self) -> Content:
        """The bytes as ranges of files."""
        if not self.fetched.size:
            return ()
        return span_of(self._log.draft.files[self.file_name].content, self.fetched.position, self.fetched.size)

    @property
    def file_name(self) -> str:
        """The name of their `.log`."""
        return self._log.segments[self.fetched.segment].log_name

    @property
    def path(self) -> str:
        """The path of their `.log`."""
        return self._log.segments[self.fetched.segment].path

    def open_log(self) -> ContentFile:
        """Open their `.log`; the caller closes it. Raises KlogError if it cannot be read."""
        return self._log.segments[self.fetched.segment].open_log()

    def sha256(self) -> str:
        """Return their SHA-256 in hex; they are read in chunks. Raises KlogError if they cannot be read."""
        digest, fetched = hashlib.sha256(), self.fetched
        if fetched.size:
            buffer, end = bytearray(min(CHUNK_BYTES, fetched.size)), fetched.position + fetched.size
            with self.open_log() as file:
                for position in range(fetched.position, end, CHUNK_BYTES):
                    digest.update(file.read_into(buffer, position, min(CHUNK_BYTES, end - position)))
        return digest.hexdigest()

    def data(self) -> bytes:
        """Return all of them in memory. Raises KlogError if they cannot be read."""
        fetched = self.fetched
        if not fetched.size:
            return b""
        with self.open_log() as file:
            return file.read(fetched.position, fetched.size)

    def batches(self, *, committed_only: bool = False) -> Iterator[Entry]:
        """Yield the complete batches; each is valid until the next one.

        committed_only: without those of aborted transactions and without control batches, as a read_committed consumer
        returns them. Raises Corrupt at an impossible length.
        """
        position = self.fetched.position
        entries = self.batches_in(position, position + self.fetched.size)
        return walk_committed(entries, self.fetched.aborted or ()) if committed_only else entries

    def batches_in(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield the batches of bytes [start, stop) of the file; a batch begins at `start`."""
        if start < stop:
            with self.open_log() as file:
                yield from walk_entries(file, start, stop)

    def records(self, *, committed_only: bool = False) -> Iterator[Record]:
        """Yield their records from the requested offset on. Raises Corrupt or Unsupported as `batches`, and if records
        cannot be read."""
        for batch in self.batches(committed_only=committed_only):
            yield from (record for record in batch.records() if record.offset >= self.offset)


def walk_committed(entries: Iterable[Entry], aborted: Iterable[AbortedTxn]) -> Iterator[Entry]:
    """Yield entries without those of aborted transactions and without control batches (consumer's CompletedFetch).

    An abort marker ends the transaction of its producer; the next one of that producer begins as `aborted` says.
    """
    waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
    in_aborted_txn: set[int] = set()
    for entry in entries:
        if entry.producer_id >= 0:
            while waiting and waiting[-1].first_offset <= entry.last_offset:
                in_aborted_txn.add(waiting.pop().producer_id)
            if entry.is_control and (marker := next(iter(entry.records()), None)) is not None:
                with AtPath(entry.path):
                    if ControlRecordType.of(parse_control_type_id(marker.key)) is ControlRecordType.ABORT:
                        in_aborted_txn.discard(entry.producer_id)
        is_aborted = entry.is_transactional and entry.producer_id in in_aborted_txn
        if not entry.is_control and not is_aborted:
            yield entry
