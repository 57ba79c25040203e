"""What a log dir's checkpoints are to say of a partition that was written to."""

from __future__ import annotations

import pathlib

import pytest
from msgspec.structs import asdict

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.format.names import TopicPartition
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.plan import Plan, Write
from klogtool.plans.question import Question
from klogtool.render.words import words

NOTHING_ASKED = Question(**asdict(Circumstances(now_ms=0)))

POINTS, STARTS, REPLICATED, CLEANED = (
    f"{what}-offset-checkpoint" for what in ("recovery-point", "log-start", "replication", "cleaner")
)
KEY = TopicPartition("t", 0)
TEXT = "0\n2\nother 1 7\nt 0 50\n"


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in (POINTS, STARTS, REPLICATED, CLEANED):
        (tmp_path / name).write_text(TEXT)
    return tmp_path


def written(plan: Plan | None) -> dict[str, str]:
    steps = plan.steps if plan is not None else ()
    return {step.path: read_content(step.content).decode() for step in steps if isinstance(step, Write)}


def planned(log_dir: pathlib.Path, lines: CheckpointLines) -> tuple[dict[str, str], dict[str, str]]:
    before, after = plan_checkpoints("truncate", str(log_dir), NOTHING_ASKED, [lines])
    return written(before), written(after)


def told(offset: int) -> str:
    return TEXT.replace("t 0 50", f"t 0 {offset}")


def test_lines_that_fit_stay(log_dir: pathlib.Path) -> None:
    assert planned(log_dir, CheckpointLines(KEY, 50, 50, 50)) == ({}, {})


def test_a_log_that_became_shorter(log_dir: pathlib.Path) -> None:
    """Its start comes down before it is cut, all else follows."""
    before, after = planned(log_dir, CheckpointLines(KEY, 40, 40, 40, first_dirty_at_most=30))
    assert before == {STARTS: told(40)}
    assert after == {POINTS: told(40), REPLICATED: told(40), CLEANED: told(30)}


def test_a_log_that_became_longer(log_dir: pathlib.Path) -> None:
    """The high watermark is a leader's to move; cleaning goes on where it was."""
    before, after = planned(log_dir, CheckpointLines(KEY, 50, 90, 50, first_dirty_at_most=80))
    assert (before, after) == ({}, {POINTS: told(90)})


def test_a_log_start_that_rises_does_so_behind(log_dir: pathlib.Path) -> None:
    before, after = planned(log_dir, CheckpointLines(KEY, 60, 90, 60))
    assert (before, after) == ({}, {POINTS: told(90), STARTS: told(60), REPLICATED: told(60)})


def test_a_log_start_that_needs_no_line_has_none(log_dir: pathlib.Path) -> None:
    before, _ = planned(log_dir, CheckpointLines(KEY, 0, 50, None))
    assert before == {STARTS: "0\n1\nother 1 7\n"}


def test_files_that_are_not_there_are_not_made_but_for_a_log_start(tmp_path: pathlib.Path) -> None:
    assert planned(tmp_path, CheckpointLines(KEY, 0, 50, None, 0)) == ({}, {})
    assert planned(tmp_path, CheckpointLines(KEY, 5, 50, 5, 0)) == ({}, {STARTS: "0\n1\nt 0 5\n"})


def test_a_file_that_cannot_be_read_is_left_alone(log_dir: pathlib.Path) -> None:
    (log_dir / REPLICATED).write_text("0\nmany\n")
    _, after = plan_checkpoints("truncate", str(log_dir), NOTHING_ASKED, [CheckpointLines(KEY, 40, 40, 40)])
    assert set(written(after)) == {POINTS, CLEANED}
    assert after is not None
    assert any(note.startswith(f"{REPLICATED} is left as it is") for note in map(words, after.notes))
