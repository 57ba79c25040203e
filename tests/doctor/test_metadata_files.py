"""What a start does at a metadata log dir whose files are none, or are somebody else's: doctor and quorum agree."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pytest
from metadata_files import CASES, CM, CUT, NAMES, STARTS, put
from running import run_here
from startup import HERE

Path = pathlib.Path
Rows = list[dict[str, Any]]
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.quorum.voters=1@localhost:9093
"""
AGREE = pytest.mark.parametrize(("name", "kind"), CASES)


def asked(disks: Path, command: str, *paths: str) -> tuple[int, Rows]:
    (settings := disks.parent / "server.properties").write_text(SETTINGS)
    known = ["--config-file", str(settings)] if command == "quorum" else []
    done = run_here([command, *(str(disks / path) for path in paths), *known, "--json"], disks)
    return done.status, [json.loads(line) for line in done.out.splitlines()]


def verdict(rows: Rows) -> Any:
    return next(row["starts"] for row in rows if row["type"] == "verdict")


def answer(rows: Rows) -> dict[str, Any]:
    return next(row for row in rows if row["type"] == "answer")


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))


@AGREE
def test_the_doctor_says_what_a_broker_did(disks: Path, name: str, kind: str) -> None:
    put(disks, name, kind)
    status, rows = asked(disks, "doctor", "d0", "d1")
    points = [row for row in rows if row["type"] == "ahead" and row["severity"] == "error"]
    if (name, kind) in STARTS:
        assert (status, verdict(rows), points) == (0, "yes", [])
    elif (name, kind) in CUT:
        assert (status, verdict(rows)) == (1, "loses-data")
        assert [(row["what"], row["first_offset"]) for row in points] == [("truncated", 49)]
    else:
        assert (status, verdict(rows)) == (1, "refuses")
        assert [row["path"] for row in points] == [f"{disks / name}"]
        assert points[0]["what"] in ("refuses", "offline")


@AGREE
def test_quorum_elects_nobody_who_does_not_come_up(disks: Path, name: str, kind: str) -> None:
    put(disks, name, kind)
    status, rows = asked(disks, "quorum", "d0")
    if (name, kind) in STARTS:
        assert (status, answer(rows)["leader"]) == (0, "elected")
    elif (name, kind) in CUT:
        assert (status, answer(rows)["leader"], answer(rows)["here"][0]["end_offset"]) == (1, "elected", 49)
    else:
        assert (status, answer(rows)["leader"]) == (1, "never")
        assert answer(rows)["here"][0]["why_not"] in (
            "metadata-file-not-opened",
            "quorum-state-unreadable",
            "metadata-log-damaged",
        )
        assert answer(rows)["cures"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    "name",
    [*(name for name in NAMES if (HERE / "broker" / name).exists()), CM, "d0/meta.properties", "d0", f"{CM}/notes.txt"],
)
def test_who_may_not_open_a_file_leads_nobody(disks: Path, name: str) -> None:
    """A broker of another user than root, in whose log dirs root made a file."""
    if not (disks / name).exists():
        (disks / name).write_bytes(b"")
    for path in (disks, *disks.rglob("*")):
        os.chown(path, 65534, 65534)
    os.chown(disks / name, 0, 0)
    (disks / name).chmod(0o700 if (disks / name).is_dir() else 0o600)
    status, rows = asked(disks, "quorum", "d0")
    assert (status, answer(rows)["leader"]) == (1, "never")
    assert answer(rows)["here"][0]["why_not"] == "metadata-file-not-opened"
    status, rows = asked(disks, "doctor", "d0", "d1")
    assert (status, verdict(rows)) == (1, "refuses")


@pytest.mark.parametrize("was_used", [True, False])
def test_a_controller_that_has_run_and_has_no_metadata_has_lost_them(tmp_path: Path, was_used: bool) -> None:
    """A disk that was formatted and never started has no .lock, and nothing to lose."""
    log_dir = tmp_path / "d0"
    log_dir.mkdir()
    shutil.copy(HERE / "broker" / "d0" / "meta.properties", log_dir)
    if was_used:
        (log_dir / ".lock").touch()
    settings = SETTINGS.replace("broker,controller", "controller").replace("PLAINTEXT://localhost:9092,", "")
    (tmp_path / "server.properties").write_text(f"{settings}log.dirs={log_dir}\n")
    done = run_here(["doctor", "--config-file", "server.properties", "--json"], tmp_path)
    points = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "ahead"]
    assert (done.status, [row["what"] for row in points]) == ((1, ["metadata-lost"]) if was_used else (0, []))
