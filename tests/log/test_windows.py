"""A log in windows: every entry in one of them, whole, in order; what cannot be whole ends the last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from damage import frames_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import Reader, log_file
from vectors import BATCH, BATCHES, MAGIC_0, MESSAGES

from klogtool.log import windows
from klogtool.log.file import LogFile
from klogtool.log.windows import BEHIND_BYTES, SLACK_BYTES, BufferPool, Reads, Window, walk_windows

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


@pytest.fixture(autouse=True)
def walk(reader: Reader) -> Iterator[None]:
    """Each of both readers in turn."""
    with reader.reading():
        yield


def entry(size: int) -> bytes:
    return bytes(8) + (size - 12).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(size - 17)


def windows_of(data: bytes, **how: Any) -> list[Window]:
    with log_file(data) as path, LogFile(path) as file:
        return list(walk_windows(file, **how))


def pieces_of(found: list[Window]) -> bytes:
    """The entries of all windows, in order; each window begins where the one before it was cut."""
    at = found[0].base
    for window in found:
        assert window.base == at
        at += window.cut
    return b"".join(bytes(window.data[: window.cut]) for window in found)


@pytest.mark.parametrize("size", [1, 64, 65, 100, 200, 500, 1 << 19])
def test_every_entry_is_in_one_window(size: int) -> None:
    found = windows_of(EVERY_KIND, size=size)
    assert pieces_of(found) == EVERY_KIND
    assert [window.last for window in found] == [False] * (len(found) - 1) + [True]
    for window in found:
        assert sum(frame.size for frame in frames_of(bytes(window.data[: window.cut]))) == window.cut


def test_windows_are_as_large_as_they_were_asked_for() -> None:
    found = windows_of(entry(100) * 50, size=1000)
    assert [window.cut for window in found] == [1000] * 5
    assert {len(window.data) for window in found[:-1]} == {1000 + SLACK_BYTES}
    assert len(found[-1].data) == 1000  # the file has no more


def test_a_large_entry_gets_a_window_of_its_own() -> None:
    found = windows_of(entry(100) + entry(5000) + entry(100), size=1000)
    assert [window.cut for window in found] == [100, 5000, 100]
    assert [len(window.data) for window in found] == [1000 + SLACK_BYTES, 5000 + SLACK_BYTES, 100]


def test_a_huge_one_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAPPED_FROM_BYTES", 4000)
    mapped: list[tuple[int, int]] = []
    map_of = LogFile.map

    def spied(file: LogFile, position: int, size: int) -> memoryview:
        mapped.append((position, size))
        return map_of(file, position, size)

    monkeypatch.setattr(LogFile, "map", spied)
    found = windows_of(entry(100) + entry(5000) + entry(3900), size=1000)
    assert [window.cut for window in found] == [100, 5000, 3900]
    assert mapped == [(100, 5000 + SLACK_BYTES)]


@pytest.mark.parametrize("stop", [0, 1, 5000, 100_000, 399_950])
def test_little_is_read_behind_a_stop(stop: int) -> None:
    data = entry(100) * 4000
    found = windows_of(data, size=1 << 20, stop=stop)
    assert pieces_of(found) == data
    assert found[0].cut >= min(stop + 100, len(data))
    assert found[0].cut <= stop + BEHIND_BYTES


def test_other_ways_to_read() -> None:
    """All that is handed out comes from them, and goes back to them."""
    given: list[memoryview] = []

    class Noting(Reads):
        def read(self, at: int, size: int) -> memoryview:
            given.append(super().read(at, size))
            return given[-1]

        def read_entry(self, at: int, size: int) -> memoryview:
            given.append(super().read_entry(at, size))
            return given[-1]

        def give_back(self, view: memoryview) -> None:
            given.remove(view)

    data = entry(100) + entry(5000) + entry(100)
    with log_file(data) as path, LogFile(path) as file:
        reads = Noting(file, BufferPool())
        for window in walk_windows(file, size=200, reads=reads):
            assert [view is window.data for view in given] == [True]
            reads.give_back(window.data)
    assert not given


@pytest.mark.parametrize("size", [64, 100, 1 << 19])
@pytest.mark.parametrize("tail", [1, 11, 17, 18, 50])
def test_a_tail_is_left_out_of_the_last_window(size: int, tail: int) -> None:
    for behind in (bytes(tail), entry(60)[:tail], b"\xff" * tail):
        found = windows_of(EVERY_KIND + behind, size=size)
        assert pieces_of(found) == EVERY_KIND
        assert found[-1].last
        assert bytes(found[-1].data[found[-1].cut :]) == behind


@pytest.mark.parametrize("data", [b"", b"x", bytes(17), bytes(18), entry(60)[:59]])
def test_without_an_entry_there_is_one_window(data: bytes) -> None:
    (window,) = windows_of(data)
    assert (window.base, window.cut, window.last, bytes(window.data)) == (0, 0, True, data)


def test_from_a_start_to_an_end() -> None:
    data = entry(100) * 10
    for size in (64, 250, 1 << 19):
        found = windows_of(data, start=200, end=650, size=size)
        assert found[0].base == 200
        assert pieces_of(found) == entry(100) * 4
        assert found[-1].last
        assert pieces_of(windows_of(data, end=10_000, size=size)) == data
        assert pieces_of(windows_of(data, start=1000, size=size)) == b""


@pytest.mark.parametrize("size", range(64, 200, 9))
def test_a_header_lies_behind_every_entry_unless_the_file_ends(size: int) -> None:
    """A batch may say it is shorter than its header; Kafka reads the rest behind it."""
    data = entry(26) * 40
    for window in windows_of(data, size=size):
        rest = len(data) - window.base - window.cut
        assert len(window.data) - window.cut >= min(rest, SLACK_BYTES)


def test_a_file_that_was_cut_meanwhile_ends_where_it_ends() -> None:
    for size in (0, 5, 17, 18, 99, 100, 150, 250):
        with log_file(entry(100) * 3) as path, LogFile(path) as file:
            os.truncate(path, size)
            for window_size in (64, 110, 1 << 19):
                found = list(walk_windows(file, size=window_size))
                assert pieces_of(found) == entry(100) * (size // 100)
                assert found[-1].last


sizes = st.lists(st.integers(26, 300), max_size=12)


@given(sizes, st.binary(max_size=20), st.integers(1, 700))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_log_in_any_windows(lengths: list[int], tail: bytes, size: int) -> None:
    data = b"".join(map(entry, lengths)) + tail
    whole = sum(frame.size for frame in frames_of(data))
    assert pieces_of(windows_of(data, size=size)) == data[:whole]


# ---------------------------------------------------------------- buffers


def test_a_buffer_that_was_given_back_is_used_again() -> None:
    pool = BufferPool()
    buffer = pool.take(100)
    assert len(buffer) >= 100
    assert pool.take(100) is not buffer
    pool.give_back(memoryview(buffer)[:10])
    assert pool.take(50) is buffer


def test_a_buffer_that_is_too_small_is_not() -> None:
    pool = BufferPool()
    pool.give_back(memoryview(bytearray(10)))
    assert len(pool.take(100)) >= 100


def test_what_is_no_buffer_of_the_pools_is_let_go() -> None:
    pool = BufferPool()
    pool.give_back(memoryview(b"mapped, or whatever"))
    assert bytes(pool.take(3)) == bytes(3)


def test_windows_take_their_buffers_from_the_pool() -> None:
    """Two windows at a time: the second's buffer is the first's only if that was given back."""
    for given_back, distinct in ((True, 1), (False, 5)):
        pool, buffers = BufferPool(), []
        with log_file(entry(100) * 5) as path, LogFile(path) as file:
            for window in walk_windows(file, size=100, pool=pool):
                buffers.append(window.data.obj)
                if given_back:
                    pool.give_back(window.data)
        assert len({id(buffer) for buffer in buffers}) == distinct


def test_a_window_says_where_it_lies() -> None:
    first, second = windows_of(MAGIC_0.data + BATCH.data, size=64)
    assert (first.base, first.cut, second.base, second.cut) == (0, 28, 28, 81)
