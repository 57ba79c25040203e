"""Records as Parquet files that a later run adds to: `klogtool export`.

The manifest says which offsets are in. It is replaced after the files that it names have appeared. So a run that is
killed leaves files that no manifest names; the next run deletes them, and writes them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.causes import Reason
from klogtool.disk.causes import OutputRefusal
from klogtool.disk.export_folder import drop_part, new_part, write_part
from klogtool.errors import Corrupt, KlogError, Refused, Unsupported
from klogtool.format.tiered.objects import parse_object_name
from klogtool.format.uuids import build_uuid
from klogtool.log.file import Unreadable
from klogtool.log.second_reading import has_changed
from klogtool.render.selection import LARGEST, SMALLEST
from klogtool.render.spark_text import PartitionExport, UnreadRange
from klogtool.spark.causes import ExportCause, LogCause
from klogtool.spark.converting import days_of
from klogtool.spark.copies import Copy, end_of
from klogtool.spark.export_store import ExportStore
from klogtool.spark.filters import Bounds
from klogtool.spark.left_out import highest_so_far, walk_left_out
from klogtool.spark.offsets import Wanted, resolve
from klogtool.spark.options import Query, parse_query
from klogtool.spark.owners import owner_of
from klogtool.spark.planning import SegmentRange, Split, split, wanted_copies
from klogtool.spark.reading import Task, read_split
from klogtool.spark.tables import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

from klogtool.disk.export_folder import ExportFolder

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 32 << 20


class ParquetFile:
    """The file. context: opens it. with_dictionary: the columns with a dictionary, by the first rows; None: all."""

    def __init__(
        self,
        context: AbstractContextManager[BinaryIO],
        schema: pa.Schema,
        compression: str,
        with_dictionary: Callable[[pa.Table], Sequence[str]] | None = None,
    ) -> None:
        self._context, self._schema, self._compression = context, schema, compression
        self._with_dictionary = with_dictionary
        self._sink = context.__enter__()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._waiting_bytes = 0

    @property
    def bytes(self) -> int:
        """About how large the file is."""
        return self._sink.tell() + self._waiting_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._rows >= ROWS_AT_ONCE or self._waiting_bytes >= BYTES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            if self._writer is None:
                names = True if self._with_dictionary is None else self._with_dictionary(table)
                options = {"compression": self._compression, "use_dictionary": names}
                self._writer = pq.ParquetWriter(self._sink, self._schema, **options)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._rows, self._waiting_bytes = [], 0, 0

    def close(self) -> int:
        """Finish the file; return its size."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        size = self._sink.tell()
        self._context.__exit__(None, None, None)
        return size

    def give_up(self) -> None:
        """Close the file unfinished, while it still can be: pyarrow would try it later, and say that it failed."""
        with suppress(OSError, KlogError):
            if self._writer is not None:
                self._writer.close()
            self._context.__exit__(None, None, None)


MANIFEST = "_klogtool_manifest.json"
SCHEMA = 1
OURS = re.compile(r"topic=[^/]+/day=[^/]+/part-[A-Za-z0-9_-]+\.\d+\.\d+\.parquet")
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NO_ID = "unknown"
MOST_FILES_OPEN = 16
COMMIT_BYTES = 1 << 30  # so much is repeated at most after a kill
COLUMNS = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    "_partition_leader_epoch",
)


class EpochRange(Struct, kw_only=True):
    """The offsets of a leader epoch that are exported, inclusive; -1: the records do not say their epoch."""

    leader_epoch: int
    first_offset: int
    last_offset: int


class ExportedFile(Struct, kw_only=True):
    """A file. first_offset, last_offset: of its records, inclusive; other records between them may be elsewhere."""

    name: str
    bytes: int
    records: int
    first_offset: int
    last_offset: int


class ExportedPartition(Struct, kw_only=True):
    """What is exported of a partition. next_offset: the next run begins there. left_out: what could not be read."""

    cluster_id: str | None
    topic_id: str | None
    topic: str
    partition: int
    next_offset: int
    epochs: list[EpochRange] = field(default_factory=list)
    files: list[ExportedFile] = field(default_factory=list)
    left_out: list[UnreadRange] = field(default_factory=list)

    @property
    def key(self) -> tuple[str | None, str | None, str, int]:
        """Which partition of which cluster it is. A topic that was created again has another id."""
        return self.cluster_id, self.topic_id, self.topic, self.partition

    def take(self, epochs: Sequence[EpochRange]) -> None:
        """Add ranges, which are behind those that are there."""
        for one in epochs:
            last = self.epochs[-1] if self.epochs else None
            if last is not None and last.leader_epoch == one.leader_epoch:
                last.first_offset = min(last.first_offset, one.first_offset)
                last.last_offset = max(last.last_offset, one.last_offset)
            else:
                self.epochs.append(one)


