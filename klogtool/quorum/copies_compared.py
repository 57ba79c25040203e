"""Copies of the metadata log, compared batch by batch: where they part, and whether Kafka could put them right.

Kafka compares only epochs and offsets. So copies that differ in the same epoch at the same offset stay different for
ever, and nobody notices (RaftLog.validateOffsetAndEpoch).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from klogtool.errors import Refused
from klogtool.format.batch import RecordBatch
from klogtool.log.partition import Partition
from klogtool.quorum.controllers import walk_batches


class CopyTail(Struct, frozen=True):
    """Offsets that only one of two copies has, in an older epoch than the other one there. path: of the copy."""

    path: str
    first: int
    last: int


def tail_of(better: str, other: str) -> CopyTail | None:
    """Return the end of another copy that the better one does not have; None if it has all. Both are partition dirs.

    Raises Refused if they differ in the same epoch at the same offset; KlogError if one cannot be read.
    """
    mine, theirs = _walk(better), _walk(other)
    one, two = next(mine, None), next(theirs, None)
    is_empty, parted, end = one is None, None, None
    while two is not None:
        if parted is None and one is None and not is_empty:  # the better one ends here, in a later epoch
            parted = two.base_offset
        if parted is not None or one is None or two.last_offset < one.base_offset:  # it may have that in a snapshot
            end, two = two.last_offset, next(theirs, None)
        elif one.last_offset < two.base_offset:
            one = next(mine, None)
        elif one.partition_leader_epoch != two.partition_leader_epoch:
            parted = two.base_offset
        elif (one.base_offset, one.last_offset, one.crc) != (two.base_offset, two.last_offset, two.crc):
            raise Refused(
                f"offset {two.base_offset:,} of epoch {two.partition_leader_epoch} is not the same as in {better}: "
                "these are two logs, and Kafka would never notice",
                path=other,
                cure="Find out which of them is the cluster's, and leave the other one out.",
            )
        else:
            one, two = next(mine, None), next(theirs, None)
    return None if parted is None or end is None else CopyTail(other, parted, end)


def _walk(path: str) -> Iterator[RecordBatch]:
    for segment in Partition(path).segments:
        yield from walk_batches(segment)
