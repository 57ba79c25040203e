"""What a broker's start would make of a partition, for people: what is lost first, then why, then what to do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Any

from klogtool.repair.plan import Plan


def recover_text(plan: Plan) -> str:
    """A paragraph for one partition, a line if nothing is lost there; the notes of a log dir's own plan."""
    name = os.path.basename(plan.path)
    if "log_end_offset" not in plan.answer:
        return "\n".join(f"{name}: {note}" for note in plan.notes)
    return "\n".join(_lines(plan, name))


def _lines(plan: Plan, name: str) -> Iterator[str]:
    answer = plan.answer
    yield f"{name}: {_outcome(answer)}; ends at offset {answer['log_end_offset']:,}"
    if not plan.steps:
        return
    loud = answer["loses_records"] or answer["split"]
    yield from (f"  {note}" for note in plan.notes if loud)
    yield from (f"  {line}" for line in _cuts(plan))
    yield f"  {_work(plan)}"
    if answer["lost"] is not None:
        yield f"  →  klogtool salvage {shlex.quote(plan.path)} --output DIR   keeps what is sound behind the damage"


def _outcome(answer: Any) -> str:
    if not answer["loses_records"]:
        return "nothing is lost"
    lost = answer["lost"]
    if lost is None:
        return "LOSES what is left of damaged batches"
    first, last = lost["first_offset"], lost["last_offset"]
    return f"LOSES offset {first:,}" if first == last else f"LOSES offsets {first:,} to {last:,}"


def _cuts(plan: Plan) -> Iterator[str]:
    for cut in plan.answer["truncated"]:
        why = next((s.reason for s in plan.segments if s.segment == cut["segment"]), cut["reason"])
        yield f"truncated  {cut['segment']:020d}.log at byte {cut['position']:,}: {cut['bytes']:,} bytes go; {why}"
    deleted = plan.answer["deleted_segments"]
    if deleted:
        names = ", ".join(str(base) for base in deleted[:4]) + (", ..." if len(deleted) > 4 else "")
        sizes = {fact.path: fact.size for fact in plan.facts}
        gone = sum(sizes.get(f"{base:020d}.log", 0) for base in deleted)
        yield f"deleted    {_count(len(deleted), 'segment')} ({names}): {gone:,} bytes of records"


def _work(plan: Plan) -> str:
    sizes = {fact.path: fact.size for fact in plan.facts}
    recovered = plan.answer["recovered"]
    scanned = sum(sizes.get(f"{base:020d}.log", 0) for base in recovered)
    told = f"recovered  {_count(len(recovered), 'segment')}, {scanned:,} bytes to scan" if recovered else "not scanned"
    return f"{told}; {_count(len(plan.steps), 'change')} of files, {plan.bytes_held:,} bytes held for undo"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
