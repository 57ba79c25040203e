"""A log dir with the node.id of another broker: by the cluster's metadata its directory.id is not this broker's.

tests/kafka/test_brokers_disk_of_another.py puts it to brokers.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from running import run_here
from startup import HERE

Path = pathlib.Path
CONTROLLER = "process.roles=controller\n"


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))


def doctor(disks: Path, *words: str) -> list[dict[str, Any]]:
    done = run_here(["doctor", "d0", "d1", *words, "--json"], disks)
    return list(map(json.loads, done.out.splitlines()))


def edit(disks: Path, old: str, new: str) -> None:
    for path in disks.glob("d?/meta.properties"):
        path.write_text(path.read_text().replace(old, new))


def elsewhere(rows: list[dict[str, Any]]) -> list[str]:
    return [row["path"] for row in rows if row["type"] == "ahead" and "of broker 1, not of this" in row["detail"]]


def test_the_controllers_do_not_register_the_disk_of_another_broker(disks: Path) -> None:
    edit(disks, "node.id=1", "node.id=2")
    rows = doctor(disks)
    (broker,) = [row for row in rows if row.get("about") == "broker"]
    assert (broker["starts"], broker["error"]) == (False, "InvalidRegistrationException")
    assert elsewhere(rows) == [str(disks / name / "meta.properties") for name in ("d0", "d1")]
    assert not [row for row in rows if row.get("what") == "stray"]  # they are named with their cause
    (detail,) = {row["detail"] for row in rows if row.get("what") == "refuses" and "/d1/" in row["path"]}
    assert "sets 2 partitions aside as -stray (t-0, u-0)" in detail
    cures = [row["command"] for row in rows if row["type"] == "option" and "/d1/" in row["for"]]
    assert len(cures) == 1
    assert "set node.id=1" in cures[0]
    edit(disks, "node.id=2", "node.id=1")
    assert not elsewhere(doctor(disks))


def test_a_copy_for_a_new_broker_has_a_directory_id_of_its_own(disks: Path) -> None:
    """Then the controllers take the broker; the partitions are others' all the same."""
    edit(disks, "node.id=1", "node.id=2")
    edit(disks, "directory.id", "#")
    rows = doctor(disks)
    assert not elsewhere(rows)
    assert {Path(row["path"]).name for row in rows if row.get("what") == "stray"} >= {"t-0", "u-0"}


def test_a_controller_alone_is_not_registered_as_a_broker(disks: Path) -> None:
    edit(disks, "node.id=1", "node.id=2")
    (disks / "server.properties").write_text(CONTROLLER)
    assert not elsewhere(doctor(disks, "--config-file", "server.properties"))
