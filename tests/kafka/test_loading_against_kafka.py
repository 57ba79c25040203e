"""What Kafka makes of damaged partition dirs as it loads them, and what klogtool decides: the same, byte for byte.

Also of what is left of a plan that broke off, and for single segments. KLOGTOOL_LOAD_COUNT: how many cases are asked
(default 300). For more: `python -m tests.kafka.test_loading_against_kafka --count N --seed S [--only CHECK]`; `--case
SEED.VARIANT` makes a case again that was told of.
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

from klogtool.errors import KlogError
from klogtool.repair import rebuild, recover
from klogtool.repair.draft import Content, Draft, read_content
from klogtool.repair.plan import Plan
from klogtool.repair.steps import carried_out

from .kafka import scratch_folder
from .random_logs import Case, Files, Makers, files_of, put, walk_cases

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_LOAD_COUNT", "300"))
STATES_OF_A_PLAN = 4
EPOCHS = "leader-epoch-checkpoint"
SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot")
COMPARED = (".log", *SIDE_FILES, ".deleted", EPOCHS)
# (Kafka's class, klogtool's). A wrapper whose gzip trailer is wrong is read by Kafka up to there, by klogtool not at
# all: what is in it may be wrong, too, or ask for more memory than the oracle has.
FORGIVEN = [("OutOfMemoryError", "KafkaException"), ("CorruptRecordException", "KafkaException")]

Tally: TypeAlias = Counter[str]
Check: TypeAlias = Callable[[Any, Case, Tally], Iterator[str]]


def simple_name(error: Mapping[str, Any]) -> str:
    name: str = error["class"].rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    return name


def result_of(plan: Plan) -> Files:
    """The files as the steps of a plan leave them."""
    return read_all(carried_out(Draft.of(plan.path).before, plan.steps))


def read_all(contents: Mapping[str, Content]) -> Files:
    return {name: read_content(content) for name, content in contents.items()}


def differences(ours: Files, kafkas: Files) -> Iterator[str]:
    if sorted(ours) != sorted(kafkas):
        yield f"only klogtool has {sorted(set(ours) - set(kafkas))}, only Kafka {sorted(set(kafkas) - set(ours))}"
    for name in sorted(set(ours) & set(kafkas)):
        if name.endswith(COMPARED) and ours[name] != kafkas[name]:
            yield f"{name}: {shown(ours[name])}, Kafka {shown(kafkas[name])}"


def shown(data: bytes) -> str:
    return f"{data[:60].hex()} ({len(data)} bytes)"


def asked(oracle: Any, op: str, case: Case, files: Files | None = None, **more: Any) -> tuple[dict[str, Any], Files]:
    """Kafka's answer, asked on a copy, and the files afterwards."""
    folder = case.dir.parent.parent / "asked" / case.dir.name
    shutil.rmtree(folder.parent, ignore_errors=True)
    put(folder, files_of(case.dir) if files is None else files)
    answer = oracle.ask(op, dir=str(folder), **case.args, **more)
    return answer, files_of(folder)


def refusal(error: KlogError, answer: Mapping[str, Any]) -> Iterator[str]:
    """Whether Kafka refuses with the same class."""
    kafkas = simple_name(answer["error"]) if "error" in answer else None
    if kafkas != error.kafka_class and (kafkas, error.kafka_class) not in FORGIVEN:
        yield f"klogtool refuses ({error.kafka_class}: {error}), Kafka: {answer.get('error')}"


# --- the checks -------------------------------------------------------------------------------------------------------


def check_recover(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """verify --recover: the answer and every file."""
    answer, after = asked(oracle, "recover", case)
    tally[simple_name(answer["error"]) if "error" in answer else "loaded"] += 1
    try:
        (plan,) = recover.decide(str(case.dir), case.arguments)
    except KlogError as error:
        yield from refusal(error, answer)
        return
    if "error" in answer:
        yield f"Kafka refuses: {answer['error']}"
        return
    for name in ("recovered", "deleted_segments", "split", "log_start_offset", "log_end_offset"):
        if plan.answer[name] != answer[name]:
            yield f"{name}: {plan.answer[name]}, Kafka {answer[name]}"
    ours, kafkas = (
        [[row["segment"], row["position"], row["bytes"]] for row in told["truncated"]] for told in (plan.answer, answer)
    )
    if ours != kafkas:
        yield f"truncated: {ours}, Kafka {kafkas}"
    yield from differences(result_of(plan), after)


def check_broken_off(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """A plan of which some steps were done: what Kafka makes of that is what it makes of the whole.

    But for what Kafka itself makes otherwise when it loads its own result once more; and a snapshot that is not the
    newest may be missing, or an index may keep a useless tail.
    """
    try:
        (plan,) = recover.decide(str(case.dir), case.arguments)
    except KlogError:
        return
    before, wanted, again = Draft.of(plan.path).before, lasting(result_of(plan)), None
    states = random.Random(case.told).sample(range(len(plan.steps) + 1), min(len(plan.steps) + 1, STATES_OF_A_PLAN))
    for done in sorted(states):
        answer, after = asked(oracle, "recover", case, read_all(carried_out(before, plan.steps[:done])))
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
    tally[simple_name(answer["error"]) if "error" in answer else "rebuilt"] += 1
    try:
        (plan,) = rebuild.decide(str(case.dir), {**case.arguments, "segments": [base]})
    except KlogError as error:
        yield from refusal(error, answer)
        return
    if "error" in answer:
        yield f"Kafka refuses: {answer['error']}"
        return
    (row,) = rebuild.answer_rows(plan)
    for name, value in row.items():
        if name != "segment" and value != answer[name]:
            yield f"{name}: {value}, Kafka {answer[name]}"
    yield from differences(*(judged(files, (f"{base:020d}.", EPOCHS)) for files in (result_of(plan), after)))


def judged(files: Files, beginnings: tuple[str, ...]) -> Files:
    return {name: data for name, data in files.items() if name.startswith(beginnings) or name.endswith(".snapshot")}


def check_rebuild(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """rebuild-index of all: what recovery from the start writes, if it would cut nothing; else a refusal."""
    case.args.update(clean=False, recovery_point=0)
    answer, after = asked(oracle, "recover", case, {n: data for n, data in files_of(case.dir).items() if n != EPOCHS})
    try:
        (plan,) = rebuild.decide(str(case.dir), case.arguments)
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
    ours, kafkas = (
        {name: data for name, data in files.items() if name.endswith(SIDE_FILES)} for files in (result_of(plan), after)
    )
    yield from differences(ours, kafkas)


CHECKS: dict[str, Check] = {
    "recover": check_recover,
    "broken-off": check_broken_off,
    "segment": check_segment,
    "rebuild": check_rebuild,
}


@pytest.mark.parametrize("what", CHECKS)
def test_random_damages_of_random_logs(what: str) -> None:
    tally: Tally = Counter()
    told = list(run(what, seed=1, count=COUNT // len(CHECKS), tally=tally))
    assert not told, f"{len(told)} differ ({dict(tally)}); the first:\n{told[0]}"
    assert tally, what


def run(what: str, *, seed: int, count: int, tally: Tally, only: str | None = None) -> Iterator[str]:
    """Cases that differ, each told."""
    makers = Makers()
    work = scratch_folder("klogtool-load-")
    try:
        with makers.cases.Oracle() as oracle:
            for case in walk_cases(makers, oracle, work / "work", seed, count):
                if only in (None, case.told):
                    for difference in CHECKS[what](oracle, case, tally):
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
    seed, count = (int(given.case.split(".")[0]), 12) if given.case else (given.seed, given.count)
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
