"""Names of files and folders in a log dir: parsed and built.

Does not read the files. The parser of file names never raises, because a log dir may contain anything. A number in a
name that Kafka would refuse becomes None, and `parse_base_offset` says why.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.escape import in_utf8
from klogtool.format.java_numbers import parse_java_int, parse_java_long

METADATA_TOPIC, REMOTE_TOPIC = "__cluster_metadata", "__remote_log_metadata"
OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARES_TOPIC = "__consumer_offsets", "__transaction_state", "__share_group_state"
COORDINATED_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARES_TOPIC)  # Topic.INTERNAL_TOPICS
INTERNAL_TOPICS = frozenset({*COORDINATED_TOPICS, METADATA_TOPIC, REMOTE_TOPIC})
TOPIC_NAME = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
OFFSET_DIGITS = 20
EPOCH_DIGITS = 10
MAX_DIR_NAME_LENGTH = 255
MOST_NAMES_KEPT = 1 << 15  # each name of a partition dir is parsed a dozen times

SUFFIXES = (".deleted", ".cleaned", ".swap", ".tmp", ".part")
"""What follows the kind: to be deleted; being written by the cleaner; to replace a segment; half-written text;
snapshot."""


class FileKind(Enum):
    """What a file of a log dir is for; the value is the end of its name, or the whole name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    KRAFT_SNAPSHOT = ".checkpoint"
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    QUORUM_STATE = "quorum-state"
    RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
    REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
    LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
    CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
    META_PROPERTIES = "meta.properties"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    LOCK = ".lock"
    BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
    FOREIGN = ""

    @property
    def has_base_offset(self) -> bool:
        """Whether the name begins with an offset, which ends at the first dot."""
        return self in _KINDS_WITH_BASE_OFFSET

    @property
    def holds_batches(self) -> bool:
        """Whether the file has record batches or messages: a log, or a KRaft snapshot."""
        return self in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT)


OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
"""The text files of a log dir with an offset for each partition."""
MAPPED_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
INDEX_KINDS = (*MAPPED_INDEXES, FileKind.TXN_INDEX)
SEGMENT_KINDS = (FileKind.LOG, *INDEX_KINDS)
_KINDS_WITH_BASE_OFFSET = (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT)
KINDS_OF_LOG = (*_KINDS_WITH_BASE_OFFSET, FileKind.LEADER_EPOCH_CHECKPOINT)
"""What is in a partition dir because of its batches: it goes where a log begins anew."""
_LISTED_BY_NIO = (FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_SNAPSHOT)
_KINDS_BY_NAME: dict[str, FileKind] = {
    kind.value: kind
    for kind in FileKind
    if not kind.has_base_offset and kind not in (FileKind.KRAFT_SNAPSHOT, FileKind.FOREIGN)
}


class FileName(Struct, frozen=True):
    """A file's name, parsed.

    base_offset: for a producer snapshot the offset up to which it covers the log, for a KRaft snapshot its end offset;
    None if the kind has none, or Kafka cannot read it. epoch: of a KRaft snapshot, else None. suffix: what follows the
    kind, such as ".deleted", or "".
    """

    name: str
    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    suffix: str = ""


class TopicPartition(Struct, frozen=True):
    """A partition. The parts are not checked, because they come from disk: a topic may be empty, a partition
    negative."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def in_checkpoints(self) -> TopicPartition:
        """The partition as checkpoints have it, in UTF-8. In the locale POSIX the name of a folder is bytes."""
        return TopicPartition(in_utf8(self.topic), self.partition)


class PartitionDirState(Enum):
    """What the end of a partition dir's name means to a broker; the value is that end."""

    CURRENT = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"

    @property
    def is_current(self) -> bool:
        """Whether the name of the dir has no such end."""
        return self is PartitionDirState.CURRENT

    @property
    def is_live(self) -> bool:
        """Whether a broker goes on with such a dir."""
        return self in (PartitionDirState.CURRENT, PartitionDirState.FUTURE)


class PartitionDirName(Struct, frozen=True):
    """A partition dir's name, parsed. unique_id: the part between the last dot and the suffix, or None.

    The topic of a dir with the suffix DELETE or STRAY may be cut short.
    """

    topic: str
    partition: int
    unique_id: str | None = None
    state: PartitionDirState = PartitionDirState.CURRENT


class KraftSnapshotName(Struct, frozen=True):
    """The id of a KRaft snapshot (end offset, exclusive, and epoch), and what its name says of its state."""

    end_offset: int
    epoch: int
    partial: bool = False
    deleted: bool = False


