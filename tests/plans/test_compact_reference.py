"""The cleaner's reference, which does one record after another, comes to what the kernels come to, file by file."""

from __future__ import annotations

import pathlib

import pytest
from compacting_in_shares import told, walk_partitions

from klogtool import kernels
from klogtool.broker.cleaning import cleaner
from klogtool.broker.cleaning.offset_map import OffsetMap

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
