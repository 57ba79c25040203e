"""A small log dir, plans over it with every kind of step, and what carrying them out makes of it."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence

from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import FileRange
from klogtool.broker.file_facts import Fact
from klogtool.disk.output import carry_out_to
from klogtool.errors import Corrupt
from klogtool.log.file import unreadable
from klogtool.plans.plan import Delete, Plan, Rename, RenameFolder, Step, Truncate, Write, moved_out
from klogtool.plans.question import Question
from klogtool.plans.saved_plan import SavedPlan

HEAD = {"type": "klogtool", "version": "0", "schema": 1, "command": "test", "when_ms": 1_700_000_000_000}
POINTS = "recovery-point-offset-checkpoint"
Picture = dict[str, tuple[object, ...]]


class TestsQuestion(Question, frozen=True):
    """refuse: raise what a broker raises. moves: folders are renamed, too. frees: deletions, and then writes."""

    refuse: bool = False
    moves: bool = False
    frees: bool = False


QUESTION = TestsQuestion
NOTHING_ASKED = TestsQuestion(**asdict(Circumstances(now_ms=0)))
MOVES_ASKED = TestsQuestion(**asdict(Circumstances(now_ms=0)), moves=True)
STRAY = "t-0.0123456789abcdef0123456789abcdef-stray"


def make_log_dir(at: pathlib.Path) -> pathlib.Path:
    """Two partitions; sizes, times, modes and bytes all differ from file to file."""
    log_dir = at / "kafka"
    files = {
        "meta.properties": 50,
        "recovery-point-offset-checkpoint": 30,
        "t-0/00000000000000000000.log": 9000,
        "t-0/00000000000000000000.index": 64,
        "t-0/00000000000000000000.timeindex": 0,
        "t-0/00000000000000000009.log.swap": 700,
        "t-0/00000000000000000009.log": 900,
        "t-0/00000000000000000020.log": 5000,
        "t-0/00000000000000000020.index": 32,
        "t-0/00000000000000000030.log": 1234,
        "t-0/leader-epoch-checkpoint": 10,
        "t-1/00000000000000000000.log": 4096,
        "t-1/00000000000000000000.index": 24,
    }
    for n, (name, size) in enumerate(files.items()):
        path = log_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cycle = bytes((n * 31 + at * 7) % 255 + 1 for at in range(255))
        path.write_bytes((cycle * (size // len(cycle) + 1))[:size])
        path.chmod(0o640 if n % 2 else 0o644)
        os.utime(path, ns=(10**18 + n * 10**10 + n, 10**18 + n * 10**10 + n))
    for n, folder in enumerate([log_dir / "t-0", log_dir / "t-1", log_dir]):
        os.utime(folder, ns=(10**18, 10**18 + n))
    return log_dir


def make_plan(
    path: pathlib.Path, steps: Sequence[Step], *, facts: bool = True, question: TestsQuestion = NOTHING_ASKED
) -> SavedPlan:
    """A plan that relied on all that is in the folder."""
    found = [path, *sorted(p for p in path.iterdir() if p.is_file() and p.name != ".lock")] if facts else []
    relied = (
        Fact("", 0, f.stat().st_mtime_ns) if f == path else Fact(f.name, f.stat().st_size, f.stat().st_mtime_ns)
        for f in found
    )
    return SavedPlan.of(Plan("test", str(path), question, tuple(relied), tuple(steps)))


def make_plans(log_dir: pathlib.Path) -> list[SavedPlan]:
    """Every kind of step, on files that are there and not, on one file several times; and the log dir's own file."""
    first, second = log_dir / "t-0", log_dir / "t-1"
    log = str(first / "00000000000000000000.log")
    steps: list[Step] = [
        Truncate("00000000000000000000.log", 8000),
        Write("00000000000000000000.index", (b"new index", bytes(5000))),
        Write("00000000000000000000.timeindex", (), 1_600_000_000_000_000_000),
        Write("00000000000000000000.txnindex", (FileRange(log, 10, 20), b"and", FileRange(log, 8500, 9000))),
        Rename("00000000000000000009.log", "00000000000000000009.log.deleted"),
        Rename("00000000000000000009.log.swap", "00000000000000000009.log"),
        Truncate("00000000000000000020.log", 100),
        Rename("00000000000000000020.log", "00000000000000000020.log.deleted"),
        Delete("00000000000000000020.index"),
        Truncate("00000000000000000030.log", 0),
        Write("leader-epoch-checkpoint", (b"0\n0\n",)),
    ]
    return [
        make_plan(first, steps),
        make_plan(second, [Write("00000000000000000000.index", (b"i",)), Truncate("00000000000000000000.log", 1000)]),
        make_plan(
            log_dir, [Write(".kafka_cleanshutdown", (b"{}",)), Write("recovery-point-offset-checkpoint", (b"0\n0\n",))]
        ),
    ]


