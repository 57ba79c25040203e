"""What somebody gave up is told until the run is taken back, or discarded."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil

import pytest
from asking_doctor import asked, wounded
from loading import segment
from running import FIXTURES, run_here
from startup import SCENARIOS, Scenario


def notes(disks: pathlib.Path, scenario: Scenario) -> list[str]:
    (verdict,) = (row for row in asked(disks, scenario) if row["type"] == "verdict")
    return [note for note in verdict["notes"] if "lowered the lines" in note]


@pytest.mark.parametrize("way", ["taken back", "discarded"])
def test_what_was_given_up_is_told(tmp_path: pathlib.Path, way: str) -> None:
    scenario = SCENARIOS["5 high watermark beyond the end"]
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    (number,) = (row["number"] for row in rows if row.get("about") == "option" and row["erases_witness"])
    (missing,) = (row for row in rows if row.get("what") == "missing")
    words = ["doctor", *scenario.log_dirs, "--now", "1800000000000", "--fix", "--option", str(number)]
    assert run_here([*words, "--plan-out", "../plan.json"], disks).status == 0
    assert notes(disks, scenario) == []
    assert run_here(["apply", "../plan.json"], disks).status == 0
    (note,) = notes(disks, scenario)
    assert note.startswith(
        f"t-0 has lost the records that were at offsets {missing['first_offset']} to {missing['last_offset']}: run "
    )
    forgets = note.partition("(klogtool ")[2].partition(" forgets it")[0]
    assert run_here(shlex.split(forgets) if way == "discarded" else ["undo", "d1"], disks).status == 0
    assert notes(disks, scenario) == []


def lacking(disks: pathlib.Path) -> list[str]:
    answer = run_here(["doctor", "logdir", "--format", "json", "--now", "1800000000000"], disks).out
    (verdict,) = (row for line in answer.splitlines() if (row := json.loads(line))["type"] == "verdict")
    return [note for note in verdict["notes"] if " lacked " in note]


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("doctor logdir --fix --plan-out ../plan.json", "offset 47"),  # salvage; 47 is damaged
        ("recover logdir/flip-bit-0 --plan-out ../plan.json", "offsets 47 to 70"),
    ],
)
def test_what_a_run_left_out_is_told(way: str, told: str, tmp_path: pathlib.Path) -> None:
    """What is left then looks as a log cleaner leaves it, and the checkpoints fit."""
    disks = tmp_path / "disks"
    shutil.copytree(FIXTURES / "killed-mid-append/logdir", disks / "logdir")
    assert run_here([*way.split(), "--now", "1800000000000"], disks).status in (0, 1)
    assert lacking(disks) == []
    assert run_here(["apply", "../plan.json"], disks).status in (0, 1)  # 1: it tells what is lost
    (note,) = lacking(disks)
    assert note.startswith(f"flip-bit-0 lacked {told} after run ")
    forgets = note.partition("(klogtool ")[2].partition(" forgets it")[0]
    assert run_here(shlex.split(forgets), disks).status == 0
    assert lacking(disks) == []


@pytest.mark.parametrize(
    ("base", "suffix", "told"),
    [(0, ".log.swap", "offsets 8 to 15"), (16, ".log.cleaned", "offsets 16 to 23")],
    ids=["a .swap without the end of its segment", "the only copy of the log's end"],
)
def test_what_a_left_over_cost_is_told(base: int, suffix: str, told: str, tmp_path: pathlib.Path) -> None:
    disks, partition = tmp_path / "disks", tmp_path / "disks/logdir/t-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(segment(0, 16))
    (partition / f"{base:020d}{suffix}").write_bytes(segment(base, 8))
    assert run_here(["recover", "logdir/t-0", "--apply", "--now", "1800000000000"], disks).status == 1
    (note,) = lacking(disks)
    assert note.startswith(f"t-0 lacked {told} after run ")
    assert run_here(["undo", "logdir"], disks).status == 0
    assert lacking(disks) == []
