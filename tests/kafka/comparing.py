"""Kafka's answer and klogtool's plan side by side: refusals, fields, state, and the files that each leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft, DraftFile
from klogtool.errors import KlogError
from klogtool.plans.plan import Plan, files_after

from .folders import Files, files_of, put
from .random_logs import Case

EPOCHS = "leader-epoch-checkpoint"
SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot")
COMPARED = (".log", *SIDE_FILES, ".deleted", EPOCHS)
STATE = ("log_start_offset", "log_end_offset", "log_start_checkpoint")
# (Kafka's class, klogtool's). A wrapper whose gzip trailer is wrong is read by Kafka up to there, by klogtool not at
# all: what is in it may be wrong, too, or ask for more memory than the oracle has.
FORGIVEN = [("OutOfMemoryError", "KafkaException"), ("CorruptRecordException", "KafkaException")]

# --- asking -----------------------------------------------------------------------------------------------------------


def asked(oracle: Any, op: str, case: Case, files: Files | None = None, **more: Any) -> tuple[dict[str, Any], Files]:
    """Kafka's answer, asked on a copy (or on other files in its place), and the files afterwards."""
    folder = copy_for_kafka(case)
    shutil.rmtree(folder.parent, ignore_errors=True)
    if files is None:
        shutil.copytree(case.dir, folder)  # with the times of the files
    else:
        put(folder, files)
    answer = oracle.ask(op, dir=str(folder), **case.args, **more)
    return answer, files_of(folder)


def copy_for_kafka(case: Case) -> Path:
    """Where Kafka is asked; what it left is there until the next question."""
    return case.dir.parent.parent / "asked" / case.dir.name


def read_all(files: Mapping[str, DraftFile]) -> Files:
    return {name: read_content(file.content) for name, file in files.items()}


def result_of(plan: Plan) -> Files:
    """The files as the steps of a plan leave them."""
    return read_all(files_after(Draft.of(plan.path), plan.steps))


# --- comparing --------------------------------------------------------------------------------------------------------


def simple_name(error: Mapping[str, Any]) -> str:
    """The class of an exception without its package and what it is nested in."""
    name: str = error["class"].rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    return name


def outcome(answer: Mapping[str, Any], done: str = "done") -> str:
    """What to count an answer of Kafka's as: the exception that it refused with, or else that it has done it."""
    return simple_name(answer["error"]) if "error" in answer else done


def refusal(error: KlogError, answer: Mapping[str, Any]) -> Iterator[str]:
    """Whether Kafka refuses with the same class."""
    kafkas = simple_name(answer["error"]) if "error" in answer else None
    if kafkas != error.kafka_class and (kafkas, error.kafka_class) not in FORGIVEN:
        yield f"klogtool refuses ({error.kafka_class}: {error}), Kafka: {answer.get('error')}"


def plan_differences(
    decide: Callable[[], Sequence[Plan]], answer: Mapping[str, Any], compare: Callable[[Plan], Iterator[str]]
) -> Iterator[str]:
    """The same refusal; or what `compare` finds of the plan."""
    try:
        (plan,) = decide()
    except KlogError as error:
        yield from refusal(error, answer)
        return
    if "error" in answer:
        yield f"Kafka refuses: {answer['error']}"
        return
    yield from compare(plan)


def change_differences(plan: Plan, answer: Mapping[str, Any], after: Files, fields: Sequence[str]) -> Iterator[str]:
    """Of a log that was changed: the answer, the state and the files. A field may be in no answer."""
    absent = dict.fromkeys(fields)
    yield from field_differences(absent | plan.answer, absent | dict(answer), fields)
    yield from state_differences(plan.answer, answer)
    yield from differences(result_of(plan), after)


def field_differences(ours: Mapping[str, Any], kafkas: Mapping[str, Any], fields: Sequence[str]) -> Iterator[str]:
    for name in fields:
        if ours[name] != kafkas[name]:
            yield f"{name}: {ours[name]}, Kafka {kafkas[name]}"


def state_differences(ours: Mapping[str, Any], kafkas: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"state.{found}" for found in field_differences(ours["state"], kafkas["state"], STATE))


def differences(ours: Files, kafkas: Files) -> Iterator[str]:
    if sorted(ours) != sorted(kafkas):
        yield f"only klogtool has {sorted(set(ours) - set(kafkas))}, only Kafka {sorted(set(kafkas) - set(ours))}"
    for name in sorted(set(ours) & set(kafkas)):
        if name.endswith(COMPARED) and ours[name] != kafkas[name]:
            yield f"{name}: {_shown(ours[name])}, Kafka {_shown(kafkas[name])}"


def _shown(data: bytes) -> str:
    return f"{data[:60].hex()} ({len(data)} bytes)"
