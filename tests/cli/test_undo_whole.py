"""klogtool undo without an id: the whole of what one run did, or none of it; and one number for what it holds."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import shutil

import pytest
from running import FIXTURES, Done, run_here, tree_of

LOG = f"{0:020d}.log"


@pytest.fixture
def disks(tmp_path: pathlib.Path) -> list[pathlib.Path]:
    """Two log dirs with records to delete."""
    found = [tmp_path / name for name in ("d1", "d2")]
    for path in found:
        shutil.copytree(FIXTURES / "retention/logdir", path)
    return found


def run(*words: object) -> Done:
    return run_here([str(word) for word in words], pathlib.Path("/"))


def retained(*words: object) -> Done:
    return run("retain", *words, "--config", "retention.ms=1", "--now", "2026-12-22", "--apply")


def pictures(disks: list[pathlib.Path]) -> list[object]:
    return [{name: row[:3] + row[4:] for name, row in tree_of(disk).items() if name != "."} for disk in disks]


@pytest.mark.parametrize("journal", ["beside each", "in one place"])
@pytest.mark.parametrize("first", [0, 1])
def test_without_an_id_all_log_dirs_are_as_before(
    disks: list[pathlib.Path], tmp_path: pathlib.Path, journal: str, first: int
) -> None:
    where = ["--journal", str(tmp_path / "journal")] if journal == "in one place" else []
    before = pictures(disks)
    done = retained(*disks, *where)
    assert done.status == 0
    after = pictures(disks)
    assert all(one != other for one, other in zip(before, after, strict=True))
    told = run("undo", *(where or [disks[first]])).out.decode()
    assert told.count("Undone: ") == 2
    assert pictures(disks) == before


def test_what_apply_says_takes_back_all_of_it(disks: list[pathlib.Path]) -> None:
    before = pictures(disks)
    (line,) = (line for line in retained(*disks).out.decode().splitlines() if line.startswith("To take back all of it"))
    assert run(*shlex.split(line.split(": klogtool ")[1])).status == 0
    assert pictures(disks) == before


def test_with_an_id_only_that_log_dir(disks: list[pathlib.Path]) -> None:
    before = pictures(disks)
    undos = re.findall(r"klogtool (undo [0-9a-f]{12}-[0-9]+ --journal .+)", retained(*disks).out.decode())
    after = pictures(disks)
    assert run(*shlex.split(undos[1])).status == 0
    assert pictures(disks) == [after[0], before[1]]


def test_none_of_it_if_a_part_cannot_be_taken_back(disks: list[pathlib.Path]) -> None:
    retained(*disks)
    changed = sorted(disks[1].glob("time-0/*.log"))[-1]
    run("truncate", disks[1] / "time-0", "--to", "0", "--apply")
    after = pictures(disks)
    changed.write_bytes(b"new")
    done = run("undo", disks[0])
    assert (done.status, pictures(disks)[0]) == (3, after[0])


def test_two_runs_are_not_one(disks: list[pathlib.Path]) -> None:
    retained(disks[0])
    after = pictures(disks)
    retained(disks[1])
    assert run("undo", disks[1]).out.decode().count("Undone: ") == 1
    assert pictures(disks) == after


def test_a_copy_with_its_journal_does_not_reach_the_original(disks: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    retained(*disks)
    (tmp_path / "copy").mkdir()
    for name in ("d1", "d1.klogtool"):
        shutil.copytree(tmp_path / name, tmp_path / "copy" / name, symlinks=True)
    after = pictures(disks)
    run("undo", tmp_path / "copy/d1")
    assert pictures(disks) == after


def test_what_is_held_is_one_number(disks: list[pathlib.Path]) -> None:
    """In the plan, after it, in the list, and when it is given up."""
    words = ("retain", disks[0], "--config", "retention.ms=1", "--now", "2026-12-22", "--format", "json")
    planned = sum(row["bytes_held"] for row in map(json.loads, run(*words).out.splitlines()) if row["type"] == "plan")
    assert planned > 0
    applied = [json.loads(line) for line in run(*words, "--apply").out.splitlines()]
    assert [row["bytes_held"] for row in applied if row["type"] == "applied"] == [planned]
    listed = [json.loads(line) for line in run("undo", "--list", disks[0], "--format", "json").out.splitlines()]
    assert [row["bytes_held"] for row in listed if row["type"] == "run"] == [planned]
    assert f"{planned:,} bytes freed" in run("undo", "--discard", "--all", disks[0]).out.decode()


@pytest.mark.parametrize("words", [("undo",), ("undo", "--discard"), ("apply", "--resume")])
def test_where_there_is_nothing_it_is_said_where(disks: list[pathlib.Path], words: tuple[str, ...]) -> None:
    done = run(*words, disks[0])
    assert (done.status, done.err.startswith(f"klogtool: {disks[0]}: there is nothing to ")) == (2, True)
