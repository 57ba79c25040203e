"""Whether the broker's user may open what a start opens. Who runs klogtool may be somebody else, such as root.

A broker 4.3.1 was asked as another user than root: it opens the
`.log` and the `.txnindex` of every segment, and the indexes of the active and of recovered segments, for writing, and
the log dir goes offline where it may not. It replaces checkpoints, snapshots and partition.metadata by renaming a new
file (`.tmp`, which must not be there as somebody else's), so nobody has to write these; but the folder has to take the
new file, at the latest when the broker becomes the leader.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.causes import Reason, Text
from klogtool.doctor.answers import Ahead, What, ahead_of
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.patient import Cluster
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import is_device, is_fifo, is_socket, is_unchangeable
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out, move_out_of_partition
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.openable import find_unreadable, find_unwritten, may_read, may_write, why_not_made, why_not_opened
from klogtool.verify.stops import Stop, StopOutcome, offline, stop_of

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
_TEXTS = (FileKind.LEADER_EPOCH_CHECKPOINT.value, FileKind.PARTITION_METADATA.value)
_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.META_PROPERTIES,
)
TEMPORARY = ".tmp"


def why_not_written(path: str) -> int | None:
    """Return why the broker's user may not write a file of a partition dir, as an errno; None if it may. Root may write
    any, unless it is unchangeable."""
    if not may_write(path, os.path.dirname(os.path.dirname(path))):
        return errno.EACCES
    return errno.EPERM if is_unchangeable(path) else None


def find_denied(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point about the first file that the start of a partition opens, and that the broker's user may not;
    None if there is none. A start looks first whether it may read all files (LogLoader)."""
    log_dir = os.path.dirname(path)
    if (unreadable := find_unreadable(path, log_dir)) is not None:
        return _denied(unreadable, "IOException")
    for name in sorted(log.draft.devices.intersection(_TEXTS)):
        if (point := special_text(os.path.join(path, name))) is not None:
            return point
    opened = {name: parse_file_name(name).kind in _INDEXES for name in _written(log) if name in log.draft.before}
    return _find_unwritten(path, opened, is_current=Partition(path).state.is_current)


def _find_unwritten(path: str, opened: Mapping[str, bool], *, is_current: bool) -> Ahead | None:
    """Return the point about the first file of a partition dir that cannot be written, or made.

    opened: names of files that a start opens for writing, and whether each is an index. is_current: the folder is that
    of a partition, whose leader epochs are written when it gets a leader."""
    log_dir = os.path.dirname(path)
    for name, is_index in opened.items():
        if not may_write(file := os.path.join(path, name), log_dir):
            return _denied(file, "FileNotFoundException" if is_index else "AccessDeniedException")
    new_file = os.path.join(path, f"{FileKind.LEADER_EPOCH_CHECKPOINT.value}{TEMPORARY}")
    if not may_write(path, log_dir):
        return _denied(new_file, "FileNotFoundException", path)  # what it cannot make there, it names
    if is_unchangeable(path):
        return _fixed(new_file, path)
    epochs = [new_file.removesuffix(TEMPORARY)] if is_current else []
    for file in (*(os.path.join(path, name) for name in opened), *filter(os.path.isfile, epochs)):
        if is_unchangeable(file):
            return _fixed(file, file)
    if is_fifo(new_file) and is_current:
        return _never_written(new_file)
    if (stop := why_not_made(new_file)) is not None and is_current:
        return Ahead(new_file, What.OFFLINE, AheadCause.NO_FILE(), stop=stop, cure=move_out_of_partition(new_file))
    if os.path.isfile(new_file) and not may_write(new_file, log_dir):
        return _denied(new_file, "FileNotFoundException")
    return None


def not_permitted(error: Unreadable, log_dir: str) -> Ahead:
    """Return the point about a file or folder that neither klogtool's user nor the broker's may read. Raises the error
    if the broker's may: then nobody has looked at it."""
    file = error.path or log_dir
    if may_read(file, log_dir):
        raise error
    return _denied(file, "IOException")


def is_of_owner(point: Ahead) -> bool:
    """Return whether a point is about an owner, a mode or an attribute: no plan changes these."""
    return isinstance(point.detail, Reason) and point.detail.cause in (AheadCause.DENIED, AheadCause.FIXED)


def _never_written(new_file: str) -> Ahead:
    """Return the point about a FIFO where leader epochs are written. A broker writes them when it becomes the leader;
    of the metadata, when it starts."""
    cure = move_out_of_partition(new_file)
    if os.path.basename(os.path.dirname(new_file)) == CLUSTER_METADATA_DIR:
        return Ahead(new_file, What.REFUSES, AheadCause.NEVER_UP(), cure=cure)
    return Ahead(new_file, What.LEADER_FAILS, AheadCause.LEADER_WAITS(), cure=cure)


