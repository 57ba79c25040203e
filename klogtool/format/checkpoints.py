"""Checkpoint files: a version, a count, a line per entry.

Four of them, in the root of a log dir, have an offset per partition (recovery point, high watermark, log start, first
dirty offset). leader-epoch-checkpoint, in a partition dir, has the start offset of each epoch. The reader is that of
CheckpointFile, which accepts an empty file and a file of one line, but no blank line.

An IOException of Kafka becomes a KafkaStorageException, which takes the log dir offline. A field that is not a number
gives a NumberFormatException.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.buffers import Buffer
from klogtool.format.java_text import cited, split_fields, walk_lines
from klogtool.format.layouts import CHECKPOINT_HEAD, LEADER_EPOCH_CHECKPOINT_LINE, OFFSET_CHECKPOINT_LINE
from klogtool.format.names import TopicPartition
from klogtool.format.text_values import Member, members_of

_HEAD, _OFFSET_LINE = members_of(CHECKPOINT_HEAD), members_of(OFFSET_CHECKPOINT_LINE)
_EPOCH_LINE = members_of(LEADER_EPOCH_CHECKPOINT_LINE)
CURRENT_CHECKPOINT_VERSION = 0
_BLANKS = frozenset(" \t\n\x0b\f\r")  # between the fields of a line (\s of Java)

_IO_EXCEPTION = "KafkaStorageException"  # what CheckpointFileWithFailureHandler makes of an IOException
_refused_by_reader = partial(Corrupt, kafka_class=_IO_EXCEPTION)


class EpochEntry(Struct, frozen=True):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def parse_offset_checkpoint(data: Buffer) -> dict[TopicPartition, int]:
    """Return the offset of each partition (OffsetCheckpointFile.read); if a partition comes twice, the last one counts.

    Raises Corrupt: KafkaStorageException, NumberFormatException or IllegalArgumentException.
    """
    entries = _parse_checkpoint(data, _OFFSET_LINE)
    return {TopicPartition(topic, partition): offset for topic, partition, offset in entries}


def build_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Build the file for these offsets, in the order of the mapping (a broker's is that of a hash map).

    Raises Unsupported for a topic name that is not text or has blanks in it; a folder's name may have them.
    """
    for topic_partition in offsets:
        topic = topic_partition.topic
        if not _BLANKS.isdisjoint(topic):  # no reader could split such a line
            raise Unsupported(f"a topic with blanks in its name cannot stand in a checkpoint: {topic!r}")
    entries = ((partition.topic, partition.partition, offset) for partition, offset in offsets.items())
    return _build_checkpoint(_OFFSET_LINE, entries)


def parse_leader_epoch_checkpoint(data: Buffer) -> list[EpochEntry]:
    """Return the lines unchanged (LeaderEpochCheckpointFile.read); `assign_leader_epochs` says what a broker keeps.

    Raises Corrupt: KafkaStorageException, NumberFormatException or IllegalArgumentException.
    """
    return [EpochEntry(*entry) for entry in _parse_checkpoint(data, _EPOCH_LINE)]


def build_leader_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    """The file for these entries, in the order given (a broker's is by epoch)."""
    return _build_checkpoint(_EPOCH_LINE, ((entry.epoch, entry.start_offset) for entry in entries))


def assign_leader_epochs(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """What LeaderEpochFileCache holds after assigning these one by one: epochs and start offsets both ascending.

    A later entry throws out earlier ones whose epoch or start offset is not below its own; one of the latest epoch
    with no lower start offset is ignored. Raises Corrupt (IllegalArgumentException) for a negative number.
    """
    assigned: list[EpochEntry] = []
    for entry in entries:
        if entry.epoch < 0 or entry.start_offset < 0:
            wrong = "Received invalid partition leader epoch entry EpochEntry"
            raise Corrupt(
                f"{wrong}[epoch={entry.epoch}, startOffset={entry.start_offset}]",
                kafka_class="IllegalArgumentException",
                kafka_message=wrong,  # until 4.1 with another bracket
            )
        if assigned and assigned[-1].epoch == entry.epoch and entry.start_offset >= assigned[-1].start_offset:
            continue
        while assigned and (assigned[-1].epoch >= entry.epoch or assigned[-1].start_offset >= entry.start_offset):
            assigned.pop()
        assigned.append(entry)
    return assigned


def _parse_checkpoint(data: Buffer, line_members: tuple[Member, ...]) -> list[list[Any]]:
    """CheckpointFile.CheckpointReadBuffer.read: the values of each line."""
    version_member, count_member = _HEAD
    lines = walk_lines(data, kafka_class=_IO_EXCEPTION)
    version_line = next(lines, None)
    if version_line is None:
        return []
    version = _parse_head_line(version_member, version_line)
    if version != CURRENT_CHECKPOINT_VERSION:
        raise _refused_by_reader(
            f"Unrecognised version:{version}, expected version: {CURRENT_CHECKPOINT_VERSION} in checkpoint file"
        )
    count_line = next(lines, None)
    if count_line is None:
        return []
    count = _parse_head_line(count_member, count_line)
    if count < 0:
        raise Corrupt(f"Illegal Capacity: {count}", kafka_class="IllegalArgumentException")
    entries = []
    for line in lines:
        fields = split_fields(line)
        if len(fields) != len(line_members):
            raise _malformed_line(line)
        entries.append([member.read(field) for member, field in zip(line_members, fields, strict=True)])
    # A count that Java cannot allocate ends Kafka with an OutOfMemoryError before this; the file is no better for it.
    if len(entries) != count:
        message = f"Expected [{count}] entries in checkpoint file"  # then Kafka has the path
        raise _refused_by_reader(f"{message}, but found only [{len(entries)}]", kafka_message=message)
    return entries


def _parse_head_line(member: Member, line: str) -> int:
    try:
        number: int = member.read(line)
    except Corrupt:
        raise _malformed_line(line) from None
    return number


def _build_checkpoint(members: tuple[Member, ...], entries: Iterable[tuple[Any, ...]]) -> bytes:
    lines = [" ".join(m.write(value) for m, value in zip(members, entry, strict=True)) for entry in entries]
    try:
        return "".join(f"{line}\n" for line in (CURRENT_CHECKPOINT_VERSION, len(lines), *lines)).encode()
    except UnicodeEncodeError as error:
        named = error.object[: error.end].rpartition("\n")[2]
        raise Unsupported(f"a topic whose name is no text cannot stand in a checkpoint: {named!r}") from None


def _malformed_line(line: str) -> Corrupt:
    # Kafka has the path between these words and the line.
    message = "Malformed line in checkpoint file"
    return _refused_by_reader(f"{message}: {cited(line)}", kafka_message=message)