class ExportManifest(Struct, kw_only=True):
    """What is exported so far."""

    schema: int = SCHEMA
    partitions: list[ExportedPartition] = field(default_factory=list)


class GrowingExport:
    """An export into `target`. most_bytes: of a file, about; the manifest is read when it is made.

    Raises Refused if the target has files and no manifest.
    """

    def __init__(self, target: ExportFolder | ExportStore, *, most_bytes: int) -> None:
        self._target, self._most_bytes = target, most_bytes
        self.manifest = self._begun()
        self._known = {one.key: one for one in self.manifest.partitions}

    def _begun(self) -> ExportManifest:
        names = self._target.names()
        if MANIFEST not in names:
            if names:
                raise Refused(ExportCause.NO_EXPORT(), path=self._target.where)
            self._parts = self._target.parts()
            self._save(ExportManifest())
            return ExportManifest()
        manifest = _parsed(self._target.read(MANIFEST), f"{self._target.where}/{MANIFEST}")
        named = {file.name for one in manifest.partitions for file in one.files}
        if gone := sorted(named.difference(names)):
            raise Refused(ExportCause.FILE_GONE(name=gone[0]), path=self._target.where)
        self._parts = self._target.parts()
        for name in names:  # of a run that was killed before it named them
            if name not in named and OURS.fullmatch(name):
                self._target.delete(name)
        return manifest

    def _save(self, manifest: ExportManifest) -> None:
        part = f"{self._parts}/{MANIFEST}"
        drop_part(part)
        write_part(part, msgspec.json.encode(manifest))
        self._target.publish(MANIFEST, part)

    def walk(self, paths: Sequence[str], topics: Sequence[str], notes: list[str]) -> Iterator[PartitionExport]:
        """Export what is new of each partition; yield what was done. notes: what a user should know.

        Of a partition whose files go away or become shorter meanwhile, the rest is left out. Raises KlogError if
        something cannot be read or written; what was yielded before stays exported.
        """
        options = {"paths": json.dumps(paths), "mode": "DROPMALFORMED", "includeheaders": "true"}
        query = parse_query(options | ({"subscribe": ",".join(topics)} if topics else {}), notes)
        for copy in wanted_copies(query, notes):
            if copy.topic is not None and copy.partition is not None:
                yield self._export(query, copy, notes)
            else:
                notes.append(str(ExportCause.NOT_NAMED(folder=copy.folder)))

    def _export(self, query: Query, copy: Copy, notes: list[str]) -> PartitionExport:
        state, left_out = self._state_of(copy), list[UnreadRange]()
        before = len(state.files)
        try:
            reason = self._add(query, resolve(query, [copy], notes)[0], state, left_out)
        except KlogError as error:
            if not has_changed(error):
                raise
            reason = _why_gone(error, copy)
        added = state.files[before:]
        records, size = sum(file.records for file in added), sum(file.bytes for file in added)
        return PartitionExport(*state.key, records, len(added), size, state.next_offset, tuple(left_out), reason)

    def _add(
        self, query: Query, wanted: Wanted, state: ExportedPartition, left_out: list[UnreadRange]
    ) -> Reason | None:
        """Export what is wanted behind the state; add what was left out. Return why offsets are missing that no damage
        explains."""
        reason = _why_not_after(query, wanted, state) if state.epochs else None
        if reason is not None:
            return reason
        with closing(_GrowingWriter(self._parts, state, self._most_bytes)) as work:
            begin = max(wanted.start, state.next_offset)
            if state.epochs and begin > state.next_offset:
                reason = ExportCause.DELETED_BEFORE(first=state.next_offset, last=begin - 1)
            for ranges in split(query, [replace(wanted, start=begin)], Bounds()):
                for part in ranges.parts:
                    left_out += work.take(part)
                    if work.written >= COMMIT_BYTES:
                        self._commit(state, work, left_out)
            self._commit(state, work, left_out)
        return reason

    def _commit(self, state: ExportedPartition, work: _GrowingWriter, left_out: list[UnreadRange]) -> None:
        """Let the files appear, then the manifest that names them."""
        files = work.finish()
        for file, part in files:
            self._target.publish(file.name, part)
            state.files.append(file)
        state.take(work.take_epochs())
        state.next_offset = max(state.next_offset, work.next_offset)
        state.left_out += [one for one in left_out if one not in state.left_out]
        if files or state.left_out:
            if state.key not in self._known:
                self._known[state.key] = state
                self.manifest.partitions.append(state)
            self._save(self.manifest)

    def _state_of(self, copy: Copy) -> ExportedPartition:
        topic_id = copy.topic_id
        state = ExportedPartition(
            cluster_id=owner_of(copy.place, copy.identity, copy.folder).cluster_id,
            topic_id=None if topic_id is None else build_uuid(topic_id),
            topic=copy.topic or "",
            partition=-1 if copy.partition is None else copy.partition,
            next_offset=0,
        )
        return self._known.get(state.key, state)

    def end(self) -> None:
        """Delete what is unfinished."""
        self._target.end()


