"""A digest of a partition's records, the same for every copy of them, whatever their batches and codecs.

It is the SHA-256 of the records' offsets and fingerprints (docs/hash.md). A damaged partition has none: the
error says where the damage is.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints
from klogtool.copies.digest_spans import DigestRange, DigestSpan, walk_digests
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.names import FileKind, TopicPartition, find_base_offset
from klogtool.log.expected_files import announced
from klogtool.log.file import LogFile
from klogtool.log.log_files import find_log_bytes
from klogtool.log.partition import Partition
from klogtool.log.thread_pool import in_order

END_OF_OFFSETS = 2**63 - 1
SHOWN_BYTES = 16  # of the digest: as much as eyes compare
LARGE_BYTES = 64 << 20  # from this size on, the threads work on one partition


class RecordHash(Struct, frozen=True):
    """The digest of the records of a partition dir with offsets from `start` on, and below `end`; None if something was
    damaged or could not be read: `error` says where.

    records, first_offset, last_offset: of those that the digest is of, or that were read before the error.
    """

    path: str
    topic_partition: TopicPartition | None
    start: int
    end: int | None
    digest: str | None
    records: int
    first_offset: int | None
    last_offset: int | None
    error: KlogError | None = None


def hash_partitions(
    paths: Sequence[str],
    *,
    start: int | None = None,
    end: int | None = None,
    log_start: int | None = None,
    jobs: int = 1,
) -> Iterator[RecordHash]:
    """Yield the digest of each partition dir, in order. start, end: see RecordHash.

    A `start` below the log start offset is that one. log_start: the log start offset, if it is not the checkpoint's.
    jobs: threads.
    """
    hash_one = partial(hash_partition, start=start, end=end, log_start=log_start)
    for is_large, some in groupby(paths, key=lambda path: find_log_bytes(Partition(path)) >= LARGE_BYTES):
        if is_large:
            yield from (hash_one(path, jobs=jobs) for path in some)
        else:
            yield from (result for _, result in in_order(lambda: hash_one, some, jobs))


def hash_partition(
    path: str, *, start: int | None = None, end: int | None = None, log_start: int | None = None, jobs: int = 1
) -> RecordHash:
    """Return the digest of one partition dir. See `hash_partitions`."""
    partition = Partition(path)
    start = max(start or 0, log_start_offset(partition) if log_start is None else log_start)
    digesting = _Digesting()
    error = None
    try:
        for segment in announced(list(_wanted_segments(partition, start, end)), lambda path: [path]):
            with LogFile(segment) as file:
                digesting.take_file(file, DigestRange(start, END_OF_OFFSETS if end is None else end), jobs)
    except KlogError as raised:
        error = raised.at_path(path)
    digest = digesting.hash.hexdigest()[: 2 * SHOWN_BYTES] if error is None else None
    first, last = (digesting.first_offset, digesting.last_offset) if digesting.records else (None, None)
    return RecordHash(path, partition.topic_partition, start, end, digest, digesting.records, first, last, error)


class _Digesting:
    """The digest of the records so far."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.records, self.first_offset, self.last_offset = 0, -1, -1

    def take_file(self, file: LogFile, wanted: DigestRange, jobs: int) -> None:
        """Add a segment's records. Raises KlogError at damage."""
        for created in walk_digests(file, wanted, jobs=jobs):
            self._take(created, file.path)
            if created.error is not None:
                raise created.error

    def _take(self, created: DigestSpan, path: str) -> None:
        if not created.records:
            return
        if self.records and created.first_offset <= self.last_offset:
            raise Corrupt(
                f"offset {created.first_offset} does not lie behind offset {self.last_offset}",
                path=path,
                position=created.start,
                kafka_class="CorruptRecordException",
            )
        base = find_base_offset(os.path.basename(path))
        if base is not None and created.last_offset - base > MAX_INT:
            raise Corrupt(
                f"offset {created.last_offset} is too far from its segment's base offset",
                path=path,
                position=created.start,
                kafka_class="LogSegmentOffsetOverflowException",
            )
        self.hash.update(created.rows)
        self.first_offset = self.first_offset if self.records else created.first_offset
        self.records, self.last_offset = self.records + created.records, created.last_offset


def log_start_offset(partition: Partition) -> int:
    """Return the offset below which records count as deleted: that of log-start-offset-checkpoint, or 0."""
    if partition.topic_partition is None:
        return 0
    result = Checkpoints.beside(partition.path).find_line(FileKind.LOG_START_CHECKPOINT, partition.topic_partition)
    return result or 0


def _wanted_segments(partition: Partition, start: int, end: int | None) -> Iterator[str]:
    """Yield the paths of the segments that may have such offsets."""
    segments = partition.segments
    for n, segment in enumerate(segments):
        is_below = n + 1 < len(segments) and segments[n + 1].base_offset <= start
        if not is_below and (end is None or segment.base_offset < end):
            yield segment.path


class CommonRange(Struct, frozen=True):
    """The offsets, from `start` on and below `end`, that all copies of a partition have."""

    topic_partition: TopicPartition
    start: int
    end: int


def find_common_ranges(results: Iterable[RecordHash]) -> Iterator[CommonRange]:
    """Yield the common range of each partition whose copies differ in their digests and in their ends."""
    copies: defaultdict[TopicPartition, list[RecordHash]] = defaultdict(list)
    for one in results:
        if one.topic_partition is not None and one.digest is not None and one.records:
            copies[one.topic_partition].append(one)
    for topic_partition, some in copies.items():
        start = max(one.first_offset or 0 for one in some)
        end = min(one.last_offset or 0 for one in some) + 1
        ends = {(one.first_offset, one.last_offset) for one in some}
        if len(ends) > 1 and len({one.digest for one in some}) > 1 and start < end:
            yield CommonRange(topic_partition, start, end)
