"""What Kafka makes of a log at work, and what klogtool decides: cut, begun anew, rolled; the same, byte for byte.

Logs of all magics and codecs, with transactions, epochs and gaps, sound or damaged, after a clean stop or a kill; index
sizes that leave room for nothing. KLOGTOOL_LOG_COUNT: how many questions are asked (default 120). For more: `python -m
tests.kafka.test_log_against_kafka --count N --seed S [--only CHECK]`; `--case SEED.VARIANT` asks again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pytest

import klogtool
from klogtool.errors import KlogError
from klogtool.repair import roll, truncate
from klogtool.repair.change import Change, plan_change
from klogtool.repair.draft import Draft
from klogtool.repair.plan import Plan
from klogtool.repair.steps import carried_out
from klogtool.repair.unified_log.rolling import roll as roll_log

from .kafka import scratch_folder
from .random_logs import Case, Files, Makers, Path, files_of, put, wound
from .test_loading_against_kafka import asked, differences, read_all, refusal, result_of, simple_name

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_LOG_COUNT", "120"))
VARIANTS = 8  # questions about one log
STATES_OF_A_PLAN = 5
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"magics": (0, 1, 2)},
    {"magics": (0,)},
    {"magics": (1,), "times": "rise"},
    {"gaps": 0.7, "batches": 45},
    {"magics": (2,), "epochs": 0.2},
    {"magics": (2,), "idempotent": 4},
    {"gaps": 0.3, "max_records": 6},
)
STATE = ("log_start_offset", "log_end_offset", "log_start_checkpoint")
INDEX_BYTES = ("4", "8", "12", "20", "24", "36", "40", "67", "100", "2000", "10485760")

Tally: TypeAlias = Counter[str]
Check: TypeAlias = Callable[[Any, Case, random.Random, Tally], Iterator[str]]


def walk_logs(makers: Makers, oracle: Any, work: Path, seed: int, count: int) -> Iterator[tuple[Case, random.Random]]:
    """So many logs to put a question about, some of each made; a case is gone when the next one is asked for."""
    made = 0
    while made < count:
        rng = random.Random(f"log:{seed}")
        bench = makers.cases.Bench(oracle, rng, work / "made", 0)
        shapes = (*SHAPES, makers.damage.TXN, makers.damage.TXN, makers.damage.V2)
        try:
            folder, config, shape = bench.log(**rng.choice(shapes))
            if rng.random() < 0.2:
                bench.compacted(folder, config)
            files = files_of(folder)
            for variant in range(min(VARIANTS, count - made)):
                made += 1
                yield _case(makers, work, f"{seed}.{variant}", folder.name, files, dict(config), shape)
        except RuntimeError:  # a random log that Kafka does not append; the next one
            continue
        finally:
            seed += 1
            shutil.rmtree(work, ignore_errors=True)


def _case(
    makers: Makers, work: Path, told: str, folder: str, files: Files, config: dict[str, str], shape: Any
) -> tuple[Case, random.Random]:
    rng = random.Random(f"log:{told}")
    shutil.rmtree(work / "case", ignore_errors=True)
    path = put(work / "case" / folder, files)
    start_ms = makers.logs.T0 + rng.choice((1000, 100_000, 86_000_000))
    args: dict[str, Any] = {"clean": rng.random() < 0.75, "now_ms": start_ms}
    args["at_ms"] = start_ms + rng.choice((0, 1, 40_000, 10**7, 10**9))
    if not args["clean"]:
        args["recovery_point"] = rng.choice((0, 0, *_bases(files)))
    if shape.first_offset or rng.random() < 0.3:
        args["log_start_offset"] = rng.choice((shape.first_offset, _offset(rng, files)))
    if rng.random() < 0.3:
        args["high_watermark"] = _offset(rng, files)
    config["index.interval.bytes"] = rng.choice(("0", "50", "300", "4096"))
    if rng.random() < 0.4:
        config["segment.index.bytes"] = rng.choice(INDEX_BYTES)
    if rng.random() < 0.1:
        config["preallocate"] = "true"
    story = [wound(rng, path, args, config) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    return Case(told, path, {**args, "config": config}, story), rng


def _bases(files: Files) -> list[int]:
    names = (name.removesuffix(".log") for name in files if name.endswith(".log"))
    return sorted(int(name) for name in names if name.isdigit()) or [7]


def _offset(rng: random.Random, files: Files) -> int:
    """Of the log mostly: at a segment's base, near it, anywhere; below it or far above."""
    bases = _bases(files)
    near = rng.choice(bases) + rng.choice((-1, 0, 0, 1, 2, 5))
    return max(0, rng.choice((near, near, near, rng.randint(bases[0], bases[-1] + 20), 0, bases[-1] + 1000)))


# --- the checks -------------------------------------------------------------------------------------------------------


def arguments_of(case: Case, **more: Any) -> dict[str, Any]:
    args = case.args
    given = {"loaded_at_ms": args["now_ms"], "now_ms": args["at_ms"], "high_watermark": args.get("high_watermark")}
    return {**case.arguments, **given, **more}


