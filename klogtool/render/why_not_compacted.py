"""Why a log is not being compacted, for people: how much is dirty, what holds the cleaner back, what to do."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator

from klogtool.escape import joined
from klogtool.plans.why_not_compacted import LogStanding, Standing
from klogtool.render.retain import size_text
from klogtool.render.terminal import columns


def standing_text(standing: Standing) -> str:
    """A paragraph for a partition or a log dir."""
    return joined(_lines(standing))


def _lines(standing: Standing) -> Iterator[str]:
    yield f"{os.path.basename(standing.path)}: {_headline(standing)}"
    for reason in standing.reasons:
        yield from textwrap.wrap(reason.detail, columns(), initial_indent="  ", subsequent_indent="    ")
        if reason.cure is not None:
            yield f"  →  {reason.cure}"
    left = standing.remaining if isinstance(standing, LogStanding) else None
    if left is not None:
        records = f"{left.records:,} of {left.of_records:,} records would remain"
        sizes = f"{size_text(left.bytes)} of {size_text(left.of_bytes)}"
        yield f"  After cleaning up to the active segment, {records}, {sizes}."


def _headline(standing: Standing) -> str:
    if any(reason.id == "breaks-off" for reason in standing.reasons):
        return "not compacted: the cleaner fails on it"
    if not isinstance(standing, LogStanding):
        return "what a broker's cleaner finds here"
    if any(reason.id == "due" for reason in standing.reasons):
        return f"to be compacted from offset {standing.first_dirty_offset:,}"
    dirty = f"{size_text(standing.cleanable_bytes)} can be cleaned, {size_text(standing.uncleanable_bytes)} cannot"
    return f"not compacted since offset {standing.first_dirty_offset:,}; {dirty}"
