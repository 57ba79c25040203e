"""A new log dir whose partition dirs are written by tasks. Tasks may be tried several times; one rename shows it all.

Until then everything is in a folder beside the output, whose name no broker takes for a partition. Each attempt of a
task has its own place in it. Only the message that a finished task sends names what counts.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping

from msgspec import Struct

from klogtool.broker.content import Content
from klogtool.disk.attributes import attributes_of_new_file
from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk, WriteErrors, not_written
from klogtool.disk.output import NewFolder, build_folder, check_place
from klogtool.disk.putting import put
from klogtool.disk.spooling import FileSpool, SpoolFolder
from klogtool.errors import KlogError, Refused
from klogtool.log.log_dirs import is_log_dir

TASKS, WHOLE = "tasks", "whole"


class NewLogDir(Struct, frozen=True):
    """output: the future log dir. stage: the folder beside it."""

    output: str
    stage: str

    @classmethod
    def at(cls, output: str) -> NewLogDir:
        """Choose the places; nothing is written yet. Raises Refused if no log dir may be there, or something is."""
        _check(output)
        place = os.path.realpath(output)
        return cls(place, f"{place}.{uuid.uuid4().hex}.part")

    def begin(self) -> None:
        """Make the folder beside the output, once, before the first task. A task of a job that is over finds none."""
        with WriteErrors(self.stage):
            os.makedirs(os.path.join(self.stage, TASKS))

    def publish(self, places: Mapping[str, str], files: Mapping[str, Content]) -> None:
        """Make the log dir appear. places: where each partition dir is, by its name; files: the log dir's own.

        Raises Refused if something is at the output by now, and KlogError. Then there is no output.
        """
        whole = os.path.join(self.stage, WHOLE)
        with WriteErrors(self.output):
            os.mkdir(whole)
            for name, place in places.items():
                Disk().rename(place, os.path.join(whole, name))
            for name, content in files.items():
                put(Disk(), os.path.join(whole, name), content, attributes_of_new_file(whole))
            Disk().sync_dir(whole)
            _check(self.output)
            Disk().rename(whole, self.output)
            Disk().sync_dir(os.path.dirname(self.output))
        self.abandon()

    def abandon(self) -> None:
        """Delete everything that is not the output. What cannot be deleted stays; its name says what it is."""
        shutil.rmtree(self.stage, ignore_errors=True)


def _check(output: str) -> None:
    check_place(output, None)
    if is_log_dir(os.path.dirname(os.path.realpath(output))):
        raise Refused(OutputRefusal.NEW_LOG_DIR(), path=output)


class TaskPlace:
    """Where one attempt of a task writes, for use with `with`. After an error nothing of it stays."""

    def __init__(self, log_dir: NewLogDir) -> None:
        self._stage = log_dir.stage
        self.path = os.path.join(self._stage, TASKS, uuid.uuid4().hex)
        self._spools = SpoolFolder(os.path.join(self.path, "spool"), Disk())

    def make_spool(self) -> FileSpool:
        """Return a spool for one new file."""
        return self._spools.make_spool()

    def write_partition_dir(self, name: str, files: Mapping[str, Content]) -> str:
        """Write a partition dir, synced and read back; return its path. Raises KlogError."""
        place = os.path.join(self.path, name)
        with WriteErrors(place):
            build_folder(Disk(), NewFolder(place, self._stage, further=files), place)
        return place

    def __enter__(self) -> TaskPlace:
        try:
            os.mkdir(self.path)
        except FileNotFoundError as error:
            raise KlogError(OutputRefusal.GONE(), path=self._stage) from error
        except OSError as error:
            raise not_written(self.path, error) from error
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._spools.__exit__()
        if kind is not None:
            shutil.rmtree(self.path, ignore_errors=True)
