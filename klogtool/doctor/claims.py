"""Claims: what a start does, as facts that a broker's start can confirm or refute, one about each thing.

The verdict, its numbers and the points of a partition are made from claims. None means unknown, never zero.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

OffsetRange: TypeAlias = tuple[int, int]  # first and last offset


class WhyUnknown(Enum):
    """Why something cannot be counted."""

    NOT_LOADED = "not-loaded"
    """The start does not come to load this log, or fails."""
    NAMES_ONLY = "names-only"
    """No log was read (`--quick`)."""
    NOT_READ = "not-read"
    """The start does not read all of this log, so nobody looked."""
    UNREADABLE = "unreadable"
    """A file cannot be read."""
    COMPACTED = "compacted"
    """A cleaned segment replaces others: what it lacks may have newer records of the same keys."""
    TOO_LARGE = "too-large"
    """The log is damaged or out of order, and too large to follow a consumer through it."""
    WHILE_IT_RUNS = "while-it-runs"
    """The broker may fail at it, or end, and that is decided while it runs."""
    NOT_SERVED = "not-served"
    """Nothing of it is served, and nobody counted what it has."""
    ELSEWHERE = "elsewhere"
    """Other nodes decide it, or what neither the disks nor the config show, or the start does not come so far."""
    RETENTION = "retention"
    """Retention of a broker that was killed then may have deleted it, or somebody: the disk does not tell."""


class Witness(Enum):
    """What shows that records existed which no file has."""

    HIGH_WATERMARK = "high-watermark"
    RECOVERY_POINT = "recovery-point"
    LOG_START = "log-start"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    LEADER_EPOCH = "leader-epoch"
    INDEX = "index"
    """An index without its `.log`."""
    GAP = "gap"
    """The segments beside it: the log is not compacted, so offsets follow one another."""
    DAMAGED_BYTES = "damaged-bytes"
    """Bytes that are no sound batch: their header, or what is around them, says which offsets they had."""


class HiddenBy(Enum):
    """Why nobody is served records that stay on the disk."""

    BELOW_START = "below-log-start"
    """They are below the base offset of the first segment, whose name is too high."""
    BEYOND_END = "beyond-log-end"
    """The broker takes a lower offset for the log's end, and appends there."""
    NAME = "name"
    """The broker does not read files of such a name."""
    ORDER = "order"
    """Offsets go back or jump ahead, and consumers pass over them."""
    DAMAGE = "damage"
    """They lie behind damage that the start does not cut off, and consumers do not come to them; or their batch says a
    wrong number of records."""
    INDEX = "index"
    """The offset index of their segment points beside the batches, and fetches do not come to them."""
    FOLDER = "folder"
    """The broker sets the folder aside, or loads it under a name that nobody asks for."""
    LOG_DIR = "log-dir"
    """The log dir is offline, or none of its partitions is served."""
    NOT_READ = "not-read"
    """Nobody looked: the start does not read all of this log."""


class Lost(Struct, frozen=True):
    """What is readable on this disk before the start, and not afterwards. records: None if that cannot be counted, for
    a reason; control records are none. ranges: offsets, ascending."""

    records: int | None = 0
    ranges: tuple[OffsetRange, ...] = ()
    reason: WhyUnknown | None = None


class Gone(Struct, frozen=True):
    """Offsets that no file has. ranges: None if unknown, for a reason. witness: what shows that they existed, the
    strongest first. perhaps: others, which no file has either, and which retention may have deleted."""

    ranges: tuple[OffsetRange, ...] | None = ()
    witness: tuple[Witness, ...] = ()
    reason: WhyUnknown | None = None
    perhaps: tuple[OffsetRange, ...] = ()


class Hidden(Struct, frozen=True):
    """Records that stay on the disk, and that nobody is served. records: None if unknown, for a reason."""

    records: int | None = 0
    ranges: tuple[OffsetRange, ...] = ()
    why: tuple[HiddenBy, ...] = ()
    reason: WhyUnknown | None = None


class BrokerClaim(Struct, frozen=True):
    """starts: None if it may end; that is decided while it loads its logs, or runs. error: the class of the exception
    that ends the start. ends: whether the process ends by itself; None if that is decided elsewhere, or unknown.
    ends_after_ms: how long after it asked for its registration, if it comes up and finds no leader; None if it does
    not end, or ends before. leader_elected: whether the controllers elect a leader; None if unknown. message: a line
    that it logs then, or the message of the exception that ends the start. reason: why starts, ends or leader_elected
    is None."""

    starts: bool | None
    error: str | None = None
    ends: bool | None = None
    ends_after_ms: int | None = None
    leader_elected: bool | None = None
    message: str | None = None
    reason: WhyUnknown | None = None


class LogDirClaim(Struct, frozen=True):
    """online: whether the broker uses the log dir; None if that is unknown, for a reason."""

    path: str
    online: bool | None
    reason: WhyUnknown | None = None


class PartitionClaim(Struct, frozen=True):
    """What a start does to a partition dir. served: whether clients are served from it; None if unknown. deleted,
    renamed, rewritten: names of its files, None if unknown; a renamed file is there with its old name. reason: why
    something of this is None."""

    path: str
    served: bool | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    lost: Lost = Lost()
    gone_already: Gone = Gone()
    hidden: Hidden = Hidden()
    deleted: tuple[str, ...] | None = ()
    renamed: tuple[str, ...] | None = ()
    rewritten: tuple[str, ...] | None = ()
    reason: WhyUnknown | None = None


class OptionClaim(Struct, frozen=True):
    """What is so after an option and a start. readable: offsets; None if unknown, for a reason. lost: what is readable
    now and not then. erases_witness: the option removes what shows that records are missing."""

    path: str
    number: int
    readable: tuple[OffsetRange, ...] | None = None
    lost: Lost = Lost()
    erases_witness: bool = False
    reason: WhyUnknown | None = None


Claim: TypeAlias = BrokerClaim | LogDirClaim | PartitionClaim | OptionClaim
