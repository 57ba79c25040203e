"""Facts: which files and folders a decision relied on, and how they were then.

Whoever carries a plan out compares them with the disk first. Knows nothing of plans.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from klogtool.broker.draft import Draft, DraftFile
from klogtool.format.names import FileKind
from klogtool.log.file import unreadable

LOCK = FileKind.LOCK.value


class Fact(Struct, frozen=True):
    """A file or folder that the plan relied on. path: below the plan's (empty: the folder itself). A folder's
    modification time and `names` say that no name came or went; its size is 0. `.lock` is no fact: carrying out makes
    it. ino, ctime_ns: which file it was, and when anything of it was changed last; None where that is not known.
    digest: of all its bytes, in plans that are saved; None of large files."""

    path: str
    size: int
    mtime_ns: int
    ino: int | None = None
    ctime_ns: int | None = None
    names: str | None = None
    digest: str | None = None

    def as_json(self, base: str) -> dict[str, Any]:
        """With an absolute path; base: the plan's."""
        known = {"path": os.path.join(base, self.path).rstrip("/"), "size": self.size, "mtime_ns": self.mtime_ns}
        more = {"ino": self.ino, "ctime_ns": self.ctime_ns, "names": self.names, "digest": self.digest}
        return known | {name: value for name, value in more.items() if value is not None}


def facts_of(draft: Draft) -> tuple[Fact, ...]:
    """All files of the folder as they were found, and that no name came or went. Raises KlogError if it is gone."""
    folder = folder_fact("", draft.listed or listing_of(draft.path))
    return (folder, *(file_fact(name, file) for name, file in sorted(draft.before.items())))


def folder_fact(path: str, listed: tuple[int, frozenset[str]]) -> Fact:
    """That no name came or went in a folder since it was listed, as `listing_of` does."""
    return Fact(path, 0, listed[0], names=names_sum(listed[1]))


def file_fact(path: str, file: DraftFile) -> Fact:
    """That a file is as it was found."""
    return Fact(path, file.size, file.mtime_ns or 0, file.ino, file.ctime_ns)


def listing_of(path: str) -> tuple[int, frozenset[str]]:
    """A folder's time, and then the names in it. Raises KlogError if it cannot be listed."""
    try:
        return os.stat(path).st_mtime_ns, frozenset(os.listdir(path))
    except OSError as error:
        raise unreadable(path, error) from error


def names_sum(names: Iterable[str]) -> str:
    """Sixteen hex digits for the names in a folder, `.lock` aside."""
    told = "\0".join(sorted(name for name in names if name != LOCK))
    return sum_of(told.encode(errors="surrogateescape"))


def sum_of(data: bytes) -> str:
    """Sixteen hex digits, which other bytes do not have."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
