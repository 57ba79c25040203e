"""A log dir that fails before or while its logs are loaded: the broker ends if one of the logs then needs the log dir.

A broker notes a failed log dir at once (LogDirFailureChannel), goes on loading its logs, and gives it up only when all
are loaded. LogManager ignores the errors of such a log dir that have an IOException as their cause. The message of
UnifiedLog and LocalLog that the log dir "is already offline" (maybeHandleIOException) has none, so it ends the process.
Loading asks in two places: where it looks up the first unstable offset (UnifiedLog's constructor), and where it renames
a partition to -stray.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.file_systems import outcome_of
from klogtool.doctor.partitions import Rehearsed
from klogtool.doctor.patient import Cluster
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.verify.stops import offline, refuses

# Read or opened before the first log. The other two checkpoints are read when all logs are loaded.
_BEFORE_LOGS = frozenset(
    kind.value for kind in (FileKind.LOCK, FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
)
# Of one partition: its log dir has failed from then on.
_OF_PARTITION = frozenset(kind.value for kind in (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA))


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
            if first != lock:  # a link to that of another log dir: a JVM locks a file once (FileLock.tryLock)
                cure, stop = AdviceCause.BROKER_CREATES(path=quoted(lock)), stop_at("lock-taken", log_dir=path)
                yield Ahead(lock, What.REFUSES, AheadCause.LOCKED_ALREADY(first=first), stop=stop, cure=cure)


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
        return os.strerror(errno.ENOENT)
    return None if os.access(folder, os.W_OK | os.X_OK) else "Permission denied"


def _not_locked(lock: str, reason: str, *, has_metadata: bool) -> Ahead:
    is_link = os.path.islink(lock)
    owner = AdviceCause.OWNER_OF_BOTH(log_dir=quoted(os.path.dirname(lock)), path=quoted(lock))
    return Ahead(
        lock,
        What.REFUSES if has_metadata else What.OFFLINE,
        AheadCause.NOT_LOCKED(why=reason, does=outcome_of(has_metadata=has_metadata)),
        stop=(refuses if has_metadata else offline)("FileNotFoundException", f"{lock} ({reason})"),
        cure=AdviceCause.BROKER_CREATES(path=quoted(lock)) if is_link else owner,
        cure_looks=not is_link,
    )


def with_refusals(points: Sequence[Ahead], rehearsed: Sequence[Rehearsed], strays: Collection[str]) -> list[Ahead]:
    """Return the points; those that would cost a log dir are refusals if a partition there needs the log dir, or may
    be.

    strays: partition dirs that the broker renames.
    """
    needs = list(_walk_needs(rehearsed, strays))
    return [_with_need(point, needs) if point.what is What.OFFLINE else point for point in points]


def with_metadata_log_dir(points: Sequence[Ahead], cluster: Cluster) -> Iterator[Ahead]:
    """Yield the points; what takes the log dir offline that holds the cluster's metadata ends the broker."""
    for point in points:
        is_sure = point.what is What.OFFLINE and not point.is_unsure
        if is_sure and cluster.metadata_dir is not None and point.path.startswith(cluster.metadata_dir + os.sep):
            stop = None if point.stop is None else point.stop.ending_the_broker()
            yield replace(point, what=What.REFUSES, detail=AheadCause.OF_METADATA(what=point.detail), stop=stop)
        else:
            yield point


def _walk_needs(rehearsed: Sequence[Rehearsed], strays: Collection[str]) -> Iterator[tuple[str, Reason]]:
    """Yield the partition dirs that need their log dir while they are loaded, and why."""
    for each in rehearsed:
        path = each.prospect.path
        if each.looks_up_unstable:
            yield path, AheadCause.OPEN_TRANSACTION()
        elif path in strays:
            yield path, AheadCause.BECOMES_STRAY()


def _with_need(point: Ahead, needs: Sequence[tuple[str, Reason]]) -> Ahead:
    """A file of the log dir fails before all logs. A file of a partition may fail before or after the log that needs
    the log dir: the broker loads them as the file system lists them, several at a time."""
    folder, name = os.path.split(point.path)
    log_dir = folder if name in _BEFORE_LOGS else os.path.dirname(folder) if name in _OF_PARTITION else None
    path, why = next((need for need in needs if os.path.dirname(need[0]) == log_dir and need[0] != folder), ("", ""))
    if not path:
        return point
    if name in _OF_PARTITION:
        detail = AheadCause.MAY_END(what=point.detail, name=os.path.basename(path), why=why)
        return replace(point, detail=detail, may_end=True)
    detail = AheadCause.ENDS_BEFORE(what=point.detail, name=os.path.basename(path), why=why)
    return replace(point, what=What.REFUSES, detail=detail, stop=stop_at("already-offline", log_dir=log_dir))
