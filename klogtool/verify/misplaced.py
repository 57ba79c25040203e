"""Segments that lie in a log dir itself, beside its partition dirs, or in the `lost+found` of its file system, where
fsck puts files that it knows no name of: no broker looks for them there.

A `.log` does not say which partition it is of. Its offsets do, if one partition lacks them: between two of its
segments, or below an offset that a checkpoint says it had. Others only may be of a partition whose log ends where they
begin, or begins where they end: retention and compaction delete segments, too.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.names import FileKind, build_file_name, find_base_offset, is_log_name, parse_file_name
from klogtool.log.file import LogFile
from klogtool.log.folder import names_in
from klogtool.log.logdir import LogDir
from klogtool.verify.causes import CureCause, LogDirCause
from klogtool.verify.cures import in_turn, moving_in, renaming
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.header_end import find_next_offset, first_offset_of_log
from klogtool.verify.verify_checkpoints import read_stated

MOST_LOGS = 256  # of one log dir: each is compared with each partition
MOST_AT_ONCE = 16  # that one cure moves: the next check names the others
MOST_NAMES = 5
LOST_FOUND = "lost+found"
_BESIDE = (FileKind.PARTITION_METADATA.value, FileKind.LEADER_EPOCH_CHECKPOINT.value)
_REACHES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)


class Misplaced(Struct, frozen=True):
    """Segments where no broker looks, in the order of their offsets. names: those that they have in a partition dir.
    next_offset: behind the last one. of: names of the partition dirs that they may be of. is_lacked: these lack their
    offsets. is_absent: the one partition dir is not there."""

    log_dir: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
    next_offset: int
    of: tuple[str, ...] = ()
    is_lacked: bool = False
    is_absent: bool = False

    @property
    def first_offset(self) -> int:
        """The offset that the first one's name says."""
        return parse_file_name(self.names[0]).base_offset or 0

    @property
    def is_recovered(self) -> bool:
        """Whether they are in lost+found: without their names and side files."""
        return os.path.basename(os.path.dirname(self.paths[0])) == LOST_FOUND

    @property
    def reason(self) -> Reason:
        """Why nobody is served them."""
        first, last, is_recovered = self.first_offset, self.next_offset - 1, self.is_recovered
        where = LogDirCause.LOST_FOUND() if is_recovered else LogDirCause.LOG_DIR_ITSELF()
        if not self.of:
            return LogDirCause.MISPLACED(first=first, last=last, where=where)
        cause = LogDirCause.MISPLACED_OF if self.is_lacked else LogDirCause.MAY_BE_OF
        return cause(first=first, last=last, of=self.of[:MOST_NAMES], where=where)

    def finding(self, path: str) -> Finding:
        """Return the finding of one of these."""
        first, last = self.first_offset, self.next_offset - 1
        is_lacked, cure = self.is_lacked, self.cure
        return Finding(Kind.FOREIGN_FILE, path, self.reason, None, None, first, last, cured_by=cure, loses=is_lacked)

    @property
    def cure(self) -> Reason:
        """Moves them to where a broker looks. If their offsets do not say where that is, it shows their records."""
        if len(self.of) != 1:
            if not self.is_recovered:
                return CureCause.LOOK_INTO(path=self.paths[0])
            named = os.path.join(os.path.dirname(self.paths[0]), self.names[0])
            return in_turn(renaming(self.paths[0], named), CureCause.LOOK_INTO(path=named))
        folder = os.path.join(self.log_dir, self.of[0])
        if self.is_recovered:
            pairs = zip(self.paths[:MOST_AT_ONCE], self.names, strict=False)
            moves = [renaming(path, os.path.join(folder, name)) for path, name in pairs]
            return in_turn(*([CureCause.MAKE_FOLDER(path=folder)] if self.is_absent else []), *moves)
        beside = [os.path.join(self.log_dir, name) for name in _BESIDE] if self.is_absent else []
        files = list(filter(os.path.isfile, beside))
        return moving_in(self.paths[:MOST_AT_ONCE], folder, is_new=self.is_absent, files=files)


class _Log(Struct, frozen=True):
    path: str
    name: str
    base: int
    next_offset: int


class _Place(Struct):
    """A partition dir: the base offsets of its segments, and where each ends if that is known. reach: how far the log
    went, by checkpoints. path: None if it is not there."""

    name: str
    bases: list[int] = field(default_factory=list)
    ends: dict[int, int | None] = field(default_factory=dict)
    reach: int = 0
    is_compacted: bool = False
    path: str | None = None

    def lacks(self, log: _Log) -> bool | None:
        """Return whether the partition lacks its offsets; None if it has them, or nothing says that it had them."""
        at = bisect_right(self.bases, log.base)
        above = self.bases[at] if at < len(self.bases) else None
        end = self._end(self.bases[at - 1]) if at else None
        if log.base in self.ends or log.base < (end or 0) or (above is not None and log.next_offset > above):
            return None
        if above is None and log.base < self.reach:
            return True
        if end is None or above is None:  # before all, or behind all
            return False if above == log.next_offset or end == log.base else None
        return not self.is_compacted

    def add(self, log: _Log) -> None:
        self.bases.insert(bisect_right(self.bases, log.base), log.base)
        self.ends[log.base] = log.next_offset

    def _end(self, base: int) -> int:
        end = self.ends[base]
        if end is None:
            name = build_file_name(FileKind.LOG, base)
            end = self.ends[base] = max(base, find_next_offset(os.path.join(self.path or "", name)))
        return end


def names_of_logs(path: str) -> list[str]:
    """Return the names of segments in a log dir itself. Raises Unreadable."""
    return [name for name in names_in(path) if is_log_name(name) and find_base_offset(name) is not None]


