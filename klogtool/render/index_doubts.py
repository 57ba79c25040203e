"""Warnings about segments whose time index their batches contradict, with both dates, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from klogtool.broker.timestamps import LARGEST_MS, time_text
from klogtool.plans.index_doubts import FalseIndexEffect, IndexDoubt
from klogtool.render.terminal import columns
from klogtool.render.words import count_text
from klogtool.verify.cures import rebuild_index

_MOST = 3
_EFFECTS = {
    FalseIndexEffect.DELETED_TOO_EARLY: "Retention goes by {which}, and deletes the segment too early.",
    FalseIndexEffect.KEPT_TOO_LONG: "A broker goes by {which}, and leaves the segment alone for too long.",
    FalseIndexEffect.CLEANED_TOO_EARLY: (
        "The cleaner goes by {which}, and cleans the segment within min.compaction.lag.ms."
    ),
    FalseIndexEffect.PASSED_OVER: "The lookup goes by {which}, so this answer is not the first such record.",
    FalseIndexEffect.NONE: "Retention and lookups by time go by {which}.",
}


def doubt_lines(path: str, doubts: Sequence[IndexDoubt]) -> Iterator[str]:
    """Yield the warnings, those with an effect first, and the cure."""
    ordered = sorted(doubts, key=lambda doubt: (doubt.effect is FalseIndexEffect.NONE, doubt.segment))
    for doubt in ordered[:_MOST]:
        yield from textwrap.wrap(doubt_text(doubt), columns(), initial_indent="  ", subsequent_indent="    ")
    if len(ordered) > _MOST:
        yield f"  and {count_text(len(ordered) - _MOST, 'segment')} more with a false time (--format json shows all)"
    if doubts:
        kinds = (
            "index,timeindex"
            if any(doubt.effect is FalseIndexEffect.BEGAN_TOO_LATE for doubt in doubts)
            else "timeindex"
        )
        yield f"  →  {rebuild_index(path, kinds)}"


def doubt_text(doubt: IndexDoubt) -> str:
    """Return one warning, in sentences."""
    if doubt.effect is FalseIndexEffect.BEGAN_TOO_LATE:
        where = f"behind a record of {_time(doubt.log_timestamp)}"
        return f"warning: a false index of segment {doubt.segment} leads the lookup {where}, which it should find."
    which = "the time of the file" if doubt.is_file_time else "the time index"
    what = "has no time index entry, and its file is" if doubt.is_file_time else "has a false time index: it says"
    effect = _EFFECTS[doubt.effect].format(which=which)
    time = f"of {_time(doubt.believed_timestamp)}" if doubt.is_file_time else _time(doubt.believed_timestamp)
    truth = f"its newest record is of {_time(doubt.log_timestamp)}"
    return f"warning: segment {doubt.segment} {what} {time}, {truth}. {effect}"


def _time(timestamp: int) -> str:
    return str(timestamp) if timestamp > LARGEST_MS else time_text(timestamp // 1000 * 1000)
