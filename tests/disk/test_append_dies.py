"""append --apply, killed after every few calls, in a log dir that was stopped cleanly; also of a partition that is new.

Whatever lies there has to be a log that a broker loads right, whether it believes the marker or not: all that was
there, and of what is new a beginning without a hole. Undo gives everything back, resume finishes.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from dying import (
    NAME,
    after_a_start,
    carry_out,
    changed,
    dies,
    finish,
    logs_of,
    saved_plans,
    stopped_log_dir,
    take_back,
    without_lock,
)
from made import contents, picture
from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.plans.saved_plan import SavedPlan

NOW_MS = 1_700_000_000_000
CONFIG = {"segment.bytes": "1500", "index.interval.bytes": "100"}
LOSSES = ("nothing", "everything", "mixed 1")
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
Logs = dict[str, bytes]


def calls() -> str:
    """Batches that fill a few segments, one of a producer and one of a new epoch among them."""
    rows = []
    for n in range(14):
        records = [Record(k, NOW_MS + n, b"k%d" % k, b"value " * 20) for k in range(3)]
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3 * n} if n % 2 else {}
        batch = build_batch(records, codec="gzip" if n == 4 else "none", **producer)
        rows.append({"as": "leader", "leader_epoch": 90 + n // 7, "hex": batch.hex()})
    return "".join(json.dumps(row) + "\n" for row in rows)


ASKED: dict[str, Any] = {"now_ms": NOW_MS, "jobs": 1, "config": CONFIG, "requests_text": calls()}


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return stopped_log_dir(box)


def planned(partition: pathlib.Path, **more: Any) -> list[SavedPlan]:
    return saved_plans("append", partition, {**ASKED, **more})


def started(partition: pathlib.Path, at: pathlib.Path, last_stop: str | None) -> dict[str, bytes]:
    asked = {"now_ms": NOW_MS, "jobs": 1, "config": CONFIG} | ({} if last_stop is None else {"last_stop": last_stop})
    return after_a_start(partition, at, asked)


def is_between(found: Logs, before: Logs, after: Logs) -> bool:
    """All that was there, and of what is new a beginning: a segment that is not whole is the last one with anything."""
    if not all(found.get(name, b"").startswith(data) for name, data in before.items()):
        return False
    names = sorted(found)
    whole = [found[name] == after.get(name) for name in names]
    ends = next((n for n, is_whole in enumerate(whole) if not is_whole), len(names))
    return all(after.get(name, b"").startswith(found[name]) for name in names) and not any(
        found[name] for name in names[ends + 1 :]
    )


@pytest.mark.slow
def test_killed_anywhere_it_is_a_log_that_a_broker_believes_rightly(box: pathlib.Path, log_dir: pathlib.Path) -> None:
    before, logs = picture(log_dir), logs_of(started(log_dir / NAME, box.parent / "out", None))
    calls = carry_out(planned(log_dir / NAME), box)
    wanted, done = started(log_dir / NAME, box.parent / "out", None), without_lock(log_dir)
    assert len(logs_of(wanted)) > len(logs) + 1, "it rolls"
    take_back(log_dir)
    assert picture(log_dir) == before
    seen = set()
    for n in range(calls * 2 // 3 - 40, calls + 1, 3):
        dies(planned(log_dir / NAME), box, n, LOSSES[n % len(LOSSES)], log_dir / NAME)
        for last_stop in (None, "unclean"):
            found = started(log_dir / NAME, box.parent / "out", last_stop)
            assert is_between(logs_of(found), logs, logs_of(wanted)), (n, last_stop)
            seen.add(len(logs_of(found)))
            if logs_of(found) == logs_of(wanted):
                snapshots = {name: data for name, data in found.items() if name.endswith(".snapshot")}
                assert found == {**wanted, **snapshots}, (n, last_stop)
        if n % 2 and finish(log_dir):
            assert without_lock(log_dir) == done, n
        take_back(log_dir)
        assert changed(before, log_dir) == set(), n
    assert len(seen) > 2, "in the middle, too"


@pytest.mark.slow
@pytest.mark.parametrize("loses", LOSSES)
def test_a_partition_that_comes_to_be(box: pathlib.Path, log_dir: pathlib.Path, loses: str) -> None:
    """Nothing of it stays behind an undo, wherever it was killed; and there is no log without a topic id."""
    before, new = picture(log_dir), log_dir / "new-0"
    asked = {"create": True, "topic_id": TOPIC_ID}
    calls = carry_out(planned(new, **asked), box)
    wanted, done = logs_of(started(new, box.parent / "out", None)), without_lock(log_dir)
    take_back(log_dir)
    assert not new.exists()
    for n in range(2, calls + 1, 3):
        dies(planned(new, **asked), box, n, loses, new)
        if new.is_dir() and any(new.glob("*.log")):
            assert (new / "partition.metadata").exists(), n
            assert is_between(logs_of(started(new, box.parent / "out", None)), {}, wanted), n
        if n % 2 and finish(log_dir):
            assert without_lock(log_dir) == done, n
        take_back(log_dir)
        if new.exists():
            assert not list(new.iterdir()), n
            new.rmdir()
        assert changed(before, log_dir) == set(), n


def test_saved_and_carried_out_later(box: pathlib.Path, log_dir: pathlib.Path) -> None:
    """A plan relies on its input: a file of batches that has changed since is not what was decided about."""
    from klogtool.cli.main import run

    batches = box / "fetched"
    records = [Record(k, NOW_MS, b"k", b"v") for k in range(9000, 9003)]
    batches.write_bytes(build_batch(records, partition_leader_epoch=91))
    asked = ["append", str(log_dir / NAME), "--batches", str(batches), "--now", str(NOW_MS), "-q"]
    before = picture(log_dir)
    for name in ("plan", "other"):
        assert run([*asked, "--plan-out", str(box / name)]) == 0
    assert picture(log_dir) == before
    assert run(["apply", str(box / "plan")]) == 0
    assert any(data.endswith(batches.read_bytes()) for data in logs_of(contents(log_dir / NAME)).values())
    take_back(log_dir)
    batches.write_bytes(batches.read_bytes() * 2)
    assert run(["apply", str(box / "other")]) == 3
