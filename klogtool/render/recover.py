"""What a broker's start does to a partition, for people: first what is lost, then why, then what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET, Struct

from klogtool.causes import Reason
from klogtool.doctor.causes import few_names
from klogtool.escape import as_paragraph, joined, quoted
from klogtool.plans.plan import Plan
from klogtool.plans.recover import RecoverQuestion
from klogtool.plans.recover_gaps import Gap
from klogtool.plans.recover_reach import BehindEnd
from klogtool.plans.recover_result import BelowHighWatermark, MayLose, OffsetSpan, Recovery, RecoveryLoss
from klogtool.render.plans import Totals
from klogtool.render.words import count_text, offsets_text, words
from klogtool.verify.stops import Stop

_OUTCOMES = {
    "refuses": "a broker REFUSES to start",
    "offline": "a broker takes the log dir OFFLINE, and stops if it has no other one",
    "unserved": "a broker starts, and SERVES NO PARTITION of the log dir",
}


@as_paragraph
def recover_text(plan: Plan) -> Iterator[str]:
    """Show a paragraph for a partition, or the notes of a log dir's own plan."""
    name, recovery = os.path.basename(plan.path), plan.result
    if not isinstance(recovery, Recovery):
        yield from (f"{name}: {words(note)}" for note in plan.notes)
        return
    yield f"{name}: {outcome_text(recovery)}; ends at offset {recovery.log_end_offset:,}"
    loud = plan.loses or recovery.split
    yield from (f"  {words(note)}" for note in plan.notes if loud)
    reasons = {verdict.segment: words(verdict.why) for verdict in plan.segments}
    lacking = _Lacking(
        recovery.lost,
        recovery.behind_end,
        recovery.below_high_watermark,
        recovery.missing,
        recovery.stray,
        _is_swapped(recovery),
        recovery.may_lose or None,
        recovery.perhaps_missing or (),
        recovery.renamed or (),
    )
    yield from (f"  {line}" for line in (*_cuts(plan, recovery, reasons), *_missing(lacking)))
    yield from (f"  {line}" for line in _work(plan, recovery))
    yield from _cures(plan, lacking)


def recovery_first_text(plan: Plan) -> str | None:
    """Show what is lost before a plan of another command changes anything; None if nothing.

    That is what recovery loses, because a broker recovers the log when it loads it, and what the log lacks after the
    end that the plan assumes.
    """
    losses = plan.losses
    if losses is None or not losses.loses:
        return None
    loss, behind = losses.lost_by_recovery or None, losses.behind_end or None
    name, lines = os.path.basename(plan.path), []
    if loss is not None:
        lines = [f"{name}: {_losses(loss)} before anything else: a broker recovers this log first"]
        lines += [f"  {line}" for line in _cuts(plan, loss, {})]
    elif behind is not None:
        lines = [f"{name}: {_behind_text(behind)}; the lines below describe the log without them"]
    else:
        lines = [f"{name}: {_missing_text(losses.missing or ())}; nothing tells of them after this"]
    lacking = _Lacking(
        None if loss is None else loss.lost,
        behind,
        losses.below_high_watermark or None,
        losses.missing or (),
        is_swapped=_is_swapped(loss),
    )
    return joined([*lines, *(f"  {line}" for line in _missing(lacking)), *_cures(plan, lacking)])


class _Lacking(Struct, frozen=True):
    """What a log lacks, as far as it is known. is_swapped: a shorter file replaces segments."""

    lost: OffsetSpan | None
    behind_end: BehindEnd | None
    below_high_watermark: BelowHighWatermark | None
    missing: Sequence[Gap] = ()
    stray: Reason | None = None
    is_swapped: bool = False
    may_lose: MayLose | None = None
    perhaps_missing: Sequence[OffsetSpan] = ()
    renamed: Sequence[str] = ()


def _is_swapped(loss: Recovery | RecoveryLoss | None) -> bool:
    return loss is not None and loss.lost_by_swap is not UNSET


def stop_text(path: str, cure: str | None, stop: Stop) -> str:
    """Show where and how a broker's start fails, with which exception, and what to do."""
    lines = [f"{path}: {_OUTCOMES[stop.outcome.value]}: {stop.kafka_class}: {stop.message.partition(chr(10))[0]}"]
    return joined(lines if cure is None else [*lines, f"  →  {cure}"])


def stop_row(path: str, detail: str, cure: str | None, stop: Stop) -> dict[str, object]:
    """Return what stops a start for JSON, which goes beside an `error`."""
    return {"path": path, "outcome": stop.outcome.value, "detail": detail, "cure": cure}


# The verdict, in a few words.