# Files.


def is_visible_to_java(name: str) -> bool:
    """Return whether a broker finds what has this name: whether it is UTF-8.

    `java.io.File.listFiles` gives other names with U+FFFD in them, and nothing has those: `isFile` and `isDirectory`
    are false. `java.nio.file.Files` keeps the bytes; it lists `.snapshot` and, of the metadata, `.checkpoint`. (A JVM
    whose locale is not of UTF-8 finds ASCII names alone. The locale of klogtool does not count: where it is POSIX, each
    byte that is not ASCII came as a surrogate.)
    """
    try:
        in_utf8(name).encode()
    except UnicodeEncodeError:
        return False
    return True


# rsync puts a dot before, a file system without case (FAT) gives capitals.
_RENAMED_LOG = re.compile(rf"\.?(\d{{{OFFSET_DIGITS}}}{re.escape(FileKind.LOG.value)})", re.IGNORECASE)


@lru_cache(MOST_NAMES_KEPT)
def parse_file_name(name: str) -> FileName:
    """Parse a name; FileKind.FOREIGN for one that is not Kafka's, or that a broker does not find. Never raises."""
    stem = name
    while stem.endswith(SUFFIXES):
        stem = stem[: stem.rindex(".")]
    suffix, ends = name[len(stem) :], (*_KINDS_WITH_BASE_OFFSET, FileKind.KRAFT_SNAPSHOT)
    kind = _KINDS_BY_NAME.get(stem) or next((end for end in ends if stem.endswith(end.value)), FileKind.FOREIGN)
    if kind not in _LISTED_BY_NIO and not is_visible_to_java(name):
        return FileName(name, FileKind.FOREIGN)
    if kind.has_base_offset:
        return FileName(name, kind, find_base_offset(name), suffix=suffix)
    if kind is FileKind.KRAFT_SNAPSHOT:
        snapshot = _kraft_snapshot_or_none(name)
        if snapshot is not None and not suffix and build_kraft_snapshot_name(snapshot) != name:
            return FileName(name, FileKind.FOREIGN)  # a broker takes its offset and epoch, and reads the name of these
        if snapshot is not None:
            return FileName(name, kind, snapshot.end_offset, snapshot.epoch, suffix)
    return FileName(name, kind, suffix=suffix if kind is not FileKind.FOREIGN else "")


def find_renamed_log(name: str) -> str | None:
    """The name of the `.log` that somebody gave another one, such as 00000000000000000042.log.bak, in capitals, or
    .00000000000000000042.log.x1Y2z3 of a copy that rsync did not finish; None if it is none. What is in the file says
    whether it is that segment."""
    match = _RENAMED_LOG.match(name)
    is_renamed = match is not None and parse_file_name(name).kind is FileKind.FOREIGN
    return match[1].lower() if match and is_renamed and find_base_offset(match[1]) is not None else None


def is_log_name(name: str) -> bool:
    """Return whether a file has the name of a segment's log that a broker reads as such: 20 digits and `.log`."""
    digits = name.removesuffix(FileKind.LOG.value)
    return digits != name and len(digits) == OFFSET_DIGITS and digits.isascii() and digits.isdecimal()


def parse_base_offset(name: str) -> int:
    """LogFileUtils.offsetFromFileName: the number before the first dot, however many digits it has.

    Raises Corrupt with the class of Kafka's exception: NumberFormatException, or StringIndexOutOfBoundsException
    for a name without a dot.
    """
    number, dot, _ = name.partition(".")
    if not dot:
        raise Corrupt(f"file name without a dot: {name}", kafka_class="StringIndexOutOfBoundsException")
    return parse_java_long(number)


def build_file_name(kind: FileKind, base_offset: int, suffix: str = "") -> str:
    """The name of a segment's file or of a producer snapshot, such as 00000000000000000042.log.deleted."""
    return filename_prefix_from_offset(base_offset) + kind.value + suffix


def filename_prefix_from_offset(offset: int) -> str:
    """LogFileUtils.filenamePrefixFromOffset: at least 20 digits; a minus sign comes on top."""
    return _padded(offset, OFFSET_DIGITS)


def _padded(number: int, digits: int) -> str:
    return f"{'-' if number < 0 else ''}{abs(number):0{digits}d}"


def find_base_offset(name: str) -> int | None:
    """Return the offset at the beginning of a file's name, as `parse_base_offset`; None if there is none."""
    try:
        return parse_base_offset(name)
    except Corrupt:
        return None


