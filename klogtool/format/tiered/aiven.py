"""The layout of Aiven's tiered-storage-for-apache-kafka (1.1) on one page.

    <key.prefix><topic>-<topic id>/<partition>/<base offset>-<segment id>.{log,indexes,rsm-manifest}

The prefix stands in front as it is, without a `/` of its own. The three objects are uploaded in this order, so a
segment without manifest was not finished. Only the manifest says whether there is compression or encryption.

    .log         the segment in chunks of `originalChunkSize` bytes; each is compressed (zstd), then sealed
    .indexes     Kafka's own files one after another; each is sealed, none is compressed
    sealed       see SEALED; the key of the segment is in the manifest, wrapped by RSA-OAEP with SHA3-512
"""

from __future__ import annotations

import re
from typing import Annotated

from construct import Bytes, GreedyBytes, Int8ub, Int32sb, Struct
from msgspec import Meta
from msgspec import Struct as Json

from klogtool.format.java_numbers import MAX_INT
from klogtool.values import Int, Long

FOLDER = re.compile(r"(?P<topic>.+)-(?P<topic_id>[A-Za-z0-9_-]{22})")
PARTITION = re.compile(r"\d{1,10}")
LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
SUFFIXES = (LOG, INDEXES, MANIFEST)

# A chunk or an index, encrypted (AES-256 GCM). The tag is the end of the ciphertext.
IV_SIZE, TAG_SIZE, DATA_KEY_SIZE, AAD_SIZE = 12, 16, 32, 32
SEALED = Struct("iv" / Bytes(IV_SIZE), "ciphertext_and_tag" / GreedyBytes)

# The stored sizes of chunks, behind one zstd frame and base64. One chunk: its size follows the count. More: each but
# the last as the difference to the smallest, in as many bytes as `width` says; then the last.
CHUNK_SIZES_HEAD = Struct("count" / Int32sb)
CHUNK_SIZES = Struct("base" / Int32sb, "width" / Int8ub)
LAST_CHUNK_SIZE = Struct("size" / Int32sb)
VERSION, FIXED, VARIABLE = "1", "fixed", "variable"


class ChunkIndexJson(Json, frozen=True, rename="camel"):
    """transformed sizes: of stored chunks. A fixed index has the first two, a variable one the list."""

    type: str
    original_chunk_size: Int
    original_file_size: Int
    transformed_chunk_size: Int | None = None
    final_transformed_chunk_size: Int | None = None
    transformed_chunks: str | None = None


class IndexRangeJson(Json, frozen=True):
    """Where an index is in `.indexes`, as it is stored. Size 0: empty, and never sealed."""

    position: Long
    size: Int


class SegmentIndexesJson(Json, frozen=True, rename="camel"):
    """The indexes of a segment."""

    offset: IndexRangeJson
    timestamp: IndexRangeJson
    producer_snapshot: IndexRangeJson
    leader_epoch: IndexRangeJson
    transaction: IndexRangeJson | None = None


class EncryptionJson(Json, frozen=True, rename="camel"):
    """data_key: `<key id>:<base64>`. aad: base64."""

    data_key: str
    aad: str


class TopicPartitionJson(Json, frozen=True):
    """A partition."""

    topic: str
    partition: Annotated[int, Meta(ge=0, le=MAX_INT)]


class TopicIdPartitionJson(Json, frozen=True, rename="camel"):
    """A partition, with its topic's id."""

    topic_id: str
    topic_partition: TopicPartitionJson


class SegmentIdJson(Json, frozen=True, rename="camel"):
    """The id of a segment."""

    topic_id_partition: TopicIdPartitionJson
    id: str


class SegmentJson(Json, frozen=True, rename="camel"):
    """What the broker said of the segment. The plugin never reads it back."""

    remote_log_segment_id: SegmentIdJson
    start_offset: Long
    end_offset: Long
    max_timestamp_ms: Long
    broker_id: Int
    event_timestamp_ms: Long
    segment_leader_epochs: dict[Int, Long]
    txn_idx_empty: bool = False


class ManifestJson(Json, frozen=True, rename="camel"):
    """A `.rsm-manifest`. Versions before pull request 377 have no remote_log_segment_metadata."""

    version: str
    chunk_index: ChunkIndexJson
    segment_indexes: SegmentIndexesJson
    compression: bool
    encryption: EncryptionJson | None = None
    remote_log_segment_metadata: SegmentJson | None = None
