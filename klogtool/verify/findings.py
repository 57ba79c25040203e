"""What verify can find: one table of kinds, a row for each, and a finding itself.

A new kind is a row here, a check that yields `Finding(Kind.X, path, detail, ...)`, and its damage in tests/wounded.py;
`make docs` begins its section in docs/findings.md, where the area says. For bytes in a log the check makes a `Damage`
(log_damage.py, log_order.py); for other files see the map in `klogtool.verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch_proof import COUNT, FLAGS, HEADER

if TYPE_CHECKING:
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

    meaning: what it is, and what readers or a broker do then, in one to three sentences; docs/findings.md has the
    details. rank: what is shown first among findings of one severity: first what will lose more data or prevents the
    start of a broker or a log dir, then data that is lost already. served: fields with which consumers get the records
    all the same, and salvage keeps the batch if it can be read. by_field: what a field adds to the meaning; each
    sentence about consumers was tried with Kafka's own. instead: where a field makes it another meaning.
    """

    id: str
    area: Area
    meaning: str
    severity: Severity
    rank: int = LEAST_RANK
    cure: Cure | None = None
    recovery: RecoveryEffect | None = None
    served: tuple[str, ...] = ()
    by_field: Mapping[str, str] = {}
    instead: Mapping[str, str] = {}


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

    BATCH_CRC = _error(
        "batch-crc",
        Area.LOG,
        "Bytes under the CRC have changed since they were written. Consumers stop here until they seek past the "
        "batch. A broker that recovers this segment cuts the log at this byte.",
        rank=15,
        cure=Cure.LOG,
        recovery=RecoveryEffect.CUTS,
    )
    BATCH_HEADER = _error(
        "batch-header",
        Area.LOG,
        "A field that no CRC covers contradicts the rest. The records are whole. A broker uses the field as it is, or "
        "cuts the log here.",
        rank=20,
        cure=Cure.LOG,
        by_field={
            "base_offset": "Consumers get its records under these offsets, and miss records that follow "
            "under lower ones.",
            "length": "After a clean stop, a broker may end the log here, or refuse to start.",
            "magic": "Consumers stop here. With magic 0 or 1 they stop already at the fetch that has this batch.",
            "partition_leader_epoch": "Consumers do not notice.",
        },
    )
    BATCH_ATTRIBUTES = _error(
        "batch-attributes",
        Area.LOG,
        "No broker writes such a batch, although its CRC matches.",
        rank=21,
        cure=Cure.LOG,
        served=(FLAGS, COUNT),
        by_field={
            "attributes": "Consumers read on.",
            "codec": "Consumers stop at the first fetch that has this batch, also before it.",
            "last_offset_delta": "Consumers read on; after a fetch that ends with this batch they continue behind its "
            "last offset, and miss what is below it. A broker that recovers this segment may empty it.",
            "records_count": "Consumers read the records that are in it, and miss later records at the same offsets. "
            "If there are fewer records than that, they stop.",
            "size": "Consumers stop here, or pass over its records.",
            "producer": "Consumers read on. A broker may refuse what this producer sends next.",
        },
    )
    TORN_BATCH = _error(
        "torn-batch",
        Area.LOG,
        "The last write was not finished. A broker that recovers this segment cuts the batch off. A broker that does "
        "not recover it appends after it, and loses what it appends.",
        rank=17,
        cure=Cure.LOG,
        recovery=RecoveryEffect.CUTS,
    )
    FOREIGN_BYTES = _error(
        "foreign-bytes",
        Area.LOG,
        "These bytes are not a batch. Consumers stop here. A broker that recovers this segment cuts the log at this "
        "byte.",
        rank=16,
        cure=Cure.LOG,
        recovery=RecoveryEffect.CUTS,
    )
    OFFSET_ORDER = _error(
        "offset-order",
        Area.LOG,
        "Offsets must increase. Consumers pass over what goes back, unless a fetch begins exactly here. A broker that "
        "recovers this segment may empty it completely.",
        rank=19,
        cure=Cure.LOG,
    )
    OFFSET_OVERFLOW = _error(
        "offset-overflow",
        Area.LOG,
        "An index of this segment cannot hold the offset. A broker that recovers this segment splits it.",
        cure=Cure.LOG,
    )
    RECORDS_INVALID = _error(
        "records-invalid",
        Area.LOG,
        "Consumers stop in this batch, or see fewer or other records than were written.",
        rank=22,
        cure=Cure.LOG,
        served=(HEADER,),
        instead={"header": "The records can be read: consumers get them as they are."},
    )
    BYTES_CHANGED = _error(
        "bytes-changed",
        Area.LOG,
        "The disk now gives other bytes than before. No checksum covers them, so consumers and followers get them as "
        "they are. Only `klogtool scrub` finds this.",
        rank=23,
    )
    TXNINDEX_MISSING = _error(
        "txnindex-missing",
        Area.INDEXES,
        "Consumers with read_committed see aborted records as committed. A broker does not notice.",
        cure=Cure.TXN_INDEX,
    )
    TXNINDEX_SIZE = _error(
        "txnindex-size",
        Area.INDEXES,
        "A broker reads only whole entries, and appends new entries after the rest, where they are not found.",
        cure=Cure.TXN_INDEX,
    )
    TXNINDEX_ENTRY = _error(
        "txnindex-entry",
        Area.INDEXES,
        "Consumers with read_committed see aborted records as committed, or miss committed records. A broker does not "
        "notice.",
        cure=Cure.TXN_INDEX,
        recovery=RecoveryEffect.STOPS,
    )
    EPOCHS_CORRUPT = _error(
        "epochs-corrupt",
        Area.EPOCHS,
        "A broker cannot load the log dir, or does not start.",
        rank=8,
        cure=Cure.EPOCHS,
        recovery=RecoveryEffect.STOPS,
    )
    PARTITION_METADATA_CORRUPT = _error(
        "partition-metadata-corrupt",
        Area.TOPICS,
        "A broker cannot load the log dir, or does not start.",
        rank=9,
        recovery=RecoveryEffect.STOPS,
    )
    TOPIC_ID_MISMATCH = _error(
        "topic-id-mismatch",
        Area.TOPICS,
        "The partition belongs to another topic of the same name, or was copied from elsewhere.",
        rank=10,
    )
    SEGMENT_OVERLAP = _error(
        "segment-overlap",
        Area.NAMES,
        "Readers get one copy or the other, and may miss records between them.",
        rank=18,
        cure=Cure.LOG,
    )
    SEGMENT_NAME = _error(
        "segment-name",
        Area.NAMES,
        "A broker knows where a segment starts only by its name.",
        recovery=RecoveryEffect.STOPS,
    )
    FOREIGN_FOLDER = _error("foreign-folder", Area.NAMES, "A log dir may contain only partition dirs.", rank=7)
    DUPLICATE_PARTITION = _error(
        "duplicate-partition", Area.TOPICS, "A broker cannot decide which copy to use.", rank=6
    )
    CHECKPOINT_CORRUPT = _error(
        "checkpoint-corrupt",
        Area.LOG_DIR,
        "It can be deleted. A broker then finds its contents again, at a cost.",
        rank=5,
    )
    META_PROPERTIES_CORRUPT = _error(
        "meta-properties-corrupt", Area.LOG_DIR, "It says which broker and cluster the log dir belongs to.", rank=3
    )
    META_PROPERTIES_CONFLICT = _error(
        "meta-properties-conflict",
        Area.LOG_DIR,
        "All log dirs of a broker have the same cluster id and node id, and each has its own directory id.",
        rank=4,
    )
    KRAFT_SNAPSHOT_CORRUPT = _error(
        "kraft-snapshot-corrupt",
        Area.KRAFT,
        "Without it the cluster's metadata may be lost. Then every partition becomes a stray.",
        rank=11,
    )
    QUORUM_STATE_CORRUPT = _error(
        "quorum-state-corrupt", Area.KRAFT, "It records which candidate this node voted for.", rank=14
    )
    METADATA_REPLAY = _error(
        "metadata-replay",
        Area.KRAFT,
        "The record is sound, but contradicts those before it. A controller that reads it ends.",
        rank=12,
    )
    QUORUM_VOTER = _error(
        "quorum-voter", Area.KRAFT, "A dynamic quorum knows its voters by node id and directory id.", rank=13
    )
    CLEAN_MARKER_FALSE = _error(
        "clean-marker-false",
        Area.LOG_DIR,
        "This is the most dangerous state: a broker acknowledges what it writes next, and then loses it.",
        rank=1,
    )
    UNREADABLE = _error(
        "unreadable",
        Area.NAMES,
        "If the broker cannot read it, it takes this log dir offline.",
        rank=2,
        recovery=RecoveryEffect.STOPS,
    )
    REMOTE_METADATA = _error(
        "remote-metadata",
        Area.REMOTE,
        "A broker drops a record that it cannot read, and goes on with the segments as the other records have them.",
        rank=23,
    )
    REMOTE_OBJECT_MISSING = _error(
        "remote-object-missing",
        Area.REMOTE,
        "Nothing else has these records, unless a broker still has them on its disk.",
        rank=24,
        by_field={
            "stuck": "Consumers stop here for ever (UNKNOWN_SERVER_ERROR), and the broker logs an error at each try. "
            "Records behind the segment are served to consumers that ask for them.",
        },
    )
    REMOTE_OBJECT_CORRUPT = _error(
        "remote-object-corrupt",
        Area.REMOTE,
        "It cannot be opened as it was written.",
        rank=25,
        by_field={"stuck": "Consumers stop here for ever: the broker cannot read it either."},
    )
    REMOTE_OBJECT_SIZE = _error(
        "remote-object-size",
        Area.REMOTE,
        "Brokers never compare the size of an object with what they uploaded.",
        rank=26,
        by_field={
            "skipped": "Consumers pass over the records that are missing, without an error and without a line in any "
            "log.",
            "stuck": "Consumers stop here for ever: the broker cannot read the chunk that was cut.",
        },
    )
    REMOTE_BATCH = _error(
        "remote-batch",
        Area.REMOTE,
        "Brokers send these bytes as they are. `field` is the finding that klogtool verify has for them on a disk: "
        "consumers do the same here.",
        rank=27,
    )
    REMOTE_MISMATCH = _error(
        "remote-mismatch",
        Area.REMOTE,
        "The objects are not those that the metadata is about, or were changed. A broker believes the metadata.",
        rank=28,
    )
    REMOTE_GAP = _error(
        "remote-gap",
        Area.REMOTE,
        "These offsets are within the log, and neither on a disk nor in a segment that a broker would read.",
        rank=29,
        by_field={
            "reset": "Consumers get OFFSET_OUT_OF_RANGE and go where auto.offset.reset says. The default, latest, "
            "passes over all records up to the end of the log.",
        },
    )
    ZERO_TAIL = _warning(
        "zero-tail",
        Area.LOG,
        "The file was extended before its data was written, for example at a power failure. A broker that recovers "
        "this segment cuts the zeros off. A broker that does not recover it may refuse to start.",
        cure=Cure.LOG,
        recovery=RecoveryEffect.CUTS,
    )
    EPOCH_ORDER = _warning(
        "epoch-order",
        Area.LOG,
        "Leader epochs never decrease. Followers may truncate their logs at the wrong offset.",
    )
    SEQUENCE_GAP = _warning(
        "sequence-gap", Area.LOG, "Batches of this producer are missing, or are in a different order."
    )
    TIMESTAMP_IMPLAUSIBLE = _warning(
        "timestamp-implausible",
        Area.LOG,
        "Retention by time waits until the newest timestamp of a segment is old enough.",
    )
    INDEX_MISSING = _warning(
        "index-missing",
        Area.INDEXES,
        "Rebuilding reads the whole segment, so damage that was not noticed before will surface.",
        cure=Cure.OFFSET_INDEX,
    )
    INDEX_SIZE = _warning(
        "index-size",
        Area.INDEXES,
        "The bytes after the last whole entry are not an entry. A broker that trims the file cuts them off.",
        cure=Cure.OFFSET_INDEX,
    )
    INDEX_ORDER = _warning(
        "index-order",
        Area.INDEXES,
        "Lookups in it find a wrong position: readers may start too late, or at the beginning.",
        cure=Cure.OFFSET_INDEX,
    )
    INDEX_ENTRY = _warning(
        "index-entry",
        Area.INDEXES,
        "Readers that look up an offset here may start in the middle of a batch, or too late.",
        cure=Cure.OFFSET_INDEX,
    )
    TIMEINDEX_MISSING = _warning(
        "timeindex-missing",
        Area.INDEXES,
        "Until it is rebuilt, nothing says which times are in the segment.",
        cure=Cure.TIME_INDEX,
    )
    TIMEINDEX_SIZE = _warning(
        "timeindex-size",
        Area.INDEXES,
        "The bytes after the last whole entry are not an entry. A broker that trims the file cuts them off.",
        cure=Cure.TIME_INDEX,
    )
    TIMEINDEX_ORDER = _warning(
        "timeindex-order", Area.INDEXES, "Lookups by time find a wrong position.", cure=Cure.TIME_INDEX
    )
    TIMEINDEX_ENTRY = _warning(
        "timeindex-entry",
        Area.INDEXES,
        "Lookups by time skip records, or retention uses a wrong time.",
        cure=Cure.TIME_INDEX,
    )
    TIMEINDEX_MAX = _warning(
        "timeindex-max",
        Area.INDEXES,
        "Retention and lookups by time use a wrong date for this segment.",
        cure=Cure.TIME_INDEX,
    )
    SNAPSHOT_CORRUPT = _warning(
        "snapshot-corrupt",
        Area.SNAPSHOTS,
        "A broker restores the producers from an older snapshot and from the log after it.",
        cure=Cure.SNAPSHOTS,
    )
    SNAPSHOT_CONTENT = _warning(
        "snapshot-content",
        Area.SNAPSHOTS,
        "A broker that loads it accepts duplicates, or refuses new records.",
        cure=Cure.SNAPSHOTS,
    )
    SNAPSHOT_STRAY = _warning("snapshot-stray", Area.SNAPSHOTS, "It describes records that are not in the log.")
    EPOCHS_CONTENT = _warning(
        "epochs-content",
        Area.EPOCHS,
        "Followers that ask for the end of an epoch get a wrong answer, and truncate too much or too little.",
        cure=Cure.EPOCHS,
    )
    EPOCHS_MISSING = _warning(
        "epochs-missing",
        Area.EPOCHS,
        "Followers that ask for the end of an epoch get no answer.",
        cure=Cure.EPOCHS,
    )
    ORPHAN_FILE = _warning(
        "orphan-file", Area.NAMES, "If the segment was not deleted on purpose, its records are lost."
    )
    LEFTOVER_CLEANED = _warning(
        "leftover-cleaned",
        Area.NAMES,
        "A cleaning or a split was interrupted before it was complete.",
        cure=Cure.LEFTOVERS,
    )
    LEFTOVER_SWAP = _warning(
        "leftover-swap",
        Area.NAMES,
        "A cleaning or a split was interrupted when it was almost complete.",
        cure=Cure.LEFTOVERS,
    )
    CHECKPOINT_ENTRY = _warning("checkpoint-entry", Area.LOG_DIR, "The file contradicts the logs.")
    SEGMENT_GAP = _warning("segment-gap", Area.NAMES, "This is normal after compaction. Otherwise records are lost.")
    REMOTE_UNCHECKED = _warning(
        "remote-unchecked",
        Area.REMOTE,
        "The segment was not read, so klogtool does not know whether it is sound.",
        instead={"metadata": "So klogtool cannot tell which segments are in use, and which are orphans."},
    )
    REMOTE_INDEX = _warning(
        "remote-index",
        Area.REMOTE,
        "A broker downloads this index to find where to read. With a wrong one consumers miss records, or stop.",
    )
    REMOTE_DISPLACED = _warning(
        "remote-displaced",
        Area.REMOTE,
        "No leader epoch lists the segment any more, so retention never deletes its objects. Only the deletion of the "
        "topic does.",
    )
    REMOTE_ORPHAN = _warning(
        "remote-orphan",
        Area.REMOTE,
        "Nobody reads these objects.",
        by_field={
            "no-metadata": "No broker knows of them, so no broker ever deletes them. If the metadata was lost, they "
            "may be the only copy of the records.",
            "other-lineage": "Brokers delete them only when the log has left the leader epochs of the segment behind.",
            "second-copy": "Brokers use the other copy, and never delete this one.",
        },
    )
    REMOTE_COPY_UNFINISHED = _warning(
        "remote-copy-unfinished",
        Area.REMOTE,
        "Consumers do not read the segment. Its objects stay until retention reaches its offsets.",
    )
    REMOTE_DELETE_UNFINISHED = _warning(
        "remote-delete-unfinished",
        Area.REMOTE,
        "Consumers do not read the segment. If an older segment stays, a broker does not try the deletion again.",
    )
    INDEX_UNTRIMMED = _info(
        "index-untrimmed",
        Area.INDEXES,
        "This is normal after a kill, and in __cluster_metadata-0 after any stop of Kafka 4.4.0. A broker that "
        "recovers this segment trims the file.",
    )
    SNAPSHOT_MISSING = _info(
        "snapshot-missing",
        Area.SNAPSHOTS,
        "Brokers that keep one for each segment can truncate a log without reading all of it.",
    )
    PARTITION_METADATA_MISSING = _info(
        "partition-metadata-missing",
        Area.TOPICS,
        "If topics have ids, a broker does not recognise the partition without it.",
    )
    LEFTOVER_DELETED = _info("leftover-deleted", Area.NAMES, "Until a broker starts, the deletion can be taken back.")
    FOREIGN_FILE = _info("foreign-file", Area.NAMES, "It takes up space and does no harm.")
    META_PROPERTIES_MISSING = _info(
        "meta-properties-missing", Area.LOG_DIR, "It says which broker and cluster the log dir belongs to."
    )
    UNCLEAN_SHUTDOWN = _info(
        "unclean-shutdown", Area.LOG_DIR, "This is normal after a kill, and while a broker is running."
    )