def refused_by_special(error: KlogError) -> Ahead | None:
    """Return the point about something in place of a file, at which the loading of a partition fails; None if it is a
    file or a folder. Who opens a FIFO for writing waits until somebody reads it."""
    file = error.path
    if file is None or not (is_fifo(file) or is_socket(file) or is_device(file)):
        return None
    cure, stop = move_out_of_partition(file), stop_of(error)
    if error.kafka_class is None:
        return Ahead(file, What.REFUSES, AheadCause.NEVER_UP(), cure=cure)
    detail = AheadCause.ENDS_AT_NO_FILE() if stop.is_fatal else AheadCause.NO_FILE()
    return Ahead(file, What(stop.outcome.value), detail, stop=stop, cure=cure)


def special_text(file: str) -> Ahead | None:
    """Return the point about something in place of a text that a start reads. Who reads a FIFO waits until somebody
    writes into it."""
    cure = move_out_of_partition(file)
    if is_fifo(file):
        return Ahead(file, What.REFUSES, AheadCause.NEVER_UP(), cure=cure)
    return _at_device(file, cure) if is_device(file) else None


def _at_device(file: str, cure: Text) -> Ahead | None:
    """Return the point about a text that is a device: most have no end, and /dev/null has no line."""
    if has_no_end(file):
        return at_endless(file, cure)
    kind = parse_file_name(os.path.basename(file)).kind
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        return None
    stop = stop_at("no-line") if kind is FileKind.PARTITION_METADATA else None
    return Ahead(file, What.REFUSES, AheadCause.A_DEVICE(), stop=stop, cure=cure)


def has_no_end(file: str) -> bool:
    """Return whether it is a device that can be read for ever; /dev/null is empty."""
    return is_device(file) and not os.path.samefile(file, os.devnull)


def at_endless(file: str, cure: Text) -> Ahead:
    """Return the point about such a device in place of a text that a start reads: the memory ends. High watermarks are
    read when the first partition of the log dir becomes a leader: the broker goes on without it (ReplicaManager)."""
    stop = stop_at("no-memory")
    if file.endswith(FileKind.REPLICATION_CHECKPOINT.value):
        stop = Stop(StopOutcome.UNSERVED, stop.kafka_class, stop.message)
        return Ahead(file, What.UNSERVED, AheadCause.ENDLESS_MARKS(), stop=stop, cure=cure)
    return Ahead(file, What.REFUSES, AheadCause.A_DEVICE(), stop=stop, cure=cure)


def _written(log: LoadedLog) -> Iterator[str]:
    """Yield the names of files that are opened for writing."""
    for segment in log.segments.all:
        unopened = segment.unopened_indexes()
        opened = (FileKind.LOG, *(kind for kind in _INDEXES if kind not in unopened), FileKind.TXN_INDEX)
        yield from map(segment.name_of, opened)


def _denied(file: str, kafka_class: str, owned: str | None = None) -> Ahead:
    """owned: what has to be given to the broker's user, if that is another path."""
    stop = offline(kafka_class, f"{file} (Permission denied)" if kafka_class == "FileNotFoundException" else file)
    if kafka_class == "IOException":
        stop = stop_at("file-not-readable", is_fatal=False, path=file)
    cure = AdviceCause.OWNER(path=quoted(owned or file))
    return ahead_of(Finding(Kind.UNREADABLE, file, AheadCause.DENIED(), stop=stop, cured_by=cure), What.OFFLINE)


def _fixed(file: str, fixed: str) -> Ahead:
    """A broker cannot open it for writing, delete it, or rename another file to it. fixed: what is unchangeable: the
    file, or the folder in which it is to be made."""
    is_index = file.endswith(tuple(kind.value for kind in _INDEXES))
    why = os.strerror(errno.EPERM)
    stop = offline("FileSystemException", f"{file}: {why}")
    if is_index or file != fixed:
        stop = offline("FileNotFoundException", f"{file} ({why})")
    cure = AdviceCause.CHANGEABLE(path=quoted(fixed))
    return ahead_of(Finding(Kind.UNREADABLE, file, AheadCause.FIXED(), stop=stop, cured_by=cure), What.OFFLINE)


def walk_denied(log_dirs: Sequence[str], cluster: Cluster, checkpoints: Sequence[FileKind]) -> Iterator[Ahead]:
    """Yield the points about what the broker's user may not open outside of data partitions. checkpoints: those that
    the broker reads."""
    yield from _walk_denied_log_dirs(log_dirs, checkpoints)
    yield from filter(None, [_find_denied_metadata(cluster)])


