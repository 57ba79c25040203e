"""Each command that changes a log, where something is in the way: the log dir's lock, a disk that fails or is full."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import sys

import pytest
from failing import FailingDisk
from made import HEAD, contents, picture
from mortal import HastyDisk, reusable
from running import FIXTURES, ROOT, run_here
from test_errors import FullDisk, changed, error_of
from test_lock import BY_PYTHON, another_process
from working import NAME, SOURCE, WORK, put_input, words_of

from klogtool.cli import writing
from klogtool.disk.disk import Disk
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, undo
from klogtool.plans.saved_plan import SavedPlan


@pytest.fixture(params=WORK)
def work(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    """One partition, stopped cleanly."""
    (box / "logdir").mkdir()
    shutil.copytree(FIXTURES / SOURCE / NAME, box / "logdir" / NAME)
    for file in (FIXTURES / SOURCE).iterdir():
        if file.is_file():
            shutil.copy2(file, box / "logdir")
    put_input(box.parent / "input")
    return box / "logdir"


def words(work: str, log_dir: pathlib.Path) -> list[str]:
    return words_of(work, log_dir / NAME, log_dir.parent.parent / "input")


def planned(work: str, log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[SavedPlan]:
    """The plans of the command line."""
    found: list[SavedPlan] = []
    decide = writing.decide

    def note(*asked: object) -> object:
        plans = list(decide(*asked))  # type: ignore[arg-type]
        found.extend(map(reusable, plans))
        return plans

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(writing, "decide", note)
        assert run_here(words(work, log_dir), ROOT).status == 0
    return found


def test_a_log_dir_that_is_in_use(log_dir: pathlib.Path, work: str) -> None:
    with another_process([sys.executable, "-c", BY_PYTHON, log_dir / ".lock"]) as answer:
        assert answer == "locked"
        before = picture(log_dir)
        done = run_here([*words(work, log_dir), "--apply"], ROOT)
        assert picture(log_dir) == before
    assert (done.status, "Traceback" in done.err) == (3, False)
    assert "holds the lock" in done.err
    assert os.listdir(log_dir.parent) == ["logdir"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_disk_that_fails_once(log_dir: pathlib.Path, work: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it does, all is taken back, or can be."""
    plans, before = planned(work, log_dir, monkeypatch), picture(log_dir)
    for n in range(number % 3, 10_000, 5):
        run = InPlace(plans, HEAD, disk=(disk := FailingDisk(n, number, once=True)))
        error = error_of(run.carry_out)
        assert error is None or (error.errno == number and error.filename)
        for entry in run.entries:
            undo(entry, disk=HastyDisk())
        assert changed(before, log_dir) - {"."} == set(), n  # its time, where `.lock` could not be removed at once
        if not disk.failed:
            break
    assert n > 20


def test_a_disk_that_is_full(log_dir: pathlib.Path, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans, before = planned(work, log_dir, monkeypatch), picture(log_dir)
    for n in range(10_000):
        run = InPlace(plans, HEAD, disk=(disk := FullDisk(n)))
        error = error_of(run.carry_out)
        assert error is None or error.errno == errno.ENOSPC
        for entry in run.entries:
            undo(entry, disk=disk)
        assert changed(before, log_dir) == set(), n
        if not disk.is_full:
            break
    assert n > 1


def test_an_output_on_a_disk_that_is_full(log_dir: pathlib.Path, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans, before = planned(work, log_dir, monkeypatch), contents(log_dir)
    out = log_dir.parent / "out"
    for n in range(0, 10_000, 4):
        disk: Disk = FailingDisk(n, errno.ENOSPC, once=True)
        error = error_of(lambda disk=disk: carry_out_to(plans, str(log_dir / NAME), str(out), disk=disk))
        assert contents(log_dir) == before
        if error is None:
            break
        assert error.errno == errno.ENOSPC
        shutil.rmtree(out, ignore_errors=True)  # there as a whole, where the last sync failed
        assert os.listdir(log_dir.parent) == ["logdir"]
    assert n > 8
