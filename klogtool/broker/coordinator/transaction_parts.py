"""The parts of transactions in one partition: data, and the marker that ended them, with the epochs of both.

A transaction has a part in each partition that it wrote to. log_transactions has the same as a broker tells it; here is
what an audit needs beside: a marker's own epoch and time, and epochs that differ within a part.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.broker.unified_log.log_transactions import Status
from klogtool.errors import KlogError
from klogtool.format.batch import LOG_APPEND_TIME, RecordBatch
from klogtool.format.control import parse_end_transaction_marker
from klogtool.format.names import TopicPartition
from klogtool.log.entries import Entry


class TransactionPart(Struct, frozen=True):
    """A part of a transaction. epoch, last_epoch: of its first and last batch of data; without data, of the marker.

    first_offset, last_offset: of its data; None without data. appended_ms: when its first batch was appended, if the
    log says so (LogAppendTime). marker_offset, marker_epoch, marker_ms: None while it is open. ended_epoch: the highest
    epoch of a marker of this producer before the data, or -1.
    """

    path: str
    partition: TopicPartition | None
    producer_id: int
    epoch: int
    last_epoch: int
    first_offset: int | None
    last_offset: int | None
    appended_ms: int | None
    ended_epoch: int
    fate: Status = Status.OPEN
    marker_offset: int | None = None
    marker_epoch: int | None = None
    marker_ms: int | None = None


class PartitionParts(Struct):
    """All parts of one partition, in the order of their markers, open ones last. damage: why the rest could not be
    read, or None."""

    path: str
    partition: TopicPartition | None
    parts: list[TransactionPart]
    damage: KlogError | None = None


def read_parts(loaded: LoadedPartition, partition: TopicPartition | None) -> PartitionParts:
    """Read a partition from its log start to its end, or up to damage. Needs memory for each transaction."""
    reader = _PartsReader(PartitionParts(loaded.path, partition, []), loaded.log_start_offset)
    try:
        for segment in loaded.log.segments.values(loaded.log_start_offset):
            with segment.open_log() as file:
                for entry in walk_entries(file):
                    reader.take(entry)
    except KlogError as error:
        reader.parts.damage = error.at_path(loaded.path)
        return reader.parts  # what is open at the damage may have its marker behind it
    reader.close()
    return reader.parts


class _PartsReader:
    def __init__(self, parts: PartitionParts, log_start_offset: int) -> None:
        self.parts, self._start = parts, log_start_offset
        self._open: dict[int, TransactionPart] = {}
        self._ended: dict[int, int] = {}  # the highest epoch of a marker, by producer

    def take(self, entry: Entry) -> None:
        """Take an entry of the log. Raises Corrupt or Unsupported for a marker that cannot be read."""
        if entry.last_offset < self._start or not isinstance(entry, RecordBatch):
            return
        if entry.is_transactional:
            (self._marker if entry.is_control else self._data)(entry)

    def close(self) -> None:
        self.parts.parts += sorted(self._open.values(), key=lambda part: part.first_offset or 0)

    def _data(self, batch: RecordBatch) -> None:
        part = self._open.get(batch.producer_id)
        if part is None:
            part = self._part(batch, batch.base_offset)
        self._open[batch.producer_id] = replace(part, last_offset=batch.last_offset, last_epoch=batch.producer_epoch)

    def _part(self, batch: RecordBatch, first_offset: int | None) -> TransactionPart:
        appended_ms = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
        ended, epoch = self._ended.get(batch.producer_id, -1), batch.producer_epoch
        return TransactionPart(
            self.parts.path,
            self.parts.partition,
            batch.producer_id,
            epoch,
            epoch,
            first_offset,
            first_offset,
            appended_ms,
            ended,
        )

    def _marker(self, batch: RecordBatch) -> None:
        record = next(iter(batch.records()), None)
        marker = None if record is None else parse_end_transaction_marker(record.key, record.value)
        if record is None or marker is None:
            return
        part = self._open.pop(batch.producer_id, None) or self._part(batch, None)
        fate = Status.ABORTED if marker.is_abort else Status.COMMITTED
        self.parts.parts.append(
            replace(
                part,
                fate=fate,
                marker_offset=batch.base_offset,
                marker_epoch=batch.producer_epoch,
                marker_ms=record.timestamp,
            )
        )
        self._ended[batch.producer_id] = max(batch.producer_epoch, self._ended.get(batch.producer_id, -1))
