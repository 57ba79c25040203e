"""Folders that plans rename or move out of the log dir: what is refused, and what undo does where somebody has been."""

from __future__ import annotations

import copy
import errno
import functools
import json
import operator
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from made import HEAD, STRAY, Picture, add_foreign_folder, make_log_dir, make_moving_plans, make_plan, picture
from mortal import HastyDisk

from klogtool.broker.file_facts import folder_fact, listing_of
from klogtool.disk.journal import Entry
from klogtool.disk.manifest import Manifest
from klogtool.disk.no_undo import NoUndo
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, undo
from klogtool.errors import KlogError, Refused, StalePlan
from klogtool.plans.plan import Plan, RenameFolder, Step, Write, moved_out
from klogtool.plans.saved_plan import SavedPlan

Change = Callable[[pathlib.Path], object]
OUT = moved_out("kafka", "foo")


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    log_dir = make_log_dir(box)
    add_foreign_folder(log_dir)
    return log_dir


def carry_out(log_dir: pathlib.Path, *steps: Step, path: str = "") -> Entry:
    run = InPlace([make_plan(log_dir / path, steps, facts=False)], HEAD, disk=HastyDisk())
    run.carry_out()
    return run.entries[0]


@pytest.fixture
def done(log_dir: pathlib.Path) -> tuple[Entry, Picture]:
    """The entry of a run that is done, and how all was before."""
    before = picture(log_dir)
    run = InPlace(make_moving_plans(log_dir), HEAD, disk=HastyDisk())
    run.carry_out()
    return run.entries[0], before


def test_folders_keep_all_that_is_in_them(log_dir: pathlib.Path) -> None:
    before = picture(log_dir / "foo")
    entry = carry_out(log_dir, RenameFolder("foo", OUT))
    assert picture(log_dir.parent / "kafka.moved-out" / "foo") == before
    assert not (log_dir / "foo").exists()
    assert entry.held_bytes() < 20_000, "nothing of the folder is held"


def test_the_folder_that_takes_them_is_like_the_log_dir(log_dir: pathlib.Path) -> None:
    log_dir.chmod(0o750)
    carry_out(log_dir, RenameFolder("foo", OUT))
    assert (log_dir.parent / "kafka.moved-out").stat().st_mode & 0o777 == 0o750


def test_a_folder_that_takes_them_already_stays_as_it_was(log_dir: pathlib.Path) -> None:
    beside = log_dir.parent / "kafka.moved-out"
    beside.mkdir()
    (beside / "of before").write_bytes(b"1")
    beside.chmod(0o700)
    before, whole = picture(beside), picture(log_dir)
    entry = carry_out(log_dir, RenameFolder("foo", OUT))
    assert (beside / "foo" / "inner" / "file").is_file()
    undo(entry)
    assert (picture(beside), picture(log_dir)) == (before, whole)


def link_in_place(log_dir: pathlib.Path) -> None:
    (log_dir / "foo").rename(log_dir.parent / "elsewhere")
    (log_dir / "foo").symlink_to(log_dir.parent / "elsewhere")


@pytest.mark.parametrize(
    ("step", "change", "reason"),
    [
        pytest.param(RenameFolder("foo", "t-0"), None, "this name already", id="taken by a folder"),
        pytest.param(
            RenameFolder("foo", "bar"), lambda d: (d / "bar").mkdir(), "this name already", id="by an empty one"
        ),
        pytest.param(RenameFolder("foo", "meta.properties"), None, "this name already", id="taken by a file"),
        pytest.param(
            RenameFolder("foo", OUT),
            lambda d: (d.parent / "kafka.moved-out" / "foo").mkdir(parents=True),
            "this name already",
            id="taken outside",
        ),
        pytest.param(
            RenameFolder("foo", "bar"), lambda d: (d / "bar").symlink_to("nowhere"), "this name", id="by a broken link"
        ),
        pytest.param(RenameFolder("bar", "baz"), None, "no such folder", id="gone"),
        pytest.param(RenameFolder("meta.properties", "baz"), None, "not a folder", id="a file"),
        pytest.param(RenameFolder("foo", "bar"), link_in_place, "a symbolic link", id="a link"),
        pytest.param(
            RenameFolder("foo", OUT),
            lambda d: (d.parent / "kafka.moved-out").write_bytes(b""),
            "not a folder",
            id="a file in the place of the folder beside",
        ),
        pytest.param(
            RenameFolder("foo", OUT),
            lambda d: (d.parent / "kafka.moved-out").symlink_to(d.parent),
            "not a folder",
            id="a link in its place",
        ),
        *(
            pytest.param(RenameFolder(path, to), None, "cannot be moved there", id=f"{path} to {to}")
            for path, to in [
                ("foo", "../bar"),
                ("foo", "t-0/foo"),
                ("foo", "/tmp/foo"),
                ("foo", "../kafka.moved-out/../x"),
                ("foo", "../kafka.moved-out/"),
                ("foo", "../other.moved-out/foo"),
                ("foo", ""),
                ("foo", "a\0b"),
                ("foo", "x" * 256),
                ("foo/inner", "inner"),
                ("..", "bar"),
                (".", "bar"),
                ("../kafka.moved-out/foo", "foo"),
            ]
        ),
    ],
)
def test_what_cannot_be_one_rename_is_refused(
    log_dir: pathlib.Path, step: RenameFolder, change: Change | None, reason: str
) -> None:
    if change is not None:
        change(log_dir)
    before = picture(log_dir.parent)
    with pytest.raises(Refused, match=reason):
        carry_out(log_dir, Write("meta.properties", (b"new",)), step)
    assert {**picture(log_dir.parent), ".": ()} == {**before, ".": ()}


