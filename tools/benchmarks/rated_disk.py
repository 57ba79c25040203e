"""A disk that gives a known rate: a file as a loop device, and a control group that limits its reads.

Its bytes come out of the page cache of the disk below, so that only the limit decides how fast they come. Needs root.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
from types import TracebackType

RATE = 250_000_000  # bytes a second, as a disk of a cloud gives them
GROUPS = pathlib.Path("/sys/fs/cgroup")
OWN_GROUP = f"klogtool-bench-{os.getpid()}"


class CannotMakeDisk(Exception):
    """No such disk here, and why."""


class RatedDisk:
    """A file system of `size` bytes in FOLDER/rated. In a `with` statement, in which this process, and those that it
    starts, read from it at RATE."""

    def __init__(self, folder: pathlib.Path, size: int) -> None:
        self._size, self._image, self._mounted = size, folder / "rated.img", folder / "rated"
        self._device = ""

    def __enter__(self) -> pathlib.Path:
        try:
            self._make()
            self._limit()
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            raise CannotMakeDisk(str(error)) from error
        return self._mounted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        self._image.touch()
        os.truncate(self._image, self._size)
        self._mounted.mkdir(exist_ok=True)
        self._device = _said_by("losetup", "--find", "--show", str(self._image))
        _said_by("mkfs.ext4", "-q", self._device)
        _said_by("mount", self._device, str(self._mounted))

    def _limit(self) -> None:
        """Put this process into a control group with a limit: of version 1, or else of version 2."""
        number = os.stat(self._device).st_rdev
        device = f"{os.major(number)}:{os.minor(number)}"
        is_first = (GROUPS / "blkio").is_dir()
        group = (GROUPS / "blkio" if is_first else GROUPS) / OWN_GROUP
        group.mkdir()
        if is_first:
            (group / "blkio.throttle.read_bps_device").write_text(f"{device} {RATE}")
        else:
            (group / "io.max").write_text(f"{device} rbps={RATE}")
        (group / "cgroup.procs").write_text(str(os.getpid()))

    def _remove(self) -> None:
        for group in (GROUPS / "blkio", GROUPS):
            if (group / OWN_GROUP).is_dir():
                (group / "cgroup.procs").write_text(str(os.getpid()))
                (group / OWN_GROUP).rmdir()
        if os.path.ismount(self._mounted):
            _said_by("umount", str(self._mounted))
        if self._device:
            _said_by("losetup", "--detach", self._device)
        self._image.unlink(missing_ok=True)


def _said_by(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()
