"""A partition dir: its segments and the files beside them, by their names.

Nothing is cached: each property reads the disk again, so in the dir of a running broker two of them may not match.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from klogtool.format.batch import Record
from klogtool.format.checkpoints import EpochEntry
from klogtool.format.identity import PartitionMetadata, QuorumState
from klogtool.format.names import (
    KINDS_OF_LOG,
    OFFSET_DIGITS,
    FileKind,
    FileName,
    PartitionDirState,
    TopicPartition,
    parse_file_name,
)
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.format.uuids import build_uuid
from klogtool.log.entries import Message, RecordBatch
from klogtool.log.folder import Folder, find_partition_dir_name, list_folder, own_name
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import EntriesFile, find_content

KINDS_IN_PARTITION_DIR = frozenset(
    (*KINDS_OF_LOG, FileKind.KRAFT_SNAPSHOT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
)


class Partition(Struct, frozen=True):
    """A partition dir, including those that a broker renamed (-delete, -future, -stray)."""

    path: str

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path

    def batches(self) -> Iterator[RecordBatch | Message]:
        """Yield the batches of all segments, in their order; see `Segment.batches`."""
        for segment in self.segments:
            yield from segment.batches()

    def records(self) -> Iterator[Record]:
        """Yield the records of all segments, in their order; see `Segment.records`."""
        for segment in self.segments:
            yield from segment.records()

    @property
    def name(self) -> str:
        """The folder's own name."""
        return own_name(self.path)

    @property
    def topic_partition(self) -> TopicPartition | None:
        """Topic and partition from the folder's name, as keys of checkpoints; None if the name has none.

        The topic of a -delete or -stray dir may be cut short.
        """
        named = find_partition_dir_name(self.name)
        return None if named is None else TopicPartition(named.topic, named.partition).in_checkpoints

    @property
    def topic(self) -> str | None:
        """The topic, as in `topic_partition`."""
        named = self.topic_partition
        return None if named is None else named.topic

    @property
    def partition(self) -> int | None:
        """The partition's number, as in `topic_partition`."""
        named = self.topic_partition
        return None if named is None else named.partition

    @property
    def state(self) -> PartitionDirState:
        """CURRENT, or DELETE, FUTURE or STRAY by the end of the folder's name."""
        named = find_partition_dir_name(self.name)
        return PartitionDirState.CURRENT if named is None else named.state

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The `.log` files by base offset. Those being deleted or incomplete are in `leftovers`."""
        return tuple(Segment(self._path_of(file)) for file in self._files(FileKind.LOG))

    @property
    def producer_snapshots(self) -> tuple[EntriesFile[list[ProducerStateEntry]], ...]:
        """The `.snapshot` files by offset."""
        return tuple(EntriesFile(self._path_of(file)) for file in self._files(FileKind.PRODUCER_SNAPSHOT))

    @property
    def kraft_snapshots(self) -> tuple[KraftSnapshot, ...]:
        """The `.checkpoint` files by epoch, then by end offset (OffsetAndEpoch): only in `__cluster_metadata-0`."""
        snapshots = [KraftSnapshot(self._path_of(file)) for file in self._files(FileKind.KRAFT_SNAPSHOT)]
        return tuple(sorted(snapshots, key=lambda one: (one.epoch or 0, one.end_offset or 0)))

    @property
    def leader_epochs(self) -> list[EpochEntry] | None:
        """The entries of leader-epoch-checkpoint, unchanged; None if the file does not exist."""
        entries: list[EpochEntry] | None = find_content(self._beside(FileKind.LEADER_EPOCH_CHECKPOINT))
        return entries

    @property
    def topic_id(self) -> str | None:
        """The topic's id from partition.metadata, as Kafka's tools print it; None if the file does not exist."""
        metadata: PartitionMetadata | None = find_content(self._beside(FileKind.PARTITION_METADATA))
        return None if metadata is None else build_uuid(metadata.topic_id)

    @property
    def quorum_state(self) -> QuorumState | None:
        """The contents of quorum-state (`__cluster_metadata-0`); None if the file does not exist."""
        state: QuorumState | None = find_content(self._beside(FileKind.QUORUM_STATE))
        return state

    @property
    def leftovers(self) -> tuple[FileName, ...]:
        """Names that end in .deleted, .cleaned, .swap, .tmp or .part: left by an unfinished operation."""
        return tuple(file for file in self._folder().files if file.suffix and belongs_in_partition_dir(file))

    @property
    def foreign_files(self) -> tuple[str, ...]:
        """Names of files that are not Kafka's, or that Kafka would not look for here."""
        return tuple(file.name for file in self._folder().files if not belongs_in_partition_dir(file))

    @property
    def foreign_folders(self) -> tuple[str, ...]:
        """Names of folders in it; Kafka creates none."""
        return self._folder().folders

    def _folder(self) -> Folder:
        return list_folder(self.path)

    def _files(self, kind: FileKind) -> list[FileName]:
        """Return the file names of one kind that are in use, by offset."""
        files = (file for file in self._folder().files if file.kind is kind and not file.suffix)
        return sorted(filter(belongs_in_partition_dir, files), key=lambda file: (file.base_offset, file.name))

    def _path_of(self, file: FileName) -> str:
        return os.path.join(self.path, file.name)

    def _beside(self, kind: FileKind) -> str:
        return os.path.join(self.path, kind.value)


def belongs_in_partition_dir(file: FileName) -> bool:
    """Return whether it is a file of a partition: by its kind, and its name has the required offset."""
    needs_offset = file.kind.has_base_offset or file.kind is FileKind.KRAFT_SNAPSHOT
    return file.kind in KINDS_IN_PARTITION_DIR and (file.base_offset is not None or not needs_offset)


def has_partition_files(names: Iterable[str]) -> bool:
    """Return whether one of these names is one that a broker gives to a file of a partition.

    Offsets must have at least 20 digits: a `1.log` may belong to anything.
    """
    files = ((parse_file_name(name), len(name.partition(".")[0])) for name in names)
    in_full = (file for file, digits in files if not file.kind.has_base_offset or digits >= OFFSET_DIGITS)
    return any(map(belongs_in_partition_dir, in_full))
