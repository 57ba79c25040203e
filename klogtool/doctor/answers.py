"""What the doctor answers, as values: what is ahead, what can be done about it, and the verdict on all log dirs."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from klogtool.causes import Cause, Text, some
from klogtool.doctor.claims import HiddenBy, Lost, OffsetRange, PartitionClaim
from klogtool.doctor.host import HostPoint
from klogtool.plans.question import Question
from klogtool.remote.safe_to_lose import SafePart
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.stops import Stop


class What(Enum):
    """What a broker's start does, or what the disk shows; the worst first."""

    REFUSES = "refuses"
    """The broker's process ends, whatever its other log dirs are like."""
    NOT_VOTER = "not-a-voter"
    """This controller does not vote any more: the others have to elect, and have no spare."""
    METADATA_BEHIND = "metadata-copy-behind"
    """A controller may lead that lacks metadata of another copy: others are cut where its log ends."""
    ENDPOINT_STALE = "voter-endpoint-stale"
    """This controller does not listen where it is known as a voter."""
    NO_MAJORITY = "no-majority-here"
    """A leader needs voters of which nothing is at hand, or which cannot vote as they are."""
    NO_LEADER = "no-leader"
    """Another controller is why nobody leads: whoever wins the election ends, for example."""
    STATE_CONTRADICTS = "quorum-state-contradicts"
    """quorum-state has a vote for this node in an epoch that its log has of another leader."""
    METADATA_LOST = "metadata-lost"
    """The cluster's metadata is gone, or is cut: the broker forgets what was in it."""
    ABSENT = "absent"
    """The cluster has the partition here, and its folder is absent, or stands aside: the broker serves an empty one."""
    MISNAMED = "misnamed"
    """The folder has the name of another topic: the broker loads it, and never serves it."""
    OFFLINE = "offline"
    """The broker gives the log dir up, and continues with the others."""
    NO_ROOM = "no-room"
    """The disk is too full for the recovery."""
    LINK_BROKEN = "link-broken"
    """A link in a partition dir leads nowhere: the broker does not see the file, as if it was not there."""
    FAILS_AT_READ = "fails-at-read"
    """The start is fine; the first read of a file that cannot be opened, or its deletion, takes the log dir offline."""
    LEADER_FAILS = "leader-fails"
    """The broker fails when it becomes the partition's leader; others may stay without a leader, too."""
    UNSERVED = "unserved"
    """The broker runs, and serves no partition of the log dir."""
    ALL_DELETED = "all-deleted"
    """The log ends below its start offset, or its folder is marked for deletion: the broker deletes all of it."""
    TRUNCATED = "truncated"
    """Recovery cuts the log, and deletes the segments after the cut."""
    ENDS_EARLY = "ends-early"
    """The clean marker is false: the broker does not check the log, and appends where records are."""
    FUTURE_EMPTIED = "future-emptied"
    """A -future folder without its partition is emptied."""
    REPLACED = "replaced"
    """A -future folder in the log dir that the cluster assigns becomes the partition, and this one is deleted."""
    LEFT_OUT = "left-out"
    """A log dir of the broker is not named: its partitions are created anew, empty, in the others."""
    HIDDEN = "hidden"
    """Records are in segments of the log, and nobody is served them: a name is too high."""
    REMOTE_OFF = "remote-off"
    """Older records are in remote storage, which this broker does not use: nobody is served them."""
    REMOTE_FORGOTTEN = "remote-forgotten"
    """Older records are in remote storage, in segments that `__remote_log_metadata` has no record of."""
    IGNORED = "ignored"
    """A segment's name has not 20 digits, or it lies in the log dir itself, so the broker never reads it."""
    EXPIRES_EARLY = "expires-early"
    """By a false time index, the first check of retention deletes records that are not due."""
    ENDS_LATE = "ends-late"
    """The header of the last batch is wrong: the broker takes a higher offset for the end, and appends there."""
    WRITES_FAIL = "writes-fail"
    """An index of the active segment ends beyond the log: writes fail, and their bytes stay in the log."""
    COPY_FAILS = "copy-fails"
    """A segment of a tiered topic has no producer snapshot at its end: it is never copied, and what follows neither."""
    COORDINATOR_FAILS = "coordinator-fails"
    """A coordinator does not load its partition: its groups are not served, or it forgets what is in it."""
    DAMAGED = "damaged"
    """A batch is damaged, and this start does not look at it: the broker serves it, and consumers stop there."""
    STRAY = "stray"
    """The broker renames the folder to -stray, and creates an empty partition if the cluster knows one."""
    EXPIRES_LATE = "expires-late"
    """By a false time index, retention leaves records that are due, or that become due."""
    ROLLS_EARLY = "rolls-early"
    """An index of the active segment is full of zeros: the first append rolls the segment."""
    INDEX_FALSE = "index-false"
    """An offset index points beside the batches: fetches that begin there fail, or pass over records."""
    CLEANER_STOPS = "cleaner-stops"
    """The broker runs, and compacts nothing."""
    NEVER_STOPS = "never-stops"
    """The broker runs, and waits for ever when it is told to stop."""
    RESET = "reset"
    """The broker cannot read a checkpoint's numbers, and treats it as empty."""
    MISSING = "missing"
    """Records are gone already."""
    PERHAPS_MISSING = "perhaps-missing"
    """Leader epochs begin before the first segment: retention deleted what was there, or somebody."""


