"""A log dir that changes while it is read: a file that goes away between the listing and the opening.

A running broker deletes and renames files all the time. That is no wrong usage (status 2) and no traceback: what went
away is left out and named, or the command could not go on (status 4).
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import shutil
from importlib.util import find_spec
from typing import Any

import pytest
from running import FIXTURES, run_here

from klogtool.log.file import LogFile

NOW = ["--now", "1700000300000"]
ON_LOG_DIR = (
    "doctor",
    "verify",
    "verify --deep",
    "scrub --recovery-point 9223372036854775807",
    "recover",
    "dump-log",
    "dump-log --format json",
    "dump-log --deep-iteration --print-data-log",
    "offsets",
    "txns",
    "hash",
    "diff OTHER",
    "image --output IMAGE",
    "retain",
    "compact",
    "compact --why",
    "free",
    "fleet collect",
    *(["export --output EXPORTED"] if find_spec("pyarrow") else []),
)
ON_PARTITION = (
    "salvage",
    "salvage --output SALVAGED",
    "read --offset 40 --max-bytes 1000 --records",
    "lookup --offset 40 --timestamp 1700000005000 --timestamp max --leader-epoch 0",
    "transplant --check",
    "rebuild-index",
    "roll --force",
    "truncate --to 40",
    "hash",
    "txns",
    "verify --deep",
    "dump-log",
)
VICTIMS = (
    "t-0/00000000000000000038.log",
    "t-0/00000000000000000038.index",
    "t-0/00000000000000000038.timeindex",
    "t-0/00000000000000000007.txnindex",
    "t-0/00000000000000000062.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
    "replication-offset-checkpoint",
    "meta.properties",
)


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logs"))


def going(victim: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the file at the moment in which it is opened first; another process would do it just before."""
    really = os.open

    def open_too_late(path: Any, *rest: Any, **more: Any) -> int:
        if isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)) == str(victim):
            victim.unlink(missing_ok=True)
        return really(path, *rest, **more)

    monkeypatch.setattr(os, "open", open_too_late)


