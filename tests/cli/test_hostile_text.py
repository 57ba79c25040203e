"""Whatever lies on a disk, and whatever is typed: no command sends it to the terminal raw.

Every command that there is runs over a log dir of which everything is hostile: its own name, names in it, what its
files say, keys and values. Newlines end lines of klogtool's own, and nothing else does.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from hostile import (
    EVIL,
    NO_TEXT,
    assert_json_is_text,
    assert_tame,
    hostile_log_dir,
    hostile_unfit,
    paths_in,
    run,
)
from running import FIXTURES, Done

from klogtool.cli.main import cli


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A hostile one."""
    return hostile_log_dir(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def unfit_log_dirs(log_dir: pathlib.Path) -> list[pathlib.Path]:
    """Those that a broker refuses."""
    return hostile_unfit(log_dir.parent)


def commands(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that there is."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name)


def records(folder: pathlib.Path) -> pathlib.Path:
    """Records to append, hostile in whatever a line can say."""
    row = {"key": {"utf8": EVIL}, "value": {"utf8": EVIL}, "headers": [[EVIL, {"utf8": EVIL}]], "timestamp": 1}
    path = folder / f"records{NO_TEXT}.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "codec": EVIL}) + "\n")
    (folder / "unknown").write_text(json.dumps({**row, EVIL: 1}) + "\n")
    return path


# What a command needs beside a path to get anywhere.
MORE: dict[tuple[str, ...], list[list[str]]] = {
    ("dump-log",): [["--deep-iteration"], ["--resync"]],
    ("verify",): [["--deep", "--notes"]],
    ("recover",): [[], ["--mark-clean"]],
    ("lookup",): [["--offset", "3", "--timestamp", "latest", "--leader-epoch", "0", "--explain"]],
    ("read",): [["--offset", "0", "--records"]],
    ("append",): [
        ["--records", "RECORDS"],
        ["--records", "unknown"],
        ["--requests", "unknown"],
        ["--batches", "RECORDS"],
    ],
    ("truncate",): [["--to", "3"]],
    ("roll",): [["--force"]],
    ("delete-records",): [["--before", "3"]],
    ("compact",): [[], ["--why"], ["--force"]],
    ("txns",): [[], ["--audit"]],
    ("drop-producer",): [["--producer-id", "0"]],
    ("retain",): [[], ["--config", "retention.ms=1"]],
}


# Those of spark start a Java machine for each run: tests/spark/test_spark_hostile_text.py has them without.
@pytest.mark.parametrize("command", [words for words in commands() if words[0] != "spark"], ids=" ".join)
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_command_prints_what_it_read_raw(
    command: tuple[str, ...],
    form: str,
    log_dir: pathlib.Path,
    unfit_log_dirs: list[pathlib.Path],
    tmp_path: pathlib.Path,
) -> None:
    records_path, printed = os.fspath(records(tmp_path)), 0
    for more in MORE.get(command, [[]]):
        words = [records_path if word == "RECORDS" else word for word in more]
        for path in [*paths_in(log_dir), *unfit_log_dirs]:
            done = run(*command, path, *words, "--format", form, folder=tmp_path)
            is_kafkas = command[0] == "dump-log" or (command[0] == "read" and form == "json")
            assert_tame(done, but_stdout=is_kafkas)
            if form == "json":
                assert_json_is_text(done.out)
            printed += len(done.out) + len(done.err)
    assert printed


@pytest.mark.parametrize("command", [(), *commands()], ids=" ".join)
def test_no_command_prints_what_was_typed_raw(command: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    options = (
        "--offset",
        "--to",
        "--config",
        "--config-file",
        "--now",
        "--format",
        "--jobs",
        "--journal",
        "--plan-out",
    )
    for words in ([NO_TEXT], [f"--{NO_TEXT}"], ["x", NO_TEXT], *([option, NO_TEXT, "x"] for option in options)):
        assert_tame(run(*command, *words, folder=tmp_path), but_stdout=command[:1] == ("dump-log",))


def work(target: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A log dir to change, of which only the name is hostile, and a partition in it."""
    copy = target / f"copy{NO_TEXT}"
    shutil.copytree(FIXTURES / "transactions/logdir", copy)
    return copy, copy / "t-0"


WRITING: dict[str, list[str]] = {
    "truncate": ["--to", "3"],
    "roll": ["--force"],
    "delete-records": ["--before", "3"],
    "rebuild-index": [],
    "append": ["--records", "RECORDS"],
}


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("form", ["text", "json"])
def test_nor_while_it_writes_and_takes_back(command: str, form: str, tmp_path: pathlib.Path) -> None:
    root, partition = work(tmp_path)
    words = [os.fspath(records(tmp_path)) if word == "RECORDS" else word for word in WRITING[command]]
    plan, how = tmp_path / f"plan{NO_TEXT}", ["--format", form]
    runs: list[Callable[[], Done]] = [
        lambda: run(command, partition, *words, *how, "--output", tmp_path / f"out{NO_TEXT}", folder=tmp_path),
        lambda: run(command, partition, *words, *how, "--plan-out", plan, folder=tmp_path),
        lambda: run("apply", plan, *how, folder=tmp_path),
        lambda: run("undo", "--list", root, *how, folder=tmp_path),
        lambda: run("undo", root, *how, folder=tmp_path),
        lambda: run(command, partition, *words, *how, "--apply", folder=tmp_path),
        lambda: run("apply", plan, *how, folder=tmp_path),
    ]
    statuses = []
    for step in runs:
        done = step()
        statuses.append(done.status)
        assert_tame(done)
        if form == "json":
            assert_json_is_text(done.out)
    assert statuses[:6] == [0] * 6, "a name that is not UTF-8 is no hindrance"
    assert_json_is_text(plan.read_bytes())


def test_salvage_writes_its_manifest_as_text(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run("salvage", log_dir / f"t{EVIL}-1", "--output", tmp_path / f"out{NO_TEXT}", folder=tmp_path)
    assert_tame(done)
    (manifest,) = tmp_path.glob("*.rejected/manifest.json")
    told: Any = json.loads(manifest.read_bytes())
    json.dumps(told, ensure_ascii=False).encode()


def test_a_cure_can_be_pasted(log_dir: pathlib.Path) -> None:
    """The command that a finding advises names the very folder, whatever is in its name."""
    import subprocess

    done = run("verify", log_dir, "--format", "json", folder=log_dir.parent)
    cures = [
        row["cure"] for row in map(json.loads, done.out.splitlines()) if "klogtool rebuild-index" in row.get("cure", "")
    ]
    cures += [
        row["cure"] for row in map(json.loads, done.out.splitlines()) if "klogtool salvage" in row.get("cure", "")
    ]
    assert cures
    for cure in cures:
        script = cure.replace("klogtool rebuild-index", "printf '%s\\0'").replace("klogtool salvage", "printf '%s\\0'")
        words = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
        assert os.path.isdir(words[0]), cure
