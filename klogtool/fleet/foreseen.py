"""What the doctor foresees for each disk of a set, beside what the disks have. Pure.

The claims are the doctor's, and nothing is judged here again. What depends on other nodes is left to the forecast: the
doctor calls a folder stray by the metadata of its own disk, and the metadata of the elected controller decides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from klogtool.doctor.answers import Diagnosis, Starts
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import BrokerClaim, HiddenBy, LogDirClaim, OffsetRange, PartitionClaim, WhyUnknown
from klogtool.doctor.readable import Offsets
from klogtool.fleet.collected import CopyFacts

_BY_OTHERS = frozenset((HiddenBy.FOLDER, HiddenBy.LOG_DIR))  # the metadata that leads, and the log dir's own claim


class NodeStart(Struct, frozen=True, tag="node"):
    """What the start of one node does by its own disks, as `klogtool doctor` says it. lost_records: counted ones."""

    node_id: int
    starts: Starts
    lost_records: int
    log_dirs: tuple[str, ...]


class Foreseen(Struct, frozen=True):
    """The claims about the log dirs of a set; none where there are only files of `fleet collect`. log_dirs: with the
    node of each. partitions: by path."""

    nodes: tuple[NodeStart, ...] = ()
    brokers: tuple[tuple[int, BrokerClaim], ...] = ()
    log_dirs: tuple[tuple[int, LogDirClaim], ...] = ()
    partitions: Mapping[str, PartitionClaim] = {}

    def is_offline(self, copy: CopyFacts) -> bool:
        """Return whether the log dir of a copy is given up when its broker starts."""
        return any(claim.path == copy.log_dir and claim.online is False for _, claim in self.log_dirs)

    def knows(self, copy: CopyFacts) -> bool:
        """Return whether the doctor looked at a copy."""
        return self._claim_of(copy) is not None

    def is_as_it_stands(self, copy: CopyFacts) -> bool:
        """Return whether the start leaves the log of a copy as the disk has it, as far as the doctor looked."""
        claim = self._claim_of(copy)
        is_kept = claim is None or claim.log_end_offset == copy.log_end_offset
        return is_kept and self.lost_of(copy) == ()

    def end_of(self, copy: CopyFacts) -> int:
        """Return where the log of a copy ends once its broker has started; unless the doctor looked, at the first
        damage."""
        claim = self._claim_of(copy)
        if claim is None or claim.log_end_offset is None:
            return min(copy.log_end_offset, copy.sound_end_offset)
        return claim.log_end_offset

    def lost_of(self, copy: CopyFacts) -> tuple[OffsetRange, ...] | None:
        """Return the offsets of a copy of which nobody is served a record after the start; None: unknown."""
        claim = self._claim_of(copy)
        if claim is None:
            return None if copy.starts_beyond_its_records else ()
        offsets, is_hidden_known = Offsets(), not _BY_OTHERS.intersection(claim.hidden.why)
        for first, last in (*claim.lost.ranges, *(claim.hidden.ranges if is_hidden_known else ())):
            offsets.add(first, last)
        is_followed = claim.hidden.records is not None and is_hidden_known
        for first, end in (
            (self.end_of(copy), copy.log_end_offset),
            (copy.sound_end_offset, 0 if is_followed else copy.log_end_offset),
        ):
            if first < end:
                offsets.add(first, end - 1)
        is_counted = claim.lost.records is not None or claim.lost.ranges
        is_loaded = claim.log_end_offset is not None and claim.reason is not WhyUnknown.WHILE_IT_RUNS
        return tuple(offsets.ranges) if is_counted and is_loaded else None

    def _claim_of(self, copy: CopyFacts) -> PartitionClaim | None:
        return self.partitions.get(os.path.join(copy.log_dir, copy.folder))


def foresee(diagnoses: Mapping[int, Diagnosis]) -> Foreseen:
    """Return the claims of these diagnoses, one for each node. Who is elected is left to the set: one disk of several
    controllers does not show it."""
    nodes, brokers, log_dirs, partitions = [], [], [], {}
    for node_id, diagnosis in sorted(diagnoses.items()):
        claims = list(walk_claims(diagnosis))
        is_open = any(isinstance(claim, BrokerClaim) and claim.leader_elected is False for claim in claims)
        starts = diagnosis.starts
        if is_open:
            starts = Starts.LOSES_DATA if any(point.is_losing for point in diagnosis.points) else Starts.YES
        nodes.append(NodeStart(node_id, starts, diagnosis.lost_records, diagnosis.log_dirs))
        for claim in claims:
            if isinstance(claim, PartitionClaim):
                partitions[claim.path] = claim
            elif isinstance(claim, BrokerClaim) and not is_open:
                brokers.append((node_id, claim))
            elif isinstance(claim, LogDirClaim) and not is_open:
                log_dirs.append((node_id, claim))
    return Foreseen(tuple(nodes), tuple(brokers), tuple(log_dirs), partitions)
