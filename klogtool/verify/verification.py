"""All damage under some paths, as findings; then a summary. Nothing is written.

Several log dirs belong to one broker. Segments are read on several threads; findings are sorted by name, whatever the
order of the threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, Checkpoints, Circumstances, find_compaction, knows_policy, terms_of
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.releases import TOLERANT_RULES, rules_of
from klogtool.causes import Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import MAPPED_INDEXES, OFFSET_CHECKPOINTS, FileKind, PartitionDirState, parse_file_name
from klogtool.log.expected_files import announced
from klogtool.log.folder import names_in
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir, knows_topic_ids
from klogtool.log.offset_ranges import Offsets
from klogtool.log.opened import Opened, open_path
from klogtool.log.partition import Partition
from klogtool.log.second_reading import has_changed
from klogtool.log.segment import Segment
from klogtool.log.side_file import kind_of
from klogtool.log.thread_pool import in_order
from klogtool.verify.causes import PartitionCause
from klogtool.verify.choosing_cures import DELETED_BY_START, State, with_cures
from klogtool.verify.clean_start import weigh_believed
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.identity_cures import find_topic_id, read_topic_id, write_partition_metadata
from klogtool.verify.index_damage import OFFSETS, TIMES
from klogtool.verify.lost_start import find_lost_start
from klogtool.verify.misplaced import Misplaced, find_misplaced
from klogtool.verify.only_copies import weigh_deleted
from klogtool.verify.segment_report import SegmentContext, SegmentReport
from klogtool.verify.swaps import JudgedSwaps, LogOffsets, SwapTerms, judge_swaps, offsets_in_log
from klogtool.verify.verify_checkpoints import PartitionEnds, verify_against_logs
from klogtool.verify.verify_kraft import verify_kraft_snapshot
from klogtool.verify.verify_log_dirs import may_be_copy, verify_log_dirs
from klogtool.verify.verify_names import METADATA_PARTITION, Layout, verify_names, weigh_leftovers
from klogtool.verify.verify_partition import Surroundings, as_normal_gap, verify_partition, verify_segment_name
from klogtool.verify.verify_segment import verify_segment
from klogtool.verify.verify_topic_ids import verify_topic_ids

WITHOUT_TOPIC_ID = (Kind.PARTITION_METADATA_CORRUPT, Kind.PARTITION_METADATA_MISSING)
LARGE_BYTES = 32 << 20
MOST_KEPT_BYTES = 64 << 20  # headers of the batches of a partition


class WhyLeftOut(Enum):
    """Why a partition was not read."""

    SUBSET = "subset"
    TIME = "time"
    EXCLUDED = "excluded"


TRIES = 3  # a partition whose files go away while it is read is read so often again


class PartitionDone(Struct, frozen=True):
    """A partition of a run. path: its dir, or its only file that was verified. log_dir: its log dir, if that was
    verified too. counted: what was read of it; None if it was left out."""

    path: str
    log_dir: str | None
    counted: Summary | None = None
    why_left_out: WhyLeftOut | None = None


class VerifyOptions(Struct, frozen=True):
    """How to verify. subset: (n, t), the n-th of t parts of the partitions. max_seconds: start no segment after that
    time, except the very first. has_begun: an earlier verification of the same run has read that one. is_excluded:
    which partition dirs are not to be read.

    seconds: returns the seconds since the beginning. on_progress: gets the number of bytes read. on_partition: gets
    each partition, before its findings are yielded, and each that is left out.
    """

    circumstances: Circumstances
    deep: bool = False
    jobs: int = 1
    subset: tuple[int, int] = (1, 1)
    max_seconds: float | None = None
    has_begun: bool = False
    is_excluded: Callable[[str], bool] = lambda _: False
    seconds: Callable[[], float] = lambda: 0.0
    on_progress: Callable[[int], None] = lambda _: None
    on_partition: Callable[[PartitionDone], None] = lambda _: None

    def is_time_up(self) -> bool:
        """Return whether no further segment may be started."""
        return self.max_seconds is not None and self.seconds() >= self.max_seconds


class Summary(Struct):
    """What was read, and the number of findings of each severity.

    left_out_*: what was not read, because it belongs to another subset or time was up; for a started partition, the
    segments not read. was_time_up: whether time was the reason for any of it. was_changed: whether a partition was
    left out because its files went away while it was read. was_without_help: whether a key or metadata of a remote
    store was missing, or an object could not be had. was_read_before: whether an earlier run had read some of it.
    excluded_*: what was not read because it is excluded. deep: whether batches were opened, and not only their headers
    read.
    """

    partitions: int = 0
    files: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    left_out_partitions: int = 0
    left_out_segments: int = 0
    was_time_up: bool = False
    was_changed: bool = False
    was_without_help: bool = False
    was_read_before: bool = False
    excluded_partitions: int = 0
    excluded_paths: int = 0
    deep: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return self.is_whole_but_excluded and not self.excluded_partitions and not self.excluded_paths

    @property
    def is_whole_but_excluded(self) -> bool:
        """Whether nothing was left out but what is excluded."""
        return not self.left_out_partitions and not self.left_out_segments

    def add(self, other: Summary) -> None:
        """Add what was read, and what was not."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.was_time_up |= other.was_time_up
        self.was_changed |= other.was_changed
        self.deep |= other.deep

    def count(self, finding: Finding, number: int = 1) -> None:
        """Count a finding. number: -1 takes it back."""
        name = f"{finding.severity.value}s"
        setattr(self, name, getattr(self, name) + number)


