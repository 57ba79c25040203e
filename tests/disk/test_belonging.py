"""A journal belongs to the log dir beside it: moved together they work, and a copy never reaches the original."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from made import HEAD, Picture, make_log_dir, make_plans, picture
from mortal import Died, HastyDisk, MortalDisk
from running import run_here

from klogtool.broker.file_facts import sum_of
from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.spooling import PREFIX
from klogtool.disk.writer import InPlace, discard, resume, undo
from klogtool.errors import KlogError, Refused

IDENTITY = b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=%b\n"


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    found = make_log_dir(box)
    (found / "meta.properties").write_bytes(IDENTITY % b"AAAAAAAAAAAAAAAAAAAABA")
    return found


@pytest.fixture
def before(log_dir: pathlib.Path) -> Picture:
    return picture(log_dir)


def done(log_dir: pathlib.Path, journal: pathlib.Path | None = None) -> pathlib.Path:
    """The journal of a run that is done."""
    run = InPlace(make_plans(log_dir), HEAD, journal=None if journal is None else str(journal), disk=HastyDisk())
    run.carry_out()
    return pathlib.Path(run.entries[0].journal)


def entry_of(journal: pathlib.Path) -> Entry:
    (entry,) = walk_entries(str(journal))
    return entry


def inodes(folder: pathlib.Path) -> dict[str, tuple[int, ...]]:
    """Inode, links and times of all under a folder: whoever links or touches something changes one of them."""
    found = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
    return {name: (s.st_ino, s.st_nlink, s.st_mtime_ns, s.st_ctime_ns, s.st_size) for name, s in found.items()}


def shell(words: str, *paths: pathlib.Path) -> None:
    subprocess.run([*words.split(), *paths], check=True)


COPIES = ["cp -a", "cp -al"]


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["kafka", "renamed"])
def test_undo_of_a_copy_takes_back_the_copy_alone(
    log_dir: pathlib.Path, before: Picture, box: pathlib.Path, way: str, name: str
) -> None:
    journal = done(log_dir)
    (box / "copies").mkdir()
    copy = box / "copies" / name
    shell(way, log_dir, copy)
    shell(way, journal, pathlib.Path(f"{copy}.klogtool"))
    after = picture(log_dir), picture(journal)
    links = inodes(log_dir), inodes(journal)
    undo(entry_of(pathlib.Path(f"{copy}.klogtool")))
    assert picture(copy) == before
    assert (picture(log_dir), picture(journal)) == after
    if way == "cp -a":
        assert (inodes(log_dir), inodes(journal)) == links
    originals = {path.lstat().st_ino for folder in (log_dir, journal) for path in folder.rglob("*") if path.is_file()}
    if way == "cp -a":
        assert not originals & {path.lstat().st_ino for path in copy.rglob("*") if path.is_file()}
    undo(entry_of(journal))
    assert picture(log_dir) == before
    assert picture(copy) == before


def test_a_copy_with_the_links_between_the_two(log_dir: pathlib.Path, before: Picture, box: pathlib.Path) -> None:
    """One `cp -a` of both keeps a file that both have a name for as one file."""
    journal = done(log_dir)
    (box / "copies").mkdir()
    shell("cp -a", log_dir, journal, box / "copies")
    after, links = picture(log_dir), inodes(box / "kafka.klogtool")
    undo(entry_of(box / "copies" / "kafka.klogtool"))
    assert picture(box / "copies" / "kafka") == before
    assert (picture(log_dir), inodes(journal)) == (after, links)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_moved_together_they_work(log_dir: pathlib.Path, before: Picture, box: pathlib.Path, elsewhere: bool) -> None:
    journal = done(log_dir, box / "j" if elsewhere else None)
    (box / "moved").mkdir()
    moved = box / "moved" / "kafka"
    log_dir.rename(moved)
    journal = journal.rename(box / "moved" / journal.name)
    undo(entry_of(journal))
    assert picture(moved) == before


def test_renamed_together_they_work_and_can_be_finished(
    log_dir: pathlib.Path, before: Picture, box: pathlib.Path
) -> None:
    run = InPlace(make_plans(log_dir), HEAD, disk=MortalDisk([box], 90))
    with pytest.raises(Died):
        run.carry_out()
    log_dir.rename(box / "other")
    journal = (box / "kafka.klogtool").rename(box / "other.klogtool")
    resume(entry_of(journal))
    assert (box / "other" / "t-0" / "00000000000000000020.log.deleted").stat().st_size == 100
    undo(entry_of(journal))
    assert {name: row for name, row in picture(box / "other").items() if name != ".lock"} == before


def test_only_the_log_dir_was_moved(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    journal = done(log_dir)
    log_dir.rename(box / "moved")
    after = picture(box / "moved")
    with pytest.raises(Refused, match="the log dir of this journal is not beside it"):
        undo(entry_of(journal))
    told = run_here(["undo", "--journal", str(journal)], box)
    assert (told.status, len(told.told.splitlines())) == (3, 1)
    assert run_here(["undo", "--list", str(journal)], box).status == 0
    assert picture(box / "moved") == after
    discard(entry_of(journal))
    assert picture(box / "moved") == after
    assert os.listdir(box) == ["moved"]


def test_only_the_journal_was_moved(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    journal = done(log_dir)
    after = picture(log_dir)
    with pytest.raises(Refused, match="not beside it"):
        undo(entry_of(journal.rename(box / "other.klogtool")))
    (box / "other").mkdir()
    with pytest.raises(Refused, match=r"another log dir|move the two together"):
        undo(entry_of(box / "other.klogtool"))
    with pytest.raises(Refused, match="this journal was renamed"):
        undo(entry_of((box / "other.klogtool").rename(box / "other")) if not (box / "other").rmdir() else None)  # type: ignore
    assert picture(log_dir) == after


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_copy_of_the_journal_alone_reaches_nothing(log_dir: pathlib.Path, box: pathlib.Path, elsewhere: bool) -> None:
    journal = done(log_dir, box / "j" if elsewhere else None)
    copy = box / "copy.klogtool"
    shell("cp -a", journal, copy)
    after = picture(log_dir)
    with pytest.raises(Refused):
        undo(entry_of(copy))
    (box / "copy").symlink_to(log_dir)
    with pytest.raises(Refused):
        undo(entry_of(copy))
    assert picture(log_dir) == after


def test_a_journal_elsewhere_knows_its_log_dir(log_dir: pathlib.Path, before: Picture, box: pathlib.Path) -> None:
    journal = done(log_dir, box / "j")
    log_dir.rename(box / "moved")
    other = make_log_dir(box)
    (other / "meta.properties").write_bytes(IDENTITY % b"BAAAAAAAAAAAAAAAAAAABA")
    theirs = picture(other)
    with pytest.raises(Refused, match="the log dir of this journal is not at"):
        undo(entry_of(journal))
    assert picture(other) == theirs
    shell("rm -r", other)
    shell("cp -a", box / "moved", log_dir)  # not the inode, but the same directory.id
    undo(entry_of(journal))
    assert picture(log_dir) == before


@pytest.mark.parametrize("name", ["kept-*", "tail-*"])
def test_what_is_kept_is_taken_only_if_it_has_the_bytes(log_dir: pathlib.Path, box: pathlib.Path, name: str) -> None:
    """In a journal that was copied, too: with the size and the time that it had."""
    journal = done(log_dir)
    shell("cp -a", log_dir, box / "copy")
    shell("cp -a", journal, box / "copy.klogtool")
    kept = next(path for path in sorted((box / "copy.klogtool").rglob(name)) if path.stat().st_size)
    times = kept.stat()
    kept.write_bytes(bytes(times.st_size))
    os.utime(kept, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = picture(box / "copy")
    with pytest.raises(Refused):
        undo(entry_of(box / "copy.klogtool"))
    assert picture(box / "copy") == after


@pytest.mark.parametrize("path", ["../kafka/t-0", "/etc", "t-0/../../other"])
def test_a_manifest_that_leads_out_of_its_log_dir(log_dir: pathlib.Path, path: str) -> None:
    entry = entry_of(done(log_dir))
    manifest = pathlib.Path(entry.path) / "manifest.json"
    row = json.loads(manifest.read_bytes())
    row["plans"][0]["path"] = path
    manifest.write_text(json.dumps(row))
    after = picture(log_dir)
    with pytest.raises(KlogError, match="leads outside its folder"):
        undo(entry)
    assert picture(log_dir) == after


def test_a_partition_dir_that_is_a_link_now(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    entry = entry_of(done(log_dir))
    (log_dir / "t-0").rename(box / "t-0")
    (log_dir / "t-0").symlink_to(box / "t-0")
    after = picture(box / "t-0")
    with pytest.raises(Refused, match="the run changed a folder here, now a symbolic link is in its place"):
        undo(entry)
    assert picture(box / "t-0") == after


def victim_of(box: pathlib.Path) -> tuple[pathlib.Path, Picture]:
    """A folder of somebody else, and how it is."""
    (box / "victim").mkdir()
    for name in ("00000000000000000000.log", "x"):
        (box / "victim" / name).write_bytes(b"not yours")
    return box / "victim", picture(box / "victim")


@pytest.mark.parametrize("progress", ["DONE", "UNDOING", "STAGED"])
@pytest.mark.parametrize("command", [["undo"], ["apply", "--resume"]])
def test_a_manifest_that_leads_out_by_a_link(
    log_dir: pathlib.Path, box: pathlib.Path, progress: str, command: list[str]
) -> None:
    """Whoever may write into log dir and journal, which may be another user than the one who runs undo."""
    entry = entry_of(done(log_dir))
    victim, before = victim_of(box)
    (log_dir / "t-0/link").symlink_to(victim)
    manifest = pathlib.Path(entry.path) / "manifest.json"
    whole = manifest.read_text().replace('"DONE"', f'"{progress}"')
    names = sorted(json.loads(whole)["plans"][0]["before"])
    assert len(names) > 5
    for name, there in itertools.product(names, ("link/x", "link/{}")):
        manifest.write_text(whole.replace(json.dumps(name), json.dumps(there.format(name))))
        run_here([*command, "--journal", entry.journal], box)
        assert picture(victim) == before, name


@pytest.mark.parametrize("when_ms", [1 << 62, -(1 << 62), 1 << 58])
def test_a_time_outside_the_calendar(log_dir: pathlib.Path, box: pathlib.Path, when_ms: int) -> None:
    plan = pathlib.Path(entry_of(done(log_dir)).path) / "plan.jsonl"
    head, *rest = plan.read_bytes().splitlines()
    row = {name: value for name, value in json.loads(head).items() if name != "sum"} | {"when_ms": when_ms}
    line = json.dumps(row, separators=(",", ":")).encode()
    plan.write_bytes(b"\n".join([line[:-1] + b',"sum":"%b"}' % sum_of(line).encode(), *rest, b""]))
    told = run_here(["undo", "--list", str(log_dir)], box)
    assert (told.status, told.err) == (0, "")
    assert run_here(["undo", str(log_dir)], box).status == 0


@pytest.mark.parametrize("field", ["uid", "gid", "mode"])
def test_an_owner_and_a_mode_that_no_file_has(log_dir: pathlib.Path, field: str) -> None:
    entry = entry_of(done(log_dir))
    manifest = pathlib.Path(entry.path) / "manifest.json"
    row = json.loads(manifest.read_bytes())
    file = next(file for file in row["plans"][0]["before"].values() if file)
    file[field] = 1 << 40
    manifest.write_text(json.dumps(row))
    after = picture(log_dir)
    with pytest.raises(KlogError, match="not a manifest of klogtool"):
        undo(entry)
    assert picture(log_dir) == after


def test_a_manifest_without_one_of_the_plans(log_dir: pathlib.Path) -> None:
    """Undo would take back the others, and then delete all that was kept."""
    entry = entry_of(done(log_dir))
    manifest = pathlib.Path(entry.path) / "manifest.json"
    row = json.loads(manifest.read_bytes())
    row["plans"].pop()
    manifest.write_text(json.dumps(row))
    after, kept = picture(log_dir), picture(pathlib.Path(entry.path))
    with pytest.raises(KlogError, match="not a manifest of klogtool: 3 plans, but 2 in it"):
        undo(entry)
    assert picture(log_dir) == after
    assert picture(pathlib.Path(entry.path)) == kept


def test_a_link_in_a_journal_is_not_followed(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    """Neither where an entry is removed, nor where one is looked for, nor where left-overs are removed."""
    entry = entry_of(done(log_dir))
    victim, before = victim_of(box)
    (pathlib.Path(entry.path) / "folder").symlink_to(victim)
    (pathlib.Path(entry.journal) / "0123456789ab-1").symlink_to(victim)
    (pathlib.Path(entry.journal) / f"{PREFIX}0").symlink_to(victim)
    assert [other.path for other in walk_entries(entry.journal)] == [entry.path]
    assert run_here(["undo", "--discard", "--all", "--journal", entry.journal], box).status == 0
    assert picture(victim) == before
    assert not os.path.lexists(entry.path)


@pytest.mark.parametrize("kept", ["kept-", "tail-"])
def test_a_link_in_place_of_what_was_kept(log_dir: pathlib.Path, box: pathlib.Path, kept: str) -> None:
    """A secret of somebody else does not come into the log dir."""
    entry = entry_of(done(log_dir))
    path = next(path for path in sorted(pathlib.Path(entry.path).rglob(f"{kept}*")) if path.stat().st_size)
    (box / "secret").write_bytes(path.read_bytes())
    shutil.copystat(path, box / "secret")
    path.unlink()
    path.symlink_to(box / "secret")
    after = picture(log_dir)
    with pytest.raises(Refused):
        undo(entry)
    assert picture(log_dir) == after


OTHERS = [None, True, -1, 1 << 200, 1.5, "x", "a\0b", "../../x", "/etc", [], [[]], {}, {"x": 1}]


def walk_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is, in depth; of long lists the first two."""
    if place:
        yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, part in parts:
        yield from walk_places(part, (*place, name))


