"""A replication-offset-checkpoint without numbers, or without an end: a broker fails at the first leader of its log
dir."""

from __future__ import annotations

import pathlib

import pytest
from asking_doctor import ahead, asked, wounded
from startup import MARKER, Scenario, Wound

CHECKPOINT = "replication-offset-checkpoint"


def no_number(disks: pathlib.Path) -> None:
    (disks / "d1" / CHECKPOINT).write_text("0\n1\nt 0 x\n")


def no_end(disks: pathlib.Path) -> None:
    (disks / "d1" / CHECKPOINT).unlink()
    (disks / "d1" / CHECKPOINT).symlink_to("/dev/zero")


@pytest.mark.parametrize("wound", [no_number, no_end])
def test_what_other_log_dirs_serve_is_not_known(wound: Wound, tmp_path: pathlib.Path) -> None:
    """The judge, on three releases: partitions of the other log dir that came later in the same change of metadata got
    no leader. Before, on other disks with other topic ids, they had one. Without an end: measured, 4.3.1, the broker is
    up and nobody leads."""
    scenario = Scenario(wound, "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert ahead(rows, disks) == {(f"d1/{CHECKPOINT}", "unserved")}
    served = {
        pathlib.Path(row["path"]).relative_to(disks).parts[0]: row["served"]
        for row in rows
        if row["type"] == "claim" and row["about"] == "partition" and "__cluster" not in row["path"]
    }
    assert served == {"d0": None, "d1": False}
    assert (disks / "d1" / MARKER).exists()
