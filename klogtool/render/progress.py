"""A progress bar on stderr: bytes, bytes a second, time left. For people only: where stderr is no terminal, none."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

if TYPE_CHECKING:
    Result = TypeVar("Result")


LEAST_BYTES = 64 << 20  # less is read before a bar is drawn


def with_progress_bar(
    work: Callable[[Callable[[int], None] | None], Result], paths: Iterable[str], *, wanted: bool
) -> Result:
    """The work's result. It is given a function to tell of bytes read, of all that the files have; None for no bar."""
    total = sum(_size(path) for path in paths) if wanted and _on_terminal() else 0
    if total < LEAST_BYTES:
        return work(None)
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        return work(lambda size: bar.advance(task, size))


def _on_terminal() -> bool:
    """Whether somebody looks at stderr, and not at the dump itself, which a bar would disturb.

    A pipe may lead to a pager, on the same terminal.
    """
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty() or sys.stdout.isatty():
        return False
    return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
