"""Which segments are due, in which order, and what a run has come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

from msgspec import Struct, field

from klogtool.scrub.closed_segments import ClosedSegment, Listing, SegmentId
from klogtool.scrub.segment_check import CheckOutcome, ScrubState, SegmentCheck
from klogtool.verify.findings import Kind, Severity


def unread_since(segment: ClosedSegment, state: ScrubState) -> int:
    """Return since when nobody has checked the segment, in epoch milliseconds: since it was last written, if never."""
    covered = state.find(segment.id)
    return segment.id.mtime_ns // 1_000_000 if covered is None else covered.checked_ms


def due_segments(
    segments: Iterable[ClosedSegment], state: ScrubState, *, now_ms: int, every_ms: int
) -> list[ClosedSegment]:
    """Return the segments that were not read within the period, those first that nobody has read for longest."""
    due = [one for one in segments if state.find(one.id) is None or now_ms - unread_since(one, state) >= every_ms]
    return sorted(due, key=lambda one: unread_since(one, state))


class EarlierFindings(Struct, frozen=True):
    """What earlier runs found in a segment, by id, and nobody has mended since."""

    path: str
    findings: dict[Kind, int]


class ScrubSummary(Struct):
    """What a run has come to.

    segments: closed and flushed ones. unflushed: closed ones above the recovery point. checked, gone, changed: by the
    outcome. due: that should have been read, and were not for want of time. bytes: as often as they were read.
    fleeting: findings of one read that another one did not have. damaged: lines of the state. standing: all findings by
    id, those of earlier runs as well, of segments that are still there. earlier: those of earlier runs.
    oldest_unread_ms: since when nobody has checked one of the segments; None if there are none.
    """

    segments: int = 0
    unflushed: int = 0
    damaged: int = 0
    checked: int = 0
    gone: int = 0
    changed: int = 0
    due: int = 0
    bytes: int = 0
    seconds: float = 0.0
    fleeting: int = 0
    standing: Counter[Kind] = field(default_factory=Counter)
    earlier: list[EarlierFindings] = field(default_factory=list)
    oldest_unread_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all that was due was checked, or is gone."""
        return not self.due and not self.changed

    def add(self, check: SegmentCheck) -> None:
        """Count a segment that was read."""
        match check.outcome:
            case CheckOutcome.CHECKED:
                self.checked += 1
            case CheckOutcome.GONE:
                self.gone += 1
            case CheckOutcome.CHANGED:
                self.changed += 1
        self.bytes += check.bytes
        self.fleeting += check.fleeting

    def finish(self, listing: Listing, state: ScrubState, read_now: Set[SegmentId]) -> None:
        """Look at all segments that are still there. read_now: those that this run read."""
        self.standing.update(finding.id for finding in listing.findings)
        for one in listing.closed:
            covered = state.find(one.id)
            if covered is not None and covered.findings:
                self.standing.update(covered.findings)
                if one.id not in read_now:
                    self.earlier.append(EarlierFindings(one.segment.path, covered.findings))
        self.oldest_unread_ms = min((unread_since(one, state) for one in listing.closed), default=None)

    def count(self, severity: Severity) -> int:
        """Return how many findings of a severity stand."""
        return sum(count for kind, count in self.standing.items() if kind.row.severity is severity)
