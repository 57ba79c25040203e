"""append on the command line: words for people, statuses, mistakes, input of all kinds."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here

LOG_DIR = FIXTURES / "leader-epochs" / "logdir"
OTHER = FIXTURES / "transactions" / "logdir" / "t-0"
NOW = ["--now", "1700000000000"]
LINES = '{"key":"k","value":{"utf8":"v"}}\n' * 3


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "lines").write_text(LINES)
    return pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs"))


def plans(out: bytes) -> list[Any]:
    return [row for row in map(json.loads, out.splitlines()) if row["type"] == "plan"]


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        (["--records", "lines"], 0, "t-0: 1 append, offsets 78 to 80, 88 bytes; the log ends at offset 81"),
        (
            ["--records", "lines", "--batch-records", "1"],
            0,
            "t-0: 3 appends, offsets 78 to 80, 210 bytes; the log ends at offset 81",
        ),
        (
            ["--records", "lines", "--magic", "0"],
            0,
            "t-0: 1 append, offsets 78 to 80, 84 bytes; the log ends at offset 81",
        ),
        (["--batches", str(OTHER / f"{7:020d}.log")], 1, "t-0: 0 appends; 1 REFUSED; the log ends at offset 78"),
        (
            ["--records", "lines", "--config", "max.message.bytes=5"],
            1,
            "t-0: 0 appends; 1 REFUSED; the log ends at offset 78",
        ),
        (["--batches", "lines", "lines"], 1, "t-0: 0 appends; 2 REFUSED; the log ends at offset 78"),
    ],
)
def test_the_answer_comes_first(log_dir: pathlib.Path, given: list[str], status: int, told: str) -> None:
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    done = run_here(["append", "logs/t-0", *given, *NOW], log_dir.parent)
    assert (done.status, done.out.decode().splitlines()[0]) == (status, told)
    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ([], 2, "exactly one of"),
        (["--records", "lines", "--batches", "lines"], 2, "exactly one of"),
        (["--records", "lines", "lines"], 2, "takes only one file"),
        (["--batches", "lines", "--codec", "gzip"], 2, "--codec needs --records"),
        (["--records", "lines", "--fetch-bytes", "5"], 2, "--fetch-bytes needs --batches"),
        (["--requests", "lines", "--leader-epoch", "5"], 2, "--leader-epoch does not go with --requests"),
        (["--records", "lines", "--topic-id", "x"], 2, "--topic-id needs --create"),
        (["--records", "lines", "--magic", "1", "--codec", "zstd"], 2, "zstd does not exist for magic 1"),
        (["--records", "no-such-file"], 2, "no such file"),
        (["--requests", "lines"], 2, "line 1: not a call of append"),
        (["--batches", "-", "lines"], 2, "standard input must be the only input"),
        (["--records", "logs"], 4, "a folder, not a file"),
    ],
)
def test_mistakes_are_told_in_a_line(log_dir: pathlib.Path, given: list[str], status: int, told: str) -> None:
    done = run_here(["append", "logs/t-0", *given, *NOW], log_dir.parent)
    assert (done.status, done.out) == (status, b"")
    assert told in done.err.splitlines()[0]
    assert len(done.err.splitlines()) <= 2


def test_a_partition_comes_to_be_and_goes(log_dir: pathlib.Path) -> None:
    asked = ["append", "logs/new-0", "--records", "lines", *NOW]
    assert run_here(asked, log_dir.parent).status == 2
    done = run_here([*asked, "--create", "--apply"], log_dir.parent)
    assert done.status == 0, done.err
    assert (log_dir / "new-0" / "partition.metadata").read_text().startswith("version: 0\ntopic_id: ")
    assert run_here(["verify", "logs/new-0"], log_dir.parent).status == 0
    assert run_here([*asked, "--create", "--apply"], log_dir.parent).status == 0, "it is there now, and goes on"
    found = run_here(["read", "logs/new-0", "--offset", "0", "--max-bytes", "9999", "--format", "json"], log_dir.parent)
    assert found.status == 0
    for _ in range(2):
        assert run_here(["undo", "logs"], log_dir.parent).status == 0
    assert not (log_dir / "new-0").exists()


def test_the_topic_id_of_another_partition(log_dir: pathlib.Path) -> None:
    done = run_here(["append", "logs/t-7", "--records", "lines", "--create", "--output", "out", *NOW], log_dir.parent)
    assert done.status == 0, done.err
    written = (log_dir.parent / "out" / "partition.metadata").read_bytes()
    assert written == (log_dir / "t-0" / "partition.metadata").read_bytes()
    other = ["append", "logs/t-7", "--records", "lines", "--create", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", *NOW]
    assert run_here(other, log_dir.parent).status == 3


@pytest.mark.parametrize("name", ["noname", "t-0-delete", "a b-0", "no/such/t-0"])
def test_what_can_be_no_partition(log_dir: pathlib.Path, name: str) -> None:
    done = run_here(["append", f"logs/{name}", "--records", "lines", "--create", *NOW], log_dir.parent)
    assert done.status in (2, 3), done.err
    assert done.out == b""


def test_files_are_named_and_taken_by_fetches(log_dir: pathlib.Path) -> None:
    source = log_dir / "t-0" / f"{42:020d}.log"
    asked = ["append", "logs/t-9", "--create", "--batches", str(source), "--format", "json", *NOW]
    (whole,) = plans(run_here(asked, log_dir.parent).out)
    (parts,) = plans(run_here([*asked, "--fetch-bytes", "500"], log_dir.parent).out)
    (each,) = plans(run_here([*asked, "--fetch-bytes", "1"], log_dir.parent).out)
    sizes = [[row["valid_bytes"] for row in plan["answer"]["appends"]] for plan in (whole, parts, each)]
    assert [sum(told) for told in sizes] == [source.stat().st_size] * 3
    assert len(sizes[0]) == 1
    assert len(sizes[2]) > len(sizes[1]) > 1
    assert all(size <= 500 for size in sizes[1])
    assert all(row["file"] == str(source) for row in parts["answer"]["appends"])
    assert str(source) in [fact["path"] for fact in whole["facts"]]
