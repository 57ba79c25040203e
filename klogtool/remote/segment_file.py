"""The log and the indexes of a remote segment, as the broker had them: plain objects, or chunks to be opened.

A log is a `LogFile`: read by ranges, a few chunks in memory. A chunk that does not have the size that the manifest
says, or cannot be opened, is an error at its position; but a broker passes a last chunk of plain bytes on as it is.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

from klogtool.errors import Corrupt, KlogError
from klogtool.format.codecs import decompress
from klogtool.format.names import FileKind
from klogtool.format.tiered import aiven, local_storage
from klogtool.format.tiered.manifest import SegmentManifest
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.sealing import unseal
from klogtool.log.file import LogFile
from klogtool.log.storage import AHEAD_BYTES, StoredFile
from klogtool.remote.store import MOST_SIDE_BYTES, RemoteStore, StoredSegment

IN_OBJECTS = {
    FileKind.OFFSET_INDEX: local_storage.OFFSET_INDEX,
    FileKind.TIME_INDEX: local_storage.TIME_INDEX,
    FileKind.TXN_INDEX: local_storage.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT: local_storage.SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT: local_storage.EPOCHS,
}
IN_INDEXES = {
    FileKind.OFFSET_INDEX: "offset",
    FileKind.TIME_INDEX: "timestamp",
    FileKind.TXN_INDEX: "transaction",
    FileKind.PRODUCER_SNAPSHOT: "producer_snapshot",
    FileKind.LEADER_EPOCH_CHECKPOINT: "leader_epoch",
}


def open_log(store: RemoteStore, segment: StoredSegment, *, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
    """Open the log of a segment. Its size is that of the object, or what the manifest says; less if plain bytes are
    missing at its end.

    Raises Corrupt if the log, or the manifest that it needs, is missing; Unsupported if the key is; Unreadable if the
    store does not give it.
    """
    if segment.log is None:
        raise Corrupt("the object does not exist", path=f"{segment.path}.{local_storage.LOG}")
    raw = store.storage.open(segment.log, ahead_bytes=ahead_bytes)
    if segment.layout is TierLayout.LOCAL:
        return raw
    try:
        manifest = _manifest(store, segment)
        return _opened(raw, manifest, store.data_key(manifest), ahead_bytes)
    except KlogError:
        raw.close()
        raise


def path_of(segment: StoredSegment, kind: FileKind) -> str:
    """Return the path of the object that has an index, the producer snapshot or the leader epochs, existing or not."""
    return f"{segment.path}.{IN_OBJECTS[kind] if segment.layout is TierLayout.LOCAL else aiven.INDEXES}"


def find_side_file(store: RemoteStore, segment: StoredSegment, kind: FileKind) -> bytes | None:
    """Return the bytes of an index, the producer snapshot or the leader epochs of a segment; None if there is none.

    Raises KlogError if it cannot be read.
    """
    if segment.layout is TierLayout.LOCAL:
        stored = segment.objects.get(IN_OBJECTS[kind])
        return None if stored is None else store.read(stored, MOST_SIDE_BYTES)
    manifest, stored = _manifest(store, segment), segment.objects.get(aiven.INDEXES)
    if IN_INDEXES[kind] not in manifest.indexes or stored is None:
        return None
    position, size = manifest.indexes[IN_INDEXES[kind]]
    if size > MOST_SIDE_BYTES or position + size > stored.size:
        raise Corrupt(f"bytes {position} to {position + size} are not in an object of {stored.size}", path=stored.path)
    with store.storage.open(stored, ahead_bytes=size) as file:
        data = file.read(position, size)
    if not size or manifest.encryption is None:
        return data
    return unseal(data, store.data_key(manifest), manifest.encryption.aad)


def _manifest(store: RemoteStore, segment: StoredSegment) -> SegmentManifest:
    manifest = store.manifest(segment)
    if manifest is None:
        raise Corrupt("the object does not exist", path=f"{segment.path}.{aiven.MANIFEST}")
    return manifest


def _opened(raw: LogFile, manifest: SegmentManifest, data_key: bytes, ahead_bytes: int) -> LogFile:
    """Return the chunks of a log as one file."""
    positions = [0, *accumulate(manifest.stored_sizes)]
    chunk_size = manifest.chunk_size
    is_plain = manifest.encryption is None and not manifest.is_compressed and manifest.size == manifest.stored_size
    is_cut = is_plain and len(positions) > 1 and positions[-2] < raw.size < positions[-1]
    size = raw.size if is_cut else manifest.size

    @lru_cache(maxsize=2)  # a reader of headers asks for many pieces of a chunk
    def read_chunk(number: int) -> bytes:
        stored = manifest.stored_sizes[number]
        data = raw.read(positions[number], stored)
        if is_cut:  # nothing is to be opened, and a broker counts nothing
            return data
        if len(data) < stored:
            raise Corrupt(f"chunk {number} has {len(data)} of {stored} bytes")
        if manifest.encryption is not None:
            data = unseal(data, data_key, manifest.encryption.aad)
        if manifest.is_compressed:
            data = decompress("zstd", data, magic=2, limit=manifest.size_of(number))
        if len(data) != manifest.size_of(number):
            raise Corrupt(f"chunk {number} has {len(data)} bytes when opened, not {manifest.size_of(number)}")
        return data

    def fetch(position: int, size: int) -> bytes:
        first, last = position // chunk_size, (position + size - 1) // chunk_size
        try:
            data = b"".join(map(read_chunk, range(first, last + 1)))
        except KlogError as error:
            error.position = positions[first] if error.position is None else error.position
            raise error.at_path(raw.path) from None
        start = position - first * chunk_size
        return data[start : start + size]

    return _ChunkedFile(raw, size, fetch, ahead_bytes)


class _ChunkedFile(StoredFile):
    """Closes the object under it."""

    def __init__(self, raw: LogFile, size: int, fetch: object, ahead_bytes: int) -> None:
        super().__init__(raw.path, size, fetch, ahead_bytes)  # type: ignore[arg-type]
        self._raw = raw

    def close(self) -> None:
        """Close both."""
        self._raw.close()
        super().close()
