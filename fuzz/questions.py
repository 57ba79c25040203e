"""What is asked about a damaged log dir, and what must hold of every answer. Nothing but KlogError may come out."""

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
from trees import HERE, THERE

from klogtool import kernels
from klogtool.cli.kafka_options import KafkaOptions, only_kafkas
from klogtool.cli.output import error_line
from klogtool.errors import KlogError
from klogtool.format.names import FileKind, PartitionDirState, parse_file_name
from klogtool.render.file_dump import TextDump, walk_files
from klogtool.render.findings import FindingText, closing_line, finding_row, summary_row
from klogtool.render.json_dump import JsonDump
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.plans import plan_text, row_line
from klogtool.render.salvage import salvage_text
from klogtool.render.selection import Selection
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.decisions import DECISIONS, decide
from klogtool.repair.draft import Content, Draft, Piece, read_content
from klogtool.repair.findings import SEVERITIES, Finding
from klogtool.repair.plan import Plan, Truncate, Write, names_of
from klogtool.repair.rejected_files import rejected_files
from klogtool.repair.saved_plan import SavedPlan
from klogtool.repair.steps import carried_out
from klogtool.repair.verify import Summary, VerifyOptions, verify

for module in DECISIONS.values():  # now, while modules are instrumented
    importlib.import_module(module)

NOW_MS = 1_893_456_000_000  # 2030: no timestamp of a fixture is in its future
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"segment.bytes": "1500"},
    {"index.interval.bytes": "0"},
    {"index.interval.bytes": "256", "segment.index.bytes": "64"},
    {"segment.index.bytes": "0"},
    {"segment.index.bytes": "-1"},
    {"max.message.bytes": "100"},
    {"producer.id.expiration.ms": "1"},
    {"segment.bytes": "-9223372036854775808", "index.interval.bytes": "9223372036854775807"},
    {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"},
)
OFFSETS = (None, None, None, 0, 1, 7, 30, 31, 38, 60, *EXTREMES)
DUMPS = (
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--max-bytes", "700", "--deep-iteration"],
    ["--index-sanity-check"],
    ["--verify-index-only"],
    ["--offsets-decoder"],
    ["--transaction-log-decoder"],
    ["--cluster-metadata-decoder"],
    ["--remote-log-metadata-decoder"],
    ["--share-group-state-decoder"],
    ["--key-decoder-class", "org.apache.kafka.tools.api.LongDecoder"],
)
SELECTIONS = (None, None, Selection(offsets=(5, 40)), Selection(producer_id=1000), Selection(grep=b"a"))

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


def ask(rng: Choices, place: Place, say: Say) -> None:
    """One question of chance, its answer held against the laws. say: takes what was asked, and refused."""
    question = rng.choice(QUESTIONS)
    native = kernels.native
    try:
        if rng.chance(8):
            say("by the reference reader")
            kernels.native = None
        question(rng, place, say)
    finally:
        kernels.native = native


# ---------------------------------------------------------------- verify


def ask_verify(rng: Choices, place: Place, say: Say) -> None:
    names = _some_names(rng, place)
    deep, jobs, subset = rng.chance(2), 3 if rng.chance(32) else 1, (1, 2) if rng.chance(32) else (1, 1)
    circumstances = _circumstances(rng)
    how = VerifyOptions(circumstances, deep=deep, jobs=jobs, subset=subset)
    say(f"verify {' '.join(names)} deep={deep} jobs={jobs} subset={subset} {circumstances}")
    paths = [place.path(name) for name in names]
    with refusals(place, say):
        answer = list(verify(paths, how))
        check_findings(place, paths, answer, with_text=rng.chance(4))
        if rng.chance(16):
            with the_other_reader():
                same_findings(answer, list(verify(paths, how)))


def check_findings(place: Place, paths: list[str], answer: list[Finding | Summary], *, with_text: bool) -> None:
    *findings, summary = answer
    must(isinstance(summary, Summary), "a summary comes last")
    text = FindingText(paths, width=100, colour=False)
    for finding in findings:
        must(isinstance(finding, Finding), "findings come before")
        check_finding(place, finding)
        must(finding_row(finding) == json.loads(row_line(finding_row(finding))), "a finding is JSON", finding)
        if with_text:
            must(finding.id in text.block(finding), "a finding has a text", finding)
    counted = summary.errors + summary.warnings + summary.infos
    must(counted == len(findings), "every finding is counted", summary)
    must(min(summary.batches, summary.records, summary.bytes, summary.files) >= 0, "counts", summary)
    row_line(summary_row(summary, 0)), closing_line(summary, 0, notes_shown=False, status=0)


def check_finding(place: Place, finding: Finding) -> None:
    must(finding.id in SEVERITIES, "a known id", finding)
    must(is_below(finding.path, place.root), "a finding is about what was asked for", finding)
    start, end = finding.start, finding.end
    size = os.path.getsize(finding.path) if os.path.isfile(finding.path) else None
    if start is not None:
        must(0 <= start <= (start if end is None else end), "a range has no end before its start", finding)
        must(size is not None, "a range is one of a file", finding)
    if end is not None and size is not None:
        must(end <= size, f"a range ends where the file ends ({size})", finding)
    if finding.first_offset is not None and finding.last_offset is not None:
        must(finding.first_offset <= finding.last_offset, "offsets ascend", finding)


