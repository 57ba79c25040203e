"""Describes the result of salvage: the answer, what became of each segment, and notes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from klogtool.causes import Reason, Text
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.plans.causes import SalvageCause, SalvageNote
from klogtool.plans.plan import SizedVerdict
from klogtool.plans.recover_result import OffsetSpan
from klogtool.plans.results import Result
from klogtool.salvage.assembly import NewSegment
from klogtool.salvage.holes import Filling, Hole, OtherCopy, RefusedBatches
from klogtool.salvage.loadable import Loadable
from klogtool.salvage.losses import LEFT_OVERS, MISSING, Loss, OnlyLeft
from klogtool.salvage.partition_files import PartitionFiles, SegmentFile
from klogtool.salvage.stretches import Rejected, Run, Stretch

UNLOADABLE = "unloadable"  # the cause for a sound batch at which a broker would stop


class Salvaged(Struct, frozen=True):
    """Everything that salvage found and decided; see plans/salvage.py."""

    files: PartitionFiles
    replicas: Sequence[PartitionFiles]
    stretches: Sequence[Stretch]
    fillings: Sequence[tuple[Filling, Hole]]
    refusals: Sequence[RefusedBatches]
    copies: Sequence[OtherCopy]
    segments: Sequence[NewSegment]
    loadable: Loadable
    lost: Sequence[Loss]
    perhaps_missing: Sequence[OffsetSpan] = ()
    only_left: Sequence[OnlyLeft] = ()

    @property
    def own_runs(self) -> list[Run]:
        """Return what is kept of this partition."""
        return [stretch for stretch in self.stretches if isinstance(stretch, Run)]

    @property
    def rejected(self) -> list[Rejected]:
        """Return what is rejected of this partition."""
        return [stretch for stretch in self.stretches if isinstance(stretch, Rejected)]


class CopiedOffsets(Struct, frozen=True, rename={"source": "from"}):
    """Offsets that a copy contributes, or has otherwise. source: the copy's name."""

    source: str
    first_offset: int
    last_offset: int


class CorrectedField(Struct, frozen=True, rename={"now": "is"}):
    """A wrong field of a batch header. position: of the batch; was, now: its value, and the right value."""

    segment: int
    position: int
    field: str
    was: int
    now: int


class RejectedBytes(Struct, frozen=True):
    """Bytes [start, end) of a file that are not kept, as in `Rejected`."""

    file: str
    start: int
    end: int
    cause: str
    detail: Text
    first_offset: int | None
    last_offset: int | None


class SalvageResult(Result, frozen=True):
    """The answer of docs/contract.md, with further fields. perhaps_missing, renamed: as in Recovery."""

    kept_batches: int
    kept_records: int
    lost: list[Loss]
    filled: list[CopiedOffsets]
    filled_batches: int
    filled_records: int
    mended: list[CorrectedField]
    diverging: list[CopiedOffsets]
    rejected: list[RejectedBytes]
    log_end_offset: int
    perhaps_missing: list[OffsetSpan] | UnsetType = UNSET
    renamed: list[str] | UnsetType = UNSET

    @property
    def loses(self) -> bool:
        """Whether offsets are lost."""
        return any(loss.first_offset is not None for loss in self.lost)


class SalvageVerdict(SizedVerdict, frozen=True):
    """size: of what becomes of it. rejected_bytes: of it, not kept."""

    rejected_bytes: int


def result_of(salvaged: Salvaged) -> SalvageResult:
    """Return the answer."""
    runs = salvaged.own_runs
    filling = [filling.run for filling, _ in salvaged.fillings]
    mends = ((run.segment, mend) for run in [*runs, *filling] for mend in run.mends)
    return SalvageResult(
        sum(run.batches for run in runs),
        sum(run.records for run in runs),
        list(salvaged.lost),
        _filled(salvaged.fillings),
        sum(run.batches for run in filling),
        sum(run.records for run in filling),
        [CorrectedField(segment, mend.position, mend.field, mend.was, mend.now) for segment, mend in mends],
        [
            CopiedOffsets(copy.name, part.first_offset, part.last_offset)
            for copy in salvaged.copies
            for part in copy.diverging
        ],
        list(map(_rejected, salvaged.rejected)),
        salvaged.loadable.log_end_offset,
        list(salvaged.perhaps_missing) or UNSET,
        list(salvaged.files.may_have(_lost_ranges(salvaged))) or UNSET,
    )


def _lost_ranges(salvaged: Salvaged) -> Iterator[tuple[int, int]]:
    for loss in salvaged.lost:
        if loss.first_offset is not None:
            yield loss.first_offset, MAX_LONG if loss.last_offset is None else loss.last_offset
    yield from ((span.first_offset, span.last_offset) for span in salvaged.perhaps_missing)


