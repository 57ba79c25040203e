"""A model of the journal, small enough to try every order of events: two runs, kills, power failures, undo, resuming.

`walk` goes through all states. In each one that nobody works in, undo is able to bring everything back, what is said
to be done is done, and no step came upon another run's. Without any one of klogtool's precautions a law breaks: so each
is needed, and the laws can fail. The events are not only the model's: those of a real run and its undo, as a disk is
told them, are walked as well.
"""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pytest
from made import HEAD, make_log_dir, make_plans
from mortal import Died, HastyDisk

from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.writer import InPlace, resume, undo

STEPS = 2  # of a run in the model
RUNS = (0, 1)
APPLY = (
    *("check", "lock", "check in the lock", "plan", "sync plan", "stage", "sync staged", "keep", "sync kept"),
    *("manifest STAGED", "sync manifest", *["step"] * STEPS, "sync steps", "manifest DONE", "sync manifest", "unlock"),
)
RESUME = (
    "lock",
    "check in the lock",
    "sync manifest",
    *["step"] * STEPS,
    "sync steps",
    "manifest DONE",
    "sync manifest",
    "unlock",
)
UNDO = (
    *("lock", "check in the lock", "manifest UNDOING", "sync manifest", *["step back"] * STEPS, "sync steps"),
    *("manifest UNDONE", "sync manifest", "remove kept", "remove manifest", "remove plan", "unlock"),
)
Scripts: TypeAlias = Mapping[str, Sequence[str]]
SCRIPTS: Scripts = {"apply": APPLY, "resume": RESUME, "undo": UNDO}


class Value(NamedTuple):
    """As the system shows it, and as it is on the device."""

    now: Any
    disk: Any

    def to(self, now: Any) -> Value:
        return Value(now, self.disk)

    def after_a_power_failure(self) -> Iterator[Value]:
        if isinstance(self.now, int) and not isinstance(self.now, bool):
            low, high = sorted((self.now, self.disk))
            yield from (Value(n, n) for n in range(low, high + 1))
        else:
            yield from (Value(value, value) for value in {self.now, self.disk})


class Run(NamedTuple):
    """What a run has left, and where it is: the name of its script and the place in it, or "" if no process runs."""

    plan: Value = Value(False, False)
    staged: Value = Value(False, False)
    kept: Value = Value(False, False)
    manifest: Value = Value("", "")
    steps: Value = Value(0, 0)
    script: str = ""
    at: int = 0
    started: bool = False

    def with_value(self, name: str, value: Value) -> Run:
        return self._replace(**{name: value})  # type: ignore[arg-type]


class State(NamedTuple):
    """runs: both. lock: who has it. mixed: a step was done over those of another run, which its plan did not know."""

    runs: tuple[Run, Run] = (Run(), Run())
    lock: int | None = None
    mixed: bool = False

    def with_run(self, n: int, run: Run) -> State:
        runs = tuple(run if k == n else other for k, other in enumerate(self.runs))
        return self._replace(runs=runs)  # type: ignore[arg-type]


class Bounds(NamedTuple):
    """So many runs; whether the power fails, or processes are only killed."""

    runs: int = 1
    power_fails: bool = True


def following(state: State, scripts: Scripts, bounds: Bounds) -> Iterator[State]:
    """Everything that may happen next."""
    for n, run in enumerate(state.runs[: bounds.runs]):
        if run.script:
            yield from done(state, n, scripts)
        else:
            yield from begun(state, n)
    if any(run.script for run in state.runs):
        killed = [run._replace(script="", at=0) for run in state.runs]
        yield State((killed[0], killed[1]), None, state.mixed)
        if not bounds.power_fails:
            return
        for kept in itertools.product(*(after_a_power_failure(run) for run in killed)):
            yield State((kept[0], kept[1]), None, state.mixed)


def after_a_power_failure(run: Run) -> Iterator[Run]:
    fields = ("plan", "staged", "kept", "manifest", "steps")
    for values in itertools.product(*(getattr(run, name).after_a_power_failure() for name in fields)):
        yield run._replace(**dict(zip(fields, values, strict=True)))


def begun(state: State, n: int) -> Iterator[State]:
    run = state.runs[n]
    if not run.started:
        yield state.with_run(n, run._replace(script="apply", started=True))
    elif run.plan.now:
        yield state.with_run(n, run._replace(script="undo"))
        if run.manifest.now == "STAGED":
            yield state.with_run(n, run._replace(script="resume"))


