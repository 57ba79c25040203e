"""What is remembered of each segment that was read, in a file outside of the log dirs (log/remembered.py)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from klogtool.log.remembered import Remembered
from klogtool.scrub.closed_segments import SegmentId
from klogtool.scrub.file_sums import FileSums
from klogtool.verify.findings import Kind


class Covered(Struct, frozen=True):
    """A segment that was read. checked_ms: when the run began. files: the sums of its files, by the end of their names.
    findings: how many there are of each id."""

    id: SegmentId
    checked_ms: int
    files: dict[str, FileSums] = field(default_factory=dict)
    findings: dict[Kind, Annotated[int, Meta(ge=1, lt=1 << 32)]] = field(default_factory=dict)


ScrubState: TypeAlias = Remembered[Covered]
