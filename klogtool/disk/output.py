"""Carries out plans into a new folder; the source does not change.

Order of effects: check the place, the facts and the space; build the folder beside its place under a temporary name
that a broker would tolerate and delete, every file synced and read back; check the source once more; then one rename
makes the complete folder appear. A kill before that leaves the folder under its temporary name, and it may be deleted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange, content_size
from klogtool.broker.draft import Draft, DraftFile, file_on_disk
from klogtool.broker.spools import MakeSpool
from klogtool.disk.attributes import FileAttributes, attributes_of, attributes_of_new_file
from klogtool.disk.causes import FolderRefusal, OutputRefusal
from klogtool.disk.disk import Disk, remove_folder
from klogtool.disk.facts import check_facts
from klogtool.disk.folders import check_no_folders
from klogtool.disk.lock import check_free, locked
from klogtool.disk.putting import copy
from klogtool.disk.space import BLOCK_BYTES, check_space, on_disk
from klogtool.disk.spooling import SpoolFolder, put_content, spooled_bytes
from klogtool.errors import FileCause, KlogError, Refused, StalePlan
from klogtool.format.names import PartitionDirName, PartitionDirState, build_partition_dir_name
from klogtool.log.file import ReadErrors
from klogtool.log.folder import find_partition_dir_name, is_file, is_folder, own_name
from klogtool.log.log_dirs import is_log_dir, is_partition_dir, log_dirs_naming
from klogtool.plans.plan import Plan, Rename, SavedWrite, Truncate, files_after, names_of
from klogtool.plans.saved_plan import SavedPlan

FOLDER_MODE = 0o755  # of a folder whose files have a mode that was given


class NewFolder(Struct, frozen=True):
    """A folder to build from `source`. folders: its subfolders, outer ones first. copied: files that are copied
    unchanged. plans: their steps make the other files. further: additional files. ready: files of all these that are
    already written and synced in the same file system, by name. like: mode and owner of all files and folders; None: as
    those of the source."""

    path: str
    source: str
    folders: Sequence[str] = ()
    copied: Mapping[str, DraftFile] = field(default_factory=dict)
    plans: Sequence[SavedPlan] = ()
    further: Mapping[str, Content] = field(default_factory=dict)
    ready: Mapping[str, str] = field(default_factory=dict)
    like: FileAttributes | None = None


class NewFile(Struct, frozen=True):
    """A file of a new folder. name: its path below the folder. copied: its bytes are the source's, unchanged."""

    name: str
    file: DraftFile
    like: FileAttributes
    copied: bool


def carry_out_to(
    plans: Sequence[SavedPlan],
    source: str,
    output: str,
    *,
    beside: Mapping[str, Mapping[str, Content]] | None = None,
    ready: Callable[[NewFolder], Mapping[str, str]] = lambda _: {},
    disk: Disk | None = None,
) -> None:
    """Write to `output` what the source becomes by the plans. `output` must not exist, or be empty.

    source: the partition dir or log dir that the plans are about, whole or in parts. If it is a partition dir, the log
    dir around it does not change, even if there are plans for it. beside: additional new folders, by path, with their
    files. ready: returns where files of the output are already, by name; these are moved. Unchanged files are copied
    with time and mode, and with the owner if permitted; a hard link would let a broker write into both.

    Raises Refused, StalePlan or KlogError, and OSError if the system refuses; then there is no output.
    """
    disk = disk or Disk()
    around = os.path.dirname(os.path.realpath(source))
    plans = [plan for plan in plans if os.path.realpath(plan.path) != around]
    for place in [output, *(beside or {})]:
        check_place(place, source)
    check_no_folders(plans, FolderRefusal.WITHOUT_OUTPUT())
    check_facts(plans)
    result = new_folder(plans, source, output)
    result = replace(result, ready=ready(result))
    folders = [*(NewFolder(path, source, further=files) for path, files in (beside or {}).items()), result]
    _check_room(folders)
    with (
        _locked_around(disk, [folder.path for folder in folders]),
        spools_beside(output, disk) as spools,
        _built(disk, folders, spools.make_spool) as parts,
    ):
        _check_source(result)
        for folder, part in zip(folders, parts, strict=True):
            _publish(disk, part, os.path.realpath(folder.path))


@contextmanager
def _locked_around(disk: Disk, places: Iterable[str]) -> Iterator[None]:
    """Context in which no broker can lock the log dirs around these places. Raises LogDirInUse if one has them."""
    with ExitStack() as held:
        for folder in {folder for place in places for folder in log_dirs_naming(place)}:
            held.enter_context(locked(disk, folder))
        yield


