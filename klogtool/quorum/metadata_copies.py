"""Copies of the metadata log, compared batch by batch: where they part, and whether Kafka could put them right.

Kafka compares only epochs and offsets. So copies that differ in the same epoch at the same offset stay different for
ever, and nobody notices (RaftLog.validateOffsetAndEpoch).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.log.partition import Partition
from klogtool.quorum.controllers import walk_batches


class CopyTail(Struct, frozen=True):
    """Offsets that only one of two copies has, in an older epoch than the other one there. path: the partition dir."""

    path: str
    first: int
    last: int


class CopiesApart(Struct, frozen=True):
    """Where two copies differ in the same epoch at the same offset. better, other: their log dirs."""

    better: str
    other: str
    offset: int
    epoch: int


def compare(better: str, other: str) -> CopiesApart | CopyTail | None:
    """Return where the copies of two log dirs differ, or the end of the other one that the better one does not have;
    None if it has all. A copy ends at its damage: a start cuts it there."""
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
            return CopiesApart(better, other, two.base_offset, two.partition_leader_epoch)
        else:
            one, two = next(mine, None), next(theirs, None)
    return None if parted is None or end is None else CopyTail(os.path.join(other, CLUSTER_METADATA_DIR), parted, end)


def _walk(path: str) -> Iterator[RecordBatch]:
    with suppress(KlogError):
        for segment in Partition(os.path.join(path, CLUSTER_METADATA_DIR)).segments:
            yield from walk_batches(segment)
