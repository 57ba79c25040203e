"""What `klogtool fleet collect` writes about one broker: a file of JSON Lines. Opens the file to read it; never writes.

The lines, in this order:

    {"type":"klogtool","version":...,"schema":1,"command":"fleet collect"}   as in all JSON of klogtool
    {"type":"broker",...}      once: node id, cluster id, log dirs with their directory ids            BrokerFacts
    {"type":"topic",...}       each topic of `__cluster_metadata`, if a log dir has it                  TopicFacts
    {"type":"partition",...}   each partition of `__cluster_metadata`: replicas, ISR, leader epoch      PartitionFacts
    {"type":"copy",...}        each partition dir, also those that end in -future, -stray, -delete      CopyFacts
    {"type":"committed",...}   each offset that a group has committed, by `__consumer_offsets`          CommitFacts
    {"type":"transaction",...} each transactional id, by `__transaction_state`                          TransactionFacts
    {"type":"end",...}         how many lines there are, and their checksum: a file cut short is refused

`framed.CollectedFiles` reads it as `Collected`. Somebody else may have written the file: every field is read by its
type and within bounds. Fields that a later version adds are ignored. Names that are not UTF-8 are as in all JSON of
klogtool (json_rows). Ids of topics and directories are text, as Kafka prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from klogtool.doctor.answers import Starts
from klogtool.format.batch import NO_SEQUENCE
from klogtool.format.producer_snapshot import NO_OFFSET
from klogtool.plans.question import PathText
from klogtool.values import Int, Long, Natural

FORMAT = 1
MOST_LISTED = 1 << 16  # entries of one list

COMMAND = "fleet collect"
Name: TypeAlias = Annotated[PathText, Meta(max_length=1 << 13)]
Uuid: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{22}$")]
Word: TypeAlias = Annotated[str, Meta(max_length=1 << 13)]
Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
State: TypeAlias = Literal["current", "future", "stray", "delete"]
Brokers: TypeAlias = Annotated[tuple[Int, ...], Meta(max_length=MOST_LISTED)]


class Epoch(Struct, frozen=True, array_like=True, gc=False):
    """A leader epoch and the first offset written in it: `[epoch, start_offset]`."""

    epoch: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    start_offset: Natural


class LostOffsets(Struct, frozen=True, array_like=True):
    """Offsets that the copy has lost: `[first, last]`. last None: from `first` on, no end is known."""

    first: Natural
    last: Natural | None = None


class DamagedBytes(Struct, frozen=True, array_like=True):
    """Damaged bytes [start, end) of a segment: `[segment, start, end, cause]`. cause: an id of verify's findings."""

    segment: Long
    start: Natural
    end: Natural
    cause: Word


MOST_EPOCHS = 1 << 21  # of all copies in a file: they take a tenth of a kilobyte each
Epochs: TypeAlias = Annotated[tuple[Epoch, ...], Meta(max_length=1 << 20)]


class LogDirFacts(Struct, frozen=True):
    """A log dir. path: as the broker has it, absolute. From meta.properties: node_id, cluster_id, directory_id (None
    before 3.7), properties_version (None: there is no meta.properties).

    is_clean: there is a clean marker. broker_epoch: what the marker says. problem: why meta.properties or a checkpoint
    cannot be read.
    """

    path: Name
    node_id: Int | None = None
    cluster_id: Word | None = None
    directory_id: Uuid | None = None
    properties_version: Int | None = None
    is_clean: bool = False
    broker_epoch: Long | None = None
    problem: Word | None = None


class ToldElection(Struct, frozen=True, array_like=True):
    """What quorum-state says of elections: `[data_version, leader_id, leader_epoch, voted_id, voted_directory_id]`."""

    data_version: Int
    leader_id: Int
    leader_epoch: Int
    voted_id: Int
    voted_directory_id: Uuid


