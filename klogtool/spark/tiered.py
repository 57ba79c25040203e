"""Partitions in remote storage (KIP-405) as partition dirs: the files of their segments, by the names of a log dir.

Objects of LocalTieredStorage are Kafka's own files. What Aiven's plugin has stored is opened chunk by chunk, under the
names that LocalTieredStorage would give to it: so a task needs no more than the name of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from klogtool.errors import Unsupported
from klogtool.format.names import INDEX_KINDS, FileKind, build_file_name
from klogtool.format.tiered import aiven
from klogtool.format.tiered.manifest import SegmentManifest
from klogtool.format.tiered.objects import TierLayout, parse_object_name
from klogtool.log.file import LogFile
from klogtool.log.storage import AHEAD_BYTES, Place, Storage, Stored, open_place
from klogtool.remote.named import newest_by_start
from klogtool.remote.segment_file import IN_INDEXES, IN_OBJECTS, find_side_file, open_log
from klogtool.remote.store import RemoteStore, StoredSegment, store_of
from klogtool.spark.causes import LogCause, SparkCure

MISSING_BYTES = 1  # of a log that is not there: who opens it is told
SIDE_KINDS = (*INDEX_KINDS, FileKind.LEADER_EPOCH_CHECKPOINT)


class TieredPartition(Struct, frozen=True):
    """A partition. files: of its segments, by the names that a broker gives them."""

    folder: str
    topic: str
    partition: int
    topic_id: str
    files: dict[str, Stored]


def partitions_in(place: Place, listed: Iterable[Stored]) -> Iterator[TieredPartition]:
    """Yield the partitions of which objects are listed. Of segments with the same start offset, the newest counts.

    Raises Unsupported for an encrypted segment, KlogError for a manifest that cannot be read.
    """
    objects = [stored for stored in listed if parse_object_name(stored.path) is not None]
    store = store_of(place, open_place(place)[0], objects)
    by_folder = attrgetter("folder")
    for folder, group in groupby(sorted(store.segments.values(), key=by_folder), by_folder):
        segments = newest_by_start(group)
        files: dict[str, Stored] = {}
        for one in segments:
            files |= _files_of(store, one)
        yield TieredPartition(folder, one.topic, one.key.partition, one.key.topic_id, files)


def _files_of(store: RemoteStore, segment: StoredSegment) -> dict[str, Stored]:
    """Return the files of a segment, with their sizes as they were on the broker's disk."""
    manifest = store.manifest(segment)
    if manifest is not None and manifest.encryption is not None:
        reason = LogCause.ENCRYPTED(key_id=manifest.encryption.key_id)
        raise Unsupported(reason, path=segment.path_of_log, cure=SparkCure.FETCH())
    known = Stored(segment.path_of_log, MISSING_BYTES, segment.newest_ms) if segment.log is None else segment.log
    log = known if manifest is None else Stored(known.path, manifest.size, known.mtime_ms)
    files = {build_file_name(FileKind.LOG, segment.start_offset): log}
    for kind in SIDE_KINDS:
        if (stored := _side_file(segment, kind, manifest)) is not None:
            is_of_all = kind is FileKind.LEADER_EPOCH_CHECKPOINT
            files[kind.value if is_of_all else build_file_name(kind, segment.start_offset)] = stored
    return files


def _side_file(segment: StoredSegment, kind: FileKind, manifest: SegmentManifest | None) -> Stored | None:
    if manifest is None:
        return segment.objects.get(IN_OBJECTS[kind])
    _, size = manifest.indexes.get(IN_INDEXES[kind], (0, 0))
    return Stored(f"{segment.path}.{IN_OBJECTS[kind]}", size, segment.newest_ms) if size else None


def storage_of(place: Place, log: Stored) -> Storage:
    """Return what opens a log, and reads the files beside it."""
    storage, _ = open_place(place)
    name = parse_object_name(log.path)
    return storage if name is None or name.layout is TierLayout.LOCAL else _ChunkedStorage(place, storage)


class _ChunkedStorage:
    """The storage of segments that Aiven's plugin has stored."""

    def __init__(self, place: Place, storage: Storage) -> None:
        self.traffic, self.list = storage.traffic, storage.list
        self._store = store_of(place, storage, ())

    def open(self, stored: Stored, *, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
        """See `Storage`."""
        return open_log(self._store, self._segment(stored, aiven.LOG), ahead_bytes=ahead_bytes)

    def read(self, stored: Stored) -> bytes:
        """See `Storage`."""
        suffix = stored.path.rpartition(".")[2]
        kind = next(kind for kind in SIDE_KINDS if IN_OBJECTS[kind] == suffix)
        return find_side_file(self._store, self._segment(stored, aiven.INDEXES), kind) or b""

    def _segment(self, stored: Stored, *suffixes: str) -> StoredSegment:
        """Return the segment of a file, with the objects that are needed. Raises Unreadable if one does not exist."""
        base = stored.path.rpartition(".")[0]
        listed = [one for suffix in (*suffixes, aiven.MANIFEST) for one in self.list(f"{base}.{suffix}")]
        (segment,) = store_of(Place(base), self._store.storage, listed).segments.values()
        return segment
