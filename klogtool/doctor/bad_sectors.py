"""What a start does at a file that the disk cannot read, and what a person does about it. Each kind of file was put
to a broker 4.3.1 whose reads of it ended with an I/O error.

Kafka wraps the error of a log and of a transaction index in a KafkaException (FileLogInputStream, TransactionIndex),
which ends the process; an index is mapped, so the JVM throws an InternalError. Other files take their log dir offline.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.causes import Reason, Text
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AheadCause
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.patient import Cluster
from klogtool.format.names import MAPPED_INDEXES, FileKind, parse_file_name
from klogtool.log.file import Unreadable, find_disk_error
from klogtool.log.folder import names_in
from klogtool.verify.causes import CureRemark
from klogtool.verify.cures import FROM_A_CONTROLLER, move_out, remove, salvage
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.stops import Stop

_ENDS = {
    FileKind.LOG: "io-error-in-log",
    FileKind.TXN_INDEX: "io-error-in-transaction-index",
    FileKind.KRAFT_SNAPSHOT: "io-error-in-kraft-snapshot",
    **dict.fromkeys(MAPPED_INDEXES, "io-error-in-index"),
}


def is_unread(point: Ahead) -> bool:
    """Return whether a point is about a file that the disk cannot read."""
    return isinstance(point.detail, Reason) and point.detail.cause in (AheadCause.UNREAD, AheadCause.UNREAD_LATER)


def unread(error: Unreadable, path: str) -> Ahead:
    """Return the point about a file of a partition dir that the disk cannot read."""
    at = error.path or path
    if not error.at_start:
        return _point(at, What.DAMAGED, AheadCause.UNREAD_LATER(why=error.reason))
    return _at_start(at, error)


def walk_unread(log_dirs: Sequence[str], cluster: Cluster, checkpoints: Sequence[FileKind]) -> Iterator[Ahead]:
    """Yield a point for each file of the log dirs' roots, and of the cluster's metadata, that the disk cannot read.
    checkpoints: those that the broker reads."""
    for log_dir in log_dirs:
        for kind in (FileKind.META_PROPERTIES, *checkpoints):
            path = os.path.join(log_dir, kind.value)
            if (error := find_disk_error(path)) is not None:
                yield replace(_at_start(path, error), cure=move_out(path, log_dir))
    if cluster.metadata_dir is None:
        return
    for path in _of_metadata(os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)):
        if (error := find_disk_error(path)) is not None:
            yield replace(_at_start(path, error), what=What.REFUSES, cure=_cure_of_metadata(path))


def _of_metadata(folder: str) -> Iterator[str]:
    """Yield the files that a start reads: all segments are recovered, the newest snapshots are loaded."""
    names = sorted(names_in(folder)) if os.path.isdir(folder) else []
    by_kind: dict[FileKind, list[str]] = {}
    for name in names:
        file = parse_file_name(name)
        if not file.suffix:
            by_kind.setdefault(file.kind, []).append(os.path.join(folder, name))
    for kind in (FileKind.LOG, *MAPPED_INDEXES):
        yield from by_kind.get(kind, [])
    for kind in (FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_SNAPSHOT):
        yield from by_kind.get(kind, [])[-1:]


def _cure_of_metadata(path: str) -> Text:
    kind = parse_file_name(os.path.basename(path)).kind
    if kind in (*MAPPED_INDEXES, FileKind.PRODUCER_SNAPSHOT):
        return remove(path, CureRemark.REBUILT())
    return salvage(os.path.dirname(path)) if kind is FileKind.LOG else FROM_A_CONTROLLER


def _at_start(path: str, error: Unreadable) -> Ahead:
    kind, why = parse_file_name(os.path.basename(path)).kind, os.strerror(error.errno or errno.EIO)
    stop = stop_at(_ENDS.get(kind, "io-error"), is_fatal=kind in _ENDS, path=path, why=why)
    return _point(path, What.REFUSES if kind in _ENDS else What.OFFLINE, AheadCause.UNREAD(why=error.reason), stop)


def _point(path: str, what: What, detail: Reason, stop: Stop | None = None) -> Ahead:
    return Ahead(path, what, detail, stop=stop, finding=Finding(Kind.UNREADABLE, path, detail, stop=stop))