def _walk_denied_log_dirs(log_dirs: Sequence[str], checkpoints: Sequence[FileKind]) -> Iterator[Ahead]:
    """Yield a point for each log dir that cannot be locked, written, or read. A lock may be made anew if the folder can
    be written."""
    for log_dir in log_dirs:
        for kind in (FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN):
            if is_fifo(path := os.path.join(log_dir, kind.value)):
                yield Ahead(path, What.REFUSES, AheadCause.NEVER_UP(), cure=move_out(path, log_dir))
            elif has_no_end(path):
                yield at_endless(path, move_out(path, log_dir))
            elif kind is FileKind.META_PROPERTIES and is_device(path):
                stop = stop_at("no-node-id", log_dir=log_dir)
                yield Ahead(path, What.REFUSES, AheadCause.A_DEVICE(), stop=stop, cure=move_out(path, log_dir))
        lock = os.path.join(log_dir, FileKind.LOCK.value)
        if is_socket(lock):
            stop = offline("FileSystemException", f"{lock}: {why_not_opened(lock)}")
            cure = move_out(lock, log_dir)
            yield Ahead(lock, What.OFFLINE, AheadCause.NO_FILE(), stop=stop, cure=cure)
            continue
        written = [lock] if os.path.isfile(lock) else []
        texts = [os.path.join(log_dir, kind.value) for kind in _CHECKPOINTS]
        new_files = [f"{path}{TEMPORARY}" for path in texts[:-1]]  # written half a minute after the start, or earlier
        named = [path for path in new_files if not os.path.isdir(path)]  # no folder may have such a name
        unmade = {path: why for path in named if (why := why_not_made(path)) is not None}
        for path, why in unmade.items():
            yield Ahead(path, What.OFFLINE, AheadCause.NO_FILE(), stop=why, cure=move_out(path, log_dir))
        if unmade:
            continue
        if FileKind.CLEANER_CHECKPOINT in checkpoints:
            yield from _cleaner_never_writes(log_dir)
        for path in filter(is_fifo, new_files):
            yield Ahead(path, What.NEVER_STOPS, AheadCause.NEVER_STOPS(), cure=move_out(path, log_dir))
        written += [*filter(os.path.isfile, new_files), log_dir]
        read = [os.path.join(log_dir, kind.value) for kind in (*checkpoints, FileKind.META_PROPERTIES)]
        unread = (path for path in read if os.path.isfile(path) and not may_read(path, log_dir))
        denied = find_unwritten(written, log_dir) or next(unread, None)
        if denied is not None:
            is_new = denied.endswith(TEMPORARY)
            yield _denied(denied, "FileNotFoundException" if is_new else "AccessDeniedException")
            continue
        marker = os.path.join(log_dir, FileKind.CLEAN_SHUTDOWN.value)
        fixed = next((path for path in (log_dir, lock, marker, *texts[:-1]) if is_unchangeable(path)), None)
        if fixed is not None:
            yield _fixed(fixed, fixed)


def _cleaner_never_writes(log_dir: str) -> Iterator[Ahead]:
    """Yield the point about something in the place of the new file of cleaner-offset-checkpoint, which the cleaner
    writes after each cleaning (LogCleanerManager.updateCheckpoints). Where nothing is cleaned nobody notices."""
    path = os.path.join(log_dir, f"{FileKind.CLEANER_CHECKPOINT.value}{TEMPORARY}")
    if is_fifo(path):
        yield Ahead(path, What.CLEANER_STOPS, AheadCause.CLEANER_WAITS(), cure=move_out(path, log_dir))
    elif not os.path.isdir(path) and (stop := why_not_made(path)) is not None:  # no folder may have such a name
        detail = AheadCause.CLEANER_COSTS_LOG_DIR(why=stop.message)
        yield Ahead(path, What.CLEANER_STOPS, detail, cure=move_out(path, log_dir))


def _find_denied_metadata(cluster: Cluster) -> Ahead | None:
    """Return the point about the first file of the metadata that may not be read, written or made: the process ends.
    None if there is none. All its segments are recovered at each start."""
    if cluster.metadata_dir is None or not os.path.isdir(
        path := os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    ):
        return None
    if is_fifo(bootstrap := os.path.join(cluster.metadata_dir, FileKind.BOOTSTRAP_SNAPSHOT.value)):
        return Ahead(bootstrap, What.REFUSES, AheadCause.NEVER_UP(), cure=move_out(bootstrap, cluster.metadata_dir))
    if os.path.isfile(bootstrap) and not may_read(bootstrap, cluster.metadata_dir):
        return _denied(bootstrap, "AccessDeniedException")
    if (unreadable := find_unreadable(path, cluster.metadata_dir)) is not None:
        return _denied(unreadable, "IOException")
    if is_unchangeable(state := os.path.join(path, FileKind.QUORUM_STATE.value)):
        return _fixed(state, state)
    kinds = (FileKind.LOG, *_INDEXES)
    files = {segment.side_path(kind): kind for segment in Partition(path).segments for kind in kinds}
    opened = {os.path.basename(file): kind in _INDEXES for file, kind in files.items() if os.path.isfile(file)}
    return _find_unwritten(path, opened, is_current=True)
