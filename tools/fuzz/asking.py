"""What questions to a damaged log dir have in common: where it lies, what is chosen, what must hold of a plan."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from choices import Choices
from damaged import EXTREMES
from msgspec import to_builtins
from trees import HERE, THERE

from klogtool import kernels
from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import Content, FileRange, read_content
from klogtool.broker.draft import Draft
from klogtool.cli.output import error_lines
from klogtool.errors import KlogError
from klogtool.format.names import OFFSET_DIGITS, FileKind, PartitionDirState, parse_file_name
from klogtool.json_rows import presentable, row_line
from klogtool.plans.append import STANDARD_INPUT
from klogtool.plans.decisions import DECISIONS, decide, question_type
from klogtool.plans.fields import WrongField
from klogtool.plans.plan import Plan, Truncate, Write, files_after, names_of
from klogtool.plans.question import Question as Asked
from klogtool.plans.question import read_question
from klogtool.plans.rejected_files import rejected_files
from klogtool.plans.saved_plan import SavedPlan
from klogtool.render.changes import append_text, roll_text, truncate_text
from klogtool.render.compact import compact_text
from klogtool.render.plans import plan_text
from klogtool.render.recover import recover_text
from klogtool.render.retain import delete_records_text, retain_text
from klogtool.render.salvage import salvage_text
from klogtool.render.words import words
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, VerifyOptions, verify

for module in DECISIONS.values():  # now, while modules are instrumented
    importlib.import_module(module)

INDEX_BYTES = "segment.index.bytes"  # nothing loads where no index fits in, which a plan need not meet
NOW_MS = 1_893_456_000_000  # 2030: no timestamp of a fixture is in its future
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"segment.bytes": "1500"},
    {"index.interval.bytes": "0"},
    {"index.interval.bytes": "256", INDEX_BYTES: "64"},
    {INDEX_BYTES: "0"},
    {INDEX_BYTES: "-1"},
    {"max.message.bytes": "100"},
    {"producer.id.expiration.ms": "1"},
    {"segment.bytes": "-9223372036854775808", "index.interval.bytes": "9223372036854775807"},
    {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"},
)
OFFSETS = (None, None, None, 0, 1, 7, 30, 31, 38, 60, *EXTREMES)

TEXTS: Mapping[str, Callable[[Plan], str]] = {
    "recover": recover_text,
    "salvage": salvage_text,
    "append": append_text,
    "truncate": truncate_text,
    "roll": roll_text,
    "retain": retain_text,
    "delete-records": delete_records_text,
    "compact": compact_text,
}
MENDED = ("batch-crc", "torn-batch", "zero-tail", "foreign-bytes", "index-", "timeindex-", "txnindex-")


class Broken(AssertionError):
    """An answer that cannot be right."""


def must(holds: bool, law: str, what: object = "") -> None:
    if not holds:
        raise Broken(f"{law}: {what}" if what != "" else law)


@dataclass(frozen=True)
class Place:
    """Where the log dirs lie; scratch: a folder that is not there, for results."""

    root: pathlib.Path
    scratch: pathlib.Path

    def partitions(self, top: str = HERE) -> list[str]:
        return self._names(top, os.path.isdir)

    def files(self, folder: str) -> list[str]:
        return self._names(folder, lambda path: not os.path.isdir(path))

    def _names(self, folder: str, test: Callable[[str], bool]) -> list[str]:
        return sorted(
            f"{folder}/{name}" for name in os.listdir(self.root / folder) if test(f"{self.root}/{folder}/{name}")
        )

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


Say = Callable[[str], None]
Question = Callable[[Choices, Place, Say], None]


# ---------------------------------------------------------------- plans


def ask_for_plans(rng: Choices, place: Place, say: Say, command: str, name: str, arguments: dict[str, Any]) -> None:
    is_tried, again = rng.chance(4), rng.chance(16)
    if is_tried:  # all of it is read, and whether that is loaded is no matter of what lies beside
        start = arguments["log_start_offset"] or 0
        arguments |= {"recovery_point": 0, "last_stop": "unclean", "log_start_offset": start}
    told = {key: value for key, value in arguments.items() if value not in (None, {}, [])}
    say(f"{command} {name} {told}")
    with refusals(place, say):
        for plan in decide(command, place.path(name), question_of(command, arguments)):
            check_plan(place, plan, with_text=again or is_tried)
            if plan.path == place.path(HERE) or plan.answer.keys() & {"skipped", "error"}:
                continue
            result = contents_after(plan)
            if command == "salvage":
                check_salvage(plan, result)
            if is_tried:
                check_result(place, plan, result)
        if again:
            check_again(command, place.path(name), arguments)


def question_of(command: str, arguments: dict[str, Any]) -> Asked:
    """As Python asks. Raises KlogError for what is of no possible value."""
    try:
        return read_question(question_type(command), {name: v for name, v in arguments.items() if v is not None})
    except WrongField as error:
        raise KlogError(str(error)) from None


def check_plan(place: Place, plan: Plan, *, with_text: bool) -> None:
    must(is_below(plan.path, place.root), "a plan is about what was asked for", plan.path)
    for step in plan.steps:
        for name in names_of(step):
            must(bool(name) and os.path.basename(name) == name, "steps stay in the plan's folder", step)
        must(not isinstance(step, Truncate) or step.size >= 0, "sizes", step)
    for content in (step.content for step in plan.steps if isinstance(step, Write)):
        for piece in content:
            if isinstance(piece, FileRange):
                must(is_below(piece.path, place.root), "bytes come from what was asked for", piece)
                must(0 <= piece.start <= piece.stop <= os.path.getsize(piece.path), "bytes are there", piece)
    must(plan.bytes_held >= 0, "bytes held", plan.bytes_held)
    if with_text:
        must(is_json(to_builtins(SavedPlan.of(plan).row)), "a plan is JSON", plan.path)
        must(bool(TEXTS.get(plan.command, plan_text)(plan)), "a plan has a text")


def contents_after(plan: Plan) -> dict[str, Content]:
    """What the folder would hold."""
    return {name: file.content for name, file in files_after(Draft.of(plan.path), plan.steps).items()}


def check_salvage(plan: Plan, result: Mapping[str, Content]) -> None:
    """Kept and rejected bytes are all bytes of the logs, each once; but for fields that were set right."""
    rejected_files(plan)
    logs = {path: os.path.getsize(path) for path in _logs_of(plan.path)}
    ranges: dict[str, list[tuple[int, int]]] = {path: [] for path in logs}
    for name, content in result.items():
        for piece in content if name.endswith(".log") else ():
            if isinstance(piece, FileRange) and piece.path in ranges:
                ranges[piece.path].append((piece.start, piece.stop))
    for part in plan.answer["rejected"]:
        ranges.setdefault(f"{plan.path}/{part['file']}", []).append((part["start"], part["end"]))
    for path, spans in ranges.items():
        spans.sort()
        overlaps = [(one, two) for one, two in pairwise(spans) if one[1] > two[0]]
        must(not overlaps, "no byte is kept twice, or kept and rejected", (path, overlaps))
        missing = logs.get(path, 0) - sum(end - start for start, end in spans)
        if path in logs and not plan.answer["mended"]:
            must(missing == 0, "no byte is neither kept nor rejected", (path, missing, spans))
    for loss in plan.answer["lost"]:
        first, last = loss["first_offset"], loss["last_offset"]
        must(None in (first, last) or first <= last, "offsets of a loss ascend", loss)


def _logs_of(folder: str) -> Iterator[str]:
    """The segments of a partition dir."""
    for file in map(parse_file_name, Draft.of(folder).names()):
        if file.kind is FileKind.LOG and not file.suffix and file.base_offset is not None:
            yield f"{folder}/{file.name}"


def check_result(place: Place, plan: Plan, result: Mapping[str, Content]) -> None:
    """A broker that starts on what was written has nothing to cut or to delete, and verify nothing to say of it."""
    name = os.path.basename(plan.path)
    if plan.command == "salvage":  # what is salvaged is no dir to be deleted any more
        name = name.removesuffix(PartitionDirState.DELETE.value)
    folder = place.scratch / name
    folder.mkdir(parents=True)
    try:
        for file, content in result.items():
            (folder / file).write_bytes(read_content(content))
        if plan.command != "rebuild-index":
            check_loads(plan, str(folder))
        if name.endswith(PartitionDirState.DELETE.value) or not mends_all(plan):
            return  # nobody looks into it; or not all of it is mended
        if has_a_log_that_is_no_file(plan.path):
            return  # Kafka, too, keeps the indexes beside it, and begins an empty log
        wrong = [
            str(found)
            for found in verify([str(folder)], VerifyOptions(Circumstances(now_ms=NOW_MS)))
            if is_wrong(found)
        ]
        must(not wrong, f"what {plan.command} leaves is sound", wrong)
    finally:
        shutil.rmtree(place.scratch)


def has_a_log_that_is_no_file(folder: str) -> bool:
    """A device, say: the loader passes it over, but the indexes of that name are no orphans to it."""
    with os.scandir(folder) as entries:
        return any(e.name.endswith(".log") and not e.is_file() and not e.is_dir() for e in entries)


def mends_all(plan: Plan) -> bool:
    is_part = plan.arguments.get("segments") or plan.arguments.get("only")
    return plan.arguments["log_start_offset"] == 0 and not is_part


def is_wrong(found: Finding | Summary) -> bool:
    return isinstance(found, Finding) and found.id.startswith(MENDED) and not is_time_zero(found)


def is_time_zero(found: Finding) -> bool:
    """The entry of a first record of the time 0: zeros, as a broker writes it, and as it makes them in advance."""
    return found.id == "index-untrimmed" and found.path.endswith(".timeindex") and (found.start, found.end) == (0, 12)


def check_loads(plan: Plan, folder: str) -> None:
    if any(has_odd_offset(name) for name in os.listdir(folder)):
        return  # Java reads +5.log as 5 and then makes 00000000000000000005.log beside it, anew at each load
    arguments = {**plan.question.circumstances.as_arguments(), "jobs": plan.question.jobs, "last_stop": "unclean"}
    arguments["config"] = {name: value for name, value in plan.arguments["config"].items() if name != INDEX_BYTES}
    end = end_of(plan)
    if "state" in plan.answer:  # a log at work: its start may have moved
        arguments["log_start_offset"] = plan.answer["state"]["log_start_offset"]
        is_doomed = plan.path.endswith(PartitionDirState.DELETE.value)  # no start looks into it
        if is_doomed or arguments["log_start_offset"] > end:  # truncate --start-at: the next start begins anew there
            return
    if plan.command == "salvage" and arguments["log_start_offset"] > end:
        arguments["log_start_offset"] = 0  # the plan says that it must not stay
    try:
        again = next(iter(decide("recover", folder, question_of("recover", arguments))))
    except KlogError as error:
        raise Broken(f"what {plan.command} leaves can be loaded: {error!r}") from error
    cut, deleted = again.answer["truncated"], again.answer["deleted_segments"]
    must(not cut and not deleted, f"what {plan.command} leaves is whole", (cut, deleted))
    must(has_failed_roll(plan) or again.answer["log_end_offset"] == end, f"what {plan.command} leaves ends there", end)


def has_failed_roll(plan: Plan) -> bool:
    """Whether no index could be made for a new segment: its `.log` stays, empty, and a start with room ends there."""
    errors = (row["error"] for row in plan.answer.get("appends", ()) if "error" in row and row["rolled"])
    return any(error["message"].startswith("Invalid max index size") for error in errors)


def has_odd_offset(name: str) -> bool:
    """Whether a log's name says an offset otherwise than a broker would write it."""
    offset, _, suffix = name.partition(".")
    return suffix == "log" and len(offset) != OFFSET_DIGITS


