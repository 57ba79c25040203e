"""A run that was recorded (crash_states.py), the box that can be put into each state that a crash leaves of it, and
what has to be true there: undo gives every byte back, resuming finishes, a broker's start finds all that is to stay.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from crash_states import CrashStates, RecordingDisk, Stage, StageDisk, World
from dying import after_a_start
from made import (
    HEAD,
    add_foreign_folder,
    contents,
    make_freeing_plans,
    make_log_dir,
    make_moving_plans,
    make_plans,
    picture,
)

from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import InPlace, resume, undo
from klogtool.errors import Corrupt
from klogtool.format.names import PartitionDirState, parse_partition_dir_name
from klogtool.log.entries import walk_entries as walk_batches
from klogtool.plans.saved_plan import SavedPlan

BESIDE = "somebody's"
NOW: dict[str, Any] = {"now_ms": 1_700_000_000_000, "jobs": 1}
LAST_STOPS = (None, "unclean")
Batches = frozenset[tuple[int, bytes]]
Key = tuple[str, str | None]


class Work(NamedTuple):
    """A log dir in a box, and what is to be done there.

    partition: of which a broker's start is foreseen; None: of all that are there. has_logs: the logs have batches.
    """

    log_dir: pathlib.Path
    plans: Callable[[], list[SavedPlan]]
    partition: str | None = None
    named: pathlib.Path | None = None  # on the command line
    has_logs: bool = True


def files(box: pathlib.Path) -> Work:
    """Every kind of step on files."""
    log_dir = make_log_dir(box)
    return Work(log_dir, lambda: make_plans(log_dir), has_logs=False)


def folders(box: pathlib.Path) -> Work:
    """Files change, and then folders get other names."""
    log_dir = make_log_dir(box)
    add_foreign_folder(log_dir)
    return Work(log_dir, lambda: make_moving_plans(log_dir), has_logs=False)


def room(box: pathlib.Path) -> Work:
    """Deletions make room first, for what is written then."""
    log_dir = make_log_dir(box)
    return Work(log_dir, lambda: make_freeing_plans(log_dir), has_logs=False)


class Scene:
    """A run that was recorded, and the box that can be put into each of its states."""

    def __init__(
        self,
        box: pathlib.Path,
        make: Callable[[pathlib.Path], Work],
        journal: pathlib.Path | None = None,
        *,
        inside: bool = True,
    ) -> None:
        self._prepare(box, make, journal)
        self.stage = Stage(box, *([] if journal is None else [journal]))
        recorded = RecordingDisk(self.stage, is_killed_inside=inside)
        self._carry_out(recorded, None if journal is None else str(journal))
        self.states = CrashStates(recorded)

    def _prepare(
        self, box: pathlib.Path, make: Callable[[pathlib.Path], Work], journal: pathlib.Path | None = None
    ) -> None:
        """What is there before the run."""
        self.box, self.work = box, make(box)
        self.log_dir = self.work.log_dir
        (box / BESIDE).write_text(BESIDE)
        self.first, self.before = self.contents(), picture(self.log_dir)
        self.batches = self.started()
        self.starts: set[frozenset[tuple[str, bytes]]] = set()
        self.journal = journal or pathlib.Path(f"{self.log_dir}.klogtool")
        self.earlier = {entry.path for entry in self._entries()}

    def _carry_out(self, disk: Disk, journal: str | None = None) -> None:
        """The run, and what is there after it."""
        head = HEAD if self.work.named is None else {**HEAD, "paths": [str(self.work.named)]}
        InPlace(self.work.plans(), head, journal=journal, disk=disk).carry_out()
        self.wanted = self.contents()
        after = self.started()
        self.least = {key: found & after.get(key, frozenset()) for key, found in self.batches.items()}
        self.most = {
            key: self.batches.get(key, frozenset()) | found for key, found in {**self.batches, **after}.items()
        }

    def contents(self) -> dict[str, bytes]:
        """All files but those of the journal."""
        found = contents(self.box).items()
        return {name: data for name, data in found if ".klogtool/" not in name and not name.endswith("/.lock")}

    def disk(self) -> Disk:
        """For what is done after the crash."""
        return StageDisk(self.stage)

    def put(self, world: World) -> None:
        self.stage.put(world)

    def _entries(self) -> list[Entry]:
        return list(walk_entries(str(self.journal))) if self.journal.is_dir() else []

    def entry(self) -> Entry | None:
        """The entry of the run that was recorded; those of runs before it are somebody's."""
        found = [entry for entry in self._entries() if entry.path not in self.earlier]
        assert len(found) <= 1
        return found[0] if found else None

    def partitions(self) -> list[str]:
        if self.work.partition is not None or not self.work.has_logs:
            return [self.work.partition] if self.work.partition is not None else []
        return sorted(path.name for path in self.log_dir.iterdir() if path.is_dir() and _is_loaded(path.name))

    def started(self) -> dict[Key, Batches]:
        """The batches that a broker has after its start, by partition and what it believes of the last stop."""
        found, at = {}, self.box.parent / "out"
        for name, stop in product(self.partitions(), LAST_STOPS):
            asked = NOW if stop is None else {**NOW, "last_stop": stop}
            after_a_start(self.log_dir / name, at, asked)
            logs = (path for path in at.glob("*.log") if path.stat().st_size)
            found[name, stop] = frozenset(
                (b.last_offset, bytes(b.data)) for log in logs for b in walk_batches(str(log))
            )
        return found

    def check_undo(self) -> None:
        """Every byte, time and mode is as it was, and nothing else is there."""
        entry = self.entry()
        if entry is not None:
            undo(entry, disk=self.disk())
        self.check_before()

    def check_before(self) -> None:
        after = picture(self.log_dir)
        after.pop(".lock", None)  # a kill before the journal knows of it leaves it, as a broker does
        assert {name for name in self.before | after if self.before.get(name) != after.get(name)} - {"."} == set()
        assert self.contents() == self.first
        left = {str(path) for path in self.journal.iterdir()} if self.journal.is_dir() else set()
        assert left - {f"{self.journal}/.lock"} == self.earlier

    def check_resume(self) -> None:
        """What was begun is finished; what was not has changed nothing."""
        entry = self.entry()
        is_torn = entry is None or entry.is_torn()
        if entry is not None and not is_torn and entry.progress() is not Progress.DONE:
            resume(entry, disk=self.disk())
        assert self.contents() == (self.first if is_torn else self.wanted)

    def check_start(self) -> None:
        """A broker has all that is there before and afterwards, and nothing that is neither."""
        now = frozenset(contents(self.log_dir).items())
        if not self.work.has_logs or now in self.starts:
            return
        self.starts.add(now)
        started = self.started()
        for key in self.least | started:
            found = started.get(key, frozenset())
            assert self.least.get(key, frozenset()) <= found <= self.most.get(key, frozenset()), key


def _is_loaded(name: str) -> bool:
    """Whether a broker loads a folder as a partition of its own."""
    try:
        found = parse_partition_dir_name(name)
    except Corrupt:
        return False
    return found.state is PartitionDirState.CURRENT


def told(check: Callable[[], None], where: str) -> None:
    try:
        check()
    except BaseException as error:
        error.add_note(f"{where}: {check.__name__}")
        raise
