"""What lies where a file of Kafka's belongs and cannot be read is told to be unreadable, never to be absent."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
from collections.abc import Callable

import pytest
from running import FIXTURES, run_apart, run_here, without_power_over_files
from verifying import NOW_MS, run_verify

Path = pathlib.Path
BASE = f"{7:020d}"
OF_PARTITION = [
    *(f"t-0/{BASE}{kind}" for kind in (".log", ".index", ".timeindex", ".txnindex")),
    f"t-0/{62:020d}.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
]
OF_LOG_DIR = [
    *(f"{name}-offset-checkpoint" for name in ("recovery-point", "replication", "log-start", "cleaner")),
    "meta.properties",
    ".kafka_cleanshutdown",
    "bootstrap.checkpoint",
]
OF_METADATA = ["__cluster_metadata-0/quorum-state", f"__cluster_metadata-0/{178:020d}-0000000002.checkpoint"]
PLACES = [("transactions", name) for name in OF_PARTITION + OF_LOG_DIR] + [("metadata", name) for name in OF_METADATA]


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind(os.path.relpath(path))  # an absolute path may be too long for one


OBSTACLES: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link in a circle": lambda path: path.symlink_to(path.name),
    "a socket": a_socket,
}


@pytest.fixture
def log_dir_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A copy of a fixture's log dir, and the folder to be in."""
    monkeypatch.chdir(tmp_path)
    return lambda fixture: Path(shutil.copytree(FIXTURES / fixture / "logdir", tmp_path / "logdir"))


def notes_of(fixture: str) -> set[tuple[str, str]]:
    """What is found in the fixture as it is."""
    root = FIXTURES / fixture / "logdir"
    return {(f.id, os.path.relpath(f.path, root)) for f in run_verify(root)[0]}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize(("fixture", "name"), PLACES)
def test_what_is_in_the_way_is_told_once_and_nothing_is_told_to_be_absent(
    log_dir_of: Callable[[str], Path], fixture: str, name: str, obstacle: str
) -> None:
    log_dir = log_dir_of(fixture)
    (log_dir / name).unlink(missing_ok=True)
    OBSTACLES[obstacle](log_dir / name)
    told = [(f.id, os.path.relpath(f.path, log_dir)) for f in run_verify(log_dir)[0]]
    if (name, obstacle) == (".kafka_cleanshutdown", "a folder"):
        # An empty one is a marker as good as any: a broker looks whether it exists, and deletes it.
        assert set(told) == notes_of(fixture)
        (log_dir / name / "file").touch()
        told = [(f.id, os.path.relpath(f.path, log_dir)) for f in run_verify(log_dir)[0]]
    assert told.count(("unreadable", name)) == 1
    # A broker goes by whether the clean marker is there, and follows links to see that.
    is_gone = name == ".kafka_cleanshutdown" and "link" in obstacle
    assert set(told) - notes_of(fixture) == {("unreadable", name), *([("unclean-shutdown", ".")] if is_gone else [])}
    assert run_here(["verify", str(log_dir)], log_dir).status == 1


@pytest.mark.parametrize(("fixture", "name"), PLACES)
def test_what_may_not_be_read_is_told_once(log_dir_of: Callable[[str], Path], fixture: str, name: str) -> None:
    log_dir = log_dir_of(fixture)
    (log_dir / name).touch()
    (log_dir / name).chmod(0)
    words = ("verify", log_dir, "--now", str(NOW_MS), "--format", "json")
    done = run_apart(*words, before=without_power_over_files)
    found = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "finding"]
    told = [(row["id"], os.path.relpath(row["path"], log_dir)) for row in found]
    assert done.status == 1
    assert set(told) - notes_of(fixture) == {("unreadable", name)}
    assert told.count(("unreadable", name)) == 1
    assert {row["detail"] for row in found if row["id"] == "unreadable"} == {"permission denied"}


ASKING = {
    "recover": ["recover"],
    "salvage": ["salvage"],
    "rebuild-index": ["rebuild-index"],
    "lookup": ["lookup", "--offset", "30"],
    "read": ["read", "--offset", "30", "--quiet"],
    "txns": ["txns"],
    "truncate": ["truncate", "--to", "40"],
    "retain": ["retain"],
}


@pytest.mark.parametrize("command", ASKING)
def test_other_commands_do_not_take_it_for_absent_either(log_dir_of: Callable[[str], Path], command: str) -> None:
    log_dir = log_dir_of("transactions")
    first, *options = ASKING[command]
    for name in OF_PARTITION:
        kept = (log_dir / name).rename(log_dir.parent / "kept")
        (log_dir / name).symlink_to("nowhere")
        done = run_here([first, str(log_dir / "t-0"), *options, "--now", str(NOW_MS)], log_dir)
        assert (done.status, done.out) == (4, b""), name
        assert done.told.splitlines()[0] == f"klogtool: {log_dir / name}: a link to a file that is not there"
        (log_dir / name).unlink()
        kept.rename(log_dir / name)


@pytest.mark.parametrize("name", OF_PARTITION)
def test_other_commands_say_what_they_may_not_read(log_dir_of: Callable[[str], Path], name: str) -> None:
    log_dir = log_dir_of("transactions")
    (log_dir / name).chmod(0)
    for command in ("recover", "salvage", "lookup"):
        first, *options = ASKING[command]
        done = run_apart(first, log_dir / "t-0", *options, before=without_power_over_files)
        assert (done.status, done.out) == (4, b"")
        assert done.told.splitlines()[0] == f"klogtool: {log_dir / name}: permission denied"
