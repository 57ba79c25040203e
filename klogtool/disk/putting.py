"""Files that are written, synced, and known to be what was to be written."""

from __future__ import annotations

from klogtool.broker.content import Content, content_size
from klogtool.disk.about import About
from klogtool.disk.disk import Disk
from klogtool.disk.read_behind import ReadBehind
from klogtool.disk.readback import check_size, check_written

STRETCH_BYTES = 32 << 20  # synced and read behind the writing; a smaller file is read when it is written


def put(disk: Disk, path: str, content: Content, like: About | None) -> None:
    """A new file, synced and read back. Raises as `Disk.write` and `check_written` do."""
    if content_size(content) <= STRETCH_BYTES:
        disk.write(path, content, like)
        disk.sync(path)
        check_written(path, content)
        return
    with ReadBehind(path, content, STRETCH_BYTES) as reader:
        disk.write(path, content, like, reader.reach)
        disk.sync(path)
        reader.finish()


def copy(disk: Disk, path: str, content: Content, like: About | None) -> None:
    """A new file of pieces of others, synced. The system copies them: only its size is checked. Raises as `put`."""
    disk.write(path, content, like)
    disk.sync(path)
    check_size(path, content)
