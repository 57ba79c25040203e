"""What a log dir holds, in words: the values of a spec file (docs/build.md).

All are frozen, and name no byte positions except in wounds. What is not given follows from the rules of a broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from klogtool.broker.releases import REFERENCE, Release
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.values import Count, Int, Long

CLOCK_START_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
CLOCK_STEP_MS = 5
BATCH_BYTES = 16_384
CLUSTER_ID = "klogtool-built-cluster"

Offset: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_LONG - 1)]
Epoch: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_INT)]
Codec: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Magic: TypeAlias = Annotated[int, Meta(ge=0, le=2)]
Moment: TypeAlias = Long | str  # epoch milliseconds or ISO 8601
Setting: TypeAlias = str | int | float | bool
Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"  # as YAML and JSON have it


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a spec. A field that is unknown is an error, because its value would be ignored."""


class Coded(_Part, frozen=True):
    """Bytes that are not plain text: one of these. zeros: how many."""

    hex: str | None = None
    base64: str | None = None
    text: str | None = None
    zeros: Annotated[int, Meta(ge=0, le=MAX_LONG)] | None = None


Data: TypeAlias = str | Coded | None  # of a key or a value
FileContent: TypeAlias = str | Coded | tuple[str | Coded, ...]  # of a file


class RecordSpec(_Part, frozen=True):
    """A record. timestamp: by default the clock, which then goes on; null is -1. offset: by default the next one."""

    key: Data = None
    value: Data = None
    headers: tuple[tuple[str | Coded, Data], ...] = ()
    timestamp: Moment | UnsetType | None = UNSET
    offset: Offset | None = None


class Batch(_Part, frozen=True):
    """A record batch; below magic 2, messages, with a codec one wrapper.

    offset, last_offset: by default the next offset of the log, and that of the last record. leader_epoch: holds for
    the following batches too. producer, epoch, sequence: the sequence goes on by itself. log_append_time: the batch has
    this time, and so have its records. records_count, body: compressed records as their bytes, in place of `records`.
    """

    magic: Magic | None = None
    codec: Codec = "none"
    offset: Offset | None = None
    last_offset: Offset | None = None
    leader_epoch: Epoch | None = None
    producer: Annotated[int, Meta(ge=0, le=MAX_LONG)] | None = None
    epoch: Annotated[int, Meta(ge=0, le=(1 << 15) - 1)] | None = None
    sequence: Epoch | None = None
    transactional: bool = False
    control: bool = False
    log_append_time: Moment | None = None
    base_timestamp: Long | None = None
    max_timestamp: Long | None = None
    delete_horizon: Long | None = None
    records: tuple[RecordSpec, ...] = ()
    records_count: Annotated[int, Meta(ge=0, le=MAX_INT)] | None = None
    body: FileContent | None = None


class Generated(_Part, frozen=True):
    """Records made by a seed. keys: how many different keys there are; 0: no keys. value_bytes: a size, or `100..200`.

    batch_bytes: the most of a batch before compression; by default 16384, and not more than segment.bytes.
    batch_records: the most records.
    """

    records: Count
    seed: Annotated[int, Meta(ge=0, le=MAX_LONG)] = 0
    keys: Annotated[int, Meta(ge=0, le=MAX_INT)] = 0
    value_bytes: int | str = 100
    batch_bytes: Count | None = None
    batch_records: Count = MAX_INT
    codec: Codec = "none"
    producer: Annotated[int, Meta(ge=0, le=MAX_LONG)] | None = None
    epoch: Annotated[int, Meta(ge=0, le=(1 << 15) - 1)] | None = None
    transactional: bool = False
    leader_epoch: Epoch | None = None


class EndSpec(_Part, frozen=True):
    """The end of a producer's transaction. epoch: by default that of the producer's last batch."""

    producer: Annotated[int, Meta(ge=0, le=MAX_LONG)]
    epoch: Annotated[int, Meta(ge=0, le=(1 << 15) - 1)] | None = None
    coordinator_epoch: Int = 0
    timestamp: Moment | UnsetType | None = UNSET
    offset: Offset | None = None
    leader_epoch: Epoch | None = None


