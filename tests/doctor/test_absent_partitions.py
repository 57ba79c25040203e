"""Partitions whose folder is absent: the first thing that the doctor says, and where the records are."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest
from asking_doctor import asked, wounded
from damage import flip_bit
from running import run_here
from startup import HEX, MARKS, POINTS, SCENARIOS, STARTS, Scenario, T, both, flipped, gone, log, loses, moved, unclean

from klogtool.doctor.answers import What

ABSENT = What.ABSENT.value


def points(disks: pathlib.Path, scenario: Scenario) -> Iterator[dict[str, object]]:
    return (row for row in asked(disks, scenario) if row["type"] == "ahead")


def test_it_comes_first(tmp_path: pathlib.Path) -> None:
    """Before logs that recovery cuts."""
    cut = unclean(flipped("d1/u-0/00000000000000000000.log", 100))
    scenario = loses(both(gone(T), cut))
    assert next(points(wounded(scenario, tmp_path / "disks"), scenario))["what"] == ABSENT


@pytest.mark.parametrize("left", [POINTS, MARKS])
def test_one_checkpoint_is_enough(tmp_path: pathlib.Path, left: str) -> None:
    others = [f"d1/{name}" for name in (POINTS, MARKS, STARTS) if name != left]
    scenario = loses(both(gone(T), gone(*others)))
    found = next(points(wounded(scenario, tmp_path / "disks"), scenario))
    assert (found["what"], found["first_offset"], found["last_offset"]) == (ABSENT, 0, 42)


def test_without_any_witness_it_is_a_note(tmp_path: pathlib.Path) -> None:
    """A partition that the cluster has just created has no folder and no line."""
    scenario = loses(both(gone(T), gone(f"d1/{POINTS}", f"d1/{MARKS}")))
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert not [row for row in rows if row["type"] == "ahead"]
    assert "t-0" in " ".join(next(row for row in rows if row["type"] == "verdict")["notes"])


def test_without_metadata_it_is_a_warning(tmp_path: pathlib.Path) -> None:
    """The topic may have been deleted just before a kill."""
    scenario = dataclasses.replace(SCENARIOS["4 absent"], log_dirs=("d1",))
    rows = list(points(wounded(scenario, tmp_path / "disks"), scenario))
    assert [(row["what"], row["severity"]) for row in rows] == [(ABSENT, "warning")]


def test_a_folder_elsewhere_explains_a_line(tmp_path: pathlib.Path) -> None:
    """Lines of a partition that was moved to another log dir by hand stay behind."""
    scenario = dataclasses.replace(SCENARIOS["4 moved to another log dir"], log_dirs=("d0", "d1"))
    disks = wounded(scenario, tmp_path / "disks")
    assert not list(points(disks, scenario))


@pytest.mark.parametrize("suffix", ["stray", "delete"])
@pytest.mark.parametrize("differs", [False, True])
def test_the_fuller_one_of_two_is_put_back(tmp_path: pathlib.Path, suffix: str, differs: bool) -> None:
    """The folder that has the name has fewer records: it is moved out of the log dir. Nothing is lost by that only if
    the other one has them, too."""
    aside = f"d1/t-0.{HEX}-{suffix}"

    def wound(disks: pathlib.Path) -> None:
        moved(T, aside)(disks)
        (disks / T).mkdir()
        for name in ("partition.metadata", "leader-epoch-checkpoint", pathlib.Path(log(0)).name):
            (disks / T / name).write_bytes((disks / aside / name).read_bytes())
        if differs:
            flip_bit(disks / log(0), 300)

    scenario = loses(wound)
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert next(row["what"] for row in rows if row["type"] == "ahead") == ABSENT
    option = next(row for row in rows if row["type"] == "option" and "the name t-0 back" in row["title"])
    assert (option["fix"], option["lost_records"], bool(option["price"])) == (True, None, differs)
    words = ["doctor", "d0", "d1", "--fix", "--option", str(option["number"]), "--plan-out", "../plan.json"]
    assert run_here(words, disks).status == 0
    assert run_here(["apply", "../plan.json"], disks).status == 0
    assert len(list((disks / T).glob("*.log"))) == 4
    assert len(list((disks / "d1.moved-out/t-0").glob("*.log"))) == 1