_SUMS = (
    *("partitions", "files", "batches", "records", "bytes", "errors", "warnings", "infos"),
    *("left_out_partitions", "left_out_segments", "excluded_partitions", "excluded_paths"),
)


class Target(Struct, frozen=True):
    """A partition dir to verify, or only its file `only`."""

    partition: Partition
    around: Surroundings
    log_dir: LogDir | None = None
    only: str | None = None


class VerifiedPartition(Struct, frozen=True):
    """What was found in a partition. ends: what its log dir needs to know. counted: what was read of it.

    is_readable: its folder could be listed. is_metadata: it is the partition of `__cluster_metadata`.
    """

    findings: tuple[Finding, ...]
    ends: PartitionEnds
    counted: Summary
    is_readable: bool
    is_metadata: bool = False


VerifyElsewhere: TypeAlias = Callable[[Sequence[Target]], Iterable[VerifiedPartition]]


def verify(
    paths: Sequence[str], options: VerifyOptions, *, elsewhere: VerifyElsewhere | None = None
) -> Iterator[Finding | Summary]:
    """Yield all findings, then a summary.

    elsewhere: verifies the partitions, each by `verify_target`, and returns the results in order; None: verify them
    here. Raises KlogError, before anything else is read, for a path that does not exist or is not Kafka's.
    """
    once = {os.path.realpath(path): path for path in reversed(paths)}  # the first of several names for the same path
    opened = [(path, open_path(path)) for path in reversed(once.values())]
    return _Verification(opened, options, elsewhere).run()


def _put_back_first(misplaced: Iterable[Misplaced], ends: Sequence[PartitionEnds]) -> Sequence[PartitionEnds]:
    """Return the ends; segments that lie in the log dir itself, or in lost+found, come back first of all."""
    cures = {each.of[0]: each.cure for each in misplaced if each.is_lacked and len(each.of) == 1}
    each = [(end, cures.get(os.path.basename(end.partition.path))) for end in ends]
    return [end if cure is None else replace(end, put_back=cure) for end, cure in each]


def verify_target(target: Target, options: VerifyOptions) -> VerifiedPartition:
    """Verify one partition by itself: everything that does not depend on others."""
    alone = _Verification([], options)
    alone.targets = [target]
    ((_, verified),) = alone.verified_partitions()
    return verified


class _Begun(Struct):
    """A partition in progress: what is known so far."""

    target: Target
    layout: Layout | None = None
    findings: list[Finding] = field(default_factory=list)
    reports: list[SegmentReport] = field(default_factory=list)
    counted: Summary = field(default_factory=Summary)
    kept_bytes: int = 0


class _SegmentShare(Struct, frozen=True):
    """A segment to read. path None: no segment, so that a partition without segments appears too. is_large: use several
    threads for it."""

    begun: _Begun
    path: str | None = None
    context: SegmentContext | None = None
    is_large: bool = False


