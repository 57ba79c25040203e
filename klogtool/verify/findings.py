"""What verify can find: one table of kinds, a row for each, and a finding itself.

A new kind is a row here, its meaning in render/meanings.json, a check that yields `Finding(Kind.X, path, reason, ...)`,
and its damage in tests/wounded.py; `make docs` begins its section in docs/findings.md, where the area says. For bytes
in a log the check makes a `Damage` (log_damage.py, log_order.py); for other files see the map in `klogtool.verify`.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from functools import partial
from typing import Self

from msgspec import Struct

from klogtool.causes import Reason, words
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch_proof import COUNT, FLAGS, HEADER
from klogtool.verify.stops import Stop

LEAST_RANK = 100


class Severity(Enum):
    """How bad a finding is; docs/contract.md has the definitions."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Area(Enum):
    """What a finding is about: a chapter of docs/findings.md, in its order."""

    LOG = "In the log"
    INDEXES = "Indexes"
    SNAPSHOTS = "Producer snapshots"
    EPOCHS = "Leader epochs"
    NAMES = "Segments and names"
    TOPICS = "Topics and partitions"
    LOG_DIR = "The log dir"
    KRAFT = "KRaft"
    REMOTE = "In remote storage"


class RecoveryEffect(Enum):
    """What a broker that recovers the segment does about it, if that decides whether recovery is a cure."""

    CUTS = "cuts"  # the log at this byte, and deletes all later segments
    STOPS = "stops"  # the log cannot be loaded


class Cure(Enum):
    """What mends a kind of finding in a partition dir, unless the check gives a cure; choosing_cures.py has the rules.

    A side file is rebuilt: the value is its name for `klogtool rebuild-index`.
    """

    LOG = "log"  # recovery or salvage, one cure for all findings in the log
    LEFTOVERS = "leftovers"  # recovery finishes or removes them
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOTS = "snapshot"
    EPOCHS = "leader-epoch-checkpoint"


class KindRow(Struct, frozen=True):
    """What is known of a kind of finding.

    rank: what is shown first among findings of one severity: first what will lose more data or prevents the start of a
    broker or a log dir, then data that is lost already. served: fields with which consumers get the records all the
    same, and salvage keeps the batch if it can be read. render/meanings.json says what each means.
    """

    id: str
    area: Area
    severity: Severity
    rank: int = LEAST_RANK
    cure: Cure | None = None
    recovery: RecoveryEffect | None = None
    served: tuple[str, ...] = ()


_error, _warning, _info = (
    partial(KindRow, severity=severity) for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
)