def end_of(plan: Plan) -> int:
    """Where the next start finds the end of the log."""
    answer = plan.answer
    found = answer.get("end_at_next_start", answer["state"]["log_end_offset"] if "state" in answer else None)
    return int(answer["log_end_offset"] if found is None else found)


def check_again(command: str, path: str, arguments: dict[str, Any]) -> None:
    """The same question has the same answer, also without the kernels."""
    plans = list(decide(command, path, question_of(command, arguments)))
    ids = [plan.id for plan in plans]
    must(
        ids == [plan.id for plan in decide(command, path, question_of(command, arguments))],
        "asked again, the same plan",
        path,
    )
    with the_other_reader():
        others = list(decide(command, path, question_of(command, arguments)))
    differing = [
        (mine.as_row(words), other.as_row(words))
        for mine, other in zip(plans, others, strict=False)
        if mine.id != other.id
    ]
    must(ids == [other.id for other in others], "kernels and reference plan the same", differing)


# ---------------------------------------------------------------- what they have in common


@contextmanager
def refusals(place: Place, say: Say) -> Iterator[None]:
    """A KlogError is an answer, if it says where and why."""
    try:
        yield
    except KlogError as error:
        say(f"refused: {error!r}")
        check_error(place, error)


def check_error(place: Place, error: KlogError) -> None:
    must(
        bool(error.reason) and error_lines(error)[0].startswith("klogtool: "),
        "an error says what is wrong",
        repr(error),
    )
    is_told = error.path in (None, STANDARD_INPUT) or is_below(str(error.path), place.root)
    must(is_told, "an error is about what was asked for", str(error))
    must(error.position is None or error.position >= 0, "a position", str(error))