def spools_beside(output: str, disk: Disk | None = None) -> SpoolFolder:
    """Return a folder for contents that are written while the plan is still being decided."""
    return SpoolFolder(_passing_name(os.path.realpath(output)), disk or Disk())


def check_place(output: str, source: str | None) -> None:
    """Raises Refused if no output may be here, or if a broker has the log dir; KlogError if the parent does not
    exist. source: None: there is none."""
    place = os.path.realpath(output)
    parent = os.path.dirname(place)
    if not os.path.isdir(parent):
        raise KlogError(FileCause.NO_FOLDER(), path=parent)
    read = None if source is None else _with_slash(os.path.realpath(source))
    if read is not None and (_with_slash(place).startswith(read) or read.startswith(_with_slash(place))):
        raise Refused(OutputRefusal.IN_SOURCE(source=str(source)), path=output)
    if any(map(is_partition_dir, _ancestors(place))):
        raise Refused(OutputRefusal.IN_PARTITION_DIR(), path=output)
    for log_dir in log_dirs_naming(output):
        check_free(log_dir)
    if is_log_dir(parent) and find_partition_dir_name(own_name(place)) is None:
        raise Refused(OutputRefusal.NO_PARTITION_NAME(), path=output)
    _check_empty(place, output)


def check_in_no_log_dir(output: str, what: str) -> None:
    """Raises Refused if the output would be in a log dir or a partition dir. what: what is to be written."""
    for above in [*_ancestors(os.path.realpath(output)), os.sep]:
        if is_log_dir(above) or is_partition_dir(above):
            raise Refused(OutputRefusal.IN_LOG_DIR(what=what), path=output)


def _check_empty(place: str, output: str) -> None:
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(OutputRefusal.NO_FOLDER(why=(error.strerror or "").lower()), path=output) from error
    if names:
        raise Refused(OutputRefusal.NOT_EMPTY(), path=output)
    if os.path.ismount(place):
        raise Refused(OutputRefusal.MOUNT_POINT(), path=output)


def _ancestors(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != os.path.dirname(path):
        yield path


def _with_slash(path: str) -> str:
    return path.rstrip(os.sep) + os.sep


# What the new folder contains.


def new_folder(plans: Sequence[SavedPlan], source: str, output: str) -> NewFolder:
    """List what the source becomes by the plans. Raises KlogError if it cannot be listed, or a plan is about other
    files."""
    files, folders = _listed(source)
    whole = NewFolder(output, source, folders, files, plans)
    changed = set(_names_changed(whole))
    copied = {name: file for name, file in files.items() if not _is_within(name, changed)}
    return replace(whole, folders=_out_of_the_way(folders, changed), copied=copied)


def _out_of_the_way(folders: Iterable[str], changed: set[str]) -> list[str]:
    """Return the folders without those whose name a plan gives to a file: salvage writes a file there."""
    return [name for name in folders if not _is_within(name, changed)]


def _is_within(name: str, names: set[str]) -> bool:
    """Return whether the name is one of `names`, or below one."""
    while name:
        if name in names:
            return True
        name = os.path.dirname(name)
    return False


def _names_changed(folder: NewFolder) -> Iterator[str]:
    """Yield the names that the plans use, relative to the source."""
    for plan in folder.plans:
        yield from _below(folder.source, plan.path, (name for step in plan.steps for name in names_of(step)))


def _below(source: str, path: str, names: Iterable[str]) -> list[str]:
    """Turn names relative to a plan's path into names relative to the source."""
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(source))
    if below.split(os.sep)[0] == os.pardir:
        raise Refused(OutputRefusal.OTHER_FILES(), path=path)
    return [os.path.normpath(os.path.join(below, name)) for name in names]


