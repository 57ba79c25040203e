"""Whatever lies in a partition dir, or is to be appended: a plan or a line about it, no traceback, nothing written."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from bad_input import FILES_OF_A_PARTITION, MEMORY_BYTES, garbage_for, writable_copy
from running import ROOT, Done, run_apart, run_here, tree_of, with_memory, without_power_over_files
from working import NAME, SOURCE, WORK, put_input, words_of

Path = pathlib.Path
Unchanged = Callable[[Path], AbstractContextManager[None]]
CHECKPOINTS = [
    f"{what}-checkpoint"
    for what in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")
]


@pytest.fixture(params=WORK)
def work(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """In a log dir that was stopped cleanly, so that nothing is mended before it is worked at."""
    put_input(tmp_path / "input")
    return writable_copy(SOURCE, tmp_path / "logdir") / NAME


def asked(work: str, partition: Path) -> Done:
    """Answered, or told in klogtool's name."""
    given = partition.parent.parent / "input"
    return told(run_here(words_of(work, partition, given), ROOT))


def told(done: Done) -> Done:
    assert "Traceback" not in done.err
    said = done.out.decode()
    is_lossy = done.status == 1 and any(word in said for word in ("LOSES", "MISSING", "DAMAGED", "FALSE"))
    assert done.status == 0 or is_lossy or "klogtool: " in done.err or "refused" in said.lower(), done
    return done


def test_garbage_in_a_file(partition: Path, unchanged: Unchanged, work: str) -> None:
    for path in [
        *(partition / name for name in FILES_OF_A_PARTITION),
        *(partition.parent / name for name in CHECKPOINTS),
    ]:
        kept = path.read_bytes() if path.exists() else None
        for data in garbage_for(path):
            path.write_bytes(data)
            with unchanged(partition.parent):
                assert asked(work, partition).status in (0, 1, 3, 4)
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


def test_files_that_are_gone_or_something_else(partition: Path, unchanged: Unchanged, work: str) -> None:
    for name in FILES_OF_A_PARTITION:
        path = partition / name
        kept = path.read_bytes()
        path.unlink()
        for put in (lambda at: None, os.mkdir, os.mkfifo, lambda at: os.symlink(at, at)):
            put(path)
            with unchanged(partition.parent):
                assert asked(work, partition).status in (0, 1, 3, 4)
            if os.path.lexists(path):
                path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(kept)


def test_a_file_that_may_not_be_read(partition: Path, work: str) -> None:
    (partition / "leader-epoch-checkpoint").chmod(0)
    words = words_of(work, partition, partition.parent.parent / "input")
    before = tree_of(partition.parent, with_bytes=False)  # whoever runs this may not read it either
    done = told(run_apart(*words, before=without_power_over_files))
    assert tree_of(partition.parent, with_bytes=False) == before
    assert done.status == 4
    assert "permission denied" in done.err


def test_what_is_no_partition_dir(tmp_path: Path, partition: Path, work: str) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / f"{0:020d}.log"
    os.mkfifo(fifo)
    file.write_bytes(b"")
    given = tmp_path / "input"
    for path in (fifo, file, tmp_path / "none", tmp_path / "input"):
        assert told(run_here(words_of(work, path, given), ROOT)).status in (2, 4)


@pytest.mark.parametrize("what", ["records", "batches", "requests"])
def test_what_is_to_be_appended_is_garbage(partition: Path, unchanged: Unchanged, what: str) -> None:
    path = partition.parent.parent / "input" / what
    rng, whole = random.Random(what), path.read_bytes()
    for data in (
        b"",
        b"\n" * 50,
        whole[:-20],
        b"\0" * 200,
        b"[" * 100_000,
        rng.randbytes(3000),
        b'{"type": "record"}\n{',
    ):
        path.write_bytes(data)
        with unchanged(partition.parent):
            assert asked(what, partition).status in (0, 1, 2, 3, 4)
    for make in (path.unlink, path.mkdir, path.rmdir, lambda: os.mkfifo(path)):
        make()
        with unchanged(partition.parent):
            assert asked(what, partition).status in (2, 4)


@pytest.mark.parametrize("what", ["records", "batches", "requests"])
def test_what_is_to_be_appended_has_no_end(partition: Path, unchanged: Unchanged, what: str) -> None:
    path = partition.parent.parent / "input" / what
    path.unlink()
    path.symlink_to("/dev/zero")
    words = words_of(what, partition, path.parent)
    with unchanged(partition.parent):
        assert told(run_apart(*words, before=with_memory(MEMORY_BYTES))).status in (2, 4)
