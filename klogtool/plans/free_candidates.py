"""free: what can be given up in a log dir and beside it, kind by kind, by names alone.

Only regular files on the log dir's own file system count: a link, or a folder on another disk, frees nothing here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from klogtool.broker.file_facts import Fact, folder_fact, listing_of
from klogtool.causes import Text
from klogtool.errors import KlogError
from klogtool.format.names import (
    INDEX_KINDS,
    FileKind,
    FileName,
    PartitionDirState,
    build_file_name,
    is_visible_to_java,
    parse_file_name,
)
from klogtool.log.file import read_whole, unreadable
from klogtool.log.folder import find_partition_dir_name, names_in
from klogtool.plans.causes import FreeWhy
from klogtool.plans.free_choice import Candidate, Name, find_name
from klogtool.plans.free_kinds import CLEANED, DELETE_FOLDER, DELETED, JOURNAL, ORPHANED, REJECTED, STRAY, FreeKind
from klogtool.plans.plan import REJECTED as REJECTED_END
from klogtool.plans.plan import is_journal_entry
from klogtool.plans.rejected_files import MANIFEST

_KRAFT_DELETED = ".checkpoint.deleted"
_OTHER_LOGS = (".deleted", ".cleaned", ".swap")
# What a run of klogtool that was cut short has left waiting: `apply --resume` needs it.
_OF_A_RUN = re.compile(r"\.[0-9a-f]{12}-[1-9][0-9]*\.([0-9]+\.[0-9]+|undo)\.deleted$")


def is_of_a_run(name: str) -> bool:
    """Whether a run of klogtool that was cut short needs the file of that name."""
    return _OF_A_RUN.search(name) is not None


class LeftOut(Struct, frozen=True, omit_defaults=True):
    """A partition dir that is left alone, and why. cure: what to do, if a person can do something."""

    path: str
    why: Text
    cure: Text | None = None


class PartitionDir(Struct, frozen=True):
    """A partition dir of a log dir, and the names in it."""

    path: str
    log_dir: str
    state: PartitionDirState
    names: frozenset[str]
    mtime_ns: int

    @property
    def is_live(self) -> bool:
        """Whether a broker goes on with it."""
        return self.state.is_live

    @property
    def is_between(self) -> bool:
        """Whether a cleaning or a split was interrupted after it had begun to replace segments. A start decides by all
        of these names what becomes of each, so none of them may go alone."""
        return any(name.endswith(".swap") and is_visible_to_java(name) for name in self.names)

    @property
    def indexes_alone(self) -> frozenset[str]:
        """Indexes without a .log of that name. LogLoader.loadSegmentFiles deletes them."""
        files = (file for file in map(parse_file_name, self.names) if file.kind in INDEX_KINDS and not file.suffix)
        return frozenset(file.name for file in files if _log_name(file) not in (None, *self.names))

    @property
    def orphans(self) -> frozenset[str]:
        """Indexes whose .log is gone under every name: the trace of a lost segment."""
        return frozenset(name for name in self.indexes_alone if not self._has_log(name))

    def _has_log(self, index: str) -> bool:
        log = _log_name(parse_file_name(index))
        return log is not None and any(log + suffix in self.names for suffix in _OTHER_LOGS)

    def files(self) -> Iterator[tuple[FileName, Name]]:
        """Yield its regular files, by name. Raises KlogError."""
        for name in sorted(self.names):
            path = os.path.join(self.path, name)
            try:
                file = find_name(path)
            except OSError as error:
                raise unreadable(path, error) from error
            if file is not None:
                yield parse_file_name(name), file


def partition_dirs(log_dir: str) -> tuple[list[PartitionDir], list[LeftOut]]:
    """Return the partition dirs on the log dir's own file system, by name; and those that cannot be listed. Raises
    KlogError if the log dir cannot be."""
    dirs, left_out = list[PartitionDir](), list[LeftOut]()
    device = os.stat(log_dir).st_dev
    for name in names_in(log_dir):
        path, parsed = os.path.join(log_dir, name), find_partition_dir_name(name)
        if parsed is None or os.path.islink(path) or not os.path.isdir(path):
            continue
        try:
            mtime_ns, names = listing_of(path)
        except KlogError as error:
            left_out.append(LeftOut(path, error.reason))
            continue
        if os.stat(path).st_dev == device:
            dirs.append(PartitionDir(path, log_dir, parsed.state, names, mtime_ns))
    return dirs, left_out


def find_by_names(kind: FreeKind, folders: Sequence[PartitionDir]) -> list[Candidate]:
    """Return the candidates of a kind for which names are enough. Raises KlogError."""
    match kind.name:
        case DELETED.name:
            return [file for folder in folders if folder.is_live for file in _deleted(folder)]
        case CLEANED.name:
            return [file for folder in folders if folder.is_live for file in _cleaned(folder)]
        case ORPHANED.name:
            return [file for folder in folders if folder.is_live for file in _orphaned(folder)]
        case DELETE_FOLDER.name:
            return list(_whole(kind, folders, PartitionDirState.DELETE))
        case STRAY.name:
            return list(_whole(kind, folders, PartitionDirState.STRAY))
    return []


def _deleted(folder: PartitionDir) -> Iterator[Candidate]:
    """LogLoader.removeTempFilesAndCollectSwapFiles: every file whose name ends so, whatever comes before."""
    visible = (name for name in folder.names if is_visible_to_java(name))
    names = [name for name in visible if name.endswith(".deleted") and not name.endswith(_KRAFT_DELETED)]
    yield from _leftovers(DELETED, folder, [name for name in names if not is_of_a_run(name)])


def _cleaned(folder: PartitionDir) -> Iterator[Candidate]:
    files = () if folder.is_between else map(parse_file_name, folder.names)
    names = [file.name for file in files if file.suffix == ".cleaned" and file.base_offset is not None]
    yield from _leftovers(CLEANED, folder, names)


def _leftovers(kind: FreeKind, folder: PartitionDir, wanted: Collection[str]) -> Iterator[Candidate]:
    """Yield a candidate for each of these files. An index goes with the .log that has such a name, and before it:
    alone, it would look like the trace of a lost segment."""
    files = {file.name: name for file, name in folder.files()}
    indexes = _indexes_with(kind, folder)
    for name in sorted(files.keys() & set(wanted)):
        names = tuple(files[each] for each in (*indexes.get(name, ()), name) if each in files)
        yield Candidate(kind, files[name].fact.path, folder.log_dir, names)


def _indexes_with(kind: FreeKind, folder: PartitionDir) -> dict[str, list[str]]:
    """Return indexes that are left of segments, by the name that the .log has now."""
    names: dict[str, list[str]] = {}
    for index in () if folder.is_between else sorted(folder.indexes_alone):
        log = _log_name(parse_file_name(index)) or ""
        now = next((log + suffix for suffix in _OTHER_LOGS if log + suffix in folder.names), "")
        if now.endswith(kind.name):
            names.setdefault(now, []).append(index)
    return names


def _orphaned(folder: PartitionDir) -> Iterator[Candidate]:
    """Yield each with the offset at which its segment began."""
    orphans = frozenset[str]() if folder.is_between else folder.orphans
    for file, name in folder.files() if orphans else ():
        if file.name in orphans and file.base_offset is not None:
            why = FreeWhy.TRACE(first=file.base_offset)
            yield Candidate(ORPHANED, name.fact.path, folder.log_dir, (name,), why=why)


def _log_name(file: FileName) -> str | None:
    return None if file.base_offset is None else build_file_name(FileKind.LOG, file.base_offset)


def _whole(kind: FreeKind, folders: Sequence[PartitionDir], state: PartitionDirState) -> Iterator[Candidate]:
    """Yield folders that go with all their files. The folder itself stays, and is empty."""
    for folder in folders:
        names = tuple(name for _, name in folder.files()) if folder.state is state else ()
        if names:
            facts = (folder_fact(folder.path, (folder.mtime_ns, folder.names)),)
            yield Candidate(kind, folder.path, folder.log_dir, names, facts)


# What klogtool itself keeps beside a log dir: runs in its journal, and bytes that salvage rejected. Both are outside
# the log dir, so they go as whole folders, for good. Only those on the log dir's file system count, and only folders
# that contain nothing of somebody else.


MOST_MANIFEST_BYTES = 64 << 20


def find_runs(log_dir: str, runs: Sequence[str]) -> list[Candidate]:
    """Return the runs in the journal of this log dir. runs: of all log dirs. Raises KlogError."""
    own = (run for run in runs if is_journal_entry(os.path.relpath(run, log_dir), log_dir))
    return [Candidate(JOURNAL, run, log_dir, *_files_below(run)) for run in own if _is_here(run, log_dir)]


def find_rejected(log_dir: str) -> list[Candidate]:
    """Return the folders beside a log dir in which salvage has kept bytes of its partitions. Raises KlogError."""
    above = os.path.dirname(log_dir)
    paths = [os.path.join(above, name) for name in names_in(above) if name.endswith(REJECTED_END)]
    ours = [path for path in paths if os.path.isdir(path) and _is_here(path, log_dir) and _is_of(path, log_dir)]
    return [Candidate(REJECTED, path, log_dir, *_files_below(path)) for path in ours]


def _is_here(path: str, log_dir: str) -> bool:
    return os.path.realpath(path) == path and os.stat(path).st_dev == os.stat(log_dir).st_dev


def _is_of(path: str, log_dir: str) -> bool:
    """Return whether the manifest says that salvage has written this folder, about a partition of this log dir."""
    names = set(names_in(path))
    try:
        manifest = json.loads(read_whole(os.path.join(path, MANIFEST), limit=MOST_MANIFEST_BYTES))
        written = {MANIFEST, *(row["bytes"] for row in manifest["ranges"])}
        return names <= written and os.path.dirname(manifest["partition"]) == log_dir
    except (KlogError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _files_below(path: str) -> tuple[tuple[Name, ...], tuple[Fact, ...]]:
    """Return the regular files in a folder and its folders, and facts of these folders."""
    names, facts = list[Name](), list[Fact]()
    for folder in _folders(path):
        listed = listing_of(folder)
        facts.append(folder_fact(folder, listed))
        for name in sorted(listed[1]):
            try:
                candidate = find_name(os.path.join(folder, name))
            except OSError as error:
                raise unreadable(os.path.join(folder, name), error) from error
            names += [] if candidate is None else [candidate]
    return tuple(names), tuple(facts)


def _folders(path: str) -> Iterator[str]:
    yield path
    for name in names_in(path):
        below = os.path.join(path, name)
        if os.path.isdir(below) and not os.path.islink(below):
            yield below
