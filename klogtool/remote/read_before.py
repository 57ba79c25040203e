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
    return sha256(msgspec.json.encode((segment.key, segment.metadata, objects, deep))).hexdigest()
