"""quorum --standalone, killed after every call: the controller has its old voters or the new ones, and all its records.

A start reads what is there. So in each state the log is whole, and nobody leads but the only new voter.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib

import pytest
from dying import dies, take_back
from failing import FailingDisk
from made import HEAD, contents
from mortal import reusable
from msgspec.structs import asdict
from quorums import Disk, properties, static, voter

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.disk.writer import InPlace
from klogtool.plans.decisions import decide
from klogtool.plans.quorum_voters import COMMAND, VotersQuestion
from klogtool.plans.saved_plan import SavedPlan
from klogtool.quorum.controllers import read_controller, walk_metadata_values
from klogtool.quorum.election import ElectionOutcome, judge_election


def survivor(folder: pathlib.Path) -> pathlib.Path:
    """The log dir of one of three controllers, with an index, as a clean stop leaves it."""
    disk = Disk(folder, 1).voters(voter(1), voter(2), voter(3)).records(6).state(1, 2, 4)
    (disk.metadata / f"{0:020}.index").write_bytes(b"")
    (disk.metadata / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    return disk.path


WAYS: dict[str, dict[str, object]] = {
    "standalone": {"standalone": True},
    "voters": {"voters": "1@another-host:9101"},
    "static": {"standalone": True, "static": True},
}


def voting(log_dir: pathlib.Path, way: str = "standalone") -> list[SavedPlan]:
    """What makes it the only voter."""
    question = VotersQuestion(
        **asdict(Circumstances(now_ms=1000)) | WAYS[way],
        jobs=1,
        destroyed=(2, 3),
        accept_loss=True,
        copies=(str(log_dir),),
    )
    return [reusable(plan) for plan in decide(COMMAND, str(log_dir), question)]


@pytest.mark.slow
@pytest.mark.parametrize("loses", ["nothing", "everything", "mixed 1"])
@pytest.mark.parametrize("way", WAYS)
def test_it_has_the_old_voters_or_the_new_ones(box: pathlib.Path, way: str, loses: str) -> None:
    """And all its records. A quorum that became static names no voters: its settings do."""
    log_dir = survivor(box)
    metadata = log_dir / CLUSTER_METADATA_DIR
    before, outcomes = contents(log_dir), set()
    records = list(walk_metadata_values(str(metadata)))
    settings = properties(1, static(1)) if way == "static" else properties(1)
    for n in range(10_000):
        died, _ = dies(voting(log_dir, way), box, n, loses, log_dir)
        found = read_controller(str(log_dir), settings)
        assert found.log.is_whole, n
        assert found.log.position.end_offset in (8, 10), n
        assert list(walk_metadata_values(str(metadata))) == records, n
        election = judge_election([found])
        outcomes.add((len(election.voters), election.outcome))
        take_back(log_dir)
        assert contents(log_dir) == before, n
        if not died:
            break
    assert outcomes == {(3, ElectionOutcome.NEVER), (1, ElectionOutcome.ELECTED)}
    assert (len(records), n > 25) == (6, True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("way", WAYS)
def test_a_disk_that_refuses_gets_everything_back(box: pathlib.Path, way: str, number: int) -> None:
    log_dir = survivor(box)
    before = contents(log_dir)
    for n in range(10_000):
        disk = FailingDisk(n, number, once=True)
        run = InPlace(voting(log_dir, way), HEAD, disk=disk)
        with contextlib.suppress(OSError):
            run.carry_out()
        take_back(log_dir)
        assert contents(log_dir) == before, n
        if not disk.failed:
            break
    assert n > 25