def _filled(fillings: Sequence[tuple[Filling, Hole]]) -> list[CopiedOffsets]:
    """Return the pieces that copies contribute; adjacent pieces in one hole are joined."""
    joined: list[CopiedOffsets] = []
    holes: list[Hole] = []
    for filling, hole in fillings:
        first, last, name = filling.run.first_offset, filling.run.last_offset, filling.copy.name
        if joined and holes[-1] is hole and joined[-1].source == name and joined[-1].last_offset + 1 == first:
            joined[-1] = replace(joined[-1], last_offset=last)
        else:
            joined.append(CopiedOffsets(name, first, last))
            holes.append(hole)
    return joined


def _rejected(part: Rejected) -> RejectedBytes:
    name = os.path.basename(part.path)
    return RejectedBytes(name, part.start, part.stop, part.cause, part.detail, part.first_offset, part.last_offset)


# Segments.


def verdicts(salvaged: Salvaged) -> Iterator[SizedVerdict]:
    """Yield what becomes of each old segment, and which segments are new."""
    became: dict[int | None, list[NewSegment]] = {}
    for segment in salvaged.segments:
        became.setdefault(segment.source, []).append(segment)
    parts: dict[str, list[Stretch]] = {}
    for stretch in salvaged.stretches:
        parts.setdefault(stretch.path, []).append(stretch)
    missing = list(_missing(salvaged))
    for file in salvaged.files.segments:
        behind = [loss for base_offset, loss in missing if base_offset == file.base_offset]
        yield _verdict(file, became.get(file.base_offset, []), parts.get(file.path, []), behind)
    for segment in salvaged.segments:
        if segment.source is None:
            yield SizedVerdict(segment.base_offset, "new", SalvageCause.ONLY_COPY(), segment.size)


def _missing(salvaged: Salvaged) -> Iterator[tuple[int, Loss]]:
    """Yield losses without bytes, each with the base offset of the segment that contained them."""
    bases = [file.base_offset for file in salvaged.files.segments]
    for loss in salvaged.lost:
        first = loss.first_offset
        if loss.cause == MISSING and first is not None:
            holder = max((base for base in bases if base <= first), default=None)
            if holder is not None:
                yield holder, loss


def _missing_after(loss: Loss) -> Reason:
    first = loss.first_offset or 0
    if loss.last_offset is None:
        return SalvageCause.MISSING_ON(first=first)
    if loss.last_offset == first:
        return SalvageCause.MISSING_ONE(first=first)
    return SalvageCause.MISSING(first=first, last=loss.last_offset)


def _verdict(
    file: SegmentFile, became: Sequence[NewSegment], mine: Sequence[Stretch], missing: Sequence[Loss]
) -> SalvageVerdict:
    rejected = [part for part in mine if isinstance(part, Rejected)]
    size, rejected_bytes = sum(segment.size for segment in became), sum(part.size for part in rejected)
    reasons: list[Reason] = []
    if rejected:
        causes = tuple(dict.fromkeys(str(part.cause) for part in rejected))
        reasons.append(SalvageCause.REJECTED(rejected=rejected_bytes, size=file.size, causes=causes))
    if mended := sum(len(run.mends) for run in mine if isinstance(run, Run)):
        reasons.append(SalvageCause.CORRECTED(fields=mended) if mended > 1 else SalvageCause.CORRECTED_ONE())
    if any(one.start > other.start for one, other in pairwise(mine)):
        reasons.append(SalvageCause.IN_ORDER())
    filled = [run for segment in became for run in segment.runs if run.path != file.path]
    if filled:
        reasons.append(SalvageCause.FROM_COPIES(size=sum(run.size for run in filled)))
    names = tuple(segment.base_offset for segment in became)
    if names and names != (file.base_offset,):
        reasons.append(SalvageCause.CONTINUES(segments=names))
    if not became:
        why = SalvageCause.ALL(reasons=(SalvageCause.NOTHING_LEFT(), *reasons))
        return SalvageVerdict(file.base_offset, "drop", why, size, rejected_bytes)
    action = "rewrite" if reasons else "keep"
    empty = [SalvageCause.EMPTY()] if missing and not file.size else []
    all_reasons = (*empty, *reasons, *map(_missing_after, missing)) or (SalvageCause.SOUND(),)
    return SalvageVerdict(file.base_offset, action, SalvageCause.ALL(reasons=all_reasons), size, rejected_bytes)


# Notes.


