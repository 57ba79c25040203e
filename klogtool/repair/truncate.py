"""truncate: what cutting a partition at an offset, or beginning it anew at one, makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.errors import KlogError
from klogtool.repair.change import Change, plan_change
from klogtool.repair.checkpoint_lines import end_at_next_start
from klogtool.repair.plan import Plan, SegmentVerdict
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.truncation import truncate_fully_and_start_at, truncate_to

COMMAND = "truncate"


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plans for one partition dir and its log dir. arguments: those of Circumstances; `to`, or `start_at` with or
    without `log_start_offset_after`; `purge`; `jobs`.

    Raises Refused, Corrupt or Unsupported, with Kafka's class, where a broker refuses; KlogError for what is no
    partition dir, and if there is not one of the two offsets.
    """
    to, start_at = arguments.get("to"), arguments.get("start_at")
    if (to is None) == (start_at is None):
        raise KlogError("either an offset to cut at or one to start at", path=path)
    if to is not None:
        return plan_change(COMMAND, path, arguments, lambda log: _truncate(log, to))
    after = arguments.get("log_start_offset_after")
    return plan_change(COMMAND, path, arguments, lambda log: _start(log, start_at or 0, after))


def _truncate(log: LoadedLog, to: int) -> Change:
    before, high_watermark = _Before(log), log.high_watermark
    truncated = truncate_to(log, to)
    found = end_at_next_start(log)
    return Change(
        {"truncated": truncated, **before.answer, "end_at_next_start": found},
        tuple(before.verdicts(log)),
        tuple(_notes(to, high_watermark, found)) if truncated else (),
        first_dirty_at_most=_first_dirty_at_most(log) if truncated else None,
    )


def _notes(to: int, high_watermark: int, end_at_start: int) -> Iterator[str]:
    if to < high_watermark:
        yield f"below the high watermark {high_watermark}: records go that consumers may have read"
    if end_at_start < to:
        yield f"no batch ends at offset {to}: the next start finds the log's end at {end_at_start}"


def _start(log: LoadedLog, start_at: int, log_start_offset_after: int | None) -> Change:
    before = _Before(log)
    truncate_fully_and_start_at(log, start_at, log_start_offset_after)
    return Change(before.answer, tuple(before.verdicts(log)), first_dirty_at_most=_first_dirty_at_most(log))


def _first_dirty_at_most(log: LoadedLog) -> int | None:
    """LogManager.truncateTo: cleaning begins no later than with the active segment."""
    return log.segments.last.base_offset if log.terms.config.compact else None


class _Before:
    """A log before it is cut."""

    def __init__(self, log: LoadedLog) -> None:
        self.sizes = {segment.base_offset: segment.size for segment in log.segments.all}
        self.answer = {
            "before": {"log_start_offset": log.log_start_offset, "log_end_offset": log.log_end_offset},
        }

    def verdicts(self, log: LoadedLog) -> Iterator[SegmentVerdict]:
        """What becomes of each segment."""
        after = {segment.base_offset: segment.size for segment in log.segments.all}
        for base in sorted({*self.sizes, *after}):
            before, now = self.sizes.get(base), after.get(base)
            more = {"size": before or 0, "size_after": now or 0}
            if before is None:
                yield SegmentVerdict(base, "create", "empty: the log begins anew with it", more)
            elif now is None:
                yield SegmentVerdict(base, "delete", "all its records go", more)
            elif now < before:
                yield SegmentVerdict(base, "truncate", f"{before - now:,} of {before:,} bytes go", more)
            else:
                yield SegmentVerdict(base, "keep", "no record of it goes", more)
