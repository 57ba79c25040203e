"""Journals: where they are, and their entries, one for each run that wrote in place.

    <log dir>.klogtool/            beside the log dir, because a broker does not start with a foreign folder in it
      made-<random>/               new contents, while a run is still being decided: see spooling.py
      <plan id>-<n>/
        plan.jsonl                 what is to be done, as `--plan-out` saves it; written first
        <k>/                       of the k-th plan: new-<i> (contents waiting for their step), kept-<i> (originals,
                                   hard links if the file system allows them), tail-<i> (bytes that are cut off)
        manifest.json              each file's state before, and where it is kept; once it exists, steps may be done

An entry is deleted when it is undone or discarded. Until then its originals take space.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from klogtool.disk.attributes import attributes_of
from klogtool.disk.belonging import SUFFIX, Belonging, FolderIdentity, identity_of
from klogtool.disk.causes import JournalRefusal
from klogtool.disk.disk import Disk
from klogtool.disk.facts import Inode
from klogtool.disk.manifest import Home, Manifest, Progress, progress_of
from klogtool.disk.space import BLOCK_BYTES
from klogtool.disk.spooling import SpoolFolder, clear_left, new_name
from klogtool.errors import Corrupt, FileCause, KlogError, Refused
from klogtool.log.file import ReadErrors, read_whole
from klogtool.log.folder import own_name
from klogtool.log.log_dirs import is_log_dir, is_partition_dir, log_dir_of
from klogtool.plans.fields import JsonObject, WrongField, absolute, checked_path, inside, read_as
from klogtool.plans.plan import RUN
from klogtool.plans.saved_plan import SavedPlan, build_saved_plans, parse_head, parse_saved_plans
from klogtool.values import Long

PLAN, MANIFEST = "plan.jsonl", "manifest.json"
KEPT = ("kept-", "tail-")  # names of what undo needs
RESERVE = "reserve"  # holds space for a manifest, so that a disk that fills up meanwhile cannot prevent the last one
MAX_FILE_BYTES = 1 << 32
ENTRY_NAME = RUN


class EntryHead(Struct, frozen=True):
    """The first line of an entry's plan.jsonl. Places are relative to the log dir.

    paths: what the command was given, as typed. run: what the entries of one run have in common. journals: of all log
    dirs of the run. other_log_dirs: those whose links were used to name partitions. bases: the folder of each plan.
    made_folders: those that the run created, outer ones first. folders: the mtimes, before the run, of those that it
    changes. made_lock: it created `.lock`.
    """

    command: str
    log_dir: str
    journal: str
    log_dir_is: FolderIdentity
    journal_is: FolderIdentity
    other_log_dirs: tuple[str, ...]
    bases: tuple[str, ...]
    made_folders: tuple[str, ...]
    folders: dict[str, Long]
    when_ms: Long | None = None
    paths: tuple[str, ...] = ()
    run: str | None = None
    journals: tuple[str, ...] = ()
    made_lock: bool = False


class Entry(Struct, frozen=True):
    """A run that wrote in place, identified by its folder in a journal."""

    path: str

    @property
    def id(self) -> str:
        """The ID that `undo` takes."""
        return own_name(self.path)

    @property
    def journal(self) -> str:
        """The journal folder that contains this entry."""
        return os.path.dirname(self.path)

    def head_row(self) -> JsonObject:
        """Return the first line of plan.jsonl as it is. Raises KlogError."""
        path = self.place(PLAN)
        return parse_head(read_whole(path, limit=MAX_FILE_BYTES).partition(b"\n")[0], path)

    def head(self) -> EntryHead:
        """Return what the first line of plan.jsonl says. Raises KlogError."""
        try:
            head = read_as(self.head_row(), EntryHead)
            for name in (head.log_dir, head.journal):
                absolute(name, "log_dir, journal")
            for name in (*head.bases, *head.made_folders, *head.folders):
                inside(name, "bases, made_folders, folders")
            for name in (*head.paths, *head.journals, *head.other_log_dirs):
                checked_path(name, "paths, journals, other_log_dirs")
        except WrongField as error:
            raise Corrupt(JournalRefusal.NO_JOURNAL(why=str(error)), path=self.place(PLAN)) from None
        return head

    def plans(self) -> list[SavedPlan]:
        """Return the plans of the run. Raises KlogError."""
        path = self.place(PLAN)
        return parse_saved_plans(read_whole(path, limit=MAX_FILE_BYTES).splitlines(), path)[1]

    def manifest(self) -> Manifest | None:
        """Return the manifest, or None while nothing has been changed. Raises KlogError; Refused if the log dir was
        moved away from its journal."""
        path = self.place(MANIFEST)
        if not os.path.lexists(path):
            return None
        manifest = Manifest.of(read_whole(path, limit=MAX_FILE_BYTES), path, self.home())
        if len(manifest.records) != (plans := len(self.head().bases)):
            # Undo would delete what was kept of the others.
            raise Corrupt(JournalRefusal.PLANS_MISSING(plans=plans, there=len(manifest.records)), path=path)
        return manifest

    def progress(self) -> Progress:
        """Return how far the run has come. Raises KlogError."""
        path = self.place(MANIFEST)
        is_there = os.path.lexists(path)
        return progress_of(read_whole(path, limit=MAX_FILE_BYTES), path) if is_there else Progress.PREPARING

    def held_bytes(self) -> int:
        """Return how many bytes are kept for undo: of a run that is done, the number of its plans. Raises KlogError."""
        if self.progress() is Progress.DONE:
            return sum(plan.row.bytes_held for plan in self.plans())
        kept = (
            os.stat(os.path.join(folder, name))
            for folder, _, names in os.walk(self.path)
            for name in names
            if name.startswith(KEPT)
        )
        return sum(status.st_size for status in kept if status.st_nlink == 1)

    def whole_run(self) -> list[Entry]:
        """Return all entries of the same run, this one among them: those of its other log dirs, too. Raises KlogError.

        Of a log dir that was moved or copied, with its journal, nothing is known elsewhere.
        """
        if self.is_torn() or self.head().run is None:
            return [self]
        journals = {self.journal} if self._is_elsewhere() else {self.journal, *self.head().journals}
        there = (entry for journal in sorted(journals) if os.path.isdir(journal) for entry in walk_entries(journal))
        return [entry for entry in there if entry == self or self._is_with(entry)]

    def _is_with(self, other: Entry) -> bool:
        with suppress(KlogError):
            return not other.is_torn() and other.head().run == self.head().run and not other._is_elsewhere()
        return False

    def _is_elsewhere(self) -> bool:
        try:
            return self.has_moved() or self.is_about_a_copy()
        except KlogError:  # undo says what it is
            return True

    def place(self, *names: str) -> str:
        """Return a path in the entry's folder."""
        return os.path.join(self.path, *names)

    def is_torn(self) -> bool:
        """Return whether the run was killed while it wrote plan.jsonl. That comes first, so nothing else has been
        done."""
        try:
            self.plans()
        except KlogError:
            return not os.path.lexists(self.place(MANIFEST))
        return False

    def belonging(self) -> Belonging:
        """Return which log dir the entry is about. Raises KlogError."""
        head = self.head()
        return Belonging(head.log_dir, head.journal, head.log_dir_is, head.journal_is)

    def home(self) -> Home:
        """Return where the log dir and the entry are now. Raises KlogError; Refused if that is not certain."""
        return Home(self.belonging().find_log_dir(self.journal), self.path)

    def log_dir(self) -> str:
        """Return where the log dir is now. Raises as `home`."""
        return self.home().log_dir

    def has_moved(self) -> bool:
        """Return whether log dir or journal have moved since the run began. Raises as `home`."""
        return self.belonging().has_moved(self.journal)

    def is_about_a_copy(self) -> bool:
        """Return whether the log dir is another folder than when the run began: a copy. Raises as `home`."""
        then, now = self.belonging().log_dir_is, identity_of(self.log_dir())
        return (then.dev, then.ino) != (now.dev, now.ino)

    def made_folders(self) -> list[str]:
        """Return the folders that the run created, outer ones first. Raises as `home`."""
        return list(map(self.home().absolute, self.head().made_folders))

    def bases(self) -> list[str]:
        """Return the folder of each plan. Raises as `home`."""
        return list(map(self.home().absolute, self.head().bases))

    def folder_times(self) -> dict[str, int]:
        """Return the mtimes, before the run, of the folders that it changes. Raises as `home`."""
        home = self.home()
        return {home.absolute(name): time for name, time in self.head().folders.items()}


