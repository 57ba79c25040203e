"""What log dirs of brokers have of tiered partitions: where the log starts, what is local, the leader epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from klogtool.errors import FileCause, KlogError
from klogtool.log.log_end import find_log_end
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition


class LocalLog(Struct, frozen=True):
    """The local part of a partition. start: of the log (log-start-offset-checkpoint), which may be remote.
    local_start, end: of the segments on this disk. epochs: of leader-epoch-checkpoint, ascending."""

    path: str
    topic: str
    partition: int
    topic_id: str | None
    start: int
    local_start: int
    end: int
    epochs: tuple[tuple[int, int], ...]

    @property
    def knows_epoch_of_start(self) -> bool:
        """Return whether its leader epochs reach back to where the log starts: else its checkpoint has lost entries."""
        return bool(self.epochs) and self.epochs[0][1] <= self.start


class LocalLogs(Struct, frozen=True):
    """The best copy of each partition, by topic id and partition, and by name where a copy has no id."""

    by_id: dict[tuple[str, int], LocalLog]
    by_name: dict[tuple[str, int], LocalLog]

    def find(self, topic_id: str, topic: str, partition: int) -> LocalLog | None:
        """Return the copy of a partition. One with another id is no copy."""
        return self.by_id.get((topic_id, partition)) or self.by_name.get((topic, partition))


def read_local(log_dirs: Sequence[str]) -> LocalLogs:
    """Read the partitions in these log dirs. Of several copies, the one with the newest leader epoch counts, then the
    longest: consumers read from the leader. Raises KlogError if one cannot be read."""
    logs = LocalLogs({}, {})
    for path in log_dirs:
        if not isinstance(open_path(path), LogDir):
            raise KlogError(FileCause.NO_LOG_DIR(), path=path)
        for one in _walk_logs(LogDir(path)):
            place = logs.by_name if one.topic_id is None else logs.by_id
            key = (one.topic if one.topic_id is None else one.topic_id, one.partition)
            if key not in place or _rank(one) > _rank(place[key]):
                place[key] = one
    return logs


def _rank(log: LocalLog) -> tuple[int, int]:
    return log.epochs[-1][0] if log.epochs else -1, log.end


def _walk_logs(log_dir: LogDir) -> Iterator[LocalLog]:
    starts = log_dir.log_start_offsets or {}
    for partition in log_dir.partitions:
        named = partition.topic_partition
        if named is not None and not partition.state.value and (log := read_log(partition, starts.get(named))):
            yield log


def read_log(partition: Partition, start: int | None) -> LocalLog | None:
    """Return what a partition dir has; None if it has no segments, or is none of a topic. start: its line in
    log-start-offset-checkpoint. Raises KlogError if it cannot be read."""
    named, end = partition.topic_partition, find_log_end(partition)
    if named is None or end is None:
        return None
    first = partition.segments[0].base_offset
    epochs = tuple((entry.epoch, entry.start_offset) for entry in partition.leader_epochs or ())
    log_start = first if start is None else start
    name = partition.path, named.topic, named.partition, partition.topic_id
    return LocalLog(*name, log_start, max(first, log_start), end, epochs)
