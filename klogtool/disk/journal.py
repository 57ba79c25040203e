"""Journals: where they lie, and the entries in them, one for each run that wrote in place.

    <log dir>.klogtool/            beside the log dir, since a broker does not start over a foreign folder in it
      made-<random>/               what a run that is being decided has rewritten so far: see spooling.py
      <plan id>-<n>/
        plan.jsonl                 what is to be done, as `--plan-out` saves it; here first
        <k>/                       of the k-th plan: new-<i> (contents that wait for their step), kept-<i> (originals,
                                   hard links where the file system lets us), tail-<i> (what is cut off)
        manifest.json              how each file was, and where it is kept; once this is here, steps may have been done

An entry is done with when it was undone or discarded: it goes then. Until that its originals take room.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.disk.about import about
from klogtool.disk.belonging import SUFFIX, Belonging
from klogtool.disk.disk import Disk
from klogtool.disk.facts import Inode, is_partition_dir, looks_like_log_dir
from klogtool.disk.log_dirs import log_dir_of
from klogtool.disk.manifest import Home, Manifest, Progress, checked_inside, progress_of
from klogtool.disk.space import BLOCK_BYTES
from klogtool.disk.spooling import SpoolFolder, clear_left, new_name
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.log.file import read_whole, unreadable
from klogtool.log.folder import own_name
from klogtool.plans.fields import MOST, Fields, WrongField
from klogtool.plans.saved_plan import SavedPlan, build_saved_plans, parse_head, parse_saved_plans

PLAN, MANIFEST = "plan.jsonl", "manifest.json"
RESERVE = "reserve"  # room for a manifest, so that a disk that has become full meanwhile does not keep us from the end
MAX_FILE_BYTES = 1 << 32
ENTRY_NAME = re.compile(r"[0-9a-f]{12}-[1-9][0-9]*")


class Entry(Struct, frozen=True):
    """A run that wrote in place, by its folder in a journal."""

    path: str

    @property
    def id(self) -> str:
        """What `undo` is told."""
        return own_name(self.path)

    @property
    def journal(self) -> str:
        """The folder that it lies in."""
        return os.path.dirname(self.path)

    def head(self) -> Mapping[str, Any]:
        """The first line of plan.jsonl: `command`, `when_ms`, `log_dir`, `folders`. Raises KlogError."""
        path = self.place(PLAN)
        return parse_head(read_whole(path, limit=MAX_FILE_BYTES).partition(b"\n")[0], path)

    def plans(self) -> list[SavedPlan]:
        """What was to be done. Raises KlogError."""
        path = self.place(PLAN)
        return parse_saved_plans(read_whole(path, limit=MAX_FILE_BYTES).splitlines(), path)[1]

    def manifest(self) -> Manifest | None:
        """None while nothing has been changed. Raises KlogError, Refused where the log dir is not where it was."""
        path = self.place(MANIFEST)
        return Manifest.of(read_whole(path, limit=MAX_FILE_BYTES), path, self.home()) if os.path.lexists(path) else None

    def progress(self) -> Progress:
        """How far it came. Raises KlogError."""
        path = self.place(MANIFEST)
        is_there = os.path.lexists(path)
        return progress_of(read_whole(path, limit=MAX_FILE_BYTES), path) if is_there else Progress.PREPARING

    def held_bytes(self) -> int:
        """What its files take that have no other name: bytes that come free when it is discarded."""
        files = (os.stat(os.path.join(folder, name)) for folder, _, names in os.walk(self.path) for name in names)
        return sum(found.st_blocks * 512 for found in files if found.st_nlink == 1)

    def place(self, *names: str) -> str:
        """A path in it."""
        return os.path.join(self.path, *names)

    def is_torn(self) -> bool:
        """Whether it was killed while plan.jsonl was written, which comes first: nothing else has been done then."""
        try:
            self.plans()
        except KlogError:
            return not os.path.lexists(self.place(MANIFEST))
        return False

    def belonging(self) -> Belonging:
        """Which log dir it is about. Raises KlogError."""
        with self._said():
            return Belonging.in_head(self.head())

    def home(self) -> Home:
        """Where the log dir and the entry lie now. Raises KlogError, Refused where that is not known for sure."""
        return Home(self.belonging().find_log_dir(self.journal), self.path)

    def log_dir(self) -> str:
        """Where the log dir lies now. Raises as `home`."""
        return self.home().log_dir

    def has_moved(self) -> bool:
        """Whether log dir and journal lie elsewhere than when the run began. Raises as `home`."""
        return self.belonging().has_moved(self.journal)

    def paths(self) -> tuple[str, ...]:
        """What the command was asked, as it was named; empty where that is not known. Raises KlogError."""
        with self._said():
            return Fields(self.head()).texts("paths") if "paths" in self.head() else ()

    def made_lock(self) -> bool:
        """Whether there was no `.lock` before the run. Raises KlogError."""
        return self.head().get("made_lock") is True

    def other_log_dirs(self) -> tuple[str, ...]:
        """Those by which partitions were named that lie elsewhere. Raises KlogError."""
        with self._said():
            return Fields(self.head()).texts("other_log_dirs")

    def made_folders(self) -> list[str]:
        """Folders that the run has made, outer ones first. Raises as `home`."""
        return self._places("made_folders")

    def bases(self) -> list[str]:
        """The folder of each plan. Raises as `home`."""
        return self._places("bases")

    def folder_times(self) -> dict[str, int]:
        """Modification times of the folders that the run changes, from before it. Raises as `home`."""
        home = self.home()
        with self._said():
            times = Fields(self.head()).object("folders")
            return {home.found(checked_inside(name)): times.number(name, -MOST) for name in times.row}

    def _places(self, name: str) -> list[str]:
        home = self.home()
        with self._said():
            return [home.found(checked_inside(path)) for path in Fields(self.head()).texts(name)]

    @contextmanager
    def _said(self) -> Iterator[None]:
        """What is wrong in the head is told as an error of its file."""
        try:
            yield
        except WrongField as error:
            raise Corrupt(f"not a journal of klogtool: {error}", path=self.place(PLAN)) from None


# Where journals are.


def journal_of(log_dir: str) -> str:
    """Beside the log dir. Raises Refused where nothing can be beside it."""
    if os.path.dirname(log_dir) == log_dir:
        raise Refused(
            "the journal cannot be beside it, because it is the root folder: name another place with --journal",
            path=log_dir,
        )
    return log_dir + SUFFIX


def check_journal(journal: str) -> None:
    """Raises Refused for a folder that is a log dir or lies in one: a broker would stop at it."""
    folder = os.path.realpath(journal)
    while folder != os.path.dirname(folder):
        if looks_like_log_dir(folder) or is_partition_dir(folder):
            raise Refused(f"a journal cannot be inside a log dir: {folder}", path=journal)
        folder = os.path.dirname(folder)


def find_journals(path: str) -> list[str]:
    """Journals that a path may mean: itself, those beside it, beside the log dir that it lies in, and in it."""
    path = os.path.realpath(path)
    beside = [path + SUFFIX, os.path.dirname(path) + SUFFIX]
    inside = sorted(name for name in os.listdir(path) if name.endswith(SUFFIX)) if os.path.isdir(path) else []
    maybe = dict.fromkeys([path, *beside, *(os.path.join(path, name) for name in inside)])
    return [folder for folder in maybe if os.path.isdir(folder) and _has_entries(folder)]


def _has_entries(folder: str) -> bool:
    return any(True for _ in walk_entries(folder))


def walk_entries(journal: str) -> Iterator[Entry]:
    """The entries of a journal, in order of name. Raises KlogError."""
    journal = os.path.realpath(journal)
    try:
        names = sorted(os.listdir(journal))
    except OSError as error:
        raise unreadable(journal, error) from error
    for name in names:
        if ENTRY_NAME.fullmatch(name) and os.path.isdir(os.path.join(journal, name)):
            yield Entry(os.path.join(journal, name))


class OurLinks:
    """How many names files have in the entries of a journal; looked up when it is asked for first."""

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._found: Counter[Inode] | None = None

    def of(self, found: os.stat_result) -> int:
        """How many names a file has in the journal."""
        if self._found is None:
            self._found = Counter(self._walk())
        return self._found[found.st_dev, found.st_ino]

    def _walk(self) -> Iterator[Inode]:
        for entry in walk_entries(self._journal) if os.path.isdir(self._journal) else ():
            for folder, _, names in os.walk(entry.path):
                for name in names:
                    found = os.lstat(os.path.join(folder, name))
                    yield found.st_dev, found.st_ino


# Making, changing and removing them.


def run_id(plans: Sequence[SavedPlan]) -> str:
    """Twelve hex digits for a run: those of its plan, or of all its plans together."""
    ids = [plan.id for plan in plans]
    return ids[0] if len(ids) == 1 else hashlib.sha256("".join(ids).encode()).hexdigest()[:12]


def make_journal(disk: Disk, journal: str, log_dir: str) -> None:
    """The folder, if it is not there yet; for whom the log dir is, since its files will be in it."""
    check_journal(journal)
    if os.path.isdir(journal):
        return
    if not os.path.isdir(os.path.dirname(journal)):
        raise KlogError("no such folder", path=os.path.dirname(journal))
    try:
        disk.mkdir(journal)
    except FileExistsError:  # somebody else has made it meanwhile
        return
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; name another place with --journal", journal) from error
    disk.describe(journal, replace(about(log_dir).permitted(), mtime_ns=None))
    disk.sync_dir(os.path.dirname(journal))


def spools_in(disk: Disk, journal: str, log_dir: str) -> SpoolFolder:
    """For what is rewritten in the log dir, while it is being decided what is to be done."""

    def begin() -> None:
        make_journal(disk, journal, log_dir)
        clear_left(disk, journal)

    return SpoolFolder(os.path.join(journal, new_name()), disk, begin, lambda: drop_journal(disk, journal))


def spools_for(path: str, journal: str | None) -> SpoolFolder:
    """The same for a command on a path. journal: the one that was named. Raises Refused where there can be none."""
    log_dir = log_dir_of(path)
    return spools_in(Disk(), journal_of(log_dir) if journal is None else os.path.realpath(journal), log_dir)


def new_entry(journal: str, plans: Sequence[SavedPlan]) -> Entry:
    """An entry that is not there yet."""
    run, n = run_id(plans), 1
    while os.path.lexists(os.path.join(journal, f"{run}-{n}")):
        n += 1
    return Entry(os.path.join(journal, f"{run}-{n}"))


def make_entry(disk: Disk, entry: Entry, head: Mapping[str, Any], plans: Sequence[SavedPlan]) -> None:
    """The entry with its plan.jsonl, synced."""
    disk.mkdir(entry.path)
    disk.describe(entry.path, replace(about(entry.journal), mtime_ns=None, attributes=()))
    disk.write(entry.place(PLAN), (build_saved_plans(head, plans),))
    disk.sync(entry.place(PLAN))
    disk.sync_dir(entry.path)
    disk.sync_dir(entry.journal)


def save_manifest(disk: Disk, entry: Entry, manifest: Manifest) -> None:
    """In one step, synced. The first one sets room aside for those that follow."""
    data = manifest.to_bytes(entry.home())
    if manifest.progress is Progress.STAGED:
        disk.write(entry.place(RESERVE), (b"\1" * (len(data) + BLOCK_BYTES),))
        disk.sync(entry.place(RESERVE))
    new = entry.place(MANIFEST + ".new")
    try:
        _write_anew(disk, new, data)
    except OSError as error:
        can_free = manifest.progress is not Progress.STAGED and os.path.lexists(entry.place(RESERVE))
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not can_free:
            raise
        disk.delete(entry.place(RESERVE))
        _write_anew(disk, new, data)
    disk.rename(new, entry.place(MANIFEST))
    disk.sync_dir(entry.path)


def _write_anew(disk: Disk, path: str, data: bytes) -> None:
    if os.path.lexists(path):  # of a run that was killed here
        disk.delete(path)
    disk.write(path, (data,))
    disk.sync(path)


def remove_entry(disk: Disk, entry: Entry) -> None:
    """With all that it keeps. What tells of it goes last; so this can be done again if it is killed."""
    if not os.path.isdir(entry.path):
        return
    for folder in [found.path for found in os.scandir(entry.path) if found.is_dir()]:
        for name in os.listdir(folder):
            disk.delete(os.path.join(folder, name))
        disk.rmdir(folder)
    for name in sorted(os.listdir(entry.path), key=lambda name: (name == PLAN, name == MANIFEST)):
        disk.delete(entry.place(name))
    disk.rmdir(entry.path)
    disk.sync_dir(entry.journal)


def drop_journal(disk: Disk, journal: str) -> None:
    """The folder goes, if nothing is in it and it is one of ours; what kills have left in it goes first."""
    clear_left(disk, journal)
    if not journal.endswith(SUFFIX):
        return
    with suppress(OSError):  # something is, or it is gone already
        disk.rmdir(journal)
