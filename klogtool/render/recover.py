"""What a broker's start does to a partition, for people: first what is lost, then why, then what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from klogtool.escape import joined, quoted
from klogtool.format.names import FileKind, parse_file_name
from klogtool.plans.plan import Plan, tells_of_loss
from klogtool.plans.recover_log_dir import RecoverQuestion
from klogtool.render.counts import count_text, offsets_text

if TYPE_CHECKING:
    from klogtool.plans.recover_start import StartProblem


_OUTCOMES = {
    "refuses": "a broker REFUSES to start",
    "offline": "a broker takes the log dir OFFLINE, and stops if it has no other one",
    "unserved": "a broker starts, and SERVES NO PARTITION of the log dir",
}


def recover_text(plan: Plan) -> str:
    """Show a paragraph for a partition, or the notes of a log dir's own plan."""
    name = os.path.basename(plan.path)
    if "log_end_offset" not in plan.answer:
        return joined(f"{name}: {note}" for note in plan.notes)
    return joined(_lines(plan, name))


def _lines(plan: Plan, name: str) -> Iterator[str]:
    answer = plan.answer
    yield f"{name}: {outcome_text(answer)}; ends at offset {answer['log_end_offset']:,}"
    loud = tells_of_loss(answer) or answer["split"]
    yield from (f"  {note}" for note in plan.notes if loud)
    reasons = {verdict.segment: verdict.reason for verdict in plan.segments}
    yield from (f"  {line}" for line in (*_cuts(plan, answer, reasons), *_missing(answer)))
    yield from (f"  {line}" for line in _work(plan))
    yield from _cures(plan, answer)


def recovery_first_text(plan: Plan) -> str | None:
    """Show what is lost before a plan of another command changes anything; None if nothing.

    That is what recovery loses, because a broker recovers the log when it loads it, and what the log lacks after the
    end that the plan assumes.
    """
    losses, behind = plan.answer.get("lost_by_recovery"), plan.answer.get("behind_end")
    if losses is None and behind is None:
        return None
    name, lines = os.path.basename(plan.path), []
    if losses is not None:
        lines = [f"{name}: {_losses(losses)} before anything else: a broker recovers this log first"]
        lines += [f"  {line}" for line in _cuts(plan, losses, {})]
    elif behind is not None:
        lines = [f"{name}: {_behind_text(behind)}; the lines below describe the log without them"]
    told = {**plan.answer, **(losses or {})}
    return joined([*lines, *(f"  {line}" for line in _missing(told)), *_cures(plan, told)])


def start_problem_text(problem: StartProblem) -> str:
    """Show where and how a broker's start fails, with which exception, and what to do."""
    where, outcome = problem.path, _OUTCOMES[problem.stop.outcome.value]
    lines = [f"{where}: {outcome}: {problem.stop.kafka_class}: {problem.stop.message.partition(chr(10))[0]}"]
    return joined(lines if problem.cure is None else [*lines, f"  →  {problem.cure}"])


def start_problem_row(problem: StartProblem) -> dict[str, Any]:
    """Return the same for JSON, which goes beside an `error`."""
    return {"path": problem.path, "outcome": problem.stop.outcome.value, "detail": problem.detail, "cure": problem.cure}


# The verdict, in a few words.


def outcome_text(answer: Mapping[str, Any]) -> str:
    """Return what the start loses; if it loses nothing, what is gone already."""
    behind, missing = answer["behind_end"], answer["missing"]
    if answer["loses_records"]:
        return _losses(answer)
    if behind is not None:
        return _behind_text(behind)
    if answer.get("stray"):
        return f"HIDDEN as a stray: {answer['stray']}"
    if missing:
        spans = ", ".join(offsets_text(gap["first_offset"], gap["last_offset"]) for gap in missing[:4])
        return f"MISSING {spans}{', ...' if len(missing) > 4 else ''}, gone already"
    return "nothing is lost"


def _losses(answer: Mapping[str, Any]) -> str:
    lost, why = answer["lost"], answer["why"]
    if lost is None:
        return f"LOSES what was at its end: {why or 'the bytes there are damaged'}"
    span = f"LOSES {offsets_text(lost['first_offset'], lost['last_offset'])}"
    return f"{span}: {why}" if why and not answer["deleted_segments"] else span


def _behind_text(behind: Mapping[str, Any]) -> str:
    """Return the verdict on a log that ends too early, although loading removes nothing from it."""
    is_false, span = behind["clean_marker_false"], None
    if behind["offsets"]:
        span = offsets_text(behind["first_offset"], behind["last_offset"])
    if span is None:
        marker = "the clean marker is FALSE, the log is damaged" if is_false else "DAMAGED"
        return f"{marker} at its end: {behind['damage']}"
    return f"LOSES {span}: the clean marker is FALSE" if is_false else f"MISSING {span} at its end"


# The evidence.


