"""What every test may lean on: fixtures chosen by name, klogtool run in this process, skips that count."""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import hypothesis
import pytest
import sampling
from browser.chromium import missing
from nothing_new import nothing_new
from readers import READERS, Reader
from running import FIXTURES, ROOT, Done, run_here, tree_of

from klogtool import kernels

EXAMPLES = 60  # of each property; `make nightly` draws more


def pytest_addoption(parser: pytest.Parser) -> None:
    sampling.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    sampling.choose_seed(config)
    if config.option.write_passed and not hasattr(config, "workerinput"):
        config.pluginmanager.register(sampling.Passed(config.option.write_passed))
    same_on_every_machine()


def same_on_every_machine() -> None:
    """An inherited ignored signal (nohup), a mask of new files, a terminal's type, width and colours, the pace of the
    machine: a test does not depend on who runs it, and where."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.umask(0o022)
    sys.dont_write_bytecode = False
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    os.environ["TERM"] = "xterm"
    examples = int(os.environ.get("KLOGTOOL_EXAMPLES", EXAMPLES))
    hypothesis.settings.register_profile("any machine", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("any machine")


def pytest_collection() -> None:
    """Nothing that collecting makes is garbage before the end: looking for it again and again takes seconds, in each
    worker."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in [*sampling.left_out(config), *browser_left_out(config)]:
        terminalreporter.write_line(line)


def browser_left_out(config: pytest.Config) -> list[str]:
    """That tests/browser was left out, where all tests were asked for."""
    lacking = missing() if list(config.args) == config.getini("testpaths") else []
    return [f"tests/browser is left out: no {' and no '.join(lacking)} (make test-page)"] if lacking else []


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared") and not (ROOT.parent / "shared").exists():
        pytest.skip("no ../shared beside the project")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.leave_to_the_night(config, items)
    sampling.keep_sample(config, items)
    sampling.leave_out(config, items)


@pytest.fixture
def klogtool() -> Callable[..., Done]:
    """`klogtool("dump-log", path, ..., folder=...)` in this process; what lies in the folder it leaves alone."""

    def run(*args: str | os.PathLike[str], folder: pathlib.Path = FIXTURES) -> Done:
        before = tree_of(folder, with_bytes=False)
        done = run_here([os.fspath(arg) for arg in args], folder)
        assert tree_of(folder, with_bytes=False) == before, "klogtool changed what it was to read"
        return done

    return run


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each of both readers in turn: `reader.show(data, form)` is what it prints of a log, and what it says of it."""
    if request.param == "kernel" and not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    return Reader(request.param)


@pytest.fixture
def unchanged() -> Callable[[pathlib.Path], AbstractContextManager[None]]:
    """`with unchanged(folder):` every byte, size, time, mode and name under it is afterwards as it was before."""

    @contextmanager
    def watch(folder: pathlib.Path) -> Iterator[None]:
        before = tree_of(folder)
        yield
        after = tree_of(folder)
        assert {name for name in before | after if before.get(name) != after.get(name)} == set()

    return watch


@pytest.fixture
def copy_of(tmp_path: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """`copy_of("two-disks/logdir")`: a copy of (a part of) a fixture that a test may wound."""

    def copy(name: str) -> pathlib.Path:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(FIXTURES / name, target)
        return target

    return copy


@pytest.fixture(autouse=True)
def _nothing_new_is_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test writes by klogtool: `verify` finds nothing in it that was not there before."""
    if request.path.name == "test_growth.py":  # counts work, that of `verify`, too; others hold what it runs to the law
        yield
        return
    with nothing_new():
        yield


def skip_counts(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Where KLOGTOOL_NO_SKIP is set (in CI) a skipped test has failed: what it needs should be there."""
    forgiven = hasattr(report, "wasxfail") or "not permitted here" in str(report.longrepr)
    return report.skipped and os.environ.get("KLOGTOOL_NO_SKIP") == "1" and not forgiven


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if skip_counts(report):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and KLOGTOOL_NO_SKIP is set: {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    """A module that skips itself as a whole."""
    outcome = yield
    report = outcome.get_result()
    if skip_counts(report):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} was skipped, and KLOGTOOL_NO_SKIP is set: {report.longrepr}"