class Roll(_Part, frozen=True):
    """A new segment. at: its base offset; by default the log's end."""

    at: Offset | None = None


class StepSpec(_Part, frozen=True):
    """One thing that happens to a log; exactly one field is given.

    gap: offsets that are missing, as after compaction. wait: milliseconds. raw: bytes that nothing derived knows of.
    """

    batch: Batch | None = None
    generate: Generated | None = None
    commit: EndSpec | int | None = None
    abort: EndSpec | int | None = None
    roll: Roll | None = None
    gap: Count | None = None
    wait: Annotated[int, Meta(ge=0, le=MAX_LONG)] | None = None
    raw: FileContent | None = None


class File(_Part, frozen=True):
    """A file as it is, in place of what would be derived. name: relative to the partition dir, or to the log dir; in
    hex if it is not UTF-8."""

    name: str | Coded
    content: FileContent = ""


class PartitionSpec(_Part, frozen=True):
    """A partition dir.

    dir: its name, if that is not TOPIC-PARTITION. topic_id: by default made from the topic's name; null: there is no
    partition.metadata. magic: of batches that do not say. start: the first base offset. log_start_offset,
    high_watermark, recovery_point, first_dirty_offset: lines of the log dir's checkpoints; by default those of a clean
    stop. log: what happened, with segments rolled as a broker rolls them. segments: the same with segments as given.
    files: as they are, whatever would be derived; absent: names of files that are not there.
    """

    topic: str | None = None
    partition: Annotated[int, Meta(ge=0, le=MAX_INT)] = 0
    dir: str | None = None
    topic_id: str | UnsetType | None = UNSET
    config: dict[str, Setting] = {}
    magic: Magic = 2
    leader_epoch: Epoch = 0
    start: Offset = 0
    log_start_offset: Offset | None = None
    high_watermark: Offset | None = None
    recovery_point: Offset | None = None
    first_dirty_offset: Offset | None = None
    log: tuple[StepSpec | Literal["roll"], ...] = ()
    segments: tuple[SegmentSpec, ...] = ()
    files: tuple[File, ...] = ()
    absent: tuple[str, ...] = ()


class SegmentSpec(_Part, frozen=True):
    """A segment as given: nothing in it rolls. base: its base offset."""

    base: Offset
    log: tuple[StepSpec, ...] = ()


class Clock(_Part, frozen=True):
    """The time of records that do not say: the first one, and how far it goes on after each."""

    start: Moment = CLOCK_START_MS
    step_ms: Annotated[int, Meta(ge=0, le=MAX_INT)] = CLOCK_STEP_MS


class LogDirSpec(_Part, frozen=True):
    """What the log dir's own files say. stop: clean has a clean marker. directory_id: by default made from the node id;
    null: there is none. broker_epoch: in the clean marker; null: an empty marker, as before 3.7. date: the second
    comment line of meta.properties."""

    cluster_id: str | None = CLUSTER_ID
    node_id: Int | None = 1
    directory_id: str | UnsetType | None = UNSET
    version: Annotated[int, Meta(ge=0, le=1)] = 1
    stop: Literal["clean", "unclean"] = "clean"
    broker_epoch: Long | None = 0
    date: str | None = None


class Spec(_Part, frozen=True):
    """A log dir. kafka: the release whose rules derive side files. config: of every topic. log_dir: null: only
    partition dirs. files: further files, by their path below the log dir. wounds: see wounds.py; at most
    1,000."""

    kafka: Release = REFERENCE
    clock: Clock | Moment = CLOCK_START_MS
    config: dict[str, Setting] = {}
    log_dir: LogDirSpec | None = LogDirSpec()
    partitions: tuple[PartitionSpec, ...] = ()
    files: tuple[File, ...] = ()
    absent: tuple[str, ...] = ()
    wounds: Annotated[tuple[dict[str, object], ...], Meta(max_length=1000)] = ()

    def as_rows(self) -> dict[str, Plain]:
        """Return the spec as plain values, without what is a default."""
        rows: dict[str, Plain] = msgspec.to_builtins(self)
        return rows