_Scan: TypeAlias = tuple[list[Finding], SegmentReport] | None


class _Verification:
    """One run: what to verify, and what has been counted."""

    def __init__(
        self, opened: Sequence[tuple[str, Opened]], options: VerifyOptions, elsewhere: VerifyElsewhere | None = None
    ) -> None:
        self.options, self.summary, self._elsewhere = options, Summary(deep=options.deep), elsewhere
        self._log_dirs = [LogDir(path) for path, thing in opened if isinstance(thing, LogDir)]
        self._ends: dict[str, list[PartitionEnds]] = {log_dir.path: [] for log_dir in self._log_dirs}
        self._checkpoints: dict[str, Checkpoints] = {}  # by log dir
        self._verified: list[Partition] = []  # in log dirs
        self._metadata: Partition | None = None
        self._has_begun = options.has_begun
        self.targets = [target for log_dir in self._log_dirs for target in self._targets_in(log_dir)]
        self._root_files: list[str] = []
        for path, thing in opened:
            if isinstance(thing, Partition):
                self.targets.append(Target(Partition(path), self._around(path)))
            elif not isinstance(thing, LogDir):
                folder = os.path.dirname(path) or "."
                if kind_of(path) in KINDS_IN_LOG_DIR:
                    self._root_files.append(path)
                else:
                    self.targets.append(Target(Partition(folder), self._around(folder), only=os.path.basename(path)))

    def run(self) -> Iterator[Finding | Summary]:
        """Yield everything."""
        for finding in without_repeats(self._findings()):
            self.summary.count(finding)
            yield finding
        self.summary.seconds = self.options.seconds()
        yield self.summary

    def _findings(self) -> Iterator[Finding]:
        paths = [log_dir.path for log_dir in self._log_dirs]
        is_copy = may_be_copy(paths, self.options.circumstances)
        yield from verify_log_dirs(self._log_dirs, may_be_copy=is_copy)
        for path in self._root_files:
            yield from _verify_root_file(path)
        yield from self._partitions()
        misplaced = list(find_misplaced(self._log_dirs))
        for log_dir in self._log_dirs:
            of_it = [each for each in misplaced if each.log_dir == log_dir.path]
            yield from verify_against_logs(log_dir, _put_back_first(of_it, self._ends[log_dir.path]))
        if self._log_dirs:
            ids = None if self._metadata is None else _topic_ids(self._metadata)
            yield from verify_topic_ids(self._verified, ids)

    # What is to be verified.

    def _targets_in(self, log_dir: LogDir) -> Iterator[Target]:
        checkpoints = Checkpoints(log_dir.path)
        with_ids = knows_topic_ids(log_dir)
        for partition in log_dir.partitions:
            yield Target(partition, self._surroundings(partition, checkpoints, with_ids), log_dir)

    def _around(self, path: str) -> Surroundings:
        checkpoints = Checkpoints.beside(path)
        with_ids = checkpoints.log_dir is not None and knows_topic_ids(LogDir(checkpoints.log_dir))
        return self._surroundings(Partition(path), checkpoints, with_ids)

    def _surroundings(self, partition: Partition, checkpoints: Checkpoints, with_ids: bool) -> Surroundings:
        known, name = self.options.circumstances, partition.topic_partition
        log_start_offset, recovery_point = known.log_start_offset, known.recovery_point
        # A checkpoint that cannot be read is a finding of the log dir.
        if log_start_offset is None and name is not None:
            log_start_offset = checkpoints.find_line(FileKind.LOG_START_CHECKPOINT, name)
        if recovery_point is None and name is not None:
            recovery_point = checkpoints.find_line(FileKind.RECOVERY_POINT_CHECKPOINT, name)
        is_clean = checkpoints.has_clean_marker if known.last_stop is None else known.last_stop == CLEAN
        return Surroundings(log_start_offset or 0, recovery_point, is_clean, with_ids)

    # Partitions, segment by segment.

    def _partitions(self) -> Iterator[Finding]:
        if self._elsewhere is None:
            verified_targets = self.verified_partitions()
        else:
            verified_targets = zip(self.targets, self._elsewhere(self.targets), strict=True)
        for target, verified in verified_targets:
            self._add(target, verified)
            for finding in verified.findings:
                yield self._with_topic_id(finding, target) if finding.id in WITHOUT_TOPIC_ID else finding

    def _with_topic_id(self, finding: Finding, target: Target) -> Finding:
        """Add the cure of partition.metadata: the id that the topic has elsewhere."""
        topic = target.partition.topic
        beside = Checkpoints.beside(target.partition.path).log_dir
        log_dirs = self._log_dirs or ([] if beside is None else [LogDir(beside)])
        partitions = [partition for log_dir in log_dirs for partition in log_dir.partitions]
        known = None if topic is None else _id_by_metadata(topic, partitions)
        topic_id = known or (None if topic is None else find_topic_id(topic, partitions))
        path = os.path.join(target.partition.path, FileKind.PARTITION_METADATA.value)
        loses = known is not None and _is_hidden_without_id(target.partition, known, partitions)
        return replace(finding, cured_by=write_partition_metadata(path, topic_id), loses=loses)

    def verified_partitions(self) -> Iterator[tuple[Target, VerifiedPartition]]:
        """Yield each target with its result."""
        begun: _Begun | None = None
        for share, scanned in self._scanned():
            if begun is not None and share.begun is not begun:
                yield begun.target, self._result_of(begun)
            begun = share.begun
            if scanned is not None:
                _take(begun, *scanned)
        if begun is not None:
            yield begun.target, self._result_of(begun)

    def _result_of(self, begun: _Begun) -> VerifiedPartition:
        """Return the result of a partition whose segments were read. If files went away meanwhile, as beside a running
        broker, it is read again; if that happens each time, nothing is said of it."""
        for attempt in range(TRIES + 1):
            verified = self._finished_if_there(begun)
            if verified is not None and not _has_changed(begun):
                return self._with_gaps_explained(begun.target, verified)
            if begun.target.log_dir is not None and not os.path.lexists(begun.target.partition.path):
                return VerifiedPartition((), PartitionEnds(begun.target.partition), Summary(), False)  # deleted, moved
            if attempt < TRIES:
                begun = _Begun(begun.target)
                for path, context in announced(self._segments(begun), _files_read):
                    scanned = self._scan(_SegmentShare(begun, path, context), self.options.jobs)
                    if scanned is not None:
                        _take(begun, *scanned)
        changed = Summary(left_out_partitions=1, was_changed=True)
        return VerifiedPartition((), PartitionEnds(begun.target.partition), changed, False)

    def _finished_if_there(self, begun: _Begun) -> VerifiedPartition | None:
        """Return what `_finished` does; None if a file went away meanwhile."""
        try:
            return self._finished(begun)
        except KlogError as error:
            if not has_changed(error):
                raise
            return None

    def _finished(self, begun: _Begun) -> VerifiedPartition:
        """Return all findings of a partition, sorted by its files."""
        target, layout, findings, counted = begun.target, begun.layout, begun.findings, begun.counted
        is_whole, swaps = layout is not None and not counted.left_out_segments, JudgedSwaps()
        is_deleted = target.partition.state is PartitionDirState.DELETE
        if layout is not None:
            counted.files = 1 if target.only else layout.files
        if layout is not None and is_whole:
            findings += verify_partition(layout, begun.reports, target.around)
            if layout.has_swaps:
                swaps = judge_swaps(layout.path, self._swap_terms_of(target))
                findings += _damage_in_swaps(layout, swaps)
            findings = weigh_leftovers(layout, findings, begun.reports, swaps)
            if is_deleted:  # with all its records, which is meant
                findings = [replace(finding, loses=False) for finding in findings]
            else:
                findings = self._weigh_deleted(begun, layout, findings)
                findings = self._weigh_believed(begun, layout, findings)
                findings = list(_without_gaps_of(swaps, layout, findings))
                findings += self._lost_start(begun, layout)
            # Drop findings about the order of epochs, if a wrong epoch of a batch is known to be the reason.
            wrong = {(finding.path, finding.start) for finding in findings if finding.field == "partition_leader_epoch"}
            findings = [
                finding
                for finding in findings
                if finding.id != Kind.EPOCH_ORDER or (finding.path, finding.start) not in wrong
            ]
        counted.partitions = int(target.only is None)
        ends = _ends_of(begun) if is_whole else PartitionEnds(target.partition)
        state = State(
            target.partition.path, begun.reports, is_whole and target.only is None, target.around.is_clean, swaps
        )
        findings = with_cures(findings, state)
        put_back = (each.cured_by for each in findings if each.loses and each.id in DELETED_BY_START)
        ends = replace(ends, put_back=next(put_back, None))
        if target.only is not None:
            only = os.path.join(target.partition.path, target.only)
            findings = [finding for finding in findings if finding.path == only]
        if is_deleted:  # only what stops a broker counts, because the dir may be half deleted
            findings = [finding for finding in findings if finding.severity is not Severity.WARNING]
        # By file and byte; findings about the whole file come last.
        placed = sorted(
            without_repeats(findings), key=lambda one: (one.path, MAX_LONG if one.start is None else one.start)
        )
        return VerifiedPartition(
            tuple(placed), ends, counted, layout is not None, layout is not None and layout.is_metadata
        )

    def _weigh_deleted(self, begun: _Begun, layout: Layout, findings: list[Finding]) -> list[Finding]:
        """Say which records only a `.deleted` log has."""
        is_there = any(finding.id is Kind.LEFTOVER_DELETED for finding in findings)
        if not is_there or layout.is_metadata or begun.target.only is not None:
            return findings
        name, kinds = (
            layout.partition.topic_partition,
            (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT),
        )
        beside = self._checkpoints_in(os.path.dirname(os.path.abspath(layout.path)))
        ends = [] if name is None else [beside.find_line(kind, name) for kind in kinds]
        is_compacted = self._swap_terms_of(begun.target).is_compacted
        return list(weigh_deleted(layout, findings, begun.reports, ends, is_compacted=is_compacted))

    def _weigh_believed(self, begun: _Begun, layout: Layout, findings: list[Finding]) -> list[Finding]:
        """Add what a start makes of side files that it believes. The metadata log is recovered in any case."""
        target = begun.target
        if layout.is_metadata:
            return findings
        recovered_from = MAX_LONG if target.around.is_clean else target.around.recovery_point or 0
        return weigh_believed(
            findings,
            target.partition.path,
            self.options.circumstances,
            self._checkpoints_in(os.path.dirname(os.path.abspath(target.partition.path))),
            recovered_from=recovered_from,
            end_offset=begun.reports[-1].next_offset if begun.reports else 0,
        )

    def _lost_start(self, begun: _Begun, layout: Layout) -> Iterator[Finding]:
        """Yield notes about what retention deleted before the first segment, or somebody."""
        first, partition = begun.reports[0].begins if begun.reports else 0, begun.target.partition
        if not first or layout.is_metadata or begun.target.only is not None:
            return
        _, _, cluster, _ = self._settings_of(partition, partition.topic or "")
        beside = Checkpoints.of(os.path.dirname(os.path.abspath(layout.path)), cluster)
        with suppress(KlogError):  # of a checkpoint, which is told elsewhere
            terms = terms_of(layout.path, self.options.circumstances, checkpoints=beside)
            for low, high in find_lost_start(Draft.of(layout.path).before, terms, first):
                reason = PartitionCause.EPOCHS_BEGIN(offset=low)
                path = begun.reports[0].path
                yield Finding(Kind.SEGMENT_GAP, path, reason, first_offset=low, last_offset=high, is_normal=True)

    def _with_gaps_explained(self, target: Target, verified: VerifiedPartition) -> VerifiedPartition:
        """Mark gaps between segments as normal if the surroundings of the log show that its topic is compacted."""
        gaps = [finding for finding in verified.findings if finding.id == Kind.SEGMENT_GAP and not finding.is_normal]
        why = self._compaction_of(target.partition) if gaps else None
        if why is None:
            return verified
        explained = (as_normal_gap(finding, why) if finding in gaps else finding for finding in verified.findings)
        return replace(verified, findings=tuple(explained))

    def _checkpoints_in(self, log_dir: str) -> Checkpoints:
        if log_dir not in self._checkpoints:
            self._checkpoints[log_dir] = Checkpoints.of(log_dir)
        return self._checkpoints[log_dir]

    def _compaction_of(self, partition: Partition) -> Reason | None:
        topic_partition = partition.topic_partition
        if topic_partition is None:
            return None
        config, sources, _, beside = self._settings_of(partition, topic_partition.topic)
        return find_compaction(topic_partition, config, sources, beside)

    def _swap_terms_of(self, target: Target) -> SwapTerms:
        """Return what decides on the `.swap` files of a partition."""
        topic_partition, rules = target.partition.topic_partition, rules_of(self.options.circumstances.kafka)
        topic = "" if topic_partition is None else topic_partition.topic
        config, sources, cluster, beside = self._settings_of(target.partition, topic)
        is_compacted = None
        if topic_partition is not None:
            is_known = knows_policy(topic, sources, cluster)
            is_compacted = find_compaction(topic_partition, config, sources, beside) is not None or (
                False if is_known else None
            )
        return SwapTerms(config, rules, is_compacted, target.around.log_start_offset)

    def _settings_of(
        self, partition: Partition, topic: str
    ) -> tuple[LogConfig, dict[str, str], ClusterConfig, Checkpoints]:
        """Return the config of a topic, the source of each setting, the cluster, and the checkpoints beside it."""
        beside = self._checkpoints_in(os.path.dirname(os.path.abspath(partition.path)))
        others = (self._checkpoints_in(os.path.abspath(log_dir.path)) for log_dir in self._log_dirs)
        knowing = next((known for known in (beside, *others) if known.cluster.metadata is not None), beside)
        config, sources = self.options.circumstances.settled_for(topic, knowing.cluster)
        return config, sources, knowing.cluster, beside

    def _scanned(self) -> Iterator[tuple[_SegmentShare, _Scan]]:
        """Yield each share with its result: small ones several at a time, large ones with several threads each."""
        jobs = self.options.jobs
        for is_large, shares in groupby(self._shares(), key=lambda share: share.is_large):
            if is_large:
                yield from ((share, self._scan(share, jobs)) for share in shares)
            else:
                yield from in_order(lambda: self._scan, shares, jobs)

    def _shares(self) -> Iterator[_SegmentShare]:
        number, parts = self.options.subset
        for n, target in enumerate(self.targets):
            if (why := self._why_left_out(target, is_of_part=n % parts == number - 1)) is not None:
                self._leave_out(target, why)
                continue
            begun = _Begun(target)
            yield _SegmentShare(begun)
            for path, context in announced(self._segments(begun), _files_read):
                if self._is_time_up():
                    begun.counted.left_out_segments += 1
                else:
                    self._has_begun = True
                    yield _SegmentShare(begun, path, context, is_large=_size_of(path) >= LARGE_BYTES)

    def _why_left_out(self, target: Target, *, is_of_part: bool) -> WhyLeftOut | None:
        if self.options.is_excluded(target.partition.path):
            return WhyLeftOut.EXCLUDED
        if not is_of_part:
            return WhyLeftOut.SUBSET
        return WhyLeftOut.TIME if self._is_time_up() else None

    def _is_time_up(self) -> bool:
        """Return whether no further segment may be started. The first one always is, however long it took to get
        there."""
        is_up = self._has_begun and self.options.is_time_up()
        self.summary.was_time_up |= is_up
        return is_up

    def _segments(self, begun: _Begun) -> list[tuple[str, SegmentContext]]:
        """Return the segments to read, after the names in the folder were read."""
        try:
            begun.layout, begun.findings = verify_names(begun.target.partition)
        except KlogError as error:
            begun.findings.append(Finding(Kind.UNREADABLE, begun.target.partition.path, from_text(error.reason)))
            return []
        layout, only = begun.layout, begun.target.only
        segments = list(self._with_context(layout, begun.target.around))
        if only is not None and kind_of(only) is FileKind.LOG and not only.endswith(FileKind.LOG.value):
            return [(layout.path_of(only), SegmentContext(self.options.circumstances.now_ms))]  # a .swap or the like
        return segments if only is None else _segments_for(only, layout, segments)

    def _with_context(self, layout: Layout, around: Surroundings) -> Iterator[tuple[str, SegmentContext]]:
        circumstances, bases = self.options.circumstances, [*layout.segments, None]
        interval = circumstances.config_for(layout.partition.topic or "").index_interval_bytes
        for name, following in zip(layout.segments.values(), bases[1:], strict=True):
            is_active = following is None
            closed_at = around.recovery_point if is_active and around.is_clean else None
            context = SegmentContext(
                circumstances.now_ms, following, is_active, around.is_clean, interval, closed_at, keeps_headers=True
            )
            yield layout.path_of(name), context

    def _scan(self, share: _SegmentShare, jobs: int = 1) -> _Scan:
        if share.path is None or share.context is None:
            return None
        deep, on_progress = self.options.deep, self.options.on_progress
        return verify_segment(Segment(share.path), share.context, deep=deep, jobs=jobs, on_progress=on_progress)

    def _leave_out(self, target: Target, why: WhyLeftOut) -> None:
        if why is WhyLeftOut.EXCLUDED:
            self.summary.excluded_partitions += 1
        else:
            self.summary.left_out_partitions += 1
        self.options.on_partition(_done(target, why=why))
        if target.log_dir is not None:
            self._ends[target.log_dir.path].append(PartitionEnds(target.partition))

    def _add(self, target: Target, verified: VerifiedPartition) -> None:
        """Record what a log dir needs to know of a partition."""
        self.summary.add(verified.counted)
        self.options.on_partition(_done(target, verified.counted))
        if target.log_dir is None:
            return
        self._ends[target.log_dir.path].append(verified.ends)
        if verified.is_readable:
            self._verified.append(target.partition)
        if verified.is_metadata:
            self._metadata = target.partition


