"""What somebody else has changed is noticed though size and time are as they were; his backups by hard links stay."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess

import pytest
from made import HEAD, Picture, contents, make_log_dir, make_plan, make_plans, picture, what_becomes
from mortal import HastyDisk

from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import facts_of
from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, undo
from klogtool.errors import Refused, StalePlan
from klogtool.plans.plan import Truncate
from klogtool.plans.saved_plan import SavedPlan

LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


def with_real_facts(plans: list[SavedPlan]) -> list[SavedPlan]:
    """As decisions make them: inode and time of the last change are in the facts."""
    whole = [plan.decided() for plan in plans]
    return [SavedPlan.of(type(p)(p.command, p.path, p.question, facts_of(Draft.of(p.path)), p.steps)) for p in whole]


def applied(log_dir: pathlib.Path) -> Entry:
    run = InPlace(make_plans(log_dir), HEAD, disk=HastyDisk())
    run.carry_out()
    return run.entries[0]


def change_unseen(path: pathlib.Path, seed: int = 0) -> None:
    """One byte, and the time is put back."""
    found, data = path.stat(), bytearray(path.read_bytes())
    data[random.Random(seed).randrange(len(data))] ^= 0xFF
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replace_unseen(path: pathlib.Path) -> None:
    """Another file of the same size and time."""
    found, data = path.stat(), bytearray(path.read_bytes())
    data[0] ^= 0xFF
    path.unlink()
    path.write_bytes(data)
    path.chmod(found.st_mode & 0o777)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


# Between plan and apply.


@pytest.mark.parametrize("change", [change_unseen, replace_unseen])
def test_no_file_of_a_plan_is_overwritten_that_was_changed(log_dir: pathlib.Path, change: object) -> None:
    for path in sorted(path for path in (log_dir / "t-0").iterdir() if path.stat().st_size):
        plans = with_real_facts(make_plans(log_dir))
        change(path)  # type: ignore[operator]
        before = picture(log_dir.parent)
        with pytest.raises(StalePlan, match="changed since the plan was made"):
            InPlace(plans, HEAD, disk=HastyDisk()).carry_out()
        assert picture(log_dir.parent) == before, path


def test_a_name_that_came_is_noticed_though_the_folder_has_its_time(log_dir: pathlib.Path) -> None:
    plans, time_ns = with_real_facts(make_plans(log_dir)[:1]), (log_dir / "t-0").stat().st_mtime_ns
    (log_dir / "t-0" / "00000000000000000000.txnindex").write_bytes(b"somebody's")
    os.utime(log_dir / "t-0", ns=(time_ns, time_ns))
    with pytest.raises(StalePlan, match="a file was added or removed"):
        InPlace(plans, HEAD).carry_out()


@pytest.mark.parametrize("name", [LOG, "t-0/leader-epoch-checkpoint", "t-0/00000000000000000020.index"])
def test_a_change_while_all_is_laid_ready_is_noticed(log_dir: pathlib.Path, name: str) -> None:
    """Behind our own names for the files, which change the same time."""

    class Meanwhile(Disk):
        def sync_dir(self, path: str) -> None:
            if path.endswith("/0") and not (log_dir / "t-0" / "seen").exists():
                change_unseen(log_dir / name)

    before = contents(log_dir)
    plans = with_real_facts(make_plans(log_dir)[:1])
    with pytest.raises(StalePlan, match="its ctime is newer"):
        InPlace(plans, HEAD, disk=Meanwhile()).carry_out()
    assert {n for n, data in contents(log_dir).items() if before[n] != data} == {name}
    assert os.listdir(log_dir.parent) == ["kafka"]


def test_our_own_names_are_no_change(log_dir: pathlib.Path, tmp_path: pathlib.Path, elsewhere: pathlib.Path) -> None:
    wanted = what_becomes(log_dir, tmp_path)
    for journal in (None, str(elsewhere / "journal")):
        run = InPlace(with_real_facts(make_plans(log_dir)), HEAD, disk=HastyDisk(), journal=journal)
        run.carry_out()
        assert contents(log_dir) == wanted
        undo(run.entries[0], disk=HastyDisk())


# Between apply and undo.


def test_nothing_is_taken_back_over_a_change_that_cannot_be_seen_by_size_and_time(log_dir: pathlib.Path) -> None:
    entry = applied(log_dir)
    changed = [n for n, data in contents(log_dir).items() if data and n not in ("meta.properties",)]
    touched = {name for record in (entry.manifest() or pytest.fail("no manifest")).records for name in record.before}
    changed = [name for name in changed if os.path.basename(name) in touched or name in touched]
    assert len(changed) > 8
    for name in changed:
        copy = log_dir / name
        good, times = copy.read_bytes(), copy.stat()
        change_unseen(copy)
        meanwhile = picture(log_dir.parent)
        with pytest.raises(Refused):
            undo(entry)
        assert picture(log_dir.parent) == meanwhile, name
        copy.write_bytes(good)
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    undo(entry)


def test_a_new_file_with_size_and_time_of_the_one_that_was_deleted(log_dir: pathlib.Path) -> None:
    before = (log_dir / "t-0/00000000000000000020.index").stat()
    entry = applied(log_dir)
    path = log_dir / "t-0/00000000000000000020.index"
    path.write_bytes(b"N" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Refused, match="modified since that run"):
        undo(entry)
    assert path.read_bytes() == b"N" * before.st_size


@pytest.mark.parametrize("change", ["chmod -R g+w", "cp -al"])
def test_a_mode_or_a_second_name_alone_is_no_reason_to_refuse(
    log_dir: pathlib.Path, box: pathlib.Path, change: str
) -> None:
    before = contents(log_dir)
    entry = applied(log_dir)
    subprocess.run([*change.split(), log_dir, *([box / "backup"] if change == "cp -al" else [])], check=True)
    undo(entry)
    assert contents(log_dir) == before


# Backups by hard links.


def frozen(folder: pathlib.Path) -> Picture:
    """What of a backup may not change: bytes, times and modes of its files."""
    return {name: row for name, row in picture(folder).items() if (folder / name).is_file()}


@pytest.mark.parametrize("elsewhere_too", [False, True])
def test_a_backup_made_before_a_cut_keeps_its_bytes(
    log_dir: pathlib.Path, box: pathlib.Path, tmp_path: pathlib.Path, elsewhere: pathlib.Path, elsewhere_too: bool
) -> None:
    before, wanted = picture(log_dir), what_becomes(log_dir, tmp_path)
    subprocess.run(["cp", "-al", log_dir, box / "backup"], check=True)
    backup = frozen(box / "backup")
    journal = str(elsewhere / "journal") if elsewhere_too else None
    run = InPlace(make_plans(log_dir), HEAD, disk=HastyDisk(), journal=journal)
    run.carry_out()
    assert contents(log_dir) == wanted
    assert frozen(box / "backup") == backup
    undo(run.entries[0])
    assert picture(log_dir) == before
    assert frozen(box / "backup") == backup


@pytest.mark.parametrize("elsewhere_too", [False, True])
def test_a_backup_made_before_undo_keeps_its_bytes(
    log_dir: pathlib.Path, box: pathlib.Path, elsewhere: pathlib.Path, elsewhere_too: bool
) -> None:
    before = picture(log_dir)
    journal = str(elsewhere / "journal") if elsewhere_too else None
    run = InPlace(make_plans(log_dir), HEAD, disk=HastyDisk(), journal=journal)
    run.carry_out()
    subprocess.run(["cp", "-al", log_dir, box / "backup"], check=True)
    backup = frozen(box / "backup")
    undo(run.entries[0])
    assert frozen(box / "backup") == backup
    assert picture(log_dir) == before


def test_names_in_the_journal_are_no_backup(log_dir: pathlib.Path) -> None:
    """A second run cuts the very file that the first one has kept: no copy of a gigabyte is made."""
    inode = (log_dir / LOG).stat().st_ino
    before = picture(log_dir)
    entries = []
    for size in (5000, 4000):
        run = InPlace([make_plan(log_dir / "t-0", [Truncate(os.path.basename(LOG), size)])], HEAD, disk=HastyDisk())
        run.carry_out()
        entries.append(run.entries[0])
        assert ((log_dir / LOG).stat().st_ino, (log_dir / LOG).stat().st_size) == (inode, size)
    for entry in reversed(entries):
        undo(entry)
    assert picture(log_dir) == before


def test_a_source_that_is_changed_while_it_is_copied_has_no_result(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    class Meanwhile(Disk):
        def sync_dir(self, path: str) -> None:
            if not (box / "seen").exists():
                (box / "seen").touch()
                change_unseen(log_dir / "t-1" / "00000000000000000000.log")

    with pytest.raises(StalePlan, match="changed while it was copied"):
        carry_out_to([], str(log_dir), str(box / "out"), disk=Meanwhile())
    assert not (box / "out").exists()
