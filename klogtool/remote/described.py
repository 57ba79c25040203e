"""What the objects of a segment say of it, where no metadata does: its end, its epochs, its times.

Aiven's manifests have what the broker said. Of LocalTieredStorage, names and the files of Kafka itself are enough.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import AtPath, Corrupt
from klogtool.format.checkpoints import EpochEntry, parse_leader_epoch_checkpoint
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.format.indexes import NO_TIMESTAMP, OFFSET_ENTRIES, TIME_ENTRIES
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind
from klogtool.format.tiered import aiven
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import RemoteSegment, SegmentState
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.remote.segment_file import find_side_file, open_log, path_of
from klogtool.remote.store import RemoteStore, StoredSegment

NEAR_BYTES = 64 << 10  # of a log that is read at its end only


class DescribedSegment(Struct, frozen=True):
    """What objects say of a segment. reached: its log was cut, and went up to this offset at least, as an index shows,
    or to what is left of its last batch; None: nothing shows that it was. is_doubtful: its batches do not follow each
    other, or not its name and its index."""

    segment: RemoteSegment
    reached: int | None = None
    is_doubtful: bool = False


def describe(store: RemoteStore, stored: StoredSegment) -> RemoteSegment:
    """Return the metadata that a broker had for these objects, up to the last batch that is there. Raises KlogError,
    with a path, if they do not say enough."""
    return describe_objects(store, stored).segment


def describe_objects(store: RemoteStore, stored: StoredSegment) -> DescribedSegment:
    """Return what these objects say. Raises KlogError, with a path, if that is not enough."""
    if stored.layout is TierLayout.AIVEN:
        manifest = store.manifest(stored)
        if manifest is not None and manifest.segment is not None:
            return DescribedSegment(_own(manifest.segment, stored))
    with AtPath(stored.path_of_log):
        return _by_contents(store, stored)


def _by_contents(store: RemoteStore, stored: StoredSegment) -> DescribedSegment:
    """Return what the log says, and the files of Kafka beside it."""
    with open_log(store, stored, ahead_bytes=NEAR_BYTES) as file:
        index = find_side_file(store, stored, FileKind.OFFSET_INDEX)
        last_entry = OFFSET_ENTRIES.last(index or b"", stored.start_offset)
        end = _end_of(file, last_entry.position)
        last_offset, timestamp, size = end.last_offset, end.timestamp, file.size
    times = find_side_file(store, stored, FileKind.TIME_INDEX) or b""
    last_time = TIME_ENTRIES.last(times, stored.start_offset)
    reached = max(
        last_offset + end.is_torn,
        last_entry.offset if last_entry.position >= size else 0,
        last_time.offset if last_time.timestamp > timestamp else 0,
    )
    is_cut = reached > last_offset >= stored.start_offset
    with AtPath(path_of(stored, FileKind.LEADER_EPOCH_CHECKPOINT)):
        epochs = parse_leader_epoch_checkpoint(find_side_file(store, stored, FileKind.LEADER_EPOCH_CHECKPOINT) or b"")
    segment = RemoteSegment(
        stored.key,
        stored.topic,
        stored.start_offset,
        last_offset,
        max(timestamp, last_time.timestamp),
        # The file has no epoch that begins behind the segment: of one that was cut all of them count.
        epochs_within(epochs, stored.start_offset, MAX_LONG if is_cut else last_offset),
        size,
        stored.newest_ms,
        SegmentState.UNKNOWN,
        not find_side_file(store, stored, FileKind.TXN_INDEX),
    ).checked()
    is_begun_there = end.first_offset <= last_entry.offset <= last_offset if last_entry.position else True
    is_begun_there &= last_entry.position > 0 or end.first_offset == stored.start_offset
    return DescribedSegment(segment, reached if is_cut else None, end.is_broken or not is_begun_there)


def _own(said: RemoteSegment, stored: StoredSegment) -> RemoteSegment:
    """Return what a manifest says. Raises Corrupt if it says it of another segment.

    The folder decides which topic and partition it is: a manifest keeps the id of the topic that it was written for,
    also where the objects were copied for another cluster.
    """
    if (said.key.segment_id, said.start_offset) != (stored.key.segment_id, stored.start_offset):
        raise Corrupt(
            f"the manifest is that of segment {said.key.segment_id} from offset {said.start_offset}, not of "
            f"{stored.key.segment_id} from {stored.start_offset}",
            path=f"{stored.path}.{aiven.MANIFEST}",
        )
    # A key.prefix without `/` stands in front of the topic in the name of the folder.
    is_prefixed = bool(said.topic) and stored.topic.endswith(said.topic)
    return replace(said, key=stored.key, topic=said.topic if is_prefixed else stored.topic)


def epochs_within(entries: list[EpochEntry], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the epochs that a segment has records of; the first one is moved up to its start."""
    within = []
    for n, entry in enumerate(entries):
        behind = entries[n + 1].start_offset if n + 1 < len(entries) else end + 1
        if entry.start_offset <= end and behind > start:
            within.append((entry.epoch, max(start, entry.start_offset)))
    return tuple(within)


class _EndOfLog(Struct, frozen=True):
    """The batches from a position on. is_torn: bytes follow that are no whole batch. is_broken: they are not where they
    were looked for, or offsets are missing between them."""

    first_offset: int
    last_offset: int
    timestamp: int
    is_torn: bool
    is_broken: bool


def _end_of(file: LogFile, start: int) -> _EndOfLog:
    """Read the batches from a position on. Raises Corrupt if there is none."""
    frames = FrameReader(file)
    for at in (start, 0) if start else (0,):
        first_offset, last_offset, timestamp, is_broken = None, -1, NO_TIMESTAMP, at != start
        while isinstance(frame := frames.find(at, file.size), Frame):
            first = frame.offset if frame.magic >= CURRENT_MAGIC else last_offset + 1
            is_broken |= first_offset is not None and first != last_offset + 1
            first_offset = first if first_offset is None else first_offset
            last_offset, at = frames.last_offset(frame), at + frame.size
            timestamp = max(timestamp, frames.max_timestamp(frame))
        if first_offset is not None:
            return _EndOfLog(first_offset, last_offset, timestamp, at < file.size, is_broken)
    raise Corrupt("the log has no whole batch", path=file.path)
