"""A folder of finished files that a later run adds to: each file appears whole, by one rename.

Unfinished files are in `_klogtool` below the folder, which readers of Parquet skip; the next run deletes them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from msgspec import Struct

from klogtool.disk.causes import OutputRefusal
from klogtool.disk.dataset import STATE
from klogtool.disk.disk import Disk, WriteErrors
from klogtool.disk.output import check_in_no_log_dir
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.log.file import ReadErrors, read_whole
from klogtool.log.log_dirs import is_log_dir, is_partition_dir

MOST_BYTES = 1 << 30


class ExportFolder(Struct, frozen=True):
    """The folder. Names of files are paths below it."""

    path: str

    @classmethod
    def at(cls, path: str) -> ExportFolder:
        """Make the folder if it does not exist. Raises Refused if it is in a log dir, or is one; KlogError if its
        parent does not exist."""
        parent = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(parent):
            raise KlogError(FileCause.NO_FOLDER(), path=parent)
        check_in_no_log_dir(path, "an export")
        if os.path.isdir(path) and (is_log_dir(path) or is_partition_dir(path)):
            raise Refused(OutputRefusal.IN_LOG_DIR(what="an export"), path=path)
        with WriteErrors(path):
            os.makedirs(path, exist_ok=True)
        return cls(os.path.abspath(path))

    @property
    def where(self) -> str:
        """What names the folder in messages."""
        return self.path

    def names(self) -> list[str]:
        """Return the names of all finished files."""
        with ReadErrors(self.path):
            return sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.path):
            below = os.path.relpath(folder, self.path)
            if below == os.curdir and STATE in folders:
                folders.remove(STATE)
            yield from (os.path.normpath(os.path.join(below, file)) for file in files)

    def read(self, name: str) -> bytes:
        """Return all bytes of a file."""
        return read_whole(os.path.join(self.path, name), limit=MOST_BYTES)

    def publish(self, name: str, part: str) -> None:
        """Let a closed unfinished file appear under its name. It replaces a file that is there."""
        disk, final = Disk(), os.path.join(self.path, name)
        folder = os.path.dirname(final)
        with WriteErrors(final):
            disk.sync(part)
            os.makedirs(folder, exist_ok=True)
            disk.rename(part, final)
            while len(folder) >= len(self.path):
                disk.sync_dir(folder)
                folder = os.path.dirname(folder)

    def delete(self, name: str) -> None:
        """Delete a file that no manifest names."""
        with WriteErrors(name):
            Disk().delete(os.path.join(self.path, name))

    def parts(self) -> str:
        """Return the folder for unfinished files, empty."""
        state = os.path.join(self.path, STATE)
        with WriteErrors(state):
            shutil.rmtree(state, ignore_errors=True)
            os.makedirs(state)
        return state

    def end(self) -> None:
        """Delete what is unfinished."""
        shutil.rmtree(os.path.join(self.path, STATE), ignore_errors=True)


@contextmanager
def new_part(path: str) -> Iterator[BinaryIO]:
    """Open a new unfinished file."""
    with WriteErrors(path), open(path, "xb") as sink:
        yield sink


def drop_part(path: str) -> None:
    """Delete an unfinished file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def write_part(path: str, data: bytes) -> None:
    """Write an unfinished file."""
    with new_part(path) as sink:
        sink.write(data)
