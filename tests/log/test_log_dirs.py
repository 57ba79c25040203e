"""Which folders are log dirs, which one a path lies in, whose lock counts: one table, asked through every door."""

from __future__ import annotations

import os
import pathlib

import pytest

import klogtool
from klogtool.broker.circumstances import Checkpoints
from klogtool.log import log_dirs
from klogtool.log.log_dirs import FolderKind
from klogtool.log.search import search_below

SEGMENT = f"{0:020d}.log"
LOG_DIR, BARE, PARTITION_DIR, OTHER = FolderKind

# Names in the folder `x/t-0`; what it is; whether a broker's lock counts there.
CASES = {
    "empty": ([], PARTITION_DIR, False),
    "meta.properties": (["meta.properties"], LOG_DIR, True),
    "half-written meta.properties": (["meta.properties.tmp"], LOG_DIR, True),
    "recovery points": (["recovery-point-offset-checkpoint"], LOG_DIR, True),
    "high watermarks": (["replication-offset-checkpoint"], LOG_DIR, True),
    "log starts": (["log-start-offset-checkpoint"], LOG_DIR, True),
    "cleaner": (["cleaner-offset-checkpoint"], LOG_DIR, True),
    "clean stop": ([".kafka_cleanshutdown"], LOG_DIR, True),
    "dangling link": (["meta.properties -> nowhere"], LOG_DIR, True),
    "checkpoint and segment": (["cleaner-offset-checkpoint", SEGMENT], LOG_DIR, True),
    "segment": ([SEGMENT], PARTITION_DIR, False),
    "segment and lock": ([SEGMENT, ".lock"], PARTITION_DIR, True),
    "partition dir with a segment": ([f"u-0/{SEGMENT}"], BARE, False),
    "the same with a lock": ([f"u-0/{SEGMENT}", ".lock"], BARE, True),
    "the same with meta.properties": ([f"u-0/{SEGMENT}", "meta.properties"], LOG_DIR, True),
    "empty partition dir": (["u-0/"], OTHER, False),
    "partition dir of others": (["u-0/notes.txt"], OTHER, False),
    "other names": (["notes.txt"], OTHER, False),
    "lock alone": ([".lock"], OTHER, True),
    "bootstrap.checkpoint alone": (["bootstrap.checkpoint"], OTHER, False),
    "journal of klogtool": (["t.klogtool/"], OTHER, False),
}


def fill(folder: pathlib.Path, names: list[str]) -> pathlib.Path:
    """Make these files, `folders/` and `links -> target` in a folder."""
    folder.mkdir(parents=True)
    for name in names:
        path = folder / name.partition(" -> ")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif " -> " in name:
            path.symlink_to(name.partition(" -> ")[2])
        else:
            path.touch()
    return folder


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[pathlib.Path, FolderKind, bool]:
    """Return the folder of a row of the table, what it is, and whether its lock counts."""
    names, kind, is_locked = CASES[request.param]
    return fill(tmp_path / "x" / "t-0", names), kind, is_locked


def test_every_door_says_the_same(case: tuple[pathlib.Path, FolderKind, bool]) -> None:
    folder, kind, is_locked = case
    path, names = str(folder), os.listdir(folder)
    assert log_dirs.kind_of_folder(path) is kind
    assert log_dirs.is_log_dir(path) == log_dirs.has_root_file(names) == (kind is LOG_DIR)
    assert log_dirs.has_lock(path) == is_locked
    assert Checkpoints.of(path).log_dir == (path if kind is LOG_DIR else None)
    assert log_dirs.log_dir_of(path) == (path if kind in (LOG_DIR, BARE) else str(folder.parent))
    if kind is OTHER:
        with pytest.raises(klogtool.Unsupported):
            klogtool.open(folder)
    else:
        opened: object = klogtool.open(folder)
        assert isinstance(opened, klogtool.Partition if kind is PARTITION_DIR else klogtool.LogDir)
    if names and kind is not BARE:  # a search goes on below a folder that has other folders than partition dirs
        assert bool(search_below([path], lambda _: False).paths) == (kind is not OTHER)


def test_what_lies_in_it_says_the_same(case: tuple[pathlib.Path, FolderKind, bool]) -> None:
    folder, kind, is_locked = case
    inside = folder / "v-0"
    in_it = str(folder) if kind is LOG_DIR else None
    assert log_dirs.find_log_dir_around(str(inside)) == in_it
    assert Checkpoints.beside(str(inside)).log_dir == in_it
    assert log_dirs.is_partition_dir(str(inside)) == (kind is LOG_DIR)
    assert not log_dirs.is_partition_dir(str(folder / "v"))
    assert log_dirs.log_dir_of(str(inside)) == str(folder)
    assert log_dirs.log_dirs_naming(str(inside)) == ([str(folder)] if is_locked else [])
    assert log_dirs.log_dirs_to_lock(str(inside)) == [str(folder)]
    inside.mkdir()
    assert log_dirs.kind_of_folder(str(inside)) is PARTITION_DIR
    (inside / SEGMENT).touch()
    expected = str(folder if kind is LOG_DIR else inside)
    assert log_dirs.log_dirs_of_files([str(inside / SEGMENT), str(inside)]) == [expected]


def test_each_link_on_the_way_names_a_log_dir(tmp_path: pathlib.Path) -> None:
    first, second, third = (fill(tmp_path / name, ["meta.properties"]) for name in ("first", "second", "third"))
    fill(third / "t-0", [SEGMENT])
    (second / "t-0").symlink_to(third / "t-0")
    (first / "t-0").symlink_to("../second/t-0")
    expected = [str(third), str(first), str(second)]
    assert log_dirs.log_dirs_to_lock(str(first / "t-0")) == expected
    (tmp_path / "circle").symlink_to("circle")
    assert log_dirs.log_dirs_naming(str(tmp_path / "circle")) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a", "/a"), ("/a/t-0", "/a"), ("/a/t-0/x.log", "/a"), ("/ab/t-0", None), ("/", None), ("/b c/t-0", "/b c")],
)
def test_the_log_dir_among_some(path: str, expected: str | None) -> None:
    assert log_dirs.find_log_dir_among(path, ["/a", "/b c"]) == expected
