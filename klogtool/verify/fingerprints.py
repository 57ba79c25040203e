"""Fingerprints of findings: the same damage has the same one in every run, wherever the checkout lies.

A fingerprint is made of the id, the path relative to a folder, the field and the offsets. Byte positions are not part
of it, because they move when a file is written anew with the same records. If several findings of a file are equal in
all of these, they are numbered.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from klogtool.verify.findings import Finding

MOST_FOLDERS_KEPT = 1024


class FindingIdentity(NamedTuple):
    """What makes two findings the same one. path: relative to a folder if it lies below it, else absolute. field: the
    wrong field, or the partition that a line of a checkpoint is about."""

    id: str
    path: str
    field: str | None
    first_offset: int | None
    last_offset: int | None


def identity_of(finding: Finding, folder: str) -> FindingIdentity:
    """Return what identifies a finding. folder: a real path, to which paths are relative."""
    path = relative_path(finding.path, folder)
    return FindingIdentity(finding.id, path, finding.entry or finding.field, finding.first_offset, finding.last_offset)


def relative_path(path: str, folder: str) -> str:
    """Return the real path of a file relative to a folder, which is a real path too; absolute if it lies elsewhere."""
    place = real_path(path)
    inside = folder.rstrip(os.sep) + os.sep
    if place == folder:
        return os.curdir
    return place.removeprefix(inside) if place.startswith(inside) else place


def real_path(path: str) -> str:
    """Return the absolute path of a file, with the links in its folder resolved, but not a link that it may be."""
    head, name = os.path.split(path.rstrip(os.sep) or os.sep)
    if name in ("", os.curdir, os.pardir):
        return _real_folder(os.path.abspath(path))
    return os.path.join(_real_folder(os.path.abspath(head)), name)


def real_place(path: str) -> str:
    """Return a path with all links resolved; unchanged if it cannot be one."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a path cannot contain a zero byte
        return path


_real_folder = lru_cache(MOST_FOLDERS_KEPT)(real_place)  # of absolute paths, because the working directory may change


class Fingerprints:
    """Gives each finding of a run its fingerprint. folder: a real path, to which paths are relative.

    Findings of a file come one after another, so only the numbers of the file in progress are kept.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._seen: Counter[FindingIdentity] = Counter()

    def of(self, finding: Finding) -> str:
        """Return the fingerprint: 64 hexadecimal digits."""
        if finding.path != self._path:
            self._path, self._seen = finding.path, Counter()
        identity = identity_of(finding, self._folder)
        number = self._seen[identity]
        self._seen[identity] += 1
        parts = (*identity, number) if number else identity
        return sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape")).hexdigest()