@pytest.mark.slow
def test_a_manifest_with_any_field_another_one_is_no_traceback(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    """What can be undone all the same is undone; else it is refused, and nothing is changed. Never is there more."""
    entry = entry_of(done(log_dir))
    manifest = pathlib.Path(entry.path) / "manifest.json"
    good = json.loads(manifest.read_bytes())
    shell("cp -a", log_dir, box / "safe")
    shell("cp -a", pathlib.Path(entry.journal), box / "safe.klogtool")
    outside = picture(box / "safe")
    chosen = random.Random(19)
    for place in list(walk_places(good)):
        row = copy.deepcopy(good)
        at: Any = row
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = chosen.choice(OTHERS)
        manifest.write_text(json.dumps(row))
        after = picture(log_dir)
        told = run_here(["undo", "--journal", entry.journal], box)
        assert len(told.told.splitlines()) <= 2, (place, told.told)
        assert "Traceback" not in told.err, (place, told.err)
        assert told.status in (0, 1, 2, 3, 4), place
        if told.status in (1, 2, 3):
            assert picture(log_dir) == after, place
        else:
            shell("rm -rf", log_dir, pathlib.Path(entry.journal))
            shell("cp -a", box / "safe", log_dir)
            shell("cp -a", box / "safe.klogtool", pathlib.Path(entry.journal))
        assert sorted(os.listdir(box)) == ["kafka", "kafka.klogtool", "safe", "safe.klogtool"]
    assert picture(box / "safe") == outside