class MetadataFacts(Struct, frozen=True):
    """`__cluster_metadata` of this broker. end_offset: of its log. features: name -> level. problem: why it was not
    read to its end. epoch: of its last record. voters: ids in its last record of voters; none in a static quorum.
    voter_directories: the directory id of each of these. controllers: nodes that have registered as controllers.
    remembered: None if there is no quorum-state that can be read. next_producer_id: the first that the controllers have
    not given; None if they have given none."""

    log_dir: Name
    end_offset: Natural
    features: Mapping[Word, Int] = msgspec.field(default_factory=dict)
    problem: Word | None = None
    epoch: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    voters: Brokers = ()
    voter_directories: Annotated[tuple[Uuid, ...], Meta(max_length=MOST_LISTED)] = ()
    controllers: Brokers = ()
    remembered: ToldElection | None = None
    next_producer_id: Natural | None = None

    @property
    def completeness(self) -> tuple[bool, int, int]:
        """Return how complete the copy is, as elections compare (quorum.controllers.Position): a whole one before one
        that is damaged."""
        return self.problem is None, self.epoch, self.end_offset


class EndingStart(Struct, frozen=True, array_like=True):
    """The end of a broker's process at its start: `[is_sure, error]`. error: Kafka's class."""

    is_sure: bool
    error: Word | None = None


class StartFacts(Struct, frozen=True):
    """What `klogtool doctor` says of a start on these log dirs. starts, lost_records: as in its answer. offline: log
    dirs that the broker gives up; may_fail: those of which that is unknown."""

    starts: Starts
    lost_records: Natural = 0
    endings: Annotated[tuple[EndingStart, ...], Meta(max_length=MOST_LISTED)] = ()
    offline: Annotated[tuple[Name, ...], Meta(max_length=MOST_LISTED)] = ()
    may_fail: Annotated[tuple[Name, ...], Meta(max_length=MOST_LISTED)] = ()


class BrokerFacts(Struct, frozen=True, tag="broker"):
    """The broker. kafka_at_least: the oldest release that writes what is there, such as `4.3`; None if nothing tells.

    format: of this file. metadata: None if no log dir has `__cluster_metadata-0`. start: None if the doctor was not
    asked, or may not read something.
    """

    format: Int
    node_id: Int | None
    cluster_id: Word | None
    log_dirs: Annotated[tuple[LogDirFacts, ...], Meta(max_length=MOST_LISTED)]
    metadata: MetadataFacts | None = None
    kafka_at_least: Word | None = None
    start: StartFacts | None = None


class TopicFacts(Struct, frozen=True, tag="topic", gc=False):
    """A topic by `__cluster_metadata`. settings: those that were set for the topic itself."""

    topic: Name
    topic_id: Uuid
    settings: Mapping[Word, Word] = msgspec.field(default_factory=dict)


class PartitionFacts(Struct, frozen=True, tag="partition", gc=False):
    """A partition by `__cluster_metadata`. directories: ids in the order of `replicas`; empty if unknown. leader: -1 if
    there is none."""

    topic: Name
    topic_id: Uuid
    partition: Int
    replicas: Brokers
    isr: Brokers = ()
    elr: Brokers = ()
    leader: Int = -1
    leader_epoch: Int = -1
    partition_epoch: Int = -1
    directories: Annotated[tuple[Uuid, ...], Meta(max_length=MOST_LISTED)] = ()
    last_known_elr: Brokers = ()


class ProducerFacts(Struct, frozen=True, array_like=True, gc=False):
    """A producer in a log: `[producer_id, epoch, first_offset, marker_epoch, marker_ms, is_abort, last_sequence,
    last_offset]`.

    first_offset: of its open transaction, or None. marker_*, is_abort: its last marker in the active segment; None if
    there is none. last_sequence, last_offset: of its last batch of this epoch; -1 if there is none.
    """

    producer_id: Long
    epoch: Int
    first_offset: Natural | None = None
    marker_epoch: Int | None = None
    marker_ms: Long | None = None
    is_abort: bool | None = None
    last_sequence: Int = NO_SEQUENCE
    last_offset: Long = NO_OFFSET


class LostRange(Struct, frozen=True, array_like=True):
    """Offsets of which nobody is served a record after a start: `[first, last]`."""

    first: Natural
    last: Natural


class StartedCopy(Struct, frozen=True, array_like=True):
    """What the doctor says of a copy that a start changes: `[log_end_offset, lost]`. lost None: unknown."""

    log_end_offset: Natural
    lost: Annotated[tuple[LostRange, ...], Meta(max_length=1 << 11)] | None = ()


