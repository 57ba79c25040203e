"""The plan of truncate, for people."""

from __future__ import annotations

from klogtool.plans.plan import Plan
from klogtool.render.changes import change_text, log_dir_text


def truncate_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return log_dir_text(plan) or change_text(plan, _headline(plan))


def _headline(plan: Plan) -> str:
    before, after = plan.answer["before"], plan.answer["state"]
    end, start = before["log_end_offset"], before["log_start_offset"]
    if plan.answer.get("truncated") is False:
        return f"nothing to truncate; the log ends at offset {end:,}"
    first = max(start, plan.answer.get("end_at_next_start", start))
    gone = f"offsets {first:,} to {end - 1:,} go" if first < end else "no record goes"
    sizes = sum(s.more["size"] - s.more["size_after"] for s in plan.segments)
    after_start, after_end = after["log_start_offset"], after["log_end_offset"]
    starts = "" if after_start == start else f"starts at {after_start:,} and "
    later = plan.answer.get("end_at_next_start", after_end)
    restarted = f", and at {later:,} after the next start of a broker" if later < after_end else ""
    return f"{gone}, {sizes:,} bytes; then the log {starts}ends at offset {after_end:,}{restarted}"
