"""Retention leaves an empty last segment once all records have expired: to no command something is missing."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from running import FIXTURES, run_here

COMMANDS = {
    "salvage": ("salvage", "logdir/t-0", "--output", "kept"),
    "recover": ("recover", "logdir/t-0"),
    "verify": ("verify", "logdir"),
    "doctor": ("doctor", "logdir"),
}


@pytest.fixture(params=["files of retention are there", "they are deleted"])
def emptied(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "logdir")
    words = ["retain", "logdir/t-0", "--config", "retention.ms=1", "--now", "1900000000000", "--apply"]
    assert run_here([*words, "--last-stop", "clean"], tmp_path).status == 0
    if request.param == "they are deleted":
        for file in (tmp_path / "logdir/t-0").glob("*.deleted"):
            file.unlink()
    assert [log.stat().st_size for log in (tmp_path / "logdir/t-0").glob("*.log")] == [0]
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_lost(command: str, emptied: pathlib.Path) -> None:
    done = run_here(COMMANDS[command], emptied)
    assert done.status == 0, done.out + done.err


def test_a_copy_of_fleet_collect_has_no_hole(emptied: pathlib.Path) -> None:
    rows = map(json.loads, run_here(["fleet", "collect", "-q", "logdir"], emptied).out.splitlines())
    (copy,) = (row for row in rows if (row.get("topic"), row.get("partition")) == ("t", 0))
    assert (copy["holes"], copy["sound_end_offset"], copy["log_end_offset"]) == ([], 62, 62)


def test_a_replica_may_have_what_is_gone(emptied: pathlib.Path) -> None:
    """It is not taken: retention deleted it. That is told."""
    replica = FIXTURES / "transactions/logdir/t-0"
    done = run_here([*COMMANDS["salvage"], "--replica", str(replica)], emptied)
    assert b"records before the start of this log" in b" ".join(done.out.split())  # however long the path is
    assert (done.status, b"nothing is lost" in done.out) == (0, True), done.out.decode()