KINDS = {kind.value: kind for kind in Kind}


class Finding(Struct, frozen=True):
    """Something found under a path. Fields that do not apply are None and are left out of the JSON.

    start, end: byte positions in the file, end exclusive. first_offset, last_offset: records lost or in doubt. field:
    which field contradicts the others. entry: the partition that a line of a checkpoint is about. detail: what is
    wrong, one sentence. cure: the command that mends it. is_normal: something explains it here, so it is only worth
    knowing. stop: how it keeps a broker from its logs, if it does. user_severity: the severity that a user's settings
    give it, unless it is normal here.
    """

    id: Kind
    path: str
    detail: str
    start: int | None = None
    end: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    entry: str | None = None
    cure: str | None = None
    is_normal: bool = False
    stop: Stop | None = None
    user_severity: Severity | None = None

    @property
    def severity(self) -> Severity:
        """The severity by the id, by whether it is normal here, and by settings; see the table in docs/contract.md."""
        return Severity.INFO if self.is_normal else self.user_severity or self.id.row.severity

    @property
    def ends_broker(self) -> bool:
        """Return whether the broker's process ends at it, whatever the state of its other log dirs."""
        return self.stop is not None and self.stop.is_fatal

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
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        fields = ", ".join(f"{name}={value!r}" for name, value in values if value is not None and value is not False)
        return f"Finding(severity={self.severity.value!r}, {fields})"
