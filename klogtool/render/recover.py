"""What a broker's start would make of a partition, for people: what is lost first, then why, then what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from klogtool.render.counts import count_text
from klogtool.repair.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def recover_text(plan: Plan) -> str:
    """A paragraph for one partition, a line if nothing is lost there; the notes of a log dir's own plan."""
    name = os.path.basename(plan.path)
    if "log_end_offset" not in plan.answer:
        return "\n".join(f"{name}: {note}" for note in plan.notes)
    return "\n".join(_lines(plan, name))


def _lines(plan: Plan, name: str) -> Iterator[str]:
    answer = plan.answer
    outcome = _losses(answer["lost"]) if answer["loses_records"] else "nothing is lost"
    yield f"{name}: {outcome}; ends at offset {answer['log_end_offset']:,}"
    if not plan.steps:
        return
    loud = answer["loses_records"] or answer["split"]
    yield from (f"  {note}" for note in plan.notes if loud)
    reasons = {verdict.segment: verdict.reason for verdict in plan.segments}
    yield from (f"  {line}" for line in _cuts(plan, answer, reasons))
    yield f"  {_work(plan)}"
    if answer["lost"] is not None:
        yield _salvage(plan)


def recovery_first_text(plan: Plan) -> str | None:
    """What a plan of another command loses before it does anything of its own, since a broker recovers the log as it
    loads it; None if nothing."""
    losses = plan.answer.get("lost_by_recovery")
    if losses is None:
        return None
    name = os.path.basename(plan.path)
    lines = [f"{name}: {_losses(losses['lost'])} before anything else: a broker recovers this log first"]
    lines += [f"  {line}" for line in _cuts(plan, losses, {})]
    if losses["lost"] is not None:
        lines.append(_salvage(plan))
    return "\n".join(lines)


def _salvage(plan: Plan) -> str:
    import shlex

    return f"  →  klogtool salvage {shlex.quote(plan.path)} --output DIR   keeps what is sound behind the damage"


def _losses(lost: Mapping[str, int] | None) -> str:
    if lost is None:
        return "LOSES what is left of damaged batches"
    first, last = lost["first_offset"], lost["last_offset"]
    return f"LOSES offset {first:,}" if first == last else f"LOSES offsets {first:,} to {last:,}"


def _cuts(plan: Plan, answer: Mapping[str, Any], reasons: Mapping[int, str]) -> Iterator[str]:
    for cut in answer["truncated"]:
        why = reasons.get(cut["segment"]) or cut["reason"] or "the bytes behind the last batch are no whole batch"
        yield f"truncated  {cut['segment']:020d}.log at byte {cut['position']:,}: {cut['bytes']:,} bytes go; {why}"
    deleted = answer["deleted_segments"]
    if deleted:
        names = ", ".join(str(base) for base in deleted[:4]) + (", ..." if len(deleted) > 4 else "")
        sizes = {fact.path: fact.size for fact in plan.facts}
        gone = sum(sizes.get(f"{base:020d}.log", 0) for base in deleted)
        yield f"deleted    {count_text(len(deleted), 'segment')} ({names}): {gone:,} bytes of records"


def _work(plan: Plan) -> str:
    sizes = {fact.path: fact.size for fact in plan.facts}
    recovered = plan.answer["recovered"]
    scanned = sum(sizes.get(f"{base:020d}.log", 0) for base in recovered)
    scan = "not scanned"
    if recovered:
        scan = f"recovered  {count_text(len(recovered), 'segment')}, {scanned:,} bytes to scan"
    return f"{scan}; {count_text(len(plan.steps), 'change')} of files, {plan.bytes_held:,} bytes held for undo"
