"""Which cases of a test run when, and the chance of a run.

`--sample N`: at most N cases of each test, none that is slow. `make test` runs such a sample before every commit.
`--most N`: at most N cases of each test, of one that is slow a quarter of them; what is left out is `nightly`. CI runs
that for each change. Without either all run but what is marked `nightly`.
`--write-passed FILE`, `--leave-out FILE`: no case runs twice in CI. What has passed on a new clone is left out later.
`--seed`: all chance of a run at once. It decides which cases are drawn, what hypothesis draws, and which bits are
flipped: one seed, one answer. It is printed. conftest.py hands pytest's hooks on.
"""

from __future__ import annotations

import os
import pathlib
import random
import secrets
from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import core

SEED = "KLOGTOOL_SEED"
SLOW = 4  # --most: of a slow test this part of the cases


def add_options(parser: pytest.Parser) -> None:
    """--sample, --most, --seed, --write-passed and --leave-out."""
    parser.addoption("--sample", type=int, metavar="N", help="run at most N cases of each test, and none that is slow")
    parser.addoption("--most", type=int, metavar="N", help="leave all but N cases of each test to the night")
    parser.addoption("--write-passed", metavar="FILE", help="write there which cases have passed")
    parser.addoption("--leave-out", metavar="FILE", help="leave out the cases that --write-passed has written there")
    parser.addoption("--seed", metavar="TEXT", help="the chance of a run; default: another each time")


def choose_seed(config: pytest.Config) -> None:
    """The workers of xdist must choose the same cases: they have the environment of who starts them."""
    if config.option.seed:
        os.environ[SEED] = config.option.seed
    os.environ.setdefault(SEED, secrets.token_hex(4))
    core.global_force_seed = chance("hypothesis").getrandbits(64)


def chance(what: str) -> random.Random:
    """Random numbers for a named purpose: the same ones in each run with the same seed, in whatever order tests run."""
    return random.Random(f"{os.environ[SEED]} {what}")


def left_out(config: pytest.Config) -> list[str]:
    """What to say at the end: whether this was a sample, and how to run the same again."""
    if config.option.most:
        what = f"{config.option.most} cases of each test, fewer of a slow one"
        return [f"a share: {what}; the same again: --most {config.option.most} --seed {os.environ[SEED]}"]
    if not config.option.sample:
        return [f"the same again: --seed {os.environ[SEED]}"]
    what = f"{config.option.sample} cases of each test, none that is slow"
    return [f"sample: {what}; the same again: --sample {config.option.sample} --seed {os.environ[SEED]}"]


def leave_to_the_night(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what `make nightly` runs, unless it is that (KLOGTOOL_NIGHTLY=1). Of a test with more cases than a
    change runs this is all but those that are drawn; the night itself runs all of them."""
    is_night = os.environ.get("KLOGTOOL_NIGHTLY") == "1"
    for name, cases in _by_test(items).items():
        most = _most_of(config, cases)
        if most is not None and len(cases) > most:
            drawn = [] if is_night else _some(cases, most, name)
            for item in cases:
                if item not in drawn:
                    item.add_marker(pytest.mark.nightly)
    if is_night:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def _most_of(config: pytest.Config, cases: list[pytest.Item]) -> int | None:
    """How many cases of a test run for each change: by its mark `some(N)`, by --most, or all."""
    marks = [mark.args[0] for item in cases if (mark := item.get_closest_marker("some"))]
    most = config.option.most
    if most:
        is_slow = any(item.get_closest_marker("slow") for item in cases)
        marks.append(max(1, most // SLOW) if is_slow else most)
    return min(marks, default=None)


def keep_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the sample leaves out."""
    most = config.option.sample
    if not most:
        return
    cases = _by_test(item for item in items if item.get_closest_marker("slow") is None)
    kept = {id(item) for name, found in cases.items() for item in _some(found, most, name)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what another run has passed."""
    if not config.option.leave_out:
        return
    passed = set(pathlib.Path(config.option.leave_out).read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class Passed:
    """The cases that have passed, for --write-passed: a plugin of the process that the workers report to."""

    def __init__(self, path: str) -> None:
        self.path, self.found = path, list[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A skipped case has not passed. One that fails behind its call has failed the whole run."""
        if report.when == "call" and report.outcome == "passed":
            self.found.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        pathlib.Path(self.path).write_text("".join(f"{name}\n" for name in self.found), encoding="utf-8")


def _by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each test by its name."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return cases


def _some(cases: list[pytest.Item], most: int, name: str) -> list[pytest.Item]:
    """The first ones of a random order, so that a smaller choice is a part of a larger one."""
    if len(cases) <= most:
        return cases
    drawn = list(cases)
    chance(name).shuffle(drawn)
    return drawn[:most]
