"""Bytes of files leave by the system's own ways, or through memory where there are none; the same bytes either way."""

from __future__ import annotations

import errno
import os
import pathlib
import threading

import pytest

from klogtool.broker.content import Content, FileRange
from klogtool.disk import moving
from klogtool.errors import Changed, KlogError

SIZE = 3 * moving.BUFFER_BYTES + 17
WAYS: dict[str, tuple[str, ...]] = {
    "system": (),
    "no copying": ("copy_file_range",),
    "by hand": ("copy_file_range", "sendfile"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without these calls of the system, in turn."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    for name in WAYS[request.param]:
        monkeypatch.setattr(os, name, refuse)
    return str(request.param)


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(SIZE))
    return path


def content_of(source: pathlib.Path) -> tuple[Content, bytes]:
    data = source.read_bytes()
    return (b"head", FileRange(str(source), 5, SIZE - 3), b"", FileRange(str(source), 0, 9)), b"head" + data[
        5:-3
    ] + data[:9]


def read_all(pipe: int, into: list[bytes]) -> None:
    while piece := os.read(pipe, 1 << 16):
        into.append(piece)


def test_to_a_file(way: str, source: pathlib.Path) -> None:
    content, expected = content_of(source)
    with source.with_name("sink").open("wb") as sink:
        sink.write(b"before ")
        sink.flush()
        moving.send(sink.fileno(), content)
    assert source.with_name("sink").read_bytes() == b"before " + expected


@pytest.mark.parametrize("blocking", [True, False])
def test_to_a_pipe(way: str, source: pathlib.Path, blocking: bool) -> None:
    content, expected = content_of(source)
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    found: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(reading, found))
    reader.start()
    try:
        moving.send(writing, content)
    finally:
        os.close(writing)
        reader.join()
        os.close(reading)
    assert b"".join(found) == expected


def test_a_file_that_has_become_shorter(way: str, source: pathlib.Path) -> None:
    piece = FileRange(str(source), 0, SIZE + 1)
    with source.with_name("sink").open("wb") as sink, pytest.raises(Changed) as told:
        moving.send(sink.fileno(), (piece,))
    assert (told.value.path, told.value.position) == (str(source), SIZE)


def test_a_file_that_is_gone_and_a_pipe_that_nobody_reads(source: pathlib.Path) -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(KlogError):
            moving.send(writing, (FileRange(str(source) + "-not", 0, 1),))
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            moving.send(writing, (FileRange(str(source), 0, SIZE),))
    finally:
        os.close(writing)


def test_a_full_disk_is_told(source: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    with source.with_name("sink").open("wb") as sink, pytest.raises(OSError, match="No space"):
        moving.send(sink.fileno(), (FileRange(str(source), 0, SIZE),))