class Kind(StrEnum):
    """The kinds of findings, by their ids: a closed list, in the order of docs/contract.md."""

    row: KindRow

    def __new__(cls, row: KindRow) -> Self:
        """Make the member: its id as text, with its row."""
        kind = str.__new__(cls, row.id)
        kind._value_, kind.row = row.id, row
        return kind

    def __repr__(self) -> str:
        """Return the id in quotes."""
        return str.__repr__(self)

    BATCH_CRC = _error("batch-crc", Area.LOG, rank=15, cure=Cure.LOG, recovery=RecoveryEffect.CUTS)
    BATCH_HEADER = _error("batch-header", Area.LOG, rank=20, cure=Cure.LOG)
    BATCH_ATTRIBUTES = _error("batch-attributes", Area.LOG, rank=21, cure=Cure.LOG, served=(FLAGS, COUNT))
    TORN_BATCH = _error("torn-batch", Area.LOG, rank=17, cure=Cure.LOG, recovery=RecoveryEffect.CUTS)
    FOREIGN_BYTES = _error("foreign-bytes", Area.LOG, rank=16, cure=Cure.LOG, recovery=RecoveryEffect.CUTS)
    OFFSET_ORDER = _error("offset-order", Area.LOG, rank=19, cure=Cure.LOG)
    OFFSET_OVERFLOW = _error("offset-overflow", Area.LOG, cure=Cure.LOG)
    RECORDS_INVALID = _error("records-invalid", Area.LOG, rank=22, cure=Cure.LOG, served=(HEADER,))
    BYTES_CHANGED = _error("bytes-changed", Area.LOG, rank=23)
    TXNINDEX_MISSING = _error("txnindex-missing", Area.INDEXES, cure=Cure.TXN_INDEX)
    TXNINDEX_SIZE = _error("txnindex-size", Area.INDEXES, cure=Cure.TXN_INDEX)
    TXNINDEX_ENTRY = _error("txnindex-entry", Area.INDEXES, cure=Cure.TXN_INDEX, recovery=RecoveryEffect.STOPS)
    EPOCHS_CORRUPT = _error("epochs-corrupt", Area.EPOCHS, rank=8, cure=Cure.EPOCHS, recovery=RecoveryEffect.STOPS)
    PARTITION_METADATA_CORRUPT = _error(
        "partition-metadata-corrupt", Area.TOPICS, rank=9, recovery=RecoveryEffect.STOPS
    )
    TOPIC_ID_MISMATCH = _error("topic-id-mismatch", Area.TOPICS, rank=10)
    SEGMENT_OVERLAP = _error("segment-overlap", Area.NAMES, rank=18, cure=Cure.LOG)
    SEGMENT_NAME = _error("segment-name", Area.NAMES, recovery=RecoveryEffect.STOPS)
    FOREIGN_FOLDER = _error("foreign-folder", Area.NAMES, rank=7)
    DUPLICATE_PARTITION = _error("duplicate-partition", Area.TOPICS, rank=6)
    CHECKPOINT_CORRUPT = _error("checkpoint-corrupt", Area.LOG_DIR, rank=5)
    META_PROPERTIES_CORRUPT = _error("meta-properties-corrupt", Area.LOG_DIR, rank=3)
    META_PROPERTIES_CONFLICT = _error("meta-properties-conflict", Area.LOG_DIR, rank=4)
    KRAFT_SNAPSHOT_CORRUPT = _error("kraft-snapshot-corrupt", Area.KRAFT, rank=11)
    QUORUM_STATE_CORRUPT = _error("quorum-state-corrupt", Area.KRAFT, rank=14)
    METADATA_REPLAY = _error("metadata-replay", Area.KRAFT, rank=12)
    QUORUM_VOTER = _error("quorum-voter", Area.KRAFT, rank=13)
    CLEAN_MARKER_FALSE = _error("clean-marker-false", Area.LOG_DIR, rank=1)
    UNREADABLE = _error("unreadable", Area.NAMES, rank=2, recovery=RecoveryEffect.STOPS)
    REMOTE_METADATA = _error("remote-metadata", Area.REMOTE, rank=23)
    REMOTE_OBJECT_MISSING = _error("remote-object-missing", Area.REMOTE, rank=24)
    REMOTE_OBJECT_CORRUPT = _error("remote-object-corrupt", Area.REMOTE, rank=25)
    REMOTE_OBJECT_SIZE = _error("remote-object-size", Area.REMOTE, rank=26)
    REMOTE_BATCH = _error("remote-batch", Area.REMOTE, rank=27)
    REMOTE_MISMATCH = _error("remote-mismatch", Area.REMOTE, rank=28)
    REMOTE_TXNINDEX = _error("remote-txnindex", Area.REMOTE, rank=29)
    REMOTE_GAP = _error("remote-gap", Area.REMOTE, rank=30)
    ZERO_TAIL = _warning("zero-tail", Area.LOG, cure=Cure.LOG, recovery=RecoveryEffect.CUTS)
    EPOCH_ORDER = _warning("epoch-order", Area.LOG)
    SEQUENCE_GAP = _warning("sequence-gap", Area.LOG)
    TIMESTAMP_IMPLAUSIBLE = _warning("timestamp-implausible", Area.LOG)
    INDEX_MISSING = _warning("index-missing", Area.INDEXES, cure=Cure.OFFSET_INDEX)
    INDEX_SIZE = _warning("index-size", Area.INDEXES, cure=Cure.OFFSET_INDEX)
    INDEX_ORDER = _warning("index-order", Area.INDEXES, cure=Cure.OFFSET_INDEX)
    INDEX_ENTRY = _warning("index-entry", Area.INDEXES, cure=Cure.OFFSET_INDEX)
    TIMEINDEX_MISSING = _warning("timeindex-missing", Area.INDEXES, cure=Cure.TIME_INDEX)
    TIMEINDEX_SIZE = _warning("timeindex-size", Area.INDEXES, cure=Cure.TIME_INDEX)
    TIMEINDEX_ORDER = _warning("timeindex-order", Area.INDEXES, cure=Cure.TIME_INDEX)
    TIMEINDEX_ENTRY = _warning("timeindex-entry", Area.INDEXES, cure=Cure.TIME_INDEX)
    TIMEINDEX_MAX = _warning("timeindex-max", Area.INDEXES, cure=Cure.TIME_INDEX)
    SNAPSHOT_CORRUPT = _warning("snapshot-corrupt", Area.SNAPSHOTS, cure=Cure.SNAPSHOTS)
    SNAPSHOT_CONTENT = _warning("snapshot-content", Area.SNAPSHOTS, cure=Cure.SNAPSHOTS)
    SNAPSHOT_STRAY = _warning("snapshot-stray", Area.SNAPSHOTS)
    EPOCHS_CONTENT = _warning("epochs-content", Area.EPOCHS, cure=Cure.EPOCHS)
    EPOCHS_MISSING = _warning("epochs-missing", Area.EPOCHS, cure=Cure.EPOCHS)
    ORPHAN_FILE = _warning("orphan-file", Area.NAMES)
    LEFTOVER_CLEANED = _warning("leftover-cleaned", Area.NAMES, cure=Cure.LEFTOVERS)
    LEFTOVER_SWAP = _warning("leftover-swap", Area.NAMES, cure=Cure.LEFTOVERS)
    CHECKPOINT_ENTRY = _warning("checkpoint-entry", Area.LOG_DIR)
    SEGMENT_GAP = _warning("segment-gap", Area.NAMES)
    REMOTE_UNCHECKED = _warning("remote-unchecked", Area.REMOTE)
    REMOTE_INDEX = _warning("remote-index", Area.REMOTE)
    REMOTE_DISPLACED = _warning("remote-displaced", Area.REMOTE)
    REMOTE_ORPHAN = _warning("remote-orphan", Area.REMOTE)
    REMOTE_COPY_UNFINISHED = _warning("remote-copy-unfinished", Area.REMOTE)
    REMOTE_DELETE_UNFINISHED = _warning("remote-delete-unfinished", Area.REMOTE)
    INDEX_UNTRIMMED = _info("index-untrimmed", Area.INDEXES)
    SNAPSHOT_MISSING = _info("snapshot-missing", Area.SNAPSHOTS)
    PARTITION_METADATA_MISSING = _info("partition-metadata-missing", Area.TOPICS)
    LEFTOVER_DELETED = _info("leftover-deleted", Area.NAMES)
    FOREIGN_FILE = _info("foreign-file", Area.NAMES)
    META_PROPERTIES_MISSING = _info("meta-properties-missing", Area.LOG_DIR)
    UNCLEAN_SHUTDOWN = _info("unclean-shutdown", Area.LOG_DIR)


