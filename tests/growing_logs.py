"""Logs that grow in one direction: many segments, many leader epochs, many partitions. Small batches, sound files.

What a command does to n and to 4n of them says how its work grows: tests count it, `make bench` measures it.
"""

from __future__ import annotations

import pathlib

from raw_batches import raw_batch

from klogtool.format.batch import Record, build_record
from klogtool.format.checkpoints import EpochEntry, build_leader_epoch_checkpoint, build_offset_checkpoint
from klogtool.format.identity import CleanShutdown, MetaProperties, build_clean_shutdown, build_meta_properties
from klogtool.format.indexes import OffsetIndexEntry, TimeIndexEntry, build_offset_index, build_time_index
from klogtool.format.names import FileKind, TopicPartition, build_file_name
from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot

FIRST_MS = 1_700_000_000_000
PRODUCER_ID, PRODUCER_EPOCH = 7, 0
RECORDS = 2  # of a batch
TOPIC = "t"
INDEX_INTERVAL_BYTES = 4096
SEQUENCES = 2**31  # the sequence behind the last one is 0


def make_segments(
    log_dir: pathlib.Path, count: int, *, side_files: bool = True, epochs: bool = False, is_clean: bool = True
) -> pathlib.Path:
    """A partition of `count` segments of one batch each; returns its dir. side_files: all that a broker writes, else
    the `.log` alone. epochs: each segment has a leader epoch of its own. is_clean: the broker stopped in order."""
    folder = log_dir / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    for n in range(count):
        (folder / build_file_name(FileKind.LOG, n * RECORDS)).write_bytes(_batch(n, n if epochs else 0))
        if side_files:
            _make_side_files(folder, n, is_active=n == count - 1)
    if side_files:
        _make_snapshot(folder, count)
        _make_epochs(folder, count if epochs else 1)
    _make_root_files(log_dir, {TopicPartition(TOPIC, 0): count * RECORDS}, is_clean=is_clean)
    return folder


def make_epochs(log_dir: pathlib.Path, count: int, *, is_clean: bool = True) -> pathlib.Path:
    """A partition of one segment, whose `count` batches have a leader epoch each; returns its dir."""
    folder = log_dir / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    with (folder / build_file_name(FileKind.LOG, 0)).open("wb") as log:
        for n in range(count):
            log.write(_batch(n, n))
        _make_indexes(folder, log.tell() // count, count)
    _make_snapshot(folder, count)
    _make_epochs(folder, count)
    _make_root_files(log_dir, {TopicPartition(TOPIC, 0): count * RECORDS}, is_clean=is_clean)
    return folder


def make_partitions(log_dir: pathlib.Path, count: int, *, is_clean: bool = True) -> pathlib.Path:
    """A log dir of `count` partitions of one segment with one batch; returns it."""
    ends = {}
    for n in range(count):
        folder = log_dir / f"{TOPIC}-{n}"
        folder.mkdir(parents=True)
        (folder / build_file_name(FileKind.LOG, 0)).write_bytes(_batch(0, 0))
        _make_side_files(folder, 0, is_active=True)
        _make_snapshot(folder, 1)
        _make_epochs(folder, 1)
        ends[TopicPartition(TOPIC, n)] = RECORDS
    _make_root_files(log_dir, ends, is_clean=is_clean)
    return log_dir


def _timestamp(n: int) -> int:
    return FIRST_MS + n * 1000


def _batch(n: int, epoch: int) -> bytes:
    base, time = n * RECORDS, _timestamp(n)
    records = [Record(base + i, time, b"key-%03d" % (n % 1000), b"value") for i in range(RECORDS)]
    body = b"".join(build_record(record, base_offset=base, base_timestamp=time) for record in records)
    return raw_batch(
        body,
        base_offset=base,
        last_offset_delta=RECORDS - 1,
        base_timestamp=time,
        max_timestamp=time,
        producer_id=PRODUCER_ID,
        producer_epoch=PRODUCER_EPOCH,
        base_sequence=base % SEQUENCES,
        records_count=RECORDS,
        partition_leader_epoch=epoch,
    )


def _make_indexes(folder: pathlib.Path, batch_bytes: int, count: int) -> None:
    """Of one segment; an entry for every 4096 bytes, as a broker adds them."""
    every = INDEX_INTERVAL_BYTES // batch_bytes + 1
    last = [n * RECORDS + RECORDS - 1 for n in range(count)]
    offsets = [OffsetIndexEntry(last[n], n * batch_bytes) for n in range(every, count, every)]
    times = [TimeIndexEntry(_timestamp(n), last[n]) for n in sorted({*range(every, count, every), count - 1})]
    (folder / build_file_name(FileKind.OFFSET_INDEX, 0)).write_bytes(build_offset_index(offsets, 0))
    (folder / build_file_name(FileKind.TIME_INDEX, 0)).write_bytes(build_time_index(times, 0))


def _make_side_files(folder: pathlib.Path, n: int, *, is_active: bool) -> None:
    base = n * RECORDS
    (folder / build_file_name(FileKind.OFFSET_INDEX, base)).write_bytes(b"")
    times = [TimeIndexEntry(_timestamp(n), base + (RECORDS - 1))]
    (folder / build_file_name(FileKind.TIME_INDEX, base)).write_bytes(build_time_index(times, base))
    if n:
        _make_snapshot(folder, n)


def _make_snapshot(folder: pathlib.Path, n: int) -> None:
    """Of the state behind n batches."""
    end = n * RECORDS
    entry = ProducerStateEntry(PRODUCER_ID, PRODUCER_EPOCH, end - 1, end - 1, RECORDS - 1, _timestamp(n - 1), -1, None)
    (folder / build_file_name(FileKind.PRODUCER_SNAPSHOT, end)).write_bytes(build_producer_snapshot([entry]))


def _make_epochs(folder: pathlib.Path, count: int) -> None:
    entries = [EpochEntry(n, n * RECORDS) for n in range(count)]
    (folder / FileKind.LEADER_EPOCH_CHECKPOINT.value).write_bytes(build_leader_epoch_checkpoint(entries))


def _make_root_files(log_dir: pathlib.Path, ends: dict[TopicPartition, int], *, is_clean: bool) -> None:
    identity = MetaProperties(1, "growing", 1, bytes(range(16)))
    (log_dir / "meta.properties").write_bytes(build_meta_properties(identity))
    high = build_offset_checkpoint(ends)
    (log_dir / "replication-offset-checkpoint").write_bytes(high)
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(high if is_clean else build_offset_checkpoint({}))
    (log_dir / "log-start-offset-checkpoint").write_bytes(build_offset_checkpoint({}))
    (log_dir / "cleaner-offset-checkpoint").write_bytes(build_offset_checkpoint({}))
    if is_clean:
        (log_dir / ".kafka_cleanshutdown").write_bytes(build_clean_shutdown(CleanShutdown(0, 5)))
