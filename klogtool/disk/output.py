"""Carries plans out into a new folder; the source stays as it is.

Order of effects: the place, the facts and the space are checked; the folder is built beside its place under a name that
a broker would tolerate and remove, every file synced and read back; the source is looked at once more; then one rename
makes it appear, whole. A kill before that leaves the folder with the passing name, which may be deleted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from klogtool.disk.about import About, about, about_new_file
from klogtool.disk.disk import Disk
from klogtool.disk.facts import check_facts, is_partition_dir, looks_like_log_dir
from klogtool.disk.readback import check_size, check_written
from klogtool.disk.space import BLOCK_BYTES, check_space, on_disk
from klogtool.errors import KlogError, Refused, StalePlan
from klogtool.format.names import PartitionDirName, PartitionDirState, build_partition_dir_name
from klogtool.log.file import unreadable
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.repair.draft import Content, Draft, DraftFile, Piece
from klogtool.repair.plan import Delete, Plan, Rename, Truncate, Write


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder to be. files: by path below it; folders: those in it, outer ones first.

    source: the folder whose files its files are, by name, or at least are like. unchanged: which of them are the
    source's, to the byte; unchanged_folders: those in which all are ("" the folder itself).
    """

    path: str
    files: Mapping[str, DraftFile]
    source: str
    folders: Sequence[str] = ()
    unchanged: frozenset[str] = frozenset()
    unchanged_folders: frozenset[str] = frozenset()


def carry_out_to(
    plans: Sequence[Plan],
    source: str,
    output: str,
    *,
    beside: Mapping[str, Mapping[str, Content]] | None = None,
    disk: Disk | None = None,
) -> None:
    """Write what the source becomes by the plans to `output`, which is not there yet, or empty.

    source: the partition dir or log dir that all plans are about, or parts of. beside: further new folders, by path,
    with their files. Unchanged files are copied (a hard link would let a broker write into both), with time and mode,
    and owner where that is permitted. Raises Refused, StalePlan or KlogError, and OSError where the system refuses;
    there is no output then.
    """
    disk = disk or Disk()
    for place in [output, *(beside or {})]:
        check_place(place, source)
    for plan in plans:
        check_facts(plan)
    result = new_folder(plans, source, output)
    further = [
        NewFolder(path, {name: DraftFile(content) for name, content in files.items()}, source)
        for path, files in (beside or {}).items()
    ]
    folders = [*further, result]
    _check_room(folders)
    with _built(disk, folders) as parts:
        _check_source(plans, result)
        for folder, part in zip(folders, parts, strict=True):
            _publish(disk, part, os.path.realpath(folder.path))


def check_place(output: str, source: str) -> None:
    """Raises Refused where no result may be put; KlogError where none can be."""
    place, read = os.path.realpath(output), os.path.realpath(source)
    parent = os.path.dirname(place)
    if not os.path.isdir(parent):
        raise KlogError("no such folder", path=parent)
    if place == read or place.startswith(_with_slash(read)) or read.startswith(_with_slash(place)):
        raise Refused(f"the result would lie in what it is made from, or around it: {source}", path=output)
    if any(map(is_partition_dir, _ancestors(place))):
        raise Refused("the result would lie in a partition dir", path=output)
    if looks_like_log_dir(parent) and find_partition_dir_name(own_name(place)) is None:
        raise Refused("in a log dir, and not named as a partition dir: a broker would not start over it", path=output)
    _check_empty(place, output)


def _check_empty(place: str, output: str) -> None:
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"cannot be the result's place: {(error.strerror or '').lower()}", path=output) from error
    if names:
        raise Refused("not empty", path=output)
    if os.path.ismount(place):
        raise Refused("a mount point cannot be replaced: name a folder in it", path=output)


