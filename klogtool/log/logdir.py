"""A log dir, one entry of a broker's `log.dirs`: partition dirs, and what is kept for all of them.

Nothing is kept: each property looks at the disk anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from klogtool.format.identity import CleanShutdown, MetaProperties
from klogtool.format.names import FileKind, FileName, TopicPartition, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, list_folder, names_in
from klogtool.log.partition import Partition, has_partition_files
from klogtool.log.segment import KraftSnapshot
from klogtool.log.side_file import find_content

Offsets: TypeAlias = dict[TopicPartition, int]

KINDS_IN_LOG_DIR = frozenset(
    {
        FileKind.RECOVERY_POINT_CHECKPOINT,
        FileKind.REPLICATION_CHECKPOINT,
        FileKind.LOG_START_CHECKPOINT,
        FileKind.CLEANER_CHECKPOINT,
        FileKind.META_PROPERTIES,
        FileKind.CLEAN_SHUTDOWN,
        FileKind.LOCK,
        FileKind.BOOTSTRAP_SNAPSHOT,
    }
)
ROOT_KINDS = KINDS_IN_LOG_DIR - {FileKind.LOCK, FileKind.BOOTSTRAP_SNAPSHOT}  # other programs use these names, too
REMOTE_INDEX_CACHE = "remote-log-index-cache"  # RemoteIndexCache.DIR_NAME, with tiered storage


class LogDir(Struct, frozen=True):
    """A log dir. The four checkpoints are dicts by topic and partition, or None where there is no such file."""

    path: str

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Its partition dirs in order of name, those that are doomed, on their way or stray (`state`) included."""
        folders = list_folder(self.path).folders
        return tuple(Partition(self._beside(name)) for name in folders if find_partition_dir_name(name))

    @property
    def recovery_points(self) -> Offsets | None:
        """recovery-point-offset-checkpoint: up to where a partition is known to be on the disk."""
        return self._offsets(FileKind.RECOVERY_POINT_CHECKPOINT)

    @property
    def high_watermarks(self) -> Offsets | None:
        """replication-offset-checkpoint: up to where a partition was on all replicas in sync."""
        return self._offsets(FileKind.REPLICATION_CHECKPOINT)

    @property
    def log_start_offsets(self) -> Offsets | None:
        """log-start-offset-checkpoint: only partitions that begin behind their first segment's base offset."""
        return self._offsets(FileKind.LOG_START_CHECKPOINT)

    @property
    def cleaner_offsets(self) -> Offsets | None:
        """cleaner-offset-checkpoint: up to where a partition is compacted."""
        return self._offsets(FileKind.CLEANER_CHECKPOINT)

    @property
    def meta_properties(self) -> MetaProperties | None:
        """Whose log dir it is; None if there is no meta.properties."""
        identity: MetaProperties | None = find_content(self._beside(FileKind.META_PROPERTIES.value))
        return identity

    @property
    def clean_shutdown(self) -> CleanShutdown | None:
        """What a broker that stopped in an orderly way left (`.kafka_cleanshutdown`), or None."""
        marker: CleanShutdown | None = find_content(self._beside(FileKind.CLEAN_SHUTDOWN.value))
        return marker

    @property
    def bootstrap_snapshot(self) -> KraftSnapshot | None:
        """bootstrap.checkpoint: the metadata that a KRaft cluster began with, or None."""
        path = self._beside(FileKind.BOOTSTRAP_SNAPSHOT.value)
        return KraftSnapshot(path) if os.path.lexists(path) else None

    @property
    def leftovers(self) -> tuple[FileName, ...]:
        """Names that end in .tmp and the like: files that were being replaced."""
        return tuple(file for file in list_folder(self.path).files if file.suffix and file.kind in KINDS_IN_LOG_DIR)

    @property
    def foreign_files(self) -> tuple[str, ...]:
        """Names of files that are not Kafka's, or that it would not look for here."""
        return tuple(file.name for file in list_folder(self.path).files if file.kind not in KINDS_IN_LOG_DIR)

    @property
    def foreign_folders(self) -> tuple[str, ...]:
        """Names of folders that are no partition dirs: a broker does not start over them."""
        folders = list_folder(self.path).folders
        return tuple(name for name in folders if not find_partition_dir_name(name) and name != REMOTE_INDEX_CACHE)

    def _offsets(self, kind: FileKind) -> Offsets | None:
        offsets: Offsets | None = find_content(self._beside(kind.value))
        return offsets

    def _beside(self, name: str) -> str:
        return os.path.join(self.path, name)


def has_root_files(names: Iterable[str]) -> bool:
    """Whether one of these names is a file that only the root of a log dir has: meta.properties or a checkpoint."""
    return any(parse_file_name(name).kind in ROOT_KINDS for name in names)


def is_log_dir(path: str, names: Iterable[str]) -> bool:
    """Whether a folder with these names in it is a log dir: it has a root file, or a partition dir with Kafka's files.

    Raises Unreadable for a partition dir that cannot be listed, where nothing else tells.
    """
    names, refusal = list(names), None
    if has_root_files(names):
        return True
    for name in names:
        try:
            if _is_partition_dir(path, name):
                return True
        except Unreadable as error:
            refusal = error
    if refusal is not None:
        raise refusal
    return False


def _is_partition_dir(path: str, name: str) -> bool:
    folder = os.path.join(path, name)
    if find_partition_dir_name(name) is None or not os.path.isdir(folder):
        return False
    return has_partition_files(names_in(folder))


def knows_topic_ids(log_dir: LogDir) -> bool:
    """Whether brokers that gave topics ids have written here: 2.8 and later, most of them."""
    if os.path.lexists(os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)):
        return True
    return any(
        os.path.lexists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value))
        for partition in log_dir.partitions
    )
