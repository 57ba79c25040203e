"""What Kafka's retention deletes of a log, and its DeleteRecords; what klogtool decides: the same, byte for byte.

Logs as in logs_at_work.py; limits at the byte and at the millisecond, policies, high watermarks, log starts,
files whose own time counts. KLOGTOOL_RETAIN_COUNT: how many questions are asked (default 80). For more: `python -m
tests.kafka.test_retention_against_kafka --count N --seed S [--only CHECK]`; `--case SEED.VARIANT` asks again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from deciding import decided

from klogtool.broker.draft import Draft
from klogtool.errors import KlogError
from klogtool.plans.plan import Plan, files_after

from .comparing import asked, change_differences, outcome, plan_differences, read_all
from .folders import bases_of, files_of
from .live import Question, Tally, agreed, parser_for, report
from .logs_at_work import arguments_of, bases_or_any, walk_logs
from .random_logs import Case, Makers

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_RETAIN_COUNT", "80"))
STATES_OF_A_PLAN = 4
SPREAD_MS = 3_600_000  # the times of files lie within an hour of the first record's


def draw_limits_and_times(case: Case) -> None:
    """What retention goes by: near what the log has. And the times of all files."""
    t0_ms = Makers().logs.T0
    _draw_limits(case, t0_ms)
    start_ms = t0_ms + case.rng.randint(-SPREAD_MS, SPREAD_MS)
    step_ms = case.rng.choice((0, 1000, -1000, 60_000))  # they fall or rise with their offsets, or neither
    for n, name in enumerate(sorted(files_of(case.dir))):
        os.utime(case.dir / name, ns=((start_ms + n * step_ms) * 10**6,) * 2)


def _draw_limits(case: Case, t0_ms: int) -> None:
    rng, config, at_ms = case.rng, case.args["config"], case.args["at_ms"]
    sizes = [len(data) for name, data in files_of(case.dir).items() if name.endswith(".log")] or [0]
    if rng.random() < 0.7:
        near_ms = at_ms - t0_ms - 1000 * rng.randrange(60)
        config["retention.ms"] = str(max(-1, rng.choice((near_ms, near_ms, 0, 1, -1, 2**63 - 1))))
    if rng.random() < 0.5:
        cut = sum(sizes[rng.randrange(len(sizes)) :])
        config["retention.bytes"] = str(max(-1, rng.choice((cut, cut, cut + 1, cut - 1, 0, 1, rng.randint(0, 9999)))))
    if rng.random() < 0.3:
        config["cleanup.policy"] = rng.choice(("compact", "", "compact,delete", "delete"))
    if case.args["clean"] and rng.random() < 0.2:
        case.args["at_ms"] = rng.choice((t0_ms - 10**6, t0_ms + 10**12, 2**62, 0))


def compared(
    oracle: Any,
    case: Case,
    tally: Tally,
    op: str,
    question: dict[str, Any],
    decide: Callable[[], Sequence[Plan]],
    fields: tuple[str, ...],
) -> Iterator[str]:
    answer, after = asked(oracle, op, case, **question)
    tally[outcome(answer)] += 1
    for deletion in answer.get("deletions", ()):
        tally["deletions"] += 1
        tally[deletion["reason"]] += 1

    def compare(plan: Plan) -> Iterator[str]:
        yield from change_differences(plan, answer, after, fields)
        yield from kept_differences(plan, answer)

    found = plan_differences(decide, answer, compare)
    yield from (f"{op} {question}: {difference}" for difference in found)


def kept_differences(plan: Plan, answer: dict[str, Any]) -> Iterator[str]:
    """The segments that stay, as retain tells them."""
    if "kept" in plan.answer:
        bases, kafkas = [row["segment"] for row in plan.answer["kept"]], [row[0] for row in answer["state"]["segments"]]
        if bases != kafkas:
            yield f"kept {bases}, Kafka {answer['state']['segments']}"


def check_retain(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """retain."""
    draw_limits_and_times(case)
    question = {"purge": True} if case.rng.random() < 0.2 else {}
    arguments = arguments_of(case, **question)
    yield from compared(
        oracle, case, tally, "retain", question, lambda: decided("retain", str(case.dir), arguments), ("deletions",)
    )


def check_delete_records(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """delete-records; time and size are left to retain."""
    case.args["config"].update({"retention.ms": "-1", "retention.bytes": "-1"})
    rng, bases = case.rng, bases_or_any(files_of(case.dir))
    base = rng.choice(bases)
    before = rng.choice((base, base, base + 1, base + rng.randrange(30), bases[-1] + 10**6, 0))
    question = {"before_offset": before}
    arguments = arguments_of(case, before=before)
    yield from compared(
        oracle,
        case,
        tally,
        "delete-records",
        question,
        lambda: decided("delete-records", str(case.dir), arguments),
        ("moved", "deletions"),
    )


def check_broken_off(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """A plan of retain of which some steps were done: what Kafka loads begins later, has no hole, ends as before."""
    draw_limits_and_times(case)
    try:
        (plan,) = decided("retain", str(case.dir), arguments_of(case))
    except KlogError:
        return
    before = bases_of(files_of(case.dir))
    if case.story or not plan.answer["deletions"]:
        return
    found = Draft.of(plan.path).before
    for done in sorted({case.rng.randrange(len(plan.steps) + 1) for _ in range(STATES_OF_A_PLAN)}):
        answer, _ = asked(
            oracle, "recover", case, read_all(files_after(Draft(plan.path, dict(found)), plan.steps[:done]))
        )
        tally["states"] += 1
        if "error" in answer:
            yield f"after {done} of {len(plan.steps)} steps Kafka refuses: {answer['error']}"
            continue
        state, wanted = answer["state"], plan.answer["state"]
        bases = [row[0] for row in state["segments"]]
        new = [base for base in bases if base not in before]
        if bases not in [[*before[gone:], *new] for gone in range(len(before) + 1)] or len(new) > 1:
            yield f"after {done} of {len(plan.steps)} steps: segments {bases} of {before}"
        if state["log_end_offset"] != wanted["log_end_offset"]:
            yield f"after {done} of {len(plan.steps)} steps: {state}, wanted {wanted}"


QUESTIONS = {
    "retain": Question(walk_logs, check_retain),
    "delete-records": Question(walk_logs, check_delete_records),
    "broken-off": Question(walk_logs, check_broken_off),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", QUESTIONS)
def test_random_questions_about_random_logs(what: str) -> None:
    tally = agreed(QUESTIONS[what], COUNT // len(QUESTIONS))
    assert tally["deletions"] or tally["states"], tally


if __name__ == "__main__":
    sys.exit(report(QUESTIONS, parser_for(__doc__, QUESTIONS, count=1000).parse_args()))
