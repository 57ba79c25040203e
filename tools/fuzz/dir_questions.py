"""What is asked about a damaged log dir, and what must hold of every answer. Nothing but KlogError may come out."""

from __future__ import annotations

import json
import os

from asking import (
    Place,
    Question,
    Say,
    ask_for_plans,
    check_error,
    is_below,
    is_json,
    must,
    refusals,
    some_arguments,
    some_circumstances,
    some_names,
    some_partition,
    the_other_reader,
)
from choices import Choices
from damaged import EXTREMES
from dumps import DUMPS
from msgspec import to_builtins
from trees import HERE, THERE
from work import WORK

from klogtool import kernels
from klogtool.cli.dump_log import command as dump_log
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.render.file_dump import dump_json, dump_text, walk_files
from klogtool.render.findings import FindingText, closing_line, finding_row, summary_row
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions
from klogtool.render.selection import Selection
from klogtool.verify.findings import KINDS, Finding
from klogtool.verify.verification import Summary, VerifyOptions, verify

KAFKAS_FIELDS = set(KafkaArguments.__struct_fields__) - {"files"}
SELECTIONS = (None, None, Selection(offsets=(5, 40)), Selection(producer_id=1000), Selection(grep=b"a"))


def ask(rng: Choices, place: Place, say: Say) -> None:
    """One question of chance, its answer held against the laws. say: takes what was asked, and refused."""
    question = rng.choice(QUESTIONS)
    native = kernels.native
    try:
        if rng.chance(8):
            say("by the reference reader")
            kernels.native = kernels.absent
        question(rng, place, say)
    finally:
        kernels.native = native


# ---------------------------------------------------------------- verify


def ask_verify(rng: Choices, place: Place, say: Say) -> None:
    names = some_names(rng, place)
    deep, jobs, subset = rng.chance(2), 3 if rng.chance(32) else 1, (1, 2) if rng.chance(32) else (1, 1)
    circumstances = some_circumstances(rng)
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
    text = FindingText(paths, width=100)
    for finding in findings:
        must(isinstance(finding, Finding), "findings come before")
        check_finding(place, finding)
        must(is_json(to_builtins(finding_row(finding))), "a finding is JSON", finding)
        if with_text:
            must(finding.id in text.block(finding), "a finding has a text", finding)
    counted = summary.errors + summary.warnings + summary.infos
    must(counted == len(findings), "every finding is counted", summary)
    must(min(summary.batches, summary.records, summary.bytes, summary.files) >= 0, "counts", summary)
    row_line(summary_row(summary, None)), closing_line(summary, None, notes_shown=False, status=0)


def check_finding(place: Place, finding: Finding) -> None:
    must(finding.id in KINDS, "a known id", finding)
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
    rows = [summary_row(item, None) | {"seconds": 0} for item in (answer[-1], other[-1]) if isinstance(item, Summary)]
    must(rows[0] == rows[1], "kernels and reference count the same", rows)


# ---------------------------------------------------------------- plans


def ask_recover(rng: Choices, place: Place, say: Say) -> None:
    name = HERE if rng.chance(3) else some_partition(rng, place)
    arguments = some_arguments(rng)
    if name == HERE and rng.chance(2):
        arguments["mark_clean"] = True
    ask_for_plans(rng, place, say, "recover", name, arguments)


def ask_rebuild(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng)
    if rng.chance(2):
        arguments["segments"] = [rng.choice((0, 7, 30, 38, *EXTREMES))]
    if rng.chance(4):
        arguments["only"] = [rng.choice(("index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"))]
    ask_for_plans(rng, place, say, "rebuild-index", some_partition(rng, place), arguments)


def ask_salvage(rng: Choices, place: Place, say: Say) -> None:
    name = some_partition(rng, place)
    replicas = [name.replace(HERE, THERE)] if rng.chance(2) else []
    if rng.chance(8):
        replicas.append(rng.choice(place.partitions(THERE) or [name]))
    arguments = {**some_arguments(rng), "replicas": [place.path(replica) for replica in replicas]}
    ask_for_plans(rng, place, say, "salvage", name, arguments)


# ---------------------------------------------------------------- dump-log


def ask_dump(rng: Choices, place: Place, say: Say) -> None:
    name, words = rng.choice(some_names(rng, place)), rng.choice(DUMPS)
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
    given = dump_log.make_context("dump-log", [place.path(name), *words]).params
    kafka = KafkaDump(
        KafkaOptions(KafkaArguments(**{name: given[name] for name in KAFKAS_FIELDS})),
        lambda piece: pieces.append(bytes(piece)),
        complaints.append,
        selection=selection,
        go_on=resync,
    )
    dump = dump_text if form == "text" else dump_json
    told: list[KlogError] = []
    for file in walk_files(place.path(name), told.append):
        try:
            dump(kafka, file)
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
    *WORK,
)