# Where journals are.


def journal_of(log_dir: str) -> str:
    """Return the journal's path beside the log dir. Raises Refused if nothing can be beside it."""
    if os.path.dirname(log_dir) == log_dir:
        raise Refused(JournalRefusal.ROOT(), path=log_dir)
    return log_dir + SUFFIX


def check_journal(journal: str) -> None:
    """Raises Refused if the journal would be a log dir or inside one, because a broker refuses to start with it."""
    folder = os.path.realpath(journal)
    while folder != os.path.dirname(folder):
        if is_log_dir(folder) or is_partition_dir(folder):
            raise Refused(JournalRefusal.IN_LOG_DIR(folder=folder), path=journal)
        folder = os.path.dirname(folder)


def find_journals(path: str) -> list[str]:
    """Return the journals that a path may mean: the path itself, those beside it, beside its log dir, and in it."""
    path = os.path.realpath(path)
    beside = [path + SUFFIX, os.path.dirname(path) + SUFFIX]
    inside = sorted(name for name in os.listdir(path) if name.endswith(SUFFIX)) if os.path.isdir(path) else []
    maybe = dict.fromkeys([path, *beside, *(os.path.join(path, name) for name in inside)])
    return [folder for folder in maybe if os.path.isdir(folder) and any(True for _ in walk_entries(folder))]


