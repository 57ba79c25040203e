"""The law that every test of writing is held to is one that can be broken: by a run, its resuming, its undo."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from damage import flip_bit
from nothing_new import nothing_new
from running import run_here

from klogtool.disk import writer

Path = pathlib.Path
TRUNCATE = ["truncate", "logs/t-0", "--to", "20", "--apply"]


@pytest.fixture
def log_dir(copy_of: Callable[[str], Path], tmp_path: Path) -> Path:
    return copy_of("leader-epochs/logdir").rename(tmp_path / "logs")


@contextlib.contextmanager
def damaging(name: str, log_dir: Path) -> Iterator[None]:
    """Meanwhile a function of the writer leaves a flipped bit behind."""
    real = getattr(writer, name)

    def bad(*given: Any) -> None:
        real(*given)
        flip_bit(log_dir / "t-0" / f"{0:020d}.log", 100)

    with patch.object(writer, name, bad):
        yield


def test_a_run_and_its_undo_are_looked_at(log_dir: Path) -> None:
    with nothing_new() as checked:
        assert run_here(TRUNCATE, log_dir.parent).status in (0, 1)
        assert run_here(["undo", "logs"], log_dir.parent).status == 0
    assert checked == [str(log_dir)] * 2


def cut_short() -> Any:
    """Meanwhile a run ends before its first step, as if it had been killed."""
    return patch.object(writer, "_do_steps", side_effect=KeyboardInterrupt)


def test_an_undo_that_leaves_damage_breaks_the_law(log_dir: Path) -> None:
    with damaging("undo_steps", log_dir), nothing_new():
        assert run_here(TRUNCATE, log_dir.parent).status in (0, 1)
        with pytest.raises(AssertionError, match="after undo"):
            run_here(["undo", "logs"], log_dir.parent)


@pytest.mark.parametrize("is_damaging", [False, True])
def test_what_resumes_is_held_to_it(log_dir: Path, *, is_damaging: bool) -> None:
    with damaging("finish", log_dir) if is_damaging else contextlib.nullcontext(), nothing_new() as checked:
        with cut_short():
            assert run_here(TRUNCATE, log_dir.parent).status == 130
        if is_damaging:
            with pytest.raises(AssertionError, match="after apply --resume"):
                run_here(["apply", "--resume", "logs"], log_dir.parent)
        else:
            assert run_here(["apply", "--resume", "logs"], log_dir.parent).status in (0, 1)
            assert checked == [str(log_dir)]


def test_an_undo_behind_somebody_elses_change_is_not_held_to_it(log_dir: Path) -> None:
    with nothing_new() as checked:
        assert run_here(TRUNCATE, log_dir.parent).status in (0, 1)
        (log_dir / "t-0" / "foreign.txt").write_text("of somebody else")
        assert run_here(["undo", "logs"], log_dir.parent).status == 0
    assert checked == [str(log_dir)]
