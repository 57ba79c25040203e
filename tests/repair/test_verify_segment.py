"""Damage to a log and its indexes, everywhere in real segments: each is found, and nothing is made up."""

from __future__ import annotations

import pytest
from readers import Reader
from scanning import scan, sound_segments

SEGMENTS = sound_segments()
every_segment = pytest.mark.parametrize("name", SEGMENTS)


@every_segment
@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_segment_has_no_findings(reader: Reader, name: str, deep: bool) -> None:
    told = scan(SEGMENTS[name], reader, deep=deep)
    assert told.ids <= {"index-untrimmed"}
    assert not told.report.is_damaged
    assert told.report.sound == ((0, len(SEGMENTS[name].log)),)
