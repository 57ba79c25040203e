"""Gentle reading: the same bytes and answers as ever, and the page cache as it was."""

from __future__ import annotations

import fcntl
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from running import FIXTURES, Done, run_here

from klogtool.doctor.host_dirs import cached_bytes
from klogtool.errors import KlogError
from klogtool.log import gentle
from klogtool.log.file import LogFile

SIZES = [0, 1, 4095, 4096, 4097, 100_000, gentle.CHUNK_BYTES, 2 * gentle.CHUNK_BYTES + 17]


@pytest.fixture
def gently() -> Iterator[None]:
    gentle.begin_gently()
    yield
    gentle.end_gently()


def uncached(path: pathlib.Path) -> None:
    """Have the file out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def random_file(folder: pathlib.Path, size: int) -> tuple[pathlib.Path, bytes]:
    path, data = folder / "a.log", random.Random(size).randbytes(size)
    path.write_bytes(data)
    return path, data


@pytest.mark.parametrize("size", SIZES)
def test_the_same_bytes_wherever_they_are_read(size: int, tmp_path: pathlib.Path, gently: None) -> None:
    """Here and there, and one after the other, also beyond the end."""
    path, data = random_file(tmp_path, size)
    rng = random.Random(size)
    with LogFile(path) as file:
        for _ in range(100):
            at = rng.choice((0, rng.randrange(size + 10), max(0, size - rng.randrange(9000))))
            for wanted in rng.sample((0, 1, 100, 4096, 70_000, 1 << 22), 3):
                assert file.read(at, wanted) == data[at : at + wanted]
                assert file.read_into(bytearray(wanted), at, wanted) == data[at : at + wanted]
                at += wanted


def test_a_file_that_is_cut_or_grows_while_it_is_read(tmp_path: pathlib.Path, gently: None) -> None:
    path, data = random_file(tmp_path, 3 * gentle.CHUNK_BYTES)
    with LogFile(path) as file:
        assert file.read(0, 10_000) == data[:10_000]
        os.truncate(path, 5_000_001)
        assert file.read(gentle.CHUNK_BYTES, len(data)) == data[gentle.CHUNK_BYTES : 5_000_001]
        assert file.read(5_000_001, 100) == b""
        with path.open("ab") as more:
            more.write(b"more")
        assert file.read(5_000_001, 100) == b"more"


def test_an_error_of_the_disk_is_told_when_its_bytes_are_wanted(
    tmp_path: pathlib.Path, gently: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: what was read ahead may be wanted by nobody."""
    path, data = random_file(tmp_path, 4 * gentle.CHUNK_BYTES)
    read, good = os.preadv, 5_000_001 // gentle.BLOCK_BYTES * gentle.BLOCK_BYTES
    bad = good + 17

    def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
        if position < bad + 1 and bad < position + sum(map(len, buffers)):
            raise OSError(5, "Input/output error")
        return read(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)
    with LogFile(path) as file:
        assert b"".join(file.read(at, 1 << 20) for at in range(0, 4 << 20, 1 << 20)) == data[: 4 << 20]
        assert file.read(4 << 20, good - (4 << 20)) == data[4 << 20 : good]
        for _ in range(2):
            with pytest.raises(KlogError, match="input/output error"):
                file.read(good, 1)
        after = good + gentle.BLOCK_BYTES
        assert file.read(after, len(data)) == data[after:]
        assert file.read(0, 10) == data[:10]


def test_a_file_that_others_have_open_is_read_as_ever(tmp_path: pathlib.Path, gently: None) -> None:
    """Standard input: what klogtool sets there would be set for the shell's other commands, too."""
    path, data = random_file(tmp_path, 100_000)
    with path.open("rb") as shells, LogFile.over(os.dup(shells.fileno()), "-") as file:
        assert file.read(1, 1000) == data[1:1001]
        assert not fcntl.fcntl(shells.fileno(), fcntl.F_GETFL) & os.O_DIRECT
    with LogFile(path) as file, file.again() as other:
        assert other.read(5, 10_000) == data[5:10_005]