@contextmanager
def the_other_reader() -> Iterator[None]:
    """Meanwhile the reference reader works in place of the kernels."""
    native, kernels.native = kernels.native, kernels.absent
    try:
        yield
    finally:
        kernels.native = native


def is_below(path: str, root: str | os.PathLike[str]) -> bool:
    return os.path.normpath(path).startswith(os.fspath(root))


def some_names(rng: Choices, place: Place) -> list[str]:
    match rng.randrange(6):
        case 0:
            return [HERE]
        case 1:
            return [HERE, THERE] if rng.chance(2) else [THERE]
        case 2:
            folder = rng.choice([HERE, *place.partitions()])
            return [rng.choice(place.files(folder) or [folder])]
        case _:
            return [some_partition(rng, place)]


def some_partition(rng: Choices, place: Place) -> str:
    return rng.choice(place.partitions() or [HERE])


def some_circumstances(rng: Choices) -> Circumstances:
    now_ms = rng.choice((*EXTREMES, 1_700_000_000_000)) if rng.chance(8) else NOW_MS
    return Circumstances(
        now_ms=now_ms,
        config=rng.choice(SETTINGS),
        recovery_point=rng.choice(OFFSETS),
        log_start_offset=rng.choice(OFFSETS),
        high_watermark=rng.choice(OFFSETS),
        last_stop=rng.choice((None, None, "clean", "unclean")),
    )


def some_arguments(rng: Choices) -> dict[str, Any]:
    return {**some_circumstances(rng).as_arguments(), "jobs": 3 if rng.chance(32) else 1}


def is_json(row: dict[str, Any]) -> bool:
    """Whether a row's line has all of it; a text that is not UTF-8 as it is presented."""
    read = json.loads(row_line(row))
    return read in (row, json.loads(json.dumps(presentable(row))))
