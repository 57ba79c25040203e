"""Log dirs on a read-only mount, or without room."""

from __future__ import annotations

import os
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from asking_doctor import ahead, asked, starts, wounded
from startup import MARKER, UNCLEAN, nothing, yes

from klogtool.doctor import file_systems


def mounted(monkeypatch: pytest.MonkeyPatch, log_dir: str, *, room: int = 9, flag: int = 0) -> None:
    def statvfs(path: str) -> Any:
        here = pathlib.Path(path).name == log_dir
        return SimpleNamespace(f_bavail=room if here else 9, f_flag=flag if here else 0)

    monkeypatch.setattr(file_systems, "os", SimpleNamespace(statvfs=statvfs, ST_RDONLY=os.ST_RDONLY, path=os.path))


@pytest.mark.parametrize(
    ("log_dir", "about", "clean", "verdict", "what"),
    [
        ("d1", {"flag": os.ST_RDONLY}, True, "loses-data", "offline"),
        ("d0", {"flag": os.ST_RDONLY}, True, "refuses", "refuses"),
        ("d1", {"room": 0}, False, "loses-data", "no-room"),
        ("d0", {"room": 0}, True, "refuses", "refuses"),
        ("d1", {"room": 0}, True, "yes", None),
        ("d1", {"room": 1}, False, "yes", None),
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
    options = [row for row in rows if row["type"] == "option"]
    assert [option["fix"] for option in options] == ([False] if what else [])
