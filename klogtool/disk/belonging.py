"""Which log dir a journal belongs to: the one beside it, wherever both are now.

    <log dir>.klogtool     belongs to <log dir>, whatever the two are renamed, moved or copied to
    --journal DIR          belongs to the log dir at the recorded path, or at the same relative path from DIR

A log dir is identified by its inode, or by the `directory.id` in its meta.properties. A journal is identified by its
inode. A copy of a journal must never lead to the log dir of the original journal, so its log dir is searched only at
the same relative path from the copy.
"""

from __future__ import annotations

import os

from msgspec import Struct

from klogtool.disk.causes import JournalRefusal
from klogtool.errors import KlogError, Refused
from klogtool.log.logdir import LogDir
from klogtool.plans.plan import JOURNAL
from klogtool.values import Natural

SUFFIX = JOURNAL


class FolderIdentity(Struct, frozen=True):
    """Identifies a folder. directory_id: of a log dir whose meta.properties have one, else None."""

    dev: Natural
    ino: Natural
    directory_id: str | None = None


class Belonging(Struct, frozen=True):
    """Where a journal and its log dir were when a run began, and the identity of both folders."""

    log_dir: str
    journal: str
    log_dir_is: FolderIdentity
    journal_is: FolderIdentity

    @classmethod
    def of(cls, log_dir: str, journal: str) -> Belonging:
        """Record where both are now. Raises OSError."""
        return cls(log_dir, journal, identity_of(log_dir), identity_of(journal))

    def find_log_dir(self, journal: str) -> str:
        """Return where the log dir is now, given where the journal is now. Raises Refused if that is not certain."""
        is_copy = journal != self.journal and not _is_same(identity_of(journal), self.journal_is)
        if self.journal == self.log_dir + SUFFIX:
            log_dir = self._beside(journal)
        else:
            log_dir = self._from_afar(journal, is_copy=is_copy)
        self._check(log_dir, journal, is_copy=is_copy)
        return log_dir

    def has_moved(self, journal: str) -> bool:
        """Return whether one of the two is no longer where it was. Raises Refused as `find_log_dir` does."""
        return (self.find_log_dir(journal), journal) != (self.log_dir, self.journal)

    def _beside(self, journal: str) -> str:
        if not journal.endswith(SUFFIX):
            raise Refused(JournalRefusal.RENAMED(journal=self.journal, suffix=SUFFIX), path=journal)
        log_dir = journal.removesuffix(SUFFIX)
        if not os.path.isdir(log_dir):
            raise Refused(JournalRefusal.NOT_BESIDE(log_dir=log_dir), path=journal)
        return log_dir

    def _from_afar(self, journal: str, *, is_copy: bool) -> str:
        on_the_way = os.path.normpath(os.path.join(journal, os.path.relpath(self.log_dir, self.journal)))
        places = [on_the_way] if is_copy else [self.log_dir, on_the_way]
        log_dir = next((place for place in places if os.path.isdir(place) and self._may_be(place)), None)
        if log_dir is None:
            raise Refused(JournalRefusal.NOT_AT(places=tuple(dict.fromkeys(places))), path=journal)
        return log_dir

    def _may_be(self, place: str) -> bool:
        now, then = identity_of(place), self.log_dir_is
        is_known = then.directory_id is not None and now.directory_id == then.directory_id
        if place == self.log_dir:
            return is_known or now.ino == then.ino  # a reboot may renumber devices
        return is_known or then.directory_id is None or _is_same(now, then)

    def _check(self, log_dir: str, journal: str, *, is_copy: bool) -> None:
        now, known = identity_of(log_dir), self.log_dir_is.directory_id
        is_the_one = _is_same(now, self.log_dir_is)
        if os.path.realpath(log_dir) != log_dir:
            raise Refused(JournalRefusal.LINK(), path=log_dir)
        if is_copy and (is_the_one or log_dir == self.log_dir):
            raise Refused(JournalRefusal.COPY(log_dir=log_dir), path=journal)
        if is_the_one:
            return
        if known is not None and now.directory_id != known:
            raise Refused(JournalRefusal.OTHER_LOG_DIR(log_dir=log_dir), path=journal)
        is_there = os.path.isdir(self.log_dir) and _is_same(identity_of(self.log_dir), self.log_dir_is)
        if not is_copy and journal != self.journal and is_there:
            raise Refused(JournalRefusal.OF_LOG_DIR(log_dir=self.log_dir), path=journal)


def identity_of(folder: str) -> FolderIdentity:
    """Identify a folder. Raises OSError."""
    status = os.stat(folder)
    try:
        properties = LogDir(folder).meta_properties
    except KlogError:  # damaged or unreadable: then it does not identify the folder
        properties = None
    directory_id = None if properties is None else properties.directory_id
    return FolderIdentity(status.st_dev, status.st_ino, None if directory_id is None else directory_id.hex())


def _is_same(one: FolderIdentity, other: FolderIdentity) -> bool:
    return (one.dev, one.ino) == (other.dev, other.ino)
