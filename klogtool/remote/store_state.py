"""Which segments of a store earlier runs read without a finding, so that a run goes on where another one ended."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from klogtool.log.remembered import Remembered
from klogtool.remote.inventory import ListedSegment


class ReadSegment(Struct, frozen=True):
    """A segment in which nothing was found. checked_ms: when the run began."""

    id: str
    checked_ms: int


StoreState: TypeAlias = Remembered[ReadSegment]


def identify(segment: ListedSegment, *, deep: bool) -> str:
    """Return a digest of all that decides what is found in a segment: its objects as they are listed, its metadata."""
    stored = {} if segment.stored is None else segment.stored.objects
    objects = sorted((one.path, one.size, one.mtime_ms) for one in stored.values())
    decisive = (segment.key, segment.metadata, objects, deep)
    try:
        data = msgspec.json.encode(decisive)
    except UnicodeEncodeError:  # a folder whose name is not UTF-8
        data = repr(decisive).encode("utf-8", "surrogatepass")
    return sha256(data).hexdigest()
