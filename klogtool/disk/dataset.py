"""A folder of files that tasks write. Tasks may be tried several times; all files appear together at the end.

Until then the files are in `_klogtool` below the folder, which readers of Parquet skip. Only the message that a task
leaves when it is done names its files. One commit renames the files that the messages name, each exactly once. A run
that was cut short can be resumed: finished tasks are not repeated, and a commit renames only what was not renamed yet.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, TypeVar

from msgspec import Struct, convert, to_builtins

from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk, WriteErrors
from klogtool.disk.output import check_place
from klogtool.errors import KlogError, Refused
from klogtool.log.file import unreadable

STATE = "_klogtool"
PLAN = "plan.json"
SUCCESS = "_SUCCESS"
Kind = TypeVar("Kind")


class TaskFile(Struct, frozen=True):
    """A file of a task. name: its final path below the dataset."""

    name: str
    bytes: int


class TaskMessage(Struct, frozen=True):
    """What a task leaves when it is done. rows: by topic; invalid, undecoded: keys and values that became null."""

    place: str
    files: tuple[TaskFile, ...]
    rows: dict[str, int] = {}
    invalid: int = 0
    undecoded: int = 0


class Dataset(Struct, frozen=True):
    """The folder."""

    path: str

    @classmethod
    def begin(cls, path: str, sources: Iterable[str], plan: object) -> Dataset:
        """Start a new dataset. plan: what is being done to it. Raises Refused if the folder is not empty, or would be
        inside a source or contain one."""
        check_new(path, sources)
        created = cls(os.path.abspath(path))
        with WriteErrors(path):
            os.makedirs(created._state(), exist_ok=True)
            _write_whole(created._state(PLAN), plan)
        return created

    @classmethod
    def resume(cls, path: str, kind: type[Kind]) -> tuple[Dataset, Kind]:
        """Return a dataset that was started and not finished, and its plan. Raises Refused if there is none."""
        if not os.path.exists(os.path.join(path, STATE, PLAN)):
            raise Refused(OutputRefusal.NO_EXPORT(), path=path)
        return cls(os.path.abspath(path)), _read(os.path.join(path, STATE, PLAN), kind)

    def replan(self, plan: object) -> None:
        """Save another plan."""
        with WriteErrors(self.path):
            _write_whole(self._state(PLAN), plan)

    def abandon(self) -> None:
        """Delete the unfinished work, and the folder itself if nothing else is in it. What cannot be deleted stays."""
        shutil.rmtree(self._state(), ignore_errors=True)
        with suppress(OSError):
            os.rmdir(self.path)

    def done(self) -> dict[int, TaskMessage]:
        """Return the messages of the tasks that are done, by task number."""
        contents = {}
        for name in os.listdir(self._state()):
            number, _, kind = name.partition(".")
            if kind == "done" and number.isdecimal():
                contents[int(number)] = _read(self._state(name), TaskMessage)
        return contents

    def commit(self, messages: Sequence[TaskMessage]) -> None:
        """Make all files appear that the messages name. New folders are on the device before files move there, and all
        of it before the unfinished work goes."""
        disk = Disk()
        finals = {
            self._state(m.place, file.name): os.path.join(self.path, file.name) for m in messages for file in m.files
        }
        folders = {self.path, os.path.dirname(self.path)}
        with WriteErrors(self.path):
            for folder in sorted(set(map(os.path.dirname, finals.values()))):
                os.makedirs(folder, exist_ok=True)
                folders.update(_folders_between(self.path, folder))
            _sync_dirs(folders)
            for written, final in finals.items():
                if os.path.exists(written) or not os.path.exists(final):
                    disk.rename(written, final)
            _sync_dirs(folders)
            _write_whole(self._state(SUCCESS), {})
            disk.rename(self._state(SUCCESS), os.path.join(self.path, SUCCESS))
            disk.sync_dir(self.path)
            shutil.rmtree(self._state())

    def _state(self, *names: str) -> str:
        return os.path.join(self.path, STATE, *names)


def check_new(path: str, sources: Iterable[str]) -> None:
    """Check that a new dataset can start here. Raises Refused if not; an unfinished one gets its own message."""
    if os.path.exists(os.path.join(path, STATE, PLAN)):
        raise Refused(OutputRefusal.UNFINISHED_EXPORT(), path=path)
    for source in sources:
        check_place(path, source)


class Attempt:
    """One attempt of a task: it writes to its own place, and leaves a message when it is done."""

    def __init__(self, dataset: str, number: int) -> None:
        self._state = os.path.join(dataset, STATE)
        self._number, self._place = number, f"{number}.{uuid.uuid4().hex}"
        self._files: list[TaskFile] = []
        self._folders: set[str] = set()

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        """Open a new file; it is synced when the block ends. name: its final path below the dataset."""
        path = os.path.join(self._state, self._place, name)
        with WriteErrors(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._folders.update(_folders_between(self._state, os.path.dirname(path)))
            with open(path, "xb") as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
                self._files.append(TaskFile(name, sink.tell()))

    def finish(self, rows: dict[str, int] | None = None, invalid: int = 0, undecoded: int = 0) -> TaskMessage:
        """Finish the task: save its message in the folder and return it. The names of its files are on the device
        before."""
        message = TaskMessage(self._place, tuple(self._files), rows or {}, invalid, undecoded)
        with WriteErrors(self._state):
            _sync_dirs(self._folders)
            _write_whole(os.path.join(self._state, f"{self._number}.done"), message)
        return message

    def give_up(self) -> None:
        """Delete what this attempt wrote."""
        shutil.rmtree(os.path.join(self._state, self._place), ignore_errors=True)


def _folders_between(top: str, folder: str) -> Iterator[str]:
    """Yield a folder and those above it, up to `top`."""
    while len(folder) > len(top):
        yield folder
        folder = os.path.dirname(folder)
    yield top


def _sync_dirs(folders: Iterable[str]) -> None:
    disk = Disk()
    for folder in sorted(folders, reverse=True):
        disk.sync_dir(folder)


def _write_whole(path: str, value: object) -> None:
    part = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(part, "x", encoding="utf-8") as file:
            json.dump(to_builtins(value), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def _read(path: str, kind: type[Kind]) -> Kind:
    try:
        with open(path, encoding="utf-8") as file:
            return convert(json.load(file), kind)
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise KlogError(OutputRefusal.NOT_AS_WRITTEN(), path=path) from error
