"""A plan of the doctor's options mends: afterwards a start loses nothing more, and undo puts every byte back."""

from __future__ import annotations

import pathlib
import sys

import pytest
from asking_doctor import NOW_MS, asked, wounded
from running import ROOT, run_here
from startup import (
    METADATA_LOG,
    POINTS,
    SCENARIOS,
    SNAPSHOT,
    STARTS,
    Scenario,
    T,
    U,
    both,
    lines,
    log,
    loses,
    side,
    torn,
    unclean,
)

from klogtool.doctor.answers import What

sys.path.insert(0, str(ROOT / "tests" / "disk"))

from made import Picture, picture

CLEARED_FIRST = "a folder is moved away first; what was in its place is written by a second run"
MORE_THAN_ONCE = {"3 a folder": CLEARED_FIRST, "3 a folder in the metadata log dir": CLEARED_FIRST}
# What needs a person: another disk, another replica, another controller, or a decision about data.
BY_HAND = {
    "3 missing in all",
    "3 another cluster.id in one",
    "3 another node.id in one",
    "4 foreign folder lost+found",
    "4 -future, alone, elsewhere, a file has its name",
    *(name for name in SCENARIOS if name == "4 absent" or (name.startswith("4 absent") and " file" in name)),
    *(name for name in SCENARIOS if name.startswith("11 ")),
    "4 absent, a link that leads nowhere has its name",
    "4 partition.metadata only",
    "5 high watermark beyond the end",
    "5 recovery point beyond the end",
    "6 epochs beyond the end",
    "6 stray snapshot beyond the end",
    "7 a folder in place of a log",
    "7 a folder in place of a closed .index",
    "7 a folder in place of a closed .timeindex",
    "7 active log of 0 bytes",
    "7 active log of 0 bytes, unclean",
    "6 only indexes are left",
    "6 the last segment in the log dir itself",
    "6 a segment in the log dir itself",
    "6 all segments in the log dir itself",
    "6 a folder's files in the log dir itself",
    "6 another's segment in the log dir itself",
    "6 a segment in lost+found",
    "6 the last two segments in lost+found",
    "7 active segment gone",
    "7 active segment gone, unclean",
    "7 all logs of 0 bytes",
    "7 first segment gone",
    "7 middle segment gone",
    "7 only a log gone",
    "7 torn first segment",
    "7 base offset far ahead, from 0",
    "8 only .log.swap, a folder in place of the active .index",
    "9 metadata.version of 3.3",
    "9 metadata.version of a later release",
    "9 segment.bytes of a topic of 3.9",
    "9 share.version of a later release",
    "9 log missing, no snapshot",
    "9 half of the log is zeros",
    "9 last batch torn",
    "9 log missing, with a snapshot",  # what its producer snapshot shows, only another copy has
    "9 log of 0 bytes, no snapshot",
    "9 flipped bit in the middle, no snapshot",
    "9 log start without a snapshot",
    "10 .lock is a folder",
    "10 .lock is a link to nowhere",
    "10 .lock is a link to nowhere, an open transaction",
    "10 log dir missing",
    "10 log dir is empty",
    "10 log dir is a file",
    "10 log dir not named",
    "10 the same log dir under two names",
}
PARTLY = {"4 partition.metadata: 0 bytes, behind a folder"}  # the folder is moved away by hand
FIXED = [name for name, scenario in SCENARIOS.items() if scenario.ahead and name not in BY_HAND | PARTLY]
TWO_LOGS = both(torn(log(32), 1200), torn(side(0, "log", U), 600))
SEVERAL = {
    "two logs": loses(unclean(TWO_LOGS), (T, What.TRUNCATED), (U, What.TRUNCATED)),
    "two logs, clean": loses(TWO_LOGS, (T, What.ENDS_EARLY), (U, What.ENDS_EARLY)),
    "two log starts": loses(lines("d1", STARTS, t_0=50, u_0=60), (T, What.ALL_DELETED), (U, What.ALL_DELETED)),
}


def plan_and_apply(disks: pathlib.Path, scenario: Scenario, *chosen: str) -> None:
    before = picture(disks)
    words = ["doctor", *scenario.log_dirs, "--now", str(NOW_MS), "--fix", *chosen, "--plan-out", "../plan.json"]
    planned = run_here(words, disks)
    assert planned.status == 0, planned
    assert picture(disks) == before
    done = run_here(["apply", "../plan.json"], disks)
    assert done.status in (0, 1), done
    (disks.parent / "plan.json").unlink()


def undo_all(disks: pathlib.Path, runs: int) -> None:
    """What one `apply` did in both log dirs is taken back from either: then there is nothing left in the other one."""
    journals = [f"d{n}" for n in (0, 1) if (disks / f"d{n}.klogtool").exists()]
    assert journals
    for _ in range(runs):
        first, *others = (run_here(["undo", log_dir], disks) for log_dir in journals)
        assert first.status == 0
        assert all(other.status == 0 or "nothing to undo here" in other.err for other in others)


