"""Files of /proc and /sys, under a root: numbers, limits, mounts. What cannot be read is None."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from io import FileIO

from msgspec import Struct

MOST_BYTES = 1 << 22  # of such a file; a machine with many containers has thousands of mounts
PIECE_BYTES = 1 << 14
_OCTAL = re.compile(r"\\([0-7]{3})")
_UNSAFE = frozenset({"data=writeback", "nobarrier", "barrier=0", "nobh"})


class Mount(Struct, frozen=True):
    """A line of mountinfo. point: where it is mounted. kind: of the file system. options: of the mount and of the file
    system."""

    point: str
    kind: str
    options: tuple[str, ...]

    @property
    def unsafe_options(self) -> frozenset[str]:
        """Return the options that may damage a file system at a power failure."""
        return _UNSAFE.intersection(self.options)


class HostFiles:
    """The files under a root. Each is read when it is asked for."""

    def __init__(self, root: str) -> None:
        self._root = root

    def number(self, name: str) -> int | None:
        """Return the first number of a file."""
        first = next(iter((self._text(name) or "").split()), "")
        return int(first) if first.isascii() and first.isdecimal() and len(first) <= 20 else None

    def open_files(self) -> int | None:
        """Return the soft limit of open files of this process; a very large number if there is no limit."""
        for line in (self._text("proc/self/limits") or "").splitlines():
            if line.startswith("Max open files"):
                soft = line.removeprefix("Max open files").split()[0]
                return 1 << 62 if soft == "unlimited" else int(soft) if soft.isdecimal() else None
        return None

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount that a path is on: the one with the longest mount point, the last one mounted there."""
        on_it = [each for each in self._mounts if f"{path}/".startswith(f"{each.point.rstrip('/')}/")]
        return max(reversed(on_it), key=lambda mount: len(mount.point), default=None)

    @cached_property
    def _mounts(self) -> list[Mount]:
        return list(_mounts_in(self._text("proc/self/mountinfo") or ""))

    def _text(self, name: str) -> str | None:
        try:
            with open(os.path.join(self._root, name), "rb", buffering=0) as file:
                return os.fsdecode(b"".join(_pieces(file)))
        except OSError:
            return None


def _pieces(file: FileIO) -> Iterator[bytes]:
    """Yield what a file has, up to the limit. The kernel refuses to read much of /proc/sys at once."""
    left = MOST_BYTES
    while left > 0 and (piece := file.read(PIECE_BYTES)):
        left -= len(piece)
        yield piece


def _mounts_in(text: str) -> Iterator[Mount]:
    """Parse `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc(5))."""
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        own, system = before.split(" "), after.split(" ")
        if len(own) >= 6 and len(system) >= 3:
            options = dict.fromkeys([*own[5].split(","), *system[2].split(",")])
            yield Mount(_OCTAL.sub(lambda found: chr(int(found[1], 8)), own[4]), system[0], tuple(options))
