"""`--sample N`: of each test at most N cases, and no test that is marked `slow`. `--seed`: all chance of a run at once.

`make test` runs such a sample before every commit; `make test-all` runs all but what is marked `nightly`. The seed is
printed. It decides which cases a sample has, what hypothesis draws, and which bits are flipped: one seed, one answer.
conftest.py hands pytest's hooks on.
"""

from __future__ import annotations

import os
import random
import secrets
from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import core

SEED = "KLOGTOOL_SEED"


def add_options(parser: pytest.Parser) -> None:
    """--sample and --seed."""
    parser.addoption("--sample", type=int, metavar="N", help="run at most N cases of each test, and none that is slow")
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
    if not config.option.sample:
        return [f"the same again: --seed {os.environ[SEED]}"]
    what = f"{config.option.sample} cases of each test, none that is slow"
    return [f"sample: {what}; the same again: --sample {config.option.sample} --seed {os.environ[SEED]}"]


def leave_to_the_night(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what `make nightly` runs, unless it is that (KLOGTOOL_NIGHTLY=1). Of a test marked `some(N)` this
    is all but N cases."""
    for name, cases in _by_test(item for item in items if item.get_closest_marker("some")).items():
        chosen = _some(cases, cases[0].get_closest_marker("some").args[0], name)
        for item in cases:
            if item not in chosen:
                item.add_marker(pytest.mark.nightly)
    if os.environ.get("KLOGTOOL_NIGHTLY") == "1":
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def keep_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the sample leaves out."""
    most = config.option.sample
    if not most:
        return
    cases = _by_test(item for item in items if item.get_closest_marker("slow") is None)
    kept = {id(item) for name, found in cases.items() for item in _some(found, most, name)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each test by its name."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return cases


def _some(cases: list[pytest.Item], most: int, name: str) -> list[pytest.Item]:
    return cases if len(cases) <= most else chance(name).sample(cases, most)
