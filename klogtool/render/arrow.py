"""Records as Arrow record batches, and as Arrow and Parquet files.

pyarrow is an extra: it is imported when it is needed, and the error without it says how to install it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.names import FileKind, PartitionDirName, parse_file_name
from klogtool.log.cores import usable_cores
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.folder import Folder, find_partition_dir_name, list_folder, partition_of
from klogtool.log.foreign import check_named
from klogtool.log.opened import open_path
from klogtool.log.probing import ends_preallocated
from klogtool.log.resync import find_batch_behind
from klogtool.log.span_maker import walk_results
from klogtool.render.arrow_batches import SPAN_BYTES, BatchMaker, Common, Extract, SpanBatches
from klogtool.render.arrow_memory import Blocks
from klogtool.render.record_columns import COLUMN_TYPES
from klogtool.render.selection import (  # scans name it: help() and signatures ask for the types of fields
    LARGEST,
    SMALLEST,
    Selection,
)
from klogtool.salvage.mended_entries import hides_entries, mended

if TYPE_CHECKING:
    import pyarrow as pa

OnDamage = Callable[[KlogError], None]
MOST_JOBS = 4  # more threads hold more memory, and the consumer of the batches is a single thread


class NamedLog(Struct, frozen=True):
    """A log that is no file of a partition dir: standard input, a segment in remote storage. name: as Kafka calls it;
    None, also for topic and partition: nobody knows."""

    open: Callable[[], LogFile]
    name: str | None = None
    topic: str | None = None
    partition: int | None = None


class Tally(Struct):
    """What was found so far, in one file or several.

    invalid: batches and messages with a wrong checksum. astray: with other offsets than those of their segment.
    first_invalid, first_astray: file and position of the first such one; first_backward: of the first one that does not
    lie behind all before it in its part of a file. highest: offset so far in the current part.
    """

    invalid: int = 0
    first_invalid: tuple[str, int] | None = None
    astray: int = 0
    first_astray: tuple[str, int] | None = None
    first_backward: tuple[str, int] | None = None
    highest: int | None = None

    def take(self, path: str, result: SpanBatches) -> None:
        """Add what was found in one more span of a file."""
        if result.first_invalid is not None and self.first_invalid is None:
            self.first_invalid = path, result.first_invalid
        self.invalid += result.invalid
        order = result.order
        if order.first_astray is not None and self.first_astray is None:
            self.first_astray = path, order.first_astray
        self.astray += order.astray
        if order.start is None:
            return
        first, last = order.offsets
        backward = order.first_backward if self.highest is None or first > self.highest else order.start
        if backward is not None and self.first_backward is None:
            self.first_backward = path, backward
        self.highest = last if self.highest is None else max(self.highest, last)


class LogPart(Struct, frozen=True):
    """A part of a log file, and whose it is.

    start, end: bytes; entries that do not end by `end` are left out. is_preallocated: whether the bytes from a position
    on are zeros behind the end of the log, at which a walk ends. offsets: those of its segment, for the tally.
    ends_at_entry: whether an entry ends there, so that what is left before it is damage.
    """

    topic: str | None
    partition: int | None
    start: int = 0
    end: int | None = None
    is_preallocated: Callable[[LogFile, int], bool] | None = None
    offsets: tuple[int, int] = (SMALLEST, LARGEST)
    ends_at_entry: bool = False


class RecordQuery(Struct, frozen=True):
    """Which records are read, and how.

    columns: only these. with_control: include control records, such as the end markers of transactions. on_damage:
    called with each error about the bytes; without it the error is raised. resync: search for the next batch after a
    broken batch length. jobs: threads, default one for each core up to 4. span_bytes: how much of a file a thread takes
    at a time, and the most that a record batch is made of.
    """

    columns: Sequence[str] | None = None
    selection: Selection | None = None
    with_control: bool = True
    on_damage: OnDamage | None = None
    resync: bool = False
    jobs: int | None = None
    tally: Tally | None = None
    span_bytes: int = SPAN_BYTES


def schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """Return names and types of all columns, or of the given ones in the given order.

    Raises ValueError for an unknown name or an empty list, Unsupported without pyarrow.
    """
    pa, every = load_pyarrow(), _every_column()
    if columns is None:
        return every
    if wrong := [name for name in columns if name not in every.names] or ([] if columns else ["none at all"]):
        raise ValueError(f"no such column: {', '.join(wrong)} (there are {', '.join(every.names)})")
    return pa.schema([every.field(name) for name in dict.fromkeys(columns)])


@cache
def _every_column() -> pa.Schema:
    pa = load_pyarrow()
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    special = {"timestamp": pa.timestamp("us", "UTC"), "headers": pa.list_(header)}
    return pa.schema([(name, special.get(kind) or pa.type_for_alias(kind)) for name, kind in COLUMN_TYPES.items()])


def load_pyarrow() -> Any:
    """Return the package. Raises Unsupported if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise Unsupported("Arrow and Parquet need pyarrow: pip install klogtool[arrow]") from error
    return pyarrow


