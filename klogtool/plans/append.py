"""append: adds batches or records to a partition, validated as a broker validates them, call by call."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from klogtool.broker.appending.appender import Appended, Appender, Call, NotAppended
from klogtool.broker.appending.calls import InputFacts, read_chunks, split_lines, walk_batch_files, walk_requests
from klogtool.broker.appending.records import BATCH_BYTES, Batching, walk_record_calls
from klogtool.broker.circumstances import Long
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.causes import Reason
from klogtool.errors import KlogError, Refused
from klogtool.format.codecs import CODECS
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.java_numbers import MAX_INT
from klogtool.parameters import NOT_GIVEN, Given, parameter
from klogtool.plans.causes import AppendRefusal, PlanNote
from klogtool.plans.creation import CreationQuestion, is_to_be_created, plan_creation
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.plan_change import Change, plan_change, settle
from klogtool.plans.question import PathText
from klogtool.plans.results import ChangeResult
from klogtool.values import Count

COMMAND = "append"
STANDARD_INPUT = "standard input"
AnyPath: TypeAlias = str | os.PathLike[str]
Codec: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
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


class AppendQuestion(CreationQuestion, frozen=True, kw_only=True):
    """What to append. One of

    - `batches`: paths, or `batches_base64`: the bytes; with `leader_epoch`, `fetch_bytes`
    - `records`: a path, or `records_text`: the lines; with `leader_epoch`, `codec`, `magic`, `batch_bytes`,
      `batch_records`
    - `requests`: a path, or `requests_text`; with `folder`: the base of relative file names in them
    """

    batches: Given[tuple[PathText, ...] | None, Iterable[AnyPath] | None] = NOT_GIVEN
    batches_base64: str | None = None
    records: Given[PathText | None, AnyPath | None] = NOT_GIVEN
    records_text: str | None = None
    requests: Given[PathText | None, AnyPath | None] = NOT_GIVEN
    requests_text: str | None = None
    folder: PathText | None = None
    fetch_bytes: Annotated[
        Count | None,
        parameter("With --batches: append N bytes in one call, as a follower fetches.  [default: the whole file]"),
    ] = None
    leader_epoch: Annotated[Long | None, parameter("Append with this leader epoch.  [default: the latest]")] = None
    codec: Annotated[Codec | None, parameter("With --records: compress batches with this codec.  [default: none]")] = (
        None
    )
    magic: Annotated[
        Annotated[int, Meta(ge=0, le=2)] | None, parameter("With --records: the record format.  [default: 2]")
    ] = None
    batch_bytes: Annotated[
        Count | None,
        parameter(f"With --records: largest size of a batch, before compression.  [default: {BATCH_BYTES}]"),
    ] = None
    batch_records: Annotated[Count | None, parameter("With --records: largest number of records in a batch.")] = None

    @property
    def ways(self) -> list[str]:
        """Return which of WAYS were given; exactly one is allowed."""
        values_of = {
            "batches": (self.batches, self.batches_base64),
            "records": (self.records, self.records_text),
            "requests": (self.requests, self.requests_text),
        }
        return [way for way, values in values_of.items() if any(value is not None for value in values)]


QUESTION = AppendQuestion


class AppendResult(ChangeResult, frozen=True):
    """The reply to each call."""

    appends: list[Appended | NotAppended]

    @property
    def refused(self) -> list[tuple[int, NotAppended]]:
        """The refused calls, with their numbers from 1 on."""
        return [(n, reply) for n, reply in enumerate(self.appends, 1) if isinstance(reply, NotAppended)]


def decide(path: str, question: AppendQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir.

    Raises as `plan_change` does, and KlogError for input that is not valid. A call that is refused has its error in the
    answer.
    """
    facts = InputFacts()

    def change(log: LoadedLog) -> Change:
        before = {segment.base_offset: segment.size for segment in log.segments.all}
        notes: list[Reason] = []
        appender = Appender(log)
        replies = [appender.reply(call) for call in _walk_calls(log, question, facts, notes)]
        verdicts = tuple(_verdicts(log, before))
        return Change(AppendResult(replies, state=settle(log)), verdicts, (*notes, *log.terms.setting_notes(SETTINGS)))

    if not os.path.lexists(path) and not question.create:
        raise KlogError(AppendRefusal.NO_DIR(), path=path)
    is_new = is_to_be_created(path, question)
    plans = plan_creation(COMMAND, path, question, change) if is_new else plan_change(COMMAND, path, question, change)
    for plan in plans:
        yield replace(plan, facts=(*plan.facts, *facts.all)) if plan.path == path else plan


def _verdicts(log: LoadedLog, before: Mapping[int, int]) -> Iterator[SegmentVerdict]:
    for segment in log.segments.all:
        size = before.get(segment.base_offset)
        if size is None:
            yield SegmentVerdict(segment.base_offset, "new", f"{segment.size:,} bytes")
        elif segment.size > size:
            yield SegmentVerdict(segment.base_offset, "append", f"{segment.size - size:,} bytes more")


def _walk_calls(log: LoadedLog, question: AppendQuestion, facts: InputFacts, notes: list[Reason]) -> Iterator[Call]:
    ways = question.ways
    if len(ways) != 1:
        raise KlogError(AppendRefusal.NO_WAY(ways=WAYS))
    if ways == ["batches"]:
        epoch = question.leader_epoch
        coded = question.batches_base64
        if coded is not None:
            yield Call((base64.b64decode(coded),), True, MAX_INT if epoch is None else epoch, None)
        yield from walk_batch_files(list(question.batches or ()), epoch, facts, question.fetch_bytes)
    elif ways == ["requests"]:
        chunks, path = _text(question.requests_text, question.requests, facts)
        yield from walk_requests(split_lines(chunks, path), path, question.folder or os.path.dirname(path), facts)
    else:
        yield from _walk_records(log, question, facts, notes)


def _walk_records(log: LoadedLog, question: AppendQuestion, facts: InputFacts, notes: list[Reason]) -> Iterator[Call]:
    latest = log.epochs.latest_epoch
    epoch = question.leader_epoch
    batching = Batching(
        question.codec or "none",
        CURRENT_MAGIC if question.magic is None else question.magic,
        question.batch_bytes or BATCH_BYTES,
        question.batch_records or MAX_INT,
        (latest or 0) if epoch is None else epoch,
        log.terms.now_ms,
    )
    if batching.codec not in CODECS:
        raise Refused(AppendRefusal.NO_CODEC(codec=batching.codec, codecs=CODECS))
    if batching.magic < CURRENT_MAGIC and batching.codec == "zstd":
        raise Refused(AppendRefusal.NO_ZSTD(magic=batching.magic))
    if epoch is None:
        note = PlanNote.EPOCH_UNKNOWN if latest is None else PlanNote.EPOCH_LATEST
        notes.append(note(epoch=batching.leader_epoch))
    chunks, path = _text(question.records_text, question.records, facts)
    yield from walk_record_calls(chunks, path, batching)
    if batching.control_records:
        notes.append(PlanNote.CONTROL_RECORDS(records=batching.control_records))


def _text(text: str | None, path: str | None, facts: InputFacts) -> tuple[Iterator[bytes], str]:
    """Return the given lines in pieces, and the name of their source."""
    if text is None and path is not None:
        return read_chunks(path, facts), path
    return iter([(text or "").encode(errors="surrogateescape")]), STANDARD_INPUT
