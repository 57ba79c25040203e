"""Paths of log.dirs that are no log dirs: an unmounted or emptied disk, a file, a second name of another one.

The rules are KafkaRaftServer.initializeLogDirs'."""

from __future__ import annotations

import os
from collections.abc import Sequence

from klogtool.doctor.answers import Ahead, What
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.log.opened import NoLogDir, open_path
from klogtool.verify.stops import offline, refuses

_META = FileKind.META_PROPERTIES.value
_BY_HAND = "mount the disk; for a new disk: kafka-storage.sh format --ignore-formatted with the cluster's id"


def split_log_dirs(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[Ahead, ...]]:
    """Return the log dirs among the paths, and what a broker does about the others.

    Raises KlogError if no path is a log dir; and for a path that is another thing of Kafka's, or cannot be read.
    """
    errors = {path: error for path in paths if (error := _error_of(path)) is not None}
    if len(errors) == len(paths):
        raise errors[paths[0]]
    folders: dict[tuple[int, int], str] = {}
    again: list[Ahead] = []
    for path in dict.fromkeys(path for path in paths if path not in errors):
        about = os.stat(path)
        first = folders.setdefault((about.st_dev, about.st_ino), path)
        if first != path:
            again.append(named_twice(path, first))
    return tuple(folders.values()), (*map(_absent, errors), *again)


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
    raise KlogError("not a log dir", path=path)


def named_twice(path: str, first: str) -> Ahead:
    """Return the point of a second name of a log dir, such as a link. Nothing in it is a copy: it is the log dir."""
    stop = refuses("RuntimeException", f"Duplicate directory ID found. It was the ID of {first}, but also of {path}")
    detail = f"it is the same folder as {first}: a broker does not start with two names of a log dir"
    cure = f"name {quoted(first)} once in log.dirs, and not {quoted(path)}"
    return Ahead(path, What.REFUSES, detail, stop=stop, cure=cure)


def _absent(path: str) -> Ahead:
    if os.path.isfile(path):
        stop = offline("FileSystemException", f"{os.path.join(path, _META)}: Not a directory")
        detail = "it is a file: a broker takes it for a failed log dir, and continues without it"
        return Ahead(path, What.OFFLINE, detail, stop=stop, cure=_BY_HAND)
    how = "(have you run `kafka-storage.sh` to format the directory?)"
    stop = refuses("RuntimeException", f"No `{_META}` found in {path} {how}")
    state = f"it has no {_META}, and no partition" if os.path.isdir(path) else "it does not exist"
    detail = f"{state}: a broker does not start if a log dir has no {_META}"
    return Ahead(path, What.REFUSES, detail, stop=stop, cure=_BY_HAND)
