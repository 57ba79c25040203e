"""The plan of truncate, for people."""

from __future__ import annotations

from functools import partial

from msgspec import UNSET

from klogtool.plans.plan import Plan
from klogtool.plans.truncate import CutVerdict, TruncateResult
from klogtool.render.changes import change_text


def truncate_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, TruncateResult, partial(_headline, plan))


def _headline(plan: Plan, result: TruncateResult) -> str:
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
    return f"{gone}, {sizes:,} bytes; then the log {starts}ends at offset {after_end:,}{restarted}"
