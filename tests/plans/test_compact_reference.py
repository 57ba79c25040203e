"""The cleaner's reference, which does one record after another, comes to what the kernels come to, file by file."""

from __future__ import annotations

import pathlib

import pytest
from compacting_in_shares import told, walk_partitions
from loading import NOW_MS, make
from raw_batches import build_batch

from klogtool import kernels
from klogtool.broker.cleaning import cleaner
from klogtool.broker.cleaning.offset_map import OffsetMap
from klogtool.format.batch import Record

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")
MOST_BYTES = 1 << 20  # of the map: more keys than any of these logs has


def reference_map(memory_bytes: int, load_factor: float, secret: bytes) -> OffsetMap:
    return OffsetMap(min(memory_bytes, MOST_BYTES), load_factor)


@pytest.mark.parametrize("seed", range(5))
def test_random_logs(seed: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, arguments in walk_partitions(tmp_path, seed * 20, seed * 20 + 20):
        by_kernels = told(folder, arguments)
        with monkeypatch.context() as patch:
            patch.setattr(cleaner, "new_key_map", reference_map)
            by_reference = told(folder, arguments)
        assert by_reference == by_kernels, folder


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("by_reference", [True, False])
def test_a_map_without_room_for_all_keys_is_told(
    room: bool, by_reference: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "t-0", {0: [one_record(n) for n in range(9)], 9: [one_record(9)]})
    if by_reference:
        monkeypatch.setattr(cleaner, "new_key_map", reference_map)
    memory = {"log.cleaner.dedupe.buffer.size": str(24 * (20 if room else 5))}
    config = {"cleanup.policy": "compact", "log.cleaner.io.buffer.load.factor": "1.0", **memory}
    question = {"config": config, "now_ms": NOW_MS, "loaded_at_ms": NOW_MS, "jobs": 1, "force": True}
    (once,) = told(str(folder), question)[2]["passes"]
    assert (once["map_is_full"], once["end_offset"]) == (not room, 9 if room else 5)


def one_record(offset: int) -> bytes:
    return build_batch([Record(offset, NOW_MS, b"key %d" % offset, b"v")], partition_leader_epoch=1)
