"""What Kafka makes of a log at work, and what klogtool decides: cut, begun anew, rolled; the same, byte for byte.

Logs of all magics and codecs, with transactions, epochs and gaps, sound or damaged, after a clean stop or a kill; index
sizes that leave room for nothing. KLOGTOOL_LOG_COUNT: how many questions are asked (default 120). For more: `python -m
tests.kafka.test_log_against_kafka --count N --seed S [--only CHECK]`; `--case SEED.VARIANT` asks again.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deciding import decided, question_of, roll_at

import klogtool
from klogtool.broker.draft import Draft
from klogtool.plans.plan import Plan, files_after
from klogtool.plans.plan_change import plan_change

from .comparing import asked, change_differences, outcome, plan_differences, read_all, result_of
from .folders import Files, files_of, put
from .live import Question, Tally, agreed, parser_for, report
from .logs_at_work import arguments_of, bases_or_any, some_offset, walk_logs, without_room
from .random_logs import Case

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_LOG_COUNT", "120"))
STATES_OF_A_PLAN = 5


def compared(
    oracle: Any,
    case: Case,
    tally: Tally,
    op: str,
    question: Mapping[str, Any],
    decide: Callable[[], Sequence[Plan]],
    fields: tuple[str, ...],
) -> Iterator[str]:
    answer, after = asked(oracle, op, case, **question)
    tally[outcome(answer)] += 1
    found = plan_differences(decide, answer, lambda plan: change_differences(plan, answer, without_room(after), fields))
    yield from (f"{op} {dict(question)}: {difference}" for difference in found)


def check_truncate(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """truncate --to."""
    rng = case.rng
    to = -1 if rng.random() < 0.05 else some_offset(rng, files_of(case.dir))
    purge = rng.random() < 0.2
    arguments = arguments_of(case, to=to, purge=purge)
    yield from compared(
        oracle,
        case,
        tally,
        "truncate",
        {"to": to, "purge": purge},
        lambda: decided("truncate", str(case.dir), arguments),
        ("truncated",),
    )


def check_start_at(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """truncate --start-at."""
    rng = case.rng
    question: dict[str, Any] = {"to": some_offset(rng, files_of(case.dir))}
    if rng.random() < 0.4:
        question["log_start_offset_after"] = max(0, question["to"] + rng.choice((-5, -1, 0, 3)))
    if rng.random() < 0.2:
        question["purge"] = True
    more = {"start_at": question["to"], **{name: value for name, value in question.items() if name != "to"}}
    arguments = arguments_of(case, **more)
    yield from compared(
        oracle,
        case,
        tally,
        "truncate-fully-and-start-at",
        question,
        lambda: decided("truncate", str(case.dir), arguments),
        (),
    )


def check_roll(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """roll: every condition, and what it leaves."""
    rng = case.rng
    question: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if rng.random() < 0.3:
        question["force"] = more["force"] = True
    else:
        incoming = _incoming(rng, case)
        question["incoming"] = incoming
        more = {
            "incoming_bytes": incoming["bytes"],
            "incoming_timestamp": incoming["max_timestamp"],
            "incoming_offset": incoming["last_offset"],
        }
    arguments = arguments_of(case, **more)
    yield from compared(
        oracle,
        case,
        tally,
        "roll",
        question,
        lambda: decided("roll", str(case.dir), arguments),
        ("due", "rolled_to", *(() if "force" in more else ("why",))),
    )


def _incoming(rng: random.Random, case: Case) -> dict[str, int]:
    files = files_of(case.dir)
    base, limit = bases_or_any(files)[-1], int(case.args["config"]["segment.bytes"])
    size = len(files.get(f"{base:020d}.log", b""))
    case.args["config"]["segment.ms"] = rng.choice(("1", "1000", "60000", "604800000"))
    if rng.random() < 0.2:
        case.args["config"].update({"cleanup.policy": "compact", "max.compaction.lag.ms": "30000"})
    at_ms = case.args["at_ms"]
    return {
        "bytes": max(0, rng.choice((0, 1, limit - size, limit - size + 1, limit, 2**31 - 1))),
        "max_timestamp": rng.choice((-1, 0, at_ms, at_ms - 10**9, 1_700_000_000_000, 2**62, 2**63 - 1)),
        "last_offset": rng.choice((base + 10, base + 2**31 - 1, base + 2**31, base - 1, 2**63 - 1)),
    }


def check_roll_ahead(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """A roll to an offset that is expected next, as appending makes it."""
    rng = case.rng
    ahead = some_offset(rng, files_of(case.dir))
    arguments = arguments_of(case)
    yield from compared(
        oracle,
        case,
        tally,
        "roll",
        {"force": True, "expected_next_offset": ahead},
        lambda: plan_change(
            "roll",
            str(case.dir),
            question_of("roll", arguments),
            lambda log: roll_at(log, ahead),
        ),
        ("rolled_to",),
    )


def check_broken_off(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """Plans of which some steps were done, and the broker starts then, by a clean marker or without one: it starts; all
    that is to stay is there, nothing else than was there; verify finds no fault that was not there."""
    rng = case.rng
    if case.story:
        return
    for name in ("segment.index.bytes", "high_watermark"):
        case.args["config"].pop(name, None)
        case.args.pop(name, None)
    case.args.update(clean=True, log_start_offset=min(bases_or_any(files_of(case.dir))))
    to = some_offset(rng, files_of(case.dir))
    asked_for = rng.choice(({"to": to}, {"to": to}, {"start_at": to}, {"force": True}))
    command = "roll" if "force" in asked_for else "truncate"
    (plan,) = decided(command, case.dir, arguments_of(case, purge=rng.random() < 0.5, **asked_for))
    before, after = files_of(case.dir), result_of(plan)
    faults = _faults(case.dir, before)
    for done in sorted(rng.sample(range(len(plan.steps) + 1), min(len(plan.steps) + 1, STATES_OF_A_PLAN))):
        state = read_all(files_after(Draft.of(plan.path), plan.steps[:done]))
        case.args.update(clean=rng.random() < 0.5, recovery_point=2**62)
        answer, found = asked(oracle, "recover", case, state)
        tally["states"] += 1
        told = f"{asked_for}, after {done} of {len(plan.steps)} steps ({case.args['clean']=}): "
        if "error" in answer:
            yield f"{told}{answer['error']}"
            continue
        yield from (told + wrong for wrong in _wrong_logs(before, after, found))
        # A log that begins anew at a later offset loses its old segments one by one: a gap is behind those left.
        allowed = {"segment-gap"} if "start_at" in asked_for else set()
        if new := _faults(case.dir, found) - faults - allowed:
            yield f"{told}verify finds {sorted(new)}"


def _wrong_logs(before: Files, after: Files, found: Files) -> Iterator[str]:
    """Logs that are no beginnings of what they were, or lack what is to stay."""
    for name, data in found.items():
        if name.endswith(".log") and not before.get(name, b"").startswith(data):
            yield f"{name} is not what it was"
    for name, data in after.items():
        if name.endswith(".log") and not found.get(name, b"").startswith(data):
            yield f"{name} lacks what was to stay"


def _faults(folder: Path, files: Files) -> set[str]:
    """Ids of the warnings and errors that verify finds."""
    at = folder.parent.parent / "verified" / folder.name
    shutil.rmtree(at.parent, ignore_errors=True)
    partition = klogtool.open(put(at, files))
    assert isinstance(partition, klogtool.Partition)
    return {found.id for found in partition.verify(deep=True) if found.severity.value != "info"}


QUESTIONS = {
    "truncate": Question(walk_logs, check_truncate),
    "start-at": Question(walk_logs, check_start_at),
    "roll": Question(walk_logs, check_roll),
    "roll-ahead": Question(walk_logs, check_roll_ahead),
    "broken-off": Question(walk_logs, check_broken_off),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", QUESTIONS)
def test_random_questions_about_random_logs(what: str) -> None:
    count = COUNT // len(QUESTIONS)
    tally = agreed(QUESTIONS[what], count)
    assert tally["done"] + tally["states"] > count // 3, tally


if __name__ == "__main__":
    sys.exit(report(QUESTIONS, parser_for(__doc__, QUESTIONS, count=1000).parse_args()))
