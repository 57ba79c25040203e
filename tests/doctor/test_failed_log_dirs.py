"""A file of one partition cannot be read, and another partition needs the log dir: who is loaded first decides."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from asking_doctor import asked, wounded
from running import run_here
from startup import EPOCHS, HELLO, LATER_MS, OPEN_TXN, PM, Scenario, T, U, both, in_place_of, put, side

from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot

Path = pathlib.Path
# The last producer snapshot of u-0 says that a transaction is open, as OPEN_TXN does of t-0.
OPEN = build_producer_snapshot([ProducerStateEntry(7, 0, 0, 38, 0, LATER_MS, 0, 38)])


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "claim" and row["about"] in ("broker", "log-dir")]


def newest_snapshot(disks: Path, partition: str) -> Path:
    return max((disks / partition).glob("*.snapshot"))


def open_in_u(disks: Path) -> None:
    newest_snapshot(disks, U).write_bytes(OPEN)


@pytest.mark.parametrize("name", [EPOCHS, PM])
@pytest.mark.parametrize(("failing", "need"), [(U, OPEN_TXN), (T, open_in_u)])
def test_whether_the_broker_ends_is_unknown(tmp_path: Path, failing: str, need: Any, name: str) -> None:
    scenario = Scenario(both(put(f"{failing}/{name}", HELLO), need), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    broker, d0, d1 = claims(rows)
    assert (broker["starts"], broker["error"]) == (None, None)
    assert (d0["online"], d1["online"]) == (True, False)
    told = run_here(["doctor", *scenario.log_dirs, "--now", "1800000000000"], disks).out.decode()
    assert "MAY END on these 2 log dirs, or NOT SERVE DATA" in told
    assert "or may end, if it loads" in told


def test_a_partition_that_fails_itself_needs_nothing(tmp_path: Path) -> None:
    scenario = Scenario(both(put(f"{T}/{EPOCHS}", HELLO), OPEN_TXN), "loses-data")
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert claims(rows)[0]["starts"] is True


@pytest.mark.parametrize(
    "wound", [put(f"d0/t-0/{EPOCHS}", HELLO), in_place_of("d0/t-0/" + Path(side(32, "index")).name)]
)
def test_the_broker_ends_with_its_metadata_log_dir_and_no_exception_ends_it(tmp_path: Path, wound: Any) -> None:
    def moved(disks: Path) -> None:
        (disks / T).rename(disks / "d0/t-0")
        wound(disks)

    scenario = Scenario(moved, "refuses")
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert (claims(rows)[0]["starts"], claims(rows)[0]["error"]) == (False, None)


def test_of_two_refusals_nobody_knows_which_is_first(tmp_path: Path) -> None:
    def wound(disks: Path) -> None:
        (disks / "d1/t-0.bak").mkdir()
        (disks / T / PM).write_bytes(b"version: 0\n")

    scenario = Scenario(wound, "refuses")
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert len({row["exception"]["class"] for row in rows if row.get("what") == "refuses"}) == 2
    assert (claims(rows)[0]["starts"], claims(rows)[0]["error"]) == (False, None)
