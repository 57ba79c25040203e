"""The doctor asked about a wounded copy of `broker/`."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

from claim_reasons import without_reason
from running import run_here
from startup import HERE, Scenario

NOW_MS = 1_800_000_000_000


def wounded(scenario: Scenario, at: pathlib.Path) -> pathlib.Path:
    """A copy with the wound, at a folder that does not exist."""
    disks = pathlib.Path(shutil.copytree(HERE / "broker", at))
    scenario.wound(disks)
    return disks


def asked(disks: pathlib.Path, scenario: Scenario, *words: str) -> list[dict[str, Any]]:
    """The rows of the answer."""
    done = run_here(["doctor", *scenario.log_dirs, "--format", "json", "--now", str(NOW_MS), *words], disks)
    assert done.status in (0, 1), done
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert not without_reason(rows)
    return rows


def starts(rows: list[dict[str, Any]]) -> str:
    return next(str(row["starts"]) for row in rows if row["type"] == "verdict")


def ahead(rows: list[dict[str, Any]], disks: pathlib.Path) -> set[tuple[str, str]]:
    """Paths below the folder, and what is ahead there."""
    points = [row for row in rows if row["type"] == "ahead"]
    return {(str(pathlib.Path(point["path"]).relative_to(disks)), point["what"]) for point in points}


def end_of(rows: list[dict[str, Any]], partition: pathlib.Path) -> int | None:
    found = (row for row in rows if row["type"] == "partition" and row["path"] == str(partition))
    return next((row["log_end_offset"] for row in found), None)
