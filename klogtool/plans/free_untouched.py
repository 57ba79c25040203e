"""free: what is large and stays, with the reason.

What fills a disk may be none of the kinds that free knows. A large file stands for itself. What a broker goes on with
is counted for each partition dir, and many small files are counted for the folder in which they lie.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum

from msgspec import Struct

from klogtool.format.names import FileKind, FileName, is_visible_to_java, parse_file_name
from klogtool.log.logdir import KINDS_IN_LOG_DIR, REMOTE_INDEX_CACHE
from klogtool.plans.free_candidates import PartitionDir, is_of_a_run
from klogtool.plans.free_choice import Name, find_name
from klogtool.plans.free_segments import is_metadata
from klogtool.verify.findings import Kind

LARGE_BYTES = 1 << 20
_OF_KINDS = (".deleted", ".cleaned")  # of a kind that was not asked for, or free would have found it
_BETWEEN = (*_OF_KINDS, ".swap")
_HALF_WRITTEN = ".tmp"  # CheckpointFile and others write so, and rename
_OF_PARTITIONS = frozenset(
    {kind for kind in FileKind if kind.has_base_offset}
    | {FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA}
)
_OF_METADATA = _OF_PARTITIONS | {FileKind.KRAFT_SNAPSHOT, FileKind.QUORUM_STATE}


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
    ONLY_COPY = "only-copy"
    """A start deletes it, and no other file has its records."""
    LEFT_OVER = "left-over"
    """Half-written, or a snapshot to be deleted: a broker does away with it and does not read it."""
    REMOTE_CACHE = "remote-cache"
    """Indexes of remote segments: a broker fetches them again."""
    NOT_ASKED = "not-asked"
    """Of a kind that --only or --except leaves out."""
    IN_USE = "in-use"
    """A broker goes on with it: segments and what belongs to them, and the files of a log dir."""


class Untouched(Struct, frozen=True, rename={"on_disk": "bytes"}):
    """A file that stays, or several of a folder: in use, or small ones. on_disk: allocated bytes."""

    path: str
    on_disk: int
    files: int
    why: UntouchedReason


def find_untouched(
    log_dir: str, folders: Sequence[PartitionDir], known: Collection[str], only_copies: Collection[str]
) -> list[Untouched]:
    """Return what is large, the largest first. known: paths of files that free could give up. only_copies: paths of
    those that it could not, since no other file has their records."""
    paths = {folder.path for folder in folders}
    inside = (within for path in sorted(paths) for within in _folders_in(path))
    untouched = [*_of_partitions(folders, known, only_copies), *_walk_folders([log_dir, *inside], paths, known)]
    return sorted(_large(untouched), key=lambda one: (-one.on_disk, one.path))


def _large(untouched: Iterable[tuple[str, Untouched]]) -> Iterator[Untouched]:
    """Yield what is large; of the rest, sums. untouched: each with the folder that it counts for."""
    sums: dict[tuple[str, UntouchedReason], tuple[int, int]] = {}
    for folder, one in untouched:
        is_sum = one.why is UntouchedReason.IN_USE
        if one.why is UntouchedReason.UNREADABLE or (one.on_disk >= LARGE_BYTES and not is_sum):
            yield one
        else:
            on_disk, files = sums.get((folder, one.why), (0, 0))
            sums[folder, one.why] = on_disk + one.on_disk, files + one.files
    for (folder, why), (on_disk, files) in sums.items():
        if on_disk >= LARGE_BYTES:
            yield Untouched(folder, on_disk, files, why)


def _of_partitions(
    folders: Sequence[PartitionDir], known: Collection[str], only_copies: Collection[str]
) -> Iterator[tuple[str, Untouched]]:
    for folder in folders:
        kinds = _OF_METADATA if is_metadata(folder) else _OF_PARTITIONS
        for file, name in folder.files():
            path = name.fact.path
            if path in only_copies:
                yield folder.path, Untouched(path, name.on_disk, 1, UntouchedReason.ONLY_COPY)
            elif path not in known:
                yield folder.path, Untouched(path, name.on_disk, 1, _why(file, name, folder, kinds))


def _why(file: FileName, listed: Name, folder: PartitionDir, kinds: Collection[FileKind]) -> UntouchedReason:
    name = file.name
    if listed.links > 1:
        return UntouchedReason.LINKED
    if is_of_a_run(name):
        return UntouchedReason.RUN
    if not folder.is_live:
        return UntouchedReason.NOT_ASKED
    if file.kind is FileKind.KRAFT_SNAPSHOT and file.suffix and file.kind in kinds:
        return UntouchedReason.LEFT_OVER  # KafkaRaftLog.recoverSnapshots
    if folder.is_between and file.suffix in _BETWEEN:
        return UntouchedReason.INTERRUPTED
    if (name.endswith(_OF_KINDS) and is_visible_to_java(name)) or name in folder.orphans:
        return UntouchedReason.NOT_ASKED
    if file.kind not in kinds or (file.kind.has_base_offset and (file.base_offset is None or file.suffix)):
        return UntouchedReason.FOREIGN
    return _of_text(file)


def _of_text(file: FileName) -> UntouchedReason:
    if not file.suffix:
        return UntouchedReason.IN_USE
    return UntouchedReason.LEFT_OVER if file.suffix == _HALF_WRITTEN else UntouchedReason.FOREIGN


def _folders_in(partition_dir: str) -> Iterator[str]:
    """Yield the folders that somebody put into a partition dir; none if it cannot be listed, which others tell."""
    with suppress(OSError), os.scandir(partition_dir) as entries:
        yield from sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))


def _walk_folders(
    folders: Sequence[str], partition_dirs: Collection[str], known: Collection[str]
) -> Iterator[tuple[str, Untouched]]:
    """Yield the files of these folders and of those in them that are no partition dirs, on the file system of the
    first, which is the log dir; each with the one of its folders that is nearest to there."""
    log_dir, device = folders[0], os.stat(folders[0]).st_dev
    waiting = [(folder, folder) for folder in folders]
    while waiting:
        top, folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            yield top, Untouched(folder, 0, 1, UntouchedReason.UNREADABLE)
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.path not in partition_dirs and entry.stat(follow_symlinks=False).st_dev == device:
                    waiting.append((entry.path if folder == log_dir else top, entry.path))
            elif entry.path not in known and (name := find_name(entry.path)) is not None:
                yield (
                    top,
                    Untouched(entry.path, name.on_disk, 1, _why_outside(os.path.relpath(entry.path, log_dir), name)),
                )


def _why_outside(path: str, name: Name) -> UntouchedReason:
    """Return why a file outside of partition dirs stays. path: from the log dir."""
    if name.links > 1:
        return UntouchedReason.LINKED
    if os.path.dirname(path) == REMOTE_INDEX_CACHE:
        return UntouchedReason.REMOTE_CACHE
    file = parse_file_name(path)
    return _of_text(file) if file.kind in KINDS_IN_LOG_DIR else UntouchedReason.FOREIGN
