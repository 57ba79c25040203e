"""What Kafka makes of damaged partition dirs as it loads them, and what klogtool decides: the same, byte for byte.

Also of what is left of a plan that broke off, and for single segments. KLOGTOOL_LOAD_COUNT: how many cases are asked
(default 300). For more: `python -m tests.kafka.test_loading_against_kafka --count N --seed S [--only CHECK]`; `--case
SEED.VARIANT` makes a case again that was told of.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from deciding import decided
from msgspec import json

from klogtool.broker.draft import Draft
from klogtool.errors import KlogError
from klogtool.plans import rebuild_index
from klogtool.plans.plan import Plan, files_after

from .comparing import (
    EPOCHS,
    SIDE_FILES,
    asked,
    differences,
    field_differences,
    outcome,
    plan_differences,
    read_all,
    result_of,
)
from .folders import Files, files_of
from .live import Question, Tally, agreed, parser_for, report
from .random_logs import Case, walk_damaged

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_LOAD_COUNT", "300"))
STATES_OF_A_PLAN = 4
LOGS_ARE_GONE = 0.1  # of the logs whose side files are made again


def check_recover(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """recover: the answer and every file."""
    answer, after = asked(oracle, "recover", case)
    tally[outcome(answer, "loaded")] += 1

    def compare(plan: Plan) -> Iterator[str]:
        fields = ("recovered", "deleted_segments", "split", "log_start_offset", "log_end_offset")
        yield from field_differences(plan.answer, answer, fields)
        ours, kafkas = (
            [[row["segment"], row["position"], row["bytes"]] for row in told["truncated"]]
            for told in (plan.answer, answer)
        )
        if ours != kafkas:
            yield f"truncated: {ours}, Kafka {kafkas}"
        yield from differences(result_of(plan), after)

    yield from plan_differences(lambda: list(decided("recover", str(case.dir), case.arguments)), answer, compare)


def check_broken_off(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """A plan of which some steps were done: what Kafka makes of that is what it makes of the whole.

    But for what Kafka itself makes otherwise when it loads its own result once more; and a snapshot that is not the
    newest may be missing, or an index may keep a useless tail.
    """
    try:
        (plan,) = decided("recover", str(case.dir), case.arguments)
    except KlogError:
        return
    before, wanted, again = Draft.of(plan.path).before, lasting(result_of(plan)), None
    states = random.Random(case.told).sample(range(len(plan.steps) + 1), min(len(plan.steps) + 1, STATES_OF_A_PLAN))
    for done in sorted(states):
        answer, after = asked(
            oracle, "recover", case, read_all(files_after(Draft(plan.path, dict(before)), plan.steps[:done]))
        )
        tally["states"] += 1
        found = lasting(after)
        wrong = {name for name in {*found, *wanted} if found.get(name) != wanted.get(name)}
        if wrong and again is None:
            again = lasting(asked(oracle, "recover", case, result_of(plan))[1])
        wrong -= {name for name in wrong if again is not None and found.get(name) == again.get(name)}
        wrong -= {name for name in wrong if name.endswith((".snapshot", ".index"))}
        # A transaction index without entries, or none: a split over a file of its name leaves it.
        wrong -= {name for name in wrong if name.endswith(".txnindex") and not found.get(name) and not wanted.get(name)}
        if wrong or "error" in answer:
            yield f"after {done} of {len(plan.steps)} steps: {answer.get('error')} {sorted(wrong)}"


def lasting(files: Files) -> Files:
    """Without what a broker removes a minute later, or at its next start."""
    return {name: data for name, data in files.items() if not name.endswith(".deleted")}


def check_segment(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """rebuild-index --segment: the answer, the segment's files, the snapshots and the leader epochs."""
    stems = [path.name.split(".")[0] for path in sorted(case.dir.glob("*.log"))]
    if not stems or not all(stem.isdigit() and len(stem) == 20 for stem in stems):
        return
    base = int(random.Random(case.told).choice(stems))
    answer, after = asked(oracle, "rebuild-segment", case, base=base)
    tally[outcome(answer, "rebuilt")] += 1

    def compare(plan: Plan) -> Iterator[str]:
        (row,) = (json.decode(json.encode(rebuilt)) for rebuilt in rebuild_index.walk_rebuilt(plan))
        yield from field_differences(row, answer, [name for name in row if name != "segment"])
        yield from differences(*(judged(files, (f"{base:020d}.", EPOCHS)) for files in (result_of(plan), after)))

    arguments = {**case.arguments, "segments": [base]}
    yield from plan_differences(lambda: list(decided("rebuild-index", str(case.dir), arguments)), answer, compare)


def judged(files: Files, beginnings: tuple[str, ...]) -> Files:
    return {name: data for name, data in files.items() if name.startswith(beginnings) or name.endswith(".snapshot")}


def check_rebuild(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """rebuild-index of all: what recovery from the start writes, if it would cut nothing; else a refusal."""
    case.args.update(clean=False, recovery_point=0)
    if case.rng.random() < LOGS_ARE_GONE:
        tally["without a .log"] += 1
        for path in case.dir.glob("*.log"):
            path.unlink()
    answer, after = asked(oracle, "recover", case, {n: data for n, data in files_of(case.dir).items() if n != EPOCHS})
    try:
        (plan,) = decided("rebuild-index", str(case.dir), case.arguments)
    except KlogError as error:
        tally["refused"] += 1
        is_whole = "error" not in answer and not (answer["truncated"] or answer["deleted_segments"] or answer["split"])
        if is_whole and "an interrupted operation" not in error.reason:
            yield f"klogtool refuses ({error}), Kafka does not"
        return
    tally["rebuilt"] += 1
    if "error" in answer:
        yield f"Kafka refuses: {answer['error']}"
        return
    # Kafka makes the first segment of an empty log, and its indexes. A `.log` is no side file.
    made = {name.removesuffix("log") for name in after if name.endswith(".log") and not (case.dir / name).exists()}
    ours, kafkas = (
        {name: data for name, data in files.items() if name.endswith(SIDE_FILES)} for files in (result_of(plan), after)
    )
    new = {name for name in kafkas if name.endswith("index") and any(name.startswith(stem) for stem in made)}
    yield from differences(ours, {name: data for name, data in kafkas.items() if name not in new})


QUESTIONS = {
    "recover": Question(walk_damaged, check_recover),
    "broken-off": Question(walk_damaged, check_broken_off),
    "segment": Question(walk_damaged, check_segment),
    "rebuild": Question(walk_damaged, check_rebuild),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", QUESTIONS)
def test_random_damages_of_random_logs(what: str) -> None:
    tally = agreed(QUESTIONS[what], COUNT // len(QUESTIONS))
    assert tally, what


if __name__ == "__main__":
    sys.exit(report(QUESTIONS, parser_for(__doc__, QUESTIONS, count=1000).parse_args()))
