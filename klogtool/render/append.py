"""The plan of append, for people: how many calls succeeded, what was refused and why, where the log ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.appending.appender import Appended
from klogtool.plans.append import AppendResult
from klogtool.plans.plan import Plan
from klogtool.render.changes import change_text
from klogtool.render.counts import count_text

_MOST_REFUSALS = 4
_LONGEST_MESSAGE = 240


def append_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, AppendResult, _headline, _refusals)


def _headline(result: AppendResult) -> str:
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
    return f", {span}, {size:,} bytes" + (f", {count_text(rolls, 'roll')}" if rolls else "")


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
