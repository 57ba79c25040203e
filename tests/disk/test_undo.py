"""Undo where somebody else has been: what he wrote is not lost, and what would not be lost is put back."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest
from made import HEAD, Picture, contents, make_log_dir, make_plan, make_plans, picture, what_becomes
from mortal import Died, HastyDisk, MortalDisk

from klogtool.disk.journal import Entry
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import InPlace, discard, resume, undo
from klogtool.errors import Corrupt, KlogError, Refused, StalePlan
from klogtool.plans.plan import Delete, Rename, Step, Truncate, Write
from klogtool.plans.saved_plan import SavedPlan

Change = Callable[[pathlib.Path], object]


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


@pytest.fixture
def done(log_dir: pathlib.Path) -> tuple[Entry, Picture]:
    """The entry of a run that is done, and how the log dir was before."""
    before = picture(log_dir)
    run = InPlace(make_plans(log_dir), HEAD, disk=HastyDisk())
    run.carry_out()
    return run.entries[0], before


def append(name: str, data: bytes = b"acknowledged") -> Change:
    def change(log_dir: pathlib.Path) -> None:
        with (log_dir / name).open("ab") as file:
            file.write(data)

    return change


def overwrite_in_place(name: str) -> Change:
    def change(log_dir: pathlib.Path) -> None:
        data = (log_dir / name).read_bytes()
        (log_dir / name).write_bytes(bytes(len(data)))

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(append("t-0/00000000000000000000.log"), id="append to what was cut"),
        pytest.param(append("t-0/00000000000000000000.index"), id="append to what was written"),
        pytest.param(append("t-0/00000000000000000009.log"), id="append to what was renamed"),
        pytest.param(append("t-0/00000000000000000009.log.deleted"), id="append to what is to be deleted"),
        pytest.param(append("recovery-point-offset-checkpoint"), id="append to a file of the log dir"),
        pytest.param(overwrite_in_place("t-0/leader-epoch-checkpoint"), id="write over"),
        pytest.param(overwrite_in_place("t-0/00000000000000000000.log"), id="write over what was cut"),
        pytest.param(
            lambda d: (d / "t-0/00000000000000000020.index").write_bytes(b"new"), id="make anew what was deleted"
        ),
        pytest.param(
            lambda d: (d / "t-0/00000000000000000020.log").write_bytes(b"new"), id="make anew what was renamed"
        ),
    ],
)
def test_what_somebody_else_wrote_is_not_lost(
    log_dir: pathlib.Path, done: tuple[Entry, Picture], change: Change
) -> None:
    change(log_dir)
    meanwhile = picture(log_dir.parent)
    with pytest.raises(Refused, match="modified since that run"):
        undo(done[0])
    assert picture(log_dir.parent) == meanwhile


@pytest.mark.parametrize(
    "name",
    [
        "t-0/00000000000000000009.log.deleted",
        "t-0/00000000000000000020.log.deleted",
        "t-0/00000000000000000000.index",
        "t-0/00000000000000000030.log",
        ".kafka_cleanshutdown",
    ],
)
def test_what_a_broker_has_deleted_is_put_back(log_dir: pathlib.Path, done: tuple[Entry, Picture], name: str) -> None:
    (log_dir / name).unlink()
    undo(done[0])
    assert picture(log_dir) == done[1]


def test_other_files_may_come_go_and_change(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    (log_dir / "t-0/00000000000000000040.log").write_bytes(b"rolled")
    append("meta.properties")(log_dir)
    undo(done[0])
    after, before = picture(log_dir), done[1]
    assert after["t-0/00000000000000000040.log"][-1] == b"rolled"
    different = {name for name in after if after[name] != before.get(name)}
    assert different == {"t-0", "t-0/00000000000000000040.log", "meta.properties"}


def test_a_log_dir_that_was_copied_and_put_back_is_still_the_same(
    log_dir: pathlib.Path, done: tuple[Entry, Picture]
) -> None:
    """Other inodes, but sizes and times: `cp -a` away and back."""
    assert os.system(f"cp -a {log_dir} {log_dir}.copy && rm -r {log_dir} && mv {log_dir}.copy {log_dir}") == 0
    undo(done[0])
    assert {n: row[1:] for n, row in picture(log_dir).items()} == {n: row[1:] for n, row in done[1].items()}


def test_a_later_run_is_undone_first(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    between = picture(log_dir)
    later = InPlace([make_plan(log_dir / "t-0", [Truncate("00000000000000000000.log", 10)])], HEAD)
    later.carry_out()
    with pytest.raises(Refused, match="undo the later run first"):
        undo(done[0])
    undo(later.entries[0])
    assert picture(log_dir) == between
    undo(done[0])
    assert picture(log_dir) == done[1]
    assert os.listdir(log_dir.parent) == ["kafka"]


@pytest.mark.slow
def test_resume_is_refused_where_somebody_has_been_in_between(log_dir: pathlib.Path) -> None:
    run, n = cut_short(log_dir, 60), 60
    while (log_dir / "t-0" / "00000000000000000020.index").exists():  # until it came to about the middle of the steps
        undo(run.entries[0], disk=HastyDisk())
        run, n = cut_short(log_dir, n + 1), n + 1
    append("t-0/00000000000000000000.log")(log_dir)
    (log_dir / ".lock").unlink()  # the killed run had made it
    meanwhile = contents(log_dir)
    with pytest.raises(Refused, match="somebody else changed files"):
        resume(run.entries[0])
    with pytest.raises(Refused, match="modified since that run"):
        undo(run.entries[0])
    with pytest.raises(Refused, match="cut short"):
        discard(run.entries[0])
    assert contents(log_dir) == meanwhile


def cut_short(log_dir: pathlib.Path, dies_after: int) -> InPlace:
    run = InPlace(make_plans(log_dir), HEAD, disk=MortalDisk([log_dir.parent], dies_after))
    with pytest.raises(Died):
        run.carry_out()
    return run


def test_a_broker_that_went_on_with_the_file_under_another_name(log_dir: pathlib.Path) -> None:
    """The journal's link is to the same bytes: undo must not take them for the original."""
    steps: list[Step] = [Rename("00000000000000000009.log.swap", "00000000000000000050.log")]
    run = InPlace([make_plan(log_dir / "t-0", steps)], HEAD)
    run.carry_out()
    append("t-0/00000000000000000050.log")(log_dir)
    (log_dir / "t-0/00000000000000000050.log").rename(log_dir / "t-0/00000000000000000051.log")
    with pytest.raises(Refused, match="modified since that run"):
        undo(run.entries[0])