def test_another_file_system_is_refused(log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(log_dir / "foo"))
    with pytest.raises(Refused, match="mount point"):
        carry_out(log_dir, RenameFolder("foo", "bar"))


def test_a_plan_of_a_partition_dir_renames_no_folder(log_dir: pathlib.Path) -> None:
    (log_dir / "t-0" / "inner").mkdir()
    with pytest.raises(Refused, match="by a plan for the log dir"):
        carry_out(log_dir, RenameFolder("inner", "outer"), path="t-0")


def test_files_come_first(log_dir: pathlib.Path) -> None:
    with pytest.raises(Refused, match="renamed last"):
        carry_out(log_dir, RenameFolder("foo", "bar"), Write("meta.properties", (b"new",)))


def test_a_name_that_is_taken_meanwhile_is_not_replaced(log_dir: pathlib.Path) -> None:
    class Meanwhile(HastyDisk):
        def rename(self, path: str, to: str) -> None:
            super().rename(path, to)
            if to.endswith("meta.properties"):
                (log_dir / "bar").mkdir()

    before = picture(log_dir)
    steps = [Write("meta.properties", (b"new",)), RenameFolder("t-1", "t-2"), RenameFolder("foo", "bar")]
    with pytest.raises(OSError, match="this name already"):
        InPlace([make_plan(log_dir, steps, facts=False)], HEAD, disk=Meanwhile()).carry_out()
    (log_dir / "bar").rmdir()
    assert {**picture(log_dir), ".": ()} == {**before, ".": ()}


def test_an_error_of_the_last_rename_takes_all_back(log_dir: pathlib.Path) -> None:
    class Failing(HastyDisk):
        def rename(self, path: str, to: str) -> None:
            if to.endswith("kafka.moved-out/foo"):
                raise OSError(errno.EXDEV, "Invalid cross-device link", to)
            super().rename(path, to)

    before = picture(log_dir)
    with pytest.raises(OSError, match="cross-device"):
        InPlace(make_moving_plans(log_dir), HEAD, disk=Failing()).carry_out()
    assert picture(log_dir) == before
    assert os.listdir(log_dir.parent) == ["kafka"]


@pytest.mark.parametrize(
    "change", [lambda d: (d / "foo" / "new").touch(), lambda d: (d / "foo" / "inner").rename(d / "foo" / "other")]
)
def test_a_folder_that_changed_refuses_the_plan(log_dir: pathlib.Path, change: Change) -> None:
    facts = (folder_fact("foo", listing_of(str(log_dir / "foo"))),)
    made = make_plan(log_dir, [], facts=False)
    plan = SavedPlan.of(Plan("test", str(log_dir), made.question, facts, (RenameFolder("foo", "bar"),)))
    change(log_dir)
    with pytest.raises(StalePlan, match="added or removed"):
        InPlace([plan], HEAD, disk=HastyDisk()).carry_out()