def same_findings(answer: list[Finding | Summary], other: list[Finding | Summary]) -> None:
    mine, others = answer[:-1], other[:-1]
    differing = [item for item in mine if item not in others], [item for item in others if item not in mine]
    must(differing == ([], []), "kernels and reference find the same", differing)
    must(mine == others, "kernels and reference find it in the same order")
    rows = [summary_row(item, 0) | {"seconds": 0} for item in (answer[-1], other[-1]) if isinstance(item, Summary)]
    must(rows[0] == rows[1], "kernels and reference count the same", rows)


# ---------------------------------------------------------------- plans


def ask_recover(rng: Choices, place: Place, say: Say) -> None:
    name = HERE if rng.chance(3) else _partition(rng, place)
    arguments = _arguments(rng)
    if name == HERE and rng.chance(2):
        arguments["mark_clean"] = True
    _ask_for_plans(rng, place, say, "verify --recover", name, arguments)


def ask_rebuild(rng: Choices, place: Place, say: Say) -> None:
    arguments = _arguments(rng)
    if rng.chance(2):
        arguments["segments"] = [rng.choice((0, 7, 30, 38, *EXTREMES))]
    if rng.chance(4):
        arguments["only"] = [rng.choice(("index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"))]
    _ask_for_plans(rng, place, say, "rebuild-index", _partition(rng, place), arguments)


def ask_salvage(rng: Choices, place: Place, say: Say) -> None:
    name = _partition(rng, place)
    replicas = [name.replace(HERE, THERE)] if rng.chance(2) else []
    if rng.chance(8):
        replicas.append(rng.choice(place.partitions(THERE) or [name]))
    arguments = {**_arguments(rng), "replicas": [place.path(replica) for replica in replicas]}
    _ask_for_plans(rng, place, say, "salvage", name, arguments)


def _ask_for_plans(rng: Choices, place: Place, say: Say, command: str, name: str, arguments: dict[str, Any]) -> None:
    is_tried, again = rng.chance(4), rng.chance(16)
    if is_tried:  # all of it is read, and whether that is loaded is no matter of what lies beside
        start = arguments["log_start_offset"] or 0
        arguments |= {"recovery_point": 0, "last_stop": "unclean", "log_start_offset": start}
    told = {key: value for key, value in arguments.items() if value not in (None, {}, [])}
    say(f"{command} {name} {told}")
    with refusals(place, say):
        for plan in decide(command, place.path(name), arguments):
            check_plan(place, plan, with_text=again or is_tried)
            if plan.answer.get("skipped") or plan.path == place.path(HERE):
                continue
            result = contents_after(plan)
            if command == "salvage":
                check_salvage(plan, result)
            if is_tried:
                check_result(place, plan, result)
        if again:
            check_again(command, place.path(name), arguments)


def check_plan(place: Place, plan: Plan, *, with_text: bool) -> None:
    must(is_below(plan.path, place.root), "a plan is about what was asked for", plan.path)
    for step in plan.steps:
        for name in names_of(step):
            must(bool(name) and os.path.basename(name) == name, "steps stay in the plan's folder", step)
        must(not isinstance(step, Truncate) or step.size >= 0, "sizes", step)
    for content in (step.content for step in plan.steps if isinstance(step, Write)):
        for piece in content:
            if isinstance(piece, Piece):
                must(is_below(piece.path, place.root), "bytes come from what was asked for", piece)
                must(0 <= piece.start <= piece.stop <= os.path.getsize(piece.path), "bytes are there", piece)
    must(plan.bytes_held >= 0, "bytes held", plan.bytes_held)
    if with_text:
        row = SavedPlan.of(plan).row
        must(json.loads(row_line(dict(row))) == row, "a plan is JSON", plan.path)
        must(bool(salvage_text(plan) if plan.command == "salvage" else plan_text(plan)), "a plan has a text")


def contents_after(plan: Plan) -> dict[str, Content]:
    """What the folder would hold."""
    return carried_out(Draft.of(plan.path).before, plan.steps)


def check_salvage(plan: Plan, result: Mapping[str, Content]) -> None:
    """Kept and rejected bytes are all bytes of the logs, each once; but for fields that were set right."""
    rejected_files(plan)
    logs = {path: os.path.getsize(path) for path in _logs_of(plan.path)}
    ranges: dict[str, list[tuple[int, int]]] = {path: [] for path in logs}
    for name, content in result.items():
        for piece in content if name.endswith(".log") else ():
            if isinstance(piece, Piece) and piece.path in ranges:
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
        wrong = [str(found) for found in verify([str(folder)], VerifyOptions(Circumstances(NOW_MS))) if is_wrong(found)]
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
    return isinstance(found, Finding) and found.id.startswith(MENDED)


