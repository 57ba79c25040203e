"""A folder that is neither a log dir nor a partition dir: every command says so, and which log dirs lie below it."""

from __future__ import annotations

import pathlib
import shlex
import shutil

import pytest
from running import FIXTURES, run_here, tree_of

from klogtool.cli.main import COMMANDS

DISKS = FIXTURES / "two-disks/logdir"
# What a command needs beside a path; those that are not here take a saved plan or a journal.
NEEDED: dict[str, list[list[str]]] = {
    "dump-log": [[], ["--format", "json"], ["--format", "arrow", "--output", "OUT"]],
    "verify": [[]],
    "recover": [[], ["--mark-clean", "--apply"], ["--output", "OUT"]],
    "lookup": [["--offset", "0"], ["--timestamp", "latest"], ["--leader-epoch", "0"]],
    "read": [["--offset", "0"]],
    "offsets": [[], ["--format", "csv"]],
    "hash": [[]],
    "scrub": [["--state", "OUT"]],
    "quorum": [[]],
    "txns": [[], ["--audit"]],
    "drop-producer": [["--producer-id", "0"], ["--producer-id", "0", "--apply"]],
    "diff": [[str(DISKS)]],
    "doctor": [[], ["--quick"], ["--matrix"], ["--fix"]],
    "image": [["--output", "OUT"]],
    "salvage": [[], ["--output", "OUT"]],
    "rebuild-index": [[], ["--apply"]],
    "transplant": [["--check"], ["--topic-id", "AAAAAAAAAAAAAAAAAAAAAw", "--output", "OUT"]],
    "append": [["--records", "/dev/null"], ["--records", "/dev/null", "--apply"]],
    "truncate": [["--to", "0"], ["--to", "0", "--apply"]],
    "roll": [[], ["--force", "--apply"]],
    "retain": [[], ["--apply"]],
    "delete-records": [["--before", "0"], ["--before", "0", "--apply"]],
    "free": [[], ["--bytes", "1", "--apply", "--no-undo"]],
    "compact": [[], ["--why"], ["--force", "--apply"]],
}
CALLS = [(command, options) for command, several in NEEDED.items() for options in several]


def test_every_command_that_takes_a_log_dir_is_tried() -> None:
    others = {
        "apply",
        "undo",
        "spark",
        "export",
        "fleet",
        "remote",
        "explain",
        "help",
        "build",
        "completion",
        "tutorial",
        "version",
    }
    assert set(COMMANDS) - set(NEEDED) == others


@pytest.mark.parametrize(
    ("command", "options"), CALLS, ids=lambda part: " ".join(part) if isinstance(part, list) else part
)
def test_the_log_dirs_below_are_named(command: str, options: list[str], tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS, tmp_path / "disks")
    before = tree_of(tmp_path / "disks")
    given = [str(tmp_path / "out") if option == "OUT" else option for option in options]
    done = run_here([command, str(tmp_path / "disks"), *given], tmp_path)
    first, second = done.told.splitlines()
    assert (done.status, first.partition(": it has")[0]) == (
        4,
        f"klogtool: {tmp_path}/disks: neither a log dir nor a partition dir",
    )
    below = [str(tmp_path / "disks" / name) for name in ("d1", "d2")]
    assert second == f"Log dirs below it: {shlex.join(below)}"
    assert tree_of(tmp_path / "disks") == before
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", ["empty", "other", "logs", "app-1"])
def test_where_there_are_none_it_is_said_what_to_name(name: str, tmp_path: pathlib.Path) -> None:
    for path in ("other/x.txt", "logs/x.log", "app-1/app.log", "app-1/20240131.log"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "empty").mkdir()
    for command in ("verify", "dump-log", "retain"):
        done = run_here([command, name], tmp_path)
        assert (done.status, done.out) == (4, b"")
        assert [line.split(":")[0] for line in done.told.splitlines()] == [
            "klogtool",
            "Name a log dir (a folder with meta.properties), a partition dir such as orders-0, or a file of one.",
        ]


def test_what_is_named_can_be_pasted(tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS / "d1", tmp_path / "a b/it's")
    shutil.copytree(DISKS / "d2", tmp_path / "$(d)")
    second = run_here(["verify", "."], tmp_path).told.splitlines()[1]
    done = run_here(["verify", *shlex.split(second.partition(": ")[2])], tmp_path)
    assert (done.status, done.told) == (0, "")


def test_columns_of_such_a_folder_are_refused_and_not_empty() -> None:
    pytest.importorskip("pyarrow")
    import klogtool

    with pytest.raises(klogtool.Unsupported, match="neither a log dir nor a partition dir"):
        klogtool.scan(DISKS)
