"""Real file systems on a loop device, and the disk as it is where the power fails: what the kernel has written so far.

The file behind the device has what the file system wrote to it, in the order that the kernel chose, and nothing of what
is in memory only. A copy of it is the disk after a power failure; the next mount replays its journal. Needs root.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from crash_states import CHANGING

from klogtool.disk.disk import Disk

MIB = 1 << 20
WRITEBACKS = 0.3  # so often the kernel writes something back by itself, before a call


class FileSystem(NamedTuple):
    """size: in bytes, of which the file takes what is used. is_overlaid: klogtool sees it through an overlay."""

    size: int
    make: tuple[str, ...]
    options: str = "defaults"
    is_overlaid: bool = False


_EXT4 = ("mkfs.ext4", "-q", "-F", "-I", "256", "-E", "lazy_itable_init=1,lazy_journal_init=1")
FILE_SYSTEMS = {
    "ext4": FileSystem(64 * MIB, _EXT4, "data=ordered"),
    "ext4 writeback": FileSystem(64 * MIB, _EXT4, "data=writeback"),
    "ext4 without delayed allocation": FileSystem(64 * MIB, _EXT4, "nodelalloc"),
    "xfs": FileSystem(320 * MIB, ("mkfs.xfs", "-q", "-f")),
    "btrfs": FileSystem(128 * MIB, ("mkfs.btrfs", "-q", "-f", "--mixed")),
    "overlay on ext4": FileSystem(64 * MIB, _EXT4, is_overlaid=True),
}


class RealDisk:
    """A file system in `folder`, mounted at `top`, always the same path."""

    def __init__(self, folder: pathlib.Path, kind: str) -> None:
        self.name, self._kind, self._folder = kind, FILE_SYSTEMS[kind], folder
        image, self._device_top, self.top = folder / "image", folder / "device", folder / "top"
        for path in (self._device_top, self.top):
            path.mkdir()
        image.touch()
        os.truncate(image, self._kind.size)
        _run(*self._kind.make, str(image))
        self.mount(image)

    def mount(self, image: pathlib.Path) -> None:
        """Have the file system of an image at `top`, as after the power has come back."""
        self._mounted = image
        below = self._device_top if self._kind.is_overlaid else self.top
        _run("mount", "-o", f"loop,{self._kind.options}", str(image), str(below))
        if self._kind.is_overlaid:
            parts = {name: below / name for name in ("lowerdir", "upperdir", "workdir")}
            for path in parts.values():
                path.mkdir(exist_ok=True)
            options = ",".join(f"{name}={path}" for name, path in parts.items())
            _run("mount", "-t", "overlay", "overlay", "-o", options, str(self.top))

    def unmount(self) -> None:
        for top in (self.top, self._device_top):
            if os.path.ismount(top):
                _run("umount", str(top))

    def sync(self) -> None:
        """Have all on the device."""
        _run("sync", "--file-system", str(self.top))

    def cut_power(self, name: str) -> pathlib.Path:
        """Return what the device has now, as a new image."""
        return self._copied(self._mounted, name)

    def boot(self, image: pathlib.Path) -> None:
        """Mount a copy of an image in place of what is mounted: the image stays as it is."""
        self.unmount()
        self.mount(self._copied(image, "booted"))

    def _copied(self, image: pathlib.Path, name: str) -> pathlib.Path:
        copy = self._folder / name
        _run("cp", "--sparse=always", str(image), str(copy))
        return copy


class PowerCuts(Disk):
    """Keeps an image after each call. Before some calls, the kernel writes back a file or a folder that was changed,
    as it may do at any time: chosen by a seed. name: of the images."""

    def __init__(self, disk: RealDisk, name: str, seed: str) -> None:
        self.disk, self.images = disk, list[pathlib.Path]()
        self._name, self._rng, self._calls = name, random.Random(seed), 0

    def after(self) -> None:
        """A call is done."""
        self._calls += 1
        self.images.append(self.disk.cut_power(f"{self._name}-{self._calls}"))
        if self._rng.random() < WRITEBACKS:
            self._write_back()

    def _write_back(self) -> None:
        paths = [*_walk(self.disk.top)]
        fd = os.open(self._rng.choice(paths), os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _walk(top: pathlib.Path) -> Iterator[str]:
    for folder, _, names in os.walk(top):
        yield folder
        yield from (path for name in names if os.path.isfile(path := os.path.join(folder, name)))


def _cut(name: str) -> Callable[..., None]:
    def verb(self: PowerCuts, *given: Any, **more: Any) -> None:
        getattr(Disk, name)(self, *given, **more)
        self.after()

    return verb


for _name in (*CHANGING, "sync", "sync_dir"):
    setattr(PowerCuts, _name, _cut(_name))


def skip_without(kind: str) -> None:
    """Skip where no file system can be made and mounted."""
    program = FILE_SYSTEMS[kind].make[0]
    if os.geteuid() != 0 or shutil.which(program) is None or not os.path.exists("/dev/loop-control"):
        pytest.skip(f"needs root, loop devices and {program}: not permitted here")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
