"""A partition as a broker has it loaded, to be asked: by offset, time and leader epoch, and for the bytes of a fetch.

Loading is the broker's own (broker/unified_log/log_loader.py), and happens in memory alone: what a broker would mend is
mended there, and the folder stays as it is. After a clean stop that reads a few small files, whatever the size of
the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log import lookup, reading
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.broker.unified_log.log_transactions import (
    Transaction,
    TransactionState,
    transaction_state,
    walk_transactions,
)
from klogtool.broker.unified_log.reading import Fetched, Isolation
from klogtool.errors import Corrupt, KlogError
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.typed import parse_moment
from klogtool.log.cores import usable_cores
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition

if TYPE_CHECKING:
    from klogtool.broker.content import Content
    from klogtool.broker.unified_log.content_file import ContentFile
    from klogtool.format.batch import Record
    from klogtool.format.indexes import AbortedTxn
    from klogtool.format.typed import Moment
    from klogtool.log.entries import Entry


def load(
    path: str, circumstances: Circumstances, jobs: int | None = None, checkpoints: Checkpoints | None = None
) -> LoadedPartition:
    """A partition dir, loaded. jobs: threads, where a broker would recover; default: all cores. checkpoints: of the log
    dir, for callers who load several of its partitions; default: what lies beside the partition.

    Raises KlogError for what is no partition dir; Corrupt, Refused or Unsupported, with Kafka's class, where a broker
    refuses to load it.
    """
    if not isinstance(open_path(path), Partition):
        raise KlogError("not a partition dir", path=path)
    try:
        terms = terms_of(path, circumstances, checkpoints=checkpoints)
        return LoadedPartition(LoadedLog(Draft.of(path), terms, jobs=jobs or usable_cores()))
    except KlogError as error:
        error.at_path(path)
        raise


class LoadedPartition:
    """What can be asked of a loaded log. It is as it was when it was loaded; what is appended later is not seen."""

    def __init__(self, log: LoadedLog) -> None:
        self.log = log

    @property
    def path(self) -> str:
        """Of the partition dir."""
        return self.log.draft.path

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Behind the last record."""
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Up to where all is replicated: by the checkpoint of the log dir, as given, or the log's end."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Up to where every transaction is decided. Raises Corrupt or Unsupported where a search meets damage."""
        return reading.end_of(self.log, Isolation.READ_COMMITTED).offset

    def lookup_offset(self, offset: int, *, explain: bool = False) -> lookup.OffsetFound:
        """The batch that holds an offset or follows it. explain: also the record in it, and the steps of the search.

        Raises Refused (OffsetOutOfRangeException) outside of the log; Corrupt or Unsupported where there is damage.
        """
        with self._named():
            return lookup.lookup_offset(self.log, offset, explain=explain)

    def lookup_timestamp(self, timestamp: Moment) -> lookup.TimestampFound:
        """The first record from a time (epoch ms, ISO 8601) on; or `earliest`, `latest`, `max`, `earliest-local`,
        `latest-tiered`. Raises Corrupt or Unsupported where the search meets damage, KlogError for another word."""
        number = lookup.WORDS.get(timestamp) if isinstance(timestamp, str) else None
        if number is None:
            try:
                number = parse_moment(timestamp)
            except KlogError:
                raise KlogError(f"'{timestamp}' is no time, and none of {', '.join(lookup.WORDS)}") from None
        with self._named():
            return lookup.lookup_timestamp(self.log, number)

    def end_offset_for_epoch(self, leader_epoch: int) -> lookup.EpochEnd:
        """Where a leader epoch ended."""
        return lookup.end_offset_for_epoch(self.log, leader_epoch)

    def read(
        self, offset: int, max_bytes: int, *, min_one_message: bool = False, isolation: str | Isolation = "log_end"
    ) -> FetchedBytes:
        """What a fetch from this offset on gets, at most so many bytes; see `Fetched`.

        isolation: "log_end", "high_watermark" or "read_committed". Raises Refused (OffsetOutOfRangeException) outside
        of the log; Corrupt or Unsupported where the search meets damage.
        """
        with self._named():
            fetched = reading.fetch(
                self.log, offset, max_bytes, min_one_message=min_one_message, isolation=Isolation(isolation)
            )
        return FetchedBytes(self.log, offset, fetched)

    def transactions(self) -> Iterator[Transaction]:
        """Every transaction of the log, as its marker comes, and the open ones last; reads all of the log.

        Raises Corrupt or Unsupported where a batch cannot be read.
        """
        with self._named():
            yield from walk_transactions(self.log)

    def transaction_state(self) -> TransactionState:
        """What a broker knows of producers and transactions. Raises Corrupt or Unsupported where it cannot look."""
        with self._named():
            return transaction_state(self.log)

    def _named(self) -> _Named:
        return _Named(self.path)