def outcome_text(recovery: Recovery) -> str:
    """Return what the start loses; if it loses nothing, what is gone already."""
    missing, may_lose = recovery.missing, recovery.may_lose or None
    if may_lose is not None and (not recovery.loses_records or _is_emptied_only(recovery, may_lose)):
        return _may_lose_text(may_lose)
    if recovery.loses_records:
        return _losses(recovery) if may_lose is None else f"{_losses(recovery)}; {_may_lose_text(may_lose)}"
    if recovery.behind_end is not None:
        return _behind_text(recovery.behind_end)
    if recovery.stray:
        return f"HIDDEN as a stray: {words(recovery.stray)}"
    return _missing_text(missing, recovery.renamed or ()) if missing else "nothing is lost"


def _missing_text(missing: Sequence[Gap], renamed: Sequence[str] = ()) -> str:
    spans = ", ".join(offsets_text(gap.first_offset, gap.last_offset) for gap in missing[:4])
    left = ", ".join(dict.fromkeys(str(gap.told_by) for gap in missing if gap.is_left_over))
    fate = f"and a startup deletes {left}, which has records of them" if left else "gone already"
    if renamed and not left:
        fate = f"unless {few_names(renamed)} has them: a broker does not read it"
    return f"MISSING {spans}{', ...' if len(missing) > 4 else ''}, {fate}"


def _is_emptied_only(recovery: Recovery, may_lose: MayLose) -> bool:
    """Return whether recovery removes nothing but what it would keep with another setting."""
    return recovery.lost is not None and recovery.lost.first_offset == may_lose.segment and not recovery.lost_by_swap


def _may_lose_text(may_lose: MayLose) -> str:
    span = offsets_text(may_lose.first_offset, may_lose.last_offset)
    outcome = "takes the log dir OFFLINE" if may_lose.is_offline else "empties the segment"
    verb = "MAY FAIL to load" if may_lose.is_offline else "MAY LOSE"
    order = f"batches of {may_lose.segment:020d}.log are out of order"
    return f"{verb} {span}: {order}, and index.interval.bytes, which is not known, decides whether a broker {outcome}"


def _losses(loss: Recovery | RecoveryLoss) -> str:
    lost, why, by_swap = loss.lost, words(loss.why or ""), loss.lost_by_swap or None
    swapped = "" if by_swap is None else offsets_text(by_swap.first_offset, by_swap.last_offset)
    is_doubtful = by_swap is not None and bool(by_swap.unless_compacted)
    if lost is None and is_doubtful and not _is_cut(loss):
        return f"MAY LOSE {swapped}: a .swap file replaces segments that have more, as after a cleaning"
    doubt = f"; MAY LOSE {swapped}, which a .swap file lacks" if is_doubtful else ""
    if lost is None and (is_doubtful or by_swap is None):
        return f"LOSES what was at its end: {why or 'the bytes there are damaged'}{doubt}"
    if lost is None:
        return f"LOSES {swapped}: a .swap file replaces segments that have more"
    of_recovery = offsets_text(lost.first_offset, lost.last_offset)
    span = f"LOSES {of_recovery if is_doubtful or not swapped else f'{swapped} and {of_recovery}'}"
    return f"{span}: {why}{doubt}" if why and not loss.deleted_segments else f"{span}{doubt}"


def _is_cut(loss: Recovery | RecoveryLoss) -> bool:
    return bool(loss.truncated or loss.deleted_segments)


def _behind_text(behind: BehindEnd) -> str:
    """Return the verdict on a log that ends too early, although loading removes nothing from it."""
    is_false = behind.clean_marker_false
    if behind.first_offset is None or behind.last_offset is None:
        marker = "the clean marker is FALSE, the log is damaged" if is_false else "DAMAGED"
        return f"{marker} at its end: {words(behind.damage or '')}"
    span = offsets_text(behind.first_offset, behind.last_offset)
    return f"LOSES {span}: the clean marker is FALSE" if is_false else f"MISSING {span} at its end"


# The evidence.


def _missing(lacking: _Lacking) -> Iterator[str]:
    """Yield what is gone already, what was or is after the log's end, and the evidence for that."""
    replicated = lacking.below_high_watermark
    if replicated is not None:
        span = offsets_text(replicated.first_offset, replicated.last_offset).partition(" ")[2]
        yield (
            f"replicated {count_text(replicated.offsets, 'offset')} ({span}) below the high watermark "
            f"{replicated.high_watermark:,}: all in-sync replicas had them, and producers got an acknowledgement"
        )
    if lacking.behind_end is not None and not _goes_with(lacking, lacking.behind_end):
        yield from _behind_lines(lacking.behind_end)
    for gap in lacking.missing:
        where = _place(gap)
        witness = f"; only {gap.told_by} is left" if gap.told_by else ""
        yield f"missing    {offsets_text(gap.first_offset, gap.last_offset)}, {where}{witness}"
    for unsure in lacking.perhaps_missing:
        either = "retention deleted them in a broker that was killed then, or somebody removed segments"
        yield f"unknown    {offsets_text(unsure.first_offset, unsure.last_offset)}, before the first segment: {either}"


