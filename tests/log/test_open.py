"""klogtool.open: what a path is, and one kind of error for all that cannot be read."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from running import FIXTURES, without_power_over_files

import klogtool

SEGMENT = "00000000000000000000.log"
CREATE_0 = FIXTURES / "every-codec" / "logdir" / "create-0"


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/logdir")), ids=lambda path: path.parent.name)
def test_fixtures_are_log_dirs_and_hold_partition_dirs(path: pathlib.Path) -> None:
    for log_dir in [path] if path.parent.name != "two-disks" else sorted(path.iterdir()):
        opened = klogtool.open(log_dir)
        assert isinstance(opened, klogtool.LogDir)
        assert opened.partitions
        for partition in opened.partitions:
            assert klogtool.open(partition.path) == partition


def test_a_folder_of_several_log_dirs_is_neither_and_says_which_they_are() -> None:
    disks = FIXTURES / "two-disks" / "logdir"
    with pytest.raises(klogtool.Unsupported, match="neither a log dir nor a partition dir") as found:
        klogtool.open(disks)
    assert found.value.below == (str(disks / "d1"), str(disks / "d2"))  # type: ignore[attr-defined]
    assert found.value.__notes__ == [f"log dirs below it: {disks / 'd1'}, {disks / 'd2'}"]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["meta.properties"], klogtool.LogDir),
        (["meta.properties.tmp"], klogtool.LogDir),
        ([".kafka_cleanshutdown"], klogtool.LogDir),
        (["recovery-point-offset-checkpoint", SEGMENT, "t-0/"], klogtool.LogDir),
        (["replication-offset-checkpoint"], klogtool.LogDir),
        (["log-start-offset-checkpoint"], klogtool.LogDir),
        (["cleaner-offset-checkpoint"], klogtool.LogDir),
        ([f"t-0/{SEGMENT}", "foo/"], klogtool.LogDir),
        (["server.log", "t-0/partition.metadata"], klogtool.LogDir),
        (["__cluster_metadata-0/quorum-state"], klogtool.LogDir),
        ([f"t-0.0123456789abcdef-delete/{SEGMENT}.deleted"], klogtool.LogDir),
        (["a-1/x.txt", f"b-1/{SEGMENT}/"], klogtool.LogDir),
        ([SEGMENT], klogtool.Partition),
        (["leader-epoch-checkpoint"], klogtool.Partition),
        ([SEGMENT, f"copy-0/{SEGMENT}"], klogtool.Partition),
        (["00000000000000000000.index.deleted"], klogtool.Partition),
        ([f"{SEGMENT}/"], klogtool.Partition),
        ([], None),
        (["server.log", "x.txt", "foo/"], None),
        (["x.log"], None),
        (["20240131.log"], None),
        ([".lock"], None),
        (["server.properties"], None),
        (["t-0/"], None),
        (["t-0/", "u-1/", "foo/"], None),
        (["app-1/app.log", "app-2/20240131.log"], None),
        ([f"t-0/inside/{SEGMENT}"], None),
        ([SEGMENT[:-1]], None),
        (["t-0"], None),
    ],
)
def test_what_is_in_a_folder_tells_what_it_is(tmp_path: pathlib.Path, names: list[str], kind: type | None) -> None:
    """A name with a slash at its end is a folder's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()
    if kind is None:
        with pytest.raises(klogtool.Unsupported) as found:
            klogtool.open(folder)
        assert found.value.path == str(folder)
    else:
        assert type(klogtool.open(folder)) is kind


@pytest.mark.parametrize(("names", "kind"), [(["x.txt"], None), ([], klogtool.Partition)])
def test_a_partitions_name_alone_tells_nothing_of_a_folder_with_other_things(
    tmp_path: pathlib.Path, names: list[str], kind: type | None
) -> None:
    folder = tmp_path / "python3-11"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    if kind is None:
        assert "neither a log dir nor a partition dir" in refused(folder).reason
        (tmp_path / "meta.properties").touch()  # a broker would load it
    assert type(klogtool.open(folder)) is klogtool.Partition