def done(state: State, n: int, scripts: Scripts) -> Iterator[State]:
    """The next event of a process; none while it waits."""
    run, other = state.runs[n], state.runs[1 - n]
    script = scripts[run.script]
    if run.at == len(script):
        yield state.with_run(n, run._replace(script="", at=0))
        return
    event = script[run.at]
    ahead = run._replace(at=run.at + 1)
    refused = state._replace(lock=None if state.lock == n else state.lock).with_run(n, run._replace(script="", at=0))
    match event.split(" "):
        case ["lock"]:
            yield refused if state.lock is not None else state._replace(lock=n).with_run(n, ahead)
        case ["unlock"]:
            yield state._replace(lock=None).with_run(n, ahead)
        case ["check", *_]:
            yield refused if other.steps.now else state.with_run(n, ahead)
        case ["sync", what]:
            name = what
            value: Value = getattr(run, name)
            yield state.with_run(n, ahead.with_value(name, Value(value.now, value.now)))
        case ["manifest", what]:
            yield state.with_run(n, ahead.with_value("manifest", run.manifest.to(what)))
        case ["step"]:
            most = scripts["apply"].count("step")
            moved = ahead.with_value("steps", run.steps.to(min(most, run.steps.now + 1)))
            yield state._replace(mixed=state.mixed or other.steps.now > 0).with_run(n, moved)
        case ["step", "back"]:
            yield state.with_run(n, ahead.with_value("steps", run.steps.to(max(0, run.steps.now - 1))))
        case ["remove", what]:
            value = getattr(run, what)
            yield state.with_run(n, ahead.with_value(what, value.to("" if what == "manifest" else False)))
        case ["plan" | "stage" | "keep" as what]:
            name = {"stage": "staged", "keep": "kept"}.get(what, what)
            yield state.with_run(n, ahead.with_value(name, Value(True, getattr(run, name).disk)))
        case _:
            raise ValueError(event)


def settled(state: State) -> State:
    """Return the state where everything is on the device: as long as the power does not fail, that is no difference."""
    fields = ("plan", "staged", "kept", "manifest", "steps")
    runs = [run._replace(**{name: Value(*[getattr(run, name).now] * 2) for name in fields}) for run in state.runs]
    return state._replace(runs=(runs[0], runs[1]))


def broken_law(state: State, most: int) -> str | None:
    """Return the law that a state breaks, or None."""
    if state.mixed:
        return "a step came upon those of another run"
    for run in state.runs:
        if run.script:
            continue
        if run.steps.now and not (run.plan.now and run.kept.now and run.manifest.now):
            return "what was there before cannot be brought back"
        if (run.steps.now or run.manifest.now == "STAGED") and not run.staged.now:
            return "a new file has no bytes"
        if run.manifest.now == "DONE" and run.steps.now != most:
            return "it is said to be done, and is not"
        if run.manifest.now == "UNDONE" and run.steps.now:
            return "it is said to be undone, and is not"
    return None


def walk(scripts: Scripts, bounds: Bounds) -> tuple[int, set[str]]:
    """Return how many states there are, and the laws that some break. Behind such a state nobody looks."""
    most, laws = scripts["apply"].count("step"), set[str]()
    seen, waiting = {State()}, [State()]
    while waiting:
        state = waiting.pop()
        if (law := broken_law(state, most)) is not None:
            laws.add(law)
            continue
        for after in following(state, scripts, bounds):
            after = after if bounds.power_fails else settled(after)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen), laws


def without(script: str, *events: str) -> Scripts:
    """The scripts without precautions of one of them."""
    return {**SCRIPTS, script: [event for event in SCRIPTS[script] if event not in events]}


def later(script: str, event: str, behind: str) -> Scripts:
    """The scripts where an event of one comes only behind another."""
    left = [other for other in SCRIPTS[script] if other != event]
    at = len(left) - left[::-1].index(behind)
    return {**SCRIPTS, script: [*left[:at], event, *left[at:]]}


ONE, TWO_KILLED = Bounds(), Bounds(runs=2, power_fails=False)
LOST = "what was there before cannot be brought back"
MIXED = "a step came upon those of another run"


@pytest.mark.parametrize(
    ("bounds", "least"),
    [(ONE, 100), (TWO_KILLED, 1000)],
)
def test_no_order_of_events_breaks_a_law(bounds: Bounds, least: int) -> None:
    count, laws = walk(SCRIPTS, bounds)
    assert laws == set()
    assert count > least
    print(f"{count} states")


@pytest.mark.parametrize(
    ("scripts", "bounds", "law"),
    [
        (without("apply", "sync kept"), ONE, LOST),
        (without("apply", "sync plan"), ONE, LOST),
        (without("apply", "sync staged"), ONE, "a new file has no bytes"),
        (without("apply", "sync manifest"), ONE, LOST),
        (without("apply", "sync steps"), ONE, "it is said to be done, and is not"),
        (without("resume", "sync manifest"), ONE, LOST),
        (without("resume", "sync steps"), ONE, "it is said to be done, and is not"),
        (without("undo", "sync steps"), ONE, "it is said to be undone, and is not"),
        (later("apply", "manifest STAGED", "step"), ONE, LOST),
        (later("apply", "keep", "step"), ONE, LOST),
        (later("undo", "step back", "remove kept"), ONE, LOST),
        (without("apply", "check in the lock"), TWO_KILLED, MIXED),
        (without("resume", "check in the lock"), TWO_KILLED, MIXED),
        (without("apply", "lock"), TWO_KILLED, MIXED),
    ],
)
def test_without_a_precaution_a_law_breaks(scripts: Scripts, bounds: Bounds, law: str) -> None:
    assert law in walk(scripts, bounds)[1]


