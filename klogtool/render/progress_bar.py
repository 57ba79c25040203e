"""A progress bar on stderr for work that takes long. There is none if stderr is not a terminal.

The bar itself is in `drawn_bar`, which takes 20 ms to import: a command that draws no bar does without it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from klogtool.log.log_files import count_partitions, log_files

if TYPE_CHECKING:
    from klogtool.render.drawn_bar import DrawnBar

    Result = TypeVar("Result")


LEAST_BYTES = 64 << 20  # less is read too quickly for a bar
LEAST_PARTITIONS = 100  # fewer are done too quickly for a bar, unless they have LEAST_BYTES


class Bar:
    """A progress bar that is hidden while something is printed, even on the same terminal.

    There is no bar if stderr is not a terminal, or if stdout is a pipe: it may lead to a pager on the same terminal.
    """

    def __init__(self, total: int, *, wanted: bool, partitions: int = 0) -> None:
        """total: bytes to read. partitions: how many there are, 0 if they are not counted."""
        is_long = total >= LEAST_BYTES or partitions >= LEAST_PARTITIONS
        self._bar: DrawnBar | None = None
        if wanted and is_long and is_drawn():
            from klogtool.render.drawn_bar import DrawnBar  # needs rich, which is slow to import

            self._bar = DrawnBar(total, has_text=partitions > 0)
        self._partitions, self._done = partitions, 0
        self._tell()

    def advance(self, size: int) -> None:
        """Add bytes that were read. May be called from any thread."""
        if self._bar is not None:
            self._bar.advance(size)

    def advance_partition(self, size: int = 0) -> None:
        """Add a finished partition. size: bytes of it that `advance` did not count."""
        self._done += 1
        self._tell()
        self.advance(size)

    def _tell(self) -> None:
        if self._bar is not None and self._partitions:
            self._bar.tell(f"{self._done:,} of {self._partitions:,} partitions")

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.show()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.hide()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the bar while something else is printed in this context."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


def with_progress_bar(
    work: Callable[[Callable[[int], None] | None], Result], paths: Iterable[str], *, wanted: bool
) -> Result:
    """Do the work of a dump and return its result. `work` gets a function to call with the number of bytes read; None
    without a bar.

    There is no bar if stdout is a terminal: it would disturb the dump.
    """
    total = total_size(paths) if wanted and is_drawn() and not sys.stdout.isatty() else 0
    if total < LEAST_BYTES:
        return work(None)
    with Bar(total, wanted=True) as bar:
        return work(bar.advance)


def bar_over(paths: Sequence[str], *, wanted: bool, in_bytes: bool = True) -> Bar:
    """Return a bar over the partitions under the paths, and over the bytes of their logs, unless these are not wanted.
    Where no bar is drawn, nothing is counted."""
    if not (wanted and is_drawn()):
        return Bar(0, wanted=False)
    return Bar(total_size(log_files(paths)) if in_bytes else 0, partitions=count_partitions(paths), wanted=True)


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
