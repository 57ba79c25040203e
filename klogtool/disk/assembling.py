"""A log dir out of partition dirs that tasks wrote: laid together beside its place, and renamed to it at the end.

Tasks write below `.tasks` of a folder with a passing name, each attempt to a place of its own. What is taken is moved;
what is not, was an attempt that did not count, and goes.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.content import Content, FileRange
from klogtool.disk.dataset import not_written
from klogtool.disk.disk import Disk
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
    """What will be `output`. log_dirs: the source of each folder in it; of the only one, "" is the folder itself."""

    output: str
    stage: str
    log_dirs: Mapping[str, str]

    @classmethod
    def begin(cls, output: str, log_dirs: Sequence[str]) -> Assembly:
        """Raises Refused where nothing may be put, or two log dirs have one name."""
        place = os.path.realpath(output)
        for log_dir in log_dirs:
            check_place(output, log_dir)
        if len(log_dirs) == 1:
            named = {"": log_dirs[0]}
        else:
            named = {os.path.basename(path.rstrip("/")): path for path in log_dirs}
        if len(named) < len(log_dirs):
            raise Refused(
                "two of the log dirs have the same name, and the output has one folder per name: run this once per log dir",
                path=output,
            )
        made = cls(place, f"{place}.{uuid.uuid4().hex}.part", named)
        try:
            os.makedirs(os.path.join(made.stage, TASKS))
        except OSError as error:
            raise not_written(made.stage, error) from error
        return made

    def finish_log_dir(self, name: str, plans: Sequence[Plan], places: Mapping[str, str]) -> None:
        """Its own files, as the plans have them, and its folders, each from the place where a task has put it."""
        saved, source, disk = [SavedPlan.of(plan) for plan in plans], self.log_dirs[name], Disk()
        check_facts(saved)
        folder = NewFolder(self._folder(name), source, copied=listed_files(source, saved), plans=saved)
        try:
            build_folder(disk, folder, self._folder(name), is_there=name == "")
            for below, place in places.items():
                disk.rename(place, os.path.join(self._folder(name), below))
            disk.sync_dir(self._folder(name))
        except OSError as error:
            raise not_written(self._folder(name), error) from error

    def publish(self) -> None:
        """It appears, whole."""
        try:
            shutil.rmtree(os.path.join(self.stage, TASKS))
            Disk().rename(self.stage, self.output)
            Disk().sync_dir(os.path.dirname(self.output))
        except OSError as error:
            raise not_written(self.output, error) from error

    def abandon(self) -> None:
        """What was written goes."""
        shutil.rmtree(self.stage, ignore_errors=True)

    def _folder(self, name: str) -> str:
        return os.path.join(self.stage, name) if name else self.stage


def write_aside(stage: str, content: Content) -> str:
    """Something to be read again, for one attempt of a task. Returns where it is. Raises KlogError."""
    place = _aside(stage)
    try:
        Disk().write(place, content)
    except OSError as error:
        raise not_written(place, error) from error
    return place


def write_file_aside(stage: str, file: NewFile) -> str:
    """A file of a part, for one attempt of a task, synced and looked at. Returns where it is. Raises KlogError."""
    place = _aside(stage)
    try:
        write_new_file(Disk(), file, place)
    except OSError as error:
        raise not_written(place, error) from error
    return place


def place_aside(stage: str, file: NewFile) -> str | None:
    """Where a file of a part lies, if all of it has been written aside."""
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
    """What becomes of a folder of a log dir by its plan, or a copy of it: for one attempt of a task. ready: files that
    were written aside, by name. Returns where it is. Raises as `carry_out_to` does."""
    place = _aside(stage)
    try:
        os.mkdir(place)
    except OSError as error:
        raise not_written(place, error) from error
    result = os.path.join(place, os.path.basename(source))
    carry_out_to([] if plan is None else [SavedPlan.of(plan)], source, result, ready=ready)
    return result