# What a real run tells its disk.


class Told(HastyDisk):
    """Writes down the model's event for each call. step: what a change of the log dir is."""

    def __init__(self, log_dir: pathlib.Path, step: str) -> None:
        self.log_dir, self.journal, self.step = str(log_dir), f"{log_dir}.klogtool", step
        self.events: list[str] = []

    def add(self, event: str | None) -> None:
        """Of the same event in a row one, but for steps."""
        if event is not None and (event in ("step", "step back") or self.events[-1:] != [event]):
            self.events.append(event)

    def changed(self, path: str) -> str | None:
        """The event of a change of a file."""
        name = os.path.basename(path)
        if path.startswith(self.log_dir + os.sep):
            return None if name == ".lock" else self.step
        return {"plan.jsonl": "plan", "kept": "keep", "tail": "keep", "new": "stage"}.get(name.partition("-")[0])


def _told(verb: str) -> Any:
    def work(self: Told, *given: Any) -> None:
        getattr(HastyDisk, verb)(self, *given)
        path = os.fspath(given[1] if verb in ("rename", "link") else given[0])
        name = os.path.basename(path)
        if name == "manifest.json" and verb == "rename":
            (entry,) = [Entry(os.path.dirname(path))]
            self.add(f"manifest {entry.progress().name}")
        elif verb in ("sync", "sync_dir"):
            self.add(synced(self, path))
        elif verb == "delete" and path.startswith(self.journal):
            of = {"plan.jsonl": "plan", "manifest.json": "manifest", "kept": "kept", "tail": "kept"}
            removed = of.get(name.partition("-")[0])
            self.add(removed and f"remove {removed}")
        elif verb == "rename" and given[0].startswith(self.log_dir) and path.startswith(self.log_dir):
            self.add(self.step)
        else:
            self.add(self.changed(path))

    return work


def synced(told: Told, path: str) -> str | None:
    """The event of a sync: the last one of its kind counts."""
    if (path + os.sep).startswith(told.log_dir + os.sep):
        return "sync steps"
    kind = os.path.basename(path).partition("-")[0]
    if kind == "new":
        return "sync staged"
    if os.path.dirname(os.path.dirname(path)) == told.journal and kind.isdigit():  # a plan's folder in the entry
        return "sync kept"
    if os.path.dirname(path) == told.journal:  # the entry
        return "sync manifest" if os.path.lexists(os.path.join(path, "manifest.json")) else None
    return "sync plan" if path == told.journal else None


for _verb in ("write", "rename", "link", "delete", "truncate", "sync", "sync_dir"):
    setattr(Told, _verb, _told(_verb))


class Killed(Told):
    """Dies once the manifest is on the device, before the first step."""

    def add(self, event: str | None) -> None:
        if event == "sync manifest":
            raise Died
        super().add(event)


@pytest.mark.slow
def test_what_a_real_run_does_breaks_no_law(box: pathlib.Path) -> None:
    """The events of a run over every kind of step, of one that is resumed, and of an undo, as the disk is told them."""
    log_dir = make_log_dir(box)
    killed = Killed(log_dir, "step")
    with pytest.raises(Died):
        InPlace(make_plans(log_dir), HEAD, disk=killed).carry_out()
    resumed = Told(log_dir, "step")
    (entry,) = walk_entries(f"{log_dir}.klogtool")
    resume(entry, disk=resumed)
    undo(entry, disk=HastyDisk())
    applied = Told(log_dir, "step")
    run = InPlace(make_plans(log_dir), HEAD, disk=applied)
    run.carry_out()
    taken_back = Told(log_dir, "step back")
    undo(run.entries[0], disk=taken_back)
    real: Scripts = {
        "apply": ["check", "lock", "check in the lock", *applied.events, "unlock"],
        "undo": ["lock", "check in the lock", *taken_back.events, "unlock"],
        "resume": ["lock", "check in the lock", *resumed.events, "unlock"],
    }
    assert applied.events.count("step") > 10
    assert set(applied.events) == set(APPLY) - {"check", "lock", "check in the lock", "unlock"}
    assert set(resumed.events) == set(RESUME) - {"lock", "check in the lock", "unlock"}
    assert resumed.events[0] == "sync manifest"
    taken_back.events = [event for event in taken_back.events if event != "sync plan"]  # the journal, at the end
    assert set(taken_back.events) == set(UNDO) - {"lock", "check in the lock", "unlock"}
    assert walk(real, ONE)[1] == set()
    for script, event in (("apply", "sync kept"), ("resume", "sync manifest")):
        assert LOST in walk({**real, script: [e for e in real[script] if e != event]}, ONE)[1]