def check_loads(plan: Plan, folder: str) -> None:
    arguments = {**plan.arguments, "mark_clean": False, "last_stop": "unclean"}
    end = plan.answer["log_end_offset"]
    if plan.command == "salvage" and arguments["log_start_offset"] > end:
        arguments["log_start_offset"] = 0  # the plan says that it must not stay
    try:
        again = next(iter(decide("verify --recover", folder, arguments)))
    except KlogError as error:
        raise Broken(f"what {plan.command} leaves can be loaded: {error!r}") from error
    cut, deleted = again.answer["truncated"], again.answer["deleted_segments"]
    must(not cut and not deleted, f"what {plan.command} leaves is whole", (cut, deleted))
    must(again.answer["log_end_offset"] == end, f"what {plan.command} leaves ends there", end)


def check_again(command: str, path: str, arguments: dict[str, Any]) -> None:
    """The same question has the same answer, also without the kernels."""
    plans = list(decide(command, path, arguments))
    ids = [plan.id for plan in plans]
    must(ids == [plan.id for plan in decide(command, path, arguments)], "asked again, the same plan", path)
    with the_other_reader():
        others = [plan.as_json() for plan in decide(command, path, arguments)]
    differing = [(mine.as_json(), other) for mine, other in zip(plans, others, strict=False) if mine.id != other["id"]]
    must(ids == [other["id"] for other in others], "kernels and reference plan the same", differing)


# ---------------------------------------------------------------- dump-log


def ask_dump(rng: Choices, place: Place, say: Say) -> None:
    name, words = rng.choice(_some_names(rng, place)), rng.choice(DUMPS)
    form, resync, selection = rng.choice(("text", "json")), rng.chance(3), rng.choice(SELECTIONS)
    say(f"dump-log {name} {words} --format {form} resync={resync} {selection}")
    printed = dump(place, name, words, form, resync, selection)
    if rng.chance(16):
        with the_other_reader():
            other = dump(place, name, words, form, resync, selection)
        must(printed == other, "kernels and reference print the same", first_difference(printed, other))
    if form == "json":
        for line in printed.splitlines():
            must(isinstance(json.loads(line), dict), "a line is an object", line)


def dump(place: Place, name: str, words: list[str], form: str, resync: bool, selection: Selection | None) -> bytes:
    """What dump-log prints."""
    pieces: list[bytes] = []
    complaints: list[str] = []
    given = only_kafkas([place.path(name), *words])
    assert given is not None
    kafka = KafkaDump(
        KafkaOptions({**given, "files": ()}),
        lambda piece: pieces.append(bytes(piece)),
        complaints.append,
        selection=selection,
        go_on=resync,
    )
    one = TextDump(kafka).file if form == "text" else JsonDump(kafka).file
    told: list[KlogError] = []
    for file in walk_files(place.path(name), told.append):
        try:
            one(file)
        except KlogError as error:
            told.append(error)
    for error in told:
        check_error(place, error)
    list(kafka.reports.lines())
    return b"".join(pieces)


def first_difference(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[max(0, at - 60) : at + 100], other[max(0, at - 60) : at + 100]


QUESTIONS: tuple[Question, ...] = (
    *(ask_verify,) * 4,
    *(ask_recover,) * 4,
    *(ask_salvage,) * 3,
    *(ask_rebuild,) * 2,
    *(ask_dump,) * 2,
)


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
    must(bool(error.reason) and error_line(error).startswith("klogtool: "), "an error says what is wrong", repr(error))
    must(error.path is None or is_below(error.path, place.root), "an error is about what was asked for", str(error))
    must(error.position is None or error.position >= 0, "a position", str(error))


@contextmanager
def the_other_reader() -> Iterator[None]:
    """Meanwhile the reference reader works in place of the kernels."""
    native, kernels.native = kernels.native, None
    try:
        yield
    finally:
        kernels.native = native


def is_below(path: str, root: str | os.PathLike[str]) -> bool:
    return os.path.normpath(path).startswith(os.fspath(root))


def _some_names(rng: Choices, place: Place) -> list[str]:
    match rng.randrange(6):
        case 0:
            return [HERE]
        case 1:
            return [HERE, THERE] if rng.chance(2) else [THERE]
        case 2:
            folder = rng.choice([HERE, *place.partitions()])
            return [rng.choice(place.files(folder) or [folder])]
        case _:
            return [_partition(rng, place)]


def _partition(rng: Choices, place: Place) -> str:
    return rng.choice(place.partitions() or [HERE])


def _circumstances(rng: Choices) -> Circumstances:
    now_ms = rng.choice((*EXTREMES, 1_700_000_000_000)) if rng.chance(8) else NOW_MS
    return Circumstances(
        now_ms,
        settings=rng.choice(SETTINGS),
        recovery_point=rng.choice(OFFSETS),
        log_start_offset=rng.choice(OFFSETS),
        high_watermark=rng.choice(OFFSETS),
        last_stop=rng.choice((None, None, "clean", "unclean")),
    )


def _arguments(rng: Choices) -> dict[str, Any]:
    return {**_circumstances(rng).as_arguments(), "jobs": 3 if rng.chance(32) else 1}
