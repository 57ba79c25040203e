"""What the log dirs of a diagnosis need of the machine, in numbers: files, and bytes that a start will write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from klogtool.doctor.answers import Prospect
from klogtool.doctor.host import HostDir, measure_room
from klogtool.doctor.page_cache import cached_bytes
from klogtool.format.names import FileKind

_INDEX_BYTES_PER_MIB = 8 << 10  # generous: an entry of both indexes for each 4 KiB, and what file systems round up
_BYTES_PER_PARTITION = 64 << 10  # checkpoints, snapshots
_FILES_PER_PARTITION = 4
MOST_CACHE_BYTES = 64 << 30  # limit of what is looked at for the page cache


def host_dirs(log_dirs: Sequence[str], prospects: Sequence[Prospect]) -> list[HostDir]:
    """Return the numbers of each log dir. What cannot be listed counts as nothing: the diagnosis reports it."""
    return [_host_dir(path, [p for p in prospects if os.path.dirname(p.path) == path]) for path in log_dirs]


def _host_dir(path: str, prospects: Sequence[Prospect]) -> HostDir:
    files = [entry for prospect in prospects for entry in _files(prospect.path)]
    logs = [(name, size) for name, size in files if name.endswith(FileKind.LOG.value)]
    recovered = [prospect for prospect in prospects if prospect.bytes_to_scan]
    scanned = sum(prospect.bytes_to_scan for prospect in recovered)
    free_bytes, free_files = _room(path)
    cached, looked_at = _cached(logs)
    return HostDir(
        os.path.realpath(path),
        len(logs),
        len(prospects),
        sum(1 for name, size in files if size and name.endswith(FileKind.TXN_INDEX.value)),
        scanned * _INDEX_BYTES_PER_MIB // (1 << 20) + len(recovered) * _BYTES_PER_PARTITION,
        len(recovered) * _FILES_PER_PARTITION,
        free_bytes,
        free_files,
        cached,
        looked_at,
    )


def _room(path: str) -> tuple[int | None, int | None]:
    try:
        return measure_room(path)
    except OSError:
        return None, None


def _files(path: str) -> Iterator[tuple[str, int]]:
    """Yield paths and sizes of the files in a folder."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False).st_size
    except OSError:
        return


def _cached(logs: Iterable[tuple[str, int]]) -> tuple[int | None, int | None]:
    """Return how many bytes of how many looked at are in memory; (None, None) where the system does not tell."""
    cached = looked_at = 0
    for path, size in logs:
        if not size or looked_at + size > MOST_CACHE_BYTES:
            continue
        found = cached_bytes(path)
        if found is None:
            return None, None
        cached, looked_at = cached + found, looked_at + size
    return cached, looked_at