def _listed(source: str) -> tuple[dict[str, DraftFile], list[str]]:
    """Return the files by path below the source, and the folders, outer ones first. Links are followed.

    Anything else (a socket, a broken link) is ignored by a broker, and is left out.
    """
    files: dict[str, DraftFile] = {}
    folders = [""]
    if not os.path.lexists(source):  # the plan creates it
        return files, []
    for folder in folders:
        with ReadErrors(os.path.join(source, folder)):
            with os.scandir(os.path.join(source, folder)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
            for entry in listed:
                name = os.path.join(folder, entry.name)
                if is_folder(entry):
                    _check_no_loop(entry)
                    folders.append(name)
                elif is_file(entry):
                    files[name] = file_on_disk(entry.path, entry.stat())
    return files, folders[1:]


def _check_no_loop(entry: os.DirEntry[str]) -> None:
    around = _with_slash(os.path.realpath(entry.path))
    if entry.is_symlink() and _with_slash(os.path.realpath(os.path.dirname(entry.path))).startswith(around):
        raise Refused(OutputRefusal.ENDLESS_LINK(), path=entry.path)


def _walk_written(folder: NewFolder, make_spool: MakeSpool | None) -> Iterator[tuple[str, DraftFile]]:
    """Yield the files that are not plain copies, plan after plan, because all together may not fit in memory."""
    for plan in folder.plans:
        yield from _changed_files(plan.decided(make_spool), folder.source)
    for name, content in folder.further.items():
        yield name, DraftFile(content)


def _changed_files(plan: Plan, source: str) -> Iterator[tuple[str, DraftFile]]:
    before = {name: file for step in plan.steps for name in names_of(step) if (file := _current_file(plan, name))}
    files = files_after(Draft(plan.path, before), plan.steps)
    yield from zip(_below(source, plan.path, files), files.values(), strict=True)


def _current_file(plan: Plan, name: str) -> DraftFile | None:
    path = os.path.join(plan.path, name)
    if not os.path.isfile(path):
        return None
    status = os.stat(path)
    return DraftFile((FileRange(path, 0, status.st_size),), status.st_mtime_ns)


def _check_room(folders: Sequence[NewFolder]) -> None:
    needed: dict[str, int] = {}
    for folder in folders:
        copied = (on_disk(os.path.join(folder.source, name), file.size) for name, file in folder.copied.items())
        written = (_room_of(plan) for plan in folder.plans)
        further = (content_size(content) + BLOCK_BYTES for content in folder.further.values())
        parent = os.path.dirname(os.path.realpath(folder.path))
        there = sum(os.stat(place).st_size for place in folder.ready.values())
        size = sum((*copied, *written, *further)) - there + BLOCK_BYTES * (1 + len(folder.folders))
        needed[parent] = needed.get(parent, 0) + size
    check_space(needed)


def _room_of(plan: SavedPlan) -> int:
    """Return the bytes of the files that the plan's steps leave."""
    sizes: dict[str, int] = {}
    for step in plan.steps:
        file = sizes.pop(step.path, None)
        if file is None and os.path.isfile(path := os.path.join(plan.path, step.path)):
            file = os.stat(path).st_size
        match step:
            case SavedWrite():
                sizes[step.path] = step.size
            case Truncate() if file is not None:
                sizes[step.path] = step.size
            case Rename() if file is not None:
                sizes[step.to] = file
    return sum(sizes.values()) + BLOCK_BYTES * len(sizes) - spooled_bytes(plan)


def _check_source(result: NewFolder) -> None:
    """Raises StalePlan if the source changed while it was copied."""
    check_facts(result.plans)
    files, folders = _listed(result.source)
    for name, file in result.copied.items():
        source = files.get(name)
        if source is None or source != file or (source.ino, source.ctime_ns) != (file.ino, file.ctime_ns):
            raise StalePlan(OutputRefusal.CHANGED(), path=os.path.join(result.source, name))
    if _out_of_the_way(folders, set(_names_changed(result))) != result.folders:
        raise StalePlan(OutputRefusal.OTHER_FOLDERS(), path=result.source)


# Building the folder.


@contextmanager
def _built(disk: Disk, folders: Sequence[NewFolder], make_spool: MakeSpool) -> Iterator[list[str]]:
    """Build the folders under temporary names, synced. They are deleted unless they are renamed by the end of the
    context."""
    parts = [_passing_name(os.path.realpath(folder.path)) for folder in folders]
    try:
        for folder, part in zip(folders, parts, strict=True):
            build_folder(disk, folder, part, make_spool)
        yield parts
    finally:
        for part in parts:
            with suppress(OSError):  # what stays has a temporary name; the first error is the one to report
                remove_folder(disk, part)


def _passing_name(place: str) -> str:
    """Return a temporary name beside the place. A broker that finds it in a log dir treats it as a partition being
    deleted."""
    mark, partition_dir = uuid.uuid4().hex, find_partition_dir_name(own_name(place))
    if partition_dir is None:
        return f"{place}.{mark}.part"
    doomed = PartitionDirName(partition_dir.topic, partition_dir.partition, mark, PartitionDirState.DELETE)
    return os.path.join(os.path.dirname(place), build_partition_dir_name(doomed))


def listed_files(source: str, plans: Sequence[SavedPlan]) -> dict[str, DraftFile]:
    """Return the files directly in a folder that the plans do not change. Raises KlogError."""
    whole = new_folder(plans, source, source)
    return {name: file for name, file in whole.copied.items() if os.sep not in name}


def build_folder(
    disk: Disk, folder: NewFolder, part: str, make_spool: MakeSpool | None = None, *, is_there: bool = False
) -> None:
    """Build a new folder under a temporary name, synced. is_there: an empty folder of that name exists already.
    make_spool: for plans that have to be decided again."""
    if not is_there:
        disk.mkdir(part)
    for name in folder.folders:
        disk.mkdir(os.path.join(part, name))
    for file in walk_new_files(folder, make_spool):
        path = os.path.join(part, file.name)
        if file.name in folder.ready:
            disk.rename(folder.ready[file.name], path)
            disk.describe(path, file.like)
            disk.sync(path)
        else:
            write_new_file(disk, file, path)
    changed = {os.path.dirname(name) for name in (*_names_changed(folder), *folder.further)}
    for name in reversed(["", *folder.folders]):
        path = os.path.join(part, name)
        if folder.like is None:
            like = attributes_of(_there(os.path.join(folder.source, name))).permitted()
        else:
            like = replace(folder.like, mode=FOLDER_MODE)
        disk.describe(path, like.written_now() if name in changed else like)
        disk.sync_dir(path)


def walk_new_files(folder: NewFolder, make_spool: MakeSpool | None = None) -> Iterator[NewFile]:
    """Yield all files of the new folder. make_spool: for plans that have to be decided again."""
    of_new_file = cache(attributes_of_new_file)
    for name, file in folder.copied.items():
        yield NewFile(name, file, attributes_of_file(folder.source, name, file, of_new_file), copied=True)
    for name, file in _walk_written(folder, make_spool):
        like = folder.like or attributes_of_file(folder.source, name, file, of_new_file)
        yield NewFile(name, file, like, copied=False)


def write_new_file(disk: Disk, file: NewFile, path: str) -> None:
    """Write one of these files, sync it and check it. A file that is only copied, renamed or cut is checked by its
    size. Raises as `put` does."""
    content = file.file.content
    if file.copied or all(isinstance(part, FileRange) for part in content):
        copy(disk, path, content, file.like)
    else:
        put_content(disk, path, content, file.like)


def attributes_of_file(
    source: str, name: str, file: DraftFile, of_new_file: Callable[[str], FileAttributes] = attributes_of_new_file
) -> FileAttributes:
    """Return mode, owner and times for a new file: from the file that it is (renamed or cut), else from the file that
    it replaces, else from the files beside it.

    of_new_file: what a new file in a folder gets; for callers that have many.
    """
    before = os.path.join(source, name)
    moved = [part.path for part in file.content if isinstance(part, FileRange) and len(file.content) == 1]
    like = next(filter(os.path.isfile, [*moved, before]), None)
    attributes = attributes_of(like) if like is not None else of_new_file(_there(os.path.dirname(before)))
    return replace(attributes, mtime_ns=file.mtime_ns).permitted()


def _there(folder: str) -> str:
    """Return the folder, or the nearest one above it that exists."""
    folder = os.path.abspath(folder)
    return folder if os.path.isdir(folder) or folder == os.sep else _there(os.path.dirname(folder))


def _publish(disk: Disk, part: str, place: str) -> None:
    disk.rename(part, place)
    disk.sync_dir(os.path.dirname(place))


def write_folder(
    output: str,
    files: Mapping[str, Content],
    source: str | None,
    *,
    folders: Sequence[str] = (),
    like: FileAttributes | None = None,
) -> None:
    """Write a new folder of new files, without a plan. `output` must not exist, or be empty.

    folders: its subfolders, outer ones first. source: a file or folder that the output may not contain. like: mode and
    owner; None: as those around it. Raises as `carry_out_to` does; then there is no output.
    """
    disk = Disk()
    check_place(output, source)
    folder = NewFolder(output, output, folders, further=files, like=like)
    _check_room([folder])
    with (
        _locked_around(disk, [output]),
        spools_beside(output, disk) as spools,
        _built(disk, [folder], spools.make_spool) as parts,
    ):
        _publish(disk, parts[0], os.path.realpath(output))