def test_discard_frees_what_was_kept(log_dir: pathlib.Path, done: tuple[Entry, Picture]) -> None:
    entry = done[0]
    held = {str(p.relative_to(entry.path)) for p in pathlib.Path(entry.path).rglob("*") if p.is_file()}
    assert {"plan.jsonl", "manifest.json"} < held
    assert entry.held_bytes() == sum(plan.row.bytes_held for plan in entry.plans()) > 4096
    after = picture(log_dir)
    discard(entry)
    assert picture(log_dir) == after
    assert os.listdir(log_dir.parent) == ["kafka"]
    with pytest.raises(KlogError, match="no such"):
        undo(entry)


def test_what_is_kept_is_the_file_itself_or_only_its_tail(log_dir: pathlib.Path) -> None:
    inodes = {name: (log_dir / "t-0" / name).stat().st_ino for name in os.listdir(log_dir / "t-0")}
    steps = [Delete("00000000000000000020.log"), Truncate("00000000000000000030.log", 1000)]
    run = InPlace([make_plan(log_dir / "t-0", steps)], HEAD)
    run.carry_out()
    kept = pathlib.Path(run.entries[0].path) / "0"
    assert {p.stat().st_ino for p in kept.glob("kept-*")} >= {inodes["00000000000000000020.log"]}
    assert [p.stat().st_size for p in kept.glob("tail-*")] == [234]
    undo(run.entries[0])
    assert {name: (log_dir / "t-0" / name).stat().st_ino for name in os.listdir(log_dir / "t-0")} == inodes


@pytest.mark.parametrize("name", ["manifest.json", "plan.jsonl"])
@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]", b'{"schema":9}', b"\0" * 100], ids=repr)
def test_a_damaged_journal_is_said_to_be_one(
    log_dir: pathlib.Path, done: tuple[Entry, Picture], name: str, damage: bytes
) -> None:
    (pathlib.Path(done[0].path) / name).write_bytes(damage)
    after = picture(log_dir)
    for work in (undo, resume, discard):
        with pytest.raises(KlogError):
            work(done[0])
    assert picture(log_dir) == after


def test_a_kept_file_that_is_gone_is_noticed_before_anything_is_put_back(
    log_dir: pathlib.Path, done: tuple[Entry, Picture]
) -> None:
    next(pathlib.Path(done[0].path).glob("0/kept-*")).unlink()
    after = picture(log_dir)
    with pytest.raises(Refused, match="gone"):
        undo(done[0])
    assert picture(log_dir) == after


def test_the_manifest_says_of_every_file_how_it_was_and_what_it_became(done: tuple[Entry, Picture]) -> None:
    manifest = json.loads((pathlib.Path(done[0].path) / "manifest.json").read_bytes())
    assert manifest["progress"] == "DONE"
    first = manifest["plans"][0]
    assert first["before"].keys() == first["after"].keys()
    assert first["before"]["00000000000000000000.log"]["state"]["size"] == 9000
    assert first["after"]["00000000000000000000.log"]["size"] == 8000
    assert first["after"]["00000000000000000000.log"]["mtime_ns"] > 10**18
    assert first["before"]["00000000000000000000.txnindex"] is None


# Plans.