def make_freeing_plans(log_dir: pathlib.Path) -> list[SavedPlan]:
    """Deletions make room for what is written."""
    steps: list[Step] = [
        Delete("t-0/00000000000000000020.index"),
        Write("t-0/leader-epoch-checkpoint", (b"0\n1\n0 30\n",)),
        Delete("t-0/00000000000000000020.log"),
        Write(POINTS, (bytes(5000),)),
        Delete("t-1/00000000000000000000.index"),
    ]
    return [make_plan(log_dir, steps, question=replace(NOTHING_ASKED, frees=True))]


def add_foreign_folder(log_dir: pathlib.Path) -> None:
    """A folder that is no partition dir, with a folder in it."""
    (log_dir / "foo" / "inner").mkdir(parents=True)
    (log_dir / "foo" / "inner" / "file").write_bytes(b"somebody's")
    for n, path in enumerate([log_dir / "foo" / "inner" / "file", log_dir / "foo" / "inner", log_dir / "foo", log_dir]):
        os.utime(path, ns=(10**18, 10**18 + n))


def make_moving_plans(log_dir: pathlib.Path) -> list[SavedPlan]:
    """Files change, in partition dirs and by the log dir's plan; then their folders get other names, one the name that
    another had, and one leaves the log dir."""
    files = make_plans(log_dir)[0].plan
    assert files is not None
    steps: list[Step] = [
        Write(".kafka_cleanshutdown", (b"{}",)),
        Delete("recovery-point-offset-checkpoint"),
        Write("t-1/partition.metadata", (b"version: 0\n",)),
        Delete("t-1/00000000000000000000.index"),
        Truncate("t-1/00000000000000000000.log", 1000),
        RenameFolder("t-0", STRAY),
        RenameFolder("t-1", "t-0"),
        RenameFolder("foo", moved_out(str(log_dir), "foo")),
    ]
    return [
        make_plan(log_dir / "t-0", files.steps, question=MOVES_ASKED),
        make_plan(log_dir, steps, question=MOVES_ASKED),
    ]


def picture(folder: pathlib.Path) -> Picture:
    """Names, kinds, modes, owners, times and bytes of all under a folder, itself included."""
    found: Picture = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        data = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns, data
    return found


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Files and their bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def what_becomes(log_dir: pathlib.Path, at: pathlib.Path, *, moves: bool = False) -> dict[str, bytes]:
    """What the plans make of it, by --output, which renames no folder: here only the names are changed."""
    plans = [saved.plan for saved in (make_moving_plans if moves else make_plans)(log_dir) if saved.plan is not None]
    in_files = (tuple(step for step in plan.steps if not isinstance(step, RenameFolder)) for plan in plans)
    saved = [SavedPlan.of(replace(plan, steps=steps)) for plan, steps in zip(plans, in_files, strict=True)]
    carry_out_to(saved, str(log_dir), str(at / "wanted"))
    found = contents(at / "wanted")
    for step in (step for plan in plans for step in plan.steps if isinstance(step, RenameFolder)):
        found = {re.sub(f"^{step.path}/", f"{step.to}/", name): data for name, data in found.items()}
    return found


def decide(path: str, question: TestsQuestion) -> list[Plan]:
    """As decisions of klogtool's have it: the same plan for the same files."""
    folder = pathlib.Path(path)
    if not folder.is_dir():
        raise unreadable(path, FileNotFoundError(2, "no such file or directory"))
    if question.refuse:
        raise Corrupt("a codec that there is not", path=path, position=5, kafka_class="IllegalArgumentException")
    log_dir = folder if folder.name == "kafka" else folder.parent
    make = make_freeing_plans if question.frees else make_moving_plans if question.moves else make_plans
    plans = make(log_dir)
    return [saved.plan for saved in plans if saved.path == path and saved.plan is not None]
