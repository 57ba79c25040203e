"""A log dir, one entry of a broker's `log.dirs`: partition dirs, and files for all of them.

Nothing is cached: each property reads the disk again.
"""

from __future__ import annotations

import os
from typing import TypeAlias

from msgspec import Struct

from klogtool.format.identity import CleanShutdown, MetaProperties
from klogtool.format.names import OFFSET_CHECKPOINTS, REMOTE_TOPIC, FileKind, FileName, TopicPartition
from klogtool.log.folder import find_partition_dir_name, list_folder
from klogtool.log.partition import Partition
from klogtool.log.segment import KraftSnapshot
from klogtool.log.side_file import find_content

Offsets: TypeAlias = dict[TopicPartition, int]

KINDS_IN_LOG_DIR = frozenset(
    {
        *OFFSET_CHECKPOINTS,
        FileKind.META_PROPERTIES,
        FileKind.CLEAN_SHUTDOWN,
        FileKind.LOCK,
        FileKind.BOOTSTRAP_SNAPSHOT,
    }
)
REMOTE_INDEX_CACHE = "remote-log-index-cache"  # RemoteIndexCache.DIR_NAME, with tiered storage


class LogDir(Struct, frozen=True):
    """A log dir. The four checkpoints are dicts by topic and partition, or None if the file does not exist."""

    path: str

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partition dirs, sorted by name, including those with a suffix: deleted, future, stray (`state`)."""
        folders = list_folder(self.path).folders
        return tuple(Partition(self._beside(name)) for name in folders if find_partition_dir_name(name))

    @property
    def recovery_points(self) -> Offsets | None:
        """recovery-point-offset-checkpoint: up to which offset a partition is certainly on disk."""
        return self._offsets(FileKind.RECOVERY_POINT_CHECKPOINT)

    @property
    def high_watermarks(self) -> Offsets | None:
        """replication-offset-checkpoint: up to which offset a partition was on all in-sync replicas."""
        return self._offsets(FileKind.REPLICATION_CHECKPOINT)

    @property
    def log_start_offsets(self) -> Offsets | None:
        """log-start-offset-checkpoint: partitions that start after their first segment's base offset, and all tiered
        ones."""
        return self._offsets(FileKind.LOG_START_CHECKPOINT)

    @property
    def cleaner_offsets(self) -> Offsets | None:
        """cleaner-offset-checkpoint: up to which offset a partition is compacted."""
        return self._offsets(FileKind.CLEANER_CHECKPOINT)

    @property
    def meta_properties(self) -> MetaProperties | None:
        """The identity of the log dir; None if there is no meta.properties."""
        identity: MetaProperties | None = find_content(self._beside(FileKind.META_PROPERTIES.value))
        return identity

    @property
    def clean_shutdown(self) -> CleanShutdown | None:
        """The contents of `.kafka_cleanshutdown`, which a broker leaves at a clean stop; or None."""
        marker: CleanShutdown | None = find_content(self._beside(FileKind.CLEAN_SHUTDOWN.value))
        return marker

    @property
    def bootstrap_snapshot(self) -> KraftSnapshot | None:
        """bootstrap.checkpoint: the metadata with which a KRaft cluster began, or None."""
        path = self._beside(FileKind.BOOTSTRAP_SNAPSHOT.value)
        return KraftSnapshot(path) if os.path.lexists(path) else None

    @property
    def leftovers(self) -> tuple[FileName, ...]:
        """Names that end in .tmp and the like: files that were being replaced."""
        return tuple(file for file in list_folder(self.path).files if file.suffix and file.kind in KINDS_IN_LOG_DIR)

    @property
    def foreign_files(self) -> tuple[str, ...]:
        """Names of files that are not Kafka's, or that Kafka would not look for here."""
        return tuple(file.name for file in list_folder(self.path).files if file.kind not in KINDS_IN_LOG_DIR)

    @property
    def foreign_folders(self) -> tuple[str, ...]:
        """Names of folders that are not partition dirs: a broker does not start with those that it finds
        (is_visible_to_java)."""
        folders = list_folder(self.path).folders
        return tuple(name for name in folders if not find_partition_dir_name(name) and name != REMOTE_INDEX_CACHE)

    def _offsets(self, kind: FileKind) -> Offsets | None:
        offsets: Offsets | None = find_content(self._beside(kind.value))
        return offsets

    def _beside(self, name: str) -> str:
        return os.path.join(self.path, name)


def knows_topic_ids(log_dir: LogDir) -> bool:
    """Return whether brokers with topic ids have written here: most from 2.8 on."""
    if os.path.lexists(os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)):
        return True
    return any(
        os.path.lexists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value))
        for partition in log_dir.partitions
    )


def has_remote_storage(log_dir: str) -> bool:
    """Return whether a broker with tiered storage wrote here: it keeps indexes of remote segments, or their
    metadata."""
    folders = list_folder(log_dir).folders
    return REMOTE_INDEX_CACHE in folders or any(name.startswith(f"{REMOTE_TOPIC}-") for name in folders)
