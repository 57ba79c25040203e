"""klogtool salvage on the command line: what it prints, writes, refuses, and its exit status."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest
from damage import flip_bit, zero_from
from running import FIXTURES, Done, run_here, tree_of

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
    assert done.out.endswith(
        b"Nothing was written. --output DIR writes the result, and the rejected bytes beside it.\n"
    )
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


def test_shallow_goes_by_headers_also_where_its_plan_is_carried_out(tmp_path: Path) -> None:
    shutil.copytree(FLIPPED.parent, tmp_path / "logs")
    done = run(tmp_path, "logs/flip-bit-0", "--shallow", "--plan-out", "plan.json")
    assert done.status == 1
    assert b"70 records in 29 batches are kept, by their headers" in done.out
    assert run_here(["apply", "plan.json"], tmp_path).status == 1
    assert run_here(["verify", "logs/flip-bit-0"], tmp_path).status == 0


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
        (["--rejected", "x"], 2, "--rejected needs --output"),
        (["--replica", "no-such-dir"], 2, "no such file or directory"),
        (["--replica", str(SOUND)], 3, "topic id"),
        (["--log-start-offset", "x"], 2, "not a 64-bit number"),
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
    assert run_here(["apply", "plan.json"], tmp_path).status == 1  # as its plan
    data = before[NAME]
    assert (damaged / NAME).read_bytes() == data[:182] + data[256:]
    assert run_here(["undo", "--journal", str(tmp_path / "logdir.klogtool")], tmp_path).status == 0
    assert {path.name: path.read_bytes() for path in damaged.iterdir()} == before


@pytest.mark.parametrize("name", ["out", "o u't", "out\x1b\udcff"])
def test_the_commands_put_the_result_in_place(name: str, tmp_path: Path) -> None:
    log_dir = tmp_path / "log dir"
    shutil.copytree(FLIPPED.parent, log_dir)
    done = run(tmp_path, log_dir / FLIPPED.name, "--output", tmp_path / name)
    told = done.out.decode().splitlines()
    at = told.index("To replace the damaged partition dir, while no broker runs here:")
    assert told[at - 1].startswith("The rejected bytes are in ")
    assert ".rejected: 1 file; manifest.json says" in told[at - 1]
    result = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
    for line in told[at + 1 : at + 3]:
        subprocess.run(["bash", "-c", line], check=True)
    placed = log_dir / FLIPPED.name
    assert {path.name: path.read_bytes() for path in placed.iterdir()} == result
    assert (tmp_path / "log dir.moved-out" / FLIPPED.name / NAME).read_bytes() == (FLIPPED / NAME).read_bytes()
    assert told[at + 3] == f"  klogtool verify '{log_dir}'  # before the broker starts"
    assert len(told) == at + 4


def test_the_commands_put_nothing_into_a_partition_that_is_still_there(tmp_path: Path) -> None:
    shutil.copytree(FLIPPED, tmp_path / "logs/flip-bit-0")
    told = run(tmp_path, tmp_path / "logs/flip-bit-0", "--output", tmp_path / "out").out.decode().splitlines()
    before = tree_of(tmp_path / "logs")
    subprocess.run(["bash", "-c", told[-2]], check=False, stderr=subprocess.DEVNULL)
    assert tree_of(tmp_path / "logs") == before


def test_json_says_where_the_rejected_bytes_are(tmp_path: Path) -> None:
    done = run(tmp_path, FLIPPED, "--output", "out", "--format", "json")
    written = json.loads(done.out.splitlines()[-1])
    assert written == {"type": "written", "path": f"{tmp_path}/out", "beside": [f"{tmp_path}/out.rejected"]}


def test_an_emptied_log_is_not_called_sound_above_what_it_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    log_dir = tmp_path / "logs"
    shutil.copytree(FLIPPED.parent, log_dir)
    (log_dir / "zero-tail-0/00000000000000000055.log").write_bytes(b"")
    told = run(tmp_path, log_dir / "zero-tail-0").out.decode()
    (line,) = [line for line in told.splitlines() if line.startswith("  00000000000000000055  ")]
    assert line.endswith("it is empty; offsets 55 to 56 are missing after it")
    assert "  00000000000000000050  503 bytes    keep  nothing is wrong with it" in told.splitlines()


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_tables_are_as_wide_as_the_terminal(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    log_dir = tmp_path / "logs"
    shutil.copytree(FLIPPED.parent, log_dir)
    (log_dir / "zero-tail-0/00000000000000000055.log").write_bytes(b"")
    told = run(tmp_path, log_dir / "zero-tail-0").out.decode().splitlines()
    tables = [line for line in told[2:] if line.startswith("  ") and "mv " not in line]
    assert max(map(len, tables)) <= columns
    assert max(map(len, tables)) > columns * 0.7
