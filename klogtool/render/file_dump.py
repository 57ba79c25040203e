"""Every file of a log dir, one after another. This is klogtool's own mode: a bad file does not end the dump.

The text is kafka-dump-log's for the files that it knows, also if a log has a suffix such as .deleted. Other files are
shown with one line of fields for each entry. In JSON every file has its rows; CSV has the records of logs.

Files other than logs become rows: for JSON lines, and for text where kafka-dump-log has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from klogtool.errors import AtPath, KlogError
from klogtool.format.buffers import Buffer
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, IndexLayout, entries_before_zero_tail, walk_txn_index
from klogtool.format.names import FileKind, FileName, parse_file_name
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.format.uuids import build_uuid
from klogtool.kernels import crc32c
from klogtool.log.file import Unreadable, read_whole, unreadable
from klogtool.log.foreign import check_file
from klogtool.log.opened import open_path
from klogtool.render.json_lines import Row, error_row, json_line, json_timestamp

if TYPE_CHECKING:
    from klogtool.render.kafka_dump import KafkaDump


def walk_files(path: str, tell: Callable[[KlogError], None], *, any_name: bool = False) -> Iterator[str]:
    """Yield the file itself, or all files below a log dir or partition dir, in order of name.

    `tell` is called with an error for whatever cannot be listed: a path that does not exist, a folder without access, a
    folder that is neither a log dir nor a partition dir, a file that is not Kafka's (any_name: see log.foreign). A link
    back to a folder above it is not followed.
    """
    try:
        os.lstat(path)
        if os.path.isdir(path):
            open_path(path)
        elif os.path.isfile(path):
            with suppress(Unreadable):  # told by the dump, after its first line
                check_file(path, any_name=any_name)
    except OSError as error:
        tell(unreadable(path, error))
    except KlogError as error:
        tell(error)
    else:
        yield from _walk(path, tell, ())


def _walk(path: str, tell: Callable[[KlogError], None], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    try:
        about, names = os.stat(path), sorted(os.listdir(path))
    except OSError as error:
        tell(unreadable(path, error))
        return
    this = about.st_dev, about.st_ino
    for name in names if this not in above else ():
        yield from _walk(os.path.join(path, name), tell, (*above, this))


def dump_text(kafka: KafkaDump, path: str) -> None:
    """Print a file of any kind as text; `kafka` prints those that kafka-dump-log knows. Raises KlogError where it
    cannot be read further."""
    name = parse_file_name(os.path.basename(path))
    if path in kafka.named:
        kafka.named_log(path)
    elif not path.endswith(".log") and name.kind.holds_batches and name.suffix:
        kafka.log(path, name.name.removesuffix(name.suffix))
    elif path.endswith(".log") or (not name.suffix and (name.kind.has_base_offset or name.kind.holds_batches)):
        kafka.file(path)
    else:
        kafka.print(f"Dumping {path}")
        with AtPath(path):
            for row in _side_rows(kafka, path, name):
                kind = row.pop("type")
                fields = " ".join(f"{field}: {_text(value)}" for field, value in row.items())
                kafka.print(f"{kind} {fields}".rstrip())


def dump_json(kafka: KafkaDump, path: str) -> None:
    """Write a file of any kind as JSON lines. If it cannot be read further, writes an error line and raises the
    KlogError."""
    name = parse_file_name(os.path.basename(path))
    try:
        if name.kind.holds_batches or path in kafka.named:
            form = kafka.form("json", path)
            with kafka.open(path) as log:
                position, left = kafka.lines(log, form)
            has_offset = name.kind is FileKind.BOOTSTRAP_SNAPSHOT or name.base_offset is not None
            if not (has_offset or path in kafka.named):
                kafka.note_name(path)
            if left:
                kafka.note_tail(left, path, position)
                kafka.write(json_line({"type": "trailing-bytes", "file": path, "position": position, "size": left}))
        else:
            for row in _side_rows(kafka, path, name):
                kafka.write(json_line({"type": row.pop("type"), "file": path, **row}))
    except KlogError as error:
        kafka.write(json_line(error_row(path, error.at_path(path))))
        raise


def dump_csv(kafka: KafkaDump, path: str) -> None:
    """Write the records of a log as CSV, whatever its name is. Raises KlogError where it cannot be read further."""
    form = kafka.form("csv", path)
    with AtPath(path), kafka.open(path) as log:
        position, left = kafka.lines(log, form)
    if left:
        kafka.note_tail(left, path, position)


def _side_rows(kafka: KafkaDump, path: str, name: FileName) -> Iterator[Row]:
    data = read_whole(path, limit=MOST_BYTES)
    if name.kind is FileKind.FOREIGN:
        kafka.complain(f"klogtool: {path}: not a file of Kafka's, by its name")
    yield from walk_side_rows(name, data)


def _text(value: object) -> str:
    """Return a field's value as Kafka's tools print it."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(list(value)) if isinstance(value, tuple) else str(value)


