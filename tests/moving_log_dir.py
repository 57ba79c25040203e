"""A log dir in which one thing happens, as beside a running broker, just before any call of the system that sees it.

Between two calls that have nothing to do with what happens it makes no difference when it happens. So all moments are
these: before the n-th call about a path that changes, about the folder that it is in, or below it.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from running import FIXTURES

Path = pathlib.Path
UUID = "2ddfa7dab81e43f5beb3a78adad083ee"
DOOMED, FUTURE = f"dropped-0.{UUID}-delete", "t-1.42cf8f74989d43b4a95e5da704f9b45b-future"
FUTURE_NOW = "moved-0.42cf8f74989d43b4a95e5da704f9b45b-future"
OF_A_SEGMENT = (".log", ".index", ".timeindex")
OF_THE_CALLS = ("open", "stat", "lstat", "access", "listdir", "scandir", "readlink", "statvfs")


def make_log_dir(folder: Path) -> Path:
    """A log dir of a running broker that does everything at once: a lock and no marker, segments that were deleted,
    cleaned and swapped, a partition that goes and one that comes."""
    shutil.copytree(FIXTURES / "transactions/logdir", folder)
    for name in ("size-0", DOOMED):
        shutil.copytree(FIXTURES / "retention/logdir" / name, folder / name)
    shutil.copytree(FIXTURES / "two-disks/logdir/d2" / FUTURE, folder / FUTURE_NOW)
    (folder / ".kafka_cleanshutdown").unlink()
    (folder / ".lock").touch()
    for suffix in OF_A_SEGMENT:
        shutil.copy2(folder / f"t-1/{27:020d}{suffix}", folder / f"t-1/{27:020d}{suffix}.cleaned")
        shutil.copy2(folder / f"input-0/{0:020d}{suffix}", folder / f"input-0/{0:020d}{suffix}.swap")
    shutil.copy2(folder / "recovery-point-offset-checkpoint", folder / "recovery-point-offset-checkpoint.tmp")
    return folder


@dataclass(frozen=True)
class Change:
    """What a broker does: it renames a path, deletes it (to is None), or makes it (path is None), `data` in it."""

    path: str | None
    to: str | None = None
    data: bytes | None = None

    def __str__(self) -> str:
        return " to ".join(name.replace("0" * 17, "") for name in (self.path, self.to) if name) or "nothing"

    @property
    def touched(self) -> list[str]:
        """The paths that are there before or after, but not both, or are others then."""
        return [path for path in (self.path, self.to) if path is not None]

    def happen(self, log_dir: Path, aside: Path) -> None:
        """Do it, in one call."""
        if self.path is None:
            assert self.to is not None
            aside.write_bytes(self.data or b"")
            os.replace(aside, log_dir / self.to)
        elif self.to is not None:
            os.replace(log_dir / self.path, log_dir / self.to)
        elif (log_dir / self.path).is_dir():
            os.replace(log_dir / self.path, aside)
        else:
            os.unlink(log_dir / self.path)


def _of(folder: str, base: int, *suffixes: str) -> list[str]:
    return [f"{folder}/{base:020d}{suffix}" for suffix in suffixes]


CHANGES = (
    *(Change(path, f"{path}.deleted") for path in _of("t-0", 0, *OF_A_SEGMENT)),
    *(Change(path, f"{path}.deleted") for path in _of("t-0", 7, ".txnindex", ".snapshot")),
    *(Change(path, f"{path}.deleted") for path in _of("t-1", 3, ".log")),
    *(Change(f"{path}.deleted") for path in _of("size-0", 0, *OF_A_SEGMENT)),
    Change(_of("size-0", 30, ".snapshot.deleted")[0]),
    *(Change(path) for path in _of("t-0", 36, ".snapshot")),
    *(Change(f"{path}.cleaned") for path in _of("t-1", 27, *OF_A_SEGMENT)),
    *(Change(f"{path}.cleaned", f"{path}.swap") for path in _of("t-1", 27, *OF_A_SEGMENT)),
    *(Change(f"{path}.swap", path) for path in _of("input-0", 0, *OF_A_SEGMENT)),
    *(Change(None, path) for path in _of("t-0", 62, *OF_A_SEGMENT)),
    Change(None, _of("input-0", 20, ".snapshot.tmp")[0]),
    Change(None, "t-0/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
    Change(None, "t-0/leader-epoch-checkpoint.tmp", b"0\n1\n0 0\n"),
    Change("t-0/leader-epoch-checkpoint"),
    Change("t-0/partition.metadata"),
    Change("recovery-point-offset-checkpoint.tmp", "recovery-point-offset-checkpoint"),
    Change(None, "replication-offset-checkpoint", b"0\n1\nt 0 62\n"),
    Change(None, "log-start-offset-checkpoint", b"0\n1\nsize 0 70\n"),
    Change(None, "cleaner-offset-checkpoint.tmp", b"0\n1\nt 1 32\n"),
    Change(None, "cleaner-offset-checkpoint", b"0\n1\nt 1 32\n"),
    Change("log-start-offset-checkpoint"),
    Change(None, "meta.properties.tmp"),
    Change(".lock"),
    Change(None, ".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":9}'),
    Change("t-1", f"t-1.{UUID}-delete"),
    Change("size-0", f"size-0.{UUID}-stray"),
    Change(f"{DOOMED}/{30:020d}.log"),
    Change(f"{DOOMED}/partition.metadata"),
    Change(DOOMED),
    Change(FUTURE_NOW, "moved-0"),
    Change("input-0"),
)


class Moment:
    """Before the n-th call that could see the change, it happens. happened: whether there were so many calls."""

    def __init__(self, change: Change, log_dir: Path, n: int) -> None:
        self._change, self._log_dir, self._left = change, log_dir, n
        self._touched = [str(log_dir / path) for path in change.touched]
        self._around = {os.path.dirname(path) for path in self._touched}
        self._lock, self.happened, self.call = threading.RLock(), False, ""

    def before(self, name: str, path: Any) -> None:
        """Called before a call of the system about a path."""
        if self.happened or not isinstance(path, str | os.PathLike):
            return
        where = os.path.abspath(os.fspath(path))
        if where in self._around or any(where == one or where.startswith(one + os.sep) for one in self._touched):
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    self.happened, self.call = True, f"{name} {where} by {' < '.join(_callers())}"
                    self._change.happen(self._log_dir, self._log_dir.with_name("aside"))

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """In this block it may happen."""
        with pytest.MonkeyPatch.context() as patch:
            for name in OF_THE_CALLS:
                patch.setattr(os, name, self._hook(name, getattr(os, name)))
            yield

    def _hook(self, name: str, really: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(really)
        def call(path: Any = ".", *rest: Any, **more: Any) -> Any:
            self.before(name, path)
            found = really(path, *rest, **more)
            return _Entries(found, self) if name == "scandir" else found

        return call


def _callers() -> list[str]:
    """The functions of klogtool that ask, the innermost first."""
    frames = [frame for frame in traceback.extract_stack() if f"{os.sep}klogtool{os.sep}" in frame.filename]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[:-5:-1]]


class _Entries:
    """What os.scandir gives; the entries tell when they ask the system."""

    def __init__(self, really: Any, moment: Moment) -> None:
        self._really, self._moment = really, moment

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> _Entry:
        return _Entry(next(self._really), self._moment)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *error: object) -> None:
        self._really.close()

    def close(self) -> None:
        self._really.close()


class _Entry:
    def __init__(self, really: os.DirEntry[str], moment: Moment) -> None:
        self._really, self._moment = really, moment
        self.name, self.path = really.name, really.path

    def __fspath__(self) -> str:
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._really, name)  # the type is known from the listing

    def stat(self, **how: bool) -> os.stat_result:
        self._moment.before("stat", self.path)
        return self._really.stat(**how)
