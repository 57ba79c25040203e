"""What the file systems of the log dirs let a broker do: mounted read-only, or without room for a recovery."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.escape import quoted
from klogtool.log.logdir import LogDir
from klogtool.verify.stops import Stop, offline, refuses
from klogtool.verify.verify_checkpoints import has_clean_marker


def walk_file_system_points(log_dirs: Sequence[str], cluster: Cluster) -> Iterator[Ahead]:
    """Yield a point for each log dir in which a broker cannot write what it writes at a start."""
    for path in log_dirs:
        found = os.statvfs(path)
        has_metadata = path == cluster.metadata_dir
        if found.f_flag & os.ST_RDONLY:
            yield _read_only(path, has_metadata=has_metadata)
        elif not found.f_bavail and (has_metadata or not has_clean_marker(LogDir(path))):
            yield _full(path, has_metadata=has_metadata)


def walk_room_notes(log_dirs: Sequence[str]) -> Iterator[str]:
    """Yield what becomes of a log dir without room after a clean stop."""
    full = [path for path in log_dirs if not os.statvfs(path).f_bavail and has_clean_marker(LogDir(path))]
    if full:
        yield f"no space is left for {', '.join(full)}: a broker starts, and takes it offline at its first write"


def _read_only(path: str, *, has_metadata: bool) -> Ahead:
    cure = f"mount -o remount,rw ...  # as root, for the file system of {quoted(path)}; dmesg says why it is read-only"
    detail = f"its file system is mounted read-only: a broker {_outcome(has_metadata=has_metadata)}"
    file = f"{CLUSTER_METADATA_DIR}/{0:020d}.log" if has_metadata else ".lock"
    told = f"{os.path.join(path, file)}: Read-only file system"
    what = What.REFUSES if has_metadata else What.OFFLINE
    return Ahead(path, what, detail, stop=_stop("FileSystemException", told, has_metadata=has_metadata), cure=cure)


def _full(path: str, *, has_metadata: bool) -> Ahead:
    cure = f"klogtool free {quoted(path)}  # says what can be given up: a recovery writes small files"
    detail = f"no space is left, and a start has to write: a broker {_outcome(has_metadata=has_metadata)}"
    what = What.REFUSES if has_metadata else What.NO_ROOM
    stop = _stop("IOException", "No space left on device", has_metadata=has_metadata)
    return Ahead(path, what, detail, stop=stop, cure=cure, cure_looks=True)


def _outcome(*, has_metadata: bool) -> str:
    return "does not start" if has_metadata else "takes the log dir offline"


def _stop(kafka_class: str, message: str, *, has_metadata: bool) -> Stop:
    return refuses(kafka_class, message) if has_metadata else offline(kafka_class, message)
