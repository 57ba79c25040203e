"""Every trouble ends in something that a person can do, and every plan that is made can be carried out."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from asking_doctor import NOW_MS, asked, wounded
from running import FIXTURES, run_here
from startup import (
    EPOCHS,
    SCENARIOS,
    T,
    Wound,
    both,
    flipped,
    folder,
    in_place_of,
    log,
    loses,
    put,
    side,
    torn,
    unclean,
)

from klogtool.doctor.answers import Effect, Option, Strategy
from klogtool.doctor.situation import Outcome, situations
from klogtool.render.doctor import price_text

TROUBLED = [name for name, scenario in SCENARIOS.items() if scenario.ahead]
FIX = ["doctor", "d0", "d1", "--now", str(NOW_MS), "--fix", "--plan-out", "../plan.json"]
BAD_EPOCHS = put(f"{T}/{EPOCHS}", "hello\n")
# States in which the nearest cure is refused, or a name that a plan needs is taken.
BLOCKED = {
    "epochs that cannot be read, over a damaged log": both(BAD_EPOCHS, flipped(log(11), 300)),
    "a folder in place of a snapshot": unclean(both(torn(log(32), 1200), in_place_of(side(43, "snapshot")))),
    "a folder in place of an older snapshot": unclean(both(torn(log(32), 1200), in_place_of(side(32, "snapshot")))),
    "a folder where the cut ends": unclean(both(torn(log(32), 1200), folder(side(42, "snapshot")))),
    "a folder in place of an index": unclean(both(torn(log(32), 1200), in_place_of(side(32, "timeindex")))),
}


def options_by_trouble(rows: list[dict[str, object]]) -> dict[str, list[str]]:
    """The options follow the points of their trouble."""
    found: dict[str, list[str]] = {}
    path = ""
    for row in rows:
        if row["type"] == "ahead":
            path = str(row["path"])
            found.setdefault(path, [])
        elif row["type"] == "option":
            found[path].append(str(row["command"]))
    return found


@pytest.mark.parametrize("name", TROUBLED)
def test_every_trouble_has_a_way_out(tmp_path: pathlib.Path, name: str) -> None:
    scenario = SCENARIOS[name]
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert all(commands and all(commands) for commands in options_by_trouble(rows).values())
    said = {row["number"]: row["lost_records"] for row in rows if row["type"] == "option"}
    claimed = {row["number"]: row["lost"]["records"] for row in rows if row.get("about") == "option"}
    assert said == claimed  # what nobody measured is unknown in all of them


@pytest.mark.parametrize("lost", [None, 0, 3])
def test_only_what_is_measured_is_said_to_lose_nothing(lost: int | None) -> None:
    words = {None: "how much it loses is unknown", 0: "loses nothing", 3: "loses 3 records"}
    for strategy in Strategy:
        told = price_text(Option("title", "t-0", "command", strategy, lost_records=lost))
        assert told.split(";")[0] == words[lost]
    promises = [Option("title", "t-0", "command", strategy, lost_records=lost).promise for strategy in Strategy]
    assert promises == [None if lost is None else Strategy.NOTHING_LOST, *list(Strategy)[1:]]
    assert Option("title", "t-0", "command", Strategy.NOTHING_LOST).lost_records is None


def test_unknown_is_said_only_of_what_changes_something() -> None:
    """A loss is measured after a start, so it is unknown for what only looks, too: but that is no danger to name."""
    for effect in Effect:
        told = price_text(Option("title", "t-0", "command", Strategy.NOTHING_LOST, effect=effect))
        assert "unknown" not in told
        assert "loses nothing" not in told  # the start that follows may lose some


# What the only option says, by what is wrong.
HARMLESS = {
    next(name for name in SCENARIOS if name.startswith("4 foreign folder")): "keeps all its files",
    "10 log dir not named": "only looks, and changes nothing",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_or_keeps_all_is_told(tmp_path: pathlib.Path, name: str) -> None:
    scenario = SCENARIOS[name]
    done = run_here(["doctor", *scenario.log_dirs, "--now", str(NOW_MS)], wounded(scenario, tmp_path / "disks"))
    assert HARMLESS[name] in done.out.decode()
    assert b"how much it loses is unknown" not in done.out


@pytest.mark.parametrize("name", BLOCKED)
def test_what_is_planned_can_be_carried_out(tmp_path: pathlib.Path, name: str) -> None:
    """Another trouble is mended in any case."""
    other = flipped("d1/u-0/00000000000000000000.log", 100)
    scenario = loses(both(BLOCKED[name], other))
    disks = wounded(scenario, tmp_path / "disks")
    assert all(options_by_trouble(asked(disks, scenario)).values())
    planned = run_here(FIX, disks)
    assert planned.status == 0, planned
    done = run_here(["apply", "../plan.json"], disks)
    assert done.status in (0, 1), done


@pytest.mark.parametrize("name", ["2 clean", "10 log dir missing", "9 log missing, no snapshot"])
def test_nothing_to_plan_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    disks = wounded(SCENARIOS[name], tmp_path / "disks")
    planned = run_here(FIX, disks)
    assert (planned.status, planned.out) == (3, b"")
    assert "nothing to plan" in planned.err
    assert not (tmp_path / "plan.json").exists()


def test_every_situation_says_what_to_do() -> None:
    """A command, or that nothing is to be done."""
    mute = [each.name for each in situations().values() if not each.look_first.strip()]
    mute += [each.name for each in situations().values() if not each.cures and each.outcome is not Outcome.OK]
    assert mute == []


def test_moving_a_folder_away_is_a_way_out(tmp_path: pathlib.Path) -> None:
    """A partition that the cluster does not know: its records are kept out of the broker's way."""
    scenario = SCENARIOS["4 topic that the cluster does not know"]
    disks = wounded(scenario, tmp_path / "disks")
    assert run_here(FIX, disks).status == 0
    assert run_here(["apply", "../plan.json"], disks).status == 0
    assert (disks / "d1.moved-out/v-0").is_dir()
    shutil.rmtree(disks / "d1.moved-out")