def without_journals(found: Picture) -> Picture:
    return {name: about for name, about in found.items() if ".klogtool" not in name and name != "."}


def left(disks: pathlib.Path, scenario: Scenario) -> list[tuple[str, str]]:
    """What is still ahead; records that are gone stay gone."""
    rows = [row for row in asked(disks, scenario) if row["type"] == "ahead"]
    return [(row["path"], row["what"]) for row in rows if row["what"] != What.MISSING.value]


@pytest.mark.some(60)
@pytest.mark.parametrize("name", FIXED)
def test_a_fix_leaves_nothing_to_lose_and_is_taken_back(tmp_path: pathlib.Path, name: str) -> None:
    scenario = SCENARIOS[name]
    disks = wounded(scenario, tmp_path / "disks")
    before = without_journals(picture(disks))
    runs = 2 if name in MORE_THAN_ONCE else 1
    for _ in range(runs):
        plan_and_apply(disks, scenario)
    assert left(disks, scenario) == []
    undo_all(disks, runs)
    assert without_journals(picture(disks)) == before


@pytest.mark.some(8)
@pytest.mark.parametrize("size", [0, 1, 61, 100, *range(150, 1700, 150)])
def test_a_torn_snapshot_goes_and_the_log_that_has_all_of_it_stays(tmp_path: pathlib.Path, size: int) -> None:
    """A record of the log that misses what the snapshot has lost is no reason to cut the log."""
    scenario = Scenario(torn(SNAPSHOT, size), "refuses")
    disks = wounded(scenario, tmp_path / "disks")
    options = [row for row in asked(disks, scenario) if row["type"] == "option"]
    assert {(row["lost_records"], row["command"].split()[0]) for row in options} == {(0, "rm")}
    whole = (disks / METADATA_LOG).read_bytes()
    plan_and_apply(disks, scenario)
    assert left(disks, scenario) == []
    assert (disks / METADATA_LOG).read_bytes() == whole
    undo_all(disks, 1)


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_what_only_a_person_can_do_is_not_planned(tmp_path: pathlib.Path, name: str) -> None:
    disks = wounded(SCENARIOS[name], tmp_path / "disks")
    rows = asked(disks, SCENARIOS[name])
    options = [row for row in rows if row["type"] == "option" and row["fix"]]
    erasing = {row["number"] for row in rows if row["type"] == "claim" and row.get("erases_witness")}
    erasing |= {option["number"] for option in options if option["lost_records"]}  # behind one that loses nothing
    fails = any(row["type"] == "ahead" and row["what"] == What.WRITES_FAIL.value for row in rows)
    mends_writes = {option["number"] for option in options if fails and "rebuild-index" in option["command"]}
    assert {option["number"] for option in options} - mends_writes <= erasing  # only a person decides that
    planned = run_here(["doctor", *SCENARIOS[name].log_dirs, "--now", str(NOW_MS), "--fix"], disks)
    assert bool(planned.out) == bool(mends_writes)


@pytest.mark.parametrize("way", ["the cheapest", "as the broker"])
@pytest.mark.parametrize("name", SEVERAL)
def test_fixes_of_one_log_dir_go_together(tmp_path: pathlib.Path, name: str, way: str) -> None:
    scenario = SEVERAL[name]
    disks = wounded(scenario, tmp_path / "disks")
    before = without_journals(picture(disks))
    options = [row for row in asked(disks, scenario) if row["type"] == "option"]
    brokers = [str(row["number"]) for row in options if row["command"].startswith("klogtool verify") and row["fix"]]
    chosen = [word for number in brokers for word in ("--option", number)] if way == "as the broker" else []
    plan_and_apply(disks, scenario, *chosen)
    assert left(disks, scenario) == []
    ends = set((disks / "d1" / POINTS).read_text().splitlines()[2:])
    assert ends == {"t 0 43", "u 0 6"}  # they are what shows that records are missing
    undo_all(disks, 1)
    assert without_journals(picture(disks)) == before


def test_options_that_exclude_each_other_are_refused(tmp_path: pathlib.Path) -> None:
    """Two ways to make another log of one partition dir; of two logs they go together."""
    disks = wounded(SEVERAL["two logs"], tmp_path / "disks")
    rows = asked(disks, SEVERAL["two logs"])
    numbers: dict[str, list[str]] = {}
    for row in rows:
        if row["type"] == "option" and row["fix"]:
            numbers.setdefault(row["for"], []).append(str(row["number"]))
    (one, other), (second, *_) = numbers.values()
    words = ["doctor", *SEVERAL["two logs"].log_dirs, "--now", str(NOW_MS), "--fix"]
    before = picture(disks)
    refused = run_here([*words, "--option", one, "--option", other, "--plan-out", "../plan.json"], disks)
    assert refused.status == 3
    assert f"options {one} and {other} exclude each other" in refused.err
    assert not (tmp_path / "plan.json").exists()
    done = run_here([*words, "--option", other, "--option", second], disks)
    assert done.status == 0
    assert b"--plan-out FILE saves the plan" in done.out.splitlines()[-1]
    assert picture(disks) == before
