"""A progress bar on stderr: bytes, bytes a second, time left. There is none if stderr is not a terminal."""

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


LEAST_BYTES = 64 << 20  # less is read too quickly for a bar


def with_progress_bar(
    work: Callable[[Callable[[int], None] | None], Result], paths: Iterable[str], *, wanted: bool
) -> Result:
    """Do the work and return its result. `work` gets a function to call with the number of bytes read; None without a
    bar."""
    total = sum(_size(path) for path in paths) if wanted and _on_terminal() else 0
    if total < LEAST_BYTES:
        return work(None)
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        return work(lambda size: bar.advance(task, size))


def _on_terminal() -> bool:
    """Whether stderr is a terminal and the dump does not go to it too, where a bar would disturb it.

    False if stdout is a pipe, because it may lead to a pager on the same terminal.
    """
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty() or sys.stdout.isatty():
        return False
    return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