# A start that does one of these loses or hides data.
HIDING = frozenset({What.ABSENT, What.ENDS_EARLY, What.HIDDEN, What.IGNORED, What.LINK_BROKEN, What.STRAY})
HIDING |= {What.METADATA_LOST, What.MISNAMED, What.LEFT_OUT, What.REMOTE_OFF, What.REMOTE_FORGOTTEN}
OFF = (What.OFFLINE, What.NO_ROOM)  # of a whole log dir
GIVING_UP = frozenset({What.OFFLINE, What.FAILS_AT_READ, What.LEADER_FAILS, What.UNSERVED, What.NO_ROOM})
LOSING = HIDING - {What.STRAY} | GIVING_UP | {What.ALL_DELETED, What.FUTURE_EMPTIED, What.REPLACED, What.EXPIRES_EARLY}


class Ahead(Struct, frozen=True):
    """One thing that a start does or shows. path: of the file, partition dir or log dir. detail: why, and what then.

    first_offset, last_offset: records that are lost; None if unknown or none. lost_records: as far as headers count
    them. lost_bytes: of logs. lost_ms: from the last kept record to the last lost one. kept_timestamp: of the last kept
    record. stop: what stops the broker. finding: of verify, if it is one. cure: what a person does; cure_looks: that
    only reads. hidden_by: why records are hidden, if that matters. is_hidden: data stay on the disk, but nobody is
    served from them. is_uncounted: lost_records is not all. may_end: the broker may end by it: that is decided while it
    runs. is_unsure: it may not come at all, which an order decides that nobody knows. by_leader: it comes only where
    the controllers have a leader (KafkaRaftClient.updateListenersProgress). folders: the partition dirs that it
    concerns, if the path is the cause of several.
    """

    path: str
    what: What
    detail: Text
    first_offset: int | None = None
    last_offset: int | None = None
    lost_records: int = 0
    lost_bytes: int = 0
    lost_ms: int = 0
    kept_timestamp: int | None = None
    stop: Stop | None = None
    finding: Finding | None = None
    cure: Text | None = None
    cure_looks: bool = False
    hidden_by: HiddenBy | None = None
    is_hidden: bool = False
    is_uncounted: bool = False
    may_end: bool = False
    is_unsure: bool = False
    by_leader: bool = False
    folders: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR

    @property
    def kind(self) -> Kind | None:
        """The kind of its finding."""
        return None if self.finding is None else self.finding.id

    @property
    def is_losing(self) -> bool:
        """Return whether the start loses or hides data by it."""
        if self.what is What.TRUNCATED:  # nobody can read damaged bytes: nothing is lost with them
            return self.first_offset is not None or self.is_uncounted
        return (self.what in LOSING and self.severity is Severity.ERROR) or self.is_hidden


