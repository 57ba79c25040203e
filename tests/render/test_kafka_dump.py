"""One file after another: which is what by its suffix, headings, reports, and where Kafka's tool would have ended."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import pytest
from readers import Reader
from running import FIXTURES
from vectors import BATCH, BATCH_GZIP, BATCH_WITH_HEADERS, KRAFT_FOOTER, KRAFT_HEADER

from klogtool.errors import KlogError
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions, java_path
from klogtool.render.selection import Selection

STEM = "00000000000000000000"
SNAPSHOT = FIXTURES / "transactions/logdir/t-0"


class Dumped:
    """A dump of files of a folder: what it printed, complained of and found."""

    def __init__(self, folder: pathlib.Path, *names: str, **how: Any) -> None:
        given = {name: how.pop(name) for name in list(how) if name not in ("selection", "go_on", "jobs")}
        out = bytearray()
        self.complaints: list[str] = []
        dump = KafkaDump(KafkaOptions(KafkaArguments(**given)), out.extend, self.complaints.append, **how)
        self.error: KlogError | None = None
        try:
            for name in names:
                dump.file(str(folder / name))
        except KlogError as error:
            self.error = error
        self.text = out.decode("utf-8", "surrogateescape").replace(f"{folder}/", "")
        self.lines = self.text.splitlines()
        self.reports = [line.replace(f"{folder}/", "") for line in dump.reports.lines()]
        self.damaged = dump.damaged


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / f"{STEM}.log").write_bytes(BATCH.data + BATCH_WITH_HEADERS.data)
    return tmp_path


def write(folder: pathlib.Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return name


# ---------------------------------------------------------------- which file is what


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("00000000000000000000.log", "Log starting offset: 0"),
        ("00000000000000012345.log", "Log starting offset: 12345"),
        ("7.log", "Log starting offset: 7"),
        ("+7.log", "Log starting offset: 7"),
        ("-7.log", "Log starting offset: -7"),
        ("7.5.log", "Log starting offset: 7"),
        ("00000000000000000005-0000000003.checkpoint", "Snapshot end offset: 5, epoch: 3"),
        ("bootstrap.checkpoint", "KRaft bootstrap snapshot"),
    ],
)
def test_headings(tmp_path: pathlib.Path, reader: Reader, name: str, heading: str) -> None:
    write(tmp_path, name, KRAFT_HEADER.data + KRAFT_FOOTER.data)
    with reader.reading():
        done = Dumped(tmp_path, name)
    assert done.lines[:2] == [f"Dumping {name}", heading]
    assert (len(done.lines), done.error, done.damaged) == (4, None, False)


@pytest.mark.parametrize("name", ["word.log", ".log", "99999999999999999999.log", "5-1.checkpoint", "x.checkpoint"])
def test_names_that_end_the_dump(folder: pathlib.Path, name: str) -> None:
    write(folder, name, BATCH.data)
    done = Dumped(folder, name, f"{STEM}.log")
    assert done.lines == [f"Dumping {name}"]
    assert done.error is not None
    assert done.error.path == str(folder / name)


@pytest.mark.parametrize(
    "name", [f"{STEM}.log.deleted", f"{STEM}.log.swap", "meta.properties", "word", "LOG.LOG", "a."]
)
def test_what_it_does_not_know_is_passed_over(folder: pathlib.Path, name: str) -> None:
    write(folder, name, BATCH.data)
    done = Dumped(folder, name, f"{STEM}.log")
    assert done.lines[:2] == [f"Dumping {name}", f"Dumping {STEM}.log"]
    assert done.complaints == [f"Ignoring unknown file {folder / name}"]
    assert (done.error, done.damaged) == (None, False)


def test_a_name_that_is_no_text(tmp_path: pathlib.Path) -> None:
    name = os.fsdecode(b"\xff.5.log")
    write(tmp_path, name, BATCH.data)
    assert Dumped(tmp_path, name).lines == [f"Dumping {name}"]


# ---------------------------------------------------------------- logs


def test_shallow_deep_and_with_data(folder: pathlib.Path, reader: Reader) -> None:
    with reader.reading():
        shallow, deep = Dumped(folder, f"{STEM}.log"), Dumped(folder, f"{STEM}.log", deep_iteration=True)
        data = Dumped(folder, f"{STEM}.log", print_data_log=True)
    assert (len(shallow.lines), len(deep.lines), len(data.lines)) == (4, 8, 8)
    assert deep.lines[3].endswith(" headerKeys: []")
    assert data.lines[3].endswith(" headerKeys: [] key: k0 payload: v0")
    assert (shallow.reports, deep.reports) == (
        [],
        [f"Non-consecutive offsets in {STEM}.log", "  1 is followed by 20"],
    )


def test_bytes_behind_the_last_batch_are_told_twice(folder: pathlib.Path) -> None:
    """Once in Kafka's words, and once as an error of klogtool's with its position."""
    path = folder / f"{STEM}.log"
    path.write_bytes(BATCH.data + BATCH_GZIP.data[:-1])
    done = Dumped(folder, f"{STEM}.log")
    assert done.lines[-1] == f"Found 102 invalid bytes at the end of {STEM}.log"
    assert done.complaints == [f"klogtool: {path}: at byte 81: 102 bytes at the end are not a whole batch"]
    assert (done.error, done.damaged) == (None, True)


@pytest.mark.parametrize(
    ("max_bytes", "batches"), [("0", 0), ("80", 0), ("81", 1), ("166", 1), ("167", 2), ("1000", 2)]
)
def test_max_bytes_cuts_between_batches_and_says_nothing(folder: pathlib.Path, max_bytes: str, batches: int) -> None:
    done = Dumped(folder, f"{STEM}.log", max_bytes=(max_bytes,))
    assert (len(done.lines) - 2, done.error, done.damaged, done.complaints) == (batches, None, False, [])


def test_wrong_checksums_are_told_with_the_first_position(folder: pathlib.Path) -> None:
    path = folder / f"{STEM}.log"
    bad = BATCH.data[:-3] + b"\0\0\0"
    path.write_bytes(BATCH.data + bad)
    assert Dumped(folder, f"{STEM}.log").complaints == [
        f"klogtool: {path}: at byte 81: a batch does not match the checksum"
    ]
    path.write_bytes(BATCH.data + bad * 3)
    assert Dumped(folder, f"{STEM}.log").complaints == [
        f"klogtool: {path}: at byte 81: 3 batches, this first, do not match the checksum"
    ]


def test_where_a_dump_dies_gaps_and_checksums_so_far_are_told(folder: pathlib.Path) -> None:
    (folder / f"{STEM}.log").write_bytes(BATCH_WITH_HEADERS.data[:-1] + b"\1" + bytes(18))
    done = Dumped(folder, f"{STEM}.log")
    assert done.error is not None
    assert done.error.position == 86
    assert (len(done.complaints), done.damaged) == (1, True)


def test_a_log_larger_than_a_segment_can_be(folder: pathlib.Path) -> None:
    os.truncate(folder / f"{STEM}.log", 2**31)
    done = Dumped(folder, f"{STEM}.log")
    assert done.lines == [f"Dumping {STEM}.log", "Log starting offset: 0"]
    assert done.error is not None
    assert "more than a segment can have" in done.error.reason


def test_going_on_behind_damage(folder: pathlib.Path, reader: Reader) -> None:
    path = folder / f"{STEM}.log"
    path.write_bytes(BATCH.data + bytes(40) + BATCH_WITH_HEADERS.data + b"tail")
    with reader.reading():
        done = Dumped(folder, f"{STEM}.log", deep_iteration=True, go_on=True)
    assert (len(done.lines), done.error, done.damaged) == (9, None, True)
    assert done.lines[-1] == f"Found 4 invalid bytes at the end of {STEM}.log"
    assert f"klogtool: {path}: at byte 81: 40 bytes are not a batch: skipped" in done.complaints


def test_a_selection_reports_no_gaps(folder: pathlib.Path) -> None:
    done = Dumped(folder, f"{STEM}.log", deep_iteration=True, selection=Selection(offsets=(20, 20)))
    assert [line.split()[2] for line in done.lines if line.startswith("| ")] == ["20"]
    assert done.reports == []


def test_a_file_dumped_twice_reports_once(folder: pathlib.Path) -> None:
    done = Dumped(folder, *[f"{STEM}.log"] * 2, deep_iteration=True)
    assert done.text.count("Dumping") == 2
    assert len(done.reports) == 2


def test_reports_are_in_order_of_path(folder: pathlib.Path) -> None:
    names = [write(folder, f"{n:020d}.log", BATCH_WITH_HEADERS.data) for n in (30, 10, 20)]
    done = Dumped(folder, *names, deep_iteration=True)
    assert done.reports == [
        line for name in sorted(names) for line in (f"Non-consecutive offsets in {name}", "  -1 is followed by 20")
    ]


# ---------------------------------------------------------------- what lies beside a log


def test_an_index_needs_its_log(tmp_path: pathlib.Path) -> None:
    for suffix in (".index", ".timeindex"):
        write(tmp_path, STEM + suffix, bytes(24))
        done = Dumped(tmp_path, STEM + suffix)
        assert done.lines == [f"Dumping {STEM}{suffix}"]
        assert done.error is not None
        assert (done.error.kafka_class, done.error.path) == ("NoSuchFileException", str(tmp_path / (STEM + suffix)))
        assert f"without {STEM}.log" in done.error.reason


def test_a_time_index_needs_its_index_and_makes_none(folder: pathlib.Path) -> None:
    """Kafka's tool leaves an empty `.index` behind, which a broker then trusts."""
    write(folder, f"{STEM}.timeindex", bytes(24))
    done = Dumped(folder, f"{STEM}.timeindex")
    assert done.error is not None
    assert sorted(os.listdir(folder)) == [f"{STEM}.log", f"{STEM}.timeindex"]