class CopyFacts(Struct, frozen=True, tag="copy", gc=False):
    """A partition dir: `folder` in `log_dir`. The batches are proved by their checksums.

    topic_id: from partition.metadata; None if it is missing or damaged. log_start_offset: the first offset that a
    broker serves. log_end_offset: after the last sound batch, or the base of an empty active segment. sound_end_offset:
    where the first damage or missing segment begins; the log end if there is none. holes: offsets that the copy has
    lost, by the rules of `salvage`. is_compacted: other gaps are normal.

    epochs: leader epochs by the batches. checkpoint_epochs: leader-epoch-checkpoint; None if it is missing or damaged.
    recovery_point, high_watermark, log_start_checkpoint, cleaner_offset: lines of the log dir's checkpoints, or None.
    reached_offset: the log once reached at least up to here (exclusive), by all that is written.

    wounds: the first ones, MOST_WOUNDS at most; wounds_count: all. newest_timestamp: epoch ms, or None. fingerprint: of
    names, sizes and mtimes of the files: it changes when a broker or a person changes the folder. problem: why the
    folder could not be read; then no other fact counts. producers: None if a broker cannot load them.
    started: None if a start leaves it as it is, or if the doctor was not asked (BrokerFacts.start).
    """

    topic: Name
    partition: Int
    log_dir: Name
    folder: Name
    state: State
    fingerprint: Digest
    topic_id: Uuid | None = None
    log_start_offset: Natural = 0
    log_end_offset: Natural = 0
    sound_end_offset: Natural = 0
    reached_offset: Natural = 0
    epochs: Epochs = ()
    checkpoint_epochs: Epochs | None = None
    holes: Annotated[tuple[LostOffsets, ...], Meta(max_length=1 << 11)] = ()
    wounds: Annotated[tuple[DamagedBytes, ...], Meta(max_length=MOST_LISTED)] = ()
    wounds_count: Natural = 0
    recovery_point: Natural | None = None
    high_watermark: Natural | None = None
    log_start_checkpoint: Natural | None = None
    cleaner_offset: Natural | None = None
    is_compacted: bool = False
    segments: Natural = 0
    batches: Natural = 0
    records: Natural = 0
    bytes: Natural = 0
    newest_timestamp: Long | None = None
    problem: Word | None = None
    producers: Annotated[tuple[ProducerFacts, ...], Meta(max_length=MOST_LISTED)] | None = ()
    started: StartedCopy | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def starts_beyond_its_records(self) -> bool:
        """Return whether the log start is beyond the last record, and beyond all that the log ever reached: a start
        deletes the log then (UnifiedLog). After delete-records its high watermark was there."""
        is_empty = self.log_start_offset == self.log_end_offset
        return is_empty and self.records > 0 and (self.log_start_checkpoint or 0) > self.reached_offset


class CommitFacts(Struct, frozen=True, tag="committed"):
    """An offset that a group has committed. coordinator: the partition of `__consumer_offsets` that says so."""

    coordinator: Int
    group: Word
    topic: Name
    partition: Int
    offset: Long


class TransactionFacts(Struct, frozen=True, tag="transaction"):
    """A transactional id. coordinator: the partition of `__transaction_state` that says so. state: as Kafka's tools
    print it. partitions: those that its transaction writes to. start_ms: when that began; -1 if there is none."""

    coordinator: Int
    transactional_id: Word
    producer_id: Long
    epoch: Int
    state: Word
    partitions: Annotated[tuple[tuple[Name, Int], ...], Meta(max_length=MOST_LISTED)] = ()
    start_ms: Long = -1


Row: TypeAlias = BrokerFacts | TopicFacts | PartitionFacts | CopyFacts | CommitFacts | TransactionFacts


class Collected(Struct, frozen=True):
    """What is known of one broker. path: of the file that it was read from. version: klogtool's, which wrote it."""

    broker: BrokerFacts
    topics: tuple[TopicFacts, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    copies: tuple[CopyFacts, ...] = ()
    path: str = ""
    version: str = ""
    commits: tuple[CommitFacts, ...] = ()
    transactions: tuple[TransactionFacts, ...] = ()

    def rows(self) -> Iterator[Row]:
        """Yield the facts in the order of the file."""
        yield self.broker
        yield from self.topics
        yield from self.partitions
        yield from self.copies
        yield from self.commits
        yield from self.transactions