KINDS = {kind.value: kind for kind in Kind}


class Finding(Struct, frozen=True):
    """Something found under a path. Fields that do not apply are None and are left out of the JSON.

    start, end: byte positions in the file, end exclusive. first_offset, last_offset: records lost or in doubt. field:
    which field contradicts the others. entry: the partition that a line of a checkpoint is about. reason: what is
    wrong; detail is its sentence. cured_by: what mends it; cure is its text. is_normal: something explains it here, so
    it is only worth knowing. stop: how it keeps a broker from its logs, if it does. loses: with the next start records
    are lost or not served because of it. user_severity: the severity that a user's settings give it, unless it is
    normal here.
    """

    id: Kind
    path: str
    reason: Reason
    start: int | None = None
    end: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    entry: str | None = None
    cured_by: Reason | None = None
    is_normal: bool = False
    stop: Stop | None = None
    loses: bool = False
    user_severity: Severity | None = None

    @property
    def severity(self) -> Severity:
        """The severity by the id, by whether it is normal here, by what the next start makes of it, and by settings;
        see the table in docs/contract.md."""
        own = self.id.row.severity
        # Without meta.properties a folder may be a copy, or not be formatted yet: that stays an info.
        if self.loses or (self.stop is not None and own is Severity.WARNING):
            own = Severity.ERROR
        return Severity.INFO if self.is_normal else self.user_severity or own

    @property
    def ends_broker(self) -> bool:
        """Return whether the broker's process ends at it, whatever the state of its other log dirs."""
        return self.stop is not None and self.stop.is_fatal

    @property
    def detail(self) -> str:
        """What is wrong, as one sentence."""
        return words(self.reason)

    @property
    def cure(self) -> str | None:
        """What mends it: a command to paste into a shell, or a sentence; None if there is nothing to do."""
        return None if self.cured_by is None else words(self.cured_by)

    def as_error(self) -> KlogError:
        """Return the error to raise; with Kafka's exception if a broker stops at it."""
        kind = Refused if self.ends_broker else Corrupt
        stop = self.stop
        return kind(
            self.detail,
            path=self.path,
            kafka_class=None if stop is None else stop.kafka_class,
            kafka_message=None if stop is None else stop.message,
            cure=self.cure,
        )

    @property
    def is_unchecked(self) -> bool:
        """Return whether the file can be read, but these bytes are more than klogtool takes into memory
        (docs/limits.md)."""
        return self.id is Kind.UNREADABLE and self.end is not None

    def __repr__(self) -> str:
        """Return the severity and the fields that apply."""
        texts = {"reason": "detail", "cured_by": "cure"}
        names = (texts.get(name, name) for name in self.__struct_fields__)
        values = ((name, getattr(self, name)) for name in names)
        fields = ", ".join(f"{name}={value!r}" for name, value in values if value is not None and value is not False)
        return f"Finding(severity={self.severity.value!r}, {fields})"
