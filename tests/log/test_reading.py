"""How the objects read: lazily, without a trace, one file open at a time and none afterwards."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress

import pytest
from running import FIXTURES, ROOT

import klogtool

LOG_DIRS = [path.parent for path in sorted(FIXTURES.rglob("meta.properties"))]


def read_everything(log_dir: klogtool.LogDir) -> int:
    """Looks at all that the objects have; returns how many records there are."""
    count = 0
    for thing in (log_dir, *log_dir.partitions):
        ask_all(thing)
    for partition in log_dir.partitions:
        for file in (*partition.segments, *partition.producer_snapshots, *partition.kraft_snapshots):
            ask_all(file)
        for segment in partition.segments:
            with suppress(klogtool.KlogError):
                count += sum(1 for _ in segment.records())
            with suppress(klogtool.KlogError):
                count += sum(1 for batch in segment.batches() for _ in batch.records())
            with suppress(klogtool.KlogError):
                segment.tail_bytes()
    return count


def ask_all(thing: object) -> None:
    for name in dir(type(thing)):
        if isinstance(getattr(type(thing), name), property):
            with suppress(klogtool.KlogError):
                getattr(thing, name)


@pytest.mark.parametrize("path", LOG_DIRS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_reading_never_writes(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], path: pathlib.Path
) -> None:
    with unchanged(path):
        opened = klogtool.open(path)
        assert isinstance(opened, klogtool.LogDir)
        assert read_everything(opened) > 0


@pytest.fixture
def read_only(copy_of: Callable[[str], pathlib.Path]) -> Iterator[pathlib.Path]:
    """A log dir in which nothing may be written (which binds root only without its power over files)."""
    folder = copy_of("killed-mid-append/logdir")
    everything = [folder, *folder.rglob("*")]
    for path in everything:
        path.chmod(path.stat().st_mode & ~0o222)
    yield folder
    for path in everything:
        path.chmod(path.stat().st_mode | 0o200)


def test_a_read_only_folder_reads_as_well(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], read_only: pathlib.Path
) -> None:
    with unchanged(read_only):
        found = klogtool.open(read_only)
        assert isinstance(found, klogtool.LogDir)
        original = klogtool.open(FIXTURES / "killed-mid-append/logdir")
        assert isinstance(original, klogtool.LogDir)
        assert read_everything(found) == read_everything(original)


# ---------------------------------------------------------------- descriptors


def open_files() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {path for path in found if path.startswith(str(FIXTURES))}


def test_nothing_stays_open(tmp_path: pathlib.Path) -> None:
    gc.collect()  # what another test left open would be closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    for path in LOG_DIRS:
        opened = klogtool.open(path)
        assert isinstance(opened, klogtool.LogDir)
        read_everything(opened)
    assert open_files() == set()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_open_only_while_it_is_walked() -> None:
    segment = klogtool.Segment(str(FIXTURES / "every-codec/logdir/create-0/00000000000000000000.log"))
    for walk in (segment.batches, segment.records):
        walked = walk()
        assert open_files() == set()
        next(walked)
        assert open_files() == {segment.path}
        del walked
        assert open_files() == set()
    with pytest.raises(klogtool.KlogError):
        next(segment.batches(start=10**9))
    assert open_files() == set()
    batch = next(segment.batches())
    assert open_files() == set()
    assert len(list(batch.records())) == batch.records_count


def test_a_walk_that_is_given_up_closes_at_once() -> None:
    segment = klogtool.Segment(str(FIXTURES / "every-codec/logdir/create-0/00000000000000000000.log"))
    gc.disable()
    try:
        for _ in segment.records():
            break
        assert open_files() == set()
        walked = segment.batches()
        next(walked)
        walked.close()  # type: ignore[attr-defined]
        assert open_files() == set()
    finally:
        gc.enable()


# ---------------------------------------------------------------- importing


def in_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=True)
    return done.stdout.decode().strip()


def test_importing_klogtool_imports_nothing_else() -> None:
    code = "import sys, klogtool; print(*sorted(m for m in sys.modules if m.startswith('klogtool') or m in HEAVY))"
    heavy = "HEAVY = {'click', 'rich', 'pyarrow', 'construct', 'lz4', 'zstandard', 'dataclasses'}; "
    assert in_python(heavy + code) == "klogtool"


def test_records_are_read_without_the_faces_and_what_they_need() -> None:
    path = FIXTURES / "every-codec/logdir/create-0/00000000000000000000.log"
    code = f"import sys, klogtool; next(klogtool.open({str(path)!r}).records()); "
    assert in_python(code + "print(sorted({'click', 'rich', 'pyarrow', 'klogtool.render'} & set(sys.modules)))") == "[]"


def test_public_names() -> None:
    for name in klogtool.__all__:
        if name not in ("scan", "LogScan"):
            assert getattr(klogtool, name).__doc__
    assert set(klogtool.__all__) < set(dir(klogtool))
    assert klogtool.__version__ == importlib.metadata.version("klogtool")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = klogtool.no_such_name


def test_a_scan_comes_from_where_arrow_is() -> None:
    pytest.importorskip("pyarrow")
    from klogtool.render.scan import scan

    assert klogtool.scan is scan