def notes(salvaged: Salvaged, log_start_offset: int) -> Iterator[Reason]:
    """Yield what else the user should know."""
    yield from _notes_on_files(salvaged)
    for loss in salvaged.lost:
        if loss.cause == MISSING:
            yield SalvageNote.MISSING(first=str(loss.first_offset), last=str(loss.last_offset))
    for span in salvaged.perhaps_missing:
        yield SalvageNote.PERHAPS_MISSING(first=span.first_offset, last=span.last_offset)
    for copy in salvaged.copies:
        yield from _notes_on_copy(salvaged, copy)
    yield from _notes_on_txns(salvaged)
    end = salvaged.loadable.log_end_offset
    if log_start_offset > end:
        yield SalvageNote.START_ABOVE_END(start=log_start_offset, end=end)
    elif log_start_offset > min((segment.base_offset for segment in salvaged.segments), default=log_start_offset):
        yield SalvageNote.START_NEEDS_LINE(start=log_start_offset)


def _notes_on_files(salvaged: Salvaged) -> Iterator[Reason]:
    metadata, epochs = FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCH_CHECKPOINT
    now = salvaged.loadable.draft.files
    for kind, reason in salvaged.files.damaged.items():
        is_there = kind is epochs or kind.value in now
        note = SalvageNote.WRITTEN_AGAIN if is_there else SalvageNote.LEFT_OUT
        yield note(file=kind.value, error=reason)
    if metadata.value in now and metadata.value not in salvaged.files.files:
        yield SalvageNote.FROM_REPLICA(file=metadata.value)
    alone = [left.name for left in salvaged.only_left]
    for left in salvaged.only_left:
        suffix = parse_file_name(left.name).suffix
        yield SalvageNote.ONLY_LEFT(file=left.name, first=left.first_offset, last=left.last_offset, suffix=suffix)
    for copy, cure in salvaged.files.may_have(_lost_ranges(salvaged)).items():
        yield SalvageNote.MAY_HAVE(file=copy) if cure is None else SalvageNote.MAY_HAVE_FILL(file=copy, command=cure)
    for name in salvaged.files.names():
        if name.kind is FileKind.LOG and name.suffix in LEFT_OVERS and name.name not in alone:
            yield SalvageNote.ASIDE(file=name.name)


def _notes_on_copy(salvaged: Salvaged, copy: OtherCopy) -> Iterator[Reason]:
    for part in copy.diverging:
        note = SalvageNote.OTHER_FORM if part.same_epoch else SalvageNote.OTHER_BATCHES
        yield note(copy=copy.name, first=part.first_offset, last=part.last_offset)
    refused: dict[Text, list[RefusedBatches]] = {}
    for refusal in salvaged.refusals:
        if refusal.copy is copy:
            refused.setdefault(refusal.reason, []).append(refusal)
    for reason, parts in refused.items():
        first, last = parts[0].first_offset, parts[-1].last_offset
        yield SalvageNote.NOT_TAKEN(copy=copy.name, first=first, last=last, why=reason)
    taken = [f.run for f, hole in salvaged.fillings if hole.last is None and f.copy is copy]
    if taken:
        yield SalvageNote.END_TAKEN(copy=copy.name, first=taken[0].first_offset, last=taken[-1].last_offset)
    end = salvaged.loadable.log_end_offset
    if not refused and copy.runs and copy.runs[-1].last_offset >= end:
        yield SalvageNote.END_NOT_TAKEN(copy=copy.name, last=copy.runs[-1].last_offset)
    first = min((run.first_offset for run in salvaged.own_runs), default=end)
    if copy.runs and copy.runs[0].first_offset < min([first, *(f.run.first_offset for f, _ in salvaged.fillings)]):
        yield SalvageNote.START_NOT_TAKEN(copy=copy.name, first=copy.runs[0].first_offset)


def _notes_on_txns(salvaged: Salvaged) -> Iterator[Reason]:
    lost = [loss for loss in salvaged.lost if loss.first_offset is not None]
    for txn in salvaged.loadable.open_txns:
        is_behind = any(loss.last_offset is None or loss.last_offset > txn.first_offset for loss in lost)
        note = SalvageNote.OPEN_MARKER_LOST if is_behind else SalvageNote.OPEN
        yield note(producer_id=txn.producer_id, first=txn.first_offset)
    now = set(salvaged.loadable.aborted_txns)
    for aborted in salvaged.files.aborted_txns:
        is_kept = any(
            run.first_offset < aborted.last_offset and run.last_offset >= aborted.first_offset
            for run in salvaged.own_runs
        )
        if aborted not in now and is_kept:
            span = aborted.first_offset, aborted.last_offset
            yield SalvageNote.ABORT_LOST(producer_id=aborted.producer_id, first=span[0], last=span[1])
