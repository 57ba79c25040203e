"""Plans of commands that change a log as a running broker does, for people: the answer first, then the evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec import UNSET

from klogtool.broker.appending.appender import Appended
from klogtool.broker.timestamps import duration_text, time_text
from klogtool.escape import as_paragraph
from klogtool.plans.append import AppendResult
from klogtool.plans.build import BuildResult, PartitionTotals
from klogtool.plans.drop_producer import DropProducerResult
from klogtool.plans.plan import Plan
from klogtool.plans.roll import IndexRoom, RollResult
from klogtool.plans.truncate import CutVerdict, TruncateResult
from klogtool.render.plans import change_count, ends_of, table_text
from klogtool.render.words import count_text, words
from klogtool.verify.cures import rebuild_index

Result = TypeVar("Result")


@as_paragraph
def change_text(
    plan: Plan,
    kind: type[Result],
    headline: Callable[[Result], str],
    evidence: Callable[[Result], Iterable[str]] = lambda _: (),
) -> Iterator[str]:
    """Return headline and evidence of a result, the verdict of each segment, the notes, and how many files change.
    kind: of the result; a plan with another one is shown by its notes."""
    result = plan.result
    if not isinstance(result, kind):
        yield from notes_lines(plan)
        return
    yield f"{os.path.basename(plan.path)}: {headline(result)}"
    yield from (f"  {line}" for line in evidence(result))
    shown, between = ends_of(plan.segments)
    rows = [(f"{s.segment:020d}", s.action, words(s.why)) for s in shown]
    yield from (f"  {line}" for line in table_text(rows).splitlines())
    yield from between
    yield from (f"  {words(note)}" for note in plan.notes)
    yield change_count(plan) if plan.steps else "  No file changes."


def notes_lines(plan: Plan) -> Iterator[str]:
    """Yield the notes: of a plan for the log dir's own files, or for a partition that is left alone."""
    yield from (f"{os.path.basename(plan.path)}: {words(note)}" for note in plan.notes)


_MOST_REFUSALS = 4
_LONGEST_MESSAGE = 240


def append_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, AppendResult, _append_headline, _refusals)


def _append_headline(result: AppendResult) -> str:
    done = [reply for reply in result.appends if isinstance(reply, Appended)]
    refused = f"; {len(result.refused):,} REFUSED" if result.refused else ""
    end = result.state.log_end_offset
    return f"{count_text(len(done), 'append')}{_span(done)}{refused}; the log ends at offset {end:,}"


def _span(done: Sequence[Appended]) -> str:
    """Return the appended offsets; for old formats only the last one is known."""
    lasts = [reply.last_offset for reply in done if reply.valid_bytes]
    if not lasts:
        return ""
    firsts = [reply.first_offset for reply in done if reply.valid_bytes and reply.first_offset >= 0]
    rolls = sum(reply.rolled for reply in done)
    size = sum(reply.valid_bytes for reply in done)
    span = f"offsets {min(firsts):,} to {max(lasts):,}" if firsts else f"offsets up to {max(lasts):,}"
    return f", {span}, {count_text(size, 'byte')}" + (f", {count_text(rolls, 'roll')}" if rolls else "")


def _refusals(result: AppendResult) -> Iterator[str]:
    for n, reply in result.refused[:_MOST_REFUSALS]:
        of = f" ({os.path.basename(reply.file)})" if reply.file else ""
        yield f"refused  append {n}{of}: {reply.error.kafka_class}"
        yield f"         {shortened(reply.error.message)}"
    if len(result.refused) > _MOST_REFUSALS:
        yield f"and {len(result.refused) - _MOST_REFUSALS:,} more are refused (--format json shows all)"


def shortened(message: str) -> str:
    """Cut a message to two or three lines."""
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."


def drop_producer_text(plan: Plan) -> str:
    """Show the plan of a partition."""
    return change_text(plan, DropProducerResult, _drop_producer_headline, _drop_producer_evidence)


def _drop_producer_headline(result: DropProducerResult) -> str:
    producer, snapshots = result.producer_id, len(result.snapshots)
    if not snapshots:
        return f"no producer snapshot has producer {producer}"
    return f"producer {producer} goes from {count_text(snapshots, 'producer snapshot')}; all others stay"


def _drop_producer_evidence(result: DropProducerResult) -> Iterator[str]:
    if not result.snapshots:
        return
    yield from _of_readers(result)
    yield "its sequences are not checked any more: what it sends again is a duplicate"
    if result.returns_after_unclean_stop:
        yield "the log has batches of it: a start after an unclean stop may find it again,"
        yield "and verify finds snapshot-content (rebuild-index --only snapshot brings it back)"
    yield "each replica has its own snapshots: drop it there, too, before one of them leads"


def _of_readers(result: DropProducerResult) -> Iterator[str]:
    before, after, since = result.last_stable_offset_before, result.last_stable_offset, result.open_since
    if not result.is_known:
        yield "a broker does not know it now, so nothing changes for readers"
        return
    if since is None:
        yield "it has no open transaction, so nothing changes for readers"
        return
    moved = f"moves from {before:,} to {after:,}" if before != after else f"stays at {after:,}: something else holds it"
    yield f"its transaction is open since offset {since:,}"
    yield f"the last stable offset {moved}"
    if result.visible is None:
        yield "the log has no data of that transaction, so nothing becomes visible"
    else:
        first, last = result.visible
        yield f"EXPOSES its data at offsets {first:,} to {last:,}: read_committed consumers get them"
        yield "as if they were committed, and an abort marker that comes later does not hide them"


