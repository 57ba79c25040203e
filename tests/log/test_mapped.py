"""Mapped pieces of a file: the same bytes, the same lines, and no signal when somebody cuts the file meanwhile."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from raw_batches import build_batch
from readers import DEEP, PRINT, SHALLOW, Reader, Shown, log_file, told
from vectors import BATCHES, MESSAGES

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.log import mapped
from klogtool.log.file import LogFile
from klogtool.log.mapped import MappedReads, should_map
from klogtool.render import log_lines
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.selection import DumpForm, RecordOptions

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")

PAGE = os.sysconf("SC_PAGESIZE")
EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


@pytest.fixture
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_FROM_BYTES", 1)


@pytest.fixture(scope="module")
def log() -> bytes:
    """2 MiB of plain batches."""
    rng = random.Random(5)
    records = [
        [Record(offset=10 * n + k, timestamp=n, key=b"k%d" % k, value=rng.randbytes(2000)) for k in range(10)]
        for n in range(110)
    ]
    data = b"".join(map(build_batch, records))
    assert len(data) > mapped.MAPPED_FROM_BYTES
    return data


@pytest.fixture
def file(log: bytes) -> Iterator[LogFile]:
    with log_file(log) as path, LogFile(path) as opened:
        yield opened


def maps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is mapped from now on."""
    found: list[int] = []
    map_piece = LogFile.map

    def mapping(file: LogFile, position: int, size: int) -> memoryview:
        found.append(size)
        return map_piece(file, position, size)

    monkeypatch.setattr(LogFile, "map", mapping)
    return found


def test_any_piece_is_the_files(file: LogFile, log: bytes) -> None:
    with MappedReads(file) as reads:
        for at, size in (
            (0, 10),
            (PAGE - 1, 2),
            (12345, 100_000),
            (len(log) - 5, 5),
            (len(log) - 5, 500),
            (0, 1 << 30),
        ):
            piece = reads.read(at, size)
            assert piece == log[at : at + size]
            reads.give_back(piece)
        assert bytes(reads.read(len(log), 10)) == b""
        assert not reads.hit


@pytest.mark.parametrize("left", [0, 1, PAGE, PAGE + 1, 500_000])
def test_a_piece_of_a_file_that_was_cut_is_zeros_and_says_so(file: LogFile, log: bytes, left: int) -> None:
    with MappedReads(file) as reads:
        piece = reads.read(0, len(log))
        os.truncate(file.path, left)
        assert bytes(piece) == log[:left] + bytes(len(log) - left)
        reads.give_back(piece)
        assert reads.hit


def test_a_cut_inside_the_last_page_gives_no_signal_and_is_seen(file: LogFile, log: bytes) -> None:
    assert len(log) % PAGE > 1
    with MappedReads(file) as reads:
        reads.give_back(reads.read(len(log) - 100, 100))
        assert not reads.hit
        piece = reads.read(len(log) - 100, 100)
        os.truncate(file.path, len(log) - 1)
        reads.give_back(piece)
        assert reads.hit


def test_a_file_that_was_cut_before_is_read(file: LogFile, log: bytes) -> None:
    os.truncate(file.path, 1000)
    with MappedReads(file) as reads:
        assert bytes(reads.read(0, len(log))) == log[:1000]
        assert not reads.hit


def test_more_pieces_than_can_be_watched_over(file: LogFile, log: bytes) -> None:
    with MappedReads(file) as reads:
        pieces = [reads.read(n, 10) for n in range(1000)]
        assert [bytes(piece) for piece in pieces] == [log[n : n + 10] for n in range(1000)]
        watched = len(reads._watched)
        assert 0 < watched < 1000
    with MappedReads(file) as reads:
        pieces = [reads.read(n, 10) for n in range(watched)]
        assert len(reads._watched) == watched  # all were let go


def test_a_watch_is_over_a_mapped_file_until_it_is_let_go(file: LogFile) -> None:
    watch = kernels.native.Watch(file.map(0, 10), False)
    assert not watch.was_hit()
    watch.let_go()
    watch.let_go()
    with pytest.raises(ValueError, match="let go"):
        watch.was_hit()
    with pytest.raises(TypeError):
        kernels.native.Watch(memoryview(bytes(10)), False)
    with pytest.raises(OSError, match="cannot be watched"):
        kernels.native.Watch(file.map(0, 10)[:0], False)


