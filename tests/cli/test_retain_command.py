"""retain and delete-records from the command line: what is shown, written, refused."""

import json
import pathlib
import shutil

import pytest
from running import FIXTURES, run_here

import klogtool

LOGS = FIXTURES / "retention" / "logdir"
NOW = ["--now", "1700000300000"]
LOG_STARTS = "log-start-offset-checkpoint"
EXPIRED = ["--config", "retention.ms=1", "--config", "remote.storage.enable=false"]


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(LOGS, tmp_path / "logdir"))


def told(args: list[str], folder: pathlib.Path) -> tuple[int, str, str]:
    done = run_here(args, folder)
    return done.status, done.out.decode(), done.err


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_in_place_and_back(log_dir: pathlib.Path) -> None:
    before = files(log_dir)
    status, out, _ = told(["retain", str(log_dir), *EXPIRED, *NOW, "--apply"], log_dir.parent)
    assert (status, "inside-0: 3 of 3 segments go" in out) == (0, True)
    assert (log_dir / "inside-0" / f"{110:020d}.log").read_bytes() == b""
    assert (log_dir / LOG_STARTS).read_text() == "0\n0\n"
    assert told(["undo"], log_dir)[0] == 0
    (log_dir / ".lock").unlink(missing_ok=True)
    assert files(log_dir) == before


def test_a_whole_log_dir_elsewhere(log_dir: pathlib.Path) -> None:
    before, output = files(log_dir), log_dir.parent / "output"
    words = ["retain", str(log_dir), *EXPIRED, *NOW, "--purge", "--output", str(output)]
    assert told(words, log_dir.parent)[0] == 0
    assert files(log_dir) == before
    after = files(output)
    assert after[LOG_STARTS] == b"0\n0\n"
    assert [name for name in after if name.startswith("inside-0/") and name.endswith(".log")] == [
        f"inside-0/{110:020d}.log"
    ]


def test_json_has_every_segment_with_its_reason(log_dir: pathlib.Path) -> None:
    words = ["retain", str(log_dir / "time-0"), *NOW, "--format", "json"]
    head, plan = map(json.loads, told(words, log_dir)[1].splitlines())
    assert (head["command"], plan["type"], plan["answer"]["deletions"]) == ("retain", "plan", [])
    rows = plan["answer"]["kept"]
    assert [(row["segment"], row["reason"], row["held_by"]["offset"]) for row in rows] == [
        (60, "future", 69),
        (79, "future", 86),
    ]


def test_a_plan_is_saved_and_carried_out_with_the_settings_it_was_made_with(log_dir: pathlib.Path) -> None:
    settings = log_dir.parent / "topics"
    settings.write_text("[inside]\nretention.ms=1\n[*]\nretention.ms=-1\n")
    plan = log_dir.parent / "plan"
    words = ["retain", str(log_dir), "--config-file", str(settings), *NOW, "--plan-out", str(plan)]
    status, out, _ = told(words, log_dir.parent)
    assert status == 0
    assert "retention.ms: 1, by --config-file" in out
    settings.unlink()
    assert told(["apply", str(plan)], log_dir.parent)[0] == 0
    assert [path.name for path in (log_dir / "inside-0").glob("*.log")] == [f"{110:020d}.log"]
    assert len(list((log_dir / "start-0").glob("*.log"))) == 2


@pytest.mark.parametrize(
    ("before", "status", "line"),
    [
        ("60", 0, "inside-0: the log starts at offset 60, not at 3; 1 segment deleted"),
        ("3", 0, "inside-0: the log starts at offset 3 already"),
        ("-1", 0, "inside-0: the log starts at offset 110, not at 3; 2 segments deleted"),
        ("111", 3, "larger than the high watermark 110"),
        ("-7", 3, "The offset -7 for partition inside-0 is not valid"),
        ("many", 2, "'many' is not a 64-bit number."),
    ],
)
def test_delete_records_says_where_the_log_begins(log_dir: pathlib.Path, before: str, status: int, line: str) -> None:
    found, out, err = told(["delete-records", str(log_dir / "inside-0"), "--before", before], log_dir)
    assert found == status
    assert line in (err if status else out)
    assert len(err.splitlines()) <= 2


def test_from_python(log_dir: pathlib.Path) -> None:
    partition = klogtool.open(log_dir / "inside-0")
    assert isinstance(partition, klogtool.Partition)
    planned = partition.plan_delete_records(now_ms=1_700_000_300_000, before=60)
    assert planned.answers[0]["moved"] is True
    planned.apply(now_ms=1_700_000_300_000)
    assert "inside 0 60" in (log_dir / LOG_STARTS).read_text()
    opened = klogtool.open(log_dir)
    assert isinstance(opened, klogtool.LogDir)
    answers = opened.plan_retain(now_ms=1_700_000_300_000, config={"retention.ms": "1"}).answers
    assert next(answer["deletions"] for answer in answers if "deletions" in answer) == [
        {"segment": 34, "reason": "time"},
        {"segment": 81, "reason": "time"},
    ]


def test_a_saved_plan_is_refused_where_the_cluster_says_otherwise_now(tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logdir"))
    words = ["retain", str(log_dir / "topic-0-0"), "--config", "cleanup.policy=delete", "--now", "2030-01-01"]
    status, out, _ = told([*words, "--plan-out", str(tmp_path / "plan")], tmp_path)
    assert (status, "retention.ms: 3600000000, by __cluster_metadata" in out) == (0, True)
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    before = files(log_dir)
    assert told(["apply", str(tmp_path / "plan")], tmp_path)[0] == 3
    (log_dir / ".lock").unlink(missing_ok=True)
    assert files(log_dir) == before