@pytest.mark.slow
def test_a_folder_in_place_of_a_snapshot_costs_nothing_once_it_is_moved_away(tmp_path: pathlib.Path) -> None:
    """Recovery empties the segment over it: that option comes after, and says why it loses what it loses."""
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "d"))
    snapshot = max((log_dir / "t-0").glob("*.snapshot"))
    snapshot.unlink()
    snapshot.mkdir()
    rows = [json.loads(line) for line in run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines()]
    first, second = [row for row in rows if row["type"] == "option"][:2]
    assert (first["title"], first["lost_records"]) == ("move the folder away first", 0)
    assert second["lost_records"] > 0
    assert "--fix" not in run_here(["doctor", "d"], tmp_path).out.decode().partition("\n\n")[0]
    refused = run_here(["doctor", "d", "--fix", "--plan-out", "plan.json"], tmp_path)
    assert (refused.status, (tmp_path / "plan.json").exists()) == (3, False), refused.err
    told = run_here(["recover", "d/t-0", "--last-stop", "unclean"], tmp_path).out.decode()
    assert f"{snapshot.name}: Is a directory: the whole segment is emptied" in told
    done = run_here(["rebuild-index", "d/t-0"], tmp_path)
    assert (done.status, f"{snapshot.name}: Is a directory" in done.err) == (3, True)


@pytest.mark.parametrize("stop", [both, unclean], ids=["clean", "killed"])
@pytest.mark.parametrize("name", [name for name in SCENARIOS if "a folder where leader epochs are written" in name])
def test_a_folder_where_leader_epochs_are_written_is_moved_away(
    tmp_path: pathlib.Path, name: str, stop: Callable[[Wound], Wound]
) -> None:
    """Neither a recovery nor a salvage of the log takes it away: each option has to."""
    scenario = replace(SCENARIOS[name], wound=stop(SCENARIOS[name].wound))
    disks = wounded(scenario, tmp_path / "disks")
    (told,) = (str(disks / path) for path, _ in scenario.ahead)
    options = options_by_trouble(asked(disks, scenario))[told]
    assert options
    assert all(told in command for command in options)
    subprocess.run(["sh", "-c", options[0]], check=True, cwd=disks)
    assert told not in options_by_trouble(asked(disks, scenario))


def test_what_is_no_file_is_moved_away_before_recovery_empties_the_log_over_it(tmp_path: pathlib.Path) -> None:
    """A broker 4.3.1 lost all of t-0 where a snapshot was a link to /dev/full; the doctor said "yes"."""
    scenario = SCENARIOS["11 /dev/full, a snapshot that recovery writes"]
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    options = [row for row in rows if row["type"] == "option"]
    claims = {row["number"]: row["lost"]["records"] for row in rows if row.get("about") == "option"}
    assert options[0]["title"] == "move away first what is no file"
    assert claims[options[0]["number"]] == 0
    assert claims[options[1]["number"]] == 41
    subprocess.run(options[0]["command"], shell=True, check=True)
    assert not [row for row in asked(disks, scenario) if row["type"] == "ahead"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("11 /dev/full, a snapshot that recovery writes", side(11, "snapshot")),
        ("11 /dev/null, a snapshot that recovery writes", side(11, "snapshot")),
        ("11 /dev/null, an index that recovery writes", side(11, "timeindex")),
    ],
)
def test_before_4_0_what_recovery_cannot_write_takes_the_log_dir_offline(
    tmp_path: pathlib.Path, name: str, file: str
) -> None:
    """A broker 3.9.2 did so with these."""
    disks = wounded(SCENARIOS[name], tmp_path / "disks")
    rows = asked(disks, SCENARIOS[name], "--kafka", "3.9.2")
    assert [row["what"] for row in rows if row["type"] == "ahead" and row["path"] == str(disks / file)] == ["offline"]
