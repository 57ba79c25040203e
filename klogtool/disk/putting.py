"""Writes files, syncs them, and checks that they are as intended."""

from __future__ import annotations

from klogtool.broker.content import Content, content_size
from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk
from klogtool.disk.read_behind import ReadBehind
from klogtool.disk.readback import check_size, check_written

STRETCH_BYTES = 32 << 20  # a larger file is synced and read back during the write; a smaller one after it


def put(disk: Disk, path: str, content: Content, like: FileAttributes | None) -> None:
    """Write a new file, sync it and read it back. Raises as `Disk.write` and `check_written` do."""
    if content_size(content) <= STRETCH_BYTES:
        disk.write(path, content, like)
        disk.sync(path)
        check_written(path, content)
        return
    with ReadBehind(path, content, STRETCH_BYTES) as reader:
        disk.write(path, content, like, reader.reach)
        disk.sync(path)
        reader.finish()


def copy(disk: Disk, path: str, content: Content, like: FileAttributes | None) -> None:
    """Copy pieces of other files to a new file, and sync it. The kernel copies, so only the size is checked. Raises as
    `put`."""
    disk.write(path, content, like)
    disk.sync(path)
    check_size(path, content)
