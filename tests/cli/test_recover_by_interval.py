"""`recover` where nobody says `index.interval.bytes`: it says nothing for certain that another value makes untrue."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from typing import Any

import pytest
from damage import frames_of
from running import FIXTURES, Done, run_here
from working import NOW_MS

BASE, END = 38, 62  # of the active segment of t-0
LOG, INDEX = (f"{BASE:020d}.{kind}" for kind in ("log", "index"))
INTERVALS = (0, 50, 200, 1000, 4096, 1 << 30)


def put(tmp_path: pathlib.Path) -> pathlib.Path:
    """t-0 after a kill, in a log dir without the cluster's metadata."""
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logs"))
    (log_dir / ".kafka_cleanshutdown").unlink()
    return log_dir / "t-0"


def reorder(log: pathlib.Path, rng: random.Random) -> None:
    """Some batches are exchanged, or one is moved."""
    data = log.read_bytes()
    batches = [data[frame.position : frame.position + frame.size] for frame in frames_of(data)]
    for _ in range(rng.randrange(3)):
        batches.insert(rng.randrange(len(batches)), batches.pop(rng.randrange(len(batches))))
    log.write_bytes(b"".join(batches))


def ask(partition: pathlib.Path, *words: str) -> Done:
    return run_here(["recover", str(partition), *words, "--now", str(NOW_MS)], partition.parent.parent)


def answer_of(done: Done) -> dict[str, Any]:
    rows = map(json.loads, done.out.splitlines())
    return dict(next(row["answer"] for row in rows if row.get("type") == "plan" and row["path"].endswith("t-0")))


def outcome_at(partition: pathlib.Path, interval: int) -> tuple[int, int | None]:
    """The exit status with this interval, and where the log ends."""
    done = ask(partition, "--config", f"index.interval.bytes={interval}", "--format", "json")
    return done.status, answer_of(done)["log_end_offset"] if done.status < 2 else None


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(40))
def test_what_the_interval_decides_is_doubtful_and_nothing_else_is(tmp_path: pathlib.Path, seed: int) -> None:
    """Every value that a topic may have is tried in place of the unknown one."""
    rng, partition = random.Random(seed), put(tmp_path)
    reorder(partition / LOG, rng)
    if rng.random() < 0.3:
        (partition / INDEX).unlink()  # recovered when it is loaded, where a failure is not caught
    alone = ask(partition, "--format", "json")
    answer = answer_of(alone)
    outcomes = {outcome_at(partition, interval) for interval in INTERVALS}
    assert ("may_lose" in answer) is (len(outcomes) > 1), outcomes
    if "may_lose" in answer:
        assert alone.status == 1
        assert answer["may_lose"]["is_offline"] is any(status > 2 for status, _ in outcomes)
        assert answer["guessed"] == "index.interval.bytes"


def test_text_and_doctor_say_it(tmp_path: pathlib.Path) -> None:
    partition = put(tmp_path)
    log = partition / LOG
    data = log.read_bytes()
    frames = list(frames_of(data))
    one, other = (data[frame.position : frame.position + frame.size] for frame in frames[2:4])
    log.write_bytes(data[: frames[2].position] + other + one + data[frames[4].position :])
    shown = ask(partition).out.decode()
    assert "t-0: MAY LOSE offsets 38 to 61: batches of 00000000000000000038.log are out of order" in shown
    assert "klogtool salvage" in shown
    assert "1 partition MAY LOSE what index.interval.bytes decides" in ask(partition.parent).out.decode()
    asked = ["doctor", "logs", "--format", "json", "--now", str(NOW_MS)]
    rows = [json.loads(line) for line in run_here(asked, tmp_path).out.splitlines()]
    claims = [row for row in rows if row.get("type") == "claim" and row["path" if "path" in row else "about"]]
    (claim,) = (row for row in claims if row["about"] == "partition" and row["path"].endswith("/t-0"))
    assert claim["lost"] == {"records": None, "ranges": [[BASE, END - 1]], "reason": "elsewhere"}
    options = [row for row in claims if row["about"] == "option"]
    assert any(row["lost"]["records"] == 0 for row in options)  # salvage
    assert any(row["lost"]["reason"] == "elsewhere" for row in options)  # as the broker does it


def doctor_of(partition: pathlib.Path, *words: str) -> tuple[dict[str, Any], int]:
    """What t-0 loses by its claim, and how many records by the points of what the start cuts."""
    asked = ["doctor", "logs", "--format", "json", "--now", str(NOW_MS), *words]
    rows = [json.loads(line) for line in run_here(asked, partition.parent.parent).out.splitlines()]
    of_it = [row for row in rows if row.get("path", "").endswith("/t-0")]
    (claim,) = (row for row in of_it if row.get("about") == "partition")
    return claim["lost"], sum(row["lost_records"] for row in of_it if row.get("what") == "truncated")


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_lost_in_any_case_is_counted_beside_what_may_be(tmp_path: pathlib.Path, seed: int) -> None:
    rng, partition = random.Random(seed), put(tmp_path)
    reorder(partition / LOG, rng)
    data = bytearray((partition / LOG).read_bytes())
    data[rng.choice([frame.position for frame in frames_of(bytes(data))]) + 70] ^= 1
    (partition / LOG).write_bytes(data)
    lost, at_least = doctor_of(partition)
    each = [doctor_of(partition, "--config", f"index.interval.bytes={interval}")[0] for interval in INTERVALS]
    known = [one["records"] for one in each]
    if lost["records"] is None:
        assert at_least == min(known)
        assert all(covers(lost["ranges"], part) for one in each for part in one["ranges"])
    else:
        assert set(known) == {lost["records"]} == {at_least}


def covers(ranges: list[list[int]], part: list[int]) -> bool:
    return any(first <= part[0] and part[1] <= last for first, last in ranges)


def test_the_sum_has_both(tmp_path: pathlib.Path) -> None:
    partition = put(tmp_path)
    data = (partition / LOG).read_bytes()
    frames = list(frames_of(data))
    one, other = (data[frame.position : frame.position + frame.size] for frame in frames[2:4])
    changed = bytearray(data[: frames[2].position] + other + one + data[frames[4].position :])
    changed[frames[-3].position + 70] ^= 1
    (partition / LOG).write_bytes(changed)
    done = run_here(["doctor", "logs", "--now", str(NOW_MS)], tmp_path)
    assert "lost        at least 8 records, and an unknown number more" in done.out.decode()
    assert "8 records are lost in any case" in " ".join(done.out.decode().split())
