"""What a log of `__consumer_offsets` commits, record by record, as the group coordinator loads it.

Of each key (group, topic, partition) one record stays: the last one that counts. A record of a producer counts when its
transaction is committed, unless one with a larger offset counts already; a tombstone counts at once. Sources:
OffsetMetadataManager.replay and replayEndTransactionMarker, CoordinatorLoaderImpl.processMemoryRecords. Kafka forgets
what is pending when it replays a tombstone; here the tombstone stays, and its larger offset has the same effect.

The kernel's class of this name (kernels/_offsets.pxi) does the same, and is fast.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import NO_PRODUCER_ID, NO_TIMESTAMP, Record, RecordBatch
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.internal.offset_commits import find_commit_timestamp, is_cut_up
from klogtool.format.message import Message

MOST_RECORD_TYPE = 63  # of a key; releases up to 4.4 have 23, and bytes of a text are far above
OFFSET_COMMIT_TYPES = (0, 1)  # LegacyOffsetCommitKey, OffsetCommitKey: the same fields
_TYPE_BYTES = _LENGTH_BYTES = 2
_PARTITION_BYTES = 4
NOT_KNOWN = -1
_ANY_COMMIT = bytes(20)  # of version 0: offset, metadata, timestamp


OddRecord: TypeAlias = tuple[int, bytes | None, bytes | None]  # offset, key, value


class KeptCommit(NamedTuple):
    """A record that is kept: the last one of its key.

    key: without what Kafka does not read of it. value: None for a tombstone. timestamp: of the record, when it was
    appended. producer_id: of a transaction that is still open; otherwise -1.
    """

    key: bytes
    value: bytes | None
    offset: int
    timestamp: int
    producer_id: int


class CommitReplay:
    """The commits of a log, batch after batch.

    at_ms: later records and markers do not count. log_start_offset: batches that end below it are not there. clean_end:
    the offset up to which the log is compacted. next_offset: the offset after the last batch; the caller sets where the
    first one is expected. gap_end: the offset after the last one that is missing, or -1; gap_timestamp: of the batch
    that begins there. latest_timestamp: the largest one so far; clean_timestamp: likewise of batches that begin below
    clean_end. foreign: records that no group coordinator wrote: their keys have no type that one knows.
    keeps_odd: whether records that are no plain commits are kept for `take_odd`.
    """

    def __init__(self, at_ms: int, log_start_offset: int, clean_end: int) -> None:
        self.at_ms, self.log_start_offset, self.clean_end = at_ms, log_start_offset, clean_end
        self.next_offset = self.gap_end = NOT_KNOWN
        self.gap_timestamp = self.latest_timestamp = self.clean_timestamp = NOT_KNOWN
        self.batches = self.records = self.foreign = 0
        self.keeps_odd = True
        self._odd: list[OddRecord] = []
        self._rows: dict[bytes, KeptCommit] = {}
        self._pending: dict[int, dict[bytes, KeptCommit]] = {}

    def note_batch(self, base_offset: int, last_offset: int, count: int, max_timestamp: int) -> None:
        """Note a batch, after its records. count: how many there are."""
        if base_offset > self.next_offset:
            self.gap_end = base_offset
        if base_offset == self.gap_end:
            self.gap_timestamp = max_timestamp
        if count <= last_offset - base_offset:
            self.gap_end = last_offset + 1
        self.next_offset = last_offset + 1
        self.batches, self.records = self.batches + 1, self.records + count
        self.latest_timestamp = max(self.latest_timestamp, max_timestamp)
        if base_offset < self.clean_end:
            self.clean_timestamp = max(self.clean_timestamp, max_timestamp)

    def put(self, key: bytes, value: bytes | None, offset: int, timestamp: int, producer_id: int) -> None:
        """Take a record. Keys that are no committed offset's are passed over. producer_id: of its batch."""
        if timestamp > self.at_ms or not is_commit_key(key):
            return
        commit = KeptCommit(key[: end_of_key(key)], value, offset, timestamp, producer_id)
        name = commit.key[_TYPE_BYTES:]
        if producer_id != NO_PRODUCER_ID and value is not None:
            self._pending.setdefault(producer_id, {})[name] = commit
        else:
            self._rows[name] = commit._replace(producer_id=NO_PRODUCER_ID)

    def end_txn(self, producer_id: int, is_commit: bool, timestamp: int) -> None:
        """Take the marker that ends a transaction."""
        if timestamp > self.at_ms:
            return
        for name, commit in self._pending.pop(producer_id, {}).items():
            if is_commit and self._is_later(name, commit.offset):
                self._rows[name] = commit._replace(producer_id=NO_PRODUCER_ID)

    def note_odd(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Keep a record that is no plain commit: only its schema says whether a coordinator can read it."""
        if self.keeps_odd:
            self._odd.append((offset, key, value))

    def take_odd(self) -> list[OddRecord]:
        """Return those since the last call, in the order of the log."""
        odd, self._odd = self._odd, []
        return odd

    def committed(self) -> list[KeptCommit]:
        """Return the last record of each key that counts, tombstones too, in no particular order."""
        return list(self._rows.values())

    def pending(self) -> list[KeptCommit]:
        """Return the records of open transactions that would count if these were committed."""
        return [
            commit
            for names in self._pending.values()
            for name, commit in names.items()
            if self._is_later(name, commit.offset)
        ]

    def _is_later(self, name: bytes, offset: int) -> bool:
        return name not in self._rows or offset > self._rows[name].offset


def is_commit_key(key: bytes) -> bool:
    """Whether a key is that of a committed offset, by its type."""
    return len(key) >= _TYPE_BYTES and int.from_bytes(key[:_TYPE_BYTES], "big") in OFFSET_COMMIT_TYPES


def is_plain(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record is a commit, or its tombstone, whose lengths fit exactly: Kafka can read it."""
    if key is None or not is_commit_key(key):
        return False
    return is_cut_up(key, _ANY_COMMIT if value is None else value)


def _has_type(key: bytes) -> bool:
    return len(key) >= _TYPE_BYTES and int.from_bytes(key[:_TYPE_BYTES], "big") <= MOST_RECORD_TYPE


def end_of_key(key: bytes) -> int:
    """Return where Kafka ends reading the key of a committed offset. What cannot be read counts as a whole."""
    at = _TYPE_BYTES
    for _ in ("group", "topic"):
        size = int.from_bytes(key[at : at + _LENGTH_BYTES], "big", signed=True)
        if len(key) - at < _LENGTH_BYTES or not 0 <= size <= len(key) - at - _LENGTH_BYTES:
            return len(key)
        at += _LENGTH_BYTES + size
    return min(at + _PARTITION_BYTES, len(key))


def replay_entry(replay: CommitReplay, entry: RecordBatch | Message) -> None:
    """Take all of an entry, or nothing. Raises KlogError if its checksum is wrong, or a record cannot be read."""
    if not entry.crc_valid:
        raise Corrupt("the checksum does not match", position=entry.position)
    if entry.last_offset < replay.log_start_offset:
        return
    records = list(entry.records())
    if any(record.crc_valid is False for record in records):
        raise Corrupt("the checksum of an inner message does not match", position=entry.position)
    latest = entry.max_timestamp
    if isinstance(entry, RecordBatch) and entry.is_control:
        types = [ControlRecordType.of(parse_control_type_id(record.key)) for record in records]
        for record, control_type in zip(records, types, strict=True):
            if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                replay.end_txn(entry.producer_id, control_type is ControlRecordType.COMMIT, record.timestamp)
    else:
        producer_id = entry.producer_id if isinstance(entry, RecordBatch) else NO_PRODUCER_ID
        latest = max(latest, _put_records(replay, records, producer_id))
    offsets = (record.offset for record in records)
    first = entry.base_offset if isinstance(entry, RecordBatch) else min(offsets, default=entry.last_offset)
    replay.note_batch(first, entry.last_offset, len(records), latest)


def _put_records(replay: CommitReplay, records: list[Record], producer_id: int) -> int:
    """Return the largest time that had to be looked for; -1 if each record has a timestamp."""
    latest = NO_TIMESTAMP
    for record in records:
        timestamp = record.timestamp
        if timestamp <= NO_TIMESTAMP:
            timestamp = _time_without_timestamp(replay, record)
            latest = max(latest, timestamp)
        if not is_plain(record.key, record.value):
            replay.note_odd(record.offset, record.key, record.value)
        if record.key is None or not _has_type(record.key):
            replay.foreign += 1
        else:
            replay.put(record.key, record.value, record.offset, timestamp, producer_id)
    return latest


def _time_without_timestamp(replay: CommitReplay, record: Record) -> int:
    """Return the time in the commit itself, or else the largest one of the batches before."""
    commit = None
    if record.key is not None and record.value is not None and is_commit_key(record.key):
        try:
            commit = find_commit_timestamp(record.key, record.value)
        except KlogError:
            commit = None
    return replay.latest_timestamp if commit is None else commit