MOST_BYTES = 2**31 - 1


def walk_side_rows(name: FileName, data: Buffer) -> Iterator[Row]:
    """Yield a row for each entry of a side file, its `type` first. Ids are as Kafka writes them. Raises KlogError where
    Kafka's reader fails."""
    if name.kind not in WALKS:
        yield {"type": "unknown-file", "size": len(data)}
        return
    kind, walk = WALKS[name.kind]
    for entry in walk(data, name.base_offset or 0):
        fields = asdict(entry) if isinstance(entry, Struct) else entry
        yield {"type": kind} | {n: build_uuid(v) if isinstance(v, bytes) else v for n, v in fields.items()}


def _index(layout: IndexLayout[Any], data: Buffer, base_offset: int) -> Iterator[Struct]:
    count = entries_before_zero_tail(data, layout.entry_size)
    return (layout.parse_entry(data, base_offset, n) for n in range(count))


def _producers(data: Buffer, _: int) -> Iterator[Row]:
    for entry in parse_producer_snapshot(data, crc32c):
        row = asdict(entry) | {"timestamp": json_timestamp(entry.timestamp)}
        yield row | {"has_batch": entry.has_batch, "first_sequence": entry.first_sequence}


def _offsets(data: Buffer, _: int) -> Iterator[Row]:
    for partition, offset in parse_offset_checkpoint(data).items():
        yield {"topic": partition.topic, "partition": partition.partition, "offset": offset}


WALKS: dict[FileKind, tuple[str, Callable[[Buffer, int], Iterable[Struct | Row]]]] = {
    FileKind.OFFSET_INDEX: ("index-entry", partial(_index, OFFSET_ENTRIES)),
    FileKind.TIME_INDEX: ("timeindex-entry", partial(_index, TIME_ENTRIES)),
    FileKind.TXN_INDEX: ("txnindex-entry", lambda data, _: walk_txn_index(data)),
    FileKind.PRODUCER_SNAPSHOT: ("producer", _producers),
    FileKind.LEADER_EPOCH_CHECKPOINT: ("leader-epoch", lambda data, _: parse_leader_epoch_checkpoint(data)),
    FileKind.RECOVERY_POINT_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.REPLICATION_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.LOG_START_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.CLEANER_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.META_PROPERTIES: ("meta-properties", lambda data, _: [parse_meta_properties(data)]),
    FileKind.PARTITION_METADATA: ("partition-metadata", lambda data, _: [parse_partition_metadata(data)]),
    FileKind.CLEAN_SHUTDOWN: ("clean-shutdown", lambda data, _: [parse_clean_shutdown(data)]),
    FileKind.QUORUM_STATE: ("quorum-state", lambda data, _: [parse_quorum_state(data)]),
    FileKind.LOCK: ("lock", lambda _, __: [{}]),
}
