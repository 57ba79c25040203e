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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from klogtool.disk.about import about
from klogtool.disk.disk import Disk
from klogtool.disk.facts import is_partition_dir, looks_like_log_dir
from klogtool.disk.manifest import Manifest, Progress
from klogtool.disk.space import BLOCK_BYTES
from klogtool.disk.spooling import SpoolFolder, clear_left, new_name
from klogtool.errors import KlogError, Refused, Unsupported
from klogtool.lazy_dataclasses import dataclass, replace
from klogtool.log.file import read_whole, unreadable
from klogtool.log.folder import own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.repair.saved_plan import SavedPlan, build_saved_plans, parse_saved_plans

SUFFIX = ".klogtool"
PLAN, MANIFEST = "plan.jsonl", "manifest.json"
RESERVE = "reserve"  # room for a manifest, so that a disk that has become full meanwhile does not keep us from the end
MAX_FILE_BYTES = 1 << 32
ENTRY_NAME = re.compile(r"[0-9a-f]{12}-[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Entry:
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
        return self._saved()[0]

    def plans(self) -> list[SavedPlan]:
        """What was to be done. Raises KlogError."""
        return self._saved()[1]

    def manifest(self) -> Manifest | None:
        """None while nothing has been changed. Raises KlogError."""
        path = os.path.join(self.path, MANIFEST)
        return Manifest.of(read_whole(path, limit=MAX_FILE_BYTES), path) if os.path.lexists(path) else None

    def progress(self) -> Progress:
        """How far it came. Raises KlogError."""
        manifest = self.manifest()
        return Progress.PREPARING if manifest is None else manifest.progress

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
            self._saved()
        except KlogError:
            return not os.path.lexists(self.place(MANIFEST))
        return False

    def log_dir(self) -> str:
        """Whose lock goes with it. Raises KlogError."""
        return str(self.head().get("log_dir", ""))

    def made_lock(self) -> bool:
        """Whether there was no `.lock` before the run. Raises KlogError."""
        return self.head().get("made_lock") is True

    def made_folders(self) -> list[str]:
        """Folders that the run has made, outer ones first. Raises KlogError."""
        made = self.head().get("made_folders")
        return [str(folder) for folder in made] if isinstance(made, list) else []

    def folder_times(self) -> dict[str, int]:
        """Modification times of the folders that the run changes, from before it. Raises KlogError."""
        times = self.head().get("folders")
        return dict(times) if isinstance(times, dict) else {}

    def _saved(self) -> tuple[Mapping[str, Any], list[SavedPlan]]:
        path = self.place(PLAN)
        return parse_saved_plans(read_whole(path, limit=MAX_FILE_BYTES).splitlines(), path)


# Where journals are.


def log_dir_of(path: str) -> str:
    """The log dir that a plan's folder is, or lies in."""
    path = os.path.realpath(path)
    if not os.path.lexists(path):  # a partition dir that is to come to be
        return os.path.dirname(path)
    try:
        is_log_dir = isinstance(open_path(path), LogDir)
    except Unsupported:  # neither, by what is in it
        is_log_dir = False
    return path if is_log_dir else os.path.dirname(path)


def journal_of(log_dir: str) -> str:
    """Beside the log dir. Raises Refused where nothing can be beside it."""
    if os.path.dirname(log_dir) == log_dir:
        raise Refused("there is no room beside it for the journal: name a folder with --journal", path=log_dir)
    return log_dir + SUFFIX


def check_journal(journal: str) -> None:
    """Raises Refused for a folder that is a log dir or lies in one: a broker would stop at it."""
    folder = os.path.realpath(journal)
    while folder != os.path.dirname(folder):
        if looks_like_log_dir(folder) or is_partition_dir(folder):
            raise Refused(f"a journal must not lie in a log dir: {folder}", path=journal)
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
    try:
        names = sorted(os.listdir(journal))
    except OSError as error:
        raise unreadable(journal, error) from error
    for name in names:
        if ENTRY_NAME.fullmatch(name) and os.path.isdir(os.path.join(journal, name)):
            yield Entry(os.path.join(journal, name))


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
        raise OSError(error.errno, f"{error.strerror}; --journal names another place", journal) from error
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
    data = manifest.to_bytes()
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
