"""Carries out plans in place and keeps nothing for undo: space is free at once, also on a full disk.

Order of effects: take the locks and check the facts; then the steps in the plan's order, each synced before the next. A
new file is written when its step comes, beside its target, and read back. There is no journal, because a full disk has
no room for one. A kill or an error between two steps leaves a state that a broker's loader finishes, as with a journal;
the same command completes the rest. An error before the first step that deletes something undoes what was written.

What klogtool keeps beside a log dir is deleted for good after all other steps of a run, with undo or without: finished
runs in its journal, bytes that salvage rejected. A kill in the middle leaves a folder that the same command deletes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress

from msgspec.structs import replace

from klogtool import interrupts
from klogtool.disk.attributes import attributes_of, attributes_of_new_file
from klogtool.disk.causes import FolderRefusal, RunRefusal
from klogtool.disk.disk import Disk
from klogtool.disk.facts import Facts
from klogtool.disk.folders import check_no_folders
from klogtool.disk.journal import Entry, OurLinks, journal_of
from klogtool.disk.lock import locked
from klogtool.disk.spooling import put_content
from klogtool.disk.staging import uncut_plan
from klogtool.disk.states import StepsDone
from klogtool.disk.writer import discard, do_step
from klogtool.errors import KlogError, Refused
from klogtool.log.log_dirs import has_lock, log_dir_of, log_dirs_to_lock
from klogtool.plans.plan import Delete, Discard, Plan, Rename, Step, Truncate, Write, is_journal_entry, names_of
from klogtool.plans.saved_plan import SavedPlan

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class NoUndo:
    """A run over plans. begun: something was deleted and cannot be restored."""

    def __init__(self, plans: Sequence[SavedPlan]) -> None:
        self.begun = False
        self.steps = StepsDone()
        self._plans = [plan for plan in plans if plan.changes_log_dir]
        self._disk = Disk()
        self._facts = Facts(self._plans)
        self._made: list[str] = []

    def carry_out(self) -> None:
        """Carry out everything. Raises Refused, LogDirInUse, StalePlan, KlogError or OSError; then nothing was changed,
        unless `begun` is set."""
        check_no_folders(self._plans, FolderRefusal.WITHOUT_NO_UNDO())
        self._facts.check()
        with ExitStack() as held:
            for folder in {one for plan in self._plans for one in log_dirs_to_lock(plan.path) if has_lock(one)}:
                held.enter_context(locked(self._disk, folder, without_if_full=True))
            self._facts.check()
            self.steps.whole = sum(not isinstance(step, Discard) for plan in self._plans for step in plan.steps)
            try:
                for plan in self._plans:
                    self._do(plan.decided())
            except (OSError, KlogError, KeyboardInterrupt):
                if not self.begun:
                    for path in reversed(self._made):
                        with suppress(OSError):
                            self._disk.delete(path)
                raise

    def _do(self, plan: Plan) -> None:
        base = os.path.realpath(plan.path)
        plan = uncut_plan(replace(plan, path=base), OurLinks(journal_of(log_dir_of(base))))
        steps = [step for step in plan.steps if not isinstance(step, Discard)]  # see discard_all
        for n, step in enumerate(steps):
            path = os.path.join(base, step.path)
            with interrupts.held():
                self._do_step(base, step, n)
                self.steps.add(type(step).__name__.lower(), path)
        for folder in dict.fromkeys(os.path.dirname(os.path.join(base, n)) for step in steps for n in names_of(step)):
            self._disk.sync_dir(folder)

    def _do_step(self, base: str, step: Step, n: int) -> None:
        path = os.path.join(base, step.path)
        if isinstance(step, Write):
            self._write(path, step, n)
        elif isinstance(step, Truncate | Rename | Delete):
            self.begun = True
            do_step(self._disk, base, step)
            if not isinstance(step, Truncate):
                self._disk.sync_dir(os.path.dirname(path))

    def _write(self, path: str, step: Write, n: int) -> None:
        """Write beside the target under a name that a broker deletes at its start, then rename it to the target."""
        waiting, is_new = f"{path}.{n}.klogtool.deleted", not os.path.lexists(path)
        like = attributes_of_new_file(os.path.dirname(path)) if is_new else attributes_of(path)
        with suppress(FileNotFoundError):  # of a run that was killed here: no start of a broker deletes it in a log dir
            self._disk.delete(waiting)
        try:
            put_content(self._disk, waiting, step.content, replace(like, mtime_ns=step.mtime_ns))
            self._disk.rename(waiting, path)
        except (OSError, KlogError):
            with suppress(OSError):
                self._disk.delete(waiting)
            raise
        self._disk.sync_dir(os.path.dirname(path))
        if is_new:
            self._made.append(path)
        else:
            self.begun = True


def discard_all(plans: Iterable[SavedPlan]) -> list[str]:
    """Delete what the plans discard; return the paths. The caller has checked the facts and holds no lock.

    Raises Refused for a run that was cut short, LogDirInUse, KlogError or OSError.
    """
    disk = Disk()
    done = []
    for plan in plans:
        for step in plan.steps:
            if isinstance(step, Discard):
                done.append(os.path.normpath(os.path.join(plan.path, step.path)))
                _discard(disk, done[-1], is_entry=is_journal_entry(step.path, plan.path))
    return done


def _discard(disk: Disk, path: str, *, is_entry: bool) -> None:
    if os.path.realpath(path) != path:
        raise Refused(RunRefusal.LINK_ON_THE_WAY(), path=path)
    if is_entry:
        discard(Entry(path), disk=disk)
        return
    if not os.path.isdir(path):
        raise KlogError(RunRefusal.NO_FOLDER(), path=path)
    for name in sorted(os.listdir(path)):
        disk.delete(os.path.join(path, name))
    disk.rmdir(path)
    disk.sync_dir(os.path.dirname(path))
