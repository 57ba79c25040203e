"""Whatever lies in a partition dir, lookup and read answer or say so in a line: no traceback, bounded memory."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from importlib.util import find_spec
from typing import Any

import pytest
from bad_input import FILES_OF_A_PARTITION, MEMORY_BYTES, garbage_for, writable_copy
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart, run_here, with_memory, without_power_over_files
from sparse_logs import make_sparse_log

QUESTIONS = {
    "lookup": ["lookup", "--offset", "30", "--timestamp", "1700000050000", "--timestamp", "max", "--leader-epoch", "0"],
    "explained": ["lookup", "--explain", "--offset", "12", "--offset", "61", "--timestamp", "0"],
    "read": ["read", "--offset", "20", "--isolation", "read_committed", "--records", "--committed-only"],
    "raw": ["read", "--offset", "20", "--raw", "-"],
    "txns": ["txns"],
    "hash": ["hash"],
}
Path = pathlib.Path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """As after a clean stop, so that nothing is mended before it is looked at."""
    return writable_copy("transactions/logdir/t-0", tmp_path / "t-0")


def asked(partition: Path, words: list[str], *expected: int) -> Done:
    """In a process with little memory; answered, or told in klogtool's name."""
    done = run_apart(*words, partition, "--last-stop", "clean", before=with_memory(MEMORY_BYTES))
    assert "Traceback" not in done.err
    assert done.status in (expected or (0, 1))
    assert done.status == 0 or "klogtool: " in done.err
    return done


def answers(done: Done) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in done.out.splitlines()]
    return [row for row in rows if row["type"] == "answer"]


@pytest.mark.slow
@pytest.mark.parametrize("way", QUESTIONS)
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_garbage_in_a_file(partition: Path, name: str, way: str) -> None:
    for data in garbage_for(partition / name):
        (partition / name).write_bytes(data)
        asked(partition, QUESTIONS[way])


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_garbage_in_a_file_that_is_exported(partition: Path, tmp_path: Path, name: str) -> None:
    for n, data in enumerate(garbage_for(partition / name)):
        (partition / name).write_bytes(data)
        done = run_here(["export", str(partition), "--output", str(tmp_path / f"out{n}")], tmp_path)
        assert "Traceback" not in done.err
        assert done.status in (0, 1, 4)
        assert done.status == 0 or "klogtool: " in done.err or b"  left out: " in done.out


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_a_file_that_is_gone_or_a_folder(partition: Path, name: str) -> None:
    (partition / name).unlink(missing_ok=True)
    asked(partition, QUESTIONS["explained"])
    (partition / name).mkdir()
    asked(partition, QUESTIONS["explained"], 0, 1, 4)


@pytest.mark.parametrize("way", QUESTIONS)
def test_a_file_that_may_not_be_read(partition: Path, way: str) -> None:
    path = partition / f"{7:020d}.log"
    path.chmod(0)
    done = run_apart(*QUESTIONS[way], partition, before=without_power_over_files)
    assert (done.status, "Traceback" in done.err) == (4, False)
    assert f"klogtool: {path}: permission denied" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("way", ["lookup", "read"])
def test_what_is_no_partition_dir(tmp_path: Path, way: str) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / f"{0:020d}.log"
    os.mkfifo(fifo)
    file.write_bytes(b"")
    for path in (fifo, file, tmp_path / "none", FIXTURES / "transactions/logdir"):
        asked(path, QUESTIONS[way], 2, 4)


def test_each_answer_that_is_refused_has_its_error_and_the_others_go_on(partition: Path) -> None:
    words = ["lookup", "--offset", "5", "--offset", "99", "--leader-epoch", "0", "--offset", "-3", "--timestamp", "max"]
    done = run_apart(*words, partition, "--format", "json")
    found = answers(done)
    assert [row.get("error", {}).get("class") for row in found] == [
        None,
        "OffsetOutOfRangeException",
        None,
        "OffsetOutOfRangeException",
        None,
    ]
    assert [row.get("offset", row.get("leader_epoch", row.get("timestamp"))) for row in found] == [5, 99, 0, -3, "max"]
    assert (done.status, done.err) == (1, "")


