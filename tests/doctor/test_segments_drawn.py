"""Segments for a drawing: where they begin and end in offsets and time, and how little of them is read."""

from __future__ import annotations

import os
import pathlib

import pytest
from damage import overwrite
from msgspec.structs import replace
from sparse_logs import FIRST_MS, make_sparse_log

from klogtool.doctor.answers import Ahead, Prospect, What, Work
from klogtool.doctor.partitions import Rehearsed
from klogtool.doctor.segments_drawn import MOST_DRAWN, draw_segments, with_segments
from klogtool.log.frames import FIRST_CHUNK_BYTES

BATCH, SEGMENT = 1 << 12, 1 << 14  # four batches of one offset and one second in each segment


def make(folder: pathlib.Path, segments: int) -> str:
    make_sparse_log(folder / "t-0", size=segments * SEGMENT, batch_bytes=BATCH, segment_bytes=SEGMENT)
    return str(folder / "t-0")


def log_at(path: str, base: int, kind: str = "log") -> pathlib.Path:
    return pathlib.Path(path, f"{base:020d}.{kind}")


def test_segments_have_their_offsets_sizes_and_times(tmp_path: pathlib.Path) -> None:
    drawn = draw_segments(make(tmp_path, 3), 12)
    assert [(one.base_offset, one.end_offset, one.bytes, one.segments) for one in drawn] == [
        (0, 4, SEGMENT, 1),
        (4, 8, SEGMENT, 1),
        (8, 12, SEGMENT, 1),
    ]
    times = [(one.first_timestamp, one.last_timestamp) for one in drawn]
    assert times == [(FIRST_MS + base * 1000, FIRST_MS + (base + 3) * 1000) for base in (0, 4, 8)]


def test_of_many_segments_neighbours_are_one_and_none_is_left_out(tmp_path: pathlib.Path) -> None:
    count = 2 * MOST_DRAWN + 50
    drawn = draw_segments(make(tmp_path, count), 4 * count)
    assert len(drawn) == MOST_DRAWN
    assert sum(one.segments for one in drawn) == count
    assert sum(one.bytes for one in drawn) == count * SEGMENT
    assert [one.end_offset for one in drawn] == [*(one.base_offset for one in drawn[1:]), 4 * count]


def test_what_cannot_be_read_is_unknown(tmp_path: pathlib.Path) -> None:
    path = make(tmp_path, 4)
    overwrite(log_at(path, 0), 8, b"\xff\xff\xff\xff")  # the length of the first batch
    log_at(path, 4).write_bytes(b"")
    log_at(path, 8, "timeindex").write_bytes(bytes(24))  # preallocated, as after a kill
    log_at(path, 12, "timeindex").unlink()
    drawn = draw_segments(path, None)
    assert [one.first_timestamp is None for one in drawn] == [True, True, False, False]
    assert [one.last_timestamp is None for one in drawn] == [False, False, True, True]
    assert drawn[1].bytes == 0
    assert drawn[-1].end_offset is None


@pytest.mark.parametrize("name", ["missing-0", "empty-0", "file-0"])
def test_a_folder_without_segments_has_no_drawing(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "file-0").write_bytes(b"")
    assert draw_segments(str(tmp_path / name), 1) == ()


def test_only_headers_are_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = make(tmp_path, 5), []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or pread(fd, size, at))
    draw_segments(path, 20)
    assert len(read) == 10
    assert max(read) == FIRST_CHUNK_BYTES


def test_only_partitions_in_trouble_are_drawn(tmp_path: pathlib.Path) -> None:
    path = make(tmp_path, 2)
    fine = Rehearsed(Prospect(path, Work.CLEAN, log_end_offset=6))
    assert with_segments(fine) is fine
    cut = Ahead(path, What.TRUNCATED, "", 6, 7)
    ends = [one.end_offset for one in with_segments(replace(fine, ahead=(cut,))).prospect.segments_drawn]
    assert ends == [4, 8]
