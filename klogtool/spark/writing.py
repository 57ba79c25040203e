"""What a task of `write.format("klog")` does: rows into partition dirs, at a place of its own.

Rows of a partition wait until they fill some batches; the bytes go to disk while rows still come.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from klogtool import kernels
from klogtool.broker.appending.new_log import NewLog
from klogtool.broker.content import Content
from klogtool.disk.new_log_dir import NewLogDir, TaskPlace
from klogtool.errors import KlogError, Refused
from klogtool.format import codecs
from klogtool.format.batch import CODEC_NAMES, TIMESTAMP_TYPE_BIT, parse_batch
from klogtool.format.batch_encoding import BatchForm, Compress
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.framing import walk_frames
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, TopicPartition
from klogtool.format.uuids import parse_uuid
from klogtool.spark.causes import WriteCause
from klogtool.spark.write_options import HowToWrite
from klogtool.spark.written_columns import (
    checked_offsets,
    numbers,
    partitions_in,
    record_columns,
    stretches,
)

PIECE_BYTES = 8 << 20  # of rows that are encoded together
MOST_WAITING_BYTES = 64 << 20  # of rows of all partitions of a task
LARGEST_PIECE_BYTES = 1 << 30  # Arrow's binary columns have at most twice that


class Written(Struct, frozen=True):
    """A partition that a task has written. place: where its dir is. start, end: its offsets, the end exclusive."""

    topic: str
    partition: int
    place: str
    start: int
    end: int
    records: int

    @property
    def name(self) -> str:
        """The name of its dir."""
        return f"{self.topic}-{self.partition}"


def write_rows(
    batches: Iterable[pa.RecordBatch], how: HowToWrite, log_dir: NewLogDir, ids_from: bytes
) -> list[Written]:
    """Write the rows of a task; return its partitions. ids_from: random bytes of the job, which ids of topics are made
    of that were not given.

    Raises Refused for rows that cannot be written, KlogError if the disk refuses. Then nothing of it stays.
    """
    with TaskPlace(log_dir) as place:
        writers: dict[tuple[str, int], _PartitionWriter] = {}
        waiting = 0
        for batch in batches:
            for topic, partition, rows in partitions_in(batch, how):
                writer = writers.get((topic, partition))
                if writer is None:
                    writer = writers[topic, partition] = _PartitionWriter(topic, partition, how, place)
                waiting += writer.add(rows)
                if waiting > MOST_WAITING_BYTES:
                    waiting = sum(one.flush() for one in writers.values())
        return [writer.finish(topic_id_of(writer.topic, how, ids_from)) for writer in writers.values()]


def topic_id_of(topic: str, how: HowToWrite, ids_from: bytes) -> bytes:
    """Return the id of a topic, the same in each task of a job."""
    topic_id = how.topic_ids.get(topic) or how.topic_ids.get("")
    return parse_uuid(topic_id) if topic_id else hashlib.sha256(ids_from + topic.encode()).digest()[:16]


def _compressor(how: HowToWrite) -> Compress | None:
    codec, level = how.codec, how.level
    if codec == "none":
        return None
    if level is None:
        return lambda body: kernels.compress(codec, body, magic=2)
    return lambda body: codecs.compress(codec, body, magic=2, level=level)


class _PartitionWriter:
    """One partition, from rows to a partition dir."""

    def __init__(self, topic: str, partition: int, how: HowToWrite, place: TaskPlace) -> None:
        self.topic, self._partition, self._how, self._place = topic, partition, how, place
        self._compress = _compressor(how)
        self._form = BatchForm(
            how.batch_bytes, attributes=CODEC_NAMES.index(how.codec), partition_leader_epoch=how.leader_epoch
        )
        self._waiting: list[pa.Table] = []
        self._bytes = self._records = 0
        self._start: int | None = None
        self._last: int | None = None  # offset of the last row that came
        self._next = how.start_offset  # where offsets are not given: of the first row that waits
        self._log: NewLog | None = None

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self._partition}"

    def add(self, rows: pa.Table) -> int:
        """Take rows. Return by how many bytes more are waiting."""
        before, more = self._bytes, int(rows.nbytes)
        if "offset" in rows.schema.names:
            offsets = checked_offsets(rows.column("offset").combine_chunks(), self._last, self._name)
            self._last = offsets[-1]
        if before + more > LARGEST_PIECE_BYTES:
            self.flush(is_last=True)
        self._waiting.append(rows)
        self._bytes += more
        if self._bytes >= max(PIECE_BYTES, 2 * self._how.batch_bytes):
            self.flush()
        return self._bytes - before

    def flush(self, *, is_last: bool = False) -> int:
        """Write what waits, but for the last batch, which may become larger. Return how many bytes wait still."""
        if not self._waiting:
            return 0
        rows = pa.concat_tables(self._waiting).combine_chunks()
        taken = self._write(rows, is_last=is_last)
        left = rows.slice(taken)
        self._waiting = [left] if left.num_rows else []
        self._bytes = left.nbytes if left.num_rows else 0
        self._next, self._records = self._next + taken, self._records + taken
        return self._bytes

    def _write(self, rows: pa.Table, *, is_last: bool) -> int:
        """Encode rows and append them. Return how many were written."""
        offsets = self._offsets(rows)
        data = self._encode(rows, offsets)
        taken = int(rows.num_rows)
        if not is_last:
            at, count = _last_batch(data)
            data, taken = data[:at], taken - count
        if data:
            first_offset = offsets[0]
            if self._log is None:
                self._start = first_offset
                path = os.path.join(self._place.path, self._name)
                self._log = NewLog(path, self._how.terms(path, first_offset), self._place.make_spool)
            self._log.append(data)
        return taken

    def _offsets(self, rows: pa.Table) -> Any:
        if "offset" in rows.schema.names:
            return numbers(rows.column("offset").chunk(0), 8, "q")
        if self._next > MAX_LONG - rows.num_rows:
            raise Refused(WriteCause.TOO_MANY_OFFSETS(partition=self._name))
        return array("q", range(self._next, self._next + rows.num_rows))

    def _encode(self, rows: pa.Table, offsets: Any) -> bytes:
        columns = record_columns(rows, offsets)
        try:
            return b"".join(
                kernels.native.encode_batches(columns, start, stop, self._form_at(time), self._compress)
                for start, stop, time in stretches(rows)
            )
        except ValueError as error:
            raise Refused(f"{self._name}: {error}") from None

    def _form_at(self, append_time_ms: int | None) -> BatchForm:
        if append_time_ms is None:
            return self._form
        return replace(self._form, attributes=self._form.attributes | TIMESTAMP_TYPE_BIT, append_time_ms=append_time_ms)

    def finish(self, topic_id: bytes) -> Written:
        """Write the partition dir. Raises KlogError if no row came."""
        self.flush(is_last=True)
        if self._log is None or self._start is None:
            raise KlogError(WriteCause.NO_ROWS_OF(partition=self._name))
        end = self._log.log_end_offset
        place = self._place.write_partition_dir(self._name, self._log.finish(topic_id))
        return Written(self.topic, self._partition, place, self._start, end, self._records)


def _last_batch(data: bytes) -> tuple[int, int]:
    """Return where the last batch begins, and how many records it has."""
    at = 0
    for frame in walk_frames(data, 0, len(data)):
        at = frame.position
    return at, parse_batch(data, at).records_count


# The commit.


def publish(written: Sequence[Written], log_dir: NewLogDir) -> None:
    """Let the log dir appear, with the partitions of all tasks. Raises Refused if two tasks wrote the same one, or
    none wrote any."""
    if not written:
        raise Refused(WriteCause.NO_ROWS())
    tasks: dict[str, int] = {}
    for one in written:
        tasks[one.name] = tasks.get(one.name, 0) + 1
    for name, count in tasks.items():
        if count > 1:
            raise Refused(WriteCause.TWO_TASKS(partition=name, count=count))
    in_order = sorted(written, key=lambda one: (one.topic, one.partition))
    log_dir.publish({one.name: one.place for one in in_order}, checkpoints_of(in_order))


def checkpoints_of(written: Iterable[Written]) -> Mapping[str, Content]:
    """Return the log dir's own files: what transplant says of a partition, a line for each."""
    ends = {TopicPartition(one.topic, one.partition): one.end for one in written}
    kinds = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
    return {kind.value: (build_offset_checkpoint(ends),) for kind in kinds}
