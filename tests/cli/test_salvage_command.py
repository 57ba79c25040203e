"""klogtool salvage on the command line: what it prints, writes, refuses, and its exit status."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
from damage import flip_bit, zero_from
from running import FIXTURES, Done, run_here

Path = pathlib.Path
FLIPPED = FIXTURES / "killed-mid-append/logdir/flip-bit-0"
SOUND = FIXTURES / "leader-epochs/logdir/t-0"
NAME = "00000000000000000045.log"


def run(folder: Path, *args: object) -> Done:
    return run_here(["salvage", *map(str, args)], folder)


def answer_of(done: Done) -> dict[str, object]:
    head, plan, *_ = [json.loads(line) for line in done.out.splitlines()]
    assert (head["command"], plan["type"]) == ("salvage", "plan")
    return dict(plan["answer"])


def test_the_plan_is_shown_and_nothing_is_written(klogtool: Callable[..., Done], tmp_path: Path) -> None:
    done = klogtool("salvage", FLIPPED)
    assert done.status == 1
    assert b"70 records in 29 batches are kept; 1 offset lost." in done.out
    assert done.out.endswith(b"Nothing was written: --output DIR writes the result, and what is rejected beside it.\n")
    assert b"Nothing was written" not in klogtool("salvage", FLIPPED, "-q").out


def test_output_has_the_result_and_rejected_bytes_lie_beside(tmp_path: Path) -> None:
    done = run(tmp_path, FLIPPED, "--output", "flip-bit-0")
    assert (done.status, done.told) == (1, "")
    assert b"Done: flip-bit-0" in done.out
    rejected = tmp_path / "flip-bit-0.rejected"
    data = (FLIPPED / NAME).read_bytes()
    assert (tmp_path / "flip-bit-0" / NAME).read_bytes() == data[:182] + data[256:]
    (row,) = json.loads((rejected / "manifest.json").read_text())["ranges"]
    assert (rejected / row["bytes"]).read_bytes() == data[182:256]
    assert run(tmp_path, "flip-bit-0").status == 0


def test_rejected_bytes_go_where_they_are_sent(tmp_path: Path) -> None:
    assert run(tmp_path, FLIPPED, "--output", "flip-bit-0", "--rejected", "bad").status == 1
    assert {path.name for path in tmp_path.iterdir()} == {"flip-bit-0", "bad"}


def test_where_nothing_is_rejected_there_is_no_folder_for_it(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND, "--output", "t-0", "--format", "json")
    assert (done.status, answer_of(done)["lost"]) == (0, [])
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


@pytest.mark.parametrize("suffix", [".snapshot", ".log", ".index"])
def test_a_folder_that_has_a_files_name_is_not_in_the_results_way(tmp_path: Path, suffix: str) -> None:
    partition = Path(shutil.copytree(SOUND, tmp_path / "t-0"))
    names = sorted(path.name for path in partition.glob(f"*{suffix}"))
    doomed = partition / names[-1]
    if suffix == ".log":
        doomed = partition / "00000000000000099999.log"
    else:
        doomed.unlink()
    (doomed / "inner").mkdir(parents=True)
    done = run(tmp_path, partition, "--output", "out")
    assert done.status == 0, done.told
    logs = {path.name for path in (tmp_path / "out").glob("*.log") if path.is_file()}
    assert logs == {path.name for path in SOUND.glob("*.log")}
    assert (tmp_path / "out" / names[-1]).is_file()


def test_a_log_dir_is_no_place_for_rejected_bytes(tmp_path: Path) -> None:
    log_dir = Path(shutil.copytree(FIXTURES / "two-disks/logdir/d1", tmp_path / "logdir"))
    for args in (["--output", log_dir / "flip-bit-0"], ["--output", "out", "--rejected", log_dir / "bad-0"]):
        before = sorted(tmp_path.rglob("*"))
        done = run(tmp_path, FLIPPED, *args)
        assert done.status == 3
        assert "no place for rejected bytes" in done.told.replace("\n", " ") or "log dir" in done.told
        assert sorted(tmp_path.rglob("*")) == before
    assert run(tmp_path, FLIPPED, "--output", log_dir / "flip-bit-0", "--rejected", "bad").status == 1


def test_an_output_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_bytes(b"")
    assert run(tmp_path, FLIPPED, "--output", "out").status == 3
    assert run(tmp_path, FLIPPED, "--output", "new", "--rejected", "out").status == 3
    assert not (tmp_path / "new").exists()


def test_replicas_in_their_order(tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(SOUND, tmp_path / "t-0"))
    log = damaged / f"{0:020d}.log"
    flip_bit(log, 1400)
    zero_from(damaged / f"{42:020d}.log", 0)
    done = run(tmp_path, "t-0", "--replica", "t-0", "--replica", SOUND, "--output", "new/t-0", "--format", "json")
    assert done.status == 2  # no folder for the output
    done = run(tmp_path, "t-0", "--replica", "t-0", "--replica", SOUND, "--output", "new", "--format", "json")
    answer = answer_of(done)
    assert (done.status, answer["lost"]) == (0, [])
    assert {part["from"] for part in answer["filled"]} == {str(SOUND)}  # type: ignore[attr-defined]
    for path in SOUND.glob("*.log"):
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("args", "status", "told"),
    [
        (["--apply"], 2, "does not work in place"),
        (["--rejected", "x"], 2, "--rejected goes with --output"),
        (["--replica", "no-such-dir"], 2, "no such file or directory"),
        (["--replica", str(SOUND)], 3, "topic id"),
        (["--log-start-offset", "x"], 2, "no number of 64 bits"),
    ],
)
def test_what_is_not_done(tmp_path: Path, args: list[str], status: int, told: str) -> None:
    done = run(tmp_path, FLIPPED, *args)
    assert (done.status, told in done.told) == (status, True)
    assert "Traceback" not in done.err
    assert run(tmp_path, "no-such-dir").status == 2


def test_a_saved_plan_is_carried_out_in_place_and_taken_back(tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(FLIPPED, tmp_path / "logdir" / "flip-bit-0"))
    before = {path.name: path.read_bytes() for path in damaged.iterdir()}
    assert run(tmp_path, damaged, "--plan-out", "plan.json").status == 1
    assert run_here(["apply", "plan.json"], tmp_path).status == 0
    data = before[NAME]
    assert (damaged / NAME).read_bytes() == data[:182] + data[256:]
    assert run_here(["undo", "--journal", str(tmp_path / "logdir.klogtool")], tmp_path).status == 0
    assert {path.name: path.read_bytes() for path in damaged.iterdir()} == before
