"""Whether there is enough space, before anything is written."""

from __future__ import annotations

import os
from collections.abc import Mapping

from klogtool.disk.causes import RunRefusal
from klogtool.errors import Refused

BLOCK_BYTES = 4096  # allocation unit: the smallest size of a file on disk, and the most that its last block wastes


def check_space(needed: Mapping[str, int], *, is_undone: bool = False) -> None:
    """Raises Refused if a file system does not have enough free space. needed: bytes by folder; folders of one file
    system are added up. is_undone: the bytes are for undo, which can be elsewhere, or left out."""
    by_device: dict[int, tuple[str, int]] = {}
    for folder, size in needed.items():
        device = os.stat(folder).st_dev
        first, sum_so_far = by_device.get(device, (folder, 0))
        by_device[device] = (first, sum_so_far + size)
    for folder, size in by_device.values():
        free = free_bytes(folder)
        if size > free:
            raise Refused(
                RunRefusal.NO_SPACE(size=size, free=free),
                path=folder,
                cure=RunRefusal.OTHER_PLACES() if is_undone else None,
            )


def free_bytes(folder: str) -> int:
    """Return the bytes that this process may still write to the folder's file system."""
    status = os.statvfs(folder)
    return status.f_frsize * (status.f_bfree if os.geteuid() == 0 else status.f_bavail)


def on_disk(path: str, size: int) -> int:
    """Return the bytes on disk that a copy of the first `size` bytes takes; holes stay holes."""
    return min(size, os.stat(path).st_blocks * 512) + BLOCK_BYTES


def whole_blocks(size: int) -> int:
    """Return a size, rounded up to whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
