"""Describes damaged bytes of a log, and what they contained, for the user who loses them."""

from __future__ import annotations

from msgspec import Struct

from klogtool.format.framing import LOG_OVERHEAD
from klogtool.log.file import LogFile
from klogtool.salvage.stretches import Rejected, Run, Stretch, walk_stretches
from klogtool.verify.findings import Kind


class FoundBehind(Struct, frozen=True):
    """What a file has after the end that a broker sees: sound batches and their records, up to sound_end (None: none);
    what is wrong with the rest, as a sentence; and the offset up to which damaged headers claim records. is_served:
    whether the damage is one batch at the end of the file that a broker counts: its header is whole, and leads to the
    end."""

    batches: int
    records: int
    sound_end: int | None
    damage: str | None
    claimed_end: int | None
    is_served: bool = False


def look_behind(file: LogFile, base_offset: int, end_offset: int, jobs: int = 1) -> FoundBehind:
    """Read all of a segment's file. Raises Unreadable."""
    stretches = list(walk_stretches(file, base_offset, jobs=jobs))
    sound = [run for run in stretches if isinstance(run, Run) and run.last_offset >= end_offset]
    claimed = (claimed_end(part, file) for part in stretches if isinstance(part, Rejected))
    last = stretches[-1] if stretches else None
    damages = [part for part in stretches if isinstance(part, Rejected) or part.mends]
    return FoundBehind(
        sum(run.batches for run in sound),
        sum(run.records for run in sound),
        max((run.last_offset + 1 for run in sound), default=None),
        damage_text(damages[-1], file) if damages else None,
        max((end for end in claimed if end is not None), default=None),
        isinstance(last, Rejected) and last.cause != Kind.TORN_BATCH and claimed_end(last, file) == end_offset,
    )


def damage_at(file: LogFile, base_offset: int, position: int) -> tuple[str | None, int | None]:
    """Return what is wrong with the bytes at a position, and up to which offset they claim records; (None, None) if
    they are sound. Raises Unreadable."""
    part = next(walk_stretches(file, base_offset, start=position), None)
    return (damage_text(part, file), claimed_end(part, file)) if isinstance(part, Rejected) else (None, None)


def damage_text(part: Stretch, file: LogFile) -> str:
    """Say what is wrong with bytes that are not a sound batch, for a user who loses them. file: the file of the
    bytes."""
    if isinstance(part, Run):
        return f"the {part.mends[0].field} of the batch at byte {part.start:,} is wrong"
    if part.cause != Kind.TORN_BATCH:
        return f"{part.size:,} bytes are damaged: {part.detail}"
    size = _claimed_size(part, file)
    if size is None:
        return f"only {part.size:,} bytes of the last batch were written"
    return f"the last batch was only partly written ({part.size:,} of {size:,} bytes)"


def claimed_end(part: Rejected, file: LogFile) -> int | None:
    """Return the offset after those that a damaged header claims; None if it claims none, or too many. The next batch
    is unknown, so the limit is the size: a record takes some bytes, so there are never more offsets than bytes."""
    if part.first_offset is None or part.last_offset is None:
        return None
    most = _claimed_size(part, file) if part.cause == Kind.TORN_BATCH else part.size
    return part.last_offset + 1 if part.last_offset - part.first_offset < (most or 0) else None


def _claimed_size(part: Rejected, file: LogFile) -> int | None:
    """Return the size of the torn batch by its length field; None if that is missing, or is less than the bytes
    there."""
    head = file.read(part.start, min(LOG_OVERHEAD, part.size))
    size = LOG_OVERHEAD + int.from_bytes(head[LOG_OVERHEAD - 4 :], "big") if len(head) == LOG_OVERHEAD else 0
    return size if size > part.size else None