def _place(gap: Gap) -> str:
    before, behind = (None if base is None else f"{base:020d}.log" for base in (gap.before, gap.behind))
    if before is None:
        return f"before {behind}"
    if before == behind:
        return f"inside {before}"
    return f"after {before}" if behind is None else f"between {before} and {behind}"


def _goes_with(lacking: _Lacking, behind: BehindEnd) -> bool:
    """Whether everything after the end is among what recovery removes."""
    lost, last = lacking.lost, behind.last_offset
    return lost is not None and last is not None and last <= lost.last_offset


def _behind_lines(behind: BehindEnd) -> Iterator[str]:
    if behind.told_by:
        yield f"told by    {', '.join(f'{one.by} {one.offset:,} ({one.where})' for one in behind.told_by)}"
    if behind.sound_last_offset is not None:
        records, batches = behind.sound_records, behind.sound_batches
        read = f"{count_text(records, 'record')} in {count_text(batches, 'batch', 'batches')}"
        yield f"readable   {read}, up to offset {behind.sound_last_offset:,}, are sound, and lie after the log end"
    if behind.damage is not None:
        yield f"damaged    {words(behind.damage)}"


def _cuts(plan: Plan, loss: Recovery | RecoveryLoss, reasons: Mapping[int, str]) -> Iterator[str]:
    for cut in loss.truncated:
        why = (
            reasons.get(cut.segment)
            or words(cut.reason or "")
            or "the bytes after the last batch are not a whole batch"
        )
        going = count_text(cut.bytes, "byte goes", "bytes go")
        yield f"truncated  {cut.segment:020d}.log at byte {cut.position:,}: {going}; {why}"
    deleted = loss.deleted_segments
    if deleted:
        names = ", ".join(str(base) for base in deleted[:4]) + (", ..." if len(deleted) > 4 else "")
        sizes = {fact.path: fact.size for fact in plan.facts}
        gone = sum(sizes.get(f"{base:020d}.log", 0) for base in deleted)
        yield f"deleted    {count_text(len(deleted), 'segment')} ({names}): {count_text(gone, 'byte')} of records"


def _work(plan: Plan, recovery: Recovery) -> Iterator[str]:
    changes = f"{count_text(len(plan.steps), 'change')} of files, {count_text(plan.bytes_held, 'byte')} held for undo"
    if recovery.recovered:
        scanned = count_text(scanned_bytes(plan, recovery), "byte")
        scanned = f"{count_text(len(recovery.recovered), 'segment')}, {scanned} to scan"
        yield f"recovered  {scanned}; {changes}"
    elif plan.steps:
        yield f"changed    {changes}"
    if recovery.guessed is not UNSET:
        yield (
            f"not known  {recovery.guessed} of the topic: rebuilt indexes are made with Kafka's default. --config-file "
            "FILE with the broker's log.dirs finds the cluster's metadata; --config gives the setting"
        )
    unread = unread_segments(plan, recovery)
    if unread:
        text = f"{count_text(len(unread), 'segment')}, {count_text(sum(unread.values()), 'byte')}"
        yield f"not read   {text}: a broker does not check them at this startup; klogtool verify looks for damage there"


def scanned_bytes(plan: Plan, recovery: Recovery) -> int:
    """Return the bytes of the segments that recovery reads."""
    sizes = plan.log_sizes
    return sum(sizes.get(base, 0) for base in recovery.recovered)


def unread_segments(plan: Plan, recovery: Recovery) -> dict[int, int]:
    """Return base offset and bytes of the segments that this start does not read.

    These are the segments below the recovery point, or all segments after a clean stop. Damage in them stays, and no
    other line reports it.
    """
    if isinstance(plan.question, RecoverQuestion) and plan.question.mark_clean:  # then every batch was read
        return {}
    seen = {*recovery.recovered, *recovery.deleted_segments}
    return {base: size for base, size in plan.log_sizes.items() if size and base not in seen}


# What to do.


