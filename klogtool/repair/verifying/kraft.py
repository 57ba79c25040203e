"""What only a KRaft cluster's metadata log has beside it: snapshots and quorum-state; and the topic ids it knows."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.errors import KlogError
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.identity import parse_quorum_state
from klogtool.format.names import FileKind
from klogtool.log.entries import Message, RecordBatch
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.segment import KraftSnapshot
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.repair.findings import Finding
from klogtool.repair.verifying.cures import move_out, remove
from klogtool.repair.verifying.names import Layout

# The frame of a metadata record and its type, in the first bytes of its value: MetadataRecordType.
TOPIC_RECORD, REMOVE_TOPIC_RECORD = b"\x01\x02", b"\x01\x09"


def verify_kraft(layout: Layout, log_start_offset: int) -> Iterator[Finding]:
    """Findings of the snapshots and of quorum-state beside the metadata log, which begins at log_start_offset."""
    for name in layout.kraft_snapshots.values():
        yield from verify_kraft_snapshot(layout.path_of(name))
    if log_start_offset > 0 and max(layout.kraft_snapshots, default=-1) < log_start_offset:
        detail = f"the log begins at {log_start_offset}, and no snapshot reaches as far: a broker does not start"
        yield Finding("kraft-snapshot-corrupt", layout.path, detail, last_offset=log_start_offset - 1)
    path = layout.find(FileKind.QUORUM_STATE)
    if path is not None:
        yield from _verify_quorum_state(path)


def verify_kraft_snapshot(path: str) -> Iterator[Finding]:
    """Findings of a `.checkpoint`, or a bootstrap.checkpoint: one at most, since a broker takes all of it or none."""
    try:
        _read_through(KraftSnapshot(path))
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
    except KlogError as error:
        detail = f"{error.reason}: a broker that needs this snapshot does not start"
        cure = f"{move_out(path)} if an older one, and the log since, are whole; or copy it from another controller"
        yield Finding("kraft-snapshot-corrupt", path, detail, start=error.position, cure=cure)


def _read_through(snapshot: KraftSnapshot) -> None:
    """Raises KlogError at the first batch that is not as RecordsSnapshotWriter leaves it."""
    batch, expected = None, 0
    for entry in snapshot.batches():
        batch = _checked(entry, expected)
        if expected == 0 and "SNAPSHOT_HEADER" not in _control_types(batch):
            raise KlogError("does not begin with a snapshot header", position=batch.position)
        expected = batch.last_offset + 1
    if batch is None:
        raise KlogError("holds no batch", position=0)
    if tail := snapshot.tail_bytes():
        raise KlogError(f"ends inside a batch, {tail} bytes of which are there", position=batch.position + batch.size)
    if "SNAPSHOT_FOOTER" not in _control_types(batch):
        raise KlogError("does not end with a snapshot footer", position=batch.position)


def _checked(batch: RecordBatch | Message, expected: int) -> RecordBatch:
    if not isinstance(batch, RecordBatch):
        raise KlogError("holds a message of an old format", position=batch.position)
    if batch.magic != 2 or not batch.crc_valid:
        raise KlogError("a batch does not match its checksum", position=batch.position)
    if batch.base_offset != expected:
        raise KlogError(f"a batch begins at {batch.base_offset}, not at {expected}", position=batch.position)
    return batch


def _control_types(batch: RecordBatch) -> list[str]:
    """By the names that ControlRecordType has for them."""
    if not batch.is_control:
        return []
    return [ControlRecordType.of(parse_control_type_id(record.key)).name for record in batch.records()]


def _verify_quorum_state(path: str) -> Iterator[Finding]:
    try:
        parse_quorum_state(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
    except KlogError as error:
        cure = remove(path, "a new election writes it anew")
        yield Finding("quorum-state-corrupt", path, f"{error.reason}: a broker does not start", cure=cure)


# Topic ids.


def topic_ids_by_metadata(layout: Layout) -> dict[str, str] | None:
    """The id of each topic that the cluster knows, by the newest snapshot and the log behind it.

    None where that cannot be read to its end: then nothing is known of any topic.
    """
    topics: dict[str, str] = {}
    try:
        snapshot_offset = max(layout.kraft_snapshots, default=0)
        if layout.kraft_snapshots:
            _apply(layout.path_of(layout.kraft_snapshots[snapshot_offset]), topics, 0)
        for segment in layout.partition.segments:
            _apply(segment.path, topics, snapshot_offset)
    except KlogError:
        return None
    return {name: topic_id for topic_id, name in topics.items()}


def _apply(path: str, topics: dict[str, str], start_offset: int) -> None:
    from klogtool.format.internal.records import METADATA, parse_metadata_record

    for batch in KraftSnapshot(path).batches():
        if not isinstance(batch, RecordBatch) or not batch.crc_valid:
            raise KlogError("a batch does not match its checksum", path=path, position=batch.position)
        if batch.is_control or batch.last_offset < start_offset:
            continue
        for record in batch.records():
            if record.value is not None and record.value.startswith((TOPIC_RECORD, REMOVE_TOPIC_RECORD)):
                message = parse_metadata_record(METADATA, record.value)
                if message.name == "TopicRecord":
                    topics[message.values["topicId"]] = message.values["name"]
                else:
                    topics.pop(message.values["topicId"], None)
