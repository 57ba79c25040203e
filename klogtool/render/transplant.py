"""What transplant makes of a copy, as text, and how a broker gets it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.escape import joined, quoted
from klogtool.plans.plan import Plan
from klogtool.render.counts import count_text
from klogtool.render.plans import wrapped_table
from klogtool.verify.cures import move_out

NOTHING_WRITTEN = (
    "Nothing was changed. --output DIR writes the result. --apply, with undo, is for a copy that already lies in the "
    "log dir of the adopting broker."
)
CHECKED = "The copy can be transplanted. Nothing was written."


def transplant_text(plan: Plan) -> str:
    """Show a plan of transplant: what it becomes, the segments, and what is to be known of it."""
    return joined(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    answer = plan.answer
    start, end = answer["log_start_offset"], answer["log_end_offset"]
    yield f"Transplant of {plan.path}   (plan {plan.id})"
    yield f"  becomes {answer['topic']}-{answer['partition']}, offsets {start:,} to {end:,} (exclusive)"
    before = answer["source_topic_id"] or "none"
    by = f", {answer['topic_id_by']}" if answer["topic_id_by"] else ""
    yield f"  topic id {answer['topic_id'] or 'not known'}{by}; in the copy: {before}"
    yield f"  leader epoch 0 for all records: {count_text(answer['batches_restamped'], 'batch', 'batches')} had another"
    yield f"  {_producers(answer)}"
    rows: list[tuple[str, ...]] = [
        (f"{segment.segment:020d}", f"{segment.more['size']:,} bytes", segment.action, segment.reason)
        for segment in plan.segments
    ]
    yield "Segments"
    yield from wrapped_table(rows)
    if plan.notes:
        yield "Notes"
        yield from wrapped_table([(note,) for note in plan.notes])


def _producers(answer: Mapping[str, Any]) -> str:
    what = "kept" if answer["producers_kept"] else "forgotten"
    return f"producers: {answer['producers']:,}, {what}; open transactions: {answer['open_transactions']:,}"


def place_lines(answer: Mapping[str, Any], output: str, log_dir: str | None) -> Iterator[str]:
    """Yield what to do with the result: commands, and lines of checkpoints."""
    name, place = f"{answer['topic']}-{answer['partition']}", log_dir or "LOGDIR"
    target = os.path.join(place, name)
    yield "To put it in place, after a clean stop of the broker that is to lead the partition:"
    if os.path.realpath(output) != os.path.realpath(target):
        moved = move_out(target, place) if log_dir else f"mv -n {target} ELSEWHERE/"
        yield f"  {moved}  # the empty one, if it is there"
        yield f"  mv -nT {quoted(os.path.abspath(output))} {quoted(target) if log_dir else target}"
    needed = answer["checkpoints"]["log-start-offset-checkpoint"]
    if needed is not None:
        yield f"In {place}/log-start-offset-checkpoint, the partition's line must be:"
        yield f"  {answer['topic']} {answer['partition']} {needed}"
    yield f"In {place}/recovery-point-offset-checkpoint, if the broker was not stopped cleanly:"
    yield f"  {answer['topic']} {answer['partition']} {answer['checkpoints']['recovery-point-offset-checkpoint']}"
