"""free: large files in a log dir that it does not touch, each with the reason.

What fills a disk may be none of the kinds that free knows.

What a broker goes on with is counted for each partition dir; any other file stands for itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from enum import Enum

from msgspec import Struct

from klogtool.format.names import FileKind, is_found_by_java, parse_file_name
from klogtool.plans.free_candidates import PartitionDir, is_of_a_run
from klogtool.plans.free_choice import Name, find_name
from klogtool.verify.findings import Kind

LARGE_BYTES = 1 << 20
_OF_KINDS = (".deleted", ".cleaned")  # of a kind that was not asked for, or free would have found it


class UntouchedReason(Enum):
    """Why free leaves a file alone."""

    FOREIGN = "foreign"
    """No file of Kafka: nobody but the user can say what it is."""
    LINKED = "linked"
    """It has another name elsewhere, so deleting this one frees nothing."""
    UNREADABLE = Kind.UNREADABLE
    """A folder that cannot be listed."""
    RUN = "run"
    """A run of klogtool that was cut short needs it."""
    INTERRUPTED = "interrupted"
    """Of an interrupted cleaning: the next start decides by it."""
    NOT_ASKED = "not-asked"
    """Of a kind that --only or --except leaves out."""
    IN_USE = "in-use"
    """A broker goes on with it: segments and what belongs to them."""


class Untouched(Struct, frozen=True, rename={"on_disk": "bytes"}):
    """A file that stays; or, in use, all such files of a partition dir. on_disk: allocated bytes."""

    path: str
    on_disk: int
    files: int
    why: UntouchedReason


def find_untouched(log_dir: str, folders: Sequence[PartitionDir], known: Collection[str]) -> list[Untouched]:
    """Return what is large, the largest first. known: paths of files that free could give up."""
    paths = {folder.path for folder in folders}
    inside = (within for path in sorted(paths) for within in _folders_in(path))
    found = [*_of_partitions(folders, known), *_walk_folders([log_dir, *inside], paths, known)]
    large = (one for one in found if one.on_disk >= LARGE_BYTES or one.why is UntouchedReason.UNREADABLE)
    return sorted(large, key=lambda one: (-one.on_disk, one.path))


def _of_partitions(folders: Sequence[PartitionDir], known: Collection[str]) -> Iterator[Untouched]:
    for folder in folders:
        in_use = files = 0
        for file, name in folder.files():
            if name.fact.path in known:
                continue
            why = _why(file.name, name, folder)
            if why is UntouchedReason.IN_USE:
                in_use, files = in_use + name.on_disk, files + 1
            else:
                yield Untouched(name.fact.path, name.on_disk, 1, why)
        yield Untouched(folder.path, in_use, files, UntouchedReason.IN_USE)


def _why(name: str, found: Name, folder: PartitionDir) -> UntouchedReason:
    file = parse_file_name(name)
    if found.links > 1:
        return UntouchedReason.LINKED
    if is_of_a_run(name):
        return UntouchedReason.RUN
    if not folder.is_live:
        return UntouchedReason.NOT_ASKED
    if folder.is_between and file.suffix:
        return UntouchedReason.INTERRUPTED
    if (name.endswith(_OF_KINDS) and is_found_by_java(name)) or name in folder.orphans:
        return UntouchedReason.NOT_ASKED
    is_named = file.kind is not FileKind.FOREIGN and (file.base_offset is not None or not file.kind.has_base_offset)
    return UntouchedReason.IN_USE if is_named else UntouchedReason.FOREIGN


def _folders_in(partition_dir: str) -> Iterator[str]:
    """Yield the folders that somebody put into a partition dir; none if it cannot be listed, which others tell."""
    with suppress(OSError), os.scandir(partition_dir) as entries:
        yield from sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))


def _walk_folders(
    folders: Sequence[str], partition_dirs: Collection[str], known: Collection[str]
) -> Iterator[Untouched]:
    """Yield the files of these folders and of those in them that are no partition dirs, on the file system of the
    first."""
    device, waiting = os.stat(folders[0]).st_dev, [*folders]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            yield Untouched(folder, 0, 1, UntouchedReason.UNREADABLE)
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.path not in partition_dirs and entry.stat(follow_symlinks=False).st_dev == device:
                    waiting.append(entry.path)
            elif entry.path not in known and (found := find_name(entry.path)) is not None:
                yield Untouched(
                    entry.path, found.on_disk, 1, UntouchedReason.LINKED if found.links > 1 else UntouchedReason.FOREIGN
                )
