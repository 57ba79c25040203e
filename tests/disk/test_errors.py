"""Errors of the system: everything is as it was, or it is said how to go on; and nothing is ever lost."""

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from failing import FailingDisk
from made import HEAD, Picture, contents, make_log_dir, make_plan, make_plans, picture
from mortal import HastyDisk
from running import PR_CAPBSET_DROP, without_power_over_files

from klogtool.disk.disk import Disk
from klogtool.disk.journal import walk_entries
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, undo
from klogtool.errors import Refused, StalePlan
from klogtool.plans.plan import Truncate, Write

TESTS = pathlib.Path(__file__).parent
CAP_CHOWN = 0
ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM]


def without_lock(found: Picture) -> Picture:
    return {name: about for name, about in found.items() if name != ".lock"}


def error_of(work: Callable[[], object]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


def changed(before: Picture, log_dir: pathlib.Path) -> set[str]:
    """Names that are not as they were, but for a `.lock` that could not be removed."""
    after = picture(log_dir)
    names = {name for name in before | after if before.get(name) != after.get(name)}
    return names - {".lock", "."} if ".lock" in after else names


def try_dying(box: pathlib.Path, disk: FailingDisk) -> tuple[pathlib.Path, Picture, InPlace]:
    """A new log dir, and a run over it."""
    shutil.rmtree(box)
    box.mkdir()
    log_dir = make_log_dir(box)
    before, run = picture(log_dir), InPlace(make_plans(log_dir), HEAD, disk=disk)
    try:
        error = error_of(run.carry_out)
    except StalePlan:  # a folder of somebody else's does not get its time back when .lock was made in it
        error = None
        assert disk.number in (errno.EACCES, errno.EPERM)
    assert error is None or (error.errno == disk.number and error.filename)
    return log_dir, before, run


@pytest.mark.slow
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_an_error_at_any_call_is_taken_back(box: pathlib.Path, number: int) -> None:
    for n in range(10_000):
        disk = FailingDisk(n, number, once=True)
        log_dir, before, run = try_dying(box, disk)
        if not disk.failed:
            break
        for entry in run.entries:  # the error came at the very end, when it was done, or while it was taken back
            undo(entry, disk=HastyDisk())
        assert changed(before, log_dir) - may_have_time_of_its_own(number) == set(), n
        assert not run.begun or run.entries, n
        assert [name for name in os.listdir(box) if name != "kafka"] in ([], ["kafka.klogtool"]), n
    assert n > 60


@pytest.mark.slow
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_a_disk_that_fails_from_then_on_loses_nothing(box: pathlib.Path, number: int) -> None:
    for n in range(10_000):
        disk = FailingDisk(n, number, once=False)
        log_dir, before, run = try_dying(box, disk)
        if not disk.failed:
            break
        if not run.begun and not run.entries:
            assert changed(before, log_dir) - may_have_time_of_its_own(number) == set(), n
        for entry in list(walk_entries(str(box / "kafka.klogtool"))) if (box / "kafka.klogtool").is_dir() else ():
            undo(entry, disk=HastyDisk())
        assert changed(before, log_dir) - may_have_time_of_its_own(number) == set(), n
    assert n > 60


def may_have_time_of_its_own(number: int) -> set[str]:
    return {".", "t-0", "t-1"} if number in (errno.EACCES, errno.EPERM) else set()


def test_a_full_disk_is_taken_back_without_help(box: pathlib.Path) -> None:
    """Whenever it becomes full: deleting and renaming still work, and for the manifests room was set aside."""
    log_dir = make_log_dir(box)
    plans, before = make_plans(log_dir), picture(log_dir)
    for n in range(10_000):
        disk = FullDisk(n)
        run = InPlace(plans, HEAD, disk=disk)
        error = error_of(run.carry_out)
        assert error is None or error.errno == errno.ENOSPC
        if error is None:
            undo(run.entries[0], disk=disk)
        assert changed(before, log_dir) == set(), n
        assert not run.begun
        if not disk.is_full:
            break


class FullDisk(HastyDisk):
    """From the n-th write on there is room only for what was freed since."""

    def __init__(self, full_at: int) -> None:
        self.full_at, self.writes, self.free = full_at, 0, 0

    @property
    def is_full(self) -> bool:
        return self.writes > self.full_at

    def write(self, path: str, content: object, like: object = None) -> None:
        self.writes += 1
        super().write(path, content, like)  # type: ignore[arg-type]
        if self.is_full:
            self.free -= os.stat(path).st_size
            if self.free < 0:
                self.free += os.stat(path).st_size
                os.unlink(path)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def rename(self, path: str, to: str) -> None:
        if self.is_full and os.path.isfile(to) and os.stat(to).st_nlink == 1:
            self.free += os.stat(to).st_size
        super().rename(path, to)

    def delete(self, path: str) -> None:
        self.free += os.stat(path).st_size if self.is_full and os.stat(path).st_nlink == 1 else 0
        super().delete(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_an_output_is_there_as_a_whole_or_not_at_all(box: pathlib.Path, number: int) -> None:
    log_dir = make_log_dir(box)
    plans, before = make_plans(log_dir), picture(log_dir)
    for n in range(10_000):
        disk = FailingDisk(n, number, once=True)
        error = error_of(lambda disk=disk: carry_out_to(plans, str(log_dir), str(box / "out"), disk=disk))
        assert error is None or error.errno == number
        assert picture(log_dir) == before
        if not disk.failed:
            break
        if n + 2 < disk.done or not (box / "out").exists():  # not the sync behind the last rename
            assert [name for name in os.listdir(box) if name not in ("kafka", "out")] == [], n
        if (box / "out").exists():
            assert len(contents(box / "out")) > 10
            subprocess.run(["rm", "-r", str(box / "out")], check=True)
    assert n > 30


# The real thing.


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_too_little_space_is_refused_before_anything_is_written(small_disk: pathlib.Path) -> None:
    log_dir = make_log_dir(small_disk)
    before = picture(log_dir)
    plan = make_plan(log_dir / "t-1", [Write("00000000000000000000.log", (b"x" * (2 << 20),))])
    with pytest.raises(Refused, match="not enough space"):
        InPlace([plan], HEAD).carry_out()
    with pytest.raises(Refused, match="not enough space"):
        carry_out_to([plan], str(log_dir), str(small_disk / "out"))
    assert picture(log_dir) == before
    assert os.listdir(small_disk) == ["kafka"]


def test_a_disk_that_is_full_in_the_middle(small_disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else was faster than we, after the space was checked."""
    monkeypatch.setattr("klogtool.disk.writer.check_space", lambda *_, **__: None)
    monkeypatch.setattr("klogtool.disk.output.check_space", lambda *_: None)
    log_dir = make_log_dir(small_disk)
    before = picture(log_dir)
    steps = [Truncate("00000000000000000000.log", 1), Write("00000000000000000000.index", (b"x" * (2 << 20),))]
    plan = make_plan(log_dir / "t-1", steps)
    run = InPlace([plan], HEAD)
    with pytest.raises(OSError, match="No space left") as full:
        run.carry_out()
    assert full.value.filename
    assert not run.begun
    with pytest.raises(OSError, match="No space left"):
        carry_out_to([plan], str(log_dir), str(small_disk / "out"))
    assert picture(log_dir) == before
    assert os.listdir(small_disk) == ["kafka"]


def test_a_read_only_file_system(small_disk: pathlib.Path) -> None:
    log_dir = make_log_dir(small_disk)
    plans, before = make_plans(log_dir), picture(log_dir)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        InPlace(plans, HEAD).carry_out()
    with pytest.raises(OSError, match="Read-only file system"):
        carry_out_to(plans, str(log_dir), str(small_disk / "out"))
    assert picture(log_dir) == before


APPLY = [
    "import sys; sys.path[:0] = sys.argv[1:3]",
    "import pathlib, made",
    "from klogtool.cli.main import guarded",
    "from klogtool.plans import decisions",
    "from klogtool.cli.writing import decide_and_carry_out",
    "decisions.DECISIONS['test'] = 'made'",
    "from klogtool.cli.writing import Writing",
    "sys.exit(guarded(lambda: decide_and_carry_out('test', sys.argv[3:], made.NOTHING_ASKED, Writing(apply=True))))",
]


@pytest.mark.parametrize("closed", ["kafka", "kafka/t-0", "."])
def test_no_permission(tmp_path: pathlib.Path, closed: str) -> None:
    """On the log dir (no lock can be made), the partition dir (no step can be done), beside it (no journal)."""
    log_dir = make_log_dir(tmp_path)
    (tmp_path / closed).chmod(0o555)
    before = picture(log_dir)
    command = [sys.executable, "-c", "\n".join(APPLY), TESTS, TESTS.parent, log_dir / "t-0"]
    done = subprocess.run(command, preexec_fn=without_power_over_files, capture_output=True, text=True, check=False)
    (tmp_path / closed).chmod(0o755)
    os.utime(log_dir, ns=(before["."][3], before["."][3])) if closed == "kafka" else None
    assert done.returncode == 4, done.stderr
    assert "permission denied" in done.stderr.lower()
    assert ("name another place with --journal" in done.stderr) == (closed == ".")
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr
    after = picture(log_dir)
    assert {name: row[1:] for name, row in after.items()} == {name: row[1:] for name, row in before.items()}
    assert not (tmp_path / "kafka.klogtool").exists()


def without_giving_files_away() -> None:
    """For a process: root, too, may not change owners."""
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0):
        raise OSError("prctl")


def test_a_file_that_may_not_be_given_to_its_owner(tmp_path: pathlib.Path) -> None:
    """A broker could not open it: so nothing is done."""
    if os.geteuid() != 0:
        pytest.skip("making a file of somebody else's is not permitted here")
    log_dir = make_log_dir(tmp_path)
    for path in log_dir.rglob("*"):
        os.chown(path, 12345, 54321)
    before = picture(log_dir)
    command = [sys.executable, "-c", "\n".join(APPLY), TESTS, TESTS.parent, log_dir / "t-1"]
    done = subprocess.run(command, preexec_fn=without_giving_files_away, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "operation not permitted" in done.stderr.lower()
    assert picture(log_dir) == before
    assert os.listdir(tmp_path) == ["kafka"]


def test_the_real_disk_says_which_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "there").write_bytes(b"")
    for verb in (
        lambda: Disk().write(str(tmp_path / "there"), ()),
        lambda: Disk().sync(str(tmp_path / "gone")),
        lambda: Disk().sync_dir(str(tmp_path / "there")),
        lambda: Disk().extend(str(tmp_path / "gone"), 0, (b"x",)),
        lambda: Disk().delete(str(tmp_path / "gone")),
    ):
        with pytest.raises(OSError, match=r"there|gone") as refused:
            verb()
        assert str(refused.value.filename).startswith(str(tmp_path))
