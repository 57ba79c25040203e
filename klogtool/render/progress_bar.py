"""A progress bar for commands that print while they read: it steps aside for what is printed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable

from klogtool.render.progress import LEAST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """A progress bar that makes room for what is printed meanwhile, also on the same terminal.

    Nothing is drawn where stderr is no terminal, or stdout leads to a pipe (a pager, perhaps, on the same terminal).
    """

    def __init__(self, total: int, *, wanted: bool) -> None:
        """total: bytes that there are to read."""
        self._bar = _drawn_bar(total) if wanted and total >= LEAST_BYTES and _has_room() else None
        self._task = self._bar.add_task("", total=total) if self._bar is not None else None

    def advance(self, size: int) -> None:
        """So many more bytes have been read. May be called from any thread."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, size)

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def aside(self) -> _Aside:
        """For a `with`, while something else is printed."""
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
    """Bytes of all these files, as far as they can be seen."""
    total = 0
    for path in paths:
        try:
            total += os.path.getsize(path)
        except OSError:
            continue
    return total


def _drawn_bar(total: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )


def _has_room() -> bool:
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty():
        return False
    return sys.stdout.isatty() or not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
