"""`klogtool dump-log --follow`: what a partition gets while it is watched."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from unittest.mock import patch

import pytest
from raw_batches import build_batch
from readers import NAME
from running import ROOT, run_here

from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.log import followed
from klogtool.log.followed import Changes, FollowedPartition
from klogtool.render import kafka_dump
from klogtool.render.kafka_dump import FollowingDump, KafkaDump
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions
from klogtool.render.words import words

PATIENCE_S = 60


def batch(offset: int, value: bytes = b"v") -> bytes:
    return build_batch([Record(offset, 1_700_000_000_000, b"k", value)])


def append(path: pathlib.Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "t-0"
    folder.mkdir()
    return folder


class Following:
    """A process that follows; what it printed so far."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "klogtool", "dump-log", "--follow", *map(str, words)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        self.out = b""

    def until(self, text: bytes) -> bytes:
        """Wait until it has printed this."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.out:
            left = deadline - time.monotonic()
            assert left > 0, f"never printed: {text!r}, but {self.out!r}"
            if select.select([self.process.stdout], [], [], left)[0]:
                piece = os.read(self.process.stdout.fileno(), 1 << 16)
                assert piece, f"it ended without {text!r}: {self.process.communicate()}"
                self.out += piece
        return self.out

    def end(self) -> tuple[int, str]:
        """Interrupt it; return its exit status and what it told."""
        self.process.send_signal(signal.SIGINT)
        out, told = self.process.communicate(timeout=PATIENCE_S)
        self.out += out
        return self.process.returncode, told.decode()


@pytest.fixture
def follow() -> Iterator[Callable[..., Following]]:
    made: list[Following] = []

    def start(*words: object) -> Following:
        made.append(Following(*words))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.communicate()


def test_batches_are_printed_when_they_are_whole(partition: pathlib.Path, follow: Callable[..., Following]) -> None:
    """With a broker's lock held, too. The next segment, and an interrupt."""
    log, lock = partition / NAME, partition.parent / ".lock"
    append(log, batch(0))
    with lock.open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        run = follow(partition, "--print-data-log")
        run.until(b"payload: v\n")
        half = batch(1, b"second")
        append(log, half[:30])
        append(log, half[30:])
        run.until(b"payload: second\n")
        append(partition / "00000000000000000002.log", batch(2, b"third"))
        out = run.until(b"payload: third\n")
        assert run.end() == (130, "")
    assert out.count(b"Dumping ") == 2
    assert b"Log starting offset: 2\n" in out


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_that_follow(partition: pathlib.Path, follow: Callable[..., Following], form: str) -> None:
    log = partition / NAME
    append(log, batch(0, b"first"))
    run = follow(log, "--format", form, "--offsets", "1..")
    append(log, batch(1, b"second"))
    run.until(b"second")
    assert run.end()[0] == 130
    assert b"first" not in run.out
    if form == "json":
        assert [json.loads(line)["type"] for line in run.out.splitlines()] == ["klogtool", "batch", "record"]
    else:
        assert [row[:5] for row in csv.reader(run.out.decode().splitlines())][1:] == [["k", "second", "t", "0", "1"]]


def test_the_reader_goes_away(partition: pathlib.Path, follow: Callable[..., Following]) -> None:
    """Nothing has to be printed for that to be noticed."""
    append(partition / NAME, batch(0))
    run = follow(partition)
    run.until(b"baseOffset: 0")
    assert run.process.stdout is not None
    run.process.stdout.close()
    assert run.process.wait(PATIENCE_S) == 141


def test_damage_ends_it(partition: pathlib.Path) -> None:
    append(partition / NAME, batch(0) + b"\xff" * 40)
    done = run_here(["dump-log", "--follow", str(partition)], ROOT)
    assert done.status == 1
    assert "at byte 70" in done.told
    assert b"baseOffset: 0" in done.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--files", "x"], "--follow does not go with --files."),
        (["--resync", "x"], "--follow does not go with --resync."),
        (["--format", "parquet", "x"], "--follow has no end"),
        (["-"], "--follow follows one partition"),
        (["x", "y"], "--follow follows one partition"),
        ([], "Nothing to dump"),
    ],
)
def test_what_cannot_be_followed(tmp_path: pathlib.Path, words: list[str], told: str) -> None:
    done = run_here(["dump-log", "--follow", *words], tmp_path)
    assert done.status == 2
    assert told in done.told


def test_a_log_dir_is_no_partition(partition: pathlib.Path) -> None:
    append(partition / NAME, batch(0))
    done = run_here(["dump-log", "--follow", str(partition.parent)], ROOT)
    assert done.status == 2
    assert "--follow follows one partition" in done.told


# ---------------------------------------------------------------- what happens to a log, look by look


class Looks:
    """A partition in this process: what each look printed and told."""

    def __init__(self, folder: pathlib.Path, first: pathlib.Path | None = None, lowest: int = 0) -> None:
        self.out, self.told = b"", []
        kafka = KafkaDump(KafkaOptions(KafkaArguments(print_data_log=True)), self._write, self.told.append)
        self._dump = FollowingDump(kafka, "text")
        self.partition = FollowedPartition(str(folder), first and str(first), self._tell, lowest=lowest)

    def _tell(self, what: Reason) -> None:
        self.told.append(words(what))

    def _write(self, data: bytes | memoryview) -> None:
        self.out += data

    def look(self) -> list[str]:
        """The values that were printed."""
        self.out = b""
        self.told.clear()
        self.partition.look(self._dump.read)
        return [line.rpartition("payload: ")[2] for line in self.out.decode().splitlines() if "payload" in line]


