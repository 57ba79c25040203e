"""Which copies of other brokers are whole, by lines of `klogtool hash --json`.

`hash` checks all checksums and reads all records. So a copy is whole between the first and the last offset of its line,
whether the line has a digest or ends at damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import Unsupported
from klogtool.format.names import TopicPartition
from klogtool.log.file import read_whole
from klogtool.scrub.closed_segments import ClosedSegment
from klogtool.verify.causes import CureCause, CureRemark
from klogtool.verify.cures import remarked, salvage
from klogtool.verify.findings import Finding, Kind

MOST_HASH_LINE_BYTES = 64 << 20


class CopyState(Enum):
    """What a copy of another broker is, where a finding of this one is."""

    WHOLE = "whole"  # its records there are undamaged
    DAMAGED = "damaged"  # there, or before
    UNKNOWN = "unknown"  # no line, or its line does not reach there


class HashLine(Struct, frozen=True):
    """What is used of a line of `klogtool hash --json`."""

    type: str
    path: str = ""
    topic: str | None = None
    partition: int | None = None
    digest: str | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def state_at(self, first: int, last: int) -> CopyState:
        """Return what the copy is between two offsets."""
        begins, ends = self.first_offset, self.last_offset
        if begins is not None and ends is not None and begins <= first and last <= ends:
            return CopyState.WHOLE
        is_cut_short = self.digest is None and (ends is None or ends < last)
        return CopyState.DAMAGED if is_cut_short else CopyState.UNKNOWN


class CopyLines(Struct, frozen=True):
    """The lines of one broker. name: of their file."""

    name: str
    by_partition: dict[TopicPartition, HashLine]

    @classmethod
    def read(cls, path: str) -> CopyLines:
        """Read a file. Raises KlogError if it has no such lines."""
        lines = dict(_lines_of(path))
        if not lines:
            raise Unsupported("it has no lines of klogtool hash --json", path=path)
        return cls(os.path.basename(path), lines)


def _lines_of(path: str) -> Iterator[tuple[TopicPartition, HashLine]]:
    decoder = msgspec.json.Decoder(HashLine)
    for line in read_whole(path, limit=MOST_HASH_LINE_BYTES).splitlines():
        try:
            row = decoder.decode(line)
        except (ValueError, RecursionError) as error:  # msgspec's errors are such
            raise Unsupported("it is no output of klogtool hash --json", path=path) from error
        if row.type == "answer" and row.topic is not None and row.partition is not None:
            yield TopicPartition(row.topic, row.partition), row


class CopyVerdict(Struct, frozen=True):
    """What the copy of a broker is. name: of the file with its lines. path: of the copy on that broker, if known."""

    name: str
    state: CopyState
    path: str | None = None


def judge_copies(finding: Finding, segment: ClosedSegment, copies: Sequence[CopyLines]) -> list[CopyVerdict]:
    """Return what each other copy is where a finding in a log is. Without offsets it is about its whole segment."""
    if finding.path != segment.segment.path:
        return []
    first = segment.id.base_offset if finding.first_offset is None else finding.first_offset
    last = segment.last_offset if finding.last_offset is None else finding.last_offset
    verdicts = []
    for copy in copies:
        line = copy.by_partition.get(segment.topic_partition)
        if line is None:
            verdicts.append(CopyVerdict(copy.name, CopyState.UNKNOWN))
        else:
            verdicts.append(CopyVerdict(copy.name, line.state_at(first, last), line.path))
    return verdicts


def cured_by_copies(finding: Finding, segment: ClosedSegment, verdicts: Sequence[CopyVerdict]) -> Finding:
    """Return the finding with the cure that a whole copy is. Without one, its own cure stays."""
    whole = next((one for one in verdicts if one.state is CopyState.WHOLE), None)
    if whole is None or finding.id is Kind.BYTES_CHANGED:  # salvage would not know that anything is wrong
        return finding
    remark = CureRemark.COPY_AT(name=whole.name, path=whole.path) if whole.path else CureRemark.COPY_OF(name=whole.name)
    command = CureCause.SALVAGE_INTO(salvage=salvage(segment.partition.path))
    return replace(finding, cured_by=remarked(command, remark))
