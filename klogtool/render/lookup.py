"""Answers of lookup: JSON rows of the contract (docs/contract.md), and text with the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import to_builtins
from msgspec.structs import asdict, astuple

from klogtool.broker.unified_log.lookup import (
    EpochEnd,
    IndexLookup,
    OffsetFound,
    Scan,
    SegmentStep,
    Step,
    TimeIndexLookup,
    TimestampFound,
)
from klogtool.escape import joined
from klogtool.format.batch import NO_TIMESTAMP
from klogtool.format.names import TopicPartition
from klogtool.plans.index_doubts import IndexDoubt
from klogtool.render.words import Row, count_text

_EPOCH = datetime.fromtimestamp(0, UTC)
_NAMES = {SegmentStep: "segment", TimeIndexLookup: "time-index", IndexLookup: "index", Scan: "scan"}
_WIDTH = 14  # of the left column of an explanation


# JSON.


def offset_row(result: OffsetFound, *, explain: bool) -> Row:
    """Return the contract's answer to --offset (docs/contract.md)."""
    if result.is_end:
        return {"offset": result.offset, "end": True}
    names = ("offset", "segment", "position", "size", "base_offset", "last_offset")
    row: Row = {name: getattr(result, name) for name in names}
    if explain:
        row |= {
            "floor_segment": result.floor_segment,
            "index_entry": None if result.index_entry is None else list(astuple(result.index_entry)),
            "record": to_builtins(result.record),
            "steps": [_step_row(step) for step in result.steps],
        }
    return row


def timestamp_row(
    query: int | str, result: TimestampFound, high_watermark: int, *, explain: bool, doubts: Sequence[IndexDoubt]
) -> Row:
    """Return the contract's answer to --timestamp (docs/contract.md), and whether consumers can read what was found."""
    row: Row = {"timestamp": query, "found": to_builtins(result.found)}
    if result.found is not None and result.found.timestamp != NO_TIMESTAMP:
        row["below_high_watermark"] = result.found.offset < high_watermark
    limits = {"at_least": result.at_least, "not_searched": result.not_searched}
    row |= {name: value for name, value in limits.items() if value is not None}
    if explain:
        row["steps"] = [_step_row(step) for step in result.steps]
    return row | ({"index_doubts": to_builtins(doubts)} if doubts else {})


def epoch_row(result: EpochEnd) -> Row:
    """Return the contract's answer to --leader-epoch (docs/contract.md)."""
    return asdict(result)


def named_row(of: TopicPartition | None) -> Row:
    """Return topic and partition; null if the folder's name does not say."""
    return {"topic": None if of is None else of.topic, "partition": None if of is None else of.partition}


def _step_row(step: Step) -> Row:
    return {"step": _NAMES[type(step)], **asdict(step)}


# Text.


def offset_text(result: OffsetFound, log_end_offset: int) -> str:
    """Return a line, then the steps if there are any."""
    query = f"offset {result.offset:,}"
    if result.is_end:
        what = (
            "the log's end" if result.offset == log_end_offset else f"nothing up to the log's end, {log_end_offset:,}"
        )
        return f"{query}   {what}"
    is_gap = (result.base_offset or 0) > result.offset
    head = (
        f"{query}   {'not there; the next is' if is_gap else 'in'} batch {result.base_offset:,} to "
        f"{result.last_offset:,}: "
        f"{result.segment:020d}.log, byte {result.position:,}, {result.size:,} bytes"
    )
    return joined([head, *_explanation(result.steps, "the last segment whose base offset is not above the offset")])


def timestamp_text(query: int | str, result: TimestampFound, high_watermark: int, *, explain: bool) -> str:
    """Return a line, then the steps with `explain`."""
    place = result.found
    if result.at_least is not None:
        bound = f"; not below offset {result.at_least:,}" if result.at_least >= 0 else ""
        return f"{_asked(query)}   unknown: only remote storage tells{bound}"
    if place is None:
        what = (
            "no record with the largest timestamp"
            if query == "max"
            else ("no record has that timestamp or a later one")
        )
        head = f"{_asked(query)}   {what}"
    else:
        epoch = "" if place.leader_epoch is None else f"   leader epoch {place.leader_epoch}"
        time = "" if place.timestamp == NO_TIMESTAMP else f"   timestamp {exact_time_text(place.timestamp)}"
        head = f"{_asked(query)}   offset {place.offset:,}{time}{epoch}"
        if time and place.offset >= high_watermark:
            head += f"   (not below the high watermark {high_watermark:,}: consumers cannot read it)"
    if result.not_searched is not None:
        first, last = result.not_searched
        head += f"   (offsets {first:,} to {last:,} are in remote storage, where a broker looks first: not searched)"
    why = "has the largest timestamp" if query == "max" else "the first segment whose largest timestamp is not earlier"
    return joined([head, *(_explanation(result.steps, why) if explain else ())])


def epoch_text(result: EpochEnd) -> str:
    """Return a line."""
    query = f"leader epoch {result.leader_epoch}"
    if result.end_offset is None:
        return f"{query}   this log does not know it"
    which = "" if result.found_epoch == result.leader_epoch else f"epoch {result.found_epoch}, the last before it, "
    return f"{query}   {which}ends at offset {result.end_offset:,}"


def exact_time_text(timestamp: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC, always with milliseconds; the number itself if it is outside the
    calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp:,}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _asked(query: int | str) -> str:
    return query if isinstance(query, str) else exact_time_text(query)


def _explanation(steps: tuple[Step, ...], why: str) -> Iterator[str]:
    for n, step in enumerate(steps):
        if isinstance(step, SegmentStep):
            yield _line("segment", f"{step.file}   [{step.number:,} of {step.segments:,}]")
            yield _line("", _segment_text(step, why if n == 0 else "the next segment, because nothing was left there"))
        elif isinstance(step, TimeIndexLookup):
            to = f"{exact_time_text(step.timestamp)} → offset {step.offset:,}"
            yield _line("time index", _slot_text(step, to, "search from its first offset"))
        elif isinstance(step, IndexLookup):
            to = f"offset {step.offset:,} → position {step.position:,}"
            yield _line("index", _slot_text(step, to, "search from position 0"))
        else:
            yield _line("scanned", _scan_text(step))


def _line(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH - 2}}{text}"


def _segment_text(step: SegmentStep, why: str) -> str:
    if step.largest_timestamp is None:
        return why
    by = "the time of the file: no index has one" if step.by_mtime else "by its time index"
    return f"{why} ({exact_time_text(step.largest_timestamp)}, {by})"


def _slot_text(step: TimeIndexLookup | IndexLookup, to: str, without: str) -> str:
    if step.slot is None:
        none = "no entries" if step.entries == 0 else f"all {step.entries:,} entries are above"
        return f"{none}: {without}"
    return f"entry {step.slot + 1:,} of {step.entries:,}   ({to})"


def _scan_text(step: Scan) -> str:
    batches = count_text(step.batches, "batch", "batches")
    text = f"{batches}, {count_text(step.bytes, 'byte')} from byte {step.start:,}"
    if step.record is None:
        return text
    return f"{text}; the record is number {step.record:,} in " + ("it" if step.batches == 1 else "the last")
