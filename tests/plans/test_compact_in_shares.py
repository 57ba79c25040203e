"""A pass that is done in shares comes to what the whole pass comes to, file by file, answer by answer."""

from __future__ import annotations

import pathlib

import pytest
from compacting_in_shares import compare, walk_partitions

from klogtool import kernels

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")


@pytest.mark.slow
def test_random_logs(tmp_path: pathlib.Path) -> None:
    crews = [compare(*asked) for asked in walk_partitions(tmp_path, 0, 150)]
    shared = [crew for crew in crews if crew is not None]
    assert len(shared) > 120
    assert {crew.filled for crew in shared} == {0, 1}
    assert max(crew.rounds for crew in shared) > 1
