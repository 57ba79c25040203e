"""Builds a log dir from partition dirs that tasks wrote: they are collected in a folder beside the output, which is
renamed to the output at the end.

Tasks write below `.tasks` in a temporary folder, and each attempt has its own place. Results that count are moved out
of it. What remains belongs to attempts that did not count, and is deleted.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.content import Content, FileRange
from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk, WriteErrors
from klogtool.disk.facts import check_facts
from klogtool.disk.output import (
    NewFile,
    NewFolder,
    build_folder,
    carry_out_to,
    check_place,
    listed_files,
    write_new_file,
)
from klogtool.errors import Refused
from klogtool.plans.plan import Plan
from klogtool.plans.saved_plan import SavedPlan

TASKS = ".tasks"


class Assembly(Struct, frozen=True):
    """The folder that will become `output`. log_dirs: the source of each folder in it; with a single log dir the key is
    ""."""

    output: str
    stage: str
    log_dirs: Mapping[str, str]

    @classmethod
    def begin(cls, output: str, log_dirs: Sequence[str]) -> Assembly:
        """Create the temporary folder. Raises Refused if the output is not allowed there, or two log dirs have the same
        name."""
        place = os.path.realpath(output)
        for log_dir in log_dirs:
            check_place(output, log_dir)
        if len(log_dirs) == 1:
            named = {"": log_dirs[0]}
        else:
            named = {os.path.basename(path.rstrip("/")): path for path in log_dirs}
        if len(named) < len(log_dirs):
            raise Refused(OutputRefusal.SAME_NAME(), path=output)
        created = cls(place, f"{place}.{uuid.uuid4().hex}.part", named)
        with WriteErrors(created.stage):
            os.makedirs(os.path.join(created.stage, TASKS))
        return created

    def finish_log_dir(self, name: str, plans: Sequence[Plan], places: Mapping[str, str]) -> None:
        """Write the log dir's own files as the plans say, and move each folder here from the place where a task wrote
        it."""
        saved, source, disk = [SavedPlan.of(plan) for plan in plans], self.log_dirs[name], Disk()
        check_facts(saved)
        folder = NewFolder(self._folder(name), source, copied=listed_files(source, saved), plans=saved)
        with WriteErrors(self._folder(name)):
            build_folder(disk, folder, self._folder(name), is_there=name == "")
            for below, place in places.items():
                disk.rename(place, os.path.join(self._folder(name), below))
            disk.sync_dir(self._folder(name))

    def publish(self) -> None:
        """Make the output appear, complete: the names of its log dirs are on the device before."""
        disk = Disk()
        with WriteErrors(self.output):
            shutil.rmtree(os.path.join(self.stage, TASKS))
            disk.sync_dir(self.stage)
            disk.rename(self.stage, self.output)
            disk.sync_dir(os.path.dirname(self.output))

    def abandon(self) -> None:
        """Delete everything that was written."""
        shutil.rmtree(self.stage, ignore_errors=True)

    def _folder(self, name: str) -> str:
        return os.path.join(self.stage, name) if name else self.stage


def write_aside(stage: str, content: Content) -> str:
    """Write content for one attempt of a task, to be read again later. Returns its path. Raises KlogError."""
    place = _aside(stage)
    with WriteErrors(place):
        Disk().write(place, content)
    return place


def write_file_aside(stage: str, file: NewFile) -> str:
    """Write one file of a part for one attempt of a task, sync it and check it. Returns its path. Raises KlogError."""
    place = _aside(stage)
    with WriteErrors(place):
        write_new_file(Disk(), file, place)
    return place


def place_aside(stage: str, file: NewFile) -> str | None:
    """Return where a file of a part is, or None if not all of it was written aside."""
    match file.file.content:
        case (FileRange(path=path, start=0),) if os.path.dirname(path) == os.path.join(stage, TASKS):
            return path
    return None


def _aside(stage: str) -> str:
    return os.path.join(stage, TASKS, uuid.uuid4().hex)


def write_part(
    stage: str,
    source: str,
    plan: Plan | None,
    ready: Callable[[NewFolder], Mapping[str, str]] = lambda _: {},
) -> str:
    """Write what a folder of a log dir becomes by its plan (or a copy of the folder), for one attempt of a task.

    ready: files that were written aside, by name. Returns the path of the new folder. Raises as `carry_out_to` does.
    """
    place = _aside(stage)
    with WriteErrors(place):
        os.mkdir(place)
    result = os.path.join(place, os.path.basename(source))
    carry_out_to([] if plan is None else [SavedPlan.of(plan)], source, result, ready=ready)
    return result
