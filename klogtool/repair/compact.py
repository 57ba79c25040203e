"""compact: what the broker's log cleaner makes of a partition, in one pass or several as the clock moves on.

Each pass is judged as a broker's would be: what is not due is left alone, unless it is forced. A pass that breaks off
refuses the whole. After each, retention has its turn, as in the cleaner's own thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.lazy_dataclasses import replace
from klogtool.repair.change import Change, plan_change
from klogtool.repair.cleaning import CleaningStats, clean
from klogtool.repair.cleaning_range import LogToClean, find_log_to_clean
from klogtool.repair.loading import LoadedLog
from klogtool.repair.plan import Plan
from klogtool.repair.retention import delete_old_segments

COMMAND = "compact"


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plan for a partition dir. arguments: those of Circumstances; `first_dirty_offset`, `passes_at_ms`, `force`,
    `keep_magic`; `purge`, `jobs`.

    Raises Corrupt, Unsupported or Refused, with Kafka's class, where a broker refuses to load the log or its cleaner
    breaks off.
    """
    yield from plan_change(COMMAND, path, arguments, lambda log: _clean(log, arguments))


def _clean(log: LoadedLog, arguments: Mapping[str, Any]) -> Change:
    checkpoint = arguments.get("first_dirty_offset")
    rows = []
    for now_ms in arguments.get("passes_at_ms") or [log.terms.now_ms]:
        log.terms = replace(log.terms, now_ms=now_ms)
        log.producers.now_ms = now_ms
        to_clean = find_log_to_clean(log, checkpoint, now_ms)
        row = _range_row(to_clean)
        if to_clean.is_eligible or arguments.get("force"):
            end_offset, stats = clean(log, to_clean, now_ms, keeps_magic=bool(arguments.get("keep_magic")))
            checkpoint = end_offset
            row |= {"end_offset": end_offset, "stats": _stats_row(stats)}
            log.report.cleaned |= set(stats.groups)
        log.run_scheduled()
        delete_old_segments(log)
        log.run_scheduled()
        rows.append(row)
    return Change({"passes": rows, "cleaner_checkpoint": checkpoint})


def _range_row(to_clean: LogToClean) -> dict[str, Any]:
    return {
        "first_dirty_offset": to_clean.first_dirty_offset,
        "first_uncleanable_offset": to_clean.first_uncleanable_offset,
        "bound": to_clean.bound,
        "clean_bytes": to_clean.clean_bytes,
        "cleanable_bytes": to_clean.cleanable_bytes,
        "cleanable_ratio": to_clean.cleanable_ratio,
        "eligible": to_clean.is_eligible,
        "why": to_clean.why,
    }


def _stats_row(stats: CleaningStats) -> dict[str, int]:
    return {
        "messages_read": stats.total.messages_read,
        "messages_written": stats.total.messages_written,
        "map_messages_read": stats.map_messages_read,
        "bytes_read": stats.total.bytes_read,
        "bytes_written": stats.total.bytes_written,
    }
