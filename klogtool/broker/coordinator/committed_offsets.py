"""Committed offsets of groups, as a group coordinator would load them from `__consumer_offsets`, at any time.

A partition is read from its log start to its end, as CoordinatorLoaderImpl does. What counts is in
format/commit_replay. Unlike Kafka, this goes on behind damage, and says what it left out.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from klogtool import kernels
from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.coordinator.coordinator_load import LoadEnd, why_unread
from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.commit_replay import KeptCommit, replay_entry
from klogtool.format.framing import Frame, find_frame
from klogtool.format.internal.offset_commits import OffsetCommit, parse_offset_commit, parse_offset_commit_key
from klogtool.format.internal.records import GROUP
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import OFFSETS_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.format.partitioner import coordinator_partition
from klogtool.log.entries import read_entry
from klogtool.log.file import LogFile
from klogtool.log.late_zstd import LateZstd
from klogtool.log.log_end import find_log_end
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.probing import ends_in_zeros
from klogtool.log.resync import find_batch_behind
from klogtool.log.segment import Segment
from klogtool.log.thread_pool import in_order
from klogtool.log.walking import Steps, walk_steps
from klogtool.log.windows import BufferPool, Window, walk_windows

SECRET_BYTES = 16
# Which copy of a partition is taken: by the state of its folder. One that is being deleted is never taken.
_RANKS = (PartitionDirState.CURRENT, PartitionDirState.FUTURE, PartitionDirState.STRAY)


class UnreadBytes(Struct, frozen=True):
    """Bytes of a log that are not read, from `start` to `end`; or a record at `offset` that cannot be parsed; or, with
    all three, a batch that is read, but begins with `offset`, where a batch before it has larger ones."""

    path: str
    reason: str
    start: int | None = None
    end: int | None = None
    offset: int | None = None


class CommittedOffset(Struct, frozen=True):
    """An offset that a group has committed. timestamp: when the record was appended. record_offset: in its partition of
    `__consumer_offsets`, which `stored_in` is. producer_id: of the open transaction for which it waits, or -1.
    """

    commit: OffsetCommit
    timestamp: int
    record_offset: int
    producer_id: int = NO_PRODUCER_ID
    stored_in: int = 0

    @property
    def name(self) -> tuple[str, str, int]:
        """Group, topic, partition."""
        return self.commit.group, self.commit.topic, self.commit.partition


class OffsetsLog(Struct, frozen=True, rename={"is_compacted": "compacted"}):
    """One partition of `__consumer_offsets`, as it was read.

    complete_from: the time in ms from which on what was committed is known in full; None: since its first record.
    is_compacted: records are missing in it. first_dirty_offset: the cleaner's checkpoint, if it has a line. others:
    further copies, which were not read. damage: what was left out. foreign: records that no group coordinator wrote:
    their keys have no type that one knows. load_ends: the record at which a coordinator gives up; None also if damage
    comes before it.
    """

    path: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    batches: int
    records: int
    is_compacted: bool
    complete_from: int | None
    first_dirty_offset: int | None
    others: tuple[str, ...]
    damage: tuple[UnreadBytes, ...]
    foreign: int
    load_ends: LoadEnd | None = None


class LoadedOffsets(Struct, frozen=True):
    """All that was found: commits that count, those that wait for their transactions, the logs that they are from.

    partitions: how many `__consumer_offsets` has in the cluster, or None if no `__cluster_metadata` at hand says it.
    scattered: groups with commits in several partitions of it, and these.
    """

    committed: tuple[CommittedOffset, ...]
    pending: tuple[CommittedOffset, ...]
    logs: tuple[OffsetsLog, ...]
    partitions: int | None = None
    scattered: Mapping[str, tuple[int, ...]] = {}

    def coordinator_of(self, group: str) -> int | None:
        """Return the partition whose leader answers for a group; None if unknown."""
        return None if self.partitions is None else coordinator_partition(group, self.partitions)

    @property
    def unserved(self) -> tuple[CommittedOffset, ...]:
        """Return the commits that lie in a partition whose leader nobody asks for their group."""
        where = {group: self.coordinator_of(group) for group in {one.commit.group for one in self.committed}}
        return tuple(one for one in self.committed if where[one.commit.group] not in (None, one.stored_in))

    @property
    def complete_from(self) -> int | None:
        """The time in ms from which on all logs are complete; None: since their first records."""
        return max((log.complete_from for log in self.logs if log.complete_from is not None), default=None)

    @property
    def damage(self) -> tuple[UnreadBytes, ...]:
        """What was left out, of all logs."""
        return tuple(one for log in self.logs for one in log.damage)

    @property
    def is_loaded(self) -> bool:
        """Return whether a group coordinator can read all records of all logs."""
        return all(log.load_ends is None for log in self.logs)

    @property
    def has_foreign(self) -> bool:
        """Return whether a log has records that no group coordinator wrote: it may be the log of another partition."""
        return any(log.foreign for log in self.logs)


def load_offsets(opened: Sequence[LogDir | Partition], at_ms: int = MAX_LONG, jobs: int = 1) -> LoadedOffsets:
    """Return the offsets that groups have committed up to a time. Raises KlogError if a file cannot be read.

    If a group has commits in two partitions of `__consumer_offsets`, as after the number of partitions was changed,
    those in the partition of its coordinator count; if that is unknown, those that were appended last.
    """
    partitions = find_partition_count(map(_checkpoints_of, opened), OFFSETS_TOPIC)
    copies = find_copies(opened, OFFSETS_TOPIC)

    def make_work() -> Callable[[int], tuple[OffsetsLog, list[CommittedOffset], list[CommittedOffset]]]:
        return lambda number: _load(number, copies[number], at_ms)

    logs: list[OffsetsLog] = []
    latest: dict[tuple[str, str, int], CommittedOffset] = {}
    waiting: list[CommittedOffset] = []
    places: dict[str, list[int]] = {}
    for _, (log, committed, open_ones) in in_order(make_work, iter(sorted(copies)), jobs):
        logs.append(log)
        waiting += open_ones
        for group in {one.commit.group for one in committed}:
            places.setdefault(group, []).append(log.partition)
        for one in committed:
            if one.name not in latest or _rank(latest[one.name], partitions) < _rank(one, partitions):
                latest[one.name] = one
    in_names = sorted(latest.values(), key=lambda one: one.name)
    scattered = {group: tuple(numbers) for group, numbers in sorted(places.items()) if len(numbers) > 1}
    pending = tuple(sorted(waiting, key=lambda one: one.name))
    return LoadedOffsets(tuple(in_names), pending, tuple(logs), partitions, scattered)


def _rank(one: CommittedOffset, partitions: int | None) -> tuple[bool, int]:
    """Which of several commits of one name counts: the greatest."""
    is_asked = partitions is None or coordinator_partition(one.commit.group, partitions) == one.stored_in
    return is_asked, one.timestamp


def _checkpoints_of(opened: LogDir | Partition) -> Checkpoints:
    return Checkpoints(opened.path) if isinstance(opened, LogDir) else Checkpoints.beside(opened.path)


def find_partition_count(log_dirs: Iterable[Checkpoints], topic: str) -> int | None:
    """Return how many partitions a topic has, by the first `__cluster_metadata` that knows it; None if none does."""
    for checkpoints in log_dirs:
        metadata = checkpoints.cluster.metadata
        topic_id = None if metadata is None else metadata.topic_ids.get(topic)
        if metadata is not None and topic_id is not None and metadata.problem is None:
            return len(metadata.replicas.get(topic_id, ())) or None
    return None


def find_copies(opened: Iterable[LogDir | Partition], topic: str) -> dict[int, list[Partition]]:
    """Return the copies of each partition of a topic, by its number; the one that counts comes first.

    That is the one in a folder without suffix, before one that is being moved, before a stray; then the longest one.
    """
    by_number: dict[int, list[Partition]] = {}
    seen: set[str] = set()
    for one in opened:
        for partition in one.partitions if isinstance(one, LogDir) else (one,):
            if partition.topic != topic or partition.partition is None or partition.state not in _RANKS:
                continue
            place = os.path.realpath(partition.path)
            if place not in seen:
                by_number.setdefault(partition.partition, []).append(partition)
            seen.add(place)
    for copies in by_number.values():
        if len(copies) > 1:
            copies.sort(key=lambda copy: (_RANKS.index(copy.state), -_end_or_none(copy), copy.path))
    return by_number


def _end_or_none(partition: Partition) -> int:
    try:
        return find_log_end(partition) or 0
    except KlogError:
        return -1


class OutOfRange(Enum):
    """Where a committed offset lies that is not in its log: auto.offset.reset then decides where the group goes on."""

    BELOW_LOG_START = "below-log-start"
    BEYOND_LOG_END = "beyond-log-end"


class LogRange(Struct, frozen=True):
    """The offsets of a log. start: the lowest that a broker may serve; some of a tiered topic are in remote storage."""

    start: int
    end: int

    def judge(self, offset: int) -> OutOfRange | None:
        """Return where a committed offset lies; None: in the log, or at its end."""
        if offset < self.start:
            return OutOfRange.BELOW_LOG_START
        return OutOfRange.BEYOND_LOG_END if offset > self.end else None


class LogRanges:
    """Starts and ends of the logs at hand, each looked up once: for lags, and offsets out of range."""

    def __init__(self, opened: Iterable[LogDir | Partition]) -> None:
        self._at_hand: dict[TopicPartition, list[tuple[Partition, Checkpoints]]] = {}
        for one in opened:
            checkpoints = Checkpoints(one.path)
            for partition in one.partitions if isinstance(one, LogDir) else ():
                if partition.topic_partition is not None and partition.state in _RANKS[:2]:
                    self._at_hand.setdefault(partition.topic_partition, []).append((partition, checkpoints))
        self._ranges: dict[TopicPartition, LogRange | None] = {}

    def find(self, topic: str, partition: int) -> LogRange | None:
        """Return the range of the copy that ends last; None for a partition that is not at hand, or cannot be read."""
        name = TopicPartition(topic, partition)
        if name not in self._ranges:
            ranges = (_range_or_none(one, name, checkpoints) for one, checkpoints in self._at_hand.get(name, ()))
            known = [one for one in ranges if one is not None]
            self._ranges[name] = max(known, key=lambda one: one.end, default=None)
        return self._ranges[name]


def _range_or_none(partition: Partition, name: TopicPartition, checkpoints: Checkpoints) -> LogRange | None:
    """Return offsets as a start has them. A line below the first segment counts as it is: the topic may be tiered."""
    try:
        end, segments = find_log_end(partition) or 0, partition.segments
    except KlogError:
        return None
    line = checkpoints.find_line(FileKind.LOG_START_CHECKPOINT, name)
    base = segments[0].base_offset if segments else 0
    return LogRange(base if line is None else line, end)


# One partition of __consumer_offsets.


def _load(
    number: int, copies: Sequence[Partition], at_ms: int
) -> tuple[OffsetsLog, list[CommittedOffset], list[CommittedOffset]]:
    partition = copies[0]
    reading = _CommitsReading(partition, TopicPartition(OFFSETS_TOPIC, number), at_ms)
    reading.read()
    committed = list(_parsed(_last_of_each_name(reading.replay.committed()), reading, number))
    pending = list(_parsed(reading.replay.pending(), reading, number))
    return reading.told(number, tuple(copy.path for copy in copies[1:])), committed, pending


class _CommitsReading:
    """The log of one partition, read from segment to segment into a replay."""

    def __init__(self, partition: Partition, name: TopicPartition, at_ms: int) -> None:
        checkpoints = Checkpoints.beside(partition.path)
        self.path, self.segments = partition.path, partition.segments
        self.first_dirty = checkpoints.find_line(FileKind.CLEANER_CHECKPOINT, name)
        base = self.segments[0].base_offset if self.segments else 0
        self.start = max(base, checkpoints.find_line(FileKind.LOG_START_CHECKPOINT, name) or 0)
        secret = secrets.token_bytes(SECRET_BYTES)
        self.replay = kernels.native.CommitReplay(at_ms, self.start, self.first_dirty or 0, secret, KeptCommit)
        self.replay.next_offset = self.start
        self.damage: list[UnreadBytes] = []
        self.closed_timestamp = -1
        self.load_end: LoadEnd | None = None
        self._work, self._buffers = kernels.native.Workspace(), BufferPool()
        self._zstd = LateZstd(self._work)

    def read(self) -> None:
        """Read all segments that reach to the log start."""
        for number, segment in enumerate(self.segments, 1):
            following = self.segments[number] if number < len(self.segments) else None
            if following is None:
                self.closed_timestamp = self.replay.latest_timestamp
            if following is None or following.base_offset > self.start:
                self._read_segment(segment)

    def told(self, number: int, others: tuple[str, ...]) -> OffsetsLog:
        is_compacted = self.replay.gap_end >= 0
        return OffsetsLog(
            self.path,
            number,
            self.start,
            self.start if self.replay.batches == 0 else self.replay.next_offset,
            self.replay.batches,
            self.replay.records,
            is_compacted,
            self._complete_from() if is_compacted else None,
            self.first_dirty,
            others,
            tuple(self.damage),
            self.replay.foreign,
            self.load_end,
        )

    def _look_at_odd(self) -> None:
        """Find the first record that ends a coordinator's load; damage before it ends it, too."""
        for offset, key, value in self.replay.take_odd():
            if self.replay.keeps_odd and (reason := why_unread(key, value, GROUP)) is not None:
                self.load_end, self.replay.keeps_odd = LoadEnd(offset, reason), False

    def _complete_from(self) -> int:
        """Return the time of the last record that the cleaner may have compared with others.

        A record is removed because of a later one, which lies below the cleaner's checkpoint too. If the checkpoint
        does not explain all gaps, the cleaner may have come to the last segment, which it never cleans. What is missing
        at the end of that may be as late as the batch behind the gap.
        """
        replay = self.replay
        if self.first_dirty is not None and replay.gap_end <= self.first_dirty:
            latest = replay.clean_timestamp
        elif replay.gap_end <= self.segments[-1].base_offset and self.closed_timestamp >= 0:
            latest = self.closed_timestamp
        else:
            latest = replay.latest_timestamp
        return max(latest, replay.gap_timestamp)

    def _read_segment(self, segment: Segment) -> None:
        """Read a segment, and go on behind damage."""
        with LogFile(segment.path) as file:
            at = 0
            while at < file.size:
                at, why = self._walk(file, at)
                if at >= file.size:
                    break
                behind = find_batch_behind(file, at, end=file.size)
                end = file.size if behind is None else behind
                if behind is not None or not ends_in_zeros(file, at):
                    self.replay.keeps_odd = False
                    self.damage.append(UnreadBytes(file.path, why, at, end))
                if end < file.size:
                    self.replay.next_offset = MAX_LONG  # what is missing there is no work of the cleaner
                at = end

    def _walk(self, file: LogFile, start: int) -> tuple[int, str]:
        """Take entries from byte `start` on; return where the first one begins that was not taken, and why."""
        steps = _CommitSteps(self.replay, self._work, file.path, start, self.damage)
        for window in walk_windows(file, start=start, pool=self._buffers):
            try:
                for _ in walk_steps(steps, window, window.cut, self._zstd):
                    self._look_at_odd()
            except KlogError as error:
                return steps.reached, error.reason
            finally:
                self._look_at_odd()
            if window.last or steps.reached < window.base + window.cut:
                tail = window.length_error(file.size)
                return steps.reached, "less than a batch at the end of the file" if tail is None else tail.reason
            self._buffers.give_back(window.data)
        return steps.reached, ""


