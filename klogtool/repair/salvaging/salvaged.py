"""What salvage tells of its result: the answer, what became of each segment, and notes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from klogtool.format.names import FileKind
from klogtool.lazy_dataclasses import dataclass
from klogtool.repair.plan import SegmentVerdict
from klogtool.repair.salvaging.assembly import NewSegment
from klogtool.repair.salvaging.holes import Copy, Filling, Hole, Refusal
from klogtool.repair.salvaging.loadable import Loadable
from klogtool.repair.salvaging.losses import MISSING, Loss
from klogtool.repair.salvaging.partition_files import PartitionFiles, SegmentFile
from klogtool.repair.salvaging.stretches import Rejected, Run, Stretch

UNLOADABLE = "unloadable"  # the cause for a batch that is sound, but that a broker would stop at
_LEFTOVERS = (".deleted", ".cleaned")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """All that salvage found and decided; see repair/salvage.py."""

    files: PartitionFiles
    replicas: Sequence[PartitionFiles]
    stretches: Sequence[Stretch]
    fillings: Sequence[tuple[Filling, Hole]]
    refusals: Sequence[Refusal]
    copies: Sequence[Copy]
    segments: Sequence[NewSegment]
    loadable: Loadable
    lost: Sequence[Loss]

    @property
    def own_runs(self) -> list[Run]:
        """What is kept of this partition."""
        return [stretch for stretch in self.stretches if isinstance(stretch, Run)]

    @property
    def rejected(self) -> list[Rejected]:
        """What is not."""
        return [stretch for stretch in self.stretches if isinstance(stretch, Rejected)]


def answer(salvaged: Salvaged) -> dict[str, Any]:
    """The contract's answer, in JSON's types, and more beside it."""
    runs = salvaged.own_runs
    filling = [filling.run for filling, _ in salvaged.fillings]
    return {
        "kept_batches": sum(run.batches for run in runs),
        "kept_records": sum(run.records for run in runs),
        "lost": [asdict(loss) for loss in salvaged.lost],
        "filled": list(_filled(salvaged.fillings)),
        "filled_batches": sum(run.batches for run in filling),
        "filled_records": sum(run.records for run in filling),
        "mended": list(_mended([*runs, *filling])),
        "diverging": [
            {"from": copy.name, "first_offset": part.first_offset, "last_offset": part.last_offset}
            for copy in salvaged.copies
            for part in copy.diverging
        ],
        "rejected": [_rejected(part) for part in salvaged.rejected],
        "log_end_offset": salvaged.loadable.log_end_offset,
    }


def _filled(fillings: Sequence[tuple[Filling, Hole]]) -> Iterator[dict[str, Any]]:
    """What comes from a copy and goes into one hole without a gap is one."""
    joined: list[dict[str, Any]] = []
    holes: list[Hole] = []
    for filling, hole in fillings:
        first, last, name = filling.run.first_offset, filling.run.last_offset, filling.copy.name
        if joined and holes[-1] is hole and joined[-1]["from"] == name and joined[-1]["last_offset"] + 1 == first:
            joined[-1]["last_offset"] = last
        else:
            joined.append({"from": name, "first_offset": first, "last_offset": last})
            holes.append(hole)
    yield from joined


def _mended(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for mend in run.mends:
            yield {
                "segment": run.segment,
                "position": mend.position,
                "field": mend.field,
                "was": mend.was,
                "is": mend.now,
            }


def _rejected(part: Rejected) -> dict[str, Any]:
    return {
        "file": os.path.basename(part.path),
        "start": part.start,
        "end": part.stop,
        "cause": part.cause,
        "detail": part.detail,
        "first_offset": part.first_offset,
        "last_offset": part.last_offset,
    }


# Segments.


def verdicts(salvaged: Salvaged) -> Iterator[SegmentVerdict]:
    """What becomes of each segment that there was, and which new ones there are."""
    became: dict[int | None, list[NewSegment]] = {}
    for segment in salvaged.segments:
        became.setdefault(segment.source, []).append(segment)
    parts: dict[str, list[Stretch]] = {}
    for stretch in salvaged.stretches:
        parts.setdefault(stretch.path, []).append(stretch)
    for file in salvaged.files.segments:
        yield _verdict(file, became.get(file.base_offset, []), parts.get(file.path, []))
    for segment in salvaged.segments:
        if segment.source is None:
            yield SegmentVerdict(segment.base_offset, "new", "only a copy has it", {"size": segment.size})


def _verdict(file: SegmentFile, became: Sequence[NewSegment], mine: Sequence[Stretch]) -> SegmentVerdict:
    rejected = [part for part in mine if isinstance(part, Rejected)]
    more = {"size": sum(segment.size for segment in became), "rejected_bytes": sum(part.size for part in rejected)}
    reasons = []
    if rejected:
        causes = ", ".join(dict.fromkeys(part.cause for part in rejected))
        reasons.append(f"{more['rejected_bytes']:,} of {file.size:,} bytes rejected: {causes}")
    if mended := sum(len(run.mends) for run in mine if isinstance(run, Run)):
        reasons.append(f"{mended} field{'s' * (mended > 1)} set right")
    filled = [run for segment in became for run in segment.runs if run.path != file.path]
    if filled:
        reasons.append(f"{sum(run.size for run in filled):,} bytes from copies")
    names = [segment.base_offset for segment in became]
    if names and names != [file.base_offset]:
        reasons.append(f"goes on as {', '.join(map(str, names))}")
    if not became:
        return SegmentVerdict(file.base_offset, "drop", "; ".join(["nothing of it is left", *reasons]), more)
    action = "rewrite" if reasons else "keep"
    return SegmentVerdict(file.base_offset, action, "; ".join(reasons) or "nothing is wrong with it", more)


# Notes.


def notes(salvaged: Salvaged, log_start_offset: int) -> Iterator[str]:
    """What a person is to know besides."""
    yield from _notes_on_files(salvaged)
    yield from _notes_on_gaps(salvaged)
    for copy in salvaged.copies:
        yield from _notes_on_copy(salvaged, copy)
    yield from _notes_on_txns(salvaged)
    end = salvaged.loadable.log_end_offset
    if log_start_offset > end:
        yield (
            f"log start offset {log_start_offset} is behind the end, {end}: a broker that finds it in "
            "log-start-offset-checkpoint deletes all segments; leave that line out"
        )
    elif log_start_offset > min((segment.base_offset for segment in salvaged.segments), default=log_start_offset):
        yield (
            f"log start offset {log_start_offset}: where log-start-offset-checkpoint has no such line, the records "
            "below it are there again"
        )


def _notes_on_files(salvaged: Salvaged) -> Iterator[str]:
    metadata, epochs = FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCH_CHECKPOINT
    now = salvaged.loadable.draft.files
    for kind, reason in salvaged.files.damaged.items():
        is_there = kind is epochs or kind.value in now
        cure = "written anew" if is_there else "left out; without it a broker takes the partition for a stray"
        yield f"{kind.value} cannot be read ({reason}): it is {cure}"
    if metadata.value in now and metadata.value not in salvaged.files.files:
        yield f"{metadata.value} is missing, and comes from a replica"
    for name in salvaged.files.names():
        if name.kind is FileKind.LOG and name.suffix in _LEFTOVERS:
            yield f"{name.name} is not looked at: the broker had given it up"


def _notes_on_gaps(salvaged: Salvaged) -> Iterator[str]:
    """Whole segments that are not there, as far as names tell."""
    for loss in salvaged.lost:
        if loss.cause == MISSING:
            yield f"offsets {loss.first_offset} to {loss.last_offset} are missing, as names and checkpoints tell"


def _notes_on_copy(salvaged: Salvaged, copy: Copy) -> Iterator[str]:
    for part in copy.diverging:
        kind = "another form of the same records, perhaps compacted" if part.same_epoch else "other batches"
        yield f"{copy.name} diverges at offsets {part.first_offset} to {part.last_offset}: {kind}"
    refused: dict[str, list[Refusal]] = {}
    for refusal in salvaged.refusals:
        if refusal.copy is copy:
            refused.setdefault(refusal.reason, []).append(refusal)
    for reason, parts in refused.items():
        yield f"{copy.name}: offsets {parts[0].first_offset} to {parts[-1].last_offset} are not taken: {reason}"
    taken = [f.run for f, hole in salvaged.fillings if hole.last is None and f.copy is copy]
    if taken:
        yield (
            f"{copy.name} goes on from where this log is cut off: offsets {taken[0].first_offset} to "
            f"{taken[-1].last_offset} are taken from it"
        )
    end = salvaged.loadable.log_end_offset
    if not refused and copy.runs and copy.runs[-1].last_offset >= end:
        yield (
            f"{copy.name} goes on to offset {copy.runs[-1].last_offset}: not taken, for the end of this log is sound"
        )
    first = min((run.first_offset for run in salvaged.own_runs), default=0)
    if copy.runs and copy.runs[0].first_offset < min([first, *(f.run.first_offset for f, _ in salvaged.fillings)]):
        yield f"{copy.name} begins at offset {copy.runs[0].first_offset}: what lies before this log is not taken"


def _notes_on_txns(salvaged: Salvaged) -> Iterator[str]:
    lost = [loss for loss in salvaged.lost if loss.first_offset is not None]
    for txn in salvaged.loadable.open_txns:
        is_behind = any(loss.last_offset is None or loss.last_offset > txn.first_offset for loss in lost)
        may = "; its marker may be among what is lost" if is_behind else ""
        yield (
            f"the transaction of producer {txn.producer_id} from offset {txn.first_offset} on is open{may}: consumers "
            "with read_committed wait there"
        )
    now = set(salvaged.loadable.aborted_txns)
    for aborted in salvaged.files.aborted_txns:
        is_kept = any(
            run.first_offset < aborted.last_offset and run.last_offset >= aborted.first_offset
            for run in salvaged.own_runs
        )
        if aborted not in now and is_kept:
            yield (
                f"the transaction of producer {aborted.producer_id}, offsets {aborted.first_offset} to "
                f"{aborted.last_offset}, was aborted, and its marker is lost: what is kept of it counts as committed"
            )
