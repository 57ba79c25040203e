"""append: batches or records into a partition, validated as a broker validates them, call by call."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.errors import KlogError, Refused
from klogtool.format.codecs import CODECS
from klogtool.format.java_numbers import MAX_INT
from klogtool.lazy_dataclasses import replace
from klogtool.repair.appending.appender import CURRENT_MAGIC, Appender, Call
from klogtool.repair.appending.calls import Facts, read_pieces, split_lines, walk_batch_files, walk_requests
from klogtool.repair.appending.records import BATCH_BYTES, Batching, walk_record_calls
from klogtool.repair.change import Change, plan_change
from klogtool.repair.creation import is_to_be_created, plan_creation
from klogtool.repair.plan import Plan, SegmentVerdict
from klogtool.repair.unified_log.loading import LoadedLog

COMMAND = "append"
STANDARD_INPUT = "standard input"
WAYS = ("batches", "records", "requests")
SETTINGS = (
    "segment.bytes",
    "segment.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "cleanup.policy",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "transaction.partition.verification.enable",
)


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plans for one partition dir and its log dir. arguments: those of Circumstances; one of

    - `batches`: paths, or `batches_base64`: the bytes; with `leader_epoch`, `fetch_bytes`
    - `records`: a path, or `records_text`: the lines; with `leader_epoch`, `codec`, `magic`, `batch_bytes`,
      `batch_records`
    - `requests`: a path, or `requests_text`; with `folder`: where names of files in them count from

    and `create`, `topic_id`: see creation.py; `jobs`.

    Raises as `plan_change` does, and KlogError for input that is none. What a call is refused for is in the answer.
    """
    facts = Facts()

    def change(log: LoadedLog) -> Change:
        return _append_all(log, arguments, facts)

    if not os.path.lexists(path) and not arguments.get("create"):
        raise KlogError("no such partition dir: --create makes it", path=path)
    is_new = is_to_be_created(path, arguments)
    plans = plan_creation(COMMAND, path, arguments, change) if is_new else plan_change(COMMAND, path, arguments, change)
    for plan in plans:
        yield replace(plan, facts=(*plan.facts, *facts.all)) if plan.path == path else plan


def refused_calls(plan: Plan) -> list[tuple[int, Mapping[str, Any]]]:
    """Number (from 0 on) and error of each call that was turned away."""
    return [(n, row["error"]) for n, row in enumerate(plan.answer.get("appends", ())) if "error" in row]


def _append_all(log: LoadedLog, arguments: Mapping[str, Any], facts: Facts) -> Change:
    before = {segment.base_offset: segment.size for segment in log.segments.all}
    notes: list[str] = []
    appender = Appender(log)
    rows = [appender.answer(call) for call in _walk_calls(log, arguments, facts, notes)]
    return Change({"appends": rows}, tuple(_verdicts(log, before)), (*notes, *log.terms.setting_notes(SETTINGS)))


def _verdicts(log: LoadedLog, before: Mapping[int, int]) -> Iterator[SegmentVerdict]:
    for segment in log.segments.all:
        size = before.get(segment.base_offset)
        if size is None:
            yield SegmentVerdict(segment.base_offset, "new", f"{segment.size:,} bytes")
        elif segment.size > size:
            yield SegmentVerdict(segment.base_offset, "append", f"{segment.size - size:,} bytes more")


def _walk_calls(log: LoadedLog, arguments: Mapping[str, Any], facts: Facts, notes: list[str]) -> Iterator[Call]:
    given = {name.split("_")[0] for name, value in arguments.items() if value is not None}
    ways = [way for way in WAYS if way in given]
    if len(ways) != 1:
        raise KlogError(f"one of {', '.join(WAYS)} says what to append")
    if ways == ["batches"]:
        yield from _walk_batches(arguments, facts)
    elif ways == ["requests"]:
        pieces, path = _text(arguments, "requests", facts)
        yield from walk_requests(
            split_lines(pieces, path), path, arguments.get("folder") or os.path.dirname(path), facts
        )
    else:
        yield from _walk_records(log, arguments, facts, notes)


def _walk_batches(arguments: Mapping[str, Any], facts: Facts) -> Iterator[Call]:
    epoch = arguments.get("leader_epoch")
    coded = arguments.get("batches_base64")
    if coded is not None:
        yield Call((base64.b64decode(coded),), True, MAX_INT if epoch is None else epoch, None)
    yield from walk_batch_files(list(arguments.get("batches") or ()), epoch, facts, arguments.get("fetch_bytes"))


def _walk_records(log: LoadedLog, arguments: Mapping[str, Any], facts: Facts, notes: list[str]) -> Iterator[Call]:
    latest = log.epochs.latest_epoch
    epoch = arguments.get("leader_epoch")
    batching = Batching(
        arguments.get("codec") or "none",
        CURRENT_MAGIC if arguments.get("magic") is None else arguments["magic"],
        arguments.get("batch_bytes") or BATCH_BYTES,
        arguments.get("batch_records") or MAX_INT,
        (latest or 0) if epoch is None else epoch,
        log.terms.now_ms,
    )
    if batching.codec not in CODECS:
        raise Refused(f"no such codec: {batching.codec} (one of {', '.join(CODECS)})")
    if batching.magic < CURRENT_MAGIC and batching.codec == "zstd":
        raise Refused(f"zstd is not for magic {batching.magic}")
    if epoch is None:
        why = "the log knows none" if latest is None else "the latest of the log"
        notes.append(f"leader epoch: {batching.leader_epoch}, {why}")
    pieces, path = _text(arguments, "records", facts)
    yield from walk_record_calls(pieces, path, batching)
    if batching.control_records:
        notes.append(f"left out: {batching.control_records:,} of control batches, which only a broker writes")


def _text(arguments: Mapping[str, Any], way: str, facts: Facts) -> tuple[Iterator[bytes], str]:
    """The lines that were given, in pieces, and where they come from."""
    text = arguments.get(f"{way}_text")
    if text is not None:
        return iter([text.encode(errors="surrogateescape")]), STANDARD_INPUT
    path = arguments[way]
    return read_pieces(path, facts), path
