"""Facts: which files and folders a decision relied on, and their state then.

Before a plan is carried out, its facts are compared with the disk. Knows nothing of plans.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.draft import Draft, DraftFile
from klogtool.format.names import FileKind
from klogtool.log.file import ReadErrors
from klogtool.values import Long, Natural

LOCK = FileKind.LOCK.value


class Fact(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file or folder that the plan relied on. path: relative to the plan's (empty: the folder itself). For a folder,
    its mtime and `names` show that no name was added or removed; its size is 0. `.lock` is not a fact, because carrying
    out a plan creates it. ino, ctime_ns: which file it was, and when anything of it was changed last; None if unknown.
    digest: of all its bytes, in saved plans; None for large files."""

    path: str
    size: Natural
    mtime_ns: Long
    ino: Natural | None = None
    ctime_ns: Long | None = None
    names: str | None = None
    digest: str | None = None

    def below(self, base: str) -> Fact:
        """Return the fact with an absolute path; base: the plan's path."""
        return replace(self, path=os.path.join(base, self.path).rstrip("/"))


def facts_of(draft: Draft) -> tuple[Fact, ...]:
    """Return facts about all files of the folder as found, and its names. Raises KlogError if the folder is gone."""
    folder = folder_fact("", draft.listed or listing_of(draft.path))
    return (folder, *(file_fact(name, file) for name, file in sorted(draft.before.items())))


def folder_fact(path: str, listed: tuple[int, frozenset[str]]) -> Fact:
    """Return the fact that the names in a folder are as `listing_of` found them."""
    return Fact(path, 0, listed[0], names=names_sum(listed[1]))


def file_fact(path: str, file: DraftFile) -> Fact:
    """Return the fact that a file is as found."""
    return Fact(path, file.size, file.mtime_ns or 0, file.ino, file.ctime_ns)


def listing_of(path: str) -> tuple[int, frozenset[str]]:
    """Return a folder's mtime, read first, and its names. Raises KlogError if it cannot be listed."""
    with ReadErrors(path):
        return os.stat(path).st_mtime_ns, frozenset(os.listdir(path))


def names_sum(names: Iterable[str]) -> str:
    """Return sixteen hex digits for the names in a folder, without `.lock`."""
    listed = "\0".join(sorted(name for name in names if name != LOCK))
    return sum_of(listed.encode(errors="surrogateescape"))


def sum_of(data: bytes) -> str:
    """Return sixteen hex digits that identify the bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