def walk_entries(journal: str) -> Iterator[Entry]:
    """Yield the entries of a journal, sorted by name. Raises KlogError."""
    journal = os.path.realpath(journal)
    with ReadErrors(journal):
        names = sorted(os.listdir(journal))
    for name in names:
        path = os.path.join(journal, name)
        if ENTRY_NAME.fullmatch(name) and os.path.isdir(path) and not os.path.islink(path):
            yield Entry(path)


class OurLinks:
    """Counts how many names files have in the entries of a journal. The journal is read at the first question."""

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._links: Counter[Inode] | None = None

    def of(self, status: os.stat_result) -> int:
        """Return how many names the file has in the journal."""
        if self._links is None:
            self._links = Counter(self._walk())
        return self._links[status.st_dev, status.st_ino]

    def _walk(self) -> Iterator[Inode]:
        for entry in walk_entries(self._journal) if os.path.isdir(self._journal) else ():
            for folder, _, names in os.walk(entry.path):
                for name in names:
                    status = os.lstat(os.path.join(folder, name))
                    yield status.st_dev, status.st_ino


# Making, changing and removing them.


def run_id(plans: Sequence[SavedPlan]) -> str:
    """Return twelve hex digits for a run: the id of its only plan, else a hash of all plan ids."""
    ids = [plan.id for plan in plans]
    return ids[0] if len(ids) == 1 else hashlib.sha256("".join(ids).encode()).hexdigest()[:12]


def make_journal(disk: Disk, journal: str, log_dir: str) -> None:
    """Create the journal folder if needed. It gets the owner of the log dir, whose files it will keep. Raises
    KlogError if its folder does not exist; as `check_journal` does; OSError."""
    check_journal(journal)
    if os.path.isdir(journal):
        return
    if not os.path.isdir(os.path.dirname(journal)):
        raise KlogError(FileCause.NO_FOLDER(), path=os.path.dirname(journal))
    try:
        disk.mkdir(journal)
    except FileExistsError:  # somebody else has just created it
        return
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; name another place with --journal", journal) from error
    disk.describe(journal, replace(attributes_of(log_dir).permitted(), mtime_ns=None))
    disk.sync_dir(os.path.dirname(journal))


def spools_in(disk: Disk, journal: str, log_dir: str) -> SpoolFolder:
    """Return a folder for contents that are written for this log dir while the plan is still being decided."""

    def begin() -> None:
        make_journal(disk, journal, log_dir)
        clear_left(disk, journal)

    return SpoolFolder(os.path.join(journal, new_name()), disk, begin, lambda: drop_journal(disk, journal))


def spools_for(path: str, journal: str | None) -> SpoolFolder:
    """Return a folder for the contents of plans for a path. journal: the one that was named. Raises Refused if there
    can be none."""
    log_dir = log_dir_of(path)
    return spools_in(Disk(), journal_of(log_dir) if journal is None else os.path.realpath(journal), log_dir)


def new_entry(journal: str, plans: Sequence[SavedPlan]) -> Entry:
    """Return an entry whose folder does not exist yet."""
    run, n = run_id(plans), 1
    while os.path.lexists(os.path.join(journal, f"{run}-{n}")):
        n += 1
    return Entry(os.path.join(journal, f"{run}-{n}"))


def make_entry(disk: Disk, entry: Entry, head: Mapping[str, object], plans: Sequence[SavedPlan]) -> None:
    """Create the entry with its plan.jsonl, synced."""
    disk.mkdir(entry.path)
    disk.describe(entry.path, replace(attributes_of(entry.journal), mtime_ns=None, extended=()))
    disk.write(entry.place(PLAN), (build_saved_plans(head, plans),))
    disk.sync(entry.place(PLAN))
    disk.sync_dir(entry.path)
    disk.sync_dir(entry.journal)


def save_manifest(disk: Disk, entry: Entry, manifest: Manifest) -> None:
    """Replace the manifest atomically, synced. The first call also reserves space for later manifests."""
    data = manifest.to_bytes(entry.home())
    if manifest.progress is Progress.STAGED and not os.path.lexists(entry.place(RESERVE)):
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
    if os.path.lexists(path):  # left by a run that was killed here
        disk.delete(path)
    disk.write(path, (data,))
    disk.sync(path)


def remove_entry(disk: Disk, entry: Entry) -> None:
    """Delete the entry with all that it keeps. plan.jsonl and the manifest go last, so a killed removal can be
    repeated."""
    if not os.path.isdir(entry.path):
        return
    for folder in [child.path for child in os.scandir(entry.path) if child.is_dir(follow_symlinks=False)]:
        for name in os.listdir(folder):
            disk.delete(os.path.join(folder, name))
        disk.rmdir(folder)
    for name in sorted(os.listdir(entry.path), key=lambda name: (name == PLAN, name == MANIFEST)):
        disk.delete(entry.place(name))
    disk.rmdir(entry.path)
    disk.sync_dir(entry.journal)


def drop_journal(disk: Disk, journal: str) -> None:
    """Delete the journal if it is ours and empty; first delete what killed runs have left in it."""
    clear_left(disk, journal)
    if not journal.endswith(SUFFIX):
        return
    with suppress(OSError):  # not empty, or already gone
        disk.rmdir(journal)
