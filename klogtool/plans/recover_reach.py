"""How far a log reached in the past, and what is after the end that a broker sees.

A broker that finds a clean marker does not check the log: the log ends where the last index entry leads. And no
recovery brings back what is gone. So the end is compared here with everything that shows a higher one: the checkpoints
of the log dir, names of producer snapshots, leader epochs, indexes whose `.log` is gone, and the batches themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Evidence
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.succession import facts_at
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.proving import RowPool, walk_proved
from klogtool.log.resync import find_next_batch
from klogtool.plans.causes import RecoverCause
from klogtool.salvage.stretches import Rejected, Run, Stretch, walk_stretches
from klogtool.verify.findings import Kind
from klogtool.verify.only_copies import HIGHEST, find_orphans

HIGH_WATERMARK = "high watermark"
ORPHANED_INDEX = "index without its .log"


class BehindEnd(Struct, frozen=True):
    """What the disk has, or shows to have been, after the end of a log.

    first_offset, last_offset: which offsets; None if there are only damaged bytes and nothing shows what they were.
    told_by: the sources. sound_batches, sound_records: sound ones after the end, in the active segment's file, up to
    sound_last_offset. damage: what is wrong with the bytes there, or None. clean_marker_false: a broker
    believes the clean marker and does not check. served: the damage is in the last batch that the broker counts: it
    serves that batch.
    """

    first_offset: int | None
    last_offset: int | None
    offsets: int
    told_by: list[Evidence]
    sound_batches: int = 0
    sound_records: int = 0
    sound_last_offset: int | None = None
    damage: Reason | None = None
    clean_marker_false: bool = False
    served: bool = False

    def reason(self, end: int) -> Reason:
        """Return what is behind the end, if a user asked for something else. end: the log end offset."""
        if self.last_offset is None:
            return RecoverCause.END_DAMAGED(end=end, damage=self.damage or "")
        why = RecoverCause.MARKER_FALSE if self.clean_marker_false else RecoverCause.MISSING
        return why(end=end, last=self.last_offset)


_NOTHING_BEHIND = BehindEnd(None, None, 0, [])


def find_behind_end(log: LoadedLog) -> BehindEnd | None:
    """Return what is after the end of a loaded log that was not changed otherwise; None if there is nothing.

    Raises KlogError if a file cannot be read.
    """
    end = log.log_end_offset
    beyond = [beyond for beyond in walk_evidence(log) if end < beyond.offset < HIGHEST]
    result = _look_behind_end(log) if log.terms.is_clean else None
    if not beyond and result is None:
        return None
    behind, claimed = result or (_NOTHING_BEHIND, [])
    sound = -1 if behind.sound_last_offset is None else behind.sound_last_offset
    reaches = max([end, sound + 1, *claimed, *(each.offset for each in beyond)])
    return replace(
        behind,
        first_offset=end if reaches > end else None,
        last_offset=reaches - 1 if reaches > end else None,
        offsets=reaches - end,
        told_by=beyond,
        clean_marker_false=log.terms.has_marker,
        served=behind.served and reaches == end,
    )


def walk_evidence(log: LoadedLog) -> Iterator[Evidence]:
    """Yield everything beside the `.log` files that says how far the log reached, as it was found."""
    yield from log.terms.evidence
    names = map(parse_file_name, log.draft.before)
    snapshots = [file for file in names if file.kind is FileKind.PRODUCER_SNAPSHOT and not file.suffix]
    newest = max(((file.base_offset, file.name) for file in snapshots if file.base_offset is not None), default=None)
    if newest is not None:
        yield Evidence("producer snapshot", *newest)
    if log.last_epoch_start:
        yield Evidence("leader epoch", log.last_epoch_start, FileKind.LEADER_EPOCH_CHECKPOINT.value)
    orphans = find_orphans(log.draft.before)
    if orphans:
        yield Evidence(ORPHANED_INDEX, max(orphans), orphans[max(orphans)])


# The end of the active segment.


def _look_behind_end(log: LoadedLog) -> tuple[BehindEnd, list[int]] | None:
    """Return None if the active segment ends with the batch that a broker takes for the last one, and that batch is
    sound; reading from the last index entry shows that. Otherwise the whole segment is read."""
    segment = log.segments.last
    if segment.base_offset in log.report.recovered or not segment.size:
        return None
    start = segment.offset_index.lookup(segment.offset_index.last_offset).position
    with segment.open_log() as file:
        if any(_is_sound_from(file, at, log.log_end_offset) for at in dict.fromkeys((start, 0))):
            return None
        return _look_behind(file, segment.base_offset, log.log_end_offset, log.jobs)


def _look_behind(file: LogFile, base_offset: int, end_offset: int, jobs: int) -> tuple[BehindEnd, list[int]]:
    """Read all of a segment's file. Return what it has after an end, without the offsets; and the offsets up to which
    damaged headers claim records. It may be served if the damage is one batch at the end of the file that a broker
    counts: its header is whole, and leads to the end."""
    stretches = list(walk_stretches(file, base_offset, jobs=jobs))
    sound = [run for run in stretches if isinstance(run, Run) and run.last_offset >= end_offset]
    claimed = [claimed_end(part, file) for part in stretches if isinstance(part, Rejected)]
    last = stretches[-1] if stretches else None
    damages = [part for part in stretches if isinstance(part, Rejected) or part.mends]
    behind = replace(
        _NOTHING_BEHIND,
        sound_batches=sum(run.batches for run in sound),
        sound_records=sum(run.records for run in sound),
        sound_last_offset=max((run.last_offset for run in sound), default=None),
        damage=_damage_of(damages[-1], file) if damages else None,
        served=isinstance(last, Rejected) and last.cause != Kind.TORN_BATCH and claimed[-1] == end_offset,
    )
    return behind, [end for end in claimed if end is not None]


def _is_sound_from(file: LogFile, position: int, end_offset: int) -> bool:
    """Return whether sound batches follow from a position to the end of the file, the last one ending before
    `end_offset`."""
    reached, last_offset = position, None
    if not 0 <= position < file.size:
        return False
    for proved in walk_proved(file, position, RowPool(), end=file.size):
        for rows, count in proved.rows:
            last_offset = facts_at(rows, count - 1).last_offset
        reached = proved.reached
    return reached == file.size and last_offset == end_offset - 1


# The offsets that a recovery removes from a log: how far it reached before, judged by its last sound batch.

TAIL_BYTES = 4 << 20  # read from the end of the last file, before all of it is read


def find_lost_offsets(draft: Draft, log_end_offset: int) -> tuple[int, int] | None:
    """Return the first and last offset that the log had as found, at or above its new end; None if no sound batch shows
    any."""
    logs = [file for name in draft.before if (file := parse_file_name(name)).kind is FileKind.LOG and not file.suffix]
    named = [(file.base_offset, file.name) for file in logs if file.base_offset is not None]
    for _, name in sorted(named, reverse=True):
        last_offset = _last_offset(draft, name, log_end_offset)
        if last_offset is not None:
            return (log_end_offset, last_offset) if last_offset >= log_end_offset else None
    return None


def _last_offset(draft: Draft, name: str, lowest: int) -> int | None:
    """Return the last offset of the last sound batch that begins at or above `lowest`."""
    with ContentFile(name, draft.before[name].content) as file:
        for start in dict.fromkeys((max(0, file.size - TAIL_BYTES), 0)):
            at = find_next_batch(file, start, end=file.size, lowest=lowest)
            if at is not None:
                return _end_of_run(FrameReader(file), at, file.size)
    return None


def _end_of_run(reader: FrameReader, position: int, end: int) -> int | None:
    last_offset = None
    for frame in reader.walk(position, end):
        try:
            last_offset = reader.last_offset(frame)
        except KlogError:
            break
    return last_offset


# What damaged bytes contained, for the user who loses them.


def damage_at(file: LogFile, base_offset: int, position: int) -> tuple[Reason | None, int | None]:
    """Return what is wrong with the bytes at a position, and up to which offset they claim records; (None, None) if
    they are sound. Raises Unreadable."""
    part = next(walk_stretches(file, base_offset, start=position), None)
    return (_damage_of(part, file), claimed_end(part, file)) if isinstance(part, Rejected) else (None, None)


def _damage_of(part: Stretch, file: LogFile) -> Reason:
    """Return what is wrong with bytes that are not a sound batch. file: the file of the bytes."""
    if isinstance(part, Run):
        return RecoverCause.FIELD_WRONG(field=part.mends[0].field, position=part.start)
    if part.cause != Kind.TORN_BATCH:
        return RecoverCause.DAMAGED(size=part.size, why=part.detail)
    claimed = _claimed_size(part, file)
    if claimed is None:
        return RecoverCause.PARTLY_WRITTEN(size=part.size)
    return RecoverCause.PARTLY_WRITTEN_OF(size=part.size, claimed=claimed)


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
