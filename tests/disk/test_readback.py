"""A large file is read back behind whoever writes it: what does not read as it was written is noticed, wherever."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from collections.abc import Callable

import pytest

from klogtool.broker.content import Content, FileRange, read_content
from klogtool.disk import disk as disk_module
from klogtool.disk import putting, readback
from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk
from klogtool.errors import Changed

STRETCH = 8 << 10
PIECE = 4 << 10
SIZE = 5 * STRETCH + 123
HOLE = 3 * STRETCH


class MeddlingDisk(Disk):
    """Changes bytes of a file once it is written so far, or fails there."""

    def __init__(self, at: int, meddle: Callable[[str], None]) -> None:
        self.at, self.meddle, self.is_done = at, meddle, False

    def write(
        self, path: str, content: Content, like: FileAttributes | None = None, *reached: Callable[[int], None]
    ) -> None:
        def reach(position: int) -> None:
            if position >= self.at and not self.is_done:
                self.is_done = True
                self.meddle(path)
            for tell in reached:
                tell(position)

        super().write(path, content, like, reach)


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(putting, "STRETCH_BYTES", STRETCH)
    monkeypatch.setattr(readback, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(disk_module, "PART_BYTES", STRETCH // 2)


@pytest.fixture
def content(tmp_path: pathlib.Path) -> Content:
    """Of a file with a hole in it and one at its end, and of new bytes."""
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.write(os.urandom(SIZE))
        file.seek(HOLE, os.SEEK_CUR)
        file.write(os.urandom(SIZE))
        file.truncate(2 * SIZE + 2 * HOLE)
    whole = FileRange(str(source), 0, source.stat().st_size)
    return (b"head", whole, os.urandom(STRETCH), FileRange(str(source), 7, SIZE), whole)


def threads() -> int:
    return sum(thread.name in ("read back", "sync") for thread in threading.enumerate())


def test_what_is_right_is_found_right(content: Content, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "target"
    putting.put(Disk(), str(target), content, None)
    assert target.read_bytes() == read_content(content)
    assert not threads()


@pytest.mark.parametrize("position", [0, 3, STRETCH, 2 * STRETCH + PIECE - 1, SIZE + HOLE // 2, -HOLE - 1])
def test_a_byte_that_is_another_one_is_found(content: Content, tmp_path: pathlib.Path, position: int) -> None:
    size = len(read_content(content))
    at = position % size

    def flip(path: str) -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1) or b"\0"  # in a hole that nothing lies behind so far
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))

    with pytest.raises(OSError, match="gives other bytes than were written") as caught:
        putting.put(MeddlingDisk(at + 1, flip), str(tmp_path / "target"), content, None)
    assert caught.value.errno == errno.EIO
    told = int(str(caught.value).split("from byte ")[1].split()[0])
    assert told <= at < told + PIECE
    assert not threads()


@pytest.mark.parametrize("change", [-1, 1, -SIZE])
def test_another_size_is_found(content: Content, tmp_path: pathlib.Path, change: int) -> None:
    class Resizing(Disk):
        def sync(self, path: str) -> None:
            os.truncate(path, os.stat(path).st_size + change)

    with pytest.raises(OSError, match="gives other bytes than were written"):
        putting.put(Resizing(), str(tmp_path / "target"), content, None)
    assert not threads()


@pytest.mark.parametrize("at", [1, SIZE, 2 * SIZE])
def test_an_error_of_the_writing_is_told_and_nothing_stays(content: Content, tmp_path: pathlib.Path, at: int) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.ENOSPC, "no room", path)

    with pytest.raises(OSError, match="no room"):
        putting.put(MeddlingDisk(at, fail), str(tmp_path / "target"), content, None)
    assert not (tmp_path / "target").exists()
    assert not threads()


def test_an_error_of_the_syncing_behind_is_told(
    content: Content, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells of an error once: who syncs the file afterwards may not hear of it."""

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the device gave up")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="the device gave up"):
        putting.put(Disk(), str(tmp_path / "target"), content, None)
    assert not threads()


def test_a_source_that_becomes_shorter_is_told(content: Content, tmp_path: pathlib.Path) -> None:
    def cut(_: str) -> None:
        os.truncate(tmp_path / "source", SIZE)

    with pytest.raises(Changed, match="became shorter"):
        putting.put(MeddlingDisk(STRETCH, cut), str(tmp_path / "target"), content, None)
    assert not threads()
