"""truncate and roll --apply, killed after every few calls, in a log dir that was stopped cleanly.

Its marker stays where it is. So whatever lies there has to be a log that a broker loads right, whether it believes the
marker or not: nothing but what was there, and all that is to stay. Undo gives everything back, resume finishes.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from made import HEAD, contents, picture
from mortal import Died, HastyDisk, MortalDisk
from running import FIXTURES

import klogtool
from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace, resume, undo
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import TopicPartition
from klogtool.repair.decisions import decide
from klogtool.repair.saved_plan import SavedPlan

LOGS, NAME, KEY = FIXTURES / "transactions" / "logdir", "t-0", TopicPartition("t", 0)
NOW: dict[str, Any] = {"now_ms": 1_700_000_000_000, "jobs": 1}
POINTS, STARTS, REPLICATED = (f"{what}-offset-checkpoint" for what in ("recovery-point", "log-start", "replication"))
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "cut": ("truncate", {"to": 20}),
    "cut at a base": ("truncate", {"to": 36}),
    "cut in a batch": ("truncate", {"to": 6}),
    "cut, purged": ("truncate", {"to": 36, "purge": True}),
    "cut below the start": ("truncate", {"to": 5}),
    "anew at 0": ("truncate", {"start_at": 0}),
    "anew at 0, purged": ("truncate", {"start_at": 0, "purge": True}),
    "anew inside": ("truncate", {"start_at": 37, "log_start_offset_after": 30}),
    "anew behind": ("truncate", {"start_at": 500}),
    "rolled": ("roll", {"force": True}),
}
Logs = dict[str, bytes]


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    """One partition whose log starts at offset 8, stopped cleanly."""
    path = box / "logdir"
    path.mkdir()
    shutil.copytree(LOGS / NAME, path / NAME)
    for file in LOGS.iterdir():
        if file.is_file():
            shutil.copy2(file, path)
    (path / STARTS).write_text("0\n2\nother 3 4\nt 0 8\n")
    return path


def planned(log_dir: pathlib.Path, what: str) -> list[SavedPlan]:
    command, asked = CHANGES[what]
    return [SavedPlan.of(plan) for plan in decide(command, str(log_dir / NAME), {**NOW, **asked})]


def started(log_dir: pathlib.Path, at: pathlib.Path, last_stop: str | None) -> Logs:
    """The logs after a start and a stop, as klogtool foresees it."""
    shutil.rmtree(at, ignore_errors=True)
    asked = NOW if last_stop is None else {**NOW, "last_stop": last_stop}
    plans = [SavedPlan.of(plan) for plan in decide("verify --recover", str(log_dir / NAME), asked)]
    carry_out_to(plans, str(log_dir / NAME), str(at), disk=HastyDisk())
    return {name: data for name, data in contents(at).items() if name.endswith(".log")}


def is_of_one_piece(found: Logs, logs: Logs) -> bool:
    """Whether no segment is missing between two that are there."""
    there = [n for n, name in enumerate(sorted(logs)) if found.get(name)]
    return not there or there == list(range(there[0], there[-1] + 1))


def has_offsets_twice(partition: pathlib.Path) -> bool:
    opened = klogtool.open(partition)
    assert isinstance(opened, klogtool.Partition)
    return any(found.id == "segment-overlap" for found in opened.verify())


def lines(log_dir: pathlib.Path, name: str) -> Mapping[TopicPartition, int]:
    return parse_offset_checkpoint((log_dir / name).read_bytes())


def entries(log_dir: pathlib.Path) -> list[Entry]:
    journal = pathlib.Path(f"{log_dir}.klogtool")
    return list(walk_entries(str(journal))) if journal.is_dir() else []


def without_what_waits(log_dir: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(log_dir).items() if not name.endswith(".lock")}


@pytest.mark.parametrize("what", CHANGES)
def test_killed_anywhere_it_is_a_log_that_a_broker_believes_rightly(
    box: pathlib.Path, log_dir: pathlib.Path, what: str
) -> None:
    before, logs = picture(log_dir), started(log_dir, box.parent / "out", None)
    InPlace(planned(log_dir, what), HEAD, disk=(whole := MortalDisk([box]))).carry_out()
    wanted, done = started(log_dir, box.parent / "out", None), without_what_waits(log_dir)
    undo(entries(log_dir)[0], disk=HastyDisk())
    (log_dir / ".lock").unlink(missing_ok=True)
    assert picture(log_dir) == before
    for n in range(whole.done * 2 // 3 - 40, whole.done + 1, 5):
        loses = ("nothing", "everything", "mixed 1")[n % 3]
        run = InPlace(
            planned(log_dir, what), {**HEAD, "paths": [str(log_dir / NAME)]}, disk=(disk := MortalDisk([box], n))
        )
        try:
            run.carry_out()
        except Died:
            disk.crash(loses)
        for last_stop in (None, "unclean"):
            found = started(log_dir, box.parent / "out", last_stop)
            assert all(logs.get(name, b"").startswith(data) for name, data in found.items()), (n, last_stop)
            assert all(found.get(name, b"").startswith(data) for name, data in wanted.items()), (n, last_stop)
            assert is_of_one_piece(found, logs), (n, last_stop)
            assert not has_offsets_twice(box.parent / "out"), (n, last_stop)
        for entry in entries(log_dir):
            if n % 2 and run.begun:
                resume(entry, disk=HastyDisk())
                assert without_what_waits(log_dir) == done, n
                (entry,) = entries(log_dir)
            undo(entry, disk=HastyDisk())
        (log_dir / ".lock").unlink(missing_ok=True)
        after = picture(log_dir)
        assert {path for path in before | after if before.get(path) != after.get(path)} - {"."} == set(), n
    assert (log_dir / ".kafka_cleanshutdown").exists()


def test_the_log_dir_knows_of_it(log_dir: pathlib.Path) -> None:
    """Lines of this partition fit the log; others stay."""
    others = {name: {**lines(log_dir, name), KEY: 0} for name in (POINTS, STARTS, REPLICATED)}
    for what, end, start, replicated in (
        ("cut", 20, 8, 20),
        ("cut below the start", 5, 5, 5),
        ("cut in a batch", 5, 6, 5),  # where the next start finds the end: offset 5 went with its batch
        ("anew behind", 500, None, 500),
        ("rolled", 62, 8, 62),
    ):
        InPlace(planned(log_dir, what), HEAD, disk=HastyDisk()).carry_out()
        assert lines(log_dir, POINTS)[KEY] == end, what
        assert lines(log_dir, STARTS).get(KEY) == start, what
        assert lines(log_dir, REPLICATED)[KEY] == replicated, what
        for name, found in others.items():
            assert {**lines(log_dir, name), KEY: 0} == found, what
        undo(entries(log_dir)[0], disk=HastyDisk())
    assert lines(log_dir, POINTS)[KEY] == 62


def test_a_log_start_that_comes_down_does_so_first(log_dir: pathlib.Path) -> None:
    """A log that ends below its line is thrown away whole."""
    plans = planned(log_dir, "cut below the start")
    assert [(pathlib.Path(plan.path).name, [step.path for step in plan.steps]) for plan in (plans[0], plans[2])] == [
        ("logdir", [STARTS]),
        ("logdir", [POINTS, REPLICATED]),
    ]


def test_elsewhere_the_log_dir_is_left_alone(box: pathlib.Path, log_dir: pathlib.Path) -> None:
    before, plans = contents(log_dir), planned(log_dir, "cut")
    carry_out_to(plans, str(log_dir / NAME), str(box / "out"), disk=HastyDisk())
    assert contents(log_dir) == before
    assert sorted(path.name for path in (box / "out").glob("*.log")) == [f"{0:020d}.log", f"{7:020d}.log"]
