"""The doctor says of each state what a broker was seen to do with it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from asking_doctor import NOW_MS, ahead, asked, end_of, starts, wounded
from running import run_here
from startup import KRAFT, METADATA, SCENARIOS, Scenario, T

from klogtool.doctor.answers import What
from klogtool.escape import escaped

FORGOTTEN = [name for name, each in SCENARIOS.items() if any(what is What.METADATA_LOST for _, what in each.ahead)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_doctor_says_what_a_broker_does(tmp_path: pathlib.Path, name: str) -> None:
    scenario = SCENARIOS[name]
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert (starts(rows), ahead(rows, disks)) == (
        scenario.starts,
        {(escaped(path), what.value) for path, what in scenario.ahead},
    )
    end = end_of(rows, disks / T)
    if end is not None and scenario.starts != "refuses":
        assert end == scenario.end
    losing = {row["path"] for row in rows if row.get("about") == "partition" and row["lost"]["records"]}
    assert not losing or losing <= set(losing_by_recover(disks, scenario, losing))


def losing_by_recover(disks: pathlib.Path, scenario: Scenario, paths: set[str]) -> Iterator[str]:
    """The partition dirs of which `recover` says that a start loses records, or of which it has no plan."""
    done = run_here(["recover", *scenario.log_dirs, "--format", "json", "--now", str(NOW_MS)], disks)
    rows = [json.loads(line) for line in done.out.splitlines()]
    answers = {row["path"]: row["answer"] for row in rows if "loses_records" in row.get("answer", ())}
    yield from (path for path in paths if path not in answers or answers[path]["loses_records"])


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_the_metadata_forgot_is_not_claimed_as_served(tmp_path: pathlib.Path, name: str) -> None:
    """Single nodes set these folders aside; other controllers may know them."""
    scenario = SCENARIOS[name]
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    (lost,) = (row for row in rows if row["type"] == "ahead" and row["what"] == What.METADATA_LOST.value)
    claims = {row["path"]: row for row in rows if row["type"] == "claim" and row["about"] == "partition"}
    forgotten = [path for path in claims if pathlib.Path(path).name in lost["detail"]]
    assert forgotten
    assert {(claims[path]["served"], claims[path]["reason"]) for path in forgotten} == {(None, "elsewhere")}


@pytest.mark.parametrize("name", KRAFT)
def test_quorum_tells_what_the_metadata_log_had_as_the_doctor_does(tmp_path: pathlib.Path, name: str) -> None:
    scenario = KRAFT[name]
    disks = wounded(scenario, tmp_path / "disks")
    claims = (row for row in asked(disks, scenario) if row.get("about") == "partition")
    gone = next((row["gone_already"]["ranges"] for row in claims if row["path"] == str(disks / METADATA)), None)
    answer = json.loads(run_here(["quorum", "d0", "--json"], disks).out.splitlines()[1])
    assert answer["here"][0]["gone_already"] == answer["gone_already"] == (gone or [])
    assert gone or (METADATA, What.MISSING) not in scenario.ahead