def _cures(plan: Plan, lacking: _Lacking) -> Iterator[str]:
    """Yield commands that keep more than a broker's start does."""
    path, behind = quoted(plan.path), lacking.behind_end
    if lacking.lost is not None or (behind is not None and behind.sound_batches):
        yield f"  →  klogtool salvage {path} --output DIR  # keeps the sound batches after the damage"
    elif lacking.may_lose is not None:
        yield f"  →  klogtool salvage {path} --output DIR  # keeps the batches of the segment, in order"
    elif lacking.is_swapped:
        yield f"  →  klogtool salvage {path} --output DIR  # keeps the batches of the replaced segments"
    if behind is not None and behind.clean_marker_false:
        yield f"  →  klogtool recover {path} --last-stop unclean  # shows what a recovery keeps"
    if lacking.stray:
        yield f"  →  klogtool verify {path}  # says how to write partition.metadata again"
    lacks_end = behind is not None and behind.offsets and not _goes_with(lacking, behind)
    if lacking.renamed:
        yield f"  →  klogtool verify {path}  # says how {few_names(lacking.renamed)} gets its name back"
    if lacking.missing or lacking.perhaps_missing or lacks_end:
        yield f"  →  klogtool salvage {path} --replica COPY --output DIR  # takes the missing records from another copy"


def recover_brief(plan: Plan) -> str | None:
    """Return the text by which plans are counted together; None if the plan is shown by itself."""
    result = plan.result
    is_brief = isinstance(result, Recovery) and not result.split and not result.perhaps_missing
    return "nothing is lost" if is_brief else None


class RecoverTotals(Totals):
    """How many partitions lose records, how many offsets in total, and how many bytes recovery scans."""

    def __init__(self) -> None:
        self._partitions = self._losing = self._offsets = self._uncounted = self._lacking = self._doubtful = 0
        self._undecided = 0
        self._scanned = self._scanned_bytes = self._unread_bytes = 0

    def add(self, plan: Plan, *, is_loud: bool) -> None:
        """Add a plan. is_loud: the plan loses records, or records are gone already."""
        recovery = plan.result
        if not isinstance(recovery, Recovery):
            return
        self._partitions += 1
        if is_loud:
            self._add_loss(recovery)
        self._scanned_bytes += scanned_bytes(plan, recovery)
        self._scanned += bool(recovery.recovered)
        self._unread_bytes += sum(unread_segments(plan, recovery).values())

    def _add_loss(self, recovery: Recovery) -> None:
        behind, lost = recovery.behind_end, recovery.lost
        unseen = behind.offsets if behind is not None and behind.clean_marker_false else 0
        may_lose = recovery.may_lose or None
        self._undecided += may_lose is not None
        if may_lose is not None and (not recovery.loses_records or _is_emptied_only(recovery, may_lose)):
            return
        if not recovery.loses_records and not unseen:
            self._lacking += 1
            return
        by_swap = recovery.lost_by_swap or None
        is_doubtful = by_swap is not None and bool(by_swap.unless_compacted)
        self._doubtful += is_doubtful
        if is_doubtful and lost is None and not _is_cut(recovery):
            return
        self._losing += 1
        if not recovery.loses_records:
            self._offsets += unseen
        elif lost is None and (by_swap is None or is_doubtful):
            self._uncounted += 1
        for span in (lost, None if is_doubtful else by_swap):
            self._offsets += span.last_offset - span.first_offset + 1 if span is not None else 0

    def walk(self) -> Iterator[str]:
        """Yield the lines with the totals; none if there is only one partition."""
        if self._partitions < 2:
            return
        of_all = f"of {count_text(self._partitions, 'partition')}"
        losses = f"nothing is lost in any {of_all}"
        if self._doubtful or self._undecided:
            losses = f"this startup loses nothing for certain in any {of_all}"
        elif self._lacking:
            losses = f"this startup loses nothing more in any {of_all}"
        if self._losing:
            more = f", and damaged bytes at the end of {self._uncounted:,} of them" if self._uncounted else ""
            verb = "LOSES" if self._losing == 1 else "LOSE"
            losses = f"{self._losing:,} {of_all} {verb} {count_text(self._offsets, 'offset')}{more}"
        if self._doubtful:
            losses += f"; {count_text(self._doubtful, 'partition')} MAY LOSE what a .swap file lacks"
        if self._undecided:
            losses += f"; {count_text(self._undecided, 'partition')} MAY LOSE what index.interval.bytes decides"
        if self._lacking:
            verb = "has" if self._lacking == 1 else "have"
            losses += f"; {count_text(self._lacking, 'partition')} {verb} damage or a gap already"
        yield f"In all: {losses}; {self._scanned:,} to be recovered, {count_text(self._scanned_bytes, 'byte')} to scan."
        if self._unread_bytes:
            yield (
                f"Not read: {count_text(self._unread_bytes, 'byte')}, which a broker does not check at this startup. "
                "klogtool verify looks for damage there."
            )
