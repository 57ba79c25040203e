"""A situation: something that a broker says in its log, what it means, and what to do about it.

Nothing here knows a disk. The situations are those of brokers from 3.9 to 4.4. They stand as data in
`klogtool/doctor/situations/`; what a broker does was observed on real brokers of 4.3.1 and 3.9.2, or read in their
sources.

    identity.json      meta.properties: which broker, cluster and directory a log dir belongs to
    folders.json       names of folders, topic ids, strays, moves between log dirs
    checkpoints.json   the checkpoint files of a log dir: LogManager, ReplicaManager and LogCleanerManager read them
    side_files.json    indexes, producer snapshots, leader epochs of a partition
    segments.json      segments: recovered, cut, split, swapped, deleted at startup (LogLoader, LogSegment.recover)
    metadata.json      `__cluster_metadata`, its snapshots, quorum-state, bootstrap.checkpoint
    controlling.json   metadata that a controller or a broker cannot replay, load or publish
    quorum.json        KRaft's voters and leaders
    disk.json          locks, permissions, full and broken disks, memory maps
    starting.json      clean and unclean starts, and how a failed start ends
    cleaning.json      the log cleaner
    retention.json     segments deleted while a broker runs
    records.json       records that cannot be read: consumers, followers, cleaners
    tiered.json        the remote tier and its metadata
    appending.json     what a broker refuses to append
    fetching.json      fetches that consumers, followers and share groups do not get an answer to
    replicating.json   followers that truncate, elections, fencing
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from enum import Enum
from functools import cache

from msgspec import Struct
from msgspec.json import decode

from klogtool.verify.findings import Kind

THEMES = (
    *("identity", "folders", "checkpoints", "side_files", "segments", "metadata", "controlling", "quorum"),
    *("disk", "starting", "cleaning", "retention", "records", "tiered", "appending", "fetching", "replicating"),
)


class Outcome(Enum):
    """What the broker does, the worst last. `meaning` of a situation says when it is better or worse."""

    OK = "ok"
    """It runs, and nothing is lost. It may refuse a request."""
    UNSERVED = "unserved"
    """It runs, and does not serve the partition, or stops a part of its work."""
    LOSES = "loses"
    """It runs, and loses or hides records."""
    OFFLINE = "offline"
    """It takes the log dir offline. If that is its last log dir, or the metadata log dir, it ends."""
    REFUSES = "refuses"
    """Its process ends, whatever its other log dirs contain."""


class Wording(Struct, frozen=True, forbid_unknown_fields=True):
    """A message as Kafka logs it, with `{names}` in place of what varies: `Found an orphaned index file {file}, with`.

    since, until: the first and the last release that says it so; None: Kafka 4.3.1 does, and most releases do.
    """

    text: str
    since: str | None = None
    until: str | None = None

    @property
    def releases(self) -> str | None:
        """Return which releases say it so, or None if that need not be said."""
        words = [*([f"since {self.since}"] if self.since else []), *([f"until {self.until}"] if self.until else [])]
        return ", ".join(words) or None


class MessageCause(Struct, frozen=True, forbid_unknown_fields=True):
    """One of several causes of a message. sign: what tells it from the others."""

    what: str
    sign: str


class Situation(Struct, frozen=True, forbid_unknown_fields=True):
    """A situation of a broker. name: stable, in kebab-case.

    look_first: what a person checks by hand first. cures: commands, with `{names}` of `klogtool.doctor.where`.
    findings: what `verify` reports of it. causes: if the message has several; empty if there is one. clue: text
    elsewhere in a log, often of a stack trace, that shows that it is this situation and no other with the same message.
    is_general: the message says that something failed, but not what. names: those that Kafka's table of errors
    (org.apache.kafka.common.protocol.Errors) has for it, code and class of the exception.
    """

    name: str
    wordings: tuple[Wording, ...]
    outcome: Outcome
    meaning: str
    look_first: str
    cures: tuple[str, ...] = ()
    findings: tuple[Kind, ...] = ()
    clue: str | None = None
    is_general: bool = False
    causes: tuple[MessageCause, ...] = ()
    names: tuple[str, ...] = ()


@cache
def situations() -> Mapping[str, Situation]:
    """Return all situations by their names, in the order of the themes. Decoding checks them against the structs."""
    files = (pkgutil.get_data("klogtool.doctor", f"situations/{theme}.json") for theme in THEMES)
    every = [situation for data in files for situation in decode(data or b"", type=list[Situation])]
    return {situation.name: situation for situation in every}
