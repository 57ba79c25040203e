"""A disk that fails after so many calls."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import Any

from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk
from klogtool.plans.image_log import BlankedChunk


class StoppedHere(OSError):
    """The disk has failed."""


class DyingDisk(Disk):
    """Fails at the call after `calls` others; what is deleted after that is deleted."""

    def __init__(self, calls: int) -> None:
        self._left = calls

    def _count(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise StoppedHere(errno.EIO, "the disk has failed")

    def write(self, *args: Any, **more: Any) -> None:
        self._count()
        super().write(*args, **more)

    def write_parts(self, path: str, pieces: Iterable[BlankedChunk], like: FileAttributes) -> None:
        self._count()
        super().write_parts(path, self._counted(pieces), like)

    def _counted(self, pieces: Iterable[BlankedChunk]) -> Iterator[BlankedChunk]:
        """Also fails between two pieces of a file, and before its end."""
        for piece in pieces:
            yield piece
            self._count()

    def describe(self, *args: Any) -> None:
        self._count()
        super().describe(*args)

    def rename(self, *args: Any) -> None:
        self._count()
        super().rename(*args)

    def mkdir(self, *args: Any) -> None:
        self._count()
        super().mkdir(*args)

    def sync(self, *args: Any) -> None:
        self._count()
        super().sync(*args)

    def sync_dir(self, *args: Any) -> None:
        self._count()
        super().sync_dir(*args)
