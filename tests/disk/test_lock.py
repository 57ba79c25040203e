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
from running import FIXTURES, run_here

from klogtool.disk.disk import Disk
from klogtool.disk.lock import locked
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, check_not_in_use, discard, resume, undo
from klogtool.errors import LogDirInUse
from klogtool.plans.plan import Truncate

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


# A partition dir that is a link: the log dir by which it is named, and the one that it really lies in.


@pytest.fixture
def linked(log_dir: pathlib.Path, box: pathlib.Path) -> pathlib.Path:
    """t-1 of the log dir is a link into another one."""
    other = box / "other" / "disk"
    other.mkdir(parents=True)
    (other / "meta.properties").write_bytes(b"version=0\n")
    (log_dir / "t-1").rename(other / "t-1")
    (log_dir / "t-1").symlink_to(other / "t-1")
    return other


CUT = Truncate("00000000000000000000.log", 1)


@pytest.mark.parametrize("holder", ["kafka", "other/disk"])
@pytest.mark.parametrize("name", ["kafka/t-1", "other/disk/t-1", "way/t-1"])
def test_both_log_dirs_of_a_linked_partition(
    box: pathlib.Path, linked: pathlib.Path, takes_lock: TakesLock, holder: str, name: str
) -> None:
    (box / "way").symlink_to(box / "kafka")
    is_named_by = holder == "other/disk" or name != "other/disk/t-1"
    with takes_lock(box / holder / ".lock") as answer:
        assert answer == "locked"
        before = picture(linked)
        run = InPlace([make_plan(box / name, [CUT])], HEAD, disk=HastyDisk())
        if is_named_by:
            with pytest.raises(LogDirInUse):
                run.carry_out()
            with pytest.raises(LogDirInUse):
                check_not_in_use([str(box / name)])
            assert picture(linked) == before
        else:
            run.carry_out()


def test_undo_takes_the_locks_that_the_run_took(
    box: pathlib.Path, linked: pathlib.Path, log_dir: pathlib.Path, takes_lock: TakesLock
) -> None:
    before = picture(linked)
    run = InPlace([make_plan(log_dir / "t-1", [CUT])], HEAD, disk=HastyDisk())
    run.carry_out()
    with takes_lock(log_dir / ".lock"):
        for work in (undo, discard, resume):
            with pytest.raises(LogDirInUse):
                work(run.entries[0])
    undo(run.entries[0])
    assert picture(linked) == before


def test_whoever_has_one_of_them_has_the_other_as_well(
    linked: pathlib.Path, log_dir: pathlib.Path, takes_lock: TakesLock
) -> None:
    answers = []

    class Asking(HastyDisk):
        def truncate(self, path: str, size: int) -> None:
            for folder in (log_dir, linked):
                with takes_lock(folder / ".lock") as answer:
                    answers.append(answer)
            super().truncate(path, size)

    InPlace([make_plan(log_dir / "t-1", [CUT])], HEAD, disk=Asking()).carry_out()
    assert answers == ["refused", "refused"]


def test_a_result_is_not_put_into_a_log_dir_that_a_broker_has(
    log_dir: pathlib.Path, box: pathlib.Path, takes_lock: TakesLock
) -> None:
    (box / "way").symlink_to(log_dir)
    (box / "source").mkdir()
    for place in (log_dir / "t-7", box / "way" / "t-7"):
        with takes_lock(log_dir / ".lock"):
            before = picture(log_dir)
            with pytest.raises(LogDirInUse):
                carry_out_to([], str(box / "source"), str(place))
            assert picture(log_dir) == before
    carry_out_to([], str(box / "source"), str(log_dir / "t-7"))
    assert not (log_dir / ".lock").read_bytes()


COMMANDS = ["rebuild-index", "roll --force", "retain --config retention.bytes=1", "recover"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_sees_a_broker_behind_a_link(
    box: pathlib.Path, takes_lock: TakesLock, tmp_path: pathlib.Path, command: str
) -> None:
    source = FIXTURES / "transactions" / "logdir"
    shutil.copytree(source, box / "named")
    (box / "disk").mkdir()
    (box / "named" / "t-0").rename(box / "disk" / "t-0")
    (box / "named" / "t-0").symlink_to(box / "disk" / "t-0")
    for n, way in enumerate((["--apply"], ["--plan-out", str(tmp_path / "plan")])):
        with takes_lock(box / "named" / ".lock") as answer:
            assert answer == "locked"
            before = picture(box / "disk")
            told = run_here([*command.split(), str(box / "named" / "t-0"), *way], box)
            if n:
                assert told.status in (0, 1)
                told = run_here(["apply", str(tmp_path / "plan")], box)
            assert (told.status, "in use" in told.told) == (3, True)
            assert picture(box / "disk") == before