def _missing(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is gone already, what was or is after the log's end, and the evidence for that."""
    replicated, behind = answer.get("below_high_watermark"), answer.get("behind_end")
    if replicated is not None:
        span = offsets_text(replicated["first_offset"], replicated["last_offset"]).partition(" ")[2]
        yield (
            f"replicated {count_text(replicated['offsets'], 'offset')} ({span}) below the high watermark "
            f"{replicated['high_watermark']:,}: all in-sync replicas had them, and producers got an acknowledgement"
        )
    if behind is not None and not _goes_with(answer, behind):
        yield from _behind_lines(behind)
    for gap in answer.get("missing", ()):
        place = f"{gap['behind']:020d}.log"
        where = f"before {place}" if gap["before"] is None else f"between {gap['before']:020d}.log and {place}"
        told = f"; only {gap['told_by']} is left" if gap["told_by"] else ""
        yield f"missing    {offsets_text(gap['first_offset'], gap['last_offset'])}, {where}{told}"


def _goes_with(answer: Mapping[str, Any], behind: Mapping[str, Any]) -> bool:
    """Whether everything after the end is among what recovery removes."""
    lost = answer.get("lost")
    return lost is not None and behind["offsets"] and behind["last_offset"] <= lost["last_offset"]


def _behind_lines(behind: Mapping[str, Any]) -> Iterator[str]:
    if behind["told_by"]:
        told = ", ".join(f"{told['by']} {told['offset']:,} ({told['where']})" for told in behind["told_by"])
        yield f"told by    {told}"
    if behind["sound_batches"]:
        records, batches = behind["sound_records"], behind["sound_batches"]
        read = f"{count_text(records, 'record')} in {count_text(batches, 'batch', 'batches')}"
        yield f"readable   {read}, up to offset {behind['sound_last_offset']:,}, are sound, and lie after the log end"
    if behind["damage"] is not None:
        yield f"damaged    {behind['damage']}"


def _cuts(plan: Plan, answer: Mapping[str, Any], reasons: Mapping[int, str]) -> Iterator[str]:
    for cut in answer["truncated"]:
        why = reasons.get(cut["segment"]) or cut["reason"] or "the bytes after the last batch are not a whole batch"
        yield f"truncated  {cut['segment']:020d}.log at byte {cut['position']:,}: {cut['bytes']:,} bytes go; {why}"
    deleted = answer["deleted_segments"]
    if deleted:
        names = ", ".join(str(base) for base in deleted[:4]) + (", ..." if len(deleted) > 4 else "")
        sizes = {fact.path: fact.size for fact in plan.facts}
        gone = sum(sizes.get(f"{base:020d}.log", 0) for base in deleted)
        yield f"deleted    {count_text(len(deleted), 'segment')} ({names}): {gone:,} bytes of records"


def _work(plan: Plan) -> Iterator[str]:
    recovered, held = plan.answer["recovered"], f"{plan.bytes_held:,} bytes held for undo"
    changes = f"{count_text(len(plan.steps), 'change')} of files, {held}"
    if recovered:
        scanned = f"{count_text(len(recovered), 'segment')}, {scanned_bytes(plan):,} bytes to scan"
        yield f"recovered  {scanned}; {changes}"
    elif plan.steps:
        yield f"changed    {changes}"
    unread = unread_segments(plan)
    if unread:
        told = f"{count_text(len(unread), 'segment')}, {sum(unread.values()):,} bytes"
        yield f"not read   {told}: a broker does not check them at this startup; klogtool verify looks for damage there"


def scanned_bytes(plan: Plan) -> int:
    """Return the bytes of the segments that recovery reads."""
    sizes = _log_sizes(plan)
    return sum(sizes.get(base, 0) for base in plan.answer["recovered"])


def unread_segments(plan: Plan) -> dict[int, int]:
    """Return base offset and bytes of the segments that this start does not read.

    These are the segments below the recovery point, or all segments after a clean stop. Damage in them stays, and no
    other line reports it.
    """
    if isinstance(plan.question, RecoverQuestion) and plan.question.mark_clean:  # then every batch was read
        return {}
    seen = {*plan.answer["recovered"], *plan.answer["deleted_segments"]}
    return {base: size for base, size in _log_sizes(plan).items() if size and base not in seen}


def _log_sizes(plan: Plan) -> dict[int, int]:
    files = ((parse_file_name(fact.path), fact.size) for fact in plan.facts)
    return {
        file.base_offset: size
        for file, size in files
        if file.kind is FileKind.LOG and not file.suffix and file.base_offset is not None
    }


# What to do.


def _cures(plan: Plan, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands that keep more than a broker's start does."""
    path, behind = quoted(plan.path), answer.get("behind_end")
    if answer.get("lost") is not None or (behind is not None and behind["sound_batches"]):
        yield f"  →  klogtool salvage {path} --output DIR  # keeps the sound batches after the damage"
    if behind is not None and behind["clean_marker_false"]:
        yield f"  →  klogtool recover {path} --last-stop unclean  # shows what a recovery keeps"
    if answer.get("stray"):
        yield f"  →  klogtool verify {path}  # says how to write partition.metadata again"
    if answer.get("missing") or (behind is not None and behind["offsets"] and not _goes_with(answer, behind)):
        yield f"  →  klogtool salvage {path} --replica COPY --output DIR  # takes the missing records from another copy"