def test_small_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = maps(monkeypatch)
    with log_file(EVERY_KIND) as path, LogFile(path) as file:
        assert not should_map(file)
    Reader("kernel").show(EVERY_KIND, PRINT)
    assert not found


def test_the_reference_reads(log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    found = maps(monkeypatch)
    Reader("reference").show(log, SHALLOW)
    assert not found


# ---------------------------------------------------------------- the lines


@pytest.mark.usefixtures("small_files_too")
@pytest.mark.parametrize("options", [SHALLOW, DEEP, PRINT], ids=["shallow", "deep", "print"])
@pytest.mark.parametrize("span_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("jobs", [1, 3])
def test_the_lines_are_the_same(
    options: RecordOptions, span_bytes: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (EVERY_KIND, EVERY_KIND * 3, EVERY_KIND[:-7], EVERY_KIND + bytes(100), EVERY_KIND[:500]):
        expected = Reader("reference").show(data, options)
        found = maps(monkeypatch)
        assert Reader("kernel").show(data, options, jobs=jobs, span_bytes=span_bytes) == expected
        assert found


def shown(file: LogFile, log: bytes, jobs: int) -> Shown:
    pieces: list[bytes] = []
    dump, error = LogDump(), None
    try:
        dump_log_lines(file, DumpForm(PRINT), lambda piece: pieces.append(bytes(piece)), dump, end=len(log), jobs=jobs)
    except KlogError as ended_it:
        error = told(ended_it)
    return Shown(
        b"".join(pieces), error, (), dump.gaps, dump.last_offset, dump.invalid, dump.first_invalid
    )  # fmt: skip


@pytest.mark.parametrize("left", [0, 1, 70_000, 20 * PAGE, 1 << 20, 2_100_000])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("span_bytes", [1 << 18, 8 << 20])
def test_a_file_that_is_cut_while_a_kernel_works_on_it(
    file: LogFile, log: bytes, left: int, jobs: int, span_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was printed is of the file as it was, or as it is; never of zeros."""
    monkeypatch.setattr(log_lines, "SPAN_BYTES", span_bytes)
    with log_file(log[:left]) as path, LogFile(path) as cut:
        as_it_is = shown(cut, log, 1)
    as_it_was = shown(file, log, 1)
    native = kernels.native

    class CutFirst:
        def __getattr__(self, name: str) -> Any:
            if name == "dump" and os.stat(file.path).st_size > left:
                os.truncate(file.path, left)
            return getattr(native, name)

    monkeypatch.setattr(kernels, "native", CutFirst())
    found = shown(file, log, jobs)
    assert found == as_it_is if left < len(log) else found == as_it_was
    assert os.stat(file.path).st_size == left


def test_bytes_that_change_under_a_kernel(file: LogFile, log: bytes) -> None:
    """Nothing that is mapped stays as it was checked: no crash, whatever is printed."""
    done, rng = threading.Event(), random.Random(7)

    def scribble() -> None:
        with open(file.path, "r+b", buffering=0) as scribbled:
            while not done.is_set():
                at = rng.randrange(len(log) - 8)
                os.pwrite(scribbled.fileno(), rng.choice([bytes(8), b"\xff" * 8, log[at : at + 8]]), at)

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        for jobs in (1, 2, 1, 2):
            shown(file, log, jobs)
    finally:
        done.set()
        writer.join()


# ---------------------------------------------------------------- other signals

WATCHING = """
import mmap, os, signal, sys, tempfile
from klogtool import kernels
def cut():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1 << 20)); file.flush()
        data = memoryview(mmap.mmap(file.fileno(), 1 << 20, prot=mmap.PROT_READ))
        os.truncate(file.fileno(), 0)
    return data
watch = kernels.native.Watch(data := cut(), False)
assert bytes(data[5000:5010]) == bytes(10) and watch.was_hit()
"""


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("bytes(cut())", b""),
        ("watch.let_go(); bytes(data[:1])", b""),
        ("os.kill(os.getpid(), signal.SIGBUS)", b""),
        ("bytes(cut())", b"Fatal Python error: Bus error"),
    ],
    ids=["another mapping", "let go", "sent", "faulthandler"],
)
def test_any_other_bus_error_ends_the_process_as_ever(then: str, said: bytes) -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, *(["-X", "faulthandler"] if said else []), "-c", WATCHING + then]
    done = subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert said in done.stderr
    assert said or not done.stderr
