"""What every test may lean on: fixtures chosen by name, klogtool run in this process, skips that count."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest
from running import FIXTURES, ROOT, Done, run_here


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