def _files_read(segment: tuple[str, SegmentContext]) -> list[str]:
    """Return the files that the verification of a segment reads as a whole, if nobody writes to them any more."""
    path, context = segment
    if context.is_active:
        return []
    return [path, *(Segment(path).side_path(kind.file_kind) for kind in (OFFSETS, TIMES))]


def _id_by_metadata(topic: str, partitions: Iterable[Partition]) -> str | None:
    metadata = next((one for one in partitions if one.topic_partition == METADATA_PARTITION), None)
    return None if metadata is None else (_topic_ids(metadata) or {}).get(topic)


def _is_hidden_without_id(partition: Partition, topic_id: str, partitions: Iterable[Partition]) -> bool:
    """Return whether a partition dir without topic id has records that nobody is served after the next start: a broker
    sets it aside (LogManager.isStrayReplica), and no other folder is the partition with the cluster's id."""
    twins = (one for one in partitions if one.topic_partition == partition.topic_partition and one.state.is_current)
    is_served = any(read_topic_id(twin) == topic_id for twin in twins)
    return partition.state.is_current and not is_served and bool(find_log_bytes(partition))


def _topic_ids(metadata: Partition) -> dict[str, str] | None:
    """Return the id of each topic that the cluster knows; None if the metadata log cannot be read to its end: then
    nothing is known of any topic."""
    known = read_cluster_metadata(metadata.path, TOLERANT_RULES)
    return known.topic_ids if known.problem is None else None


