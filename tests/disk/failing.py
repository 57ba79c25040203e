"""A disk that refuses: from the n-th verb on, or only that one."""

from __future__ import annotations

import errno
import os
from typing import Any

from klogtool.disk.disk import Disk

NEEDS_ROOM = ("write", "extend", "mkdir", "link")
VERBS = (*NEEDS_ROOM, "rename", "delete", "rmdir", "truncate", "describe", "sync", "sync_dir")


class FailingDisk(Disk):
    """number: of the error. once: the next verbs work again; else those fail that have to fail by such an error."""

    def __init__(self, fails_at: int, number: int, *, once: bool) -> None:
        self.fails_at, self.number, self.once = fails_at, number, once
        self.done = 0
        self.failed = False

    def verb(self, name: str, given: tuple[Any, ...]) -> None:
        n, self.done = self.done, self.done + 1
        fails = n == self.fails_at if self.once else n >= self.fails_at
        if fails and (self.once or self.number != errno.ENOSPC or name in NEEDS_ROOM):
            self.failed = True
            raise OSError(self.number, os.strerror(self.number), given[0])
        if name not in ("sync", "sync_dir"):
            getattr(Disk, name)(self, *given)


def _verb(name: str) -> Any:
    return lambda self, *given: self.verb(name, given)


for _name in VERBS:
    setattr(FailingDisk, _name, _verb(_name))
