"""A log dir that fails before or while its logs are loaded: the broker ends if one of the logs then needs the log dir.

A broker notes a failed log dir at once (LogDirFailureChannel), goes on loading its logs, and gives it up only when all
are loaded. LogManager ignores the errors of such a log dir that have an IOException as their cause. The message of
UnifiedLog and LocalLog that the log dir "is already offline" (maybeHandleIOException) has none, so it ends the process.
Loading asks in two places: where it looks up the first unstable offset (UnifiedLog's constructor), and where it renames
a partition to -stray.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.doctor.partitions import Rehearsed
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.verify.stops import offline, refuses

# Read or opened before the first log. The other two checkpoints are read when all logs are loaded.
_BEFORE_LOGS = frozenset(
    kind.value for kind in (FileKind.LOCK, FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
)
# Of one partition: its log dir has failed from then on.
_OF_PARTITION = frozenset(kind.value for kind in (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA))


class _Need(Struct, frozen=True):
    """A partition dir that needs its log dir while it is loaded, and why."""

    path: str
    why: str


def walk_lock_points(log_dirs: Sequence[str], cluster: Cluster) -> Iterator[Ahead]:
    """Yield a point for each log dir whose .lock a broker cannot open, or has locked already for another log dir
    (LogManager.lockLogDirs)."""
    locked: dict[tuple[int, int], str] = {}
    for path in log_dirs:
        lock = os.path.join(path, FileKind.LOCK.value)
        reason = _why_not_opened(os.path.realpath(lock))
        if reason is not None:
            yield _not_locked(lock, reason, has_metadata=path == cluster.metadata_dir)
        elif os.path.isfile(lock):
            about = os.stat(lock)
            first = locked.setdefault((about.st_dev, about.st_ino), lock)
            if first != lock:
                yield _locked_already(lock, first)


def _why_not_opened(lock: str) -> str | None:
    """Return why a file cannot be opened for writing; None if it can, and for a folder, which is a foreign folder."""
    if os.path.isdir(lock):
        return None
    if os.access(lock, os.R_OK | os.W_OK):
        return None
    if os.path.lexists(lock):
        return "Permission denied"
    folder = os.path.dirname(lock)
    if not os.path.isdir(folder):
        return "No such file or directory"
    return None if os.access(folder, os.W_OK | os.X_OK) else "Permission denied"


def _not_locked(lock: str, reason: str, *, has_metadata: bool) -> Ahead:
    outcome = "does not start" if has_metadata else "takes the log dir offline"
    detail = f"it cannot be opened for writing ({reason}): a broker {outcome}"
    owner = f"ls -ld {quoted(os.path.dirname(lock))} {quoted(lock)}  # the broker's user needs to write both (chown)"
    cure = f"rm {quoted(lock)}  # a broker creates it" if os.path.islink(lock) else owner
    stop = (refuses if has_metadata else offline)("FileNotFoundException", f"{lock} ({reason})")
    what = What.REFUSES if has_metadata else What.OFFLINE
    return Ahead(lock, what, detail, stop=stop, cure=cure, cure_looks=cure == owner)


def _locked_already(lock: str, first: str) -> Ahead:
    """Return the point of a link to the .lock of another log dir: a JVM locks a file once (FileLock.tryLock)."""
    told = (
        f"Failed to acquire lock on file .lock in {os.path.dirname(lock)}. A Kafka instance in another process or "
        "thread is using this directory."
    )
    detail = f"it is the same file as {first}: a broker cannot lock it twice, and does not start"
    cure = f"rm {quoted(lock)}  # a broker creates it"
    return Ahead(lock, What.REFUSES, detail, stop=refuses("KafkaException", told), cure=cure)


def with_refusals(points: Sequence[Ahead], rehearsed: Sequence[Rehearsed], strays: Collection[str]) -> list[Ahead]:
    """Return the points; those that would cost a log dir are refusals if a partition there needs the log dir, or may
    be.

    strays: partition dirs that the broker renames.
    """
    needs = list(_walk_needs(rehearsed, strays))
    return [_with_need(point, needs) if point.what is What.OFFLINE else point for point in points]


def with_metadata_log_dir(points: Sequence[Ahead], cluster: Cluster) -> list[Ahead]:
    """Return the points; what takes the log dir offline that holds the cluster's metadata ends the broker."""
    return [_ending(point) if _is_fatal(point, cluster) else point for point in points]


def _is_fatal(point: Ahead, cluster: Cluster) -> bool:
    log_dir = cluster.metadata_dir
    is_sure = point.what is What.OFFLINE and not point.is_unsure
    return is_sure and log_dir is not None and point.path.startswith(log_dir + os.sep)


def _ending(point: Ahead) -> Ahead:
    detail = f"{point.detail}: the metadata log is there, so the broker ends"
    stop = None if point.stop is None else point.stop.ending_the_broker()
    return replace(point, what=What.REFUSES, detail=detail, stop=stop)


def _walk_needs(rehearsed: Sequence[Rehearsed], strays: Collection[str]) -> Iterator[_Need]:
    for each in rehearsed:
        path = each.prospect.path
        if each.looks_up_unstable:
            yield _Need(path, "it has a transaction that is open, or ended after the last usable producer snapshot")
        elif path in strays:
            yield _Need(path, "it is renamed to -stray")


def _with_need(point: Ahead, needs: Sequence[_Need]) -> Ahead:
    """A file of the log dir fails before all logs. A file of a partition may fail before or after the log that needs
    the log dir: the broker loads them as the file system lists them, several at a time."""
    folder, name = os.path.split(point.path)
    if name in _BEFORE_LOGS:
        need = next((need for need in needs if os.path.dirname(need.path) == folder), None)
        return point if need is None else _refused(point, need)
    if name in _OF_PARTITION:
        beside = (need for need in needs if os.path.dirname(need.path) == os.path.dirname(folder))
        need = next((need for need in beside if need.path != folder), None)
        return point if need is None else _may_end(point, need)
    return point


def _refused(point: Ahead, need: _Need) -> Ahead:
    told = f"The log dir {os.path.dirname(need.path)} is already offline due to a previous IO exception."
    detail = f"{point.detail}, but it ends before, when it loads {os.path.basename(need.path)}: {need.why}"
    return replace(point, what=What.REFUSES, detail=detail, stop=refuses("KafkaStorageException", told))


def _may_end(point: Ahead, need: _Need) -> Ahead:
    detail = f"{point.detail}, or may end, if it loads {os.path.basename(need.path)} after that: {need.why}"
    return replace(point, detail=detail, may_end=True)