def ahead_of(finding: Finding, what: What, severity: Severity = Severity.ERROR) -> Ahead:
    """Return what a finding means for a start."""
    return Ahead(
        finding.path,
        what,
        finding.reason,
        stop=finding.stop,
        finding=finding,
        cure=finding.cured_by,
        severity=severity,
    )


def ahead_at_stop(finding: Finding) -> Ahead:
    """Return what a finding means at which a broker stops."""
    return ahead_of(finding, What.REFUSES if finding.stop is None else What(finding.stop.outcome.value))


class Strategy(Enum):
    """What an option costs, from nothing on."""

    NOTHING_LOST = "nothing-lost"
    DAMAGED_ONLY = "damaged-only"
    AS_THE_BROKER = "as-the-broker"
    MAY_DIVERGE = "may-diverge"


class Effect(Enum):
    """What an option does, if that alone shows that no record goes with it."""

    LOOKS = "looks"
    """It only reads."""
    KEEPS_ASIDE = "keeps-aside"
    """It moves a folder that no broker serves; all files stay."""


class Remedy(Struct, frozen=True):
    """A decision that makes a plan: the command by its name in plans/decisions.py, the path, and the question."""

    command: str
    path: str
    question: Question


class Option(Struct, frozen=True):
    """One way out of a trouble. title: in a few words. command: to paste. lost_records, lost_ms: None if unknown,
    as of all that nobody measured.

    price: what it costs beside records, or "". remedies: what `--fix` plans; empty if a person has to do it. is_undone:
    whether `klogtool undo` takes it back. lost, readable: what is lost, and what can be read afterwards; None if that
    was not measured. erases_witness: it removes what shows that records are missing. effect: None if it changes
    something that a broker reads.
    """

    title: Text
    path: str
    command: Text
    strategy: Strategy
    lost_records: int | None = None
    lost_ms: int | None = None
    price: Text = ""
    remedies: tuple[Remedy, ...] = ()
    is_undone: bool = True
    number: int = 0
    lost: Lost | None = None
    readable: tuple[OffsetRange, ...] | None = None
    erases_witness: bool = False
    effect: Effect | None = None

    @property
    def promise(self) -> Strategy | None:
        """Return what it is known to cost; None if it is to lose nothing, and nobody measured that."""
        is_proved = self.lost_records is not None or self.effect is not None
        return self.strategy if is_proved or self.strategy is not Strategy.NOTHING_LOST else None


BY_HAND = "by hand"


def by_hand(path: str, command: Text, title: Text = BY_HAND, *, looks: bool = False) -> Option:
    """Return an option that a person carries out. looks: it only reads."""
    effect = Effect.LOOKS if looks else None
    return Option(title, path, command, Strategy.NOTHING_LOST, is_undone=False, effect=effect)


class Trouble(Struct, frozen=True):
    """What is ahead for one path, with one cause, what to look at first, and the options, the cheapest first."""

    path: str
    ahead: tuple[Ahead, ...]
    look_first: tuple[Text, ...] = ()
    options: tuple[Option, ...] = ()


class SegmentDrawn(Struct, frozen=True):
    """One segment as it is on the disk, or several neighbours. segments: how many. bytes: of their logs.

    end_offset: where the next one begins; of the last one, where the log ends; None if unknown. first_timestamp,
    last_timestamp: epoch ms; None if unknown.
    """

    base_offset: int
    bytes: int
    end_offset: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    segments: int = 1


class Work(Cause):
    """What a start does to one partition dir, whatever else is ahead of it."""

    CLEAN, LEFTOVERS, RECOVERED, REBUILT, SPLIT, CUT, NOT_LOADED, NAMES_ONLY, DELETED, METADATA = some(10)


