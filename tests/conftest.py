"""What every test may lean on: fixtures chosen by name, klogtool run in this process, skips that count."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


@dataclass(frozen=True)
class Done:
    """What a run of klogtool left: exit status, the bytes of stdout, the text of stderr."""

    status: int
    out: bytes
    err: str


def exit_status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def run_here(args: list[str], folder: pathlib.Path) -> Done:
    """Run klogtool's entry point in this process, in `folder`, with file descriptors 1 and 2 caught.

    The descriptors, not sys.stdout: the kernels' text goes out by os.write.
    """
    from klogtool.cli.main import main

    here, argv = pathlib.Path.cwd(), sys.argv
    sys.stdout.flush(), sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
        try:
            os.chdir(folder)
            sys.argv = ["klogtool", *args]
            status = main() or 0
        except SystemExit as stop:
            status = exit_status(stop)
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os.dup2(kept[0], 1), os.dup2(kept[1], 2)
            os.close(kept[0]), os.close(kept[1])
            os.chdir(here)
            sys.argv = argv
        out.seek(0), err.seek(0)
        return Done(status, out.read(), err.read().decode(errors="replace"))


@pytest.fixture
def klogtool() -> Callable[..., Done]:
    """`klogtool("dump-log", path, ..., folder=...)` in this process."""

    def run(*args: str | os.PathLike[str], folder: pathlib.Path = ROOT) -> Done:
        return run_here([os.fspath(arg) for arg in args], folder)

    return run


@pytest.fixture
def copy_of(tmp_path: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """`copy_of("two-disks/logdir")`: a copy of (a part of) a fixture that a test may wound."""

    def copy(name: str) -> pathlib.Path:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(FIXTURES / name, target)
        return target

    return copy


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Where KLOGTOOL_NO_SKIP is set (in CI) a skipped test has failed: what it needs should be there."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("KLOGTOOL_NO_SKIP") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and KLOGTOOL_NO_SKIP is set: {report.longrepr}"