@pytest.mark.parametrize("name", ["word.index", "word.timeindex", "word.txnindex", "99999999999999999999.txnindex"])
def test_names_that_are_no_offsets(folder: pathlib.Path, name: str) -> None:
    write(folder, name, b"")
    write(folder, "word.log", b"")
    done = Dumped(folder, name)
    assert (done.lines, done.error and done.error.kafka_class) == ([f"Dumping {name}"], "NumberFormatException")


def test_a_transaction_index(folder: pathlib.Path) -> None:
    entry = "0000 0000000000000032 000000000000000e 0000000000000010 000000000000000f"
    write(folder, f"{STEM}.txnindex", bytes.fromhex(entry) * 2 + b"tail")
    line = "version: 0 producerId: 50 firstOffset: 14 lastOffset: 16 lastStableOffset: 15"
    assert Dumped(folder, f"{STEM}.txnindex").lines[1:] == [line, line]


def test_a_transaction_index_that_is_not_there_prints_nothing(folder: pathlib.Path) -> None:
    done = Dumped(folder, f"{STEM}.txnindex")
    assert (done.lines, done.error) == ([f"Dumping {STEM}.txnindex"], None)


def test_a_transaction_index_of_another_version(folder: pathlib.Path) -> None:
    write(folder, f"{STEM}.txnindex", bytes.fromhex("0100") + bytes(32))
    done = Dumped(folder, f"{STEM}.txnindex")
    assert (done.lines, done.error and done.error.kafka_class) == ([f"Dumping {STEM}.txnindex"], "KafkaException")


