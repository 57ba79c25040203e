"""What the doctor looks at: the log dirs of one broker, its cluster, and the circumstances."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances, data_log_dirs
from klogtool.broker.releases import Rules, rules_of
from klogtool.doctor.cluster import Cluster
from klogtool.format.names import OFFSET_CHECKPOINTS
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition


class Patient(Struct, frozen=True):
    """log_dirs: absolute paths."""

    log_dirs: tuple[str, ...]
    cluster: Cluster
    circumstances: Circumstances

    @property
    def rules(self) -> Rules:
        """Return what the release does."""
        return rules_of(self.circumstances.kafka)

    @property
    def metadata_log_dir_apart(self) -> str | None:
        """The log dir of the cluster's metadata that is none of log.dirs, or None. LogManager does not know it, and
        never writes a checkpoint there. So a broker ends if all log dirs but this one are offline."""
        path = self.cluster.metadata_dir
        if path is None:
            return None
        if known := data_log_dirs(self.circumstances.server_settings):
            return None if os.path.realpath(path) in map(os.path.realpath, known) else path
        is_known = any(os.path.lexists(os.path.join(path, kind.value)) for kind in OFFSET_CHECKPOINTS)
        return None if is_known or len(LogDir(path).partitions) > 1 else path

    def partitions(self) -> Iterator[Partition]:
        """Yield the partition dirs of all log dirs, by name."""
        for path in self.log_dirs:
            yield from LogDir(path).partitions

    def holds(self, path: str) -> bool:
        """Return whether a path is in one of the log dirs, or is one."""
        return find_log_dir_among(path, self.log_dirs) is not None

    def log_dir_of(self, path: str) -> str:
        """Return the log dir that a path is in, or is. The path is in one."""
        return find_log_dir_among(path, self.log_dirs) or path

    def checkpoints_of(self, path: str) -> Checkpoints:
        """Return the checkpoints of the log dir that a path is in, as a start uses them."""
        return Checkpoints(self.log_dir_of(path), self.cluster.settings(), resets_unreadable=True)

    def partition_of(self, path: str) -> Partition:
        """Return the partition dir that a path is in, or is. The path is below a log dir."""
        log_dir = self.log_dir_of(path)
        name = os.path.relpath(path, log_dir).split(os.sep)[0]
        return Partition(os.path.join(log_dir, name))
