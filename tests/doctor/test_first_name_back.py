"""A segment under too high a name: an option gives it its name back, and undo takes that back."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from claim_reasons import without_reason
from running import run_here
from startup import HERE

Path = pathlib.Path
NOW = ("--now", "1800000000000")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def doctor(disks: Path, *more: str) -> list[dict[str, object]]:
    done = run_here(["doctor", "d0", "d1", "--format", "json", *NOW, *more], disks)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert not without_reason(rows)
    return rows


@pytest.mark.parametrize("kinds", [("log", "index", "timeindex"), ("log",)])
@pytest.mark.parametrize("to", [1, 4, 7])
def test_the_first_segment_gets_its_name_back(tmp_path: Path, to: int, kinds: tuple[str, ...]) -> None:
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    partition = disks / "d1/t-0"
    whole = contents(partition)
    for kind in kinds:
        (partition / f"{0:020d}.{kind}").rename(partition / f"{to:020d}.{kind}")
    hurt = contents(partition)
    rows = doctor(disks)
    (option,) = [row for row in rows if row["type"] == "option" and row["number"] == 1]
    assert str(option["command"]).startswith("mv -n ")
    assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    claims = [row for row in rows if row["type"] == "claim" and row["about"] == "partition"]
    (claim,) = [row for row in claims if row["path"] == str(partition)]
    if len(kinds) > 1:  # without its index it is read, and a broker refuses to start
        assert claim["hidden"] == {"records": to, "ranges": [[0, to - 1]], "why": ["below-log-start"], "reason": None}
    doctor(disks, "--fix", "--option", "1", "--plan-out", "plan.json")
    assert run_here(["apply", "plan.json"], disks).status == 0
    assert contents(partition) == whole
    assert not [row for row in doctor(disks) if row["type"] == "ahead" and row["path"] == str(partition)]
    assert run_here(["undo", "d1"], disks).status == 0
    assert contents(partition) == hurt
