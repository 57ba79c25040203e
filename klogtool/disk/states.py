"""The states of files while a plan's steps are carried out, and how many steps are done.

A file is identified by its inode, size and mtime, so nothing has to be recorded after each step: the files themselves
show how far the run came.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from klogtool.plans.plan import Delete, Rename, Truncate
from klogtool.values import Long, Natural, PartlyCompared

UNKNOWN_INO = 0  # no file has it


class StepsDone(Struct):
    """How many steps of a run are done, of how many, and the last one; shown if the run is interrupted."""

    done: int = 0
    whole: int = 0
    last: str = ""

    def add(self, kind: str, path: str) -> None:
        """Count one more step."""
        self.done, self.last = self.done + 1, f"{kind} {path}"


class FileState(PartlyCompared, frozen=True, eq=False):
    """The state of a file. mtime_ns: None if only the system knows it, as after a cut. ino: UNKNOWN_INO if the file is
    to be made.

    ctime_ns: when anything of the file was changed last. Nobody can set it, and every new or removed name changes it.
    digest: see digest.py. Both are None if unknown, and do not take part in comparison.
    """

    uncompared = frozenset({"ctime_ns", "digest"})

    ino: Natural
    size: Natural
    mtime_ns: Long | None
    ctime_ns: Long | None = None
    digest: str | None = None

    def looks_like(self, expected: FileState) -> bool:
        """Return whether size and mtime are the same: nobody has written to the file since, even if it was renamed."""
        return self.size == expected.size and expected.mtime_ns in (None, self.mtime_ns)

    def is_untouched(self, expected: FileState) -> bool:
        """Return whether it is the same inode, and nothing of it was changed since."""
        return self.is_the(expected) and self.ctime_ns == expected.ctime_ns is not None

    def is_the(self, expected: FileState) -> bool:
        """Return whether it is the same inode, with the same size and mtime."""
        return expected.ino in (UNKNOWN_INO, self.ino) and self.looks_like(expected)


class StagedWrite(Struct, frozen=True, kw_only=True, tag_field="step", tag="write", omit_defaults=True):
    """A prepared file, complete and synced, replaces the one at `path`: one in the entry (staged), or one that waits in
    the log dir (waits). Both: of the one in the entry a copy is made there when its step comes."""

    path: str
    staged: str | None = None
    waits: str | None = None
    state: FileState

    @property
    def place(self) -> str:
        """The path of the prepared file."""
        return self.staged or self.waits or ""


StagedStep: TypeAlias = StagedWrite | Truncate | Rename | Delete
Names: TypeAlias = dict[str, FileState | None]  # None: no file has that name


def find_state(path: str) -> FileState | None:
    """Return the state of the file at a path, or None if there is none. Raises OSError if that cannot be determined."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def names_of(step: StagedStep) -> tuple[str, ...]:
    """Return the paths of the files that a step changes, relative to the plan's."""
    return (step.path, step.to) if isinstance(step, Rename) else (step.path,)


def walk_changes(before: Mapping[str, FileState | None], steps: Sequence[StagedStep]) -> Iterator[Names]:
    """Yield, for each step, the states of the names that it changes, as they are after the step."""
    now = dict(before)
    for step in steps:
        changes = _changes(now, step)
        now.update(changes)
        yield changes


def _changes(now: Names, step: StagedStep) -> Names:
    match step:
        case StagedWrite():
            return {step.path: step.state}
        case Rename():
            return {step.path: None, step.to: now.get(step.path)}
        case Delete():
            return {step.path: None}
        case Truncate():
            file = now.get(step.path)
            cut = file is not None and step.size < file.size
            return {step.path: FileState(file.ino, step.size, None) if cut and file is not None else file}


def states_after(before: Mapping[str, FileState | None], steps: Sequence[StagedStep]) -> Names:
    """Return the states of all names when all steps are done."""
    after = dict(before)
    for changes in walk_changes(before, steps):
        after.update(changes)
    return after


def half_renamed(steps: Sequence[StagedStep], current: Mapping[str, FileState | None]) -> list[str]:
    """Return the old names of files that have both names of a rename: btrfs may have logged the new one, and not that
    the old one is gone, when the machine died. Another rename would do nothing (rename(2))."""
    both = ((step.path, current.get(step.path), current.get(step.to)) for step in steps if isinstance(step, Rename))
    return [name for name, old, new in both if old is not None and new is not None and old.ino == new.ino]


def find_steps_done(
    before: Mapping[str, FileState | None], steps: Sequence[StagedStep], current: Mapping[str, FileState | None]
) -> int | None:
    """Return how many steps have been done if these files were found; None if they match no state between steps."""
    wrong = {name for name in before if not _is(current.get(name), before[name])}
    done = None if wrong else 0
    for n, changes in enumerate(walk_changes(before, steps), 1):
        for name, state in changes.items():
            (wrong.discard if _is(current.get(name), state) else wrong.add)(name)
        if not wrong:
            done = n
    return done


def _is(state: FileState | None, expected: FileState | None) -> bool:
    if state is None or expected is None:
        return state is expected
    return state.is_the(expected)
