"""Indexes of closed segments that cannot be opened: the start does not open them, and the first read fails.

A broker 4.3.1 was asked: a fetch (.index) and a look-up by time (.timeindex) take the log dir offline, with a folder in
place of the file, or a file that its owner may not write. The broker ends if the metadata log is there.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from asking_doctor import ahead, asked, starts, wounded
from startup import POINTS, UNCLEAN, Scenario, T, U, both, flipped, gone, in_place_of, log, nothing, side

Path = pathlib.Path
D0 = "d0/__transaction_state-0"


def read_only(name: str) -> Callable[[Path], None]:
    def wound(disks: Path) -> None:
        (disks / name).chmod(0o444)
        if os.geteuid() == 0:  # root's broker may write it
            for path in (*disks.rglob("*"), disks):
                os.chown(path, 65534, 65534)

    return wound


def roots_own(name: str) -> Callable[[Path], None]:
    """Somebody's tool ran as root: the log dir is the broker's, the file is not."""

    def wound(disks: Path) -> None:
        read_only(name)(disks)
        os.chown(disks / name, 0, 0)

    return wound


def claims(rows: list[dict[str, Any]], about: str) -> dict[str, dict[str, Any]]:
    found = [row for row in rows if row["type"] == "claim" and row["about"] == about]
    return {Path(row.get("path", "/broker")).name: row for row in found}


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("wound", [in_place_of, read_only, roots_own])
def test_nobody_knows_whether_the_log_dir_stays_online(tmp_path: Path, wound: Callable[[str], Any], kind: str) -> None:
    if wound is roots_own and os.geteuid() != 0:
        pytest.skip("to give files away is not permitted here")
    file = side(11, kind)
    scenario = Scenario(wound(file), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert (file, "fails-at-read") in ahead(rows, disks)
    online = {name: row["online"] for name, row in claims(rows, "log-dir").items()}
    assert online == {"d0": True, "d1": None}
    assert claims(rows, "broker")["broker"]["starts"] is True  # d0, with the metadata, is fine
    partitions = claims(rows, "partition")
    assert [partitions[Path(name).name]["served"] for name in (T, U)] == [None, None]
    assert partitions[Path(D0).name]["served"] is True
    (option,) = [row for row in rows if row["type"] == "option"]
    assert f"--segment 11 --only {kind}" in option["command"] or "chmod u+rwX" in option["command"]


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_full_folder_of_a_deleted_segment_fails_a_minute_later(tmp_path: Path, kind: str, is_full: bool) -> None:
    """A broker 4.3.1 was asked: DirectoryNotEmptyException in the task that deletes the files."""
    file = side(22, kind)

    def fill(disks: Path) -> None:
        if is_full:
            (disks / file / "inside").write_bytes(b"")

    scenario = Scenario(
        both(UNCLEAN, gone(f"d1/{POINTS}"), flipped(log(11), 70), in_place_of(file), fill), "loses-data"
    )
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert ((file, "fails-at-read") in ahead(rows, disks)) is is_full
    assert claims(rows, "log-dir")["d1"]["online"] is (None if is_full else True)


def test_root_may_write_what_nobody_may(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a log dir of root is not permitted here")
    scenario = Scenario(lambda disks: (disks / side(11, "index")).chmod(0o444), "yes")
    disks = wounded(scenario, tmp_path / "disks")
    assert not [what for what in ahead(asked(disks, scenario), disks) if what[1] == "fails-at-read"]


@pytest.mark.parametrize("named", [("d0", "d1"), ("d1",)])
def test_the_broker_ends_with_its_metadata_log_dir_or_its_last_one(tmp_path: Path, named: tuple[str, ...]) -> None:
    def wound(disks: Path) -> None:
        in_place_of(side(11, "index"))(disks)
        if "d0" in named:
            (disks / T).rename(disks / "d0/t-0")

    scenario = Scenario(wound, "loses-data", log_dirs=named)
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert claims(rows, "broker")["broker"]["starts"] is None
    assert starts(rows) == "loses-data"  # that it ends is not sure
    assert {row["served"] for row in claims(rows, "partition").values() if row["log_end_offset"]} == {None}


def test_an_index_that_the_start_opens_fails_at_once(tmp_path: Path) -> None:
    scenario = Scenario(both(UNCLEAN, in_place_of(side(32, "index"))), "loses-data")
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert (side(32, "index"), "offline") in ahead(rows, disks)
    assert claims(rows, "log-dir")["d1"]["online"] is False


def test_nothing_is_said_of_sound_indexes(tmp_path: Path) -> None:
    scenario = Scenario(nothing, "yes")
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    assert [row["online"] for row in claims(rows, "log-dir").values()] == [True, True]