def test_a_batch_at_each_length(partition: pathlib.Path) -> None:
    looks, data = Looks(partition), batch(0, b"whole")
    assert looks.look() == []
    for n in range(len(data)):
        append(partition / NAME, data[n : n + 1])
        assert looks.look() == (["whole"] if n == len(data) - 1 else [])
        assert looks.told == []
    looks.partition.close()


def test_a_leader_change_cuts_the_log(partition: pathlib.Path) -> None:
    """The second record goes, another comes in its place, before anybody looks."""
    looks, log = Looks(partition), partition / NAME
    for n, value in enumerate((b"a", b"b")):
        append(log, batch(n, value))
        assert looks.look() == [value.decode()]
    os.truncate(log, len(batch(0, b"a")))
    append(log, batch(1, b"c"))
    assert looks.look() == ["c"]
    assert looks.told == [f"{log}: cut, with 70 bytes that were read; going on at byte 70"]
    os.truncate(log, 0)
    assert looks.look() == []
    assert "going on at byte 0" in looks.told[0]
    append(log, batch(0, b"d"))
    assert looks.look() == ["d"]


def test_a_leader_change_deletes_the_last_segment(partition: pathlib.Path) -> None:
    looks, log, second = Looks(partition), partition / NAME, partition / "00000000000000000002.log"
    append(log, batch(0, b"a"))
    looks.look()
    append(log, batch(1, b"b"))
    append(second, batch(2, b"c"))
    assert looks.look() == ["b", "c"]
    second.rename(f"{second}.deleted")
    os.truncate(log, 70)
    append(log, batch(1, b"e"))
    assert looks.look() == []
    assert looks.told == [f"{second}: deleted; going on with {NAME}"]
    assert looks.look() == ["e"]
    assert looks.told == [f"{log}: cut, with 70 bytes that were read; going on at byte 70"]


def test_retention_deletes_what_is_being_read(partition: pathlib.Path) -> None:
    """An open file stays; so nothing is lost."""
    looks, log, second = Looks(partition), partition / NAME, partition / "00000000000000000002.log"
    append(log, batch(0, b"a"))
    assert looks.look() == ["a"]
    append(log, batch(1, b"b"))
    append(second, batch(2, b"c"))
    log.unlink()
    assert looks.look() == ["b", "c"]
    assert looks.told == [f"{log}: deleted; it was read to its end"]


def test_a_partition_that_goes_and_comes(partition: pathlib.Path) -> None:
    looks = Looks(partition)
    append(partition / NAME, batch(0, b"a"))
    assert looks.look() == ["a"]
    partition.rename(partition.with_name("t-0.0123456789abcdef0123456789abcdef-delete"))
    assert looks.look() == []
    assert looks.told == [f"{partition}: the partition dir is gone; waiting for it"]
    assert looks.look() == []
    assert looks.told == []
    partition.mkdir()
    append(partition / NAME, batch(0, b"b"))
    assert looks.look() == ["b"]
    assert "is there again" in looks.told[0]


def test_zeros_are_room_for_more(partition: pathlib.Path) -> None:
    """A segment that a broker has made room for beforehand."""
    looks, log = Looks(partition), partition / NAME
    log.write_bytes(bytes(500))
    assert looks.look() == []
    with log.open("r+b") as file:
        file.write(batch(0, b"a"))
    assert looks.look() == ["a"]
    assert looks.told == []


def test_it_begins_where_it_is_told(partition: pathlib.Path) -> None:
    names = [partition / f"{n:020d}.log" for n in (0, 2, 4)]
    for n, log in zip((0, 2, 4), names, strict=True):
        append(log, batch(n, b"v%d" % n))
    assert Looks(partition).look() == ["v0", "v2", "v4"]
    assert Looks(partition, names[1]).look() == ["v2", "v4"]
    assert Looks(partition, lowest=3).look() == ["v2", "v4"]  # 3 may be in the segment from 2 on


def test_large_logs_are_read_in_pieces(partition: pathlib.Path) -> None:
    append(partition / NAME, b"".join(batch(n, b"v%d" % n * 30) for n in range(20)))
    with patch.object(kafka_dump, "PIECE_BYTES", 50), patch.object(followed, "MOST_MARKS", 3):
        assert len(Looks(partition).look()) == 20


def test_damage_is_an_error(partition: pathlib.Path) -> None:
    append(partition / NAME, batch(0) + b"\xff" * 40)
    with pytest.raises(KlogError, match="at byte 70"):
        Looks(partition).look()


# ---------------------------------------------------------------- waiting


@pytest.mark.parametrize("use_inotify", [True, False])
def test_a_change_is_waited_for(partition: pathlib.Path, use_inotify: bool) -> None:
    with closing(Changes(str(partition), use_inotify=use_inotify)) as waiting:
        assert waiting.by_inotify == (use_inotify and sys.platform == "linux")
        append(partition / NAME, b"x")
        assert waiting.wait()


@pytest.mark.parametrize("use_inotify", [True, False])
def test_a_reader_that_is_gone_ends_the_wait(partition: pathlib.Path, use_inotify: bool) -> None:
    reading, writing = os.pipe()
    with closing(Changes(str(partition), reader=writing, use_inotify=use_inotify)) as waiting:
        append(partition / NAME, b"x")
        assert waiting.wait()
        os.close(reading)
        assert not waiting.wait()
    os.close(writing)


def test_a_folder_that_cannot_be_watched_is_looked_at(partition: pathlib.Path) -> None:
    with closing(Changes(str(partition / "missing"))) as waiting, patch.object(followed, "POLL_MS", 1):
        assert not waiting.by_inotify
        assert waiting.wait()
