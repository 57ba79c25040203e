"""How many bytes and partitions are under some paths, as far as they can be listed: for progress bars and weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.errors import KlogError
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition


def log_files(paths: Sequence[str]) -> Iterator[str]:
    """Yield the `.log` files: most of what will be read."""
    for path in paths:
        if os.path.isfile(path):
            yield path
            continue
        for partition in _partitions(path):
            try:
                yield from (segment.path for segment in partition.segments)
            except KlogError:
                continue


def count_partitions(paths: Sequence[str]) -> int:
    """Return how many partition dirs there are; a path that is neither one nor a log dir counts as one."""
    return sum(1 if os.path.isfile(path) else len(_partitions(path)) for path in paths)


def find_log_bytes(partition: Partition) -> int:
    """Return the bytes of its segments; 0 if they cannot be listed."""
    try:
        return sum(os.path.getsize(segment.path) for segment in partition.segments)
    except (KlogError, OSError):
        return 0


def _partitions(path: str) -> Sequence[Partition]:
    try:
        opened = open_path(path)
        return opened.partitions if isinstance(opened, LogDir) else (Partition(path),)
    except KlogError:
        return ()
