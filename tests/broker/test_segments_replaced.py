"""New segments in place of old ones, in memory and as files (LocalLog.replaceSegments)."""

from __future__ import annotations

import pathlib

import pytest
from loading import CONFIG, NOW_MS, make, name_of, names_of, segment

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.overflow_split import CLEANED, replace_segments

BASES = (0, 4, 8, 12)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([0], [0]),
        ([0, 4], [0]),  # a cleaning
        ([4, 8], [4]),
        ([4, 8, 12], [4]),
        ([4], [4, 6]),  # a split
        ([12], [12, 13, 15]),
        ([4], [5, 6]),  # of a segment that begins with a wrapper message
        ([12], [13]),
    ],
)
def test_the_map_has_the_segments_whose_files_there_are(tmp_path: pathlib.Path, old: list[int], new: list[int]) -> None:
    partition = make(tmp_path / "t-0", {base: segment(base) for base in BASES})
    log = load(str(partition), Circumstances(now_ms=NOW_MS, config=CONFIG)).log
    draft, untouched = log.draft, {base: log.segments[base] for base in BASES if base not in old}
    parts = [LogSegment(draft, base, log.segments[base if base in BASES else 0].config, CLEANED) for base in new]
    gone = replace_segments(log.segments, list(reversed(parts)), [log.segments[base] for base in old])
    assert [each.base_offset for each in gone] == [base for base in old if base not in new]
    assert log.segments.base_offsets == sorted([*untouched, *new]) == names_of(draft.names(), "log")
    assert {base: log.segments[base] for base in untouched} == untouched
    assert [log.segments[base] for base in new] == parts
    assert all(log.segments[base].log_name == name_of(base, "log") for base in log.segments.base_offsets)
    assert names_of(draft.names(), "log.deleted") == old
