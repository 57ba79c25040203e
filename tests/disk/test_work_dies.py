"""truncate and roll --apply, killed after every call and inside of it, in a log dir that was stopped cleanly.

Its marker stays where it is. So whatever lies there has to be a log that a broker loads right, whether it believes the
marker or not: nothing but what was there, and all that is to stay. Undo gives everything back, resume finishes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from crash_scene import Scene, Work, told
from dying import NAME, after_a_start, logs_of, saved_plans, stopped_log_dir, take_back
from made import HEAD, contents
from mortal import HastyDisk

import klogtool
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import TopicPartition
from klogtool.plans.saved_plan import SavedPlan

KEY = TopicPartition("t", 0)
NOW: dict[str, Any] = {"now_ms": 1_700_000_000_000, "jobs": 1}
LOSSES = ("nothing", "everything", "mixed 1")
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
    return with_a_start(stopped_log_dir(box))


def with_a_start(path: pathlib.Path) -> pathlib.Path:
    """The log of its partition starts at offset 8."""
    (path / STARTS).write_text("0\n2\nother 3 4\nt 0 8\n")
    return path


def planned(log_dir: pathlib.Path, what: str) -> list[SavedPlan]:
    command, asked = CHANGES[what]
    return saved_plans(command, log_dir / NAME, {**NOW, **asked})


def started(log_dir: pathlib.Path, at: pathlib.Path, last_stop: str | None) -> Logs:
    """The logs after a start and a stop, as klogtool foresees it."""
    asked = NOW if last_stop is None else {**NOW, "last_stop": last_stop}
    return logs_of(after_a_start(log_dir / NAME, at, asked))


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


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_killed_anywhere_it_is_a_log_that_a_broker_believes_rightly(box: pathlib.Path, what: str) -> None:
    def make(box: pathlib.Path) -> Work:
        log_dir = with_a_start(stopped_log_dir(box))
        return Work(log_dir, lambda: planned(log_dir, what), named=log_dir / NAME)

    scene = Scene(box, make)
    out = box.parent / "out"
    wanted = started(scene.log_dir, out, None)
    scene.put(scene.states.before)
    logs = started(scene.log_dir, out, None)
    seen: list[dict[str, bytes]] = []  # a start sees nothing else
    for n, world in scene.states.walk_deaths(*LOSSES):
        if (left := world.contents(box, without=(".klogtool/", "/.lock"))) in seen:
            continue
        seen.append(left)
        scene.put(world)
        for last_stop in (None, "unclean"):
            found = started(scene.log_dir, out, last_stop)
            assert all(logs.get(name, b"").startswith(data) for name, data in found.items()), (n, last_stop)
            assert all(found.get(name, b"").startswith(data) for name, data in wanted.items()), (n, last_stop)
            assert is_of_one_piece(found, logs), (n, last_stop)
            assert not has_offsets_twice(out), (n, last_stop)
        for check in (scene.check_undo, scene.check_resume):
            scene.put(world)
            told(check, f"after {n} calls")
    assert "logdir/.kafka_cleanshutdown" in scene.first
    assert len(seen) > 3


@pytest.mark.slow
def test_the_log_dir_knows_of_it(log_dir: pathlib.Path) -> None:
    """Lines of this partition fit the log; others stay."""
    others = {name: {**lines(log_dir, name), KEY: 0} for name in (POINTS, STARTS, REPLICATED)}
    for what, end, start, replicated in (
        ("cut", 20, 8, 20),
        ("cut below the start", 5, 5, 5),
        ("cut in a batch", 5, 5, 5),  # where the next start finds the end: offset 5 went with its batch
        ("anew behind", 500, 500, 500),  # nobody knows whether the topic is tiered: the line moves, and stays
        ("rolled", 62, 8, 62),
    ):
        InPlace(planned(log_dir, what), HEAD, disk=HastyDisk()).carry_out()
        assert lines(log_dir, POINTS)[KEY] == end, what
        assert lines(log_dir, STARTS).get(KEY) == start, what
        assert lines(log_dir, REPLICATED)[KEY] == replicated, what
        for name, found in others.items():
            assert {**lines(log_dir, name), KEY: 0} == found, what
        take_back(log_dir)
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
