"""Log dirs in other storage, for code that reads local folders: names and sizes first, bytes when needed.

The mirror of a log dir has all its files, most of them as holes; files about the log dir as a whole are really there. A
task fetches the partition dir that it works on, and deletes it when it is done.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.causes import from_text
from klogtool.disk.scratch import Scratch
from klogtool.escape import quoted
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.logdir import KINDS_IN_LOG_DIR
from klogtool.log.partition import Partition
from klogtool.log.storage import AHEAD_BYTES, LOCAL_SCHEMES, Place, Storage, Stored, open_place
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Target, VerifiedPartition, VerifyOptions, verify_target


class Mirror(Struct, frozen=True):
    """A mirror. root: what it is of, as its storage names it; path: the local path of the mirror; only: the file that
    was given, if it was a file."""

    place: Place
    root: str
    path: str
    only: str = ""

    @property
    def local_path(self) -> str:
        """The local path in the mirror of what was given."""
        return os.path.join(self.path, self.only) if self.only else self.path


def is_elsewhere(place: Place) -> bool:
    """Return whether a place is not on this machine."""
    return place.scheme not in LOCAL_SCHEMES


@contextmanager
def mirrored(places: Iterable[Place]) -> Iterator[list[tuple[str, Mirror | None]]]:
    """Yield a local path for each place, with its mirror if the place is elsewhere.

    All mirrors are deleted at the end. Raises Unreadable if a place cannot be listed.
    """
    with ExitStack() as stack:
        local: list[tuple[str, Mirror | None]] = []
        for place in dict.fromkeys(places):
            if is_elsewhere(place):
                scratch = Scratch.make("mirror")
                stack.callback(scratch.remove)
                mirror = make_mirror(place, scratch)
                local.append((mirror.local_path, mirror))
            else:
                local.append((open_place(place)[1], None))
        yield local


def make_mirror(place: Place, scratch: Scratch) -> Mirror:
    """Return the mirror of a log dir, a folder of log dirs or a partition dir; for a file, that of its folder."""
    storage, root = open_place(place)
    listed, only = storage.list(root), ""
    if listed[0].path == root:
        root, only = os.path.split(root)
        listed = storage.list(root)
    name = os.path.basename(root) or "logdir"
    mirror = Mirror(place, root, scratch.folder(name), only)
    for stored in listed:
        below = os.path.relpath(stored.path, root)
        inside = os.path.join(name, below)
        scratch.folder(os.path.dirname(inside))
        if _tells_of_all(below):
            scratch.write(inside, _chunks(storage, stored))
        else:
            scratch.hole(inside, stored.size)
    if find_partition_dir_name(name) and os.path.dirname(root):
        _mirror_beside(storage, os.path.dirname(root), scratch)
    return mirror


def _tells_of_all(below: str) -> bool:
    folder, name = os.path.split(below)
    kind = parse_file_name(name).kind
    is_of_metadata = os.path.basename(folder) == CLUSTER_METADATA_DIR
    return is_of_metadata or kind in KINDS_IN_LOG_DIR or kind is FileKind.PARTITION_METADATA


def _mirror_beside(storage: Storage, above: str, scratch: Scratch) -> None:
    """Mirror what the surrounding log dir says of a partition dir."""
    for kind in KINDS_IN_LOG_DIR:
        with suppress(Unreadable):
            for stored in storage.list(f"{above}/{kind.value}"):
                scratch.write(kind.value, _chunks(storage, stored))


def _chunks(storage: Storage, stored: Stored) -> Iterator[bytes]:
    with storage.open(stored) as file:
        at = 0
        while at < stored.size and (chunk := file.read(at, AHEAD_BYTES)):
            yield chunk
            at += len(chunk)


def mirror_of(path: str, mirrors: Iterable[Mirror]) -> Mirror | None:
    """Return the mirror that contains a local path."""
    return next((m for m in mirrors if path == m.path or path.startswith(m.path + os.sep)), None)


def verify_anywhere(target: Target, options: VerifyOptions, mirror: Mirror | None) -> VerifiedPartition:
    """Do `verify_target` after fetching the partition dir, if it is in a mirror. What was fetched is deleted afterwards
    in any case."""
    if mirror is None:
        return verify_target(target, options)
    scratch = Scratch.make("partition")
    try:
        path = fetch_folder(mirror, target.partition.path, scratch)
        return verified_as(verify_target(replace(target, partition=Partition(path)), options), target, path)
    finally:
        scratch.remove()


def fetch_folder(mirror: Mirror, path: str, scratch: Scratch) -> str:
    """Fetch all files of the folder that a path in the mirror stands for, and what the log dir around it says of a
    partition; return their local folder. Raises KlogError."""
    storage, _ = open_place(mirror.place)
    root = mirror.root + path.removeprefix(mirror.path)
    name = os.path.basename(path)
    folder = scratch.folder(name)
    for stored in storage.list(root):
        inside = os.path.join(name, os.path.relpath(stored.path, root))
        scratch.folder(os.path.dirname(inside))
        scratch.write(inside, _chunks(storage, stored))
    if find_partition_dir_name(name) is not None:
        _fetch_beside(storage, os.path.dirname(path), os.path.dirname(root), scratch)
    return folder


def _fetch_beside(storage: Storage, mirrored: str, above: str, scratch: Scratch) -> None:
    """Do as `_mirror_beside`, out of a mirror of the log dir where this machine has it."""
    if not os.path.isdir(mirrored):
        _mirror_beside(storage, above, scratch)
        return
    for kind in KINDS_IN_LOG_DIR:
        with suppress(FileNotFoundError):
            scratch.write(kind.value, [pathlib.Path(mirrored, kind.value).read_bytes()])


# Translate paths back to what users know.


def as_user_named(finding: Finding, mirrors: Iterable[Mirror | None]) -> Finding:
    """Translate a finding about files in mirrors to the original places."""
    for mirror in mirrors:
        if mirror is not None:
            finding = named_as(finding, mirror.path, mirror.root)
    return finding


def named_as(finding: Finding, path: str, uri: str) -> Finding:
    """Translate a finding about files under a path to a URI."""
    reason = from_text(finding.detail.replace(path, uri))
    cure = None if finding.cure is None else from_text(_in_command(finding.cure, path, uri))
    return replace(finding, path=finding.path.replace(path, uri), reason=reason, cured_by=cure)


def _in_command(command: str, path: str, uri: str) -> str:
    """Translate the paths in a shell command. A word without quotes gets them where the URI needs them."""
    if (word := quoted(path)) != path:
        return command.replace(word[:-1], quoted(uri)[:-1])  # more of the path may follow before the closing quote
    parts = re.split(rf"(?<!\S)({re.escape(path)}[^\s;|&']*)", command)
    return "".join(
        quoted(uri + part.removeprefix(path)) if n % 2 else part.replace(path, uri) for n, part in enumerate(parts)
    )


def verified_as(verified: VerifiedPartition, target: Target, path: str) -> VerifiedPartition:
    """Translate results for a copy at `path` to the target."""
    here = target.partition.path
    last = verified.ends.last_segment
    ends = replace(
        verified.ends, partition=Partition(here), last_segment=None if last is None else last.replace(path, here)
    )
    return replace(verified, findings=tuple(named_as(one, path, here) for one in verified.findings), ends=ends)
