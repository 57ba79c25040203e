"""recover of a log dir by several processes: the same plans, in the same order, and the same errors."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from deciding import decided
from msgspec.structs import replace
from running import ROOT

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError
from klogtool.plans.plan import Plan

NOW_MS = 1_800_000_000_000


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(ROOT / "fixtures/every-codec/logdir", tmp_path / "logdir")
    assert len([path for path in (tmp_path / "logdir").iterdir() if path.is_dir()]) >= 4
    return tmp_path / "logdir"


def plans(log_dir: pathlib.Path, jobs: int, **more: Any) -> tuple[list[Plan], str]:
    found, error = [], ""
    arguments = {**Circumstances(now_ms=NOW_MS, last_stop="unclean").as_arguments(), **more}
    try:
        for plan in decided("recover", log_dir, {**arguments, "jobs": jobs}):
            found.append(replace(plan, question=replace(plan.question, jobs=None)))
    except KlogError as ended_it:
        error = str(ended_it)
    return found, error


@pytest.mark.parametrize("mark_clean", [False, True])
def test_processes_make_the_same_plans(log_dir: pathlib.Path, mark_clean: bool) -> None:
    alone = plans(log_dir, 1, mark_clean=mark_clean)
    assert plans(log_dir, 2, mark_clean=mark_clean) == alone
    assert len(alone[0]) >= 4
    assert alone[1] == ""


def test_partitions_that_cannot_be_loaded_are_told_of_alike(log_dir: pathlib.Path) -> None:
    for path in sorted(log_dir.glob("create-*"))[1:3]:
        (path / "foo.log").touch()  # only loading shows it: what a start looks at first is told of one by one
    alone = plans(log_dir, 1)
    assert plans(log_dir, 2) == alone
    assert "1 more partition has no plan" in alone[1]