def _has_changed(begun: _Begun) -> bool:
    """Return whether a file went away since the folder was listed, or the folder itself, or became shorter; or whether
    a log goes on behind an end that was damaged: then a broker was writing it."""
    if any(report.has_changed or _goes_on(report) for report in begun.reports):
        return True
    try:
        now = names_in(begun.target.partition.path)
    except KlogError:
        return not os.path.lexists(begun.target.partition.path)
    return begun.layout is not None and not (begun.layout.names | begun.layout.present).issubset(now)


def _goes_on(report: SegmentReport) -> bool:
    return report.has_damaged_tail and _size_of(report.path) > report.size


def _done(target: Target, counted: Summary | None = None, why: WhyLeftOut | None = None) -> PartitionDone:
    path = target.partition.path if target.only is None else os.path.join(target.partition.path, target.only)
    return PartitionDone(path, target.log_dir.path if target.log_dir else None, counted, why)


def _take(begun: _Begun, findings: list[Finding], report: SegmentReport) -> None:
    begun.findings += _with_name(report, findings)
    begun.reports.append(report)
    if report.headers is not None:
        begun.kept_bytes += report.headers.size
        if begun.kept_bytes > MOST_KEPT_BYTES:
            report.headers = None
    begun.counted.batches += report.batches
    begun.counted.records += report.records
    begun.counted.bytes += report.size


