"""Which files a folder's names mean while a plan's steps are carried out: in between, and how far they have come.

A file is told by its inode, size and time, so that nothing has to be written down after each step: what lies there says
how far it went.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from klogtool.plans.plan import Delete, Rename, Truncate
from klogtool.values import PartlyCompared


class FileState(PartlyCompared, frozen=True, eq=False):
    """A file as it lies there. mtime_ns: None where only the system knows: that of a file that was cut.

    ctime_ns: when anything of it was changed last, which nobody can set; every name that is given or taken changes it.
    digest: see digest.py. Both None where they are not known; they do not make it another state.
    """

    uncompared = frozenset({"ctime_ns", "digest"})

    ino: int
    size: int
    mtime_ns: int | None
    ctime_ns: int | None = None
    digest: str | None = None

    def looks_like(self, expected: FileState) -> bool:
        """The same size and time: nobody has written to it since, even if it was moved about."""
        return self.size == expected.size and expected.mtime_ns in (None, self.mtime_ns)

    def is_untouched(self, expected: FileState) -> bool:
        """The very same file, and nobody has changed anything of it since."""
        return self.is_the(expected) and self.ctime_ns == expected.ctime_ns is not None

    def is_the(self, expected: FileState) -> bool:
        """The very same file, as it was."""
        return self.ino == expected.ino and self.looks_like(expected)


class StagedWrite(Struct, frozen=True):
    """A file gets its place, in place of the one of that name. staged: where it lies until then, whole and synced."""

    path: str
    staged: str
    state: FileState


StagedStep: TypeAlias = StagedWrite | Truncate | Rename | Delete
Names: TypeAlias = dict[str, FileState | None]  # None: there is no file of that name


def find_state(path: str) -> FileState | None:
    """Of the file that lies there now, or None. Raises OSError where that cannot be seen."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def names_of(step: StagedStep) -> tuple[str, ...]:
    """Paths of the files that a step changes, below the plan's."""
    return (step.path, step.to) if isinstance(step, Rename) else (step.path,)


def walk_changes(before: Mapping[str, FileState | None], steps: Sequence[StagedStep]) -> Iterator[Names]:
    """For each step what the names that it changes mean behind it."""
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
    """What the names mean when all steps are done."""
    after = dict(before)
    for changes in walk_changes(before, steps):
        after.update(changes)
    return after


def find_steps_done(
    before: Mapping[str, FileState | None], steps: Sequence[StagedStep], found: Mapping[str, FileState | None]
) -> int | None:
    """How many of the steps have been done, if these files were found; None if that is no state in between."""
    wrong = {name for name in before if not _is(found.get(name), before[name])}
    done = None if wrong else 0
    for n, changes in enumerate(walk_changes(before, steps), 1):
        for name, state in changes.items():
            (wrong.discard if _is(found.get(name), state) else wrong.add)(name)
        if not wrong:
            done = n
    return done


def _is(found: FileState | None, expected: FileState | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return found.is_the(expected)
