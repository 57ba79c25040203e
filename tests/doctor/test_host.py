"""What a machine does to a log, from recorded folders with `proc` and `sys`."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from running import ROOT

from klogtool.doctor.host import HostDir, HostFiles, HostPoint, judge_host, measure_room
from klogtool.doctor.host_dirs import cached_bytes
from klogtool.render.words import words as told
from klogtool.verify.findings import Severity

TUNED, UNTUNED = (str(ROOT / "tests/doctor/host" / name) for name in ("tuned", "untuned"))
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
GIB = 1 << 30
SMALL = HostDir("/kafka/d0", 1000, 100, 10, GIB, 500, 500 * GIB, 10**7)
LARGE = HostDir("/kafka/d1", 40_000, 3_000, 500)


def point(name: str, dirs: list[HostDir], root: str = UNTUNED) -> HostPoint:
    (found,) = (one for one in judge_host(dirs, root) if one.name == name)
    return found


def test_a_tuned_machine_has_nothing_to_say_but_numbers() -> None:
    points = judge_host([SMALL], TUNED)
    assert {one.severity for one in points} == {INFO}
    assert [one.name for one in points] == [
        "vm.max_map_count",
        "open files",
        "fs.file-max, fs.nr_open",
        "mount",
        "free space",
        "free inodes",
    ]
    assert all(told(one.found) and told(one.recommended) and told(one.why).endswith(".") for one in points)


def test_the_worst_comes_first() -> None:
    severities = [one.severity for one in judge_host([LARGE], UNTUNED)]
    assert severities == sorted(severities, key=list(Severity).index)
    assert severities[0] is ERROR


@pytest.mark.parametrize(
    ("segments", "active", "severity"),
    [(30_000, 1_000, INFO), (31_765, 1_000, INFO), (31_766, 1_000, WARNING), (40_000, 31_766, ERROR)],
)
def test_memory_maps(segments: int, active: int, severity: Severity) -> None:
    """65,530 maps, of which a broker needs 2,000 for itself: 31,765 segments fit."""
    found = point("vm.max_map_count", [HostDir("/d", segments, active)])
    assert found.severity is severity
    assert told(found.found).startswith("65,530; these logs need")


def test_log_dirs_of_a_broker_share_its_limits() -> None:
    dirs = [HostDir(f"/kafka/d{n}", 20_000, 100) for n in range(2)]
    assert point("vm.max_map_count", dirs).severity is WARNING
    assert point("vm.max_map_count", dirs[:1]).severity is INFO


def test_open_files() -> None:
    assert point("open files", [LARGE]).severity is ERROR  # 40,500 of 1,024
    assert point("open files", [LARGE], TUNED).severity is INFO  # of 100,000
    assert "40,500" in told(point("open files", [LARGE]).found)
    assert point("open files", [HostDir("/d", 1_000, 100)]).severity is WARNING
    assert point("open files", [HostDir("/d", 99_000, 100)], TUNED).severity is WARNING
    assert point("open files", [HostDir("/d", 100_001, 100)], TUNED).severity is ERROR
    assert point("fs.file-max, fs.nr_open", [LARGE]).severity is ERROR  # 121,000 references of 50,000
    assert point("fs.file-max, fs.nr_open", [HostDir("/d", 8_000, 1)]).severity is WARNING
    assert point("fs.file-max, fs.nr_open", [LARGE], TUNED).severity is INFO


def test_no_limit_of_open_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/limits").write_text("Max open files            unlimited            unlimited    files\n")
    assert point("open files", [LARGE], str(tmp_path)).severity is INFO


@pytest.mark.parametrize(
    ("path", "kind", "severity", "words"),
    [
        ("/kafka/nfs", "nfs4", WARNING, "network file system"),
        ("/kafka/ro/d1", "xfs", ERROR, "read-only"),
        ("/kafka/tmp", "tmpfs", ERROR, "memory"),
        ("/kafka/layer/x", "overlay", WARNING, "container"),
        ("/kafka/times", "xfs", WARNING, "strictatime"),
        ("/kafka/none", "ext4", WARNING, "data=writeback, nobarrier"),
    ],
)
def test_mounts(path: str, kind: str, severity: Severity, words: str) -> None:
    found = point("mount", [HostDir(path)])
    assert found.severity is severity
    assert told(found.found).startswith(f"{kind} (")
    assert words in told(found.why)
    assert found.path == path


def test_a_mount_point_with_a_blank() -> None:
    found = point("mount", [HostDir("/kafka/with blank/d")], TUNED)
    assert told(found.found).startswith("xfs (rw,noatime,")


@pytest.mark.parametrize(("free", "severity"), [(GIB, ERROR), (2 * GIB, WARNING), (4 * GIB, INFO)])
def test_room(free: int, severity: Severity) -> None:
    found = point("free space", [HostDir("/kafka/d0", bytes_ahead=2 * GIB, free_bytes=free)], TUNED)
    assert found.severity is severity
    assert ("klogtool free" in told(found.why)) == (severity is not INFO)


def test_log_dirs_of_one_file_system_share_its_room() -> None:
    dirs = [HostDir(f"/kafka/d0/{n}", bytes_ahead=GIB, files_ahead=10, free_bytes=GIB, free_files=15) for n in "ab"]
    found = point("free space", dirs, TUNED)
    assert (found.severity, found.path) == (ERROR, "/kafka/d0/a, /kafka/d0/b")
    assert point("free inodes", dirs, TUNED).severity is ERROR
    assert point("free inodes", dirs[:1], TUNED).severity is WARNING


def test_what_is_not_known_is_said(tmp_path: pathlib.Path) -> None:
    points = judge_host([SMALL], str(tmp_path))
    assert {one.severity for one in points} == {INFO}
    assert all("not known" in told(one.found) for one in points if one.path is None)
    assert [one.name for one in points if one.path is not None] == ["free space", "free inodes"]


def test_files_of_proc_that_make_no_sense(tmp_path: pathlib.Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_bytes(b"\xff - \n- - -\n1 2 3 4 / rw\n" + b"a " * 3_000_000)
    (tmp_path / "proc/self/limits").write_text("Max open files            x y\n")
    (tmp_path / "proc/sys/vm/max_map_count").write_text("9" * 5000)
    assert {one.severity for one in judge_host([SMALL], str(tmp_path))} == {INFO}


def test_this_machine() -> None:
    path = os.path.realpath(ROOT)
    points = judge_host([HostDir(path, 10, 5, 0, 0, 0, *measure_room(path))])
    assert len(points) >= 5
    assert HostFiles("/").number("proc/sys/vm/max_map_count")
    assert HostFiles("/").mount_of(path) is not None


def test_page_cache(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(bytes(10_000))
    before = (file.stat().st_mtime_ns, file.read_bytes())
    assert cached_bytes(str(file)) == 10_000  # it was just written
    assert (file.stat().st_mtime_ns, file.read_bytes()) == before
    (tmp_path / "empty").touch()
    assert cached_bytes(str(tmp_path / "empty")) == 0
    assert cached_bytes(str(tmp_path / "missing")) is None
    assert cached_bytes(str(tmp_path)) is None
    found = point("page cache", [HostDir("/d", cached_bytes=2500, looked_at_bytes=10_000)])
    assert told(found.found) == "2,500 of 10,000 bytes (25 %) are in memory"


def test_holes_of_a_large_file_are_not_in_memory(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(3 * GIB + 5)
    begun = time.monotonic()
    assert cached_bytes(str(tmp_path / "large")) == 0
    assert time.monotonic() - begun < 20
