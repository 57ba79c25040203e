"""Paths of log.dirs that are no log dirs: an unmounted or emptied disk, a file, a second name of another one.

The rules are KafkaRaftServer.initializeLogDirs'."""

from __future__ import annotations

import os
from collections.abc import Sequence

from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.doctor.exceptions import stop_at
from klogtool.errors import FileCause, KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.log.opened import NoLogDir, open_path
from klogtool.verify.stops import refuses
from klogtool.verify.verify_log_dirs import NO_READABLE
from klogtool.verify.verify_voters import find_directory_id

_META = FileKind.META_PROPERTIES.value


def check_log_dirs(paths: Sequence[str]) -> dict[str, KlogError]:
    """Return which paths are no log dirs, and why. No file is read.

    Raises KlogError if no path is a log dir; and for a path that is another thing of Kafka's, or cannot be read.
    """
    errors = {path: error for path in paths if (error := _error_of(path)) is not None}
    if len(errors) == len(paths):
        raise errors[paths[0]]
    return errors


def split_log_dirs(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[Ahead, ...]]:
    """Return the log dirs among the paths, and what a broker does about the others. Raises as `check_log_dirs`."""
    errors = check_log_dirs(paths)
    folders: dict[tuple[int, int], str] = {}
    again: list[Ahead] = []
    for path in dict.fromkeys(path for path in paths if path not in errors):
        about = os.stat(path)
        first = folders.setdefault((about.st_dev, about.st_ino), path)
        if first != path:
            again.append(named_twice(path, first, paths))
    is_any_known = bool(errors) and any(map(_has_identity, folders.values()))
    return tuple(folders.values()), (*(_absent(path, is_any_known=is_any_known) for path in errors), *again)


def _has_identity(log_dir: str) -> bool:
    try:
        return LogDir(log_dir).meta_properties is not None
    except KlogError:  # reported by itself
        return False


def is_empty_folder(path: str) -> bool:
    """Return whether a folder has nothing, as a new disk: a broker's first start in it can lose nothing."""
    try:
        return not set(os.listdir(path)) - {"lost+found"}
    except OSError:
        return False


def _error_of(path: str) -> KlogError | None:
    """Return why a path is no log dir; None if it is one. Raises KlogError if a broker can be given no such path."""
    try:
        opened = open_path(path)
    except NoLogDir as error:
        if error.below:
            raise
        return error
    except KlogError as error:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise
        return error
    if isinstance(opened, LogDir):
        return None
    raise KlogError(FileCause.NO_LOG_DIR(), path=path)


def named_twice(path: str, first: str, paths: Sequence[str]) -> Ahead:
    """Return the point of a second name of a log dir, such as a link. Nothing in it is a copy: it is the log dir.

    paths: all log dirs. Without a directory.id, LogManager is the first to see it.
    """
    if directory_id := find_directory_id(first):
        stop = stop_at("directory-id-twice", directory_id=directory_id, first=first, path=path)
    else:
        stop = stop_at("log-dir-twice", log_dirs=", ".join(map(os.path.abspath, paths)))
    cure = AdviceCause.NAME_ONCE(first=quoted(first), path=quoted(path))
    return Ahead(path, What.REFUSES, AheadCause.NAMED_TWICE(first=first), stop=stop, cure=cure)


def _absent(path: str, *, is_any_known: bool) -> Ahead:
    """is_any_known: another log dir has a readable meta.properties."""
    cure = AdviceCause.MOUNT()
    if os.path.isfile(path):
        stop = stop_at("no-folder", is_fatal=False, path=os.path.join(path, _META))
        return Ahead(path, What.OFFLINE, AheadCause.LOG_DIR_IS_FILE(), stop=stop, cure=cure)
    cause = AheadCause.NOTHING_THERE if os.path.isdir(path) else AheadCause.NOT_THERE
    stop = stop_at("no-meta-properties", path=path) if is_any_known else refuses("RuntimeException", NO_READABLE)
    return Ahead(path, What.REFUSES, cause(meta=_META), stop=stop, cure=cure)