def test_a_producer_snapshot_and_a_corrupt_one(folder: pathlib.Path) -> None:
    """Kafka's words go to stderr, and the next file has its turn."""
    sound = next(SNAPSHOT.glob("*.snapshot"))
    shutil.copy(sound, folder / "00000000000000000007.snapshot")
    write(folder, "00000000000000000008.snapshot", sound.read_bytes()[:-1] + b"?")
    done = Dumped(folder, "00000000000000000008.snapshot", "00000000000000000007.snapshot")
    assert done.lines[:2] == ["Dumping 00000000000000000008.snapshot", "Dumping 00000000000000000007.snapshot"]
    assert done.lines[2].startswith("producerId: ")
    assert (done.error, done.damaged, len(done.complaints)) == (None, True, 1)
    assert "Snapshot is corrupt (CRC is no longer valid)" in done.complaints[0]


def test_files_after_one_that_ends_the_dump_are_not_looked_at(folder: pathlib.Path) -> None:
    write(folder, "word.log", b"")
    done = Dumped(folder, f"{STEM}.log", "word.log", f"{STEM}.log")
    assert (done.text.count("Dumping"), len(done.lines)) == (2, 5)


def test_progress_is_told_in_bytes(folder: pathlib.Path, reader: Reader) -> None:
    told: list[int] = []
    dump = KafkaDump(KafkaOptions(KafkaArguments()), lambda _: None, lambda _: None)
    dump.on_progress = told.append
    with reader.reading():
        dump.file(str(folder / f"{STEM}.log"))
    assert sum(told) == len(BATCH.data + BATCH_WITH_HEADERS.data)


def test_paths_as_java_keeps_them() -> None:
    paths = {"a//b///c/": "a/b/c", "/": "/", "//": "/", "": "", "a": "a", "./a/": "./a"}
    assert {path: java_path(path) for path in paths} == paths
