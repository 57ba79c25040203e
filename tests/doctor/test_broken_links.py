"""A link in a partition dir leads nowhere: a disk is not mounted.

A broker 4.3.1 started with the `.log` of a closed segment as such a link: it deleted the indexes of the segment, its
log began at the next one, and the log dir stayed online. An `.index` whose link could be filled was made anew.
"""

from __future__ import annotations

import pathlib
import random
import shutil
from typing import Any

import pytest
from asking_doctor import ahead, asked, starts, wounded
from damage import append_bytes
from running import run_here
from startup import EPOCHS, HERE, METADATA, Scenario, T, Wound, log, side

Path = pathlib.Path


def leading_nowhere(name: str) -> Wound:
    def wound(disks: Path) -> None:
        (disks / name).unlink()
        (disks / name).symlink_to("/nowhere/at/all")

    return wound


def leading_to(target: str) -> Wound:
    def wound(disks: Path) -> None:
        (disks / side(11, "index")).unlink()
        (disks / side(11, "index")).symlink_to(target)

    return wound


@pytest.mark.parametrize("target", [Path(side(11, "index")).name, "partition.metadata/below", "x" * 300])
def test_a_link_in_circles_through_a_file_or_too_long_leads_nowhere_too(tmp_path: Path, target: str) -> None:
    """java.io.File.isFile is false of it. The rest of the answer does not depend on it."""
    scenario = Scenario(leading_to(target), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert ahead(rows, disks) == {(side(11, "index"), "link-broken")}
    for command in (
        "verify",
        "recover",
        "salvage",
        "lookup",
        "retain",
        "free",
        "image",
        "dump-log",
    ):
        extra = {"salvage": ["--output", "out"], "lookup": ["--timestamp", "latest"], "image": ["--output", "image"]}
        place = "d1" if command in ("verify", "free", "image") else T
        done = run_here([command, place, *extra.get(command, [])], disks)
        assert "Traceback" not in done.err
        assert done.status in (0, 1, 3, 4), done


def claim(rows: list[dict[str, Any]], about: str, name: str) -> dict[str, Any]:
    found = (row for row in rows if row["type"] == "claim" and row["about"] == about)
    return next(row for row in found if Path(row.get("path", "/broker")).name == name)


@pytest.mark.parametrize("name", [log(0), log(32), side(11, "index"), side(11, "timeindex"), side(43, "snapshot")])
def test_what_a_start_makes_of_it_is_unknown(tmp_path: Path, name: str) -> None:
    scenario = Scenario(leading_nowhere(name), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert starts(rows) == "loses-data"
    assert (name, "link-broken") in ahead(rows, disks)
    assert claim(rows, "log-dir", "d1")["online"] is None
    assert claim(rows, "broker", "broker")["starts"] is True
    told = claim(rows, "partition", "t-0")
    assert (told["served"], told["log_end_offset"], told["hidden"]["records"]) == (None, None, None)
    assert (told["deleted"], told["renamed"], told["rewritten"]) == (None, None, None)
    assert told["gone_already"]["ranges"] is None
    options = [row for row in rows if row["type"] == "option"]
    assert options
    assert not any(row["fix"] for row in options)


def test_a_checkpoint_whose_name_leads_nowhere_takes_the_log_dir_offline(tmp_path: Path) -> None:
    """Brokers of 4.3.1, with a link into a folder that is there, too: the file is made only where no name is."""
    scenario = Scenario(leading_nowhere(f"{T}/{EPOCHS}"), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert ahead(rows, disks) == {(f"{T}/{EPOCHS}", "offline")}
    assert claim(rows, "log-dir", "d1")["online"] is False


def test_a_topic_id_whose_name_leads_nowhere_is_none(tmp_path: Path) -> None:
    """A broker of 4.3.1 set the folder aside, and served an empty partition."""
    scenario = Scenario(leading_nowhere(f"{T}/partition.metadata"), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert (T, "stray") in ahead(rows, disks)
    assert claim(rows, "partition", "t-0")["served"] is False


@pytest.mark.parametrize(
    ("beside", "what"),
    [("x00000000000000000011.snapshot", "refuses"), ("x00000000000000000011.log", "refuses"), (EPOCHS, "offline")],
)
def test_a_link_hides_nothing_that_ends_the_start(tmp_path: Path, beside: str, what: str) -> None:
    """The judge put it to a broker of 4.3.1, which ended at the name of the snapshot."""
    scenario = Scenario(leading_nowhere(side(11, "txnindex")), "refuses")
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    (disks / side(11, "txnindex")).unlink(missing_ok=True)
    (disks / side(11, "txnindex")).symlink_to("/nowhere/at/all")
    (disks / T / beside).write_bytes(b"x\n")
    rows = asked(disks, scenario)
    assert (f"{T}/{beside}", what) in ahead(rows, disks)
    assert starts(rows) == ("refuses" if what == "refuses" else "loses-data")


@pytest.mark.parametrize("seed", range(12))
def test_links_beside_other_damage_end_no_diagnosis(tmp_path: Path, seed: int) -> None:
    """Advice reads the folder again, for plans that cannot be made of it."""
    chance = random.Random(seed)
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    files = sorted(path for path in disks.rglob("*") if path.is_file())
    for path in (*chance.sample(files, 2), disks / T / "partition.metadata", disks / METADATA / log(0).rsplit("/")[-1])[
        seed % 3 :
    ]:
        path.unlink()
        path.symlink_to("/nowhere/at/all")
    if not (epochs := disks / T / EPOCHS).is_symlink():
        append_bytes(epochs, b"no epochs\n")
    for command in (["doctor", "d0", "d1"], ["doctor", "d0", "d1", "--kafka", "3.9.2"], ["verify", "d0", "d1"]):
        assert run_here([*command, "--no-progress"], disks).status == 1
