"""Files opened to be read and nothing else: what is read, what is refused, and with which words."""

from __future__ import annotations

import errno
import gc
import os
import pathlib

import pytest

from klogtool.errors import AboveLimit, KlogError
from klogtool.log.file import LogFile, Unreadable, is_denied, read_whole, unreadable


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Ten bytes."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"0123456789")
    return path


def test_bytes_at_a_position(path: pathlib.Path) -> None:
    with LogFile(path) as file:
        assert (file.path, file.size) == (str(path), 10)
        assert file.read(0, 10) == b"0123456789"
        assert file.read(3, 4) == b"3456"
        assert file.read(8, 10) == b"89"
        assert file.read(10, 5) == file.read(99, 5) == b""
        assert file.read(0, 0) == b""


def test_into_a_buffer(path: pathlib.Path) -> None:
    buffer = bytearray(b"?" * 12)
    with LogFile(path) as file:
        assert bytes(file.read_into(buffer, 2, 6)) == b"234567"
        assert buffer == b"234567??????"
        assert bytes(file.read_into(buffer, 7, 12)) == b"789"
        assert bytes(file.read_into(buffer, 10, 12)) == b""


@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_read_that_comes_in_pieces(path: pathlib.Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system may do it for large ones."""
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, most), position))
    monkeypatch.setattr(os, "preadv", lambda fd, views, position: preadv(fd, [views[0][:most]], position))
    with LogFile(path) as file:
        assert file.read(1, 8) == b"12345678"
        assert file.read(5, 50) == b"56789"
        assert bytes(file.read_into(bytearray(20), 1, 8)) == b"12345678"


def test_mapped(path: pathlib.Path) -> None:
    path.write_bytes(bytes(5000) + b"0123456789" * 1000)
    with LogFile(path) as file:
        for position, size in ((0, 10), (4999, 3), (5003, 9000), (14_990, 10)):
            assert bytes(file.map(position, size)) == file.read(position, size)
        assert bytes(file.map(14_990, 1 << 40)) == b"0123456789"
        assert file.map(0, 10).readonly


def test_the_size_is_that_of_the_opening(path: pathlib.Path) -> None:
    with LogFile(path) as file:
        os.truncate(path, 4)
        assert (file.size, file.read(0, 10)) == (10, b"0123")
    with LogFile(path) as file:
        assert file.size == 4


def test_a_closed_file_is_not_read_from_another(path: pathlib.Path) -> None:
    """Its number may belong to somebody else by then."""
    file = LogFile(path)
    file.close()
    file.close()
    with open(path, "rb"), pytest.raises(Unreadable):
        file.read(0, 1)


def test_nothing_stays_open(path: pathlib.Path) -> None:
    gc.collect()  # what another test left open would be closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    with LogFile(path):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    with pytest.raises(Unreadable):
        LogFile(path.parent)
    assert len(os.listdir("/proc/self/fd")) == before


# ---------------------------------------------------------------- what cannot be read


def refusal(path: pathlib.Path) -> Unreadable:
    with pytest.raises(Unreadable) as found:
        LogFile(path)
    assert found.value.path == str(path)
    return found.value


def test_no_such_file(tmp_path: pathlib.Path) -> None:
    error = refusal(tmp_path / "none.log")
    assert (str(error), error.kafka_class) == (f"{tmp_path}/none.log: no such file or directory", "NoSuchFileException")
    assert error.errno == errno.ENOENT


def test_a_folder(tmp_path: pathlib.Path) -> None:
    error = refusal(tmp_path)
    assert (error.reason, error.kafka_class, error.errno) == ("a folder, not a file", "IOException", None)
    with LogFile(tmp_path, or_folder=True) as file:
        assert file.size == 0
        with pytest.raises(Unreadable, match="at byte 0: is a directory"):
            file.read(0, 1)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    fifo = tmp_path / "fifo.log"
    os.mkfifo(fifo)
    assert refusal(fifo).reason == "a FIFO, not a file"
    device = tmp_path / "device.log"
    device.symlink_to("/dev/null")
    assert refusal(device).reason == "a device, not a file"
    with pytest.raises(Unreadable, match="a FIFO"):
        LogFile(fifo, or_folder=True)


def test_an_io_error_says_where(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad sector behind the fourth byte."""
    pread, preadv = os.pread, os.preadv

    def broken(position: int) -> None:
        if position >= 4:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def broken_pread(fd: int, size: int, position: int) -> bytes:
        broken(position)
        return pread(fd, min(size, 4 - position), position)

    def broken_preadv(fd: int, views: list[memoryview], position: int) -> int:
        broken(position)
        return preadv(fd, [views[0][: 4 - position]], position)

    monkeypatch.setattr(os, "pread", broken_pread)
    monkeypatch.setattr(os, "preadv", broken_preadv)
    with LogFile(path) as file:
        assert file.read(1, 3) == b"123"
        for read in (lambda: file.read(1, 5), lambda: file.read_into(bytearray(5), 1, 5)):
            with pytest.raises(Unreadable) as found:
                read()
            assert (found.value.position, found.value.errno, found.value.path) == (4, errno.EIO, str(path))
            assert found.value.kafka_class == "IOException"


def test_an_error_without_words(path: pathlib.Path) -> None:
    error = unreadable("p", OSError("odd"), 3)
    assert (str(error), error.errno) == ("p: at byte 3: odd", None)


# ---------------------------------------------------------------- small files


def test_read_whole(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert read_whole(path, limit=10) == b"0123456789"
    with pytest.raises(AboveLimit, match="10 bytes are more than this kind of file can have") as found:
        read_whole(path, limit=9)
    assert found.value.path == str(path)
    with pytest.raises(KlogError):
        read_whole(tmp_path, limit=9)


def test_only_the_systems_no_is_a_denial(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker renames and deletes a file between any two calls that name it: what is gone is not denied."""
    (fifo := path.with_suffix(".fifo")).parent.joinpath("link").symlink_to("nowhere")
    os.mkfifo(fifo)
    gone, link = path.with_suffix(".gone"), path.parent / "link"
    assert not any(is_denied(str(one)) for one in (path, path.parent, fifo, gone, link))
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
    assert is_denied(str(path))
