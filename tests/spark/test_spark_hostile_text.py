"""What lies on a disk: no command on Spark sends it to the terminal raw. The tasks run here, one after the other."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from here import HERE
from hostile import (
    NO_TEXT,
    assert_json_is_text,
    assert_tame,
    assert_tame_text,
    hostile_log_dir,
    hostile_unfit,
    paths_in,
    run,
)

from klogtool.cli.spark import SPARK_COMMANDS
from klogtool.cli.spark_options import OnSpark
from klogtool.spark.starting import Session

# What a command needs beside a path, in several ways.
MORE = {
    "verify": [["--deep"], ["--output", "OUT"]],
    "inventory": [[], ["--html", "OUT", "--parquet", "OUT.parquet"]],
    "export": [
        ["--output", "OUT", "--mode", "permissive", "--headers", "--metadata", "--value-as", "json"],
        ["--output", "OUT", "--by-day"],
        ["--output", "OUT", "--topic", NO_TEXT],
    ],
    "compact": [["--output", "OUT", "--force"], ["--output", "OUT", "--config", f"cleanup.policy={NO_TEXT}"]],
}


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    """A hostile log dir and what is in it, and log dirs that a broker refuses."""
    folder = tmp_path_factory.mktemp("hostile")
    return [*paths_in(hostile_log_dir(folder)), *hostile_unfit(folder)]


@contextmanager
def tasks_here(_: Any) -> Iterator[Session]:
    yield HERE


def test_every_command_is_tried() -> None:
    assert MORE.keys() == SPARK_COMMANDS.keys()


@pytest.mark.parametrize("command", MORE)
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_command_prints_what_it_read_raw(
    command: str,
    form: str,
    disks: list[pathlib.Path],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(OnSpark, "session", tasks_here)
    out, statuses = f"out{NO_TEXT}", set()
    for more in MORE[command]:
        for path in disks:
            words = [word.replace("OUT", out) for word in more]
            done = run("spark", command, path, *words, "--format", form, "--no-progress", folder=tmp_path)
            assert_tame(done)
            assert_tame_text("\n".join(record.getMessage() for record in caplog.records))
            assert done.out or done.err
            if form == "json":
                assert_json_is_text(done.out)
            if "--html" in words and done.status == 0:
                assert_tame_text((tmp_path / out).read_text())
            statuses.add(done.status)
            for left in tmp_path.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    assert statuses & {0, 1}, "some of it is read"
