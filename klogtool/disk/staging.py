"""Prepares a run before its first step: writes new contents where a rename puts them in place, and keeps originals.
Nothing in the log dir changes by that.

On one file system originals are kept by hard links, and new contents wait in the journal. If the journal is on another
file system, originals are copied, and new contents wait in the target's own folder under names that end in `.deleted`.
A broker's start would unlink those, so after a kill they cost nothing but space. Where a deletion makes room first,
they wait in the journal even so, and are copied to such a name when their step comes: the disk may be full before.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.content import FileRange
from klogtool.disk.attributes import FileAttributes, attributes_of, attributes_of_new_file
from klogtool.disk.causes import RunRefusal
from klogtool.disk.digest import digest_of
from klogtool.disk.disk import Disk, keep_time
from klogtool.disk.facts import Facts
from klogtool.disk.folders import folder_before
from klogtool.disk.journal import Entry, OurLinks
from klogtool.disk.manifest import Original, RunRecord
from klogtool.disk.putting import put
from klogtool.disk.space import BLOCK_BYTES
from klogtool.disk.spooling import Laid, lay_content, spooled_bytes
from klogtool.disk.states import UNKNOWN_INO, StagedStep, StagedWrite, find_state, states_after
from klogtool.errors import Refused
from klogtool.plans.plan import (
    Discard,
    FileStep,
    Plan,
    Rename,
    RenameFolder,
    SavedWrite,
    Step,
    Truncate,
    Write,
    makes_room,
    names_of,
)
from klogtool.plans.saved_plan import SavedPlan


class Staging(Struct, frozen=True):
    """Where the entry's k-th plan is prepared. base: the plan's folder, links resolved. linkable: folders whose files
    can have a hard link in the journal. facts: gets every name that we give."""

    disk: Disk
    entry: Entry
    k: int
    base: str
    facts: Facts
    linkable: set[str] = field(default_factory=set)

    def place(self, name: str) -> str:
        """Return a path in the entry's folder for this plan."""
        return self.entry.place(str(self.k), name)

    def link(self, path: str, name: str) -> None:
        """Give a file a second name in the entry."""
        with self.facts.changing(path):
            self.disk.link(path, self.place(name))


def stage(disk: Disk, entry: Entry, k: int, plan: Plan, laid: Laid, facts: Facts, ours: OurLinks) -> RunRecord:
    """Prepare everything that the entry's k-th plan needs, synced. Files that are not read back yet are added to
    `laid`.

    Raises Refused, KlogError or OSError.
    """
    ready = Staging(disk, entry, k, os.path.realpath(plan.path), facts)
    plan = uncut_plan(plan, ours)
    names = list(dict.fromkeys(name for step in plan.steps for name in names_of(step)))
    folders = list(dict.fromkeys(os.path.dirname(os.path.join(ready.base, name)) for name in names))
    before = {folder: folder_before(folder) for folder in folders}
    disk.mkdir(entry.place(str(k)))
    ready.linkable.update(folder for folder in folders if _can_link(ready, folder))
    new_files = {folder: attributes_of_new_file(folder) for folder in folders}
    is_late = makes_room(plan.steps)
    steps = tuple(
        _stage_step(ready, n, step, new_files, laid, is_late=is_late)
        for n, step in enumerate(plan.steps)
        if not isinstance(step, RenameFolder | Discard)  # these have no part in a record
    )
    originals = _keep_originals(ready, plan, names)
    disk.sync_dir(entry.place(str(k)))
    for folder in folders:
        if folder not in ready.linkable:  # names were added here: sync them and set the mtime back
            keep_time(disk, folder, before[folder].mtime_ns)
            disk.sync_dir(folder)
    states = {name: None if file is None else file.state for name, file in originals.items()}
    return RunRecord(plan.id, ready.base, before, originals, steps, states_after(states, steps))