def _ancestors(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != os.path.dirname(path):
        yield path


def _with_slash(path: str) -> str:
    return path.rstrip(os.sep) + os.sep


# What is to be in it.


def new_folder(plans: Sequence[Plan], source: str, output: str) -> NewFolder:
    """What the source becomes by the plans. Raises KlogError if it cannot be listed, or a plan is not about it."""
    files, folders = _listed(source)
    draft = Draft(source, files)
    for plan in plans:
        _change(draft, plan)
    changed = draft.changed()
    unchanged_folders = {"", *folders} - {os.path.dirname(name) for name in changed}
    unchanged = frozenset(draft.files.keys() - changed)
    return NewFolder(output, draft.files, source, folders, unchanged, frozenset(unchanged_folders))


def _listed(source: str) -> tuple[dict[str, DraftFile], list[str]]:
    """Files by path below the source, and the folders, outer ones first; links as what they lead to.

    What is neither file nor folder (a socket, a link that leads nowhere) is nothing to a broker, and is left out.
    """
    files: dict[str, DraftFile] = {}
    folders = [""]
    for folder in folders:
        try:
            with os.scandir(os.path.join(source, folder)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            for entry in found:
                name = os.path.join(folder, entry.name)
                if entry.is_dir():
                    _check_no_loop(source, entry)
                    folders.append(name)
                elif entry.is_file():
                    stat = entry.stat()
                    files[name] = DraftFile((Piece(entry.path, 0, stat.st_size),), stat.st_mtime_ns)
        except OSError as error:
            raise unreadable(os.path.join(source, folder), error) from error
    return files, folders[1:]


def _check_no_loop(source: str, entry: os.DirEntry[str]) -> None:
    around = _with_slash(os.path.realpath(entry.path))
    if entry.is_symlink() and _with_slash(os.path.realpath(os.path.dirname(entry.path))).startswith(around):
        raise Refused("a link to a folder that it lies in cannot be copied", path=entry.path)


def _change(draft: Draft, plan: Plan) -> None:
    """Carry out the plan's steps on the draft."""
    below = os.path.relpath(os.path.realpath(plan.path), os.path.realpath(draft.path))
    if below.split(os.sep)[0] == os.pardir:
        raise Refused("the plan is not about what the result is made from", path=plan.path)

    def at(path: str) -> str:
        return os.path.normpath(os.path.join(below, path))

    for step in plan.steps:
        match step:
            case Write():
                draft.write(at(step.path), step.content, step.mtime_ns)
            case Truncate():
                draft.truncate(at(step.path), step.size)
            case Rename():
                draft.rename(at(step.path), at(step.to))
            case Delete():
                draft.delete(at(step.path))


def _check_room(folders: Sequence[NewFolder]) -> None:
    needed: dict[str, int] = {}
    for folder in folders:
        parent = os.path.dirname(os.path.realpath(folder.path))
        sizes = (
            on_disk(os.path.join(folder.source, name), file.size)
            if name in folder.unchanged
            else file.size + BLOCK_BYTES
            for name, file in folder.files.items()
        )
        needed[parent] = needed.get(parent, 0) + sum(sizes) + BLOCK_BYTES * (1 + len(folder.folders))
    check_space(needed)


def _check_source(plans: Sequence[Plan], result: NewFolder) -> None:
    """Raises StalePlan if the source changed while it was copied."""
    for plan in plans:
        check_facts(plan)
    files, folders = _listed(result.source)
    for name in sorted(result.unchanged):
        if files.get(name) != result.files[name]:
            raise StalePlan("changed while it was copied", path=os.path.join(result.source, name))
    if list(folders) != list(result.folders):
        raise StalePlan("a folder came or went while it was copied", path=result.source)


# Building it.


@contextmanager
def _built(disk: Disk, folders: Sequence[NewFolder]) -> Iterator[list[str]]:
    """The folders under passing names, synced; they go if they are not renamed by the end."""
    parts = [_passing_name(os.path.realpath(folder.path)) for folder in folders]
    try:
        for folder, part in zip(folders, parts, strict=True):
            _build(disk, folder, part)
        yield parts
    finally:
        for part in parts:
            with suppress(OSError):  # what is left has a name that says so, and the error that led here is told
                _remove(disk, part)


def _passing_name(place: str) -> str:
    """Beside the place. A broker that meets it in a log dir takes it for a partition that is being deleted."""
    mark, found = uuid.uuid4().hex, find_partition_dir_name(own_name(place))
    if found is None:
        return f"{place}.{mark}.part"
    doomed = PartitionDirName(found.topic, found.partition, mark, PartitionDirState.DELETE)
    return os.path.join(os.path.dirname(place), build_partition_dir_name(doomed))


def _build(disk: Disk, folder: NewFolder, part: str) -> None:
    disk.mkdir(part)
    for name in folder.folders:
        disk.mkdir(os.path.join(part, name))
    for name, file in sorted(folder.files.items()):
        path = os.path.join(part, name)
        disk.write(path, file.content, _about_file(folder, name))
        disk.sync(path)
        (check_size if name in folder.unchanged else check_written)(path, file.content)
    for name in reversed(["", *folder.folders]):
        path = os.path.join(part, name)
        like = about(os.path.join(folder.source, name)).permitted()
        disk.describe(path, like if name in folder.unchanged_folders else like.written_now())
        disk.sync_dir(path)


def _about_file(folder: NewFolder, name: str) -> About:
    """As the source's file of that name, else as the one that its first bytes are from, else as those beside it."""
    file, before = folder.files[name], os.path.join(folder.source, name)
    first = [part.path for part in file.content[:1] if isinstance(part, Piece)]
    like = next(filter(os.path.isfile, [before, *first]), None)
    found = about(like) if like is not None else about_new_file(os.path.dirname(before))
    return replace(found, mtime_ns=file.mtime_ns).permitted()


def _publish(disk: Disk, part: str, place: str) -> None:
    disk.rename(part, place)
    disk.sync_dir(os.path.dirname(place))


def _remove(disk: Disk, folder: str) -> None:
    if not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            _remove(disk, entry.path)
        else:
            disk.delete(entry.path)
    disk.rmdir(folder)