class _Named:
    """Errors that know no file get the path of the folder."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KlogError):
            error.at_path(self._path)


class FetchedBytes:
    """The bytes that a fetch got: `fetched` says where they lie, the rest looks at them. offset: as asked for."""

    def __init__(self, log: LoadedLog, offset: int, fetched: Fetched) -> None:
        self.offset, self.fetched = offset, fetched
        self._log = log

    @property
    def content(self) -> Content:
        """The files that they are pieces of."""
        return reading.content_of(self._log, self.fetched)

    @property
    def file_name(self) -> str:
        """Of the `.log` that they lie in."""
        return self._log.segments[self.fetched.segment].log_name

    @property
    def path(self) -> str:
        """Where that lies."""
        return self._log.segments[self.fetched.segment].path

    def open_log(self) -> ContentFile:
        """That file, to be closed. Raises KlogError where it cannot be read."""
        return self._log.segments[self.fetched.segment].open_log()

    def sha256(self) -> str:
        """Their SHA-256 in hex; read a chunk at a time. Raises KlogError where they cannot be read."""
        return reading.sha256_of(self._log, self.fetched)

    def data(self) -> bytes:
        """All of them, in memory. Raises KlogError where they cannot be read."""
        fetched = self.fetched
        if not fetched.size:
            return b""
        with self.open_log() as file:
            return file.read(fetched.position, fetched.size)

    def batches(self, *, committed_only: bool = False) -> Iterator[Entry]:
        """The batches that are whole, each good until the next one is asked for.

        committed_only: without those of aborted transactions, and without control batches, as a read_committed
        consumer hands them out. Raises Corrupt where a length cannot be.
        """
        position = self.fetched.position
        entries = self.batches_in(position, position + self.fetched.size)
        return walk_committed(entries, self.fetched.aborted or ()) if committed_only else entries

    def batches_in(self, start: int, stop: int) -> Iterator[Entry]:
        """Those of bytes [start, stop) of the file, where the first one begins."""
        if start < stop:
            with self.open_log() as file:
                yield from walk_entries(file, start, stop)

    def records(self, *, committed_only: bool = False) -> Iterator[Record]:
        """Their records from the offset on that was asked for. Raises Corrupt or Unsupported as `batches`, and where
        records cannot be read."""
        for batch in self.batches(committed_only=committed_only):
            yield from (record for record in batch.records() if record.offset >= self.offset)


def walk_committed(entries: Iterable[Entry], aborted: Iterable[AbortedTxn]) -> Iterator[Entry]:
    """Entries without those of aborted transactions, and without control batches (consumer's CompletedFetch).

    An abort marker ends the transaction of its producer; another one of the same producer begins where `aborted` says.
    """
    waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
    in_aborted_txn: set[int] = set()
    for entry in entries:
        if entry.producer_id >= 0:
            while waiting and waiting[-1].first_offset <= entry.last_offset:
                in_aborted_txn.add(waiting.pop().producer_id)
            if entry.is_control and _is_abort_marker(entry):
                in_aborted_txn.discard(entry.producer_id)
        is_aborted = entry.is_transactional and entry.producer_id in in_aborted_txn
        if not entry.is_control and not is_aborted:
            yield entry


def _is_abort_marker(entry: Entry) -> bool:
    first = next(iter(entry.records()), None)
    if first is None:
        return False
    try:
        return ControlRecordType.of(parse_control_type_id(first.key)) is ControlRecordType.ABORT
    except Corrupt as error:
        error.at_path(entry.path)
        raise