def find_misplaced(log_dirs: Iterable[LogDir]) -> Iterator[Misplaced]:
    """Yield the segments that have records and lie where no broker looks, but not what a partition dir has as well.
    Log dirs of one file system have one lost+found: what lies there is of the partition that lacks it, or else of the
    one that it may be of. Raises Unreadable."""
    seen = set[str]()
    everywhere = [each for log_dir in log_dirs for each in _find_misplaced(log_dir)]
    for each in sorted(everywhere, key=lambda each: (not each.is_lacked, not each.of)):
        left = [(path, name) for path, name in zip(each.paths, each.names, strict=True) if path not in seen]
        seen.update(each.paths)
        if len(left) == len(each.paths):
            yield each
        elif left:
            paths, names = zip(*left, strict=True)
            yield replace(each, paths=paths, names=names, next_offset=max(map(find_next_offset, paths)))


def _find_misplaced(log_dir: LogDir) -> Iterator[Misplaced]:
    names = names_of_logs(log_dir.path)[:MOST_LOGS]
    own = [_log_of(os.path.join(log_dir.path, name), parse_file_name(name).base_offset or 0) for name in names]
    recovered = list(islice(_walk_recovered(log_dir.path), MOST_LOGS))
    if names or recovered:
        places = list(_walk_places(log_dir))
        for logs in (own, recovered):
            known = [log for log in logs if log is not None and not _is_copy(log, places)]
            yield from _grouped(log_dir.path, known, places)


def _log_of(path: str, base: int) -> _Log | None:
    end = find_next_offset(path)
    return _Log(path, build_file_name(FileKind.LOG, base), base, end) if end > base else None


def _walk_recovered(path: str) -> Iterator[_Log]:
    """Yield the segments in lost+found of the file system: files that begin with a batch. Who may not look into it
    finds none."""
    root = os.path.realpath(path)
    while not os.path.ismount(root) and not os.path.isdir(os.path.join(root, LOST_FOUND)):
        root = os.path.dirname(root)
    folder = os.path.join(root, LOST_FOUND)
    with suppress(OSError, KlogError):
        for name in sorted(os.listdir(folder)):
            file = os.path.join(folder, name)
            base = first_offset_of_log(file) if os.path.isfile(file) else None
            if base is not None and (log := _log_of(file, base)) is not None:
                yield log


def walk_recovered(log_dir: str) -> Iterator[tuple[str, str]]:
    """Yield the segments in lost+found of a log dir's file system, with the names that they seem to have had."""
    yield from ((log.path, log.name) for log in islice(_walk_recovered(log_dir), MOST_LOGS))


def _walk_places(log_dir: LogDir) -> Iterator[_Place]:
    stated = read_stated(log_dir)[0].offsets
    compacted = set(map(str, stated.get(FileKind.CLEANER_CHECKPOINT, ())))
    reached: dict[str, int] = {}
    for key, offset in (line for kind in _REACHES for line in stated.get(kind, {}).items()):
        reached[str(key)] = max(offset, reached.get(str(key), 0))
    for partition in log_dir.partitions:
        name = os.path.basename(partition.path)
        if partition.state.is_current:
            reach = reached.pop(name, 0)
            try:
                bases = sorted(segment.base_offset for segment in partition.segments)
            except KlogError:  # told by itself
                continue
            yield _Place(name, bases, dict.fromkeys(bases), reach, name in compacted, partition.path)
    yield from (_Place(name, reach=reach) for name, reach in reached.items() if reach)


def _is_copy(log: _Log, places: Sequence[_Place]) -> bool:
    """Return whether a partition dir has it as well: somebody copied it. What cannot be read is told by itself."""
    having = [place.path for place in places if place.path is not None and log.base in place.ends]
    try:
        for path in having:
            with LogFile(os.path.join(path, log.name)) as file, LogFile(log.path) as beginning:
                if file.begins_with(beginning):
                    return True
    except KlogError:
        return True
    return False


def _grouped(folder: str, logs: Sequence[_Log], places: Sequence[_Place]) -> Iterator[Misplaced]:
    """Yield together what one partition lacks."""
    groups: dict[tuple[str, bool | None, tuple[str, ...]], list[_Log]] = {}
    for log, lacked, of in _placed(logs, places):
        groups.setdefault((log.path if len(of) != 1 else "", lacked, of), []).append(log)
    absent = {place.name for place in places if place.path is None}
    for (_, lacked, of), logs_there in groups.items():
        logs_there.sort(key=lambda log: log.base)
        paths, names = tuple(log.path for log in logs_there), tuple(log.name for log in logs_there)
        end = max(log.next_offset for log in logs_there)
        yield Misplaced(folder, paths, names, end, of, bool(lacked), bool(of) and absent.issuperset(of))


def _placed(logs: Sequence[_Log], places: Sequence[_Place]) -> Iterator[tuple[_Log, bool | None, tuple[str, ...]]]:
    """Yield each with the partitions that lack it, or else that it may be of. It is as if these had it then: another
    one may follow there."""
    left = sorted(logs, key=lambda log: log.base)
    for is_upwards in (True, False):  # behind their ends, then before their beginnings
        for log in left.copy() if is_upwards else left[::-1]:
            fits = [(place, lacks) for place in places if (lacks := place.lacks(log)) is not None]
            best = any(lacks for _, lacks in fits)
            best_places = [place for place, lacks in fits if lacks is best]
            if best_places:
                for place in best_places:
                    place.add(log)
                left = [one for one in left if one is not log]
                yield log, best, tuple(place.name for place in best_places)
    yield from ((log, None, ()) for log in left)
