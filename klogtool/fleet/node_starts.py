"""What the doctor foresees for each disk of a set, beside what the disks have.

The claims are the doctor's, and nothing is judged here again. What depends on other nodes is left to the forecast: the
doctor calls a folder stray by the metadata of its own disk, and the metadata of the elected controller decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.doctor.answers import Diagnosis, Starts, What
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import BrokerClaim, HiddenBy, LogDirClaim, OffsetRange, PartitionClaim, WhyUnknown
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.errors import KlogError
from klogtool.fleet.choosing import PlacedCopy
from klogtool.fleet.collected import Collected, CopyFacts, EndingStart, LostRange, StartedCopy, StartFacts
from klogtool.fleet.collecting import Collecting, collect
from klogtool.log.offset_ranges import Offsets

_BY_OTHERS = frozenset((HiddenBy.FOLDER, HiddenBy.LOG_DIR))  # the metadata that leads, and the log dir's own claim
_BY_OWN_METADATA = (What.STRAY, What.METADATA_LOST)  # that of the elected controller decides
_MOST_RANGES = 1 << 11  # of one copy in a file


class NodeStart(Struct, frozen=True, tag="node"):
    """What the start of one node does by its own disks, as `klogtool doctor` says it. lost_records: counted ones."""

    node_id: int
    starts: Starts
    lost_records: int
    log_dirs: tuple[str, ...]


class Foreseen:
    """The claims about the log dirs of a set, as far as the doctor was asked."""

    def __init__(self, files: Iterable[Collected]) -> None:
        self.starts = [(file, file.broker.start) for file in files if file.broker.start is not None]
        self._known = {file.broker.node_id for file, _ in self.starts}
        self._offline = {(file.broker.node_id, path) for file, start in self.starts for path in start.offline}

    @property
    def nodes(self) -> tuple[NodeStart, ...]:
        """The nodes that the doctor looked at."""
        return tuple(
            NodeStart(
                file.broker.node_id,
                start.starts,
                start.lost_records,
                tuple(log_dir.path for log_dir in file.broker.log_dirs),
            )
            for file, start in sorted(self.starts, key=lambda each: each[0].broker.node_id or 0)
            if file.broker.node_id is not None
        )

    def is_offline(self, placed: PlacedCopy) -> bool:
        """Return whether the log dir of a copy is given up when its broker starts."""
        return (placed.node_id, placed.copy.log_dir) in self._offline

    def knows(self, placed: PlacedCopy) -> bool:
        """Return whether the doctor looked at a copy."""
        return placed.node_id in self._known

    def is_as_it_stands(self, placed: PlacedCopy) -> bool:
        """Return whether the start leaves the log of a copy as the disk has it, as far as the doctor looked."""
        return placed.copy.started is None and (self.knows(placed) or not placed.copy.starts_beyond_its_records)

    def end_of(self, placed: PlacedCopy) -> int:
        """Return where the log of a copy ends once its broker has started; unless the doctor looked, at the first
        damage."""
        copy = placed.copy
        if copy.started is not None:
            return copy.started.log_end_offset
        return copy.log_end_offset if self.knows(placed) else min(copy.log_end_offset, copy.sound_end_offset)

    def lost_of(self, placed: PlacedCopy) -> tuple[LostRange, ...] | None:
        """Return the offsets of a copy of which nobody is served a record after the start; None: unknown."""
        if placed.copy.started is not None:
            return placed.copy.started.lost
        return () if self.is_as_it_stands(placed) else None


def collect_with_claims(paths: Sequence[str], how: Collecting) -> Collected:
    """Collect from all log dirs of one broker, and what the doctor says of its start, unless it may not read them.
    Raises as `collect` does."""
    file = collect(paths, how)
    try:
        diagnosis = examine(paths, Examination(how.circumstances, jobs=how.jobs))
    except KlogError:
        return file
    return with_claims(file, diagnosis)


def with_claims(file: Collected, diagnosis: Diagnosis) -> Collected:
    """Return what was collected with the claims of a diagnosis. Who is elected is left to the set: one disk of several
    controllers does not show it."""
    claims = list(walk_claims(diagnosis))
    is_open = any(isinstance(claim, BrokerClaim) and claim.leader_elected is False for claim in claims)
    starts = diagnosis.starts
    if starts is Starts.LOSES_DATA and all(one.what in _BY_OWN_METADATA for one in diagnosis.points if one.is_losing):
        starts = Starts.YES
    if is_open:
        starts = Starts.LOSES_DATA if any(point.is_losing for point in diagnosis.points) else Starts.YES
        claims = [claim for claim in claims if isinstance(claim, PartitionClaim)]
    log_dirs = [claim for claim in claims if isinstance(claim, LogDirClaim)]
    start = StartFacts(
        starts,
        diagnosis.lost_records,
        tuple(
            EndingStart(claim.starts is False, claim.error)
            for claim in claims
            if isinstance(claim, BrokerClaim) and claim.starts is not True
        ),
        tuple(claim.path for claim in log_dirs if claim.online is False),
        tuple(claim.path for claim in log_dirs if claim.online is None),
    )
    partitions = {claim.path: claim for claim in claims if isinstance(claim, PartitionClaim)}
    copies = (_started(copy, partitions.get(os.path.join(copy.log_dir, copy.folder))) for copy in file.copies)
    return replace(file, broker=replace(file.broker, start=start), copies=tuple(copies))


def _started(copy: CopyFacts, claim: PartitionClaim | None) -> CopyFacts:
    """Return a copy with what a start makes of it; without a claim, its log ends at the first damage."""
    if claim is None or claim.log_end_offset is None:
        end = min(copy.log_end_offset, copy.sound_end_offset)
    else:
        end = claim.log_end_offset
    ranges = _lost_ranges(copy, PartitionClaim("", log_end_offset=end) if claim is None else claim, end)
    if ranges is None or len(ranges) > _MOST_RANGES or (claim is None and copy.starts_beyond_its_records):
        lost = None
    else:
        lost = tuple(LostRange(first, last) for first, last in ranges)
    return copy if (end, lost) == (copy.log_end_offset, ()) else replace(copy, started=StartedCopy(end, lost))


def _lost_ranges(copy: CopyFacts, claim: PartitionClaim, end: int) -> tuple[OffsetRange, ...] | None:
    offsets, is_hidden_known = Offsets(), not _BY_OTHERS.intersection(claim.hidden.why)
    for first, last in (*claim.lost.ranges, *(claim.hidden.ranges if is_hidden_known else ())):
        offsets.add(first, last)
    is_followed = claim.hidden.records is not None and is_hidden_known
    for first, stop in (
        (end, copy.log_end_offset),
        (copy.sound_end_offset, 0 if is_followed else copy.log_end_offset),
    ):
        if first < stop:
            offsets.add(first, stop - 1)
    is_counted = claim.lost.records is not None or claim.lost.ranges
    is_loaded = claim.log_end_offset is not None and claim.reason is not WhyUnknown.WHILE_IT_RUNS
    return tuple(offsets.ranges) if is_counted and is_loaded else None