def uncut_plan(plan: Plan, ours: OurLinks) -> Plan:
    """Return the plan without cuts of files that have other hard links: instead, a copy of what stays takes their
    place.

    A backup made by hard links shares its files with the log dir, so a cut would cut the backup too. ours: links in the
    journal.
    """
    meant: dict[str, str] = {}  # for names that mean another file now: its original name; "" for a new file
    steps: list[Step] = []
    for step in plan.steps:
        first = meant.get(step.path, step.path)
        path = os.path.join(plan.path, first)
        if isinstance(step, Truncate) and first and _has_other_names(path, ours):
            step = Write(step.path, (FileRange(path, 0, min(step.size, os.stat(path).st_size)),))
        if isinstance(step, Rename):
            meant[step.to] = first
        if not isinstance(step, Truncate):
            meant[step.path] = ""
        steps.append(step)
    return replace(plan, steps=tuple(steps))


def _has_other_names(path: str, ours: OurLinks) -> bool:
    """Return whether a file has names other than its own and those in the journal."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return status.st_nlink > 1 and status.st_nlink > 1 + ours.of(status)


def staged_in_place(entry: Entry, k: int, plan: SavedPlan, base: str) -> list[str]:
    """Return where contents of the entry's k-th plan may wait in the plan's own folders. base: the plan's folder
    now."""
    writes = [(n, step) for n, step in enumerate(plan.steps) if isinstance(step, SavedWrite | Truncate)]
    return [_waiting(entry, k, n, os.path.join(base, step.path)) for n, step in writes]


def room_needed(plans: Collection[SavedPlan], journal: str) -> dict[str, int]:
    """Return the bytes that staging takes, by existing folder: those of the plans, and the one for the journal."""
    keeping = journal if os.path.isdir(journal) else os.path.dirname(journal)
    needed, ours = {keeping: BLOCK_BYTES}, OurLinks(journal)
    for plan in plans:
        folder = plan.path if os.path.isdir(plan.path) else os.path.dirname(plan.path)
        same = os.stat(folder).st_dev == os.stat(keeping).st_dev
        written = sum(_written_sizes(plan, ours)) - spooled_bytes(plan)
        at = folder if same or not makes_room(plan.steps) else keeping
        needed[at] = needed.get(at, 0) + written
        needed[keeping] += sum(_kept_sizes(plan, ours, copied=not same))
    return needed


def _written_sizes(plan: SavedPlan, ours: OurLinks) -> Iterator[int]:
    """Yield the sizes of new files: those that are written, and copies that replace files which must not be cut."""
    for step in plan.steps:
        match step:
            case SavedWrite():
                yield step.size + BLOCK_BYTES
            case Truncate() if _has_other_names(os.path.join(plan.path, step.path), ours):
                yield step.size + BLOCK_BYTES


def _kept_sizes(plan: SavedPlan, ours: OurLinks, *, copied: bool) -> Iterator[int]:
    """Yield the bytes that are copied to keep them: tails, and whole files if they cannot be linked."""
    for step in plan.steps:
        for name in names_of(step):
            path = os.path.join(plan.path, name)
            state = find_state(path)
            size = 0 if state is None else state.size
            if isinstance(step, Truncate) and not _has_other_names(path, ours):
                yield BLOCK_BYTES + max(0, size - step.size)
            else:
                yield BLOCK_BYTES + (size if copied else 0)


def _can_link(ready: Staging, folder: str) -> bool:
    """Return whether files of the folder can have a hard link in the journal. This is tried, because one device may be
    mounted twice, and the system may refuse links to files of other users."""
    if os.stat(folder).st_dev != os.stat(ready.entry.path).st_dev:
        return False
    some = next(_files_of(folder), None)
    if some is None:
        return True
    with suppress(OSError), ready.facts.changing(some):
        ready.disk.link(some, ready.place("probe"))
        ready.disk.delete(ready.place("probe"))
        return True
    return False


def _files_of(folder: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield path


def _stage_step(
    ready: Staging, n: int, step: FileStep, new_files: Mapping[str, FileAttributes], laid: Laid, *, is_late: bool
) -> StagedStep:
    if not isinstance(step, Write):
        return step
    path = os.path.join(ready.base, step.path)
    folder = os.path.dirname(path)
    is_kept, waits = folder in ready.linkable, _waiting(ready.entry, ready.k, n, path)
    staged = ready.place(f"new-{n}") if is_kept or is_late else waits
    like = attributes_of(path) if os.path.isfile(path) else new_files[folder]
    if staged == waits or is_kept:
        ready.facts.adding(os.path.join(folder, os.path.basename(staged)))
    if lay_content(ready.disk, staged, step.content, replace(like, mtime_ns=step.mtime_ns)):
        laid.append((staged, step.content))
    laid_state = find_state(staged)
    if laid_state is None:
        raise FileNotFoundError(staged)
    state = replace(laid_state, digest=digest_of(staged, laid_state.size))
    if is_kept:
        return StagedWrite(path=step.path, staged=staged, state=state)
    if not is_late:
        return StagedWrite(path=step.path, waits=staged, state=state)
    return StagedWrite(path=step.path, staged=staged, waits=waits, state=replace(state, ino=UNKNOWN_INO, ctime_ns=None))


def _waiting(entry: Entry, k: int, n: int, path: str) -> str:
    return f"{path}.{entry.id}.{k}.{n}.deleted"


def _keep_originals(ready: Staging, plan: Plan, names: Sequence[str]) -> dict[str, Original | None]:
    """Keep the original of each name that a step changes."""
    disk, entry, k = ready.disk, ready.entry, ready.k
    originals = {name: _find_original(os.path.join(ready.base, name)) for name in names}
    cuts = _cuts(plan, {name: original.state.size for name, original in originals.items() if original is not None})
    leaving = {name for step in plan.steps if not isinstance(step, Truncate) for name in names_of(step)}
    for n, name in enumerate(names):
        path, original = os.path.join(ready.base, name), originals[name]
        if original is None:
            continue
        linked = os.path.dirname(path) in ready.linkable
        if name in cuts and (linked or name not in leaving):  # otherwise the whole file is copied
            original = _keep_tail(disk, entry, f"{k}/tail-{n}", path, replace(original, cut=cuts[name]))
        if linked:
            ready.link(path, f"kept-{n}")
            original = replace(original, kept=f"{k}/kept-{n}", linked=True)
        elif name in leaving:
            put(disk, entry.place(str(k), f"kept-{n}"), (FileRange(path, 0, original.state.size),), attributes_of(path))
            original = replace(original, kept=f"{k}/kept-{n}")
        originals[name] = original
    return originals


def _find_original(path: str) -> Original | None:
    if os.path.islink(path) or os.path.isdir(path):
        raise Refused(RunRefusal.NO_REGULAR_FILE(), path=path)
    state = find_state(path)
    if state is None:
        return None
    attributes = attributes_of(path)
    return Original(replace(state, digest=digest_of(path, state.size)), attributes.mode, attributes.uid, attributes.gid)


def _keep_tail(disk: Disk, entry: Entry, tail: str, path: str, original: Original) -> Original:
    put(
        disk,
        entry.place(tail),
        (FileRange(path, original.cut, original.state.size),),
        attributes_of(path).written_now(),
    )
    tail_digest = digest_of(entry.place(tail), original.state.size - original.cut)
    return replace(original, tail=tail, tail_digest=tail_digest, cut_digest=digest_of(path, original.cut))


def _cuts(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the size to which each file is cut, by the name that it has before the steps."""
    meant = {name: name for name in sizes}  # current name -> original name of the file
    smallest: dict[str, int] = {}
    for step in plan.steps:
        file = meant.get(step.path)
        if isinstance(step, Truncate):
            if file is not None and step.size < smallest.get(file, sizes[file]):
                smallest[file] = step.size
            continue
        meant.pop(step.path, None)
        if isinstance(step, Rename) and file is not None:
            meant[step.to] = file
    return smallest
