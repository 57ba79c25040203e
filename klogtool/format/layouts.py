"""The formats of a log dir on one page: every layout that klogtool declares itself, as `construct` declarations.

This file has nothing else. Readers and builders, the numbers that the kernels are compiled with (`kernel_layout`) and
the tables of docs/format.md come from these declarations. All numbers are big-endian. The values of text files are read
and written by their types (`text_values`); the lines, properties and JSON around them are split as Java does
(`java_text`).

Kafka's own schemas declare the rest (`internal`): keys and values of internal topics, and the values of control records
that are not transaction markers, such as LeaderChangeMessage.
"""

from __future__ import annotations

from construct import Bytes, Default, If, Int8sb, Int16sb, Int32sb, Int32ub, Int64sb, Struct, this

from klogtool.format.text_values import (
    IntText,
    JsonInt,
    JsonLong,
    JsonNoVoters,
    JsonText,
    JsonUuid,
    JsonVoters,
    LongText,
    Text,
    UuidText,
)
from klogtool.format.uuids import ZERO_UUID
from klogtool.format.varint import Varint, VarintArray, VarintBytes, Varlong

# Entries of a `.log`.

FRAME = Struct(  # the first bytes of every entry, whatever its magic
    "offset" / Int64sb,
    "length" / Int32sb,  # of what follows it
    "epoch_or_crc" / Int32ub,  # the leader epoch of a batch, the checksum of a message
    "magic" / Int8sb,
)

# Magic 2: a record batch (DefaultRecordBatch, DefaultRecord, DefaultRecord.writeTo).

BATCH_HEADER = Struct(
    "base_offset" / Int64sb,
    "length" / Int32sb,
    "partition_leader_epoch" / Int32sb,
    "magic" / Int8sb,
    "crc" / Int32ub,  # CRC-32C of all that follows it
    "attributes" / Int16sb,
    "last_offset_delta" / Int32sb,
    "base_timestamp" / Int64sb,
    "max_timestamp" / Int64sb,
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "base_sequence" / Int32sb,
    "records_count" / Int32sb,
)
HEADER = Struct("key" / VarintBytes(null=False), "value" / VarintBytes())
RECORD = Struct(  # its size stands before it, as a varint
    "attributes" / Int8sb,
    "timestamp_delta" / Varlong,
    "offset_delta" / Varint,
    "key" / VarintBytes(),
    "value" / VarintBytes(),
    "headers" / VarintArray(HEADER, most=1 << 20),  # a compressed kilobyte can hold a hundred million, each an object
)

# Magic 0 and 1: a message, its key and value behind its head (LegacyRecord).

ENTRY_HEAD = Struct("offset" / Int64sb, "message_size" / Int32sb)
MESSAGE_V0_HEAD = Struct("crc" / Int32ub, "magic" / Int8sb, "attributes" / Int8sb)  # CRC-32 of all that follows it
MESSAGE_V1_HEAD = Struct("crc" / Int32ub, "magic" / Int8sb, "attributes" / Int8sb, "timestamp" / Int64sb)
SIZED_BYTES = Struct("size" / Int32sb, "bytes" / If(this.size >= 0, Bytes(this.size)))  # a negative size is null
KEY_AND_VALUE = Struct("key" / SIZED_BYTES, "value" / SIZED_BYTES)
MESSAGE_V0, MESSAGE_V1 = MESSAGE_V0_HEAD + KEY_AND_VALUE, MESSAGE_V1_HEAD + KEY_AND_VALUE

# Entries of the indexes (OffsetIndex, TimeIndex, AbortedTxn). Relative offsets count from the segment's base offset.

OFFSET_INDEX_ENTRY = Struct("relative_offset" / Int32sb, "position" / Int32sb)
TIME_INDEX_ENTRY = Struct("timestamp" / Int64sb, "relative_offset" / Int32sb)
ABORTED_TXN = Struct(
    "version" / Int16sb,  # Kafka reads the first byte of it only
    "producer_id" / Int64sb,
    "first_offset" / Int64sb,
    "last_offset" / Int64sb,
    "last_stable_offset" / Int64sb,
)

# A producer snapshot (ProducerStateManager, ProducerSnapshot.json).

SNAPSHOT_HEADER = Struct(
    "version" / Int16sb,
    "crc" / Int32ub,  # CRC-32C of all that follows it
    "entries_count" / Int32sb,
)
PRODUCER_ENTRY = Struct(  # format/producer_snapshot, log/producer_state and render/kafka_text have its fields, too
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "last_sequence" / Int32sb,
    "last_offset" / Int64sb,
    "offset_delta" / Int32sb,
    "timestamp" / Int64sb,
    "coordinator_epoch" / Int32sb,
    "current_txn_first_offset" / Int64sb,
)

# Control records (ControlRecordType, EndTransactionMarker): the key of each, the value of ABORT and COMMIT.

CONTROL_RECORD_KEY = Struct("version" / Int16sb, "type" / Int16sb)
END_TXN_MARKER = Struct("version" / Int16sb, "coordinator_epoch" / Int32sb)

# What a broker of Kafka 0.7 put before the messages of a fetch (MessageSetSend).

RESPONSE_HEAD = Struct("size" / Int32sb, "error_code" / Int16sb)  # size: of what follows it

# Checkpoints (CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile): the values of the head stand on a line
# each; then come as many lines as it says, their values with blanks between them.

CHECKPOINT_HEAD = Struct("version" / IntText, "entries_count" / IntText)
OFFSET_CHECKPOINT_LINE = Struct("topic" / Text, "partition" / IntText, "offset" / LongText)
LEADER_EPOCH_CHECKPOINT_LINE = Struct("epoch" / IntText, "start_offset" / LongText)

# partition.metadata (PartitionMetadataFile): lines of `name: value`.

PARTITION_METADATA = Struct("version" / IntText, "topic_id" / UuidText)

# meta.properties (MetaProperties): Java properties, in the order in which Kafka's map of them has them.

META_PROPERTIES_V0 = Struct(
    "broker.id" / Default(IntText, None),
    "directory.id" / Default(UuidText, None),
    "version" / IntText,
    "cluster.id" / Default(Text, None),
)
META_PROPERTIES_V1 = Struct(
    "node.id" / IntText,
    "directory.id" / Default(UuidText, None),
    "version" / IntText,
    "cluster.id" / Text,
)

# quorum-state (FileQuorumStateStore, QuorumStateData.json): an object of JSON, `data_version` behind these. A value
# with a default is none of its version: it is read where it stands, and not written.

QUORUM_STATE_V0 = Struct(
    "clusterId" / JsonText,
    "leaderId" / JsonInt,
    "leaderEpoch" / JsonInt,
    "votedId" / JsonInt,
    "votedDirectoryId" / Default(JsonUuid, ZERO_UUID),
    "appliedOffset" / JsonLong,
    "currentVoters" / JsonVoters,
)
QUORUM_STATE_V1 = Struct(
    "clusterId" / Default(JsonText, ""),
    "leaderId" / JsonInt,
    "leaderEpoch" / JsonInt,
    "votedId" / JsonInt,
    "votedDirectoryId" / JsonUuid,
    "appliedOffset" / Default(JsonLong, 0),
    "currentVoters" / Default(JsonNoVoters, ()),
)
