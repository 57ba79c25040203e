"""The partitions of two log dirs, matched by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from klogtool.errors import KlogError, Unsupported
from klogtool.format.names import PartitionDirState, TopicPartition
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition


class Pair(Struct, frozen=True):
    """Two partition dirs to compare; None: only the other log dir has it."""

    topic_partition: TopicPartition | None
    a: str | None
    b: str | None


def find_pairs(path_a: str, path_b: str) -> Iterator[Pair]:
    """Yield the pairs of two partition dirs, or of two log dirs: those of A in its order, then those that only B has.

    Folders of topics that are deleted (-delete) and of moves to another disk (-future) are left out. Raises KlogError
    if one path is a partition dir and the other a log dir, or if one is neither.
    """
    one, other = _opened(path_a), _opened(path_b)
    if isinstance(one, Partition) and isinstance(other, Partition):
        yield Pair(one.topic_partition, path_a, path_b)
        return
    if not (isinstance(one, LogDir) and isinstance(other, LogDir)):
        raise KlogError("one is a partition dir, and the other one a log dir: both need to be the same", path=path_b)
    of_a, of_b = _partitions(one), _partitions(other)
    for key in (*of_a, *(key for key in of_b if key not in of_a)):
        yield Pair(key, of_a.get(key), of_b.get(key))


def _opened(path: str) -> LogDir | Partition:
    opened = open_path(path)
    if isinstance(opened, LogDir | Partition):
        return opened
    raise Unsupported("a file: a partition dir or a log dir is needed", path=path)


def _partitions(log_dir: LogDir) -> dict[TopicPartition, str]:
    kept = (PartitionDirState.CURRENT, PartitionDirState.STRAY)
    results = [one for one in log_dir.partitions if one.state in kept and one.topic_partition is not None]
    return {one.topic_partition: one.path for one in results if one.topic_partition is not None}
