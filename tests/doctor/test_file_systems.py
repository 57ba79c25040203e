"""Log dirs on a read-only mount, or without room."""

from __future__ import annotations

import os
import pathlib
import shutil
from types import SimpleNamespace
from typing import Any

import pytest
from asking_doctor import NOW_MS, ahead, asked, starts, wounded
from running import run_here
from startup import (
    EPOCHS,
    MARKER,
    UNCLEAN,
    Scenario,
    T,
    Wound,
    both,
    flipped,
    from_zero,
    gone,
    log,
    nothing,
    swaps,
    yes,
)

MUCH = 1 << 20
BLOCK = 4096
FILES = "d?/[!_]*-[0-9]*/*"


def mounted(
    monkeypatch: pytest.MonkeyPatch, log_dir: str, *, room: int = MUCH, files: int = MUCH, flag: int = 0
) -> None:
    """room: blocks. files: inodes."""

    def statvfs(path: str) -> Any:
        left, inodes, flags = (room, files, flag) if pathlib.Path(path).name == log_dir else (MUCH, MUCH, 0)
        return SimpleNamespace(f_bavail=left, f_frsize=BLOCK, f_files=MUCH, f_favail=inodes, f_flag=flags)

    monkeypatch.setattr(os, "statvfs", statvfs)


@pytest.mark.parametrize(
    ("wound", "online"),
    [
        (gone(T), False),
        (gone(f"{T}/{EPOCHS}"), False),
        (nothing, True),
        (UNCLEAN, False),
        (from_zero(flipped(log(11), 300)), None),
        (both(swaps(11), UNCLEAN), None),
    ],
)
def test_a_full_disk_and_what_a_start_makes_or_gives_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, wound: Wound, online: bool | None
) -> None:
    """A partition that is made anew, or a new file of epochs, has no room. A recovery may give room back before it
    needs some: which comes first, nobody knows."""
    scenario = Scenario(wound, "")
    disks = wounded(scenario, tmp_path / "disks")
    mounted(monkeypatch, "d1", room=0)
    claims = [row for row in asked(disks, scenario) if row["type"] == "claim" and row["about"] == "log-dir"]
    assert [claim["online"] for claim in claims] == [True, online]


@pytest.mark.parametrize(
    ("log_dir", "about", "clean", "verdict", "what"),
    [
        ("d1", {"flag": os.ST_RDONLY}, True, "loses-data", "offline"),
        ("d0", {"flag": os.ST_RDONLY}, True, "refuses", "refuses"),
        ("d1", {"room": 0}, False, "loses-data", "no-room"),
        ("d0", {"room": 0}, True, "refuses", "refuses"),
        ("d1", {"room": 0}, True, "yes", None),
        ("d1", {"room": 99}, False, "yes", None),
        ("d1", {"files": 0}, False, "loses-data", "no-room"),
        ("d1", {"files": 0}, True, "loses-data", "no-room"),
        ("d0", {"files": 0}, True, "refuses", "refuses"),
        ("d1", {"files": 1}, True, "yes", None),
    ],
)
def test_what_a_broker_cannot_write(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    log_dir: str,
    about: dict[str, int],
    clean: bool,
    verdict: str,
    what: str | None,
) -> None:
    scenario = yes(nothing if clean else UNCLEAN)
    disks = wounded(scenario, tmp_path / "disks")
    assert (disks / "d1" / MARKER).exists() is clean
    mounted(monkeypatch, log_dir, **about)
    rows = asked(disks, scenario)
    assert (starts(rows), ahead(rows, disks)) == (verdict, {(log_dir, what)} if what else set())
    notes = next(row["notes"] for row in rows if row["type"] == "verdict")
    assert any("no space is left" in note for note in notes) is (clean and "room" in about)
    assert any("room for 1 new files is left" in note for note in notes) is (about == {"files": 1})
    options = [row for row in rows if row["type"] == "option"]
    assert [option["fix"] for option in options] == ([False] if what else [])


def blocks_of(disks: pathlib.Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in disks.glob(FILES)) // BLOCK


def files_of(disks: pathlib.Path) -> int:
    return len(list(disks.glob(FILES)))


def test_a_start_has_room_if_there_is_as_much_as_its_recovery_makes_the_files_grow(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put to brokers of 4.3.1 on disks with 0 to 9 free blocks: with fewer they ended, at a mapped index or because the
    log dir went offline; with as many they recovered the log."""
    scenario = yes(UNCLEAN)
    disks = wounded(scenario, tmp_path / "disks")
    for index in disks.glob("d1/*-[0-9]*/*index"):
        index.unlink()
    recovered = shutil.copytree(disks, tmp_path / "recovered")
    assert run_here(["recover", "d0", "d1", "--apply", "--now", str(NOW_MS)], recovered).status in (0, 1)
    needed = blocks_of(recovered) - blocks_of(disks)
    assert needed > 1
    made = files_of(recovered) - files_of(disks)
    no_room = {("d1", "no-room")}
    for about, what in (
        ({"room": needed - 1}, no_room),
        ({"room": needed}, set()),
        ({"files": made - 1}, no_room),
        ({"files": made}, set()),
    ):
        with monkeypatch.context() as patch:
            mounted(patch, "d1", **about)
            rows = asked(disks, scenario)
        assert ahead(rows, disks) == what
        assert next(row["starts"] for row in rows if row["type"] == "claim" and row["about"] == "broker") is (
            None if what else True
        )


def test_a_file_system_that_counts_no_inodes_is_full_without_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As btrfs says it."""
    scenario = yes(nothing)
    disks = wounded(scenario, tmp_path / "disks")
    full = SimpleNamespace(f_bavail=0, f_frsize=BLOCK, f_files=0, f_favail=0, f_flag=0)
    much = SimpleNamespace(f_bavail=MUCH, f_frsize=BLOCK, f_files=0, f_favail=0, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda path: full if pathlib.Path(path).name == "d1" else much)
    rows = asked(disks, scenario)
    assert (starts(rows), ahead(rows, disks)) == ("yes", set())
    assert any("no space is left" in note for row in rows if row["type"] == "verdict" for note in row["notes"])
