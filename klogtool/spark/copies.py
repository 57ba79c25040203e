"""Which partitions are under some paths, and which copy of each is read, so that replicas are not counted twice.

All files are listed once, and their sizes are of that moment. Of a copy a few small files are read. A few headers of
its last segment are read only if there are several copies to choose from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import groupby

from msgspec import Struct

from klogtool.errors import KlogError, Refused
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import parse_partition_metadata
from klogtool.format.names import (
    SEGMENT_KINDS,
    FileKind,
    PartitionDirName,
    TopicPartition,
    parse_file_name,
)
from klogtool.format.tiered.objects import parse_object_name
from klogtool.format.uuids import parse_uuid
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.logdir import REMOTE_INDEX_CACHE
from klogtool.log.storage import Place, Storage, Stored, open_place
from klogtool.spark.causes import LogCause, SparkCure
from klogtool.spark.heads import log_end_offset
from klogtool.spark.tiered import partitions_in, storage_of
from klogtool.values import PartlyCompared


class SegmentFiles(Struct, frozen=True):
    """A segment as listed. next_base_offset: of the next segment, None for the last one."""

    base_offset: int
    log: Stored
    indexes: dict[FileKind, Stored]
    next_base_offset: int | None = None

    @property
    def size(self) -> int:
        """Bytes of its `.log`."""
        return self.log.size


class Copy(PartlyCompared, frozen=True, eq=False):
    """A partition dir. topic, partition: None if the folder's name does not have them.

    side: its other files by name; files of its log dir have the prefix `../`. tiered_id: the topic's id, of a partition
    in remote storage.
    """

    uncompared = frozenset({"side"})
    unshown = frozenset({"side"})

    place: Place
    folder: str
    topic: str | None
    partition: int | None
    segments: tuple[SegmentFiles, ...]
    side: dict[str, Stored]
    tiered_id: str | None = None

    @property
    def size(self) -> int:
        """Bytes of its logs."""
        return sum(segment.size for segment in self.segments)

    @property
    def storage(self) -> Storage:
        """The storage from which its files are read."""
        return storage_of(self.place, self.segments[0].log)

    @property
    def identity(self) -> Stored | None:
        """The meta.properties of its log dir; None if there is none."""
        return self.side.get(f"../{FileKind.META_PROPERTIES.value}")

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers see: its first segment's base offset, or a higher one in the log dir's
        checkpoint."""
        first = self.segments[0].base_offset
        stored = self.side.get(f"../{FileKind.LOG_START_CHECKPOINT.value}")
        if stored is None or self.topic is None or self.partition is None:
            return first
        offsets = _checkpoint(self.place, stored)
        return max(first, offsets.get(TopicPartition(self.topic, self.partition), first))

    @property
    def snapshots(self) -> list[tuple[int, Stored]]:
        """The producer snapshots of the partition, by offset."""
        names = [(parse_file_name(name), stored) for name, stored in self.side.items()]
        return sorted(
            (
                (name.base_offset, stored)
                for name, stored in names
                if name.kind is FileKind.PRODUCER_SNAPSHOT and name.base_offset is not None and not name.suffix
            ),
            key=lambda pair: pair[0],
        )

    @property
    def topic_id(self) -> bytes | None:
        """The topic's id in partition.metadata; None if there is no valid file. Raises Unreadable."""
        stored = self.side.get(FileKind.PARTITION_METADATA.value)
        try:
            if self.tiered_id is not None:
                return parse_uuid(self.tiered_id)
            return None if stored is None else parse_partition_metadata(self.storage.read(stored)).topic_id
        except Unreadable:  # a file that may not be read is not absent
            raise
        except KlogError:
            return None

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch in leader-epoch-checkpoint; -1 if there is no valid file. Raises Unreadable."""
        stored = self.side.get(FileKind.LEADER_EPOCH_CHECKPOINT.value)
        try:
            entries = parse_leader_epoch_checkpoint(self.storage.read(stored)) if stored else []
        except Unreadable:
            raise
        except KlogError:
            return -1
        return max((entry.epoch for entry in entries), default=-1)


@lru_cache(maxsize=16)  # thousands of partitions use the same one
def _checkpoint(place: Place, stored: Stored) -> dict[TopicPartition, int]:
    try:
        return parse_offset_checkpoint(open_place(place)[0].read(stored))
    except Unreadable:
        raise
    except KlogError:  # like a broker, which starts without it
        return {}


def find_copies(places: Iterable[Place], *, may_be_gone: bool = False) -> list[Copy]:
    """Return every partition dir under these places that has a segment, by topic, partition and folder.

    Dirs with a suffix (deleted, stray, future) are left out, unless the place itself is one. Raises Unreadable if a
    place cannot be listed, Refused if none of them has a log, unless they may be gone.
    """
    copies: dict[object, Copy] = {}
    places = list(places)
    for place in places:
        for copy in _copies_in(place):
            copies.setdefault((place.home, copy.folder), copy)
    if not copies and not may_be_gone:
        raise Refused(LogCause.NO_PARTITION_DIR(), path=places[0].shown)
    return sorted(
        copies.values(),
        key=lambda copy: (copy.topic or "", -1 if copy.partition is None else copy.partition, copy.folder),
    )


def _copies_in(place: Place) -> Iterator[Copy]:
    storage, root = open_place(place)
    folders: dict[str, list[Stored]] = {}
    listed = storage.list(root)
    yield from _tiered_in(place, root, listed)
    for stored in listed:
        folders.setdefault(stored.path.rpartition("/")[0] or "/", []).append(stored)
    for folder, files in folders.items():
        name = find_partition_dir_name(os.path.basename(folder))
        is_given = folder == root or files[0].path == root
        if is_given or (name and name.state.is_current and REMOTE_INDEX_CACHE not in folder):
            if files[0].path == root:  # a single file was given: read the files beside it too
                files = [*files, *(f for f in storage.list(folder) if not f.path.endswith(FileKind.LOG.value))]
            yield from _copy_of(place, folder, files, name, folders)


def _tiered_in(place: Place, root: str, listed: list[Stored]) -> Iterator[Copy]:
    """Yield what is in remote storage, if the place is a store, a partition in one, or the log of a segment."""
    if parse_object_name(root) is not None:  # a single log was given: use the objects beside it too
        folder, _, name = root.rpartition("/")
        base = name.partition(".")[0]
        listed = [one for one in open_place(place)[0].list(folder) if one.path.rpartition("/")[2].startswith(base)]
    for partition in partitions_in(place, listed):
        segments = _segments(partition.files)
        yield Copy(
            place, partition.folder, partition.topic, partition.partition, segments, partition.files, partition.topic_id
        )


def _copy_of(
    place: Place, folder: str, files: list[Stored], name: PartitionDirName | None, folders: dict[str, list[Stored]]
) -> Iterator[Copy]:
    side = {stored.path.rpartition("/")[2]: stored for stored in files}
    segments = _segments(side)
    if not segments:
        return
    above = os.path.dirname(folder)
    around = folders.get(above) or _beside(place, above)
    side |= {f"../{os.path.basename(stored.path)}": stored for stored in around}
    topic, partition = (name.topic, name.partition) if name else (None, None)
    yield Copy(place, folder, topic, partition, segments, side)


def _beside(place: Place, folder: str) -> list[Stored]:
    """Return the two files of a log dir that matter for a partition dir which was given by itself."""
    storage, root = open_place(place)
    if folder == root or not root.startswith(folder):  # it was listed with the place
        return []
    stored: list[Stored] = []
    for kind in (FileKind.LOG_START_CHECKPOINT, FileKind.META_PROPERTIES):
        with suppress(KlogError):
            stored += storage.list(f"{folder}/{kind.value}")
    return stored


def _segments(side: dict[str, Stored]) -> tuple[SegmentFiles, ...]:
    by_offset: dict[int, dict[FileKind, Stored]] = {}
    for base, stored in side.items():
        name = parse_file_name(base)
        if name.base_offset is not None and not name.suffix and name.kind in SEGMENT_KINDS:
            by_offset.setdefault(name.base_offset, {}).setdefault(name.kind, stored)
    offsets = sorted(offset for offset, kinds in by_offset.items() if FileKind.LOG in kinds)
    return tuple(
        SegmentFiles(offset, by_offset[offset].pop(FileKind.LOG), by_offset[offset], after)
        for offset, after in zip(offsets, [*offsets[1:], None], strict=False)
    )


def choose(copies: Iterable[Copy], notes: list[str]) -> list[Copy]:
    """Choose one copy of each partition: the latest leader epoch wins, then the highest end offset, then the lowest
    start. The copies that were not chosen are listed in `notes`.

    Raises Refused if copies belong to different topics of the same name.
    """
    choice = []
    for (topic, partition), group in groupby(copies, key=lambda copy: (copy.topic, copy.partition)):
        same = list(group)
        if topic is None or len(same) == 1:
            choice += same
            continue
        _check_topic_ids(same)
        best = max(same, key=lambda copy: (copy.latest_epoch, end_of(copy), -copy.segments[0].base_offset))
        others = tuple(copy.folder for copy in same if copy is not best)
        name, times = f"{topic}-{partition}", len(same)
        notes.append(str(LogCause.FOUND_TWICE(partition=name, times=times, read=best.folder, others=others)))
        choice.append(best)
    return choice


def end_of(copy: Copy) -> int:
    """Return the offset after the last complete batch of a copy (log end offset)."""
    for segment in reversed(copy.segments):
        end = log_end_offset(copy.storage, segment.log, segment.indexes.get(FileKind.OFFSET_INDEX), segment.base_offset)
        if end is not None:
            return end
    return copy.segments[-1].base_offset


def _check_topic_ids(same: list[Copy]) -> None:
    ids = {copy.topic_id: copy for copy in same if copy.topic_id is not None}
    if len(ids) > 1:
        one, other, *_ = ids.values()
        reason = LogCause.TWO_TOPICS(topic=str(one.topic), folders=(one.folder, other.folder))
        raise Refused(reason, cure=SparkCure.ALL_COPIES())
