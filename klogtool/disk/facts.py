"""Whether files are unchanged since a plan was made; also where files of ours may be saved, outside log dirs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec.structs import replace

from klogtool.broker.file_facts import Fact, names_sum
from klogtool.causes import Text
from klogtool.disk.causes import OutputRefusal, RunRefusal
from klogtool.disk.digest import WHOLE_BYTES, digest_of
from klogtool.errors import FileCause, KlogError, Refused, StalePlan
from klogtool.log.log_dirs import is_log_dir, is_partition_dir
from klogtool.plans.saved_plan import SavedPlan

Inode: TypeAlias = tuple[int, int]  # device and inode


class Facts:
    """What plans relied on, and our own changes to these files since.

    A file is identified by its inode, size, mtime and ctime. A writer can reset the mtime; only the system sets the
    ctime. A new hard link changes the ctime too, whether we made it or somebody else did.
    """

    def __init__(self, plans: Iterable[SavedPlan]) -> None:
        self._facts = [fact for plan in plans for fact in plan.facts]
        self._ours: dict[Inode, dict[int, int]] = {}  # by inode: each ctime that we caused, and the one before it
        self._names: set[str] = set()  # paths that we created

    @contextmanager
    def changing(self, file: str | int) -> Iterator[None]:
        """Context in which we add or remove a name of the file; its bytes do not change."""
        before = os.stat(file)
        yield
        after = os.stat(file)
        if after.st_ctime_ns != before.st_ctime_ns:
            ours = self._ours.setdefault((before.st_dev, before.st_ino), {})
            ours.setdefault(after.st_ctime_ns, before.st_ctime_ns)

    def adding(self, path: str) -> None:
        """Note that we create this path in a folder."""
        self._names.add(path)

    def check(self) -> None:
        """Raises StalePlan if a file that a plan relied on has changed or is gone, or a name in a folder was added or
        removed."""
        for fact in self._facts:
            self._check(fact)

    def _check(self, fact: Fact) -> None:
        try:
            status = os.stat(fact.path)
            is_folder = stat.S_ISDIR(status.st_mode)
            names = set(os.listdir(fact.path)) if is_folder and fact.names is not None else set()
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise _stale(fact.path, "gone" if gone else (error.strerror or str(error)).lower()) from None
        if is_folder:
            theirs = {name for name in names if os.path.join(fact.path, name) not in self._names}
            if status.st_mtime_ns != fact.mtime_ns or fact.names not in (None, names_sum(theirs)):
                raise _stale(fact.path, RunRefusal.NAMES_CHANGED())
            return
        if status.st_size != fact.size:
            raise _stale(fact.path, RunRefusal.OTHER_SIZE(size=status.st_size, before=fact.size))
        if status.st_mtime_ns != fact.mtime_ns:
            raise _stale(fact.path, RunRefusal.FILE_MODIFIED())
        if fact.digest is not None and fact.digest == digest_of(fact.path, fact.size):
            return
        if fact.ino not in (None, status.st_ino):
            raise _stale(fact.path, RunRefusal.OTHER_FILE())
        if fact.ctime_ns is not None and fact.ctime_ns not in self.ctimes_by_us(status):
            raise _stale(fact.path, RunRefusal.NEWER_CTIME())

    def ctimes_by_us(self, status: os.stat_result) -> list[int]:
        """Return the ctime of a file, then the ctimes before it, back to the last one that somebody else caused."""
        ours, ctimes = self._ours.get((status.st_dev, status.st_ino), {}), [status.st_ctime_ns]
        while (before := ours.get(ctimes[-1])) is not None and before not in ctimes:
            ctimes.append(before)
        return ctimes


def with_digests(plans: Iterable[SavedPlan]) -> list[SavedPlan]:
    """Return the plans as they are to be saved: with digests of small files. Before the plans are carried out, such
    files may be renamed, get other modes, or be restored from a backup. They still count as unchanged if their bytes
    are the same. Raises StalePlan, KlogError."""
    plans = list(plans)
    digested = [_with_digests(plan) for plan in plans]
    check_facts(plans)
    return digested


def _with_digests(plan: SavedPlan) -> SavedPlan:
    facts = tuple(
        replace(fact, digest=digest_of(fact.path, fact.size))
        if fact.ctime_ns is not None and fact.size <= WHOLE_BYTES
        else fact
        for fact in plan.facts
    )
    return replace(plan, row=replace(plan.row, facts=facts))


def check_facts(plans: Iterable[SavedPlan]) -> None:
    """Check the facts of these plans once. Raises StalePlan."""
    Facts(plans).check()


def _stale(path: str, how: Text) -> StalePlan:
    return StalePlan(RunRefusal.CHANGED(how=how), path=path)


def check_saving_place(path: str) -> None:
    """Raises Refused if a file of ours would be in a partition dir or log dir, or if the path exists already."""
    check_saving_folder(path)
    if os.path.lexists(path):
        raise Refused(FileCause.EXISTS(), path=path)


def check_replaceable(path: str) -> None:
    """Raises Refused if a file of ours would be in a partition dir or log dir, or in the place of something else than a
    file."""
    check_saving_folder(path)
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        raise Refused(FileCause.NO_PLAIN_FILE(), path=path)


def check_rewritable(path: str) -> None:
    """Raises as `check_replaceable` does, and KlogError if the folder does not exist."""
    check_replaceable(path)
    if not os.path.isdir(os.path.dirname(path) or os.curdir):
        raise KlogError(FileCause.NO_PARENT(), path=path)


def check_saving_folder(path: str) -> None:
    """Raises Refused if a file of ours would be in a partition dir or log dir."""
    folder = os.path.dirname(os.path.realpath(path))
    if is_partition_dir(folder):
        raise Refused(OutputRefusal.FILE_IN_PARTITION_DIR(), path=path)
    if is_log_dir(folder):
        raise Refused(OutputRefusal.FILE_IN_LOG_DIR(), path=path)