COMMANDS = {
    "verify": [["verify"], ["verify", "--deep", "--json"]],
    "doctor": [["doctor"]],
    "dump-log": [["dump-log", "--json"], ["dump-log", "--print-data-log"]],
    "hash": [["hash"]],
    "fleet collect": [["fleet", "collect", "-q"]],
    "image": [["image", "--keep-names", "--output", "OUT"]],
    "salvage": [["salvage", "--output", "OUT"]],
    "diff": [["diff", "OTHER"]],
}


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for several in COMMANDS.values() for words in several], ids=" ".join)
def test_the_same_answer_and_the_page_cache_as_it_was(words: list[str], tmp_path: pathlib.Path) -> None:
    """Of sound and of damaged log dirs: what was in the cache stays there, what was not does not come into it."""
    for name in ("killed-mid-append", "leader-epochs", "magic-1", "every-codec"):
        log_dir = tmp_path / name
        shutil.copytree(next((FIXTURES / name).rglob("logdir")), log_dir)
        path = next(log_dir.glob("*-0")) if words[0] == "salvage" else log_dir
        files = sorted(path for path in log_dir.rglob("*") if path.is_file() and path.stat().st_size)
        cold, warm = files[::2], files[1::2]
        expected = run_here([*words_for(words, tmp_path / f"{name}.1", log_dir), "--no-gentle", str(path)], tmp_path)
        for cold_file in cold:
            uncached(cold_file)
        before = {file: cached_bytes(str(file)) for file in files}
        if any(before[file] for file in cold) or not all(before[file] for file in warm):
            pytest.skip("this file system does not let go of pages, or does not say which it has")
        done = run_here([*words_for(words, tmp_path / f"{name}.2", log_dir), "--rate", "1GB/s", str(path)], tmp_path)
        assert (done.status, said(done)) == (expected.status, said(expected))
        assert {file: cached_bytes(str(file)) for file in files} == before
        assert bytes_below(tmp_path / f"{name}.1") == bytes_below(tmp_path / f"{name}.2")


def bytes_below(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def words_for(words: list[str], output: pathlib.Path, other: pathlib.Path) -> list[str]:
    """A command line, without its path: where it writes, which copy it compares with, and the time."""
    places = {"OUT": str(output), "OTHER": str(other)}
    now = ["--now", "2026-01-01"] if words[0] in ("verify", "doctor", "salvage") else []
    return [*(places.get(word, word) for word in words), *now]


def said(done: Done) -> bytes:
    """What was said, but for where it was written, how long it took, and what doctor foresees from that."""
    changing = rb'"seconds(_estimated)?":[^,]*|, [^,\n]* at the rate of this run|\.[12](?=\b)'
    return re.sub(changing, b"", done.out)


@pytest.mark.parametrize("rate", [1_000_000, 50_000_000, 200_000_000, 1_000_000_000])
def test_the_rate_is_held_by_a_busy_machine_that_wakes_us_late(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait ends up to 100 ms late, each read takes up to half of its share: within 5 % after a while, and never
    ahead by more than what may be made up."""
    now, rng, pace, done = 1000.0, random.Random(rate), gentle.Pace(rate), 0
    monkeypatch.setattr(gentle.time, "monotonic", lambda: now)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds + (rng.random() * 0.1 if seconds > 0 else 0)

    monkeypatch.setattr(gentle.time, "sleep", sleep)
    while now < 1060:
        now += rng.random() * 0.5 * gentle.CHUNK_BYTES / rate
        pace.spend(gentle.CHUNK_BYTES)
        done += gentle.CHUNK_BYTES
        most = max(gentle.MADE_UP_SECONDS, gentle.CHUNK_BYTES / rate)
        assert done <= (now - 1000 + most) * rate + gentle.CHUNK_BYTES
    assert done == pytest.approx((now - 1000) * rate, rel=0.05)


@pytest.mark.parametrize(("words", "nice"), [(["--gentle"], gentle.NICE), (["--rate", "1GB/s"], gentle.NICE), ([], 0)])
def test_gentle_reading_lets_others_have_the_processor_first(words: list[str], nice: int) -> None:
    """In a process of its own, which starts with the nice value of this one."""
    command = ["verify", str(FIXTURES / "retention" / "logdir"), *words]
    code = f"import os; from klogtool.cli.main import run; run({command!r}); print('nice', os.nice(0))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, check=True, text=True)
    assert done.stdout.endswith(f"\nnice {max(nice, os.nice(0))}\n")
