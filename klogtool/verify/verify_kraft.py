"""What only a KRaft cluster's metadata log has: snapshots and quorum-state."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.releases import TOLERANT_RULES
from klogtool.causes import from_text
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import CRC_COVERS_FROM
from klogtool.format.checksums import crc32c
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH
from klogtool.format.identity import parse_quorum_state
from klogtool.format.internal.records import METADATA, parse_metadata_record
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.format.uuids import METADATA_TOPIC_ID, build_uuid
from klogtool.log.entries import Message, RecordBatch
from klogtool.log.file import LogFile, Unreadable, read_whole
from klogtool.log.folder import is_device, is_loop, is_socket
from klogtool.log.partition import Partition
from klogtool.log.segment import KraftSnapshot
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import CureRemark, FindingCause, KraftCause
from klogtool.verify.cures import FROM_A_CONTROLLER, move_out, move_out_of_partition, remove
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.identity_cures import read_topic_id, write_partition_metadata
from klogtool.verify.stops import Stop, refuses
from klogtool.verify.verify_names import METADATA_PARTITION, Layout
from klogtool.verify.verify_replay import verify_replay

METADATA_VERSION = "metadata.version"


def verify_kraft(layout: Layout, log_start_offset: int) -> Iterator[Finding]:
    """Yield findings of the snapshots and of quorum-state beside the metadata log, which begins at log_start_offset,
    of its topic id, and of what no release replays.

    At its start a broker reads only the newest snapshot, so only that one can stop it.
    """
    yield from _judge_topic_id(layout.path)
    damaged = {}
    for offset, name in layout.kraft_snapshots.items():
        damaged[offset] = list(verify_kraft_snapshot(layout.path_of(name)))
    sound = [offset for offset, findings in damaged.items() if not findings]
    is_needed = log_start_offset > 0 and max(sound, default=-1) < log_start_offset
    for offset, findings in damaged.items():
        for finding in findings:
            is_newest = offset == max(damaged)
            cure = FROM_A_CONTROLLER if is_needed else finding.cured_by
            stop = finding.stop or _stop_of_replay(layout.path) if is_newest else None
            yield replace(finding, cured_by=cure, stop=stop)
    yield from _missing_snapshot(layout, log_start_offset)
    path = layout.find(FileKind.QUORUM_STATE)
    if path is not None:
        yield from verify_quorum_state(path)
    if not any(damaged.values()):  # what a damaged snapshot has lost is told there
        yield from verify_replay(layout.path, read_cluster_metadata(layout.path, TOLERANT_RULES), TOLERANT_RULES)


def _judge_topic_id(folder: str) -> Iterator[Finding]:
    """Yield a finding if the metadata log has another topic id than its own (UnifiedLog.initializeTopicId)."""
    topic_id, own = read_topic_id(Partition(folder)), build_uuid(METADATA_TOPIC_ID)
    path = os.path.join(folder, FileKind.PARTITION_METADATA.value)
    if topic_id not in (None, own):
        message = (
            f"Tried to assign topic ID Optional[{own}] to log for topic partition {METADATA_PARTITION},"
            f"but log already contained topic ID {topic_id}"
        )
        reason = KraftCause.METADATA_ID(topic=METADATA_TOPIC, topic_id=str(topic_id), always=own)
        stop = refuses("InconsistentTopicIdException", message)
        yield Finding(Kind.TOPIC_ID_MISMATCH, path, reason, cured_by=write_partition_metadata(path, own), stop=stop)


def _missing_snapshot(layout: Layout, log_start_offset: int) -> Iterator[Finding]:
    newest = max(layout.kraft_snapshots, default=None)
    if log_start_offset == 0 or (newest is not None and newest >= log_start_offset):
        return
    # Releases go on in different words.
    message = "Inconsistent snapshot state: there must be a snapshot"
    yield Finding(
        Kind.KRAFT_SNAPSHOT_CORRUPT,
        layout.path,
        KraftCause.NO_SNAPSHOT(start=log_start_offset),
        last_offset=log_start_offset - 1,
        cured_by=FROM_A_CONTROLLER,
        stop=refuses("IllegalStateException", message),
    )


def _stop_of_replay(path: str) -> Stop | None:
    """Return the stop at a record of the log that changes what a damaged snapshot has lost; None if there is none."""
    refusal = read_cluster_metadata(path).refusal
    return None if refusal is None else refuses(refusal.kafka_class, refusal.message)


def verify_kraft_snapshot(path: str) -> Iterator[Finding]:
    """Yield at most one finding of a `.checkpoint` or bootstrap.checkpoint."""
    is_bootstrap = os.path.basename(path) == FileKind.BOOTSTRAP_SNAPSHOT.value
    try:
        _read_through(KraftSnapshot(path))
    except Unreadable as error:
        stop = _stop_at_bootstrap_of_no_file(path) if is_bootstrap else _stop_at_no_file(path)
        cure = None
        if stop is not None and not os.path.isdir(path):
            cure = move_out(path, os.path.dirname(path) or ".") if is_bootstrap else move_out_of_partition(path)
        yield Finding(Kind.UNREADABLE, path, from_text(error.reason), cured_by=cure, stop=stop)
    except KlogError as error:
        stop = _stop_of_bootstrap(path) if is_bootstrap else _stop_of(error)
        cause = KraftCause.READ_ALL_THE_SAME if stop is None else KraftCause.NEEDED
        cure = move_out(path, os.path.dirname(path) or ".") if is_bootstrap else move_out_of_partition(path)
        reason = cause(wrong=error.reason)
        yield Finding(Kind.KRAFT_SNAPSHOT_CORRUPT, path, reason, start=error.position, cured_by=cure, stop=stop)


def _stop_at_no_file(path: str) -> Stop | None:
    """Return the stop at a folder, a socket, a device or a link to itself in place of a snapshot; None if it may be a
    file that only klogtool cannot read, or a FIFO, at which a start waits (FileRawSnapshotReader)."""
    if os.path.isdir(path):
        return refuses("UncheckedIOException", "Failed to read records into memory")
    if is_device(path):
        return refuses("NoSuchElementException", "No value present")
    if is_socket(path) or is_loop(path):
        return refuses("UncheckedIOException", f"Unable to Opens a snapshot file {os.path.abspath(path)}")
    return None


def _stop_at_bootstrap_of_no_file(path: str) -> Stop | None:
    """Return the stop for bootstrap.checkpoint. Kafka sees no link that leads to no file (BootstrapDirectory)."""
    if is_socket(path):
        return refuses("FileSystemException", f"{os.path.abspath(path)}: No such device or address")
    if is_device(path):
        return _stop_of_bootstrap(path)
    return None if is_loop(path) else _stop_at_no_file(path)


def _stop_of(error: KlogError) -> Stop | None:
    """Return the stop as RecordsSnapshotReader and RecordsIterator have it: they check less than the format
    requires."""
    return None if error.kafka_class is None else refuses(error.kafka_class, error.kafka_message or error.reason)


def _stop_of_bootstrap(path: str) -> Stop | None:
    """Return the stop of BatchFileReader, which checks no CRC and reads complete batches: they have to name the
    metadata.version."""
    try:
        for batch in KraftSnapshot(path).batches():
            if not batch.is_control and any(_names_metadata_version(record.value) for record in batch.records()):
                return None
    except KlogError:
        pass
    message = "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap"
    return refuses("RuntimeException", f"{message} metadata file: {path}")


def _names_metadata_version(value: bytes | None) -> bool:
    message = None if value is None else parse_metadata_record(METADATA, value)
    return message is not None and message.name == "FeatureLevelRecord" and message.values["name"] == METADATA_VERSION


def _read_through(snapshot: KraftSnapshot) -> None:
    """Read the snapshot. Raises KlogError if it is not as RecordsSnapshotWriter writes it: with Kafka's class if a
    broker fails at it; otherwise at the end, for the first thing that a broker ignores."""
    batch: RecordBatch | None = None
    mild: KlogError | None = None
    for entry in _walk_batches(snapshot):
        expected = 0 if batch is None else batch.last_offset + 1
        is_first, batch = batch is None, _checked(entry)
        if is_first and "SNAPSHOT_HEADER" not in _control_types(batch):
            raise _refused("does not start with a snapshot header", batch, "IllegalStateException", _NO_HEADER)
        if batch.base_offset != expected and mild is None:
            mild = KlogError(f"a batch starts at {batch.base_offset}, not at {expected}", position=batch.position)
    tail = snapshot.tail_bytes()
    _check_tail(snapshot, os.path.getsize(snapshot.path) - tail)
    if batch is None and snapshot.end_offset == 0:  # of the day of its formatting: it has no state to load
        raise KlogError("contains no whole batch", position=0)
    if batch is None:
        raise _refused("contains no whole batch", None, "NoSuchElementException", "No value present")
    if tail and mild is None:
        mild = KlogError(f"ends inside a batch: it has {tail} bytes of it", position=batch.position + batch.size)
    if "SNAPSHOT_FOOTER" not in _control_types(batch) and mild is None:
        mild = KlogError("does not end with a snapshot footer", position=batch.position)
    if mild is not None:
        raise mild


def _walk_batches(snapshot: KraftSnapshot) -> Iterator[RecordBatch | Message]:
    try:
        yield from snapshot.batches()
    except Corrupt as error:
        if error.position is not None:
            _check_tail(snapshot, error.position)  # in the words of who reads a snapshot
        raise


def _check_tail(snapshot: KraftSnapshot, position: int) -> None:
    """Raise KlogError if Kafka fails at bytes that are no whole batch (ByteBufferLogInputStream.nextBatchSize, and
    RecordsIterator.createMemoryRecords, which needs the head of a first batch)."""
    with LogFile(snapshot.path) as file:
        size, head = file.size, file.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if not position and 0 < size < HEADER_SIZE_UP_TO_MAGIC:
        message = 'Cannot invoke "java.lang.Integer.intValue()"'
        raise KlogError(
            "contains no whole batch", position=0, kafka_class="NullPointerException", kafka_message=message
        )
    if len(head) < LOG_OVERHEAD:
        return
    length, magic = int.from_bytes(head[8:LOG_OVERHEAD], signed=True), head[16:]
    if length < MIN_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({MIN_LENGTH})"
    elif magic and magic[0] > 2:
        message = f"Invalid magic found in record: {int.from_bytes(magic, signed=True)}"
    else:
        return
    raise KlogError("ends in foreign bytes", position=position, kafka_class=_CORRUPT, kafka_message=message)


_CORRUPT = "CorruptRecordException"
_NO_HEADER = "First batch is not a control batch with at least one record"


def _checked(entry: RecordBatch | Message) -> RecordBatch:
    if not isinstance(entry, RecordBatch):
        raise _refused("contains a message of an old format", entry, "IllegalStateException")
    if entry.magic != 2:
        raise _refused(f"a batch has the magic {entry.magic}", entry, "CorruptRecordException")
    if not entry.crc_valid:
        computed = crc32c(entry.data[CRC_COVERS_FROM:])
        message = f"Record is corrupt (stored crc = {entry.crc}, computed crc = {computed})"
        raise _refused("a batch does not match its checksum", entry, "CorruptRecordException", message)
    return entry


def _refused(
    reason: str, entry: RecordBatch | Message | None, kafka_class: str, message: str | None = None
) -> KlogError:
    position = 0 if entry is None else entry.position
    return KlogError(reason, position=position, kafka_class=kafka_class, kafka_message=message)


def _control_types(batch: RecordBatch) -> list[str]:
    """Return the control types by their names in ControlRecordType."""
    if not batch.is_control:
        return []
    return [ControlRecordType.of(parse_control_type_id(record.key)).name for record in batch.records()]


_UNCHECKED_IO = "UncheckedIOException"


def verify_quorum_state(path: str) -> Iterator[Finding]:
    """Yield a finding if this file is damaged."""
    try:
        parse_quorum_state(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield Finding(Kind.UNREADABLE, path, from_text(error.reason))
    except KlogError as error:
        cure = remove(path, CureRemark.NEW_ELECTION())
        kafka_class = error.kafka_class or _UNCHECKED_IO
        # FileQuorumStateStore.readStateFromFile names the file only; the cause is below it.
        message = f"Error while reading the Quorum status from the file {path}"
        stop = refuses(kafka_class, message if kafka_class == _UNCHECKED_IO else error.reason)
        reason = FindingCause.NO_START(wrong=error.reason)
        yield Finding(Kind.QUORUM_STATE_CORRUPT, path, reason, cured_by=cure, stop=stop)
