"""klogtool diff and klogtool hash on the command line: what they print, and their exit statuses."""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from copying import Copy, random_records, write_copy
from running import FIXTURES, ROOT, run_apart, run_here, without_power_over_files

Path = pathlib.Path
SOUND = FIXTURES / "every-codec/logdir/append-4"
DAMAGED = FIXTURES / "killed-mid-append/logdir/flip-bit-0"


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    """t-0 is equal, t-1 diverges at offset 20, t-2 is in A alone, u-0 in B alone."""
    for name in "ab":
        rng = random.Random(1)
        records = random_records(rng, 30)
        Copy(records, rng).write(tmp_path / name / "t-0")
        more = records[:20] + random_records(random.Random(name), 10, 20)
        Copy(more, random.Random(2), ((0, 0), (ord(name), 20))).write(tmp_path / name / "t-1")
    Copy(random_records(random.Random(3), 3), random.Random(3)).write(tmp_path / "a/t-2")
    Copy(random_records(random.Random(3), 3), random.Random(3)).write(tmp_path / "b/u-0")
    return tmp_path / "a", tmp_path / "b"


def test_two_log_dirs(log_dirs: tuple[Path, Path]) -> None:
    done = run_here(["diff", *map(str, log_dirs)], ROOT)
    lines = done.told.splitlines() if done.status != 1 else done.out.decode().splitlines()
    assert done.status == 1
    assert lines[0] == "t-1: diverge at offset 20: leader epoch 97 in A, leader epoch 98 in B"
    assert "  B is the better leader: it has the later leader epoch" in lines
    assert "  if B leads, A truncates to offset 20, and loses 10 offsets" in lines
    assert lines[-3:-1] == ["t-2: only in A", "u-0: only in B"]
    assert lines[-1] == "4 partitions: 1 equal, 1 diverge, 1 only-in-a, 1 only-in-b"
    assert not any(line.startswith("t-0") for line in lines)
    assert run_here(["diff", "-v", *map(str, log_dirs)], ROOT).out.startswith(b"t-0: equal\n")


def test_rows_of_two_log_dirs(log_dirs: tuple[Path, Path]) -> None:
    done = run_here(["diff", *map(str, log_dirs), "--format", "json", "--deep"], ROOT)
    first, *rows = map(json.loads, done.out.splitlines())
    assert (first["type"], first["command"]) == ("klogtool", "diff")
    assert [(row["type"], row["verdict"]) for row in rows] == [
        ("answer", verdict) for verdict in ("equal", "diverge", "only-in-a", "only-in-b")
    ]
    assert (rows[1]["offset"], rows[1]["leader"], rows[1]["deep"]) == (20, "b", True)
    assert (rows[1]["a"]["leader_epoch"], rows[1]["a"]["truncates_to"], rows[1]["a"]["loses"]) == (97, 20, 10)


def test_statuses() -> None:
    assert run_here(["diff", str(SOUND), str(SOUND)], ROOT).status == 0
    assert run_here(["diff", str(DAMAGED), str(DAMAGED)], ROOT).status in (0, 1)
    assert run_here(["diff", str(SOUND), str(SOUND / "nothing")], ROOT).status == 2
    assert run_here(["diff", str(SOUND)], ROOT).status == 2
    assert run_here(["diff", str(SOUND), str(SOUND.parent)], ROOT).status == 2
    assert run_here(["diff", str(SOUND), str(next(SOUND.glob("*.log")))], ROOT).status == 4
    assert run_here(["hash", str(SOUND), str(DAMAGED)], ROOT).status == 1
    assert run_here(["hash", str(SOUND / "nothing")], ROOT).status == 2


def test_a_copy_that_may_not_be_read(tmp_path: Path) -> None:
    for name in "ab":
        shutil.copytree(SOUND, tmp_path / name / "t-0")
        shutil.copytree(SOUND, tmp_path / name / "t-1")
    next((tmp_path / "b/t-0").glob("*.log")).chmod(0)
    done = run_apart("diff", tmp_path / "a", tmp_path / "b", "--format", "json", before=without_power_over_files)
    assert done.status == 4
    assert "permission denied" in done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row.get("verdict") for row in rows[1:]] == [None, "equal"]
    alone = run_apart("diff", tmp_path / "a/t-0", tmp_path / "b/t-0", before=without_power_over_files)
    assert (alone.status, alone.out) == (4, b"")
    hashed = run_apart("hash", tmp_path / "b", before=without_power_over_files)
    assert hashed.status == 4
    assert b"no digest" in hashed.out


def test_names_with_spaces_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = [b"".join(Copy(random_records(random.Random(1), 5), random.Random(1)).batches())]
    names = [tmp_path / "a b" / "t-0", tmp_path / "x\udcff\n" / "t-0"]
    for name in names:
        write_copy(name, log)
    for command in (["diff", *names], ["hash", *names], ["diff", *(name.parent for name in names)]):
        done = run_apart(*command)
        assert (done.status, done.err) == (0, "")


def test_copies_with_different_ends_are_told_how_to_be_compared(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = random_records(rng, 40)
    a = Copy(records, rng).write(tmp_path / "a/t-0")
    b = Copy(records[:30], rng).write(tmp_path / "b/t-0")
    done = run_here(["hash", str(a), str(b)], ROOT)
    assert done.err.endswith("Compare what they have in common: --from 0 --to 30\n")
    first, second = run_here(["hash", str(a), str(b), "--to", "30"], ROOT).out.decode().splitlines()
    assert first.split()[0] == second.split()[0]
    assert run_here(["hash", "-q", str(a), str(b)], ROOT).err == ""