class Prospect(Struct, frozen=True):
    """What a start does to one partition dir. bytes_to_scan: what recovery reads; log_bytes: of all
    segments; unread_bytes: what neither the broker nor the doctor checks.

    log_end_offset: afterwards; None if the log is not loaded. scan_seconds: how long recovery took in this rehearsal.
    segments_drawn: as they are on the disk, before the start; empty if the partition is in no trouble. claim: what is
    lost, hidden and gone.
    """

    path: str
    work: Work
    bytes_to_scan: int = 0
    log_bytes: int = 0
    unread_bytes: int = 0
    bytes_freed: int = 0
    log_end_offset: int | None = None
    scan_seconds: float = 0.0
    segments: int = 0
    segments_drawn: tuple[SegmentDrawn, ...] = ()
    claim: PartitionClaim | None = None


class Starts(Enum):
    """Whether the broker starts."""

    YES = "yes"
    LOSES_DATA = "loses-data"
    REFUSES = "refuses"


class Leadership(Struct, frozen=True):
    """Whether the controllers elect a leader, and what a person sees if this node finds none.

    elected: None if voters that are not at hand decide it, or nothing says who votes. is_open: nothing here lets one
    expect that there is one. ends: whether a process that comes up ends by it (None:
    unknown), and ends_after_ms: how long after it asked for its registration. message: the line to look for in its
    log. voters: their ids, if they are known; needed: how many of them elect a leader. replays: whether the metadata is
    ever replayed: without a leader nobody knows what is committed (KafkaRaftClient.updateListenersProgress). is_broker:
    whether the process has a broker (None: unknown), which ends without a leader.
    """

    elected: bool | None = None
    is_open: bool = False
    ends: bool | None = None
    ends_after_ms: int | None = None
    message: str | None = None
    voters: tuple[int, ...] = ()
    needed: int = 0
    replays: bool = True
    is_broker: bool | None = None


class Diagnosis(Struct, frozen=True):
    """The answer for all log dirs of one broker. kafka: the release. troubles: the worst first. prospects: of every
    partition dir, by path. notes: what is not known. seconds_estimated: of recovery, at the rate of this run; None if
    unknown. is_quick: no log was loaded. host: what the machine does to these logs, if that was asked. tiered: what of
    tiered logs is safe to lose, if a store was named. skips_leaders: a partition that this broker leads is in a log dir
    that goes offline, and Kafka may not make it the leader of others (see `doctor.replicas.leads_in`). promoted:
    -future folders that become partitions. may_be_copy: this is a copy of partition dirs, or the log dir of a broker
    that lost its own files: it is judged as a log dir with these partitions. lacks_metadata: the log dirs do not show
    whether the cluster has these partitions. metadata_log_dir_to_set: see Patient."""

    kafka: str
    log_dirs: tuple[str, ...]
    starts: Starts
    troubles: tuple[Trouble, ...]
    prospects: tuple[Prospect, ...]
    notes: tuple[Text, ...] = ()
    seconds_estimated: float | None = None
    is_quick: bool = False
    host: tuple[HostPoint, ...] = ()
    lead: Leadership = Leadership()
    tiered: tuple[SafePart, ...] = ()
    skips_leaders: bool = False
    promoted: tuple[str, ...] = ()
    may_be_copy: bool = False
    lacks_metadata: bool = False
    metadata_log_dir_to_set: str | None = None

    @property
    def points(self) -> tuple[Ahead, ...]:
        """Everything that is ahead."""
        return tuple(point for trouble in self.troubles for point in trouble.ahead)

    @property
    def is_known(self) -> bool:
        """Return whether it is known what a start does: not of a copy, and not if settings decide that are not here."""
        is_settled = self.metadata_log_dir_to_set is None or self.starts is Starts.REFUSES
        return not self.may_be_copy and is_settled

    @property
    def lost_records(self) -> int:
        """Records that the start loses."""
        return sum(point.lost_records for point in self.points)

    @property
    def lost_ms(self) -> int:
        """The longest time between the last kept and the last lost record of a partition."""
        return max((point.lost_ms for point in self.points), default=0)

    @property
    def bytes_to_scan(self) -> int:
        """Bytes that recovery reads."""
        return sum(prospect.bytes_to_scan for prospect in self.prospects)

    @property
    def is_silent(self) -> bool:
        """Return whether there is nothing to report but what is as it should be."""
        return all(point.severity is Severity.INFO for point in self.points)