def shrinking(victim: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the file each time after klogtool has looked how large it is, and put it back before the next time."""
    really, data = LogFile._look, victim.read_bytes()

    def look_too_early(file: LogFile, **how: Any) -> None:
        is_victim = os.path.abspath(file.path) == str(victim)
        if is_victim:
            victim.write_bytes(data)
        really(file, **how)
        if is_victim:
            os.truncate(victim, len(data) // 2)

    monkeypatch.setattr(LogFile, "_look", look_too_early)


def words_of(command: str, path: pathlib.Path, tmp_path: pathlib.Path) -> list[str]:
    name, *options = command.split()
    places = {"OTHER": tmp_path / "other", "IMAGE": tmp_path / "image", "SALVAGED": tmp_path / "salvaged"}
    places["EXPORTED"] = tmp_path / "exported"
    words = [str(places.get(word, word)) for word in options]
    if name == "fleet":
        return [name, words[0], str(path), *words[1:]]
    clock = [] if name in ("hash", "diff", "dump-log", "image", "offsets", "export") else NOW
    return [name, str(path), *words, *clock]


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("command", [*ON_LOG_DIR, *(f"{command} of t-0" for command in ON_PARTITION)])
def test_a_file_that_goes_away_is_no_wrong_usage(
    log_dir: pathlib.Path, command: str, victim: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(log_dir, tmp_path / "other")
    path = log_dir / "t-0" if command.endswith(" of t-0") else log_dir
    going(log_dir / victim, monkeypatch)
    done = run_here(words_of(command.removesuffix(" of t-0"), path, tmp_path), tmp_path)
    assert done.status in (0, 1, 3, 4), done.err
    if done.status == 4:
        assert victim.rpartition("/")[2] in done.err + done.out.decode()


@pytest.mark.parametrize("victim", [victim for victim in VICTIMS if victim.startswith("t-0/0")])
@pytest.mark.parametrize("command", [*ON_LOG_DIR, *(f"{command} of t-0" for command in ON_PARTITION)])
def test_a_file_that_becomes_shorter_is_no_damage(
    log_dir: pathlib.Path, command: str, victim: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who says that a file became shorter could not read it; a broker that trims an index has damaged nothing."""
    shutil.copytree(log_dir, tmp_path / "other")
    path = log_dir / "t-0" if command.endswith(" of t-0") else log_dir
    shrinking(log_dir / victim, monkeypatch)
    done = run_here(words_of(command.removesuffix(" of t-0"), path, tmp_path), tmp_path)
    said = " ".join((done.err + done.out.decode(errors="replace")).split())  # wherever a line ends
    assert done.status in (0, 1, 3, 4), said
    goes_on = command.split()[0] in ("free", "export")  # they leave it alone, say so, and go on with the others
    assert done.status == 4 or "became shorter" not in said or goes_on, said


def test_a_path_that_the_user_named_is_wrong_usage(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for missing in (log_dir / "u-0", log_dir / "t-0" / f"{5:020d}.log"):
        assert run_here(["dump-log", str(missing)], tmp_path).status == 2
        assert run_here(["verify", str(missing)], tmp_path).status == 2
        assert run_here(["dump-log", str(log_dir), str(missing)], tmp_path).status == 2


def verdict_of(log_dir: pathlib.Path, *words: str) -> tuple[int, list[Any]]:
    done = run_here([words[0], str(log_dir), *words[1:], *NOW, "--format", "json"], log_dir)
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row in rows:
        for name in [name for name in row if name.startswith("seconds")]:
            del row[name]
    return done.status, rows


@pytest.mark.parametrize("victim", [victim for victim in VICTIMS if victim.startswith("t-0/")])
@pytest.mark.parametrize("words", [("verify",), ("verify", "--deep"), ("doctor",), ("txns",)], ids=" ".join)
def test_the_verdict_is_about_the_disk_as_it_is_afterwards(
    log_dir: pathlib.Path, words: tuple[str, ...], victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition whose files go away is looked at again, so nothing is said of a disk that never was."""
    with monkeypatch.context() as hooked:
        going(log_dir / victim, hooked)
        found = verdict_of(log_dir, *words)
    assert not (log_dir / victim).exists()
    assert found == verdict_of(log_dir, *words)


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_a_partition_that_moves_is_no_duplicate(
    command: str, log_dir: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first log dir is listed before the move, the second one behind it (UnifiedLog.renameDir, both)."""
    other, really, uuid = tmp_path / "other", os.scandir, "42cf8f74989d43b4a95e5da704f9b45b"
    future = other / f"t-0.{uuid}-future"
    shutil.copytree(log_dir / "t-0", future)
    for name in ("meta.properties", "recovery-point-offset-checkpoint"):
        shutil.copy(log_dir / name, other)

    def list_and_move(path: Any = ".") -> Any:
        if os.fspath(path) == str(other) and future.exists():
            (log_dir / "t-0").rename(log_dir / f"t-0.{uuid}-delete")
            future.rename(other / "t-0")
        return really(path)

    with monkeypatch.context() as hooked:
        hooked.setattr(os, "scandir", list_and_move)
        done = run_here([command, str(log_dir), str(other), *NOW], tmp_path)
    assert not future.exists()
    assert "t-0 is also in" not in " ".join(done.out.decode().split())


@pytest.mark.parametrize("words", [("verify",), ("verify", "--deep"), ("doctor",)], ids=" ".join)
def test_a_batch_that_is_being_written_is_no_damage(
    log_dir: pathlib.Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker writes a batch in several pieces; the file ends inside of it when klogtool looks first."""
    active, really, later = log_dir / "t-0/00000000000000000038.log", LogFile._look, verdict_of(log_dir, *words)
    whole, seen = active.read_bytes(), dict[int, Any]()
    for n in range(1, 7):
        active.write_bytes(whole[:-30])
        looks = itertools.count(1)

        def look_and_then_it_grows(file: LogFile, *, n: int = n, looks: Any = looks, **how: Any) -> None:
            really(file, **how)
            if os.path.abspath(file.path) == str(active) and next(looks) == n:
                active.write_bytes(whole)

        with monkeypatch.context() as hooked:
            hooked.setattr(LogFile, "_look", look_and_then_it_grows)
            found = verdict_of(log_dir, *words)
        if active.stat().st_size == len(whole):
            seen[n] = found
    assert seen
    assert all(found == later for found in seen.values())


@pytest.mark.parametrize("words", [("verify",), ("doctor",), ("txns",)], ids=" ".join)
def test_a_partition_that_never_stands_still_is_left_out(
    log_dir: pathlib.Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that it is read, its last segment goes away."""
    really = os.open

    def open_too_late(path: Any, *rest: Any, **more: Any) -> int:
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if str(name).endswith(".log") and os.path.dirname(name) == str(log_dir / "t-0"):
            last = max((log_dir / "t-0").glob("*.log"), default=log_dir / "t-0" / "none")
            if str(last) == str(name):
                os.unlink(name)
        return really(path, *rest, **more)

    monkeypatch.setattr(os, "open", open_too_late)
    done = run_here([words[0], str(log_dir), *words[1:], *NOW], log_dir)
    assert done.status in (1, 4)
    assert "unreadable" not in done.out.decode()
    assert "offline" not in done.out.decode()
    assert words[0] != "txns" or (done.status == 4 and f"{log_dir}/t-1:" in done.out.decode())
