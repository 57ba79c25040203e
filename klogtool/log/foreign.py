"""Files and folders that somebody names, and that are not Kafka's: the error that says what they are.

Only what is named, on a command line or in `klogtool.open`, is looked at. What lies inside of a log dir is for `verify`
to find.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from klogtool.errors import Unsupported
from klogtool.escape import quoted
from klogtool.format.foreign import HEAD_BYTES, STDIN, Foreign, ForeignCure, begins_as_log, foreign_bytes, foreign_name
from klogtool.log.file import LogFile, Unreadable

MOST_FOLDERS, MOST_NAMES, MOST_DEPTH = 200, 2000, 5
MAGIC_NAMES = ("log", "snapshot", "txn")  # BookKeeper's and ZooKeeper's, before or after a number in hex


class ForeignData(Unsupported):
    """Files of another program, or of a Kafka that no release since 0.8 reads; or a packed file. `cure` says what to
    do instead."""

    def __init__(self, path: str, kind: Foreign, *, inside: str | None = None) -> None:
        """inside: the file of a folder that shows it."""
        where = "" if inside is None else f" (it contains {inside})"
        named = path if inside is None else os.path.join(path, inside)
        word = "FILE" if path == STDIN else quoted(named)
        super().__init__(f"{kind()}{where}", path=path, cure=str(ForeignCure[kind.name](file=word)))


def check_file(path: str, *, any_name: bool = False) -> None:
    """Raise ForeignData for a file that is not Kafka's; Unreadable if it cannot be opened. any_name: the caller reads
    a log whatever its name is."""
    with LogFile(path) as file:
        check_head(file, name=os.path.basename(path), any_name=any_name)


def check_named(path: str) -> None:
    """Raise ForeignData for a file that is no log, whatever its name. One that cannot be read is told by its reader."""
    with suppress(Unreadable):
        check_file(path, any_name=True)


def check_head(file: LogFile, *, name: str = "", any_name: bool = False) -> None:
    """Raise ForeignData for an open file, by its first bytes, and by its name if there is one."""
    head = file.read(0, HEAD_BYTES)
    kind = foreign_name(name)
    if kind in (Foreign.TIERED, Foreign.TAR) and begins_as_log(head) and any_name:
        kind = None
    if (kind := foreign_bytes(head) or kind) is not None:
        raise ForeignData(file.path, kind)


def find_foreign(path: str) -> ForeignData | None:
    """Return what a folder is that is not Kafka's, by the files in it and a few folders below; None if nobody knows."""
    for file in _some_files(path):
        kind = foreign_name(os.path.basename(file)) or _kind_by_magic(file)
        if kind is not None and kind is not Foreign.TAR:
            return ForeignData(path, kind, inside=os.path.relpath(file, path))
    return None


def _kind_by_magic(path: str) -> Foreign | None:
    """Read only files whose names may be BookKeeper's or ZooKeeper's: `1a.log`, `snapshot.0`."""
    before, dot, after = os.path.basename(path).partition(".")
    if not dot or not {before, after}.intersection(MAGIC_NAMES):
        return None
    try:
        with LogFile(path) as file:
            return foreign_bytes(file.read(0, HEAD_BYTES))
    except Unreadable:
        return None


def _some_files(path: str) -> Iterator[str]:
    """Yield files below a folder, the upper ones first, as far as a start should take."""
    folders, names = deque([(path, 0)]), 0
    for _ in range(MOST_FOLDERS):
        if not folders or names > MOST_NAMES:
            return
        folder, depth = folders.popleft()
        try:
            with os.scandir(folder) as listed:
                entries = list(islice(listed, MOST_NAMES - names + 1))
        except OSError:
            continue
        for entry in entries:
            names += 1
            if names > MOST_NAMES:
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < MOST_DEPTH:
                    folders.append((entry.path, depth + 1))
            else:
                yield entry.path
