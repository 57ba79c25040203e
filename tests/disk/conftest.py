"""A log dir of two partitions with a plan for each, one for its own files; and what it is to become."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from klogtool.cli.main import COMMANDS
from klogtool.plans import decisions


@pytest.fixture(autouse=True)
def _decided_by_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of made.py can be made again, as those of klogtool's commands."""
    monkeypatch.setitem(decisions.DECISIONS, "test", "made")
    monkeypatch.setitem(COMMANDS, "test", ("made_command", "For tests."))


@pytest.fixture
def box() -> Iterator[pathlib.Path]:
    """An empty folder, in memory where there is such a place: these tests sync thousands of times."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        (pathlib.Path(folder) / "box").mkdir()
        yield pathlib.Path(folder) / "box"


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path, box: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty folder on another file system than the box."""
    if os.stat(tmp_path).st_dev == os.stat(box).st_dev:
        pytest.skip("needs two file systems, which are not here: not permitted here")
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
