"""The log dir's `.lock`: a broker's is respected, ours is respected by a broker, and nothing stays of it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from made import HEAD, make_log_dir, make_plan, make_plans, picture
from mortal import Died, HastyDisk, MortalDisk

from klogtool.disk.disk import Disk
from klogtool.disk.lock import locked
from klogtool.disk.writer import InPlace, discard, resume, undo
from klogtool.errors import LogDirInUse
from klogtool.repair.plan import Truncate

HERE = pathlib.Path(__file__).parent
BY_PYTHON = """import fcntl, sys
file = open(sys.argv[1], "a+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
"""
TakesLock = Callable[[pathlib.Path], AbstractContextManager[str]]


@contextmanager
def another_process(command: list[str | os.PathLike[str]]) -> Iterator[str]:
    """Runs meanwhile; gives its first line."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("")


@pytest.fixture(params=["python", "jvm"])
def takes_lock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TakesLock:
    """`with takes_lock(path) as answer:` another process has tried to lock the file, and has the lock if it got it."""
    if request.param == "python":
        return lambda path: another_process([sys.executable, "-c", BY_PYTHON, path])
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("needs Java")
    classes = tmp_path_factory.getbasetemp() / "classes"
    if not classes.exists():
        subprocess.run(["javac", "-d", classes, HERE / "TakeLock.java"], check=True)
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "TakeLock"]
    return lambda path: another_process([*command, path])


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


def test_a_log_dir_that_a_broker_has_is_left_alone(log_dir: pathlib.Path, takes_lock: TakesLock) -> None:
    before = picture(log_dir)
    with takes_lock(log_dir / ".lock") as answer:
        assert answer == "locked"
        meanwhile = picture(log_dir)
        for plans in (make_plans(log_dir), [make_plan(log_dir / "t-1", [Truncate("00000000000000000000.log", 1)])]):
            with pytest.raises(LogDirInUse, match=r"process [0-9]+ holds the lock"):
                InPlace([plan for plan in plans if plan.path != str(log_dir)], HEAD).carry_out()
        assert picture(log_dir) == meanwhile
        assert os.listdir(log_dir.parent) == ["kafka"]
    (log_dir / ".lock").unlink()
    os.utime(log_dir, ns=(before["."][3], before["."][3]))  # type: ignore[arg-type]
    assert picture(log_dir) == before


def test_undo_resume_and_discard_respect_it(log_dir: pathlib.Path, takes_lock: TakesLock) -> None:
    run = InPlace(make_plans(log_dir), HEAD, disk=HastyDisk())
    run.carry_out()
    with takes_lock(log_dir / ".lock"):
        after = picture(log_dir.parent)
        for work in (undo, resume, discard):
            with pytest.raises(LogDirInUse):
                work(run.entries[0])
        assert picture(log_dir.parent) == after


def test_nobody_gets_it_while_we_have_it(log_dir: pathlib.Path, takes_lock: TakesLock) -> None:
    with locked(Disk(), str(log_dir)), takes_lock(log_dir / ".lock") as answer:
        assert answer == "refused"
    with takes_lock(log_dir / ".lock") as answer:
        assert answer == "locked"


def test_a_lock_file_that_was_made_goes_again_and_leaves_no_trace(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    with locked(Disk(), str(log_dir)):
        made = picture(log_dir)
        assert made.keys() - before.keys() == {".lock"}
        assert made[".lock"][:3] == before["meta.properties"][:3]  # a broker can open it
        assert made["."] == before["."]
    assert picture(log_dir) == before


def test_a_lock_file_that_was_there_stays(log_dir: pathlib.Path) -> None:
    (log_dir / ".lock").write_bytes(b"")
    before = picture(log_dir)
    with locked(Disk(), str(log_dir)):
        pass
    assert picture(log_dir) == before


def test_a_lock_file_that_somebody_has_just_opened_stays(log_dir: pathlib.Path) -> None:
    """A broker opens it first and locks it then: it would have the lock of a file that nobody else can find."""
    opens = "import sys; file = open(sys.argv[1]); print('opened', flush=True); sys.stdin.read()"
    with locked(Disk(), str(log_dir)):
        other = another_process([sys.executable, "-c", opens, log_dir / ".lock"])
        assert other.__enter__() == "opened"
    assert (log_dir / ".lock").exists()
    other.__exit__(None, None, None)


def test_the_lock_of_a_killed_run_goes_with_its_undo(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    run = InPlace(make_plans(log_dir), HEAD, disk=MortalDisk([log_dir.parent], 70))
    with pytest.raises(Died):
        run.carry_out()
    assert (log_dir / ".lock").exists()
    undo(run.entries[0])
    assert picture(log_dir) == before


def test_a_partition_dir_that_is_in_no_log_dir_needs_no_lock_of_it(box: pathlib.Path) -> None:
    log_dir = make_log_dir(box)
    (log_dir / "t-1").rename(box / "t-1")
    before = picture(box / "t-1")
    run = InPlace([make_plan(box / "t-1", [Truncate("00000000000000000000.log", 1)])], HEAD, journal=str(box / "j"))
    run.carry_out()
    assert sorted(os.listdir(box)) == ["j", "kafka", "t-1"]
    assert os.listdir(box / "j") == [run.entries[0].id]
    undo(run.entries[0])
    assert picture(box / "t-1") == before
    assert os.listdir(box / "j") == []