# Partition dirs.

# As LocalLog's patterns, whose \S is any character but Java's six blanks.
_NOT_BLANK = r"[^ \t\n\x0b\f\r]+"
_RENAMED_DIR = rf"{_NOT_BLANK}-{_NOT_BLANK}\.{_NOT_BLANK}"


def parse_partition_dir_name(name: str) -> PartitionDirName:
    """LocalLog.parseTopicPartitionName: split at the last dash, for a renamed dir that before the last dot.

    Raises Corrupt (KafkaException) for any other name. Two names may mean the same partition: t-0, t-00, t-+0.
    """
    renamings = (PartitionDirState.DELETE, PartitionDirState.FUTURE, PartitionDirState.STRAY)
    state = next((one for one in renamings if name.endswith(one.value)), PartitionDirState.CURRENT)
    current_name, unique_id = name, None
    if state is not PartitionDirState.CURRENT:
        renamed = name.removesuffix(state.value)
        if not re.fullmatch(_RENAMED_DIR, renamed):
            raise _not_a_partition_dir(name)
        current_name, _, unique_id = renamed.rpartition(".")
    topic, _, partition = current_name.rpartition("-")
    if not topic or not partition:
        raise _not_a_partition_dir(name)
    try:
        return PartitionDirName(topic, parse_java_int(partition), unique_id, state)
    except Corrupt:
        raise _not_a_partition_dir(name) from None


def build_partition_dir_name(name: PartitionDirName) -> str:
    """LocalLog.logDirName, logDeleteDirName, logFutureDirName, logStrayDirName with the given unique id.

    For DELETE and STRAY the topic is cut so that the whole is at most 255 characters; for FUTURE it is not.
    """
    if name.state is PartitionDirState.CURRENT:
        return f"{name.topic}-{name.partition}"
    tail = f"-{name.partition}.{name.unique_id}{name.state.value}"
    if name.state is PartitionDirState.FUTURE:
        return name.topic + tail
    return name.topic[: max(0, MAX_DIR_NAME_LENGTH - len(tail))] + tail


def _not_a_partition_dir(name: str) -> Corrupt:
    return Corrupt(
        f"'{name}' is not in the form of topic-partition or topic-partition.uniqueId-delete (if marked for deletion)",
        kafka_class="KafkaException",
    )


# KRaft snapshots.

_PARTIAL_SUFFIX = ".checkpoint.part"
_DELETED_SUFFIX = ".checkpoint.deleted"


def parse_kraft_snapshot_name(name: str) -> KraftSnapshotName | None:
    """Snapshots.parse: fixed columns, whatever stands between them and the suffix; None without such a suffix.

    Raises Corrupt (NumberFormatException, StringIndexOutOfBoundsException) for other text in these columns.
    """
    if not name.endswith((FileKind.KRAFT_SNAPSHOT.value, _PARTIAL_SUFFIX, _DELETED_SUFFIX)):
        return None
    end_offset_columns = name[:OFFSET_DIGITS]
    epoch_columns = name[OFFSET_DIGITS + 1 : OFFSET_DIGITS + 1 + EPOCH_DIGITS]
    if len(end_offset_columns) < OFFSET_DIGITS:
        raise _name_too_short(name)
    end_offset = parse_java_long(end_offset_columns)
    if len(epoch_columns) < EPOCH_DIGITS:
        raise _name_too_short(name)
    return KraftSnapshotName(
        end_offset,
        parse_java_int(epoch_columns),
        partial=name.endswith(_PARTIAL_SUFFIX),
        deleted=name.endswith(_DELETED_SUFFIX),
    )


def build_kraft_snapshot_name(name: KraftSnapshotName) -> str:
    """Snapshots.filenameFromSnapshotId with the suffix of its state (a broker puts `-<random>` before `.part`)."""
    suffix = _PARTIAL_SUFFIX if name.partial else _DELETED_SUFFIX if name.deleted else FileKind.KRAFT_SNAPSHOT.value
    return f"{_padded(name.end_offset, OFFSET_DIGITS)}-{_padded(name.epoch, EPOCH_DIGITS)}{suffix}"


def _kraft_snapshot_or_none(name: str) -> KraftSnapshotName | None:
    try:
        return parse_kraft_snapshot_name(name)
    except Corrupt:
        return None


def _name_too_short(name: str) -> Corrupt:
    return Corrupt(f"snapshot name is too short: {name}", kafka_class="StringIndexOutOfBoundsException")
