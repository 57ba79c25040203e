"""free: the kinds of files that can be given up, the safest first, and what is to be said about each.

Kinds that lose nothing come first, then what a broker deletes by itself. Kinds that lose something come last.
"""

from __future__ import annotations

from msgspec import Struct


class FreeKind(Struct, frozen=True):
    """name: for --only and --except. loses: whether somebody may miss what is given up. undo: whether it can be taken
    back, if it was moved to another disk.

    what: the kind in words. why: why it is safe. broker: what a broker does about it by itself, and when. costs: what
    can no longer be done.
    """

    name: str
    what: str
    why: str
    broker: str
    costs: str
    loses: bool = False
    undo: bool = True


DELETED = FreeKind(
    "deleted",
    ".deleted files",
    "they were renamed to be deleted, and nothing reads them",
    "deletes them at its next start",
    "nothing",
)
DELETE_FOLDER = FreeKind(
    "delete-folder",
    "-delete folders",
    "the topic was deleted, or the replica was moved to another place",
    "deletes them at its next start, after file.delete.delay.ms (1 minute)",
    "nothing that a broker serves; the folder can no longer be renamed back",
)
CLEANED = FreeKind(
    "cleaned",
    ".cleaned files",
    "they are unfinished output of the log cleaner, and the segments that it read are still there",
    "deletes them at its next start",
    "nothing; the cleaner begins anew",
)
RETENTION = FreeKind(
    "retention",
    "segments past retention",
    "retention no longer keeps them, by the settings of the topic",
    "deletes them at its first check of retention: 30 seconds after its start (log.initial.task.delay.ms)",
    "these records can no longer be read, as after that check",
)
REMOTE = FreeKind(
    "remote",
    "local segments that are in remote storage",
    "a broker reads these offsets from remote storage, and every batch there was read and is sound",
    "deletes them when local.retention.ms or local.retention.bytes is reached, and tells nobody",
    "these offsets are read from the store, which is slower, and this broker has no other copy",
)
COMPACTION = FreeKind(
    "compaction",
    "logs that klogtool compact would make smaller",
    "the log cleaner would remove these records too: a newer record has the same key",
    "compacts them when it runs, if they are due",
    "superseded values; free does not do it, because it needs room for the new segments first",
)
ORPHANED = FreeKind(
    "orphaned",
    "indexes without a .log",
    "no broker reads an index without its .log",
    "deletes them at its next start",
    "LOSES the trace of a .log that is gone: klogtool doctor tells from it which offsets are missing",
    loses=True,
)
REJECTED = FreeKind(
    "rejected",
    "rejected bytes of klogtool salvage",
    "salvage could not use these bytes, and no broker reads them",
    "leaves them alone: they are not in a log dir",
    "LOSES the damaged bytes that salvage kept, so nobody can look at them again",
    loses=True,
    undo=False,
)
JOURNAL = FreeKind(
    "journal",
    "journals of klogtool",
    "these runs of klogtool are done, and only undo needs what they keep",
    "leaves them alone: they are not in a log dir",
    "LOSES undo: these runs can no longer be taken back",
    loses=True,
    undo=False,
)
STRAY = FreeKind(
    "stray",
    "-stray folders",
    "the broker's metadata did not know these replicas, so nobody reads them",
    "never deletes them",
    "LOSES the records in them, which may be the only copy",
    loses=True,
)
KINDS = (DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY)
NAMES = tuple(kind.name for kind in KINDS)
