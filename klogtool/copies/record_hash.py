"""A digest of a partition's records, the same for every copy of them, whatever their batches and codecs.

It is the SHA-256 of the records' offsets and fingerprints (docs/hash.md). A damaged partition has none: the
error says where the damage is. Every entry that is gone over, span by span and on several threads, has to prove
itself: the first one that does not ends the walk.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from msgspec import Struct

from klogtool import kernels
from klogtool.broker.circumstances import Checkpoints
from klogtool.errors import Corrupt, KlogError
from klogtool.format.framing import Frame
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.message import Message
from klogtool.format.names import FileKind, TopicPartition, find_base_offset
from klogtool.format.record_digests import digest_row, sound_entry
from klogtool.log.expected_files import announced
from klogtool.log.file import LogFile
from klogtool.log.log_files import find_log_bytes
from klogtool.log.partition import Partition
from klogtool.log.span_maker import SpanMaker, SpanResult, walk_results
from klogtool.log.spans import Span
from klogtool.log.thread_pool import in_order
from klogtool.log.windows import Window

SPAN_BYTES = 4 << 20
ENOUGH_BYTES = 16 << 20  # rows of one result


class DigestRange(Struct, frozen=True):
    """Offsets from `start` on, and below `end`."""

    start: int
    end: int

    def may_have(self, first_offset: int, last_offset: int) -> bool:
        """Whether one of these offsets is wanted."""
        return first_offset < self.end and last_offset >= self.start


class DigestSpan(SpanResult):
    """The rows of a span, or of its first part.

    rows: 16 bytes for each of `records` records, from first_offset to
    last_offset. is_past: no further entry has a wanted offset. error: why the walk ends at `reached`.
    """

    rows: bytes = b""
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    is_past: bool = False
    is_enough: bool = False
    error: KlogError | None = None


class DigestMaker(SpanMaker[DigestSpan]):
    """Makes rows from the spans of a file; one for each thread."""

    def __init__(self, file: LogFile, wanted: DigestRange) -> None:
        super().__init__()
        self._file, self._wanted = file, wanted
        self._digests = self._new_digests()

    def _new_digests(self) -> kernels.native.Digests:
        return kernels.native.Digests(self._wanted.start, self._wanted.end, kernels.native.DIGEST_ROWS)

    def begin(self, span: Span) -> DigestSpan:
        """See SpanMaker."""
        self._digests = self._new_digests()
        return DigestSpan()

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel make rows."""
        at, why = self._digests.take(window.data, at, stop, window.base, body, self.work)
        self._note_end()
        return at, why

    def take_frame(self, window: Window, frame: Frame) -> None:
        """Let the reference make the rows of one entry. Raises KlogError if it does not prove itself."""
        entry = sound_entry(window.data, frame, base=window.base, deep=True)
        before = self._digests.before
        first = entry.last_offset if isinstance(entry, Message) else entry.base_offset
        if before is not None and first <= before:
            raise Corrupt(
                f"offset {first} does not lie behind offset {before}",
                position=entry.position,
                kafka_class="CorruptRecordException",
            )
        results = [r for r in entry.records() if self._wanted.may_have(r.offset, r.offset)]
        rows = b"".join(digest_row(record, is_control=entry.is_control) for record in results)
        ends = (results[0].offset, results[-1].offset) if results else (-1, -1)
        self._digests.add(rows, len(results), *ends, entry.last_offset)
        self._note_end()

    def _note_end(self) -> None:
        before = self._digests.before
        self.result.is_past = self._digests.is_past or (before is not None and before + 1 >= self._wanted.end)
        self.result.is_enough = self.result.is_past or self._digests.records * 16 >= ENOUGH_BYTES

    def finish(self, error: KlogError | None) -> None:
        """See SpanMaker."""
        result, digests = self.result, self._digests
        result.rows, result.records = digests.fetch(), digests.records
        result.first_offset, result.last_offset = digests.first_offset, digests.last_offset
        if error is None and result.last and not result.is_past and result.reached < self._file.size:
            left = self._file.size - result.reached
            error = result.tail or Corrupt(f"{left} bytes at the end are not a whole batch", position=result.reached)
        result.error = None if error is None else error.at_path(self._file.path)

    def throw_away(self, span: Span) -> None:
        """See SpanMaker."""


def walk_digests(file: LogFile, wanted: DigestRange, *, jobs: int) -> Iterator[DigestSpan]:
    """Yield the rows of a log file, some at a time, in order; the last one may have an error. jobs: threads."""
    if not file.size:
        return

    for result in walk_results(
        file, lambda: DigestMaker(file, wanted), start=0, end=file.size, span_bytes=SPAN_BYTES, jobs=jobs
    ):
        yield result
        if result.is_past or result.error is not None:
            return


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
                digesting.take_file(file, DigestRange(start, MAX_LONG if end is None else end), jobs)
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