def _parsed(data: bytes, path: str) -> ExportManifest:
    try:
        manifest = msgspec.json.decode(data, type=ExportManifest)
    except (ValueError, RecursionError) as error:  # msgspec's errors are such
        raise KlogError(OutputRefusal.NOT_AS_WRITTEN(), path=path) from error
    if manifest.schema != SCHEMA:
        raise Unsupported(ExportCause.SCHEMA(schema=manifest.schema), path=path)
    return manifest


def _why_gone(error: KlogError, copy: Copy) -> Reason:
    """Return why a partition is left out of which a file is gone. What is missing in a remote store does not come back:
    the same command would say so again."""
    if error.path is None or parse_object_name(error.path) is None:
        return ExportCause.CHANGED(error=str(error))
    return ExportCause.OBJECT_MISSING(error=str(error), partition=f"{copy.topic}-{copy.partition}")


def _why_not_after(query: Query, wanted: Wanted, state: ExportedPartition) -> Reason | None:
    """Return why the log does not continue what is exported; None if it does."""
    last = state.epochs[-1]
    end = end_of(wanted.copy)
    if end <= last.last_offset:
        return ExportCause.SHORTER(end=end, exported=last.last_offset)
    only = replace(wanted, start=last.last_offset, end=last.last_offset + 1)
    for ranges in split(query, [only], Bounds()) if wanted.start <= last.last_offset else ():
        task = Task(("offset", "_partition_leader_epoch"), Bounds(), "DROPMALFORMED")
        for rows in read_split(ranges, task):
            epoch = rows["_partition_leader_epoch"][0].as_py()
            if epoch is not None and epoch != last.leader_epoch:
                return ExportCause.OTHER_EPOCH(offset=last.last_offset, epoch=epoch, exported=last.leader_epoch)
    return None


