"""A batch that the end of a closed segment cuts off, under a clean marker: what readers meet is said."""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from damage import frames_of, tear_at
from running import FIXTURES, run_here
from working import NOW_MS

from klogtool.log.offset_ranges import Offsets

CLOSED = (0, 7, 36)  # of t-0; the active one is 38
END = 62


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_not_there_is_gone(tmp_path: pathlib.Path, seed: int) -> None:
    """Each closed segment is cut somewhere, or not; indexes, snapshots and the marker stay."""
    rng = random.Random(seed)
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logs"))
    left = Offsets()
    for path in sorted((log_dir / "t-0").glob("*.log")):
        if int(path.stem) in CLOSED and rng.random() < 0.5:
            tear_at(path, rng.randrange(1, path.stat().st_size))
        data = path.read_bytes()
        for frame in frames_of(data):
            last = frame.offset + int.from_bytes(data[frame.position + 23 : frame.position + 27], "big")
            if frame.position + frame.size <= len(data):
                left.add(frame.offset, last)
    done = run_here(["doctor", "logs", "--format", "json", "--now", str(NOW_MS)], tmp_path)
    rows = map(json.loads, done.out.splitlines())
    claims = [row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0")]
    (claim,) = claims
    assert [tuple(each) for each in claim["gone_already"]["ranges"]] == list(left.holes(0, END - 1))
    assert (claim["hidden"]["records"], claim["lost"]["records"]) == (0, 0)