def test_an_output_renames_no_folder(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    with pytest.raises(Refused, match="--output cannot do: use --apply"):
        carry_out_to([make_plan(log_dir, [RenameFolder("foo", OUT)])], str(log_dir), str(box / "out"))
    assert sorted(os.listdir(box)) == ["kafka"]


def test_for_good_renames_no_folder(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    with pytest.raises(Refused, match="--no-undo"):
        NoUndo([make_plan(log_dir, [RenameFolder("foo", OUT)])]).carry_out()
    assert picture(log_dir) == before


def test_the_bytes_of_a_folder_are_neither_freed_nor_held(log_dir: pathlib.Path) -> None:
    plan = make_plan(log_dir, [RenameFolder("t-0", STRAY), RenameFolder("foo", OUT)])
    assert (plan.row.bytes_freed, plan.row.bytes_held) == (0, 0)
    assert plan.row.steps[1] == RenameFolder("foo", "../kafka.moved-out/foo")


# Undo.


def test_undo_puts_back_names_and_times(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    assert sorted(p.name for p in log_dir.iterdir() if p.is_dir()) == ["t-0", STRAY]
    undo(done[0])
    assert picture(log_dir) == done[1]
    assert os.listdir(log_dir.parent) == ["kafka"]


def test_a_folder_in_which_somebody_put_something_stays(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    (log_dir.parent / "kafka.moved-out" / "theirs").touch()
    undo(done[0])
    assert picture(log_dir) == done[1]
    assert os.listdir(log_dir.parent / "kafka.moved-out") == ["theirs"]


def test_what_somebody_wrote_in_a_folder_goes_with_it(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    (log_dir.parent / "kafka.moved-out" / "foo" / "new").write_bytes(b"theirs")
    undo(done[0])
    assert (log_dir / "foo" / "new").read_bytes() == b"theirs"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda d: (d / "t-1").mkdir(), "now something else has this name", id="made anew"),
        pytest.param(lambda d: (d / STRAY).rename(d / "t-9"), "moved here is gone", id="renamed"),
        pytest.param(
            lambda d: subprocess.run(["rm", "-r", d.parent / "kafka.moved-out"], check=True),
            "moved here is gone",
            id="deleted",
        ),
        pytest.param(
            lambda d: subprocess.run(["sh", "-ec", "cp -a t-0 x; rm -r t-0; mv x t-0"], cwd=d, check=True),
            "is another one now",
            id="another folder",
        ),
        pytest.param(
            lambda d: (d / STRAY / "leader-epoch-checkpoint").write_bytes(b"new"), "modified since", id="a file in it"
        ),
    ],
)
def test_undo_is_refused_where_somebody_has_been(
    log_dir: pathlib.Path, done: tuple[Entry, Picture], change: Change, reason: str
) -> None:
    change(log_dir)
    meanwhile = picture(log_dir.parent)
    with pytest.raises(Refused, match=reason):
        undo(done[0])
    assert picture(log_dir.parent) == meanwhile


def test_a_later_run_is_undone_first(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    first = carry_out(log_dir, Write("meta.properties", (b"new",)), RenameFolder("foo", "bar"))
    in_folder = carry_out(log_dir, Write("00000000000000000000.index", (b"new",)), path="t-1")
    later = carry_out(log_dir, RenameFolder("bar", OUT), RenameFolder("t-1", "t-2"))
    for earlier in (first, in_folder):
        with pytest.raises(Refused, match="later run"):
            undo(earlier)
    for entry in (later, in_folder, first):
        undo(entry)
    assert picture(log_dir) == before


def test_a_copy_of_all_is_taken_back_without_the_original(
    log_dir: pathlib.Path, done: tuple[Entry, Picture], box: pathlib.Path
) -> None:
    subprocess.run(["cp", "-a", box, f"{box}.copy"], check=True)
    original = picture(box)
    copy = pathlib.Path(f"{box}.copy")
    undo(Entry(done[0].path.replace(str(box), str(copy))))
    assert {n: row[1:] for n, row in picture(copy / "kafka").items()} == {n: row[1:] for n, row in done[1].items()}
    assert picture(box) == original
    subprocess.run(["rm", "-r", copy], check=True)


def test_all_that_was_renamed_together_is_taken_back(
    log_dir: pathlib.Path, done: tuple[Entry, Picture], box: pathlib.Path
) -> None:
    for name in os.listdir(box):
        (box / name).rename(box / name.replace("kafka", "other"))
    undo(Entry(done[0].path.replace("kafka.klogtool", "other.klogtool")))
    assert picture(box / "other") == done[1]
    assert os.listdir(box) == ["other"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"path": "foo"', b'"path": "../foo"'),
        (b'"to": "foo", "out": true', b'"to": "../../foo", "out": true'),
        (b'"to": "foo", "out": true', b'"to": "/tmp/foo", "out": true'),
        (b'"to": "foo", "out": true', b'"to": "..", "out": true'),
        (b'"out": true', b'"out": "yes"'),
        (b'"folder_moves": {', b'"folder_moves": {"moves": 7, "x": {'),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused(
    done: tuple[Entry, Picture], log_dir: pathlib.Path, old: bytes, new: bytes
) -> None:
    manifest = pathlib.Path(done[0].path) / "manifest.json"
    data = manifest.read_bytes()
    assert old in data
    manifest.write_bytes(data.replace(old, new) + (b"}" if b'"x": {' in new else b""))
    meanwhile = picture(log_dir.parent)
    with pytest.raises(Exception, match="not a manifest of klogtool"):
        undo(done[0])
    assert picture(log_dir.parent) == meanwhile


def walk_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a JSON value, in depth."""
    if place:
        yield place
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from walk_places(value[name], (*place, name))


@pytest.mark.slow
def test_a_manifest_is_refused_or_read_as_it_is(done: tuple[Entry, Picture]) -> None:
    """Whatever stands in a field: no other error, and nothing is read as something else."""
    entry, (path, home) = done[0], (done[0].place("manifest.json"), done[0].home())
    whole = json.loads(pathlib.Path(path).read_bytes())
    taken = 0
    for *above, last in walk_places(whole):
        for value in (None, 7, -1, 1.5, True, "x", "../x", "a\0", [], [1], {}, {"a": 1}):
            row = copy.deepcopy(whole)
            at = functools.reduce(operator.getitem, above, row)
            if (above, last, value) == (["folder_moves"], "moves", []):  # as if there were none
                continue
            at[last] = value
            with suppress(KlogError):
                found = Manifest.of(json.dumps(row).encode(), path, home)
                assert json.loads(found.to_bytes(home)) == row, (above, last, value)
                taken += 1
    assert taken
    assert entry.manifest() is not None