def test_an_id_is_the_same_for_the_same_plan_over_the_same_files(log_dir: pathlib.Path) -> None:
    plans = make_plans(log_dir)
    assert [plan.id for plan in plans] == [plan.id for plan in make_plans(log_dir)]
    run = InPlace(plans, HEAD)
    run.carry_out()
    undo(run.entries[0])
    assert [plan.id for plan in plans] == [plan.id for plan in make_plans(log_dir)]
    (log_dir / "t-0" / "new").write_bytes(b"")
    assert plans[0].id != make_plans(log_dir)[0].id


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(append("t-0/00000000000000000000.log"), id="written to"),
        pytest.param(lambda d: os.utime(d / "t-0/00000000000000000000.log"), id="touched"),
        pytest.param(lambda d: (d / "t-0/new").write_bytes(b""), id="a file came"),
        pytest.param(lambda d: (d / "t-0/leader-epoch-checkpoint").unlink(), id="a file went"),
        pytest.param(lambda d: (d / "t-1").rename(d / "t-2"), id="a folder went"),
    ],
)
def test_a_stale_plan_is_refused(log_dir: pathlib.Path, change: Change) -> None:
    plans = make_plans(log_dir)
    change(log_dir)
    before = picture(log_dir.parent)
    with pytest.raises(StalePlan, match="changed since the plan was made"):
        InPlace(plans, HEAD).carry_out()
    assert picture(log_dir.parent) == before


def test_a_plan_of_large_contents_is_decided_again(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wanted = what_becomes(log_dir, tmp_path)
    light = [SavedPlan.of(plan.plan, with_content=False) for plan in make_plans(log_dir) if plan.plan is not None]
    InPlace(light, HEAD, disk=HastyDisk()).carry_out()
    assert contents(log_dir) == wanted


def test_a_journal_is_never_in_a_log_dir(log_dir: pathlib.Path) -> None:
    for place in (log_dir, log_dir / "j", log_dir / "t-0" / "j", log_dir / "t-0"):
        with pytest.raises(Refused, match="cannot be inside a log dir"):
            InPlace(make_plans(log_dir), HEAD, journal=str(place)).carry_out()


def test_links_are_not_written_through(log_dir: pathlib.Path) -> None:
    (log_dir / "t-1" / "00000000000000000009.log").symlink_to(log_dir / "meta.properties")
    (log_dir / "t-1" / "00000000000000000010.log").mkdir()
    for name in ("00000000000000000009.log", "00000000000000000010.log"):
        before = picture(log_dir)
        steps: list[Step] = [Truncate("00000000000000000000.log", 1), Write(name, (b"x",))]
        with pytest.raises(Refused, match="not a regular file"):
            InPlace([make_plan(log_dir / "t-1", steps)], HEAD).carry_out()
        assert picture(log_dir) == before


def test_a_run_that_was_killed_at_once_has_nothing_to_tell(log_dir: pathlib.Path) -> None:
    entry = Entry(str(log_dir) + ".klogtool/0123456789ab-1")
    os.makedirs(entry.path)
    assert entry.is_torn()
    assert entry.progress() is Progress.PREPARING
    with pytest.raises(Refused, match="undo it"):
        resume(entry)
    undo(entry)
    assert os.listdir(log_dir.parent) == ["kafka"]


def test_corrupt_is_what_a_manifest_of_nonsense_is(done: tuple[Entry, Picture]) -> None:
    (pathlib.Path(done[0].path) / "manifest.json").write_bytes(b'{"schema":2,"progress":"DONE","plans":[{}]}')
    with pytest.raises(Corrupt):
        undo(done[0])


def test_two_log_dirs_have_a_journal_each(box: pathlib.Path) -> None:
    """As the disks of one broker: each can be undone alone, and an error on one takes back the other."""
    first, second = (make_log_dir(box / name) for name in ("disk1", "disk2"))
    before = picture(first), picture(second)
    plans = [*make_plans(first), *make_plans(second)]
    run = InPlace(plans, HEAD, disk=HastyDisk())
    run.carry_out()
    assert [entry.journal for entry in run.entries] == [f"{first}.klogtool", f"{second}.klogtool"]
    undo(run.entries[0], disk=HastyDisk())
    assert picture(first) == before[0]
    assert picture(second) != before[1]
    undo(run.entries[1], disk=HastyDisk())
    assert (picture(first), picture(second)) == before

    class BreaksOnTheSecond(HastyDisk):
        def delete(self, path: str) -> None:
            if path.startswith(f"{second}/"):
                raise OSError(5, "input/output error", path)
            super().delete(path)

    broken = InPlace(plans, HEAD, disk=BreaksOnTheSecond())
    with pytest.raises(OSError, match="input/output error"):
        broken.carry_out()
    assert broken.begun, "what was done on the second disk cannot be taken back on it now"
    assert [entry.journal for entry in broken.entries] == [f"{second}.klogtool"]
    assert picture(first) == before[0]
    undo(broken.entries[0], disk=HastyDisk())
    assert picture(second) == before[1]