def _with_name(report: SegmentReport, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of a segment; a wrong name explains that its first batch is below its base offset."""
    misnamed = list(verify_segment_name(report))
    yield from misnamed
    yield from (f for f in findings if not (misnamed and f.id == Kind.OFFSET_ORDER and f.start == 0))


def _damage_in_swaps(layout: Layout, swaps: JudgedSwaps) -> Iterator[Finding]:
    """Yield what is wrong with the logs that a start renames, each as the segment that it becomes."""
    for name in swaps.renamed:
        path = layout.path_of(name)
        findings, report = verify_segment(Segment(path), SegmentContext(MAX_LONG))
        findings = [each for each in findings if each.path == path and each.severity is Severity.ERROR]
        yield from _with_name(report, findings)


def _without_gaps_of(swaps: JudgedSwaps, layout: Layout, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings without gaps between segments where a start puts a `.swap`: damage in it is told by itself."""
    spans, files = Offsets(), Draft.of(layout.path).before if swaps.renamed else {}
    names = {name: base for name in swaps.renamed if (base := parse_file_name(name).base_offset) is not None}
    bases = sorted({*layout.segments, *names.values()})
    for name, base in names.items():
        offsets = offsets_in_log(files[name].content) if name in files else LogOffsets()
        following = next((each for each in bases if each > base), MAX_LONG)
        last = max((last for _, last in offsets.all.ranges), default=base) if offsets.is_whole else following - 1
        spans.add(base, max(base, last))
    for finding in findings:
        lowest, highest = finding.first_offset or 0, finding.last_offset
        if finding.id != Kind.SEGMENT_GAP or highest is None:
            yield finding
        else:
            yield from (
                replace(finding, first_offset=low, last_offset=high) for low, high in spans.holes(lowest, highest)
            )


def without_repeats(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, with only one per unreadable file."""
    reported = set()
    for finding in findings:
        is_of_file = finding.id == Kind.UNREADABLE and not finding.is_unchecked
        if not is_of_file or finding.path not in reported:
            yield finding
        if is_of_file:
            reported.add(finding.path)


def _ends_of(begun: _Begun) -> PartitionEnds:
    """Return what a partition's segments reported. A dir without segments is an empty log, which begins at 0."""
    partition, reports = begun.target.partition, begun.reports
    if not reports:
        return PartitionEnds(partition, 0, 0)
    last = reports[-1]
    if not last.is_complete:
        return PartitionEnds(partition, reports[0].base_offset)
    tail = (last.sound[-1][1] if last.sound else 0) if last.has_damaged_tail else None
    return PartitionEnds(partition, reports[0].base_offset, last.next_offset, last.path, tail)


def _segments_for(
    only: str, layout: Layout, segments: list[tuple[str, SegmentContext]]
) -> list[tuple[str, SegmentContext]]:
    """Return the segments that must be read to judge one file."""
    kind = kind_of(only)
    if kind in (FileKind.LOG, *MAPPED_INDEXES):
        log = layout.path_of(only.partition(".")[0] + FileKind.LOG.value)
        return [(path, context) for path, context in segments if path == log]
    needs_log = kind in (FileKind.TXN_INDEX, FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT)
    return segments if needs_log else []


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # reported when it is opened
        return 0


def _verify_root_file(path: str) -> Iterator[Finding]:
    """Verify a single file of a log dir's root, without comparing it with logs."""
    kind, log_dir = kind_of(path), LogDir(os.path.dirname(path) or ".")
    if kind is FileKind.BOOTSTRAP_SNAPSHOT:
        yield from verify_kraft_snapshot(path)
    elif kind in OFFSET_CHECKPOINTS:
        yield from verify_against_logs(log_dir, [PartitionEnds(p) for p in log_dir.partitions], only=kind)
    elif kind is FileKind.META_PROPERTIES:
        yield from (finding for finding in verify_log_dirs([log_dir]) if finding.path == path)
