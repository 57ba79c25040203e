"""What is remembered of each segment that was read, as lines of a file outside of the log dirs.

A run adds a line for each segment, and replaces the file at its end. So a run that is killed loses no more than the
segment that it was reading. Each line begins with its own sum: this file may rot, too. A line that is damaged is
counted, and its segment is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from klogtool.errors import Refused
from klogtool.kernels import crc32c
from klogtool.scrub.closed_segments import ClosedSegment, SegmentId
from klogtool.scrub.file_sums import FileSums
from klogtool.verify.findings import Kind

FIRST_LINE = b"klogtool scrub 1\n"
SUM_DIGITS = 8


class Covered(Struct, frozen=True):
    """A segment that was read. checked_ms: when the run began. files: the sums of its files, by the end of their names.
    findings: how many there are of each id."""

    id: SegmentId
    checked_ms: int
    files: dict[str, FileSums] = field(default_factory=dict)
    findings: dict[Kind, Annotated[int, Meta(ge=1, lt=1 << 32)]] = field(default_factory=dict)


class ScrubState:
    """All that is remembered: the newest line of each segment. damaged: how many lines were, or were of the future."""

    def __init__(self, covered: Iterable[Covered] = (), damaged: int = 0) -> None:
        self._by_id = {one.id: one for one in covered}
        self.damaged = damaged

    @classmethod
    def parse(cls, path: str, data: bytes, now_ms: int) -> ScrubState:
        """Return the state in a file. What follows the last line end is no line: a run was killed there. Raises Refused
        for another file."""
        if data[: len(FIRST_LINE)] != FIRST_LINE[: len(data)]:
            cure = "Name another file with --state: klogtool scrub makes it."
            raise Refused("it exists, and is not a state of klogtool scrub", path=path, cure=cure)
        *lines, _ = data[len(FIRST_LINE) :].split(b"\n")
        covered = [one for line in lines if (one := _parsed(line)) is not None and one.checked_ms <= now_ms]
        return cls(covered, len(lines) - len(covered))

    def find(self, segment: ClosedSegment) -> Covered | None:
        """Return what is remembered of this very file; None if it was never read, or another one has its name."""
        return self._by_id.get(segment.id)

    def add(self, covered: Covered) -> bytes:
        """Remember a segment; return the line for the file."""
        self._by_id[covered.id] = covered
        return _line(covered)

    def lines(self, present: Iterable[ClosedSegment], *, since_ms: int) -> Iterator[bytes]:
        """Yield the whole file: what is remembered of segments that are present, or were read since."""
        ids = {segment.id for segment in present}
        yield FIRST_LINE
        for one in self._by_id.values():
            if one.checked_ms >= since_ms or one.id in ids:
                yield _line(one)


def _line(covered: Covered) -> bytes:
    data = msgspec.json.encode(covered)
    return b"%08x %s\n" % (crc32c(data), data)


def _parsed(line: bytes) -> Covered | None:
    data = line[SUM_DIGITS + 1 :]
    if line[: SUM_DIGITS + 1] != b"%08x " % crc32c(data):
        return None
    try:
        return msgspec.json.decode(data, type=Covered)
    except (ValueError, RecursionError):  # msgspec's errors are such
        return None