def test_a_partition_dir_that_may_not_be_listed_tells_nothing_and_is_named(
    copy_of: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    partition = copy_of("every-codec/logdir/create-0").rename(folder / "create-0")
    partition.chmod(0)
    try:
        command = [sys.executable, "-c", READ_ALL, str(folder)]
        done = subprocess.run(command, preexec_fn=without_power_over_files, capture_output=True, timeout=60, check=True)
    finally:
        partition.chmod(0o700)
    assert done.stdout.decode() == f"{partition}|permission denied\n"


# ---------------------------------------------------------------- what lies below


def log_dirs_below(path: pathlib.Path) -> tuple[list[str], bool]:
    found = refused(path)
    return [os.path.relpath(name, path) for name in found.below], found.is_all  # type: ignore[attr-defined]


def make_log_dirs(*paths: pathlib.Path) -> None:
    for path in paths:
        path.mkdir(parents=True)
        (path / "meta.properties").touch()


def test_log_dirs_below_are_found_but_not_what_lies_in_them(tmp_path: pathlib.Path) -> None:
    make_log_dirs(tmp_path / "b/c", tmp_path / "a", tmp_path / "a/inside", tmp_path / "x y'")
    assert log_dirs_below(tmp_path) == (["a", "b/c", "x y'"], True)


def test_links_are_looked_at_but_not_followed_further(tmp_path: pathlib.Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    make_log_dirs(tmp_path / "elsewhere/disk", tmp_path / "other/deep")
    (base / "disk").symlink_to(tmp_path / "elsewhere/disk")
    (base / "other").symlink_to(tmp_path / "other")
    (base / "circle").symlink_to(base)
    (base / "t-0").symlink_to(base / "t-0")
    (base / "u-0").symlink_to("nowhere")
    os.mkfifo(base / "v-0")
    assert log_dirs_below(base) == (["disk"], True)


def test_the_search_for_log_dirs_ends(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log_dirs(*(tmp_path / f"many/d{n:03d}" for n in range(60)))
    found, is_all = log_dirs_below(tmp_path / "many")
    assert (len(found), is_all) == (50, False)
    make_log_dirs(tmp_path / "deep/1/2/3/4/5/6/7")
    assert log_dirs_below(tmp_path / "deep") == ([], False)
    assert log_dirs_below(tmp_path / "deep/1") == (["2/3/4/5/6/7"], True)
    for bound in ("MOST_FOLDERS", "MOST_NAMES"):
        with monkeypatch.context() as patched:
            patched.setattr(f"klogtool.log.search.{bound}", 10)
            found, is_all = log_dirs_below(tmp_path / "many")
            assert (len(found) < 10, is_all) == (True, False)


def test_an_empty_folder_with_a_partitions_name_is_a_partition_without_segments(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    opened = klogtool.open(tmp_path / "t-0")
    assert isinstance(opened, klogtool.Partition)
    assert opened.segments == ()
    assert opened.leader_epochs is None
    assert opened.topic_id is None


@pytest.mark.parametrize("name", ["", ".", "create-0/", "create-0/.", "../logdir/create-0//"])
def test_a_path_may_be_written_in_any_way(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(CREATE_0 if name == "." else CREATE_0.parent)
    opened = klogtool.open(name or pathlib.Path("create-0"))
    assert isinstance(opened, klogtool.Partition)
    assert (opened.topic, opened.partition, opened.name) == ("create", 0, "create-0")
    assert klogtool.open(os.fsencode(CREATE_0)) == klogtool.open(str(CREATE_0))  # type: ignore[arg-type]


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (SEGMENT, klogtool.Segment),
        (f"{SEGMENT}.deleted", klogtool.Segment),
        (f"{SEGMENT}.swap", klogtool.Segment),
        ("word.log", klogtool.Segment),
        (".log", klogtool.Segment),
        ("bootstrap.checkpoint", klogtool.KraftSnapshot),
        ("00000000000000000042-0000000003.checkpoint", klogtool.KraftSnapshot),
        ("50-1.checkpoint", klogtool.KraftSnapshot),
        ("00000000000000000000.index", klogtool.EntriesFile),
        ("00000000000000000000.timeindex", klogtool.EntriesFile),
        ("00000000000000000000.txnindex.deleted", klogtool.EntriesFile),
        ("00000000000000000000.snapshot", klogtool.EntriesFile),
        ("leader-epoch-checkpoint", klogtool.EntriesFile),
        ("replication-offset-checkpoint", klogtool.EntriesFile),
        ("meta.properties", klogtool.PropertiesFile),
        ("partition.metadata.tmp", klogtool.PropertiesFile),
        ("quorum-state", klogtool.PropertiesFile),
        (".kafka_cleanshutdown", klogtool.PropertiesFile),
        (".lock", None),
        ("server.txt", None),
        ("new\nline \udcff", None),
    ],
)
def test_a_files_name_tells_what_it_is(tmp_path: pathlib.Path, name: str, kind: type | None) -> None:
    path = tmp_path / name
    path.touch()
    if kind is None:
        with pytest.raises(klogtool.Unsupported) as found:
            klogtool.open(path)
        assert found.value.path == str(path)
    else:
        assert type(klogtool.open(path)) is kind


@pytest.mark.parametrize("name", ["word.log", "-.log", "99999999999999999999.log", ".log"])
def test_a_log_whose_name_is_no_offset_can_be_read_but_has_no_base_offset(tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / name
    shutil.copy(CREATE_0 / SEGMENT, path)
    segment = klogtool.open(path)
    assert isinstance(segment, klogtool.Segment)
    assert sum(1 for _ in segment.records()) > 0
    assert segment.offset_index is None
    with pytest.raises(klogtool.Corrupt) as found:
        _ = segment.base_offset
    assert found.value.path == str(path)


def test_a_snapshots_name_says_its_end(tmp_path: pathlib.Path) -> None:
    for name, told in [
        ("00000000000000000042-0000000003.checkpoint", (42, 3)),
        ("00000000000000000042-0000000003.checkpoint.deleted", (42, 3)),
        ("50-1.checkpoint", (None, None)),
        ("bootstrap.checkpoint", (None, None)),
    ]:
        (tmp_path / name).touch()
        snapshot = klogtool.open(tmp_path / name)
        assert isinstance(snapshot, klogtool.KraftSnapshot)
        assert (snapshot.end_offset, snapshot.epoch) == told


# ---------------------------------------------------------------- what cannot be opened


def refused(path: str | os.PathLike[str]) -> klogtool.KlogError:
    with pytest.raises(klogtool.KlogError) as found:
        klogtool.open(path)
    assert found.value.reason
    return found.value


def test_nothing_there(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / SEGMENT, tmp_path / "no" / "such", f"{tmp_path}/{'x' * 300}"):
        assert refused(path).path == str(path)
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file" / SEGMENT).reason == "not a directory"
    assert refused("").reason == "no such file or directory"


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "t-0/\0.log"])
def test_text_that_can_be_no_path(path: str) -> None:
    assert refused(path).reason == "this text cannot be a path"


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fifo, device, plug, circle = (tmp_path / f"{n:020d}.log" for n in range(4))
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    circle.symlink_to(circle)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(plug))  # an absolute path may be too long for one
        for path in (fifo, device, plug, circle):
            assert refused(path).path == str(path)
        segments = klogtool.open(tmp_path).segments  # type: ignore[union-attr]
        assert [segment.path for segment in segments] == [str(fifo), str(device), str(plug), str(circle)]
        for segment in segments:
            with pytest.raises(klogtool.KlogError):
                list(segment.batches())
            with pytest.raises(klogtool.KlogError):
                list(segment.records())
            with pytest.raises(klogtool.KlogError):
                segment.tail_bytes()
            with pytest.raises(klogtool.KlogError):
                _ = segment.size


READ_ALL = """
import sys, klogtool
try:
    opened = klogtool.open(sys.argv[1])
    list(opened.records()) if isinstance(opened, klogtool.Segment) else opened.segments
except klogtool.KlogError as error:
    print(error.path, error.reason, sep="|")
"""


@pytest.mark.parametrize("target", ["file", "folder"])
def test_no_permission(copy_of: Callable[[str], pathlib.Path], target: str) -> None:
    partition = copy_of("every-codec/logdir/create-0")
    path = partition / SEGMENT if target == "file" else partition
    path.chmod(0)
    try:
        command = [sys.executable, "-c", READ_ALL, str(path)]
        done = subprocess.run(command, preexec_fn=without_power_over_files, capture_output=True, timeout=60, check=True)
    finally:
        path.chmod(0o700)
    assert done.stdout.decode() == f"{path}|permission denied\n"


def test_what_is_deleted_after_the_listing(copy_of: Callable[[str], pathlib.Path]) -> None:
    partition = klogtool.Partition(str(copy_of("every-codec/logdir/create-0")))
    segments = partition.segments
    shutil.rmtree(partition.path)
    for ask in (lambda: list(segments[0].records()), lambda: partition.segments, lambda: segments[0].size):
        with pytest.raises(klogtool.KlogError, match="no such file"):
            ask()
    assert segments[0].offset_index is None