class _PartFile(ParquetFile):
    """A file that did not appear yet. part: where it is; first_offset, last_offset: of its records."""

    def __init__(self, part: str, schema: pa.Schema) -> None:
        super().__init__(new_part(part), schema, "zstd")
        self.part = part
        self.records, self.first_offset, self.last_offset = 0, -1, -1

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in order of offset."""
        if not self.records:
            self.first_offset = rows["offset"][0].as_py()
        self.last_offset = rows["offset"][rows.num_rows - 1].as_py()
        self.records += rows.num_rows
        super().add(rows)


class _GrowingWriter:
    """The files of a partition, by day. next_offset: after the last record that was taken."""

    def __init__(self, parts: str, state: ExportedPartition, most_bytes: int) -> None:
        self._parts, self._state, self._most_bytes = parts, state, most_bytes
        self._schema = arrow_schema("records", [name for name in COLUMNS if name != "topic"])
        self._open: dict[str, _PartFile] = {}
        self._closed: list[tuple[ExportedFile, str]] = []
        self._epochs: list[EpochRange] = []
        self._count = 0
        self.next_offset = state.next_offset

    @property
    def written(self) -> int:
        """Bytes of files that did not appear yet."""
        return sum(file.bytes for file, _ in self._closed) + sum(file.bytes for file in self._open.values())

    def take(self, part: SegmentRange) -> list[UnreadRange]:
        """Write the records of a range; return what could not be read of it."""
        begin, taken = self.next_offset, 0
        try:
            for rows in self._expected(part):
                self._add(rows)
                taken += rows.num_rows
        except Unreadable:
            raise
        except (Corrupt, Unsupported):
            # The same rows come again, and further ones behind the damage.
            for rows in read_split(Split((part,)), Task(COLUMNS, Bounds(), "DROPMALFORMED")):
                behind = rows.slice(min(taken, rows.num_rows))
                taken -= rows.num_rows - behind.num_rows
                if (behind := behind.filter(self._is_next(behind))).num_rows:
                    self._add(behind)
            return list(walk_left_out(part, drops_malformed=True, after=begin - 1))
        return []

    def _expected(self, part: SegmentRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range. Raises Corrupt or Unsupported at damage, and at offsets that are not those of
        the segment, or go back: all are read, because no checksum covers a base offset."""
        import pyarrow.compute as pc

        # In remote storage, a segment may go on behind the beginning of the next one.
        last = LARGEST if parse_object_name(part.log.path) is None else part.last_offset
        begin, whole = part.first_offset, replace(part, first_offset=SMALLEST, last_offset=last)
        for rows in read_split(Split((whole,)), Task(COLUMNS, Bounds(), "FAILFAST")):
            if self.next_offset <= begin > part.base_offset:  # what is before the wanted records may come first
                first = pc.index(pc.greater_equal(rows["offset"], begin), value=True).as_py()
                rows = rows.slice(rows.num_rows if first < 0 else first)
            if not rows.num_rows:
                continue
            highest = (part.next_base_offset or LARGEST) - 1
            is_ours = pc.and_(
                pc.greater_equal(rows["offset"], part.base_offset), pc.less_equal(rows["offset"], highest)
            )
            if not pc.all(pc.and_(is_ours, self._is_next(rows))).as_py():
                raise Corrupt(LogCause.BACKWARD(), path=part.log.path)
            yield rows

    def _is_next(self, rows: pa.RecordBatch) -> pa.Array:
        """Return which rows have offsets above all before them."""
        import pyarrow.compute as pc

        return pc.greater(rows["offset"], highest_so_far(rows["offset"], self.next_offset - 1).slice(0, rows.num_rows))

    def _add(self, rows: pa.RecordBatch) -> None:
        import pyarrow as pa

        offsets = pa.table({"epoch": rows["_partition_leader_epoch"], "offset": rows["offset"]})
        epochs = offsets.group_by("epoch").aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        for row in sorted(epochs, key=lambda row: row["offset_min"]):
            epoch = -1 if row["epoch"] is None else row["epoch"]
            self._epochs.append(
                EpochRange(leader_epoch=epoch, first_offset=row["offset_min"], last_offset=row["offset_max"])
            )
        self.next_offset = max([self.next_offset, *(row["offset_max"] + 1 for row in epochs)])
        for day, part in days_of(rows.select(self._schema.names)):
            result = self._open.pop(day, None)
            if result is None:
                if len(self._open) >= MOST_FILES_OPEN:
                    self._close(next(iter(self._open)))
                self._count += 1
                result = _PartFile(f"{self._parts}/{self._state.partition}-{self._count}.part", self._schema)
            self._open[day] = result
            result.add(part)
            if self._open[day].bytes >= self._most_bytes:
                self._close(day)

    def _close(self, day: str) -> None:
        file, state = self._open[day], self._state
        known = (state.cluster_id, state.topic_id)
        ids = "-".join(one if one is not None and SAFE_ID.fullmatch(one) else NO_ID for one in known)
        name = f"topic={state.topic}/day={day}/part-{ids}.{state.partition}.{file.first_offset:020d}.parquet"
        exported = ExportedFile(
            name=name,
            bytes=file.close(),
            records=file.records,
            first_offset=file.first_offset,
            last_offset=file.last_offset,
        )
        del self._open[day]
        self._closed.append((exported, file.part))

    def finish(self) -> list[tuple[ExportedFile, str]]:
        """Finish all files; return them with where they are."""
        for day in list(self._open):
            self._close(day)
        closed, self._closed = self._closed, []
        return closed

    def close(self) -> None:
        """Give up the files that did not appear."""
        for file in self._open.values():
            file.give_up()
        for part in [*(part for _, part in self._closed), *(file.part for file in self._open.values())]:
            drop_part(part)
        self._open.clear()

    def take_epochs(self) -> list[EpochRange]:
        """Return the leader epochs of what was written since the last call."""
        epochs, self._epochs = self._epochs, []
        return epochs
