"""Files that are announced are read before they are opened: the same bytes, of the same file, and never for ever."""

from __future__ import annotations

import os
import pathlib
import random
import threading
from collections.abc import Iterator

import pytest

from klogtool.errors import KlogError
from klogtool.log import expected_files, gentle
from klogtool.log.expected_files import announced
from klogtool.log.file import LogFile

SIZES = [0, 1, 4096, 70_000, gentle.CHUNK_BYTES, 2 * gentle.CHUNK_BYTES + 17]


@pytest.fixture(autouse=True)
def gently() -> Iterator[None]:
    gentle.begin_gently()
    yield
    gentle.end_gently()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread of each read."""
    threads, read = list[threading.Thread](), os.preadv

    def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
        threads.append(threading.current_thread())
        return read(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)
    return threads


def make_files(folder: pathlib.Path, sizes: list[int]) -> dict[str, bytes]:
    files = {str(folder / f"{n:03d}.log"): random.Random(n).randbytes(size) for n, size in enumerate(sizes)}
    for path, data in files.items():
        pathlib.Path(path).write_bytes(data)
    return files


def wait_until_read(path: str) -> None:
    expected = expected_files._expected_now()
    assert expected is not None
    with expected._changed:
        assert expected._changed.wait_for(lambda: expected._files[path].is_done, timeout=60)


def test_the_same_bytes(tmp_path: pathlib.Path) -> None:
    """Of files of all sizes, many more than are read ahead; some are opened twice, some never, some are not there."""
    files = make_files(tmp_path, [SIZES[n % len(SIZES)] for n in range(60)])
    for n, path in enumerate(announced([*files], lambda path: [path, path + ".missing"])):
        for _ in range(n % 3):
            with LogFile(path) as file:
                assert file.read(0, len(files[path]) + 10) == files[path]


def test_what_was_read_before_is_not_read_again(tmp_path: pathlib.Path, reads: list[threading.Thread]) -> None:
    files = make_files(tmp_path, [100_000] * 10)
    for n, path in enumerate(announced([*files], lambda path: [path])):
        if n:
            wait_until_read(path)
        with LogFile(path) as file:
            assert file.read(0, file.size) == files[path]
    assert len(reads) == 10
    assert reads.count(threading.current_thread()) == 1  # the first file


def test_another_file_of_the_name_and_what_was_added(tmp_path: pathlib.Path) -> None:
    first, replaced, grown, cut = files = [*make_files(tmp_path, [5000] * 4)]
    steps = announced(files, lambda path: [path])
    assert next(steps) == first
    for path in files[1:]:
        wait_until_read(path)
    (tmp_path / "new").write_bytes(b"another")
    os.replace(tmp_path / "new", replaced)
    with open(grown, "ab") as file:
        file.write(b"more")
    os.truncate(cut, 100)
    assert [*steps] == files[1:]
    with LogFile(replaced) as file:
        assert file.read(0, 10_000) == b"another"
    with LogFile(grown) as file:
        assert file.read(4990, 100)[-4:] == b"more"
    with LogFile(cut) as file:
        assert len(file.read(0, 10_000)) == 100


def test_an_error_of_the_disk_is_told_when_its_bytes_are_wanted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, read, bad = make_files(tmp_path, [20_000] * 3), os.preadv, [*make_files(tmp_path, [20_000] * 3)][1]

    def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
        if os.path.samestat(os.fstat(fd), os.stat(bad)) and position + sum(map(len, buffers)) > 8192:
            raise OSError(5, "Input/output error")
        return read(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)
    for path in announced([*files], lambda path: [path]):
        with LogFile(path) as file:
            assert file.read(0, 4096) == files[path][:4096]
            if path == bad:
                with pytest.raises(KlogError, match="input/output error"):
                    file.read(4096, 10_000)


def test_memory_is_bounded_where_nobody_takes_what_was_read(tmp_path: pathlib.Path) -> None:
    files = [*make_files(tmp_path, [gentle.CHUNK_BYTES // 2] * 30)]
    for _ in announced(files, lambda path: [path]):
        pass
    expected = expected_files._expected_now()
    assert expected is not None
    most = expected_files.AHEAD_BYTES + (expected_files.THREADS - 1) * gentle.CHUNK_BYTES
    assert expected._held_bytes <= most
    with LogFile(files[-1]) as file:
        assert file.read(0, 10)


def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have(tmp_path: pathlib.Path) -> None:
    files = make_files(tmp_path, [5000] * 3)
    steps = announced([*files], lambda path: [path])
    next(steps)
    expected = expected_files._expected_now()
    assert expected is not None
    with expected._changed:
        if (pid := os.fork()) == 0:
            with LogFile([*files][1]) as file:
                os._exit(0 if file.read(0, 5000) == files[file.path] else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_nothing_is_read_ahead_where_reading_is_not_gentle(
    tmp_path: pathlib.Path, reads: list[threading.Thread]
) -> None:
    gentle.end_gently()
    files = [*make_files(tmp_path, [5000] * 3)]
    assert [*announced(files, lambda path: [path])] == files
    assert not reads
