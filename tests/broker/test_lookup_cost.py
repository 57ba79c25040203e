"""A lookup reads a few pages, and so does loading after a clean stop: whatever the size of the log."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sparse_logs import FIRST_MS, make_sparse_log

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load

PAGES = 16 * 4096
GIB = 1 << 30
SIZES = {
    "1 MiB": (1 << 20, 1 << 12, GIB),
    "64 MiB, large indexes": (64 << 20, 1 << 12, GIB),
    "1 GiB": (GIB, 1 << 18, GIB),
    "10 GiB": (10 * GIB, 1 << 21, GIB),
    "many segments": (GIB, 1 << 18, 1 << 22),
}


class Count:
    """Bytes that were read meanwhile."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Count]:
    count, real = Count(), os.pread

    def pread(fd: int, size: int, position: int) -> bytes:
        data = real(fd, size, position)
        count.bytes += len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", pread)
        yield count


@pytest.mark.parametrize("size", SIZES)
def test_bytes_that_are_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    total, batch_bytes, segment_bytes = SIZES[size]
    end = make_sparse_log(tmp_path / "t-0", size=total, batch_bytes=batch_bytes, segment_bytes=segment_bytes)
    with counted(monkeypatch) as loading:
        loaded = load(str(tmp_path / "t-0"), Circumstances(now_ms=0), jobs=1)
    assert (loaded.log_end_offset, loading.bytes < PAGES) == (end, True)
    for offset in (0, 1, end // 3, end // 2, end - 1):
        with counted(monkeypatch) as looking:
            assert loaded.lookup_offset(offset).base_offset == offset
            assert loaded.read(offset, 1).fetched.base_offset == offset
        assert looking.bytes < PAGES
    for offset in (0, end // 3, end - 1):
        with counted(monkeypatch) as looking:
            found = loaded.lookup_timestamp(FIRST_MS + offset * 1000).found
        assert found is not None
        assert found.offset == offset
        assert looking.bytes < PAGES + batch_bytes + 4096 * len(loaded.log.segments)  # the batch is opened
