"""The plan of compact, for people: how much stays, then what goes and why, then each segment."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator

from klogtool.escape import as_paragraph
from klogtool.plans.compact import CleanerFailure, CleanerPass, CompactResult
from klogtool.plans.plan import Plan
from klogtool.plans.why_not_compacted import LogStanding, Standing
from klogtool.render.changes import notes_lines
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.plans import change_count, ends_of, wrapped_table
from klogtool.render.retain import size_text
from klogtool.render.terminal import columns
from klogtool.render.words import count_text, words

_GONE = {
    "superseded": "superseded by a later record of the key",
    "tombstones": "expired tombstones",
    "keyless": "without a key",
    "aborted": "of aborted transactions",
    "markers": "markers of transactions without any records left",
}


def uncleaned_text(plan: Plan) -> str | None:
    """Return the reason why a partition is not cleaned, by which partitions are counted; None if it is cleaned."""
    result = plan.result
    is_quiet = isinstance(result, CompactResult) and not (result.is_cleaned or result.index_doubts)
    return "not due" if is_quiet else None


@as_paragraph
def compact_text(plan: Plan, *, is_whole: bool = True) -> Iterator[str]:
    """Show the plan of a partition, or of its log dir. is_whole: with the single segments; one of many has none."""
    result = plan.result
    if isinstance(result, CleanerFailure):
        error = result.error
        yield f"{os.path.basename(plan.path)}: refused, as it stays: {error.message} ({error.kafka_class})"
        return
    if not isinstance(result, CompactResult):
        yield from notes_lines(plan)
        return
    yield _headline(plan, result)
    yield from doubt_lines(plan.path, result.index_doubts or ())
    for n, one in enumerate(result.passes, 1):
        if is_whole and len(result.passes) > 1:
            yield f"  pass {n}"
        yield from (f"  {line}" for line in _pass_lines(one))
    if is_whole:
        yield from _segment_lines(plan, result)


def _segment_lines(plan: Plan, result: CompactResult) -> Iterator[str]:
    shown, between = ends_of(plan.segments)
    rows = [(f"…{one.segment}", size_text(one.size), one.action, words(one.why)) for one in shown]
    yield from wrapped_table([("segment", "size", "verdict", ""), *rows])
    yield from between
    yield f"  producers: {words(result.producers)}"
    yield from (f"  {words(note)}" for note in plan.notes)
    deleted = sum(verdict.size for verdict in plan.segments if verdict.action in ("clean", "merge"))
    if deleted and not plan.question.purge:
        yield (
            f"  the old segments, {size_text(deleted)}, stay as .deleted until a broker removes them (--purge "
            "leaves none)"
        )
    if plan.steps:
        yield change_count(plan)


def _headline(plan: Plan, result: CompactResult) -> str:
    name = os.path.basename(plan.path)
    stats = [one.stats for one in result.passes if one.stats]
    if not stats:
        return f"{name}: not due: {words(result.passes[-1].why)}"
    if [one.split for one in result.passes if one.stats][-1]:
        return f"{name}: offsets do not fit into a segment: it is split now, and cleaned another time"
    read, kept = stats[0].bytes_read, stats[-1].bytes_written
    gone = sum(sum((one.gone or {}).values()) for one in result.passes)
    won = f"{size_text(read - kept)} saved" if read >= kept else f"{size_text(kept - read)} more than before"
    going = count_text(gone, "record goes", "records go")
    staying = count_text(stats[-1].messages_written, "stays", "stay")
    return f"{name}: {going}, {staying}; {won} of {size_text(read)}"


def _pass_lines(one: CleanerPass) -> Iterator[str]:
    parts = (("clean", one.clean_bytes), ("dirty", one.cleanable_bytes), ("uncleanable", one.uncleanable_bytes))
    text = ", ".join(f"{name} {size_text(size)}" for name, size in parts)
    yield f"{text}; {words(one.why)}" if one.stats else text
    if one.reset_checkpoint:
        start = one.first_dirty_offset
        yield f"cleaner-offset-checkpoint does not fit the log: everything from offset {start:,} is dirty"
    if not one.stats:
        return
    if one.map_is_full:
        text = "log.cleaner.dedupe.buffer.size has no room for more keys"
        yield f"ended at offset {one.end_offset:,} of {one.bound:,}: {text}; another pass continues there"
    yield from (f"{count:,} {_GONE[reason]}" for reason, count in (one.gone or {}).items())
    if one.deletions:
        yield f"{count_text(len(one.deletions), 'segment')} deleted by retention"


@as_paragraph
def standing_text(standing: Standing) -> Iterator[str]:
    """A paragraph for a partition or a log dir."""
    yield f"{os.path.basename(standing.path)}: {_standing_headline(standing)}"
    for reason in standing.reasons:
        yield from textwrap.wrap(words(reason.detail), columns(), initial_indent="  ", subsequent_indent="    ")
        if reason.cure is not None:
            yield f"  →  {words(reason.cure)}"
    left = standing.remaining if isinstance(standing, LogStanding) else None
    if left is not None:
        records = f"{left.records:,} of {count_text(left.of_records, 'record')} would remain"
        sizes = f"{size_text(left.bytes)} of {size_text(left.of_bytes)}"
        yield f"  After cleaning up to the active segment, {records}, {sizes}."


def _standing_headline(standing: Standing) -> str:
    if any(reason.id == "breaks-off" for reason in standing.reasons):
        return "not compacted: the cleaner fails on it"
    if not isinstance(standing, LogStanding):
        return "what a broker's cleaner finds here"
    if any(reason.id == "due" for reason in standing.reasons):
        return f"to be compacted from offset {standing.first_dirty_offset:,}"
    dirty = f"{size_text(standing.cleanable_bytes)} can be cleaned, {size_text(standing.uncleanable_bytes)} cannot"
    return f"not compacted since offset {standing.first_dirty_offset:,}; {dirty}"
