"""Checkpoint files: a version, a count, a line per entry.

Four of them, in the root of a log dir, hold an offset per partition (recovery point, high watermark, log start, first
dirty offset); leader-epoch-checkpoint, in a partition dir, holds the start offset of each epoch. The reader is that of
CheckpointFile, which forgives an empty file and a file of one line, but no blank line.

What Kafka throws as IOException becomes a KafkaStorageException, which takes the log dir offline; a number that is
none surfaces as it is (NumberFormatException).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.java_numbers import parse_java_int, parse_java_long
from klogtool.format.java_text import split_fields, walk_lines
from klogtool.format.names import TopicPartition
from klogtool.lazy_dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from klogtool.format.buffers import Buffer

    _Entry = TypeVar("_Entry")

CURRENT_CHECKPOINT_VERSION = 0

_IO_EXCEPTION = "KafkaStorageException"  # what CheckpointFileWithFailureHandler makes of an IOException


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def parse_offset_checkpoint(data: Buffer) -> dict[TopicPartition, int]:
    """The offset of each partition (OffsetCheckpointFile.read); of a partition that comes twice the last counts.

    Raises Corrupt: KafkaStorageException, NumberFormatException or IllegalArgumentException.
    """
    return dict(_parse_checkpoint(data, _parse_offset_line))


def build_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The file for these offsets, in the order of the mapping (a broker's is that of a hash map).

    Raises Unsupported for a topic's name that is no text, as that of any folder may be.
    """
    return _build_checkpoint(
        f"{topic_partition.topic} {topic_partition.partition} {offset}" for topic_partition, offset in offsets.items()
    )


def parse_leader_epoch_checkpoint(data: Buffer) -> list[EpochEntry]:
    """The lines as they stand (LeaderEpochCheckpointFile.read); `assign_leader_epochs` says what a broker keeps.

    Raises Corrupt: KafkaStorageException, NumberFormatException or IllegalArgumentException.
    """
    return _parse_checkpoint(data, _parse_epoch_line)


def build_leader_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    """The file for these entries, in the order given (a broker's is by epoch)."""
    return _build_checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def assign_leader_epochs(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """What LeaderEpochFileCache holds after assigning these one by one: epochs and start offsets both ascending.

    A later entry throws out earlier ones whose epoch or start offset is not below its own; one of the latest epoch
    with no lower start offset is ignored. Raises Corrupt (IllegalArgumentException) for a negative number.
    """
    assigned: list[EpochEntry] = []
    for entry in entries:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise Corrupt(
                f"Received invalid partition leader epoch entry EpochEntry[epoch={entry.epoch}, "
                f"startOffset={entry.start_offset}]",
                kafka_class="IllegalArgumentException",
            )
        if assigned and assigned[-1].epoch == entry.epoch and entry.start_offset >= assigned[-1].start_offset:
            continue
        while assigned and (assigned[-1].epoch >= entry.epoch or assigned[-1].start_offset >= entry.start_offset):
            assigned.pop()
        assigned.append(entry)
    return assigned


def _parse_checkpoint(data: Buffer, parse_line: Callable[[str], _Entry | None]) -> list[_Entry]:
    """CheckpointFile.CheckpointReadBuffer.read; parse_line gives None for a line with a wrong number of fields."""
    lines = walk_lines(data, kafka_class=_IO_EXCEPTION)
    version_line = next(lines, None)
    if version_line is None:
        return []
    version = _parse_int_line(version_line)
    if version != CURRENT_CHECKPOINT_VERSION:
        raise _refused_by_reader(
            f"Unrecognised version:{version}, expected version: {CURRENT_CHECKPOINT_VERSION} in checkpoint file"
        )
    count_line = next(lines, None)
    if count_line is None:
        return []
    count = _parse_int_line(count_line)
    if count < 0:
        raise Corrupt(f"Illegal Capacity: {count}", kafka_class="IllegalArgumentException")
    entries = []
    for line in lines:
        entry = parse_line(line)
        if entry is None:
            raise _malformed_line(line)
        entries.append(entry)
    # A count that Java cannot allocate ends Kafka with an OutOfMemoryError before this; the file is no better for it.
    if len(entries) != count:
        raise _refused_by_reader(f"Expected [{count}] entries in checkpoint file, but found only [{len(entries)}]")
    return entries


def _parse_offset_line(line: str) -> tuple[TopicPartition, int] | None:
    fields = split_fields(line)
    if len(fields) != 3:
        return None
    topic, partition, offset = fields
    return TopicPartition(topic, parse_java_int(partition)), parse_java_long(offset)


def _parse_epoch_line(line: str) -> EpochEntry | None:
    fields = split_fields(line)
    if len(fields) != 2:
        return None
    epoch, start_offset = fields
    return EpochEntry(parse_java_int(epoch), parse_java_long(start_offset))


def _parse_int_line(line: str) -> int:
    try:
        return parse_java_int(line)
    except Corrupt:
        raise _malformed_line(line) from None


def _build_checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    try:
        return "".join(f"{line}\n" for line in (CURRENT_CHECKPOINT_VERSION, len(lines), *lines)).encode()
    except UnicodeEncodeError as error:
        told = error.object[: error.end].rpartition("\n")[2]
        raise Unsupported(f"a topic whose name is no text cannot stand in a checkpoint: {told!r}") from None


def _malformed_line(line: str) -> Corrupt:
    return _refused_by_reader(f"Malformed line in checkpoint file: {line}")


def _refused_by_reader(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class=_IO_EXCEPTION)
