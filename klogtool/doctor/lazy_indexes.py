"""Indexes that a start does not open, and that cannot be opened: the first read of them takes the log dir offline.

A broker opens the `.index` and the `.timeindex` of a closed segment when somebody first needs them (LazyIndex), for
writing, too: the one for a fetch, the other for a look-up by time and for retention. It opens a `.txnindex` when it
loads the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.doctor.patient import Cluster
from klogtool.doctor.permissions import may_write
from klogtool.escape import quoted
from klogtool.format.names import FileKind, PartitionDirState, parse_file_name
from klogtool.log.folder import is_socket
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out_of_partition, rebuild_index
from klogtool.verify.stops import offline

LAZY = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
_WHEN = {
    FileKind.OFFSET_INDEX: AheadCause.FETCH_FAILS,
    FileKind.TIME_INDEX: AheadCause.TIME_FAILS,
}
_MAY_FAIL = (What.FAILS_AT_READ, What.LINK_BROKEN)
_GIVING_UP = (*_MAY_FAIL, What.OFFLINE, What.NO_ROOM)


def walk_unopened(path: str, log: LoadedLog) -> Iterator[Ahead]:
    """Yield a point for each such index of a loaded log. Nobody reads a folder that ends in -delete, -stray, -future.
    A segment that this start opens, to recover it, has failed before."""
    if Partition(path).state is not PartitionDirState.CURRENT:
        return
    draft = log.draft
    for segment in log.segments.all:
        for kind, is_there in segment.unopened_indexes().items():
            name = segment.name_of(kind)
            file = os.path.join(path, name)
            if draft.is_folder(name) or is_socket(file):  # a FIFO, or a device, is an empty index
                yield fails_at_read(file, os.strerror(errno.EISDIR if draft.is_folder(name) else errno.ENXIO))
            elif is_there and name in draft.before and not may_write(file):
                yield fails_at_read(file, "Permission denied")


def fails_at_read(file: str, reason: str) -> Ahead:
    """Return the point about an index of a closed segment that cannot be opened."""
    folder, name = os.path.split(file)
    found = parse_file_name(name)
    detail = _WHEN[found.kind](why=reason, segment=found.base_offset or 0)
    rebuilt = rebuild_index(folder, found.kind.value.removeprefix("."), found.base_offset)
    moved = f"{move_out_of_partition(file)} && {rebuilt}"
    cure = AdviceCause.OWNER(path=quoted(file)) if os.path.isfile(file) else moved
    stop = offline("FileNotFoundException", f"{file} ({reason})")
    return Ahead(file, What.FAILS_AT_READ, detail, stop=stop, cure=cure)


def with_ends(points: Sequence[Ahead], log_dirs: Sequence[str], cluster: Cluster) -> list[Ahead]:
    """Return the points; those that cost a broker its metadata log dir, or its last log dir, say that it ends."""
    failing = {find_log_dir_among(point.path, log_dirs) for point in points if point.what in _GIVING_UP}
    is_last = failing >= set(log_dirs)

    def ends(point: Ahead) -> bool:
        is_metadata = find_log_dir_among(point.path, log_dirs) == cluster.metadata_dir
        return (point.what in _MAY_FAIL or point.is_unsure) and (is_metadata or is_last)

    return [
        replace(point, detail=AheadCause.AND_ENDS(what=point.detail), may_end=True) if ends(point) else point
        for point in points
    ]
