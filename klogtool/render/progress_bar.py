"""A progress bar for commands that print while they read: it is hidden while something is printed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from klogtool.render.progress import LEAST_BYTES

if TYPE_CHECKING:
    from rich.progress import Progress


LEAST_PARTITIONS = 100  # fewer are done too quickly for a bar, unless they have LEAST_BYTES


class Bar:
    """A progress bar that is hidden while something is printed, even on the same terminal.

    There is no bar if stderr is not a terminal, or if stdout is a pipe: it may lead to a pager on the same terminal.
    """

    def __init__(self, total: int, *, wanted: bool, partitions: int = 0) -> None:
        """total: bytes to read. partitions: how many there are, 0 if they are not counted."""
        is_long = total >= LEAST_BYTES or partitions >= LEAST_PARTITIONS
        self._bar = _drawn_bar(partitions) if wanted and is_long and is_drawn() else None
        self._task = self._bar.add_task("", total=max(total, 1), told="") if self._bar is not None else None
        self._partitions, self._done = partitions, 0
        self._tell()

    def advance(self, size: int) -> None:
        """Add bytes that were read. May be called from any thread."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, size)

    def advance_partition(self, size: int = 0) -> None:
        """Add a finished partition. size: bytes of it that `advance` did not count."""
        self._done += 1
        self._tell()
        self.advance(size)

    def _tell(self) -> None:
        if self._bar is not None and self._task is not None and self._partitions:
            self._bar.update(self._task, told=f"{self._done:,} of {self._partitions:,} partitions")

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def aside(self) -> _Aside:
        """Return a context manager that hides the bar while something else is printed."""
        return _Aside(self._bar)


class _Aside:
    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    def __enter__(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.start()


def total_size(paths: Iterable[str]) -> int:
    """Return the bytes of all these files, without those that cannot be accessed."""
    total = 0
    for path in paths:
        try:
            total += os.path.getsize(path)
        except OSError:
            continue
    return total


def is_drawn() -> bool:
    """Whether a bar can be drawn: see `Bar`."""
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty():
        return False
    return sys.stdout.isatty() or not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)


def _drawn_bar(partitions: int) -> Progress:
    counted: list[ProgressColumn] = [TextColumn("{task.fields[told]}")] if partitions else []
    size = DownloadColumn(binary_units=True)
    return Progress(
        *(BarColumn(), *counted, size, TransferSpeedColumn(), TimeRemainingColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
