"""What fuzz/directories.py found, each as the smallest wound that shows it."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from damage import overwrite
from running import FIXTURES
from verifying import NOW_MS, run_verify

from klogtool.repair.circumstances import Circumstances
from klogtool.repair.salvage import decide as decide_salvage

Path = pathlib.Path
LOWEST = (-(2**63)).to_bytes(8, "big", signed=True)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "transactions/logdir/t-0", tmp_path / "t-0"))


def test_an_aborted_transaction_that_ends_before_it_begins_names_no_offsets(partition: Path) -> None:
    overwrite(partition / f"{7:020d}.txnindex", 18, LOWEST)
    entry = next(
        finding for finding in run_verify(partition)[0] if finding.id == "txnindex-entry" and finding.start == 0
    )
    assert (entry.first_offset, entry.last_offset) == (None, None)


def test_salvage_rebuilds_all_where_the_log_start_is_behind_the_end(partition: Path) -> None:
    given = Circumstances(NOW_MS, log_start_offset=2**31)
    (plan,) = decide_salvage(str(partition), given.as_arguments())
    assert [step for step in plan.steps if step.path.endswith(".txnindex")] == []  # the one that is there is right
