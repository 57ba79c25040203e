"""The doctor says of each state what a broker was seen to do with it."""

from __future__ import annotations

import pathlib

import pytest
from asking_doctor import ahead, asked, end_of, starts, wounded
from startup import SCENARIOS, T

from klogtool.escape import escaped


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
