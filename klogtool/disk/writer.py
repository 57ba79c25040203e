"""Carries out plans in place.

Order of effects; each is on the device before the next:

 1. Take the log dir's lock.
 2. Check facts and space. Until here nothing is written but `.lock`.
 3. Create the journal's entry with the plans (plan.jsonl).
 4. For every plan: write its new contents into the journal's entry, or beside their targets if that is on another file
    system, and read them back; keep what it changes (staging.py).
 5. Check the facts once more. Save the entry's manifest: from now on it says that steps may have been done.
 6. Do the steps in the plan's order, one system call each. A cut is synced before the next step, and so are names
    before a cut or a step in another folder. So a power failure leaves a state that some step left.
 7. Compare the files with what they should be. If folders are to be renamed, save the manifest again, and rename
    them one by one, synced (folders.py). Save the manifest as done.

docs/safety.md has the same numbers, and what a kill in each leaves. If the run is killed before 5, nothing was changed.
If it is killed later, `resume` finishes it and `undo` takes it back; the files show which step was the last
(states.py). An error in 6 undoes the steps done; only if that fails too, the run stays cut short.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from msgspec import to_builtins
from msgspec.structs import replace

from klogtool import interrupts
from klogtool.broker.content import FileRange
from klogtool.broker.spools import MakeSpool
from klogtool.disk.attributes import attributes_of
from klogtool.disk.belonging import Belonging
from klogtool.disk.causes import RunRefusal
from klogtool.disk.disk import Disk, keep_time
from klogtool.disk.facts import Facts
from klogtool.disk.folders import do_moves, find_moves_done, stage_moves
from klogtool.disk.joining import joined
from klogtool.disk.journal import (
    Entry,
    OurLinks,
    check_journal,
    drop_journal,
    journal_of,
    make_entry,
    make_journal,
    new_entry,
    remove_entry,
    save_manifest,
    spools_in,
)
from klogtool.disk.lock import check_free, locked
from klogtool.disk.manifest import Home, Manifest, Progress, RunRecord
from klogtool.disk.putting import put
from klogtool.disk.space import check_space
from klogtool.disk.spooling import Laid, check_laid
from klogtool.disk.staging import room_needed, stage, staged_in_place
from klogtool.disk.states import Names, StagedStep, StagedWrite, StepsDone, find_state, find_steps_done, half_renamed
from klogtool.disk.undo import check_room, check_untouched, undo_steps
from klogtool.errors import KlogError, Refused
from klogtool.log.log_dirs import has_lock, log_dirs_to_lock
from klogtool.plans.plan import Delete, Rename, Truncate, kind_of, names_of
from klogtool.plans.saved_plan import SavedPlan, decide_saved, paths_of

RUN_BYTES = 6  # of the name that the entries of a run have in common


class InPlace:
    """A run over plans. Plans of one log dir share an entry, in the journal beside it or in the one given.

    head: first line of plan.jsonl, with `when_ms`. entries: the entries that the run has made, for undo. begun: steps
    may have been done that are neither finished nor undone. steps: how far it has come.
    """

    def __init__(
        self,
        plans: Sequence[SavedPlan],
        head: Mapping[str, object],
        *,
        journal: str | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.entries: list[Entry] = []
        self.begun = False
        self.steps = StepsDone()
        self._plans = [plan for plan in plans if plan.changes_log_dir]
        self._head, self._journal, self._disk, self._run = head, journal, disk or Disk(), secrets.token_hex(RUN_BYTES)
        self._groups: dict[tuple[str, str], Sequence[SavedPlan]] = {}  # by log dir and journal
        self._others: dict[str, list[str]] = {}  # by log dir: other log dirs whose links named its partitions
        self._facts = Facts(self._plans)

    def carry_out(self) -> None:
        """Carry out everything; see the module docstring.

        Raises Refused, LogDirInUse, StalePlan, KlogError or OSError. Then everything is as before, unless `begun` is
        set.
        """
        self._facts.check()
        self._group()
        self._check_room()
        try:
            with ExitStack() as held:
                locks = self._lock(held)
                self._facts.check()
                self._check_room()
                spools = {
                    key: held.enter_context(spools_in(self._disk, key[1], key[0])).make_spool for key in self._groups
                }
                with self._staged(locks, spools) as runs:
                    self._facts.check()
                self._do(runs)
        finally:
            for _, journal in self._groups:
                drop_journal(self._disk, journal)

    def _group(self) -> None:
        groups: dict[tuple[str, str], list[SavedPlan]] = {}
        for plan in self._plans:
            log_dir, *others = log_dirs_to_lock(plan.path)
            journal = journal_of(log_dir) if self._journal is None else os.path.realpath(self._journal)
            groups.setdefault((log_dir, journal), []).append(plan)
            self._others.setdefault(log_dir, []).extend(others)
        self._groups = {key: joined(plans, key[0]) for key, plans in groups.items()}

    def _lock(self, held: ExitStack) -> dict[str, bool]:
        """Lock every log dir once. Returns, for each log dir with plans, whether the lock file is ours."""
        locks = {
            log_dir: held.enter_context(lock_of(self._disk, log_dir, journal, without_if_full=True))
            for log_dir, journal in self._groups
        }
        for folder in {folder for others in self._others.values() for folder in others} - locks.keys():
            held.enter_context(locked(self._disk, folder, without_if_full=True))
        return locks

    def _check_room(self) -> None:
        needed: dict[str, int] = {}
        for (_, journal), plans in self._groups.items():
            check_journal(journal)
            for folder, size in room_needed(plans, journal).items():
                needed[folder] = needed.get(folder, 0) + size
        check_space(needed, is_undone=True)

    @contextmanager
    def _staged(
        self, locks: Mapping[str, bool], spools: Mapping[tuple[str, str], MakeSpool]
    ) -> Iterator[list[tuple[Entry, Manifest]]]:
        """Context with all plans staged. If staging fails, or the check before the first step, all of it is deleted
        again."""
        runs: list[tuple[Entry, Manifest]] = []
        with ExitStack() as cleaning:
            for (log_dir, journal), plans in self._groups.items():
                make_journal(self._disk, journal, log_dir)
                entry = new_entry(journal, plans)
                created = [os.path.realpath(plan.path) for plan in plans if not os.path.lexists(plan.path)]
                cleaning.callback(remove_created, self._disk, created)
                make_folders(self._disk, created)
                bases, times = [os.path.realpath(plan.path) for plan in plans], folder_times(plans)
                cleaning.callback(clean, self._disk, entry, plans, bases, times)
                head = self._head_of(log_dir, journal, bases, created, times)
                make_entry(self._disk, entry, {**head, "made_lock": locks[log_dir]}, plans)
                moves = stage_moves(plans, log_dir)
                make_spool, laid, links = spools[log_dir, journal], Laid(), OurLinks(journal)
                records = [
                    stage(self._disk, entry, k, plan.decided(make_spool), laid, self._facts, links)
                    for k, plan in enumerate(plans)
                ]
                check_laid(laid, plans[0].question.threads)
                self._disk.sync_dir(entry.path)
                runs.append((entry, Manifest(Progress.STAGED, tuple(records), moves)))
            yield runs
            cleaning.pop_all()

    def _head_of(
        self, log_dir: str, journal: str, bases: Sequence[str], created: Sequence[str], times: Mapping[str, int]
    ) -> dict[str, object]:
        """Return the head of plan.jsonl. Paths in the log dir are relative to it."""
        home = Home(log_dir, "")
        return {
            **self._head,
            **to_builtins(Belonging.of(log_dir, journal)),
            "run": self._run,
            "journals": sorted({journal for _, journal in self._groups}),
            "other_log_dirs": sorted(set(self._others.get(log_dir, ()))),
            "bases": [home.below(base) for base in bases],
            "made_folders": [home.below(folder) for folder in created],
            "folders": {home.below(folder): time for folder, time in times.items()},
        }

    def _do(self, runs: Sequence[tuple[Entry, Manifest]]) -> None:
        self.begun = True
        try:
            for entry, manifest in runs:
                self.entries.append(entry)
                save_manifest(self._disk, entry, manifest)
            for entry, manifest in runs:
                finish(self._disk, entry, manifest, self.steps)
        except (OSError, KlogError):
            with interrupts.held():
                self._undo_all(runs)
            raise
        self.begun = False

    def _undo_all(self, runs: Sequence[tuple[Entry, Manifest]]) -> None:
        """After an error: undo the steps. If that fails too, the entry stays; the first error is reported in any
        case."""
        for entry, manifest in reversed(runs):
            with suppress(OSError, KlogError):
                if entry.progress() is Progress.PREPARING:
                    _undo_staging(self._disk, entry)
                else:
                    undo_steps(self._disk, entry, manifest)
                    remove_created(self._disk, entry.made_folders())
                remove_entry(self._disk, entry)
                self.entries = [other for other in self.entries if other != entry]
        self.begun = bool(self.entries)


@contextmanager
def lock_of(disk: Disk, log_dir: str, journal: str, *, ours: bool = False, without_if_full: bool) -> Iterator[bool]:
    """Lock the log dir as `locked` does. A folder that does not look like a log dir has no `.lock` of a broker; then
    lock the journal (created if needed), which keeps other klogtool processes away."""
    if has_lock(log_dir):
        with locked(disk, log_dir, ours=ours, without_if_full=without_if_full) as is_ours:
            yield is_ours
        return
    make_journal(disk, journal, log_dir)
    with locked(disk, journal, ours=True, without_if_full=without_if_full) as is_ours:
        yield is_ours


def check_not_in_use(paths: Iterable[str]) -> None:
    """Raises LogDirInUse if a broker has the log dir of a path: the path itself, the log dir around it, or the one by
    whose link it was named. For a check before long work begins."""
    for log_dir in dict.fromkeys(log_dir for path in paths for log_dir in log_dirs_to_lock(path)):
        check_free(log_dir)


def folder_times(plans: Sequence[SavedPlan]) -> dict[str, int]:
    """Return the mtimes, in ns, of the folders in which names change."""
    names = (
        os.path.join(os.path.realpath(plan.path), n) for plan in plans for step in plan.steps for n in names_of(step)
    )
    return {folder: os.stat(folder).st_mtime_ns for folder in dict.fromkeys(map(os.path.dirname, names))}


def make_folders(disk: Disk, folders: Sequence[str]) -> None:
    """Create partition dirs that do not exist yet, with mode and owner of their log dir."""
    for folder in folders:
        above = os.path.dirname(folder)
        disk.mkdir(folder)
        disk.describe(folder, replace(attributes_of(above).permitted(), mtime_ns=None))
        disk.sync_dir(above)


def remove_created(disk: Disk, folders: Sequence[str]) -> None:
    """Delete these folders again. A folder in which somebody has put something stays."""
    for folder in folders:
        with suppress(OSError):
            disk.rmdir(folder)
            disk.sync_dir(os.path.dirname(folder))


def clean(disk: Disk, entry: Entry, plans: Sequence[SavedPlan], bases: Sequence[str], times: Mapping[str, int]) -> None:
    """Delete all traces of an entry of which no step was done. Errors are ignored, since an earlier error led here.
    bases: where the folders of the plans are now."""
    with suppress(OSError, KlogError):
        waiting = [p for k, plan in enumerate(plans) for p in staged_in_place(entry, k, plan, bases[k])]
        left = [path for path in waiting if os.path.lexists(path)]
        for path in left:
            disk.delete(path)
        for folder in dict.fromkeys(map(os.path.dirname, left)):
            keep_time(disk, folder, times.get(folder))
            disk.sync_dir(folder)
        remove_entry(disk, entry)


# The steps.


def finish(disk: Disk, entry: Entry, manifest: Manifest, steps: StepsDone | None = None) -> None:
    """Do all steps that have not been done, and record that. Raises Refused if the files match no state between steps.

    An interrupt waits for the current step. steps: is told of each step.
    """
    steps = steps or StepsDone()
    moves, done = manifest.folder_moves, find_moves_done(entry, manifest)
    in_files = sum(len(record.steps) for record in manifest.records)
    steps.whole += in_files + len(moves.moves)
    if done is None:
        raise _cannot_finish(entry.log_dir())
    if done:  # then all files were as planned
        steps.done += in_files + done
    else:
        manifest = replace(manifest, records=tuple(_finish_record(disk, record, steps) for record in manifest.records))
    if moves.moves:
        if not done:  # paths of records are about to change, so what is known of their files is saved before
            save_manifest(disk, entry, manifest)
        do_moves(disk, entry.home(), moves, done, lambda move: steps.add("rename-folder", move.path))
    save_manifest(disk, entry, replace(manifest, progress=Progress.DONE))


def _finish_record(disk: Disk, record: RunRecord, steps: StepsDone) -> RunRecord:
    record.check_folders()
    current = {name: find_state(os.path.join(record.path, name)) for name in record.before}
    halves = half_renamed(record.steps, current)
    done = find_steps_done(record.states_before, record.steps, {**current, **dict.fromkeys(halves)})
    if done is None:
        raise _cannot_finish(record.path)
    for name in halves:
        disk.delete(os.path.join(record.path, name))
    _do_steps(disk, record, done, steps)
    return replace(record, after=_checked_after(record))


def _cannot_finish(path: str) -> Refused:
    return Refused(RunRefusal.NOT_AS_LEFT(), path=path)


def _do_steps(disk: Disk, record: RunRecord, done: int, progress: StepsDone) -> None:
    progress.done += done
    unsynced: str | None = None  # the folder with unsynced names
    if done:  # a killed run may not have synced them
        _sync(disk, record, record.steps[:done])
    for step in record.steps[done:]:
        folder = os.path.dirname(os.path.join(record.path, step.path))
        cuts = isinstance(step, Truncate)
        with interrupts.held():
            if unsynced is not None and (cuts or folder != unsynced):
                disk.sync_dir(unsynced)
            do_step(disk, record.path, step)
            kind = "write" if isinstance(step, StagedWrite) else kind_of(step)
            progress.add(kind, os.path.join(record.path, step.path))
        unsynced = None if cuts else folder
    if unsynced is not None:
        disk.sync_dir(unsynced)


def _sync(disk: Disk, record: RunRecord, steps: Sequence[StagedStep]) -> None:
    for step in steps:
        path = os.path.join(record.path, step.path)
        if isinstance(step, Truncate) and os.path.lexists(path):
            disk.sync(path)
    for folder in record.folders:
        disk.sync_dir(folder)


def do_step(disk: Disk, base: str, step: StagedStep) -> None:
    """Do one step below the folder `base`. A cut is synced; names are not."""
    path = os.path.join(base, step.path)
    match step:
        case StagedWrite(staged=staged, waits=waits) if staged and waits:
            if os.path.lexists(waits):  # of a run that was killed here
                disk.delete(waits)
            put(disk, waits, (FileRange(staged, 0, step.state.size),), attributes_of(staged))
            disk.rename(waits, path)
        case StagedWrite():
            disk.rename(step.place, path)
        case Rename():
            disk.rename(path, os.path.join(base, step.to))
        case Delete():
            disk.delete(path)
        case Truncate():
            if os.stat(path).st_size > step.size:
                disk.truncate(path, step.size)
            disk.sync(path)


def _checked_after(record: RunRecord) -> Names:
    """Return the states of the changed files after a comparison with the plan, with times that only the system knew."""
    after: Names = {}
    for name, wanted in record.after.items():
        path = os.path.join(record.path, name)
        state = find_state(path)
        if (state is None) != (wanted is None) or (state and wanted and not state.is_the(wanted)):
            raise OSError(errno.EIO, "after the last step this file is not as planned", path)
        after[name] = state if state is None or wanted is None else replace(state, digest=wanted.digest)
    return after


# After a run.


def resume(entry: Entry, *, disk: Disk | None = None, steps: StepsDone | None = None) -> Entry:
    """Finish a run that was cut short. If it had changed nothing yet, all is done anew, under a new entry.

    Who calls it has read plan.jsonl of each entry, to tell which run is meant. Under the lock the manifest is read, and
    then the files are: they alone say which steps were done.

    Returns the entry that undoes it. Raises Refused if there is nothing to finish, or somebody else changed files.
    """
    disk = disk or Disk()
    with _held(disk, entry):
        manifest = entry.manifest()
        if manifest is not None and manifest.progress is not Progress.STAGED:
            raise Refused(RunRefusal.NOTHING_TO_FINISH(progress=manifest.progress.value), path=entry.path)
        if manifest is not None:
            # A run that was killed just behind the rename has not synced the manifest's name. Steps on the device
            # without it would look like a run that has changed nothing, and undo would delete what was kept.
            disk.sync_dir(entry.path)
            finish(disk, entry, manifest, steps)
            return entry
        if entry.is_torn():
            raise Refused(RunRefusal.KILLED_EARLY(), path=entry.path)
        if entry.has_moved():
            raise Refused(RunRefusal.MOVED_SINCE(), path=entry.path)
        head, plans, created, log_dir = entry.head_row(), entry.plans(), entry.made_folders(), entry.log_dir()
        clean(disk, entry, plans, entry.bases(), entry.folder_times())
        remove_created(disk, created)
    with spools_in(disk, entry.journal, log_dir) as spools:
        again = decide_saved(plans, paths_of(head), lambda _: spools.make_spool)
        run = InPlace(again, head, journal=entry.journal, disk=disk)
        run.carry_out()
    return run.entries[0]


def undo(entry: Entry, *, disk: Disk | None = None) -> None:
    """Undo a run, however far it came; see undo.py. The entry is then deleted. Raises Refused, KlogError, OSError."""
    disk = disk or Disk()
    with _held(disk, entry):
        manifest = entry.manifest()
        if manifest is None:
            _undo_staging(disk, entry)
        elif manifest.progress is not Progress.UNDONE:
            check_untouched(entry, manifest)
            check_room(entry, manifest)
            undo_steps(disk, entry, manifest)
        if not entry.is_torn():
            remove_created(disk, entry.made_folders())
        remove_entry(disk, entry)
    drop_journal(disk, entry.journal)


def check_undo(entry: Entry, *, disk: Disk | None = None) -> None:
    """Raises what `undo` raises before it changes anything: for a run of several entries, which are undone together."""
    with _held(disk or Disk(), entry):
        manifest = entry.manifest()
        if manifest is not None and manifest.progress is not Progress.UNDONE:
            check_untouched(entry, manifest)
            check_room(entry, manifest)


def discard(entry: Entry, *, disk: Disk | None = None) -> None:
    """Give up what is kept for undo. Raises Refused for a run that was cut short: finish or undo that first."""
    disk = disk or Disk()
    with _held(disk, entry, is_discarded=True):
        progress = entry.progress()
        if progress in (Progress.STAGED, Progress.UNDOING):
            raise Refused(RunRefusal.CUT_SHORT(progress=progress.value), path=entry.path)
        if progress is Progress.PREPARING:
            _undo_staging(disk, entry)
        remove_entry(disk, entry)
    drop_journal(disk, entry.journal)


@contextmanager
def _held(disk: Disk, entry: Entry, *, is_discarded: bool = False) -> Iterator[None]:
    """Hold the locks of the log dirs that the entry is about, as far as recorded. is_discarded: the log dir may be
    gone."""
    if not os.path.isdir(entry.path):
        raise KlogError(RunRefusal.NO_RUN(), path=entry.path)
    if entry.is_torn():
        yield
        return
    with ExitStack() as held:
        log_dir = _log_dir_if_any(entry) if is_discarded else entry.log_dir()
        place, ours = log_dir or entry.journal, entry.head().made_lock
        held.enter_context(lock_of(disk, place, entry.journal, ours=ours, without_if_full=is_discarded))
        for folder in () if log_dir is None or entry.has_moved() else entry.head().other_log_dirs:
            if os.path.isdir(folder) and has_lock(folder):
                held.enter_context(locked(disk, folder))
        yield


def _log_dir_if_any(entry: Entry) -> str | None:
    try:
        return entry.log_dir()
    except Refused:
        return None


def _undo_staging(disk: Disk, entry: Entry) -> None:
    """Delete what a run, killed before it changed anything, left waiting in the log dir's folders."""
    if not entry.is_torn() and _log_dir_if_any(entry) is not None:
        created = entry.made_folders()
        clean(disk, entry, entry.plans(), entry.bases(), entry.folder_times())
        remove_created(disk, created)