def compared(
    oracle: Any,
    case: Case,
    tally: Tally,
    op: str,
    question: Mapping[str, Any],
    decide: Callable[[], Iterator[Plan]],
    fields: tuple[str, ...],
) -> Iterator[str]:
    """The same refusal; or the same answer, state and files."""
    answer, after = asked(oracle, op, case, **question)
    tally[simple_name(answer["error"]) if "error" in answer else "done"] += 1
    told = f"{op} {dict(question)}: "
    try:
        (plan,) = decide()
    except KlogError as error:
        yield from (told + found for found in refusal(error, answer))
        return
    if "error" in answer:
        yield f"{told}Kafka refuses: {answer['error']}"
        return
    for name in fields:
        if plan.answer.get(name) != answer.get(name):
            yield f"{told}{name}: {plan.answer.get(name)}, Kafka {answer.get(name)}"
    for name in STATE:
        if plan.answer["state"][name] != answer["state"][name]:
            yield f"{told}state.{name}: {plan.answer['state'][name]}, Kafka {answer['state'][name]}"
    yield from (told + found for found in differences(result_of(plan), _without_room(after)))


def _without_room(files: Files) -> Files:
    """A preallocated segment that goes as soon as it has come is never closed, and keeps its zeros; not klogtool's."""
    return {name: b"" if name.endswith(".log.deleted") and not any(data) else data for name, data in files.items()}


def check_truncate(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """truncate --to."""
    to = -1 if rng.random() < 0.05 else _offset(rng, files_of(case.dir))
    purge = rng.random() < 0.2
    arguments = arguments_of(case, to=to, purge=purge)
    yield from compared(
        oracle,
        case,
        tally,
        "truncate",
        {"to": to, "purge": purge},
        lambda: truncate.decide(str(case.dir), arguments),
        ("truncated",),
    )


def check_start_at(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """truncate --start-at."""
    question: dict[str, Any] = {"to": _offset(rng, files_of(case.dir))}
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
        lambda: truncate.decide(str(case.dir), arguments),
        (),
    )


def check_roll(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """roll: every condition, and what it leaves."""
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
        lambda: roll.decide(str(case.dir), arguments),
        ("due", "rolled_to", *(() if "force" in more else ("why",))),
    )


def _incoming(rng: random.Random, case: Case) -> dict[str, int]:
    files = files_of(case.dir)
    base, limit = _bases(files)[-1], int(case.args["config"]["segment.bytes"])
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


def check_roll_ahead(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """A roll to an offset that is expected next, as appending makes it."""
    ahead = _offset(rng, files_of(case.dir))
    arguments = arguments_of(case)
    yield from compared(
        oracle,
        case,
        tally,
        "roll",
        {"force": True, "expected_next_offset": ahead},
        lambda: plan_change(
            "roll", str(case.dir), arguments, lambda log: Change({"rolled_to": roll_log(log, ahead).base_offset})
        ),
        ("rolled_to",),
    )


def check_broken_off(oracle: Any, case: Case, rng: random.Random, tally: Tally) -> Iterator[str]:
    """Plans of which some steps were done, and the broker starts then, by a clean marker or without one: it starts; all
    that is to stay is there, nothing else than was there; verify finds no fault that was not there."""
    if case.story:
        return
    for name in ("segment.index.bytes", "high_watermark"):
        case.args["config"].pop(name, None)
        case.args.pop(name, None)
    case.args.update(clean=True, log_start_offset=min(_bases(files_of(case.dir))))
    to = _offset(rng, files_of(case.dir))
    asked_for = rng.choice(({"to": to}, {"to": to}, {"start_at": to}, {"force": True}))
    decide = roll.decide if "force" in asked_for else truncate.decide
    (plan,) = decide(str(case.dir), arguments_of(case, purge=rng.random() < 0.5, **asked_for))
    before, after = files_of(case.dir), result_of(plan)
    faults = _faults(case.dir, before)
    for done in sorted(rng.sample(range(len(plan.steps) + 1), min(len(plan.steps) + 1, STATES_OF_A_PLAN))):
        state = read_all(carried_out(Draft.of(plan.path).before, plan.steps[:done]))
        case.args.update(clean=rng.random() < 0.5, recovery_point=2**62)
        answer, found = asked(oracle, "recover", case, state)
        tally["states"] += 1
        told = f"{asked_for}, after {done} of {len(plan.steps)} steps ({case.args['clean']=}): "
        if "error" in answer:
            yield f"{told}{answer['error']}"
            continue
        yield from (told + wrong for wrong in _wrong_logs(before, after, found))
        if new := _faults(case.dir, found) - faults:
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


CHECKS: dict[str, Check] = {
    "truncate": check_truncate,
    "start-at": check_start_at,
    "roll": check_roll,
    "roll-ahead": check_roll_ahead,
    "broken-off": check_broken_off,
}


@pytest.mark.parametrize("what", CHECKS)
def test_random_questions_about_random_logs(what: str) -> None:
    tally: Tally = Counter()
    told = list(run(what, seed=1, count=COUNT // len(CHECKS), tally=tally))
    assert not told, f"{len(told)} differ ({dict(tally)}); the first:\n{told[0]}"
    assert tally["done"] + tally["states"] > COUNT // len(CHECKS) // 3, tally


def run(what: str, *, seed: int, count: int, tally: Tally, only: str | None = None) -> Iterator[str]:
    """Questions that are answered otherwise, each told."""
    makers = Makers()
    work = scratch_folder("klogtool-log-")
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