# --- reading ----------------------------------------------------------------------------------------------------------


def walk_record_batches(
    file: LogFile, part: LogPart, query: RecordQuery, *, blocks: Blocks | None = None, maker: BatchMaker | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a log file, in order, in record batches of at most 65 536 rows and 16 MiB, none empty.

    A single larger record is a record batch of its own.

    blocks: memory shared by several walks. maker: the maker of the previous file's record batches (see its `take_up`),
    which then makes these too, on one thread.

    Records of a batch with a wrong checksum are included, with `_crc_ok` false. For anything that cannot be read, and
    for stray bytes at the end of the file, `on_damage` is called with the error between the record batches, and the
    walk continues with the next batch, if there is one; without `on_damage` the error is raised. After a broken batch
    length the walk ends, unless `resync` searches for the next batch. With `resync`, a batch with nothing wrong but its
    length or its magic is read with the right value, as in verify and salvage, and `on_damage` is called for it first.
    I/O errors are always raised.
    """
    on_damage, span_bytes = query.on_damage, query.span_bytes
    stop = file.size if part.end is None else min(part.end, file.size)
    if query.resync:
        file = mended(file, start=part.start, end=stop, on_mended=lambda error: _damage(error, on_damage))
    kind = schema(query.columns) if maker is None else maker.extract.schema
    extract = Extract(file, stop, part.topic, part.partition, kind, query.selection, query.with_control, part.offsets)
    if query.tally is not None:
        query.tally.highest = None
    common, threads = Common(blocks or Blocks()), query.jobs or min(usable_cores(), MOST_JOBS)

    if maker is not None:
        maker.take_up(extract)
        threads = 1

    def make_maker() -> BatchMaker:
        return maker or BatchMaker(extract, common)

    at: int | None = part.start
    while at is not None:
        for result in walk_results(file, make_maker, start=at, end=stop, span_bytes=span_bytes, jobs=threads):
            if query.tally is not None:
                query.tally.take(file.path, result)
            while result.items:  # one by one: the memory of a dropped batch is reused for the next
                item = result.items.pop(0)
                if isinstance(item, KlogError):
                    _damage(item.at_path(file.path), on_damage)
                else:
                    yield item
                del item
        if result.tail is None or (part.is_preallocated is not None and part.is_preallocated(file, result.reached)):
            return
        is_damage = part.end is None or part.ends_at_entry or result.tail.kafka_class
        if is_damage or (not query.resync and hides_entries(file, result.reached, end=stop)):
            _damage(result.tail.at_path(file.path), on_damage)
        at = _behind(extract, result.reached, on_damage) if query.resync else None


def _damage(error: KlogError, on_damage: OnDamage | None) -> None:
    if on_damage is None or isinstance(error, Unreadable):
        raise error
    on_damage(error)


def _behind(extract: Extract, position: int, on_damage: OnDamage | None) -> int | None:
    """Return the position of the next entry after bytes that are not an entry; None if there is none."""
    result = find_batch_behind(extract.file, position, end=extract.end)
    if result is not None:
        skipped = Corrupt(f"{result - position} bytes are not a batch: skipped", position=position)
        _damage(skipped.at_path(extract.file.path), on_damage)
    return result


def walk_files(
    paths: Iterable[str | os.PathLike[str] | NamedLog], query: RecordQuery, *, end: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of log files, one file after another (see `walk_record_batches`). end: bytes of each file.

    Topic and partition come from the folder's name; they are null if it is not a partition dir. Of a given log, they
    are given. Zeros behind the end of a partition's last segment are what a broker has preallocated.
    """
    load_pyarrow()
    blocks = Blocks()
    for path in paths:
        if isinstance(path, NamedLog):
            part = LogPart(path.topic, path.partition, end=end)
        else:
            part = LogPart(*partition_of(path), end=end, is_preallocated=ends_preallocated)
        with path.open() if isinstance(path, NamedLog) else LogFile(path) as file:
            yield from walk_record_batches(file, part, query, blocks=blocks)


def find_logs(path: str | os.PathLike[str]) -> list[str]:
    """Return the log files under a path, as `klogtool.scan` reads them; a path that is not a folder is its own log.

    Raises KlogError for a folder that is neither a log dir nor a partition dir, for a foreign file, and for an index,
    a checkpoint and other files of Kafka's that hold no batches.
    """
    path = os.fspath(path)
    if not os.path.isdir(path):
        check_named(path)
        kind = parse_file_name(os.path.basename(path)).kind
        if kind is not FileKind.FOREIGN and not kind.holds_batches:
            raise KlogError("it holds no records: name a .log file, a partition dir or a log dir", path=path)
        return [path]
    open_path(path)
    logs = _logs_in(list_folder(path))
    for name, folder in _partition_dirs(path):
        if name.state.is_current:
            logs += _logs_in(list_folder(folder))
    return logs


def find_left_out(path: str | os.PathLike[str]) -> list[str]:
    """Return the partition dirs of a log dir that `find_logs` leaves out."""
    path = os.fspath(path)
    partitions = _partition_dirs(path) if os.path.isdir(path) else []
    return [folder for name, folder in partitions if not name.state.is_current]


def _partition_dirs(path: str) -> list[tuple[PartitionDirName, str]]:
    """Return all partition dirs of a log dir, in order of topic and partition."""
    folders = list_folder(path).folders
    results = [(name, os.path.join(path, folder)) for folder in folders if (name := find_partition_dir_name(folder))]
    return sorted(results, key=lambda pair: (pair[0].topic, pair[0].partition, pair[1]))


def _logs_in(folder: Folder) -> list[str]:
    """Return the log files of a folder, in order of base offset; names without one come last."""
    names = [name for name in folder.files if name.kind is FileKind.LOG and not name.suffix]
    names.sort(key=lambda name: (name.base_offset is None, name.base_offset or 0, name.name))
    return [os.path.join(folder.path, name.name) for name in names]


# --- writing ----------------------------------------------------------------------------------------------------------

ROW_GROUP_ROWS = 1_000_000
ROW_GROUP_BYTES = 128 << 20
# Columns with few distinct values. For keys and values a dictionary only costs time; for the columns in DELTAS, delta
# encoding is smaller and faster.
DICTIONARIES = (
    "topic",
    "partition",
    "timestampType",
    "headers.list.element.key",
    "_segment",
    "_producer_id",
    "_producer_epoch",
    "_compression",
    "_partition_leader_epoch",
)
DELTAS = ("offset", "timestamp", "_position", "_batch_base_offset", "_sequence")


def write_arrow(batches: Iterable[pa.RecordBatch], sink: BinaryIO, columns: Sequence[str] | None = None) -> None:
    """Write an Arrow IPC file (`.arrow`, also known as Feather 2), not compressed, so that it can be mapped.

    columns: the same as for the batches.
    """
    with load_pyarrow().ipc.new_file(sink, schema(columns)) as writer:
        for batch in batches:
            writer.write_batch(batch)
            del batch


def write_parquet(batches: Iterable[pa.RecordBatch], sink: BinaryIO, columns: Sequence[str] | None = None) -> None:
    """Write a Parquet file, compressed with snappy, in row groups of about a million rows or 128 MiB.

    columns: see `write_arrow`.
    """
    pa, kind = load_pyarrow(), schema(columns)
    from pyarrow.parquet import ParquetWriter

    options = {
        "use_dictionary": list(DICTIONARIES),
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in DELTAS if name in kind.names} or None,
        "write_statistics": [name for name in kind.names if name not in ("value", "headers")],
    }
    with ParquetWriter(sink, kind, **options) as writer:
        for group in _row_groups(batches):
            table = pa.Table.from_batches(group, kind)
            group.clear()  # otherwise its memory is held until the next group is complete
            writer.write_table(table, table.num_rows)
            del table


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group
