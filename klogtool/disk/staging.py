"""Before the first step: new contents are laid ready, originals are kept. In the log dir nothing changes by it.

On one file system originals are kept by hard links, and new contents wait in the journal. Where the journal lies on
another one, originals are copied, and new contents wait in the target's own folder under names that end in `.deleted`,
which a broker's start would unlink: they cost nothing but room, should we be killed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from klogtool.disk.about import About, about, about_new_file
from klogtool.disk.disk import Disk, keep_time
from klogtool.disk.journal import Entry
from klogtool.disk.manifest import FolderBefore, Original, Record
from klogtool.disk.readback import put
from klogtool.disk.space import BLOCK_BYTES
from klogtool.disk.spooling import Laid, lay_made, spooled_bytes
from klogtool.disk.states import FileState, StagedStep, StagedWrite, find_state, states_after
from klogtool.errors import Refused
from klogtool.lazy_dataclasses import replace
from klogtool.repair.draft import Piece
from klogtool.repair.plan import Plan, Rename, Truncate, Write, names_of
from klogtool.repair.saved_plan import SavedPlan


def stage(disk: Disk, entry: Entry, k: int, plan: Plan, laid: Laid) -> Record:
    """Lay ready all that the entry's k-th plan needs, synced; what is not read back comes into `laid`.

    Raises Refused, KlogError or OSError.
    """
    names = list(dict.fromkeys(name for step in plan.steps for name in names_of(step)))
    folders = list(dict.fromkeys(os.path.dirname(os.path.join(plan.path, name)) for name in names))
    before = {folder: _folder_before(folder) for folder in folders}
    disk.mkdir(entry.place(str(k)))
    linkable = {folder for folder in folders if _can_link(disk, folder, entry.place(str(k)))}
    new_files = {folder: about_new_file(folder) for folder in folders}
    steps = tuple(_stage_step(disk, entry, k, plan, n, linkable, new_files, laid) for n in range(len(plan.steps)))
    originals = _keep_originals(disk, entry, k, plan, names, linkable)
    disk.sync_dir(entry.place(str(k)))
    for folder in folders:
        if folder not in linkable:  # names came: synced, and not to be seen by its time
            keep_time(disk, folder, before[folder].mtime_ns)
            disk.sync_dir(folder)
    states = {name: None if file is None else file.state for name, file in originals.items()}
    return Record(plan.id, plan.path, before, originals, steps, states_after(states, steps))


def staged_in_place(entry: Entry, k: int, plan: SavedPlan) -> list[str]:
    """Where contents of the entry's k-th plan may wait in its own folders."""
    writes = [(n, step) for n, step in enumerate(plan.steps) if step.kind == "write"]
    return [_waiting(entry, k, n, os.path.join(plan.path, step.path)) for n, step in writes]


def room_needed(plans: Collection[SavedPlan], journal: str) -> dict[str, int]:
    """Bytes that staging takes, by a folder that is there: the plans' own, and what is to have the journal."""
    keeping = journal if os.path.isdir(journal) else os.path.dirname(journal)
    needed = {keeping: BLOCK_BYTES}
    for plan in plans:
        folder = plan.path if os.path.isdir(plan.path) else os.path.dirname(plan.path)
        same = os.stat(folder).st_dev == os.stat(keeping).st_dev
        written = sum(step.size + BLOCK_BYTES for step in plan.steps if step.kind == "write") - spooled_bytes(plan)
        needed[folder] = needed.get(folder, 0) + written
        needed[keeping] += sum(_kept_sizes(plan, copied=not same))
    return needed


def _kept_sizes(plan: SavedPlan, *, copied: bool) -> Iterator[int]:
    """Bytes that are copied to keep them: tails; and whole files, where they cannot be linked."""
    for step in plan.steps:
        for name in step.names:
            state = find_state(os.path.join(plan.path, name))
            size = 0 if state is None else state.size
            cut = step.kind == "truncate"
            yield BLOCK_BYTES + (max(0, size - step.size) if cut else size if copied else 0)


def _folder_before(folder: str) -> FolderBefore:
    return FolderBefore(os.stat(folder).st_mtime_ns, tuple(sorted(os.listdir(folder))))


def _can_link(disk: Disk, folder: str, to: str) -> bool:
    """Whether files of the folder can have a second name there: tried, since one device may be mounted twice, and a
    system may refuse links to files of others."""
    if os.stat(folder).st_dev != os.stat(to).st_dev:
        return False
    some = next((path for path in _files_of(folder)), None)
    if some is None:
        return True
    with suppress(OSError):
        disk.link(some, os.path.join(to, "probe"))
        disk.delete(os.path.join(to, "probe"))
        return True
    return False


def _files_of(folder: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield path


def _stage_step(
    disk: Disk,
    entry: Entry,
    k: int,
    plan: Plan,
    n: int,
    linkable: Collection[str],
    new_files: Mapping[str, About],
    laid: Laid,
) -> StagedStep:
    step = plan.steps[n]
    if not isinstance(step, Write):
        return step
    path = os.path.join(plan.path, step.path)
    folder = os.path.dirname(path)
    staged = entry.place(str(k), f"new-{n}") if folder in linkable else _waiting(entry, k, n, path)
    like = about(path) if os.path.isfile(path) else new_files[folder]
    if lay_made(disk, staged, step.content, replace(like, mtime_ns=step.mtime_ns)):
        laid.append((staged, step.content))
    return StagedWrite(step.path, staged, _state(staged))


def _waiting(entry: Entry, k: int, n: int, path: str) -> str:
    return f"{path}.{entry.id}.{k}.{n}.deleted"


def _keep_originals(
    disk: Disk, entry: Entry, k: int, plan: Plan, names: Sequence[str], linkable: Collection[str]
) -> dict[str, Original | None]:
    """Keep what there is of each name that a step changes."""
    found = {name: _find_original(os.path.join(plan.path, name)) for name in names}
    cuts = _cuts(plan, {name: original.state.size for name, original in found.items() if original is not None})
    leaving = {name for step in plan.steps if not isinstance(step, Truncate) for name in names_of(step)}
    for n, name in enumerate(names):
        path, original = os.path.join(plan.path, name), found[name]
        if original is None:
            continue
        linked = os.path.dirname(path) in linkable
        if name in cuts and (linked or name not in leaving):  # else all of it is copied
            original = _keep_tail(disk, entry, f"{k}/tail-{n}", path, replace(original, cut=cuts[name]))
        if linked:
            disk.link(path, entry.place(str(k), f"kept-{n}"))
            original = replace(original, kept=f"{k}/kept-{n}", linked=True)
        elif name in leaving:
            put(disk, entry.place(str(k), f"kept-{n}"), (Piece(path, 0, original.state.size),), about(path))
            original = replace(original, kept=f"{k}/kept-{n}")
        found[name] = original
    return found


def _find_original(path: str) -> Original | None:
    if os.path.islink(path) or os.path.isdir(path):
        raise Refused("no regular file: it cannot be changed with undo", path=path)
    state = find_state(path)
    if state is None:
        return None
    found = about(path)
    return Original(state, found.mode, found.uid, found.gid)


def _keep_tail(disk: Disk, entry: Entry, tail: str, path: str, original: Original) -> Original:
    put(disk, entry.place(tail), (Piece(path, original.cut, original.state.size),), about(path).written_now())
    return replace(original, tail=tail)


def _cuts(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """To how many bytes files are cut, under whatever name, by the name that they have now."""
    meant = {name: name for name in sizes}  # which file a name means, by its first name
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


def _state(path: str) -> FileState:
    found = find_state(path)
    if found is None:
        raise FileNotFoundError(path)
    return found
