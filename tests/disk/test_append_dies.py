"""append --apply, killed after every few calls, in a log dir that was stopped cleanly; also of a partition that is new.

Whatever lies there has to be a log that a broker loads right, whether it believes the marker or not: all that was
there, and of what is new a beginning without a hole. Undo gives everything back, resume finishes.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from made import HEAD, contents, picture
from mortal import Died, HastyDisk, MortalDisk
from running import FIXTURES

from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, resume, undo
from klogtool.format.batch import Record, build_batch
from klogtool.repair.decisions import decide
from klogtool.repair.saved_plan import SavedPlan

LOGS, NAME = FIXTURES / "transactions" / "logdir", "t-0"
NOW_MS = 1_700_000_000_000
CONFIG = {"segment.bytes": "1500", "index.interval.bytes": "100"}
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
    """One partition, stopped cleanly."""
    path = box / "logdir"
    path.mkdir()
    shutil.copytree(LOGS / NAME, path / NAME)
    for file in LOGS.iterdir():
        if file.is_file():
            shutil.copy2(file, path)
    return path


def planned(partition: pathlib.Path, **more: Any) -> list[SavedPlan]:
    return [SavedPlan.of(plan) for plan in decide("append", str(partition), {**ASKED, **more})]


def started(partition: pathlib.Path, at: pathlib.Path, last_stop: str | None) -> dict[str, bytes]:
    """The files after a start and a stop, as klogtool foresees it."""
    shutil.rmtree(at, ignore_errors=True)
    asked = {"now_ms": NOW_MS, "jobs": 1, "config": CONFIG} | ({} if last_stop is None else {"last_stop": last_stop})
    plans = [SavedPlan.of(plan) for plan in decide("verify --recover", str(partition), asked)]
    carry_out_to(plans, str(partition), str(at), disk=HastyDisk())
    return contents(at)


def logs_of(files: dict[str, bytes]) -> Logs:
    return {name: data for name, data in files.items() if name.endswith(".log")}


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


def entries(log_dir: pathlib.Path) -> list[Entry]:
    journal = pathlib.Path(f"{log_dir}.klogtool")
    return list(walk_entries(str(journal))) if journal.is_dir() else []


def without_lock(log_dir: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(log_dir).items() if not name.endswith(".lock")}


def test_killed_anywhere_it_is_a_log_that_a_broker_believes_rightly(box: pathlib.Path, log_dir: pathlib.Path) -> None:
    before, logs = picture(log_dir), logs_of(started(log_dir / NAME, box.parent / "out", None))
    InPlace(planned(log_dir / NAME), HEAD, disk=(whole := MortalDisk([box]))).carry_out()
    wanted, done = started(log_dir / NAME, box.parent / "out", None), without_lock(log_dir)
    assert len(logs_of(wanted)) > len(logs) + 1, "it rolls"
    undo(entries(log_dir)[0], disk=HastyDisk())
    (log_dir / ".lock").unlink(missing_ok=True)
    assert picture(log_dir) == before
    seen = set()
    for n in range(whole.done * 2 // 3 - 40, whole.done + 1, 3):
        loses = ("nothing", "everything", "mixed 1")[n % 3]
        head = {**HEAD, "paths": [str(log_dir / NAME)]}
        run = InPlace(planned(log_dir / NAME), head, disk=(disk := MortalDisk([box], n)))
        try:
            run.carry_out()
        except Died:
            disk.crash(loses)
        for last_stop in (None, "unclean"):
            found = started(log_dir / NAME, box.parent / "out", last_stop)
            assert is_between(logs_of(found), logs, logs_of(wanted)), (n, last_stop)
            seen.add(len(logs_of(found)))
            if logs_of(found) == logs_of(wanted):
                assert found == {**wanted, **{k: v for k, v in found.items() if k.endswith(".snapshot")}}, (
                    n,
                    last_stop,
                )
        for entry in entries(log_dir):
            if n % 2 and run.begun and entry.progress() is not Progress.DONE:
                resume(entry, disk=HastyDisk())
                assert without_lock(log_dir) == done, n
                (entry,) = entries(log_dir)
            undo(entry, disk=HastyDisk())
        (log_dir / ".lock").unlink(missing_ok=True)
        after = picture(log_dir)
        assert {path for path in before | after if before.get(path) != after.get(path)} - {"."} == set(), n
    assert len(seen) > 2, "in the middle, too"


@pytest.mark.parametrize("loses", ["nothing", "everything", "mixed 1"])
def test_a_partition_that_comes_to_be(box: pathlib.Path, log_dir: pathlib.Path, loses: str) -> None:
    """Nothing of it stays behind an undo, wherever it was killed; and there is no log without a topic id."""
    before, new = picture(log_dir), log_dir / "new-0"
    asked = {"create": True, "topic_id": TOPIC_ID}
    InPlace(planned(new, **asked), HEAD, disk=(whole := MortalDisk([box]))).carry_out()
    wanted, done = logs_of(started(new, box.parent / "out", None)), without_lock(log_dir)
    undo(entries(log_dir)[0], disk=HastyDisk())
    assert not new.exists()
    for n in range(2, whole.done + 1, 3):
        run = InPlace(planned(new, **asked), {**HEAD, "paths": [str(new)]}, disk=(disk := MortalDisk([box], n)))
        try:
            run.carry_out()
        except Died:
            disk.crash(loses)
        if new.is_dir() and any(new.glob("*.log")):
            assert (new / "partition.metadata").exists(), n
            assert is_between(logs_of(started(new, box.parent / "out", None)), {}, wanted), n
        for entry in entries(log_dir):
            if n % 2 and not entry.is_torn() and entry.progress() is not Progress.DONE:
                resume(entry, disk=HastyDisk())
                assert without_lock(log_dir) == done, n
                (entry,) = entries(log_dir)
            undo(entry, disk=HastyDisk())
        (log_dir / ".lock").unlink(missing_ok=True)
        if new.exists():
            assert not list(new.iterdir()), n
            new.rmdir()
        after = picture(log_dir)
        assert {path for path in before | after if before.get(path) != after.get(path)} - {"."} == set(), n


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
    undo(entries(log_dir)[0], disk=HastyDisk())
    batches.write_bytes(batches.read_bytes() * 2)
    assert run(["apply", str(box / "other")]) == 3