@pytest.mark.slow
def test_a_partition_that_a_broker_refuses_to_load(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\nmany\n")
    for words in (["lookup", "--offset", "5", "--offset", "6"], ["read", "--offset", "5"]):
        done = run_apart(*words, partition, "--format", "json")
        found = answers(done)
        assert len(found) == len(words) // 2
        assert all("class" in row["error"] for row in found)
        assert (done.status, done.err) == (1, "")


def test_a_reader_of_raw_bytes_that_goes_away(tmp_path: Path) -> None:
    make_sparse_log(tmp_path / "t-0", size=64 << 20, batch_bytes=1 << 20)
    words = ["read", str(tmp_path / "t-0"), "--offset", "0", "--max-bytes", str(1 << 30), "--raw", "-"]
    process = subprocess.Popen([*KLOGTOOL, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    assert process.wait(60) == 141
    assert told.count(b"\n") == told.count(b"the log is damaged at its end") == 1


@pytest.mark.slow
def test_raw_bytes_go_through_little_memory(tmp_path: Path) -> None:
    make_sparse_log(tmp_path / "t-0", size=1 << 30, batch_bytes=8 << 20)
    words = ["read", tmp_path / "t-0", "--offset", "0", "--max-bytes", str(2**31 - 1), "--format", "json"]
    done = run_apart(*words, "--raw", tmp_path / "raw", before=with_memory(512 << 20))
    assert done.status == 0
    assert done.err.count("\n") == done.err.count("the log is damaged at its end") == 1
    assert (tmp_path / "raw").stat().st_size == 1 << 30 == answers(done)[0]["size"]


@pytest.mark.slow
def test_where_raw_bytes_cannot_go(partition: Path, tmp_path: Path) -> None:
    words = ["read", "--offset", "5", "--raw"]
    (tmp_path / "there").write_bytes(b"mine")
    asked(partition, [*words, str(tmp_path / "there")], 3)
    assert (tmp_path / "there").read_bytes() == b"mine"
    asked(partition, [*words, str(tmp_path / "no" / "folder")], 2)
    asked(partition, [*words, "/dev/full"], 4)
    asked(partition, [*words, "/dev/null"], 0)
    left = [path.name for path in tmp_path.iterdir()]
    assert sorted(left) == ["t-0", "there"]


@pytest.mark.slow
def test_a_refused_read_leaves_no_file_but_an_envelope_says_why(partition: Path, tmp_path: Path) -> None:
    words = ["read", "--offset", "99", "--raw", str(tmp_path / "raw")]
    asked(partition, words, 1)
    assert not (tmp_path / "raw").exists()
    asked(partition, [*words, "--framing", "message-set"], 1)
    assert (tmp_path / "raw").read_bytes() == bytes.fromhex("00000002" + "0001")


@pytest.mark.slow
def test_the_envelopes_of_old_responses(partition: Path, tmp_path: Path) -> None:
    sizes = [run_apart("read", partition, "--offset", n, "--max-bytes", "300", "--raw", "-").out for n in ("0", "40")]
    words = ["read", "--offset", "0", "--offset", "40", "--max-bytes", "300", "--raw", str(tmp_path / "raw")]
    asked(partition, [*words, "--framing", "multi"])
    one, two = (len(data).to_bytes(4, "big") for data in (b"xx" + sizes[0], b"xx" + sizes[1]))
    whole = 2 + 6 + len(sizes[0]) + 6 + len(sizes[1])
    expected = whole.to_bytes(4, "big") + bytes(2) + one + bytes(2) + sizes[0] + two + bytes(2) + sizes[1]
    assert (tmp_path / "raw").read_bytes() == expected
    assert len(sizes[0]) == 300