class _CommitSteps(Steps):
    """The entries of windows, into a replay (log.walking.Steps). reached: the first byte that was not taken. disorder:
    gets the batches whose offsets go back: their base offset, or that of one before, is false."""

    def __init__(
        self,
        replay: kernels.native.CommitReplay,
        work: kernels.native.Workspace,
        path: str,
        reached: int,
        disorder: list[UnreadBytes],
    ) -> None:
        self._replay, self._work, self._path, self.reached = replay, work, path, reached
        self.disorder = disorder

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        at, why = self._replay.take(window.data, at, stop, self._work, body)
        self.reached = window.base + at
        return at, why

    def take_entry(self, window: Window, at: int) -> int:
        """Take one entry by the reference. Raises KlogError if it is damaged."""
        frame = find_frame(window.data, at, window.cut)
        if not isinstance(frame, Frame):
            return at
        entry, start, expected = read_entry(window, frame, self._path), window.base + at, self._replay.next_offset
        follows = self._replay.batches == 0 or expected == MAX_LONG
        replay_entry(self._replay, entry)
        self.reached = start + frame.size
        first = entry.base_offset if isinstance(entry, RecordBatch) else entry.last_offset
        if not follows and first < expected:
            why = f"offset {first} does not lie behind offset {expected - 1}"
            self.disorder.append(UnreadBytes(self._path, why, start, self.reached, first))
        return at + frame.size


# What is kept, as commits.


def _last_of_each_name(kept: Iterable[KeptCommit]) -> Iterator[KeptCommit]:
    """Yield records that are no tombstones. Keys that only differ in bytes that are no UTF-8 are the same to Kafka."""
    others: dict[tuple[str, str, int], KeptCommit] = {}
    for one in kept:
        if _is_utf8(one.key):
            if one.value is not None:
                yield one
            continue
        try:
            name = parse_offset_commit_key(one.key)
        except KlogError:
            yield one
            continue
        if name not in others or others[name].offset < one.offset:
            others[name] = one
    yield from (one for one in others.values() if one.value is not None)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parsed(kept: Iterable[KeptCommit], reading: _CommitsReading, number: int) -> Iterator[CommittedOffset]:
    """Yield what the records say; those that a broker could not load are noted as damage."""
    for one in kept:
        try:
            commit = parse_offset_commit(one.key, one.value or b"")
        except KlogError as error:
            reading.damage.append(UnreadBytes(reading.path, error.reason, offset=one.offset))
            continue
        yield CommittedOffset(commit, one.timestamp, one.offset, one.producer_id, number)
