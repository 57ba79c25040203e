"""Log dirs that lie elsewhere, for code that reads folders of this machine: names and sizes first, bytes when needed.

The mirror of a log dir has all its files, most of them as holes; what tells of the log dir as a whole is really there.
A task fetches the partition dir that it is about, and lets go of it when it is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.disk.scratch import Scratch
from klogtool.format.names import FileKind, parse_file_name
from klogtool.lazy_dataclasses import dataclass, replace
from klogtool.log.partition import Partition
from klogtool.repair.findings import Finding
from klogtool.repair.verify import Target, VerifiedPartition
from klogtool.spark.storage import AHEAD_BYTES, LOCAL_SCHEMES, Place, Storage, Stored, open_place

METADATA_FOLDER = "__cluster_metadata-0"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A log dir that lies elsewhere. path: where its mirror is; root: what the storage calls it."""

    place: Place
    root: str
    path: str

    @property
    def uri(self) -> str:
        """As it was given, without a query."""
        return self.place.uri.partition("?")[0].rstrip("/")


def is_elsewhere(path: str) -> bool:
    """Whether a path is a URI that is not of this machine."""
    return Place(path).scheme not in LOCAL_SCHEMES


def make_mirror(uri: str, scratch: Scratch, number: int) -> Mirror:
    """The mirror of a log dir, or of a partition dir. Raises Unreadable where it cannot be listed."""
    place = Place(uri)
    storage, root = open_place(place)
    name = os.path.basename(root) or "logdir"
    made = Mirror(place, root, scratch.folder(str(number), name))
    for stored in storage.list(root):
        below = os.path.relpath(stored.path, root)
        inside = os.path.join(str(number), name, below)
        scratch.folder(os.path.dirname(inside))
        if _tells_of_all(below):
            scratch.write(inside, _chunks(storage, stored))
        else:
            scratch.hole(inside, stored.size)
    return made


def _tells_of_all(below: str) -> bool:
    folder, name = os.path.split(below)
    return not folder or folder == METADATA_FOLDER or parse_file_name(name).kind is FileKind.PARTITION_METADATA


def _chunks(storage: Storage, stored: Stored) -> Iterator[bytes]:
    with storage.open(stored) as file:
        at = 0
        while at < stored.size and (piece := file.read(at, AHEAD_BYTES)):
            yield piece
            at += len(piece)


def mirror_of(path: str, mirrors: Sequence[Mirror]) -> Mirror | None:
    """The mirror that a path of this machine lies in."""
    return next((m for m in mirrors if path == m.path or path.startswith(m.path + os.sep)), None)


def fetch_folder(mirror: Mirror, path: str, scratch: Scratch) -> str:
    """All files of the folder that a path in the mirror stands for; where they are. Raises KlogError."""
    storage, _ = open_place(mirror.place)
    below = os.path.relpath(path, mirror.path)
    root = os.path.normpath(os.path.join(mirror.root, below))
    name = os.path.basename(path)
    made = scratch.folder(name)
    for stored in storage.list(root):
        inside = os.path.join(name, os.path.relpath(stored.path, root))
        scratch.folder(os.path.dirname(inside))
        scratch.write(inside, _chunks(storage, stored))
    return made


# Back to the names that users know.


def named_as(found: Finding, path: str, uri: str) -> Finding:
    """A finding about files under a path, as one about a URI."""
    told = {name: text.replace(path, uri) for name in ("path", "detail", "cure") if (text := getattr(found, name))}
    return replace(found, **told)


def verified_as(found: VerifiedPartition, target: Target, path: str) -> VerifiedPartition:
    """What was found in a copy at `path`, as found in the target."""
    here = target.partition.path
    last = found.ends.last_segment
    ends = replace(
        found.ends, partition=Partition(here), last_segment=None if last is None else last.replace(path, here)
    )
    return replace(found, findings=tuple(named_as(one, path, here) for one in found.findings), ends=ends)