def truncate_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, TruncateResult, partial(_truncate_headline, plan))


def _truncate_headline(plan: Plan, result: TruncateResult) -> str:
    end, start = result.before.log_end_offset, result.before.log_start_offset
    if result.truncated is False:
        return f"nothing to truncate; the log ends at offset {end:,}"
    later = result.end_at_next_start
    first = start if later is UNSET else max(start, later)
    gone = f"offsets {first:,} to {end - 1:,} go" if first < end else "no record goes"
    sizes = sum(s.size - s.size_after for s in plan.segments if isinstance(s, CutVerdict))
    after_start, after_end = result.state.log_start_offset, result.state.log_end_offset
    starts = "" if after_start == start else f"starts at {after_start:,} and "
    is_lower = later is not UNSET and later < after_end
    restarted = f", and at {later:,} after the next start of a broker" if is_lower else ""
    return f"{gone}, {count_text(sizes, 'byte')}; then the log {starts}ends at offset {after_end:,}{restarted}"


def roll_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, RollResult, _roll_headline, partial(_roll_evidence, plan.path))


def _roll_headline(result: RollResult) -> str:
    segment = result.active.segment
    if result.rolled_to is None:
        return f"segment {segment} is not due"
    sentence = f"segment {segment} {'is due' if result.due else 'is rolled because of --force'}"
    return f"{sentence}; the next segment starts at offset {result.rolled_to:,}"


def _roll_evidence(path: str, result: RollResult) -> Iterator[str]:
    """Yield a line for each condition: whether it is met, and by how much; then the assumed next append."""
    if result.zero_index_entries:  # an index that is full only because it was never trimmed
        zeros = count_text(result.zero_index_entries, "entry of an index is zeros", "entries of an index are zeros")
        yield f"warning: {zeros}, so it only seems to be full; rebuild it first:"
        yield f"→  {rebuild_index(path, 'index,timeindex')}"
    why, to_come = result.why, result.incoming
    if why is UNSET or to_come is UNSET:
        return
    above = to_come.last_offset - result.active.segment
    rows = [
        (why.size, "size", _size_text(result)),
        (why.time, "time", _time_text(result, why.waited_ms)),
        (why.offset_index_full, "index", _room_text(result.active.offset_index)),
        (
            why.time_index_full,
            "time index",
            f"{_room_text(result.active.time_index)}, one of them reserved for the roll",
        ),
        (
            why.offset_overflow,
            "offset",
            f"{above:,} above the base offset after the next append; at most 2,147,483,647",
        ),
    ]
    yield from table_text(("due" if holds else "not due", what, text) for holds, what, text in rows).splitlines()
    at = time_text(to_come.max_timestamp)
    size = count_text(to_come.size_bytes, "byte")
    yield f"next append: {size}, largest timestamp {at}, last offset {to_come.last_offset:,}"


def _size_text(result: RollResult) -> str:
    return (
        f"{count_text(result.active.size, 'byte')} plus the next append; segment.bytes {result.limits.segment_bytes:,}"
    )


def _time_text(result: RollResult, waited_ms: int) -> str:
    first, waited = result.first_timestamp or 0, duration_text(abs(waited_ms))
    waited = waited if waited_ms >= 0 else f"-{waited}"
    if not result.active.size:
        text = "the segment is empty, so time does not matter"
    elif first >= 0:
        text = f"{waited} since its first batch, {time_text(first)}"
    else:
        text = f"{waited} since --loaded-at: its first batch has no timestamp"
    return f"{text}; segment.ms {duration_text(result.limits.max_segment_ms)}"


def _room_text(index: IndexRoom) -> str:
    return f"{count_text(index.entries, 'entry', 'entries')}; room for {index.max_entries:,}"


MOST_NAMED = 20  # partitions in the text


@as_paragraph
def build_text(result: BuildResult, output: str) -> Iterator[str]:
    """Return what was built, a line for each partition."""
    partitions = result.partitions
    yield from map(_partition_line, partitions[:MOST_NAMED])
    if len(partitions) > MOST_NAMED:
        yield f"... and {len(partitions) - MOST_NAMED:,} more partitions"
    wounds = f", {count_text(result.wounds, 'wound')}" if result.wounds else ""
    files = count_text(result.files, "file")
    yield f"{output}: {files} of {count_text(result.bytes, 'byte')}, as Kafka {result.kafka} leaves them{wounds}"


def _partition_line(row: PartitionTotals) -> str:
    segments = count_text(row.segments, "segment")
    batches = count_text(row.batches, "batch", "batches")
    offsets = f"offsets {row.log_start_offset:,} to {row.log_end_offset:,}"
    return f"{row.partition}: {offsets}, {segments}, {batches}, {count_text(row.bytes, 'byte')}"
