"""A new set of voters is offered only where the plan for it is not refused."""

from __future__ import annotations

import json
import pathlib
import random
import shlex

import pytest
from damage import flip_bit
from quorums import Disk, voter
from running import run_here

VOTERS = (voter(1), voter(2), voter(3))


def wounded(rng: random.Random, folder: pathlib.Path, node_id: int) -> Disk:
    """A controller's disk with one to three things wrong."""
    disk = Disk(folder, node_id, directory=rng.choice(("", "", "", None))).voters(*VOTERS)
    disk.records(rng.randint(1, 6), epoch=rng.choice((1, 1, 3)))
    if rng.random() < 0.5:
        disk.snapshot(rng.choice((2, 3, 40)), 1, *rng.choice((VOTERS, VOTERS, ())))
    if rng.random() < 0.5:
        disk.state(1, rng.choice((-1, 1, 2)), rng.choice((1, 4)))
    (disk.metadata / "leader-epoch-checkpoint").write_text(rng.choice(("0\n1\n1 0\n", "0\n1\n1 0\n", "hello\n")))
    for path in sorted(disk.metadata.iterdir()):
        if rng.random() < 0.15 and path.stat().st_size:
            flip_bit(path, rng.randrange(path.stat().st_size), rng.randrange(8))
    return disk


@pytest.mark.some(25)
@pytest.mark.parametrize("seed", range(200))
def test_what_is_offered_is_not_refused(seed: int, tmp_path: pathlib.Path) -> None:
    rng = random.Random(seed)
    disks = [wounded(rng, tmp_path, node_id) for node_id in rng.choice(((1,), (1,), (2, 4)))]
    done = run_here(["quorum", *(str(disk.path) for disk in disks), "--json"], tmp_path)
    rows = [json.loads(line) for line in done.out.splitlines()]
    cures = [cure for row in rows for cure in row.get("cures", []) if "--standalone" in cure]
    for cure in cures:
        words = shlex.split(cure[cure.index("klogtool ") :])
        planned = run_here([*words[1:], "--accept-loss"], tmp_path)
        assert planned.status == 0, (cure, planned.err)


def test_it_is_offered(tmp_path: pathlib.Path) -> None:
    """The law above is not empty."""
    disk = Disk(tmp_path, 1).voters(*VOTERS).records(3)
    assert b"--standalone" in run_here(["quorum", str(disk.path)], tmp_path).out
