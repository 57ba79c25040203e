"""Aiven's manifests, read and checked. Nothing in them is believed before it is held against the rest.

A manifest is a small file that anybody with access to the bucket may have written. Sizes are limited before memory is
taken for them.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping

import msgspec
from construct import ConstructError
from msgspec import Struct

from klogtool.errors import AboveLimit, Corrupt, KlogError
from klogtool.format.buffers import Buffer
from klogtool.format.codecs import MAX_INFLATED_BYTES, decompress
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.tiered import aiven
from klogtool.format.tiered.aiven import ChunkIndexJson, IndexRangeJson, ManifestJson, SegmentJson
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState
from klogtool.format.uuids import parse_uuid

MOST_MANIFEST_BYTES = 64 << 20
MOST_CHUNKS = 1 << 20  # of one segment: a gigabyte in chunks of a kilobyte
MOST_WIDTH = 4
SEALING_BYTES = aiven.IV_SIZE + aiven.TAG_SIZE


class SizesContradict(Corrupt):
    """Sizes of chunks in a manifest that contradict each other. The plugin compares none: what consumers get of the log
    is unknown here."""


class Encryption(Struct, frozen=True):
    """key_id: which key pair of the cluster unwraps the data key. aad: shared by all that is sealed."""

    key_id: str
    wrapped_key: bytes
    aad: bytes


class SegmentManifest(Struct, frozen=True):
    """What is stored of a segment. chunk_size, size: of the `.log` as the broker had it. stored_sizes: of its chunks.

    indexes: position and size in `.indexes`, by the field's name; a transaction index only if there is one. segment:
    None in manifests of older versions.
    """

    chunk_size: int
    size: int
    stored_sizes: tuple[int, ...]
    is_compressed: bool
    encryption: Encryption | None
    indexes: Mapping[str, tuple[int, int]]
    segment: RemoteSegment | None

    @property
    def stored_size(self) -> int:
        """The size that the `.log` object must have."""
        return sum(self.stored_sizes)

    def size_of(self, chunk: int) -> int:
        """Return how many bytes of the segment a chunk has."""
        return min(self.chunk_size, self.size - chunk * self.chunk_size)


_MANIFESTS = msgspec.json.Decoder(ManifestJson)  # made by one thread, as in format.internal.schema


def parse_manifest(data: bytes) -> SegmentManifest:
    """Parse a `.rsm-manifest`. Raises Corrupt, or Unsupported for another version or more than klogtool takes."""
    try:
        json = _MANIFESTS.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Corrupt(f"not a manifest: {error}") from error
    if json.version != aiven.VERSION:
        raise Corrupt(f"version {json.version!r} of a manifest is unknown")
    sizes, encryption = _stored_sizes(json.chunk_index), None
    if json.encryption is not None:
        key_id, colon, wrapped = json.encryption.data_key.partition(":")
        if not colon or not key_id:
            raise Corrupt("the data key does not name the key pair that unwraps it")
        encryption = Encryption(key_id, _base64(wrapped), _base64(json.encryption.aad))
    manifest = SegmentManifest(
        json.chunk_index.original_chunk_size,
        json.chunk_index.original_file_size,
        sizes,
        json.compression,
        encryption,
        dict(_ranges(json)),
        None if json.remote_log_segment_metadata is None else _segment(json.remote_log_segment_metadata, json),
    )
    _check_sizes(manifest)
    return manifest


def _stored_sizes(index: ChunkIndexJson) -> tuple[int, ...]:
    chunk, size = index.original_chunk_size, index.original_file_size
    if not 0 < chunk <= MAX_INT or not 0 <= size <= MAX_INT:
        raise Corrupt(f"no segment has {size} bytes in chunks of {chunk}")
    count = -(-size // chunk)
    if count > MOST_CHUNKS or chunk > MAX_INFLATED_BYTES:
        raise AboveLimit(f"{count} chunks of {chunk} bytes are more than klogtool takes")
    if index.type == aiven.FIXED:
        stored, last = index.transformed_chunk_size, index.final_transformed_chunk_size
        if stored is None or last is None:
            raise Corrupt("a fixed chunk index without the size of its chunks")
        sizes: tuple[int, ...] = (*[stored] * (count - 1), *[last] * min(count, 1))
    elif index.type == aiven.VARIABLE and index.transformed_chunks is not None:
        sizes = parse_chunk_sizes(_base64(index.transformed_chunks), count)
    else:
        raise Corrupt(f"there is no chunk index of type {index.type!r}")
    if any(not 0 < one <= MAX_INT for one in sizes):
        raise Corrupt("a stored chunk has no bytes, or more than a file can have")
    return sizes


def parse_chunk_sizes(data: Buffer, count: int) -> tuple[int, ...]:
    """Return the sizes of `count` chunks, of a zstd frame (ChunkSizesBinaryCodec). Raises Corrupt for another number of
    them."""
    most = 16 + count * MOST_WIDTH
    try:
        plain = decompress("zstd", data, magic=2, limit=most)
        head, at = aiven.CHUNK_SIZES_HEAD.sizeof(), aiven.CHUNK_SIZES_HEAD.sizeof()
        stated = aiven.CHUNK_SIZES_HEAD.parse(plain).count
        if stated != count:
            raise Corrupt(f"the list has {stated} chunks, the segment {count}")
        width, base = 0, 0
        if count > 1:
            both = aiven.CHUNK_SIZES.parse(plain[head:])
            base, width, at = both.base, both.width, head + aiven.CHUNK_SIZES.sizeof()
        behind = at + max(0, count - 1) * width
        needed = behind + (aiven.LAST_CHUNK_SIZE.sizeof() if count else 0)
        if (count > 1 and not 1 <= width <= MOST_WIDTH) or len(plain) != needed:
            raise Corrupt(f"a list of {count} chunks has {needed} bytes, not {len(plain)}")
        last = [aiven.LAST_CHUNK_SIZE.parse(plain[behind:]).size] if count else []
    except ConstructError as error:
        raise Corrupt("the list of chunk sizes ends early") from error
    except KlogError as error:
        raise Corrupt(f"the list of chunk sizes: {error.reason}") from error
    return (*(base + int.from_bytes(plain[n : n + width], "big") for n in range(at, behind, width or 1)), *last)


def _check_sizes(manifest: SegmentManifest) -> None:
    """Raises SizesContradict if chunks that are not compressed have other sizes than their bytes need."""
    if manifest.is_compressed:
        return
    sealing = SEALING_BYTES if manifest.encryption else 0
    for chunk, stored in enumerate(manifest.stored_sizes):
        if stored != manifest.size_of(chunk) + sealing:
            needed = manifest.size_of(chunk) + sealing
            raise SizesContradict(f"chunk {chunk} is stored in {stored} bytes, and needs {needed}")


def _ranges(json: ManifestJson) -> list[tuple[str, tuple[int, int]]]:
    indexes = json.segment_indexes
    named = [(name, getattr(indexes, name)) for name in indexes.__struct_fields__]
    ranges: list[tuple[str, IndexRangeJson]] = [(name, one) for name, one in named if one is not None]
    if any(not (0 <= one.position <= MAX_LONG and 0 <= one.size <= MAX_INT) for _, one in ranges):
        raise Corrupt("an index begins or ends where no file does")
    return [(name, (one.position, one.size)) for name, one in ranges]


def _segment(json: SegmentJson, manifest: ManifestJson) -> RemoteSegment:
    where = json.remote_log_segment_id.topic_id_partition
    for one in (where.topic_id, json.remote_log_segment_id.id):
        parse_uuid(one)
    return RemoteSegment(
        SegmentKey(where.topic_id, where.topic_partition.partition, json.remote_log_segment_id.id),
        where.topic_partition.topic,
        json.start_offset,
        json.end_offset,
        json.max_timestamp_ms,
        tuple(sorted(json.segment_leader_epochs.items())),
        manifest.chunk_index.original_file_size,
        json.event_timestamp_ms,
        SegmentState.UNKNOWN,
        json.txn_idx_empty,
    ).checked()


def _base64(text: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError) as error:
        raise Corrupt(f"not base64: {error}") from error
