"""Whose partition a folder is: `verify` and `doctor` say the same, and have the same cures."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest
from asking_doctor import NOW_MS, asked, wounded
from running import run_here
from startup import OTHER_ID, PM, SCENARIOS, Scenario, T, U, both, exchanged, gone, loses, moved, put

POINTS, MARKS = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"
NO_LINES = gone(f"d1/{POINTS}", f"d1/{MARKS}")
IDS = exchanged(f"{T}/{PM}", f"{U}/{PM}")
RENAMED = both(moved(T, "d1/v-0"), gone(U))
OLDER = put(f"{T}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")
# The kind of point, and words of the options of t-0 or its folder, in order.
CASES = {
    "ids exchanged": (IDS, T, "misnamed", ["write the id of t"]),
    "ids exchanged, no lines": (both(IDS, NO_LINES), T, "misnamed", ["write the id of t", "exchange it with u-0"]),
    "folders exchanged": (exchanged(T, U), T, "misnamed", ["exchange it with u-0"]),
    "folders exchanged, no lines": (both(exchanged(T, U), NO_LINES), T, "misnamed", ["write the id", "exchange it"]),
    "renamed to a topic that is not known": (RENAMED, "d1/v-0", "misnamed", ["rename it to t-0"]),
    "renamed to a topic that is known": (
        both(gone(U), moved(T, U)),
        U,
        "misnamed",
        ["rename it to t-0", "write the id of u"],
    ),
    "the id of a topic without a folder here": (
        both(
            put(f"{U}/{PM}", ""),
            gone(T),
            lambda disks: (disks / U / PM).write_bytes((disks / "d0/t-1" / PM).read_bytes()),
        ),
        U,
        "misnamed",
        ["write the id of u", "rename it to t-0"],
    ),
    "of an older topic": (OLDER, T, "stray", ["write partition.metadata with the cluster's id of t"]),
}


def findings(disks: pathlib.Path) -> dict[str, dict[str, str]]:
    done = run_here(["verify", "d0", "d1", "--format", "json"], disks)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return {row["path"]: row for row in rows if row.get("id") == "topic-id-mismatch"}


def words_below(disks: pathlib.Path, command: str) -> list[str]:
    return [word.replace(f"{disks}/", "") for word in shlex.split(command, comments=True)]


@pytest.mark.parametrize("name", CASES)
def test_both_say_the_same(tmp_path: pathlib.Path, name: str) -> None:
    wound, path, what, words = CASES[name]
    scenario = loses(wound)
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    at = str(disks / path)
    assert [row["what"] for row in rows if row["type"] == "ahead" and row["path"] == at and row["what"] == what]
    options = [row for row in rows if row["type"] == "option" and row["for"] == at]
    titles = [option["title"] for option in options]
    assert [any(word in title for title in titles[n : n + 1]) for n, word in enumerate(words)] == [True] * len(words), (
        titles
    )
    finding = findings(disks)[f"{path}/{PM}"]
    assert ("never serves" in finding["detail"]) is (what == "misnamed")
    assert words_below(disks, finding["cure"]) == words_below(disks, options[0]["command"])


@pytest.mark.parametrize("name", [name for name in CASES if "known" in name or "exchanged" in name])
def test_the_cure_mends(tmp_path: pathlib.Path, name: str) -> None:
    scenario = Scenario(CASES[name][0], "loses-data", log_dirs=SCENARIOS["2 clean"].log_dirs)
    disks = wounded(scenario, tmp_path / "disks")
    words = ["doctor", "d0", "d1", "--now", str(NOW_MS), "--fix", "--plan-out", "../plan.json"]
    assert run_here(words, disks).status == 0
    assert run_here(["apply", "../plan.json"], disks).status == 0
    assert not findings(disks)
    assert not [row for row in asked(disks, scenario) if row["type"] == "ahead" and row["what"] == "misnamed"]


def test_nobody_is_sure_to_be_served_beside_it(tmp_path: pathlib.Path) -> None:
    """A broker does not apply the rest of the change of metadata in which the misnamed partition fails."""
    scenario = SCENARIOS["4 ids of two topics exchanged"]
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    served = {pathlib.Path(row["path"]).name: row["served"] for row in rows if row.get("about") == "partition"}
    assert (served["t-0"], served["u-0"], served["t-1"]) == (False, False, None)


def test_a_folder_of_an_older_topic_beside_the_new_one(tmp_path: pathlib.Path) -> None:
    """A broker sets it aside before it looks for duplicates. With the new topic's id it would be one."""
    disks = wounded(SCENARIOS["4 in two log dirs, one of an older topic"], tmp_path / "disks")
    log_dirs = [str(disks / "d0"), str(disks / "d1")]
    rows = [json.loads(line) for line in run_here(["verify", "--json", *log_dirs], tmp_path).out.splitlines()]
    (finding,) = (row for row in rows if row.get("id") in ("duplicate-partition", "topic-id-mismatch"))
    assert (finding["id"], "mv " in finding["cure"], "topic_id" in finding["cure"]) == (
        "topic-id-mismatch",
        True,
        False,
    )
    assert run_here(["recover", *log_dirs], tmp_path).status == 0
