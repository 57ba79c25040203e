"""Which offsets a recovery loses, by the log as it was."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from running import ROOT

from klogtool.broker.draft import Draft
from klogtool.plans.recover_reach import find_lost_offsets

PARTITION = ROOT / "fixtures/killed-mid-append/logdir/flip-bit-0"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(PARTITION, tmp_path / "flip-bit-0"))


def test_from_the_new_end_to_the_last_sound_batch(folder: pathlib.Path) -> None:
    assert find_lost_offsets(Draft.of(str(folder)), 47) == (47, 70)


def test_nothing_behind_the_end(folder: pathlib.Path) -> None:
    assert find_lost_offsets(Draft.of(str(folder)), 71) is None


def test_a_last_segment_of_garbage_tells_nothing(folder: pathlib.Path) -> None:
    last = max(folder.glob("*.log"))
    last.write_bytes(b"\x02" * 1000)
    found = find_lost_offsets(Draft.of(str(folder)), 47)
    assert found == (47, int(last.name.split(".")[0]) - 1)


def test_an_empty_folder(tmp_path: pathlib.Path) -> None:
    assert find_lost_offsets(Draft.of(str(tmp_path)), 0) is None
