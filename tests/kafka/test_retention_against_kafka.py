"""What Kafka's retention deletes of a log, and its DeleteRecords; what klogtool decides: the same, byte for byte.

Logs as in test_log_against_kafka.py; limits at the byte and at the millisecond, policies, high watermarks, log starts,
files whose own time counts. KLOGTOOL_RETAIN_COUNT: how many questions are asked (default 80). For more: `python -m
tests.kafka.test_retention_against_kafka --count N --seed S [--only CHECK]`; `--case SEED.VARIANT` asks again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from klogtool.errors import KlogError
from klogtool.repair import delete_records, retain
from klogtool.repair.draft import Draft
from klogtool.repair.steps import carried_out

from .kafka import scratch_folder
from .random_logs import Case, Files, Makers, files_of, put
from .test_loading_against_kafka import (
    STATES_OF_A_PLAN,
    asked,
    differences,
    read_all,
    refusal,
    result_of,
    simple_name,
)
from .test_log_against_kafka import STATE, VARIANTS, Check, Tally, arguments_of, walk_logs

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_RETAIN_COUNT", "80"))
SPREAD_MS = 3_600_000  # the times of files lie within an hour of the first record's


def set_times(folder: Path, times_ms: dict[str, int]) -> None:
    for name, ms in times_ms.items():
        os.utime(folder / name, ns=(ms * 10**6, ms * 10**6))


def sizes_of(files: Files) -> list[int]:
    return [len(data) for name, data in sorted(files.items()) if name.endswith(".log")]


def draw_limits(case: Case, rng: random.Random, makers: Makers) -> None:
    """What retention goes by: near what the log has."""
    config, files = case.args["config"], files_of(case.dir)
    sizes, at_ms = sizes_of(files) or [0], case.args["at_ms"]
    if rng.random() < 0.7:
        near_ms = at_ms - makers.logs.T0 - 1000 * rng.randrange(60)
        config["retention.ms"] = str(max(-1, rng.choice((near_ms, near_ms, 0, 1, -1, 2**63 - 1))))
    if rng.random() < 0.5:
        cut = sum(sizes[rng.randrange(len(sizes)) :])
        config["retention.bytes"] = str(max(-1, rng.choice((cut, cut, cut + 1, cut - 1, 0, 1, rng.randint(0, 9999)))))
    if rng.random() < 0.3:
        config["cleanup.policy"] = rng.choice(("compact", "", "compact,delete", "delete"))
    if case.args["clean"] and rng.random() < 0.2:
        case.args["at_ms"] = rng.choice((makers.logs.T0 - 10**6, makers.logs.T0 + 10**12, 2**62, 0))


def times_for(case: Case, rng: random.Random, makers: Makers) -> dict[str, int]:
    """The times of all files, which fall or rise with their offsets, or neither."""
    names = sorted(files_of(case.dir))
    start_ms = makers.logs.T0 + rng.randint(-SPREAD_MS, SPREAD_MS)
    step_ms = rng.choice((0, 1000, -1000, 60_000))
    return {name: start_ms + n * step_ms for n, name in enumerate(names)}


def compared(
    oracle: Any, case: Case, tally: Tally, op: str, question: dict[str, Any], decide: Callable[..., Any], fields: Any
) -> Iterator[str]:
    folder = case.dir.parent.parent / "asked" / case.dir.name
    shutil.rmtree(folder.parent, ignore_errors=True)
    put(folder, files_of(case.dir))
    set_times(folder, {path.name: path.stat().st_mtime_ns // 10**6 for path in case.dir.iterdir() if path.is_file()})
    answer = oracle.ask(op, dir=str(folder), **case.args, **question)
    tally[simple_name(answer["error"]) if "error" in answer else "done"] += 1
    told = f"{op} {question}: "
    try:
        (plan,) = decide()
    except KlogError as error:
        yield from (told + found for found in refusal(error, answer))
        return
    if "error" in answer:
        yield f"{told}Kafka refuses: {answer['error']}"
        return
    tally["deletions"] += len(answer["deletions"])
    for deletion in answer["deletions"]:
        tally[deletion["reason"]] += 1
    for name in fields:
        if plan.answer.get(name) != answer.get(name):
            yield f"{told}{name}: {plan.answer.get(name)}, Kafka {answer.get(name)}"
    for name in STATE:
        if plan.answer["state"][name] != answer["state"][name]:
            yield f"{told}state.{name}: {plan.answer['state'][name]}, Kafka {answer['state'][name]}"
    bases = [row["segment"] for row in plan.answer.get("kept", ())]
    if "kept" in plan.answer and bases != [row[0] for row in answer["state"]["segments"]]:
        yield f"{told}kept {bases}, Kafka {answer['state']['segments']}"
    yield from (told + found for found in differences(result_of(plan), files_of(folder)))


def check_retain(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """retain."""
    makers = Makers()
    draw_limits(case, rng, makers)
    set_times(case.dir, times_for(case, rng, makers))
    question = {"purge": True} if rng.random() < 0.2 else {}
    arguments = arguments_of(case, **question)
    yield from compared(
        oracle, case, tally, "retain", question, lambda: retain.decide(str(case.dir), arguments), ("deletions",)
    )


def check_delete_records(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """delete-records; time and size are left to retain."""
    case.args["config"].update({"retention.ms": "-1", "retention.bytes": "-1"})
    bases = sorted(int(path.name[:20]) for path in case.dir.glob("*.log") if path.name[:20].isdigit()) or [0]
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
        lambda: delete_records.decide(str(case.dir), arguments),
        ("moved", "deletions"),
    )


def check_broken_off(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """A plan of retain of which some steps were done: what Kafka loads begins later, has no hole, ends as before."""
    makers = Makers()
    draw_limits(case, rng, makers)
    set_times(case.dir, times_for(case, rng, makers))
    try:
        (plan,) = retain.decide(str(case.dir), arguments_of(case))
    except KlogError:
        return
    before = bases_of(files_of(case.dir))
    if case.story or not plan.answer["deletions"]:
        return
    found = Draft.of(plan.path).before
    for done in sorted({rng.randrange(len(plan.steps) + 1) for _ in range(STATES_OF_A_PLAN)}):
        answer, _ = asked(oracle, "recover", case, read_all(carried_out(found, plan.steps[:done])))
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


def bases_of(files: Files) -> list[int]:
    return sorted(int(name.removesuffix(".log")) for name in files if name.endswith(".log"))


CHECKS: dict[str, Check] = {
    "retain": check_retain,
    "delete-records": check_delete_records,
    "broken-off": check_broken_off,
}


@pytest.mark.parametrize("what", CHECKS)
def test_random_questions_about_random_logs(what: str) -> None:
    tally: Tally = Counter()
    told = list(run(what, seed=1, count=COUNT // len(CHECKS), tally=tally))
    assert not told, f"{len(told)} differ ({dict(tally)}); the first:\n{told[0]}"
    assert tally["deletions"] or tally["states"], tally


def run(what: str, *, seed: int, count: int, tally: Tally, only: str | None = None) -> Iterator[str]:
    """Questions that are answered otherwise, each told."""
    makers = Makers()
    work = scratch_folder("klogtool-retain-")
    try:
        with makers.cases.Oracle() as oracle:
            for case, rng in walk_logs(makers, oracle, work / "work", seed, count):
                if only in (None, case.told):
                    for difference in CHECKS[what](oracle, case, rng, tally):
                        yield f"case {case.told}: {case.story} {case.args}\n    {difference}"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=CHECKS)
    parser.add_argument("--case", metavar="SEED.VARIANT")
    given = parser.parse_args(args)
    seed, count = (int(given.case.split(".")[0]), VARIANTS) if given.case else (given.seed, given.count)
    status = 0
    for what in [given.only] if given.only else CHECKS:
        tally: Tally = Counter()
        for told in run(what, seed=seed, count=count, tally=tally, only=given.case):
            status = 1
            print(told, flush=True)
        print(what, dict(tally.most_common()), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
