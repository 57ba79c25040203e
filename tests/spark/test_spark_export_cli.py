"""klogtool spark export as a user runs it; the tasks run here: what is advised, and what --resume takes."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from here import HERE
from running import FIXTURES, Done, run_here

from klogtool.cli import spark_export
from klogtool.cli.spark_options import OnSpark
from klogtool.errors import StalePlan, Unsupported
from klogtool.spark.starting import Session, SparkFailed, SparkNotStarted

WOUNDED = str(FIXTURES / "killed-mid-append/logdir")
SOUND = str(FIXTURES / "transactions/logdir")


@contextmanager
def tasks_here(_: Any) -> Iterator[Session]:
    yield HERE


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnSpark, "session", tasks_here)


def export(tmp_path: pathlib.Path, *words: str, source: str = WOUNDED) -> Done:
    return run_here(["spark", "export", source, "--output", "out", "--no-progress", *words], tmp_path)


def advised(done: Done) -> list[str]:
    found = re.search(r"^klogtool: interrupted; .*: klogtool (.*)$", done.err, re.MULTILINE)
    assert found, done.err
    return shlex.split(found[1])


def test_what_is_advised_after_damage_helps(tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "--topic", "flip-bit", "--option", "splitBytes=1000")
    assert (done.status, done.out) == (1, b"")
    words = advised(done)
    assert words[-3:] == ["--resume", "--mode", "permissive"]
    again = run_here(words, tmp_path)
    assert (again.status, b"68 records" in again.out) == (0, True), again.err
    assert (tmp_path / "out/_SUCCESS").exists()


def test_damage_is_there_again_without_another_mode(tmp_path: pathlib.Path) -> None:
    assert export(tmp_path).status == 1
    again = export(tmp_path, "--resume")
    assert again.status == 1
    assert advised(again)[-2:] == ["--mode", "permissive"]


@pytest.mark.parametrize(
    "how", [("--mode", "permissive"), ("--option", "mode=permissive"), ("--option", "Mode=PERMISSIVE")]
)
def test_another_mode_counts_also_for_the_next_resume(
    tmp_path: pathlib.Path, how: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export(tmp_path).status == 1

    def gone(*_: Any, **__: Any) -> None:
        raise SparkFailed("The Spark job failed: no memory")

    with monkeypatch.context() as patch:
        patch.setattr(spark_export, "carry_out_export", gone)
        failed = export(tmp_path, "--resume", *how)
        assert failed.status == 4
        assert "--mode" not in advised(failed)
    assert export(tmp_path, "--resume").status == 0


def test_a_mode_that_left_something_out_is_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows would be of two modes."""
    real, calls = spark_export.carry_out_export, []

    def one_task(session: Session, begun: Any, **_: Any) -> Any:
        from klogtool.spark.exporting import export_split

        export_split(begun.dataset.path, begun.how, (0, begun.splits[0]))
        calls.append(real)
        raise SparkFailed("The Spark job failed: no memory")

    with monkeypatch.context() as patch:
        patch.setattr(spark_export, "carry_out_export", one_task)
        assert export(tmp_path, "--mode", "permissive", "--option", "splitBytes=1000").status == 4
    refused = export(tmp_path, "--resume", "--mode", "dropmalformed")
    assert (refused.status, "written with --mode PERMISSIVE" in refused.err) == (3, True)
    assert export(tmp_path, "--resume", "--mode", "permissive").status == 0


OTHERS = [
    ("--topic", "t"),
    ("--committed",),
    ("--by-day",),
    ("--key-as", "string"),
    ("--value-as", "json"),
    ("--headers",),
    ("--metadata",),
    ("--compression", "zstd"),
    ("--option", "startingTimestamp=5"),
]


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: words[0])
def test_no_option_is_dropped_without_a_word(tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    assert export(tmp_path).status == 1
    refused = export(tmp_path, "--resume", *words)
    assert refused.status == 3
    assert f"started with another {words[0]}" in refused.err


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: words[0])
def test_what_was_asked_at_first_may_be_said_again(tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    words = ("--topic", "flip-bit") if words[0] == "--topic" else words
    assert export(tmp_path, *words).status == 1
    assert export(tmp_path, "--resume", *words, "--mode", "permissive").status == 0


def test_every_option_of_an_export_is_thought_of() -> None:
    """One that is new has to be taken or refused at --resume."""
    plain = {
        "output",
        "resume",
        "form",
        "verbose",
        "master",
        "spark_conf",
        "quiet",
        "no_progress",
        "debug",
        "mode",
        "source_options",
    }
    known = {param for param, *_ in spark_export.FIXED} | plain
    assert {param.name for param in spark_export.command.params} == known


def test_other_log_dirs_are_refused(tmp_path: pathlib.Path) -> None:
    assert export(tmp_path).status == 1
    refused = export(tmp_path, "--resume", "--mode", "permissive", source=SOUND)
    assert (refused.status, "started with another LOGDIR" in refused.err) == (3, True)


@pytest.mark.parametrize("error", [SparkNotStarted("Spark did not start: no"), Unsupported("Spark needs Java")])
def test_where_spark_does_not_start_nothing_is_left(
    tmp_path: pathlib.Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> None:
        raise error

    monkeypatch.setattr(OnSpark, "session", fails)
    done = export(tmp_path, source=SOUND)
    assert (done.status, done.told) == (4, f"klogtool: {error}\n")
    assert os.listdir(tmp_path) == []


def test_the_master_is_advised_as_it_was_given(tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "--master", "local[2]", "--spark-conf", "spark.driver.memory=2g")
    assert advised(done)[-4:] == ["--master", "local[2]", "--spark-conf", "spark.driver.memory=2g"]


def test_files_that_changed_are_no_case_for_resuming(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SOUND, tmp_path / "logdir")

    def stale(*_: Any, **__: Any) -> None:
        raise StalePlan("its size is 10 bytes, it was 20 when it was listed", path="x")

    monkeypatch.setattr(spark_export, "carry_out_export", stale)
    done = export(tmp_path, source="logdir")
    assert done.status == 3
    assert "--resume" not in done.err
    assert "remove out and start again" in done.err


@pytest.mark.parametrize("name", ["table", "columns", "includeHeaders", "IncludeMetadata", "path", "paths", "deep"])
def test_options_that_would_have_no_effect_are_wrong_usage(tmp_path: pathlib.Path, name: str) -> None:
    done = export(tmp_path, "--option", f"{name}=x", source=SOUND)
    assert (done.status, f"--option {name} is not for exports" in done.err) == (2, True)
    assert os.listdir(tmp_path) == []
