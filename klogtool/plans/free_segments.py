"""free: the segments that retention no longer keeps, as `retain` decides, and only those that can simply be deleted;
local segments that are in remote storage as well; and how much `compact` would free.

`retain` leaves what a broker leaves that stops cleanly, so it writes more. Here the disk may be full: what is left is
what a broker leaves that is killed after it has deleted the segments. Its next start takes the log start offset from
the first segment, but no leader epochs: only leader-epoch-checkpoint is written, once the segments have made room. So
the newest segment always stays: a log without segments forgets its end.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import REMOTE_SYSTEM, Checkpoints, Circumstances
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.broker.draft import Draft
from klogtool.broker.spools import CountingSpool
from klogtool.broker.unified_log.kept_segments import TIERED, Kept
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.log_loader import open_leader_epochs
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED
from klogtool.causes import Reason, Text
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import METADATA_TOPIC, FileKind, TopicPartition, build_file_name
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.partition import Partition
from klogtool.log.second_reading import read_again
from klogtool.plans.causes import LeftOutCause, LeftOutCure
from klogtool.plans.compact import CompactQuestion, CompactResult, why_left_alone
from klogtool.plans.compact import plan_one as plan_cleaning
from klogtool.plans.free_candidates import LeftOut, PartitionDir
from klogtool.plans.free_choice import Candidate, Name
from klogtool.plans.free_kinds import REMOTE, RETENTION, FreeKind
from klogtool.plans.index_doubts import FalseIndexEffect, cure_of, dates_of
from klogtool.plans.plan import Plan
from klogtool.plans.recover_gaps import find_deleted_in_error, find_gaps
from klogtool.plans.retain import RetainQuestion, RetainResult
from klogtool.plans.retain import plan_one as plan_deletion
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.safe_to_lose import NotSafe, find_safe_part
from klogtool.remote.store import RemoteStore
from klogtool.verify.swaps import offsets_in_log

# The .log goes last: an index without it would look like the trace of a lost segment. The offset index goes first: a
# segment that lacks it is recovered by the next start, which builds the others, too.
_ORDER = (
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LOG,
)


EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_LEFT_OVERS = tuple(f"{FileKind.LOG.value}{suffix}" for suffix in (CLEANED, DELETED))


class PlannedRetention(Struct, frozen=True):
    """A partition dir, and what `retain` decides about it."""

    folder: PartitionDir
    plan: Plan

    @property
    def going(self) -> Mapping[int, Text]:
        """The segments that retention deletes, with the reasons."""
        return {verdict.segment: verdict.why for verdict in self.plan.segments if verdict.action == "delete"}

    def candidates(self, kind: FreeKind, bases: Sequence[int], why: Mapping[int, Text]) -> Iterator[Candidate]:
        """Yield a candidate for each of these segments. why: reasons in place of the kind's words."""
        result, files = self.plan.result, _files_by_base(self.folder)
        settings = tuple(result.settings) if isinstance(result, RetainResult) else ()
        path = self.folder.path
        facts = tuple(replace(fact, path=os.path.join(path, fact.path).rstrip("/")) for fact in self.plan.facts)
        for base in bases:
            names = files.get(base, ())
            log = next((name.fact.path for name in names if name.fact.path.endswith(FileKind.LOG.value)), None)
            if log is not None:
                where = self.folder.log_dir, tuple(names), facts
                yield Candidate(kind, log, *where, chain=path, why=why.get(base), settings=settings)


def find_raised_epochs(planned: Iterable[PlannedRetention], taken: Collection[str]) -> dict[str, bytes]:
    """Return leader-epoch-checkpoint, by partition dir, of each log whose start rises when the files `taken` go, if it
    changes (UnifiedLog.maybeIncrementLogStartOffset). All paths are absolute."""
    raised = dict[str, bytes]()
    for one in planned:
        result, path = one.plan.result, one.folder.path
        bases = sorted(verdict.segment for verdict in one.plan.segments)
        stays = (base for base in bases if os.path.join(path, build_file_name(FileKind.LOG, base)) not in taken)
        first = next(stays, None)
        # A tiered log starts in remote storage as before.
        is_raised = isinstance(result, RetainResult) and result.log_start_offset_before < result.state.log_start_offset
        if not is_raised or first is None or first == bases[0]:
            continue
        epochs = open_leader_epochs(Draft.of(path))
        before = list(epochs.entries)
        epochs.truncate_from_start(first)
        if epochs.entries != before:
            raised[path] = epochs.checkpoint()
    return raised


def plan_retention(
    folders: Sequence[PartitionDir],
    log_dir: str,
    circumstances: Circumstances,
    jobs: int | None,
    cluster: ClusterConfig | None = None,
) -> tuple[list[PlannedRetention], list[LeftOut]]:
    """Return what retention does to partitions; and those of which nobody can tell: they cannot be read, or a setting
    may not be the topic's. cluster: if another log dir has the metadata."""
    question = RetainQuestion(**asdict(circumstances), jobs=jobs, purge=True)
    checkpoints = Checkpoints.of(log_dir, cluster)
    planned, left_out = list[PlannedRetention](), list[LeftOut]()
    for folder in folders:
        if not folder.state.is_current or is_metadata(folder):
            continue
        if (why := why_unclear(folder)) is not None:
            left_out.append(LeftOut(folder.path, why))
            continue
        try:
            plan, _ = plan_deletion(folder.path, question, checkpoints, needs_known_settings=True)
        except KlogError as error:
            left_out.append(LeftOut(folder.path, error.reason, error.cure))
            continue
        planned.append(PlannedRetention(folder, plan))
        left_out += _held(plan, folder)
    return planned, left_out


def find_only_copies(
    folders: Iterable[PartitionDir], log_dir: str, circumstances: Circumstances, jobs: int | None
) -> tuple[set[str], list[LeftOut]]:
    """Return paths of `.log.deleted` and `.log.cleaned` files that have records which no segment has, as `recover` sees
    it, so that nobody meant to delete them; and their partitions. Of a log that cannot be loaded it is all that have
    records."""
    checkpoints = Checkpoints.of(log_dir)
    paths, left_out = set[str](), list[LeftOut]()
    for folder in folders:
        names = {name for name in folder.names if name.endswith(_LEFT_OVERS)} if folder.is_live else ()
        if not names or is_metadata(folder):
            continue
        try:
            needed = read_again(partial(_find_needed, folder.path, circumstances, jobs, checkpoints))
            if alone := sorted(needed & names):
                cure = LeftOutCure.ASK_DOCTOR(path=quoted(log_dir))
                left_out.append(LeftOut(folder.path, LeftOutCause.ONLY_COPY(file=alone[0]), cure))
        except KlogError as error:
            alone = sorted(name for name in names if _may_have_records(folder.path, name))
            left_out.append(LeftOut(folder.path, error.reason, error.cure))
        paths |= {os.path.join(folder.path, name) for name in alone}
    return paths, left_out


def _find_needed(path: str, circumstances: Circumstances, jobs: int | None, checkpoints: Checkpoints) -> set[str]:
    """Return the names of files that show a gap, or have what is missing there."""
    log = load(path, circumstances, jobs, checkpoints).log
    gaps = find_gaps(log, log.terms.compaction)
    return {*find_deleted_in_error(log, gaps), *(gap.told_by or "" for gap in gaps)}


def _may_have_records(folder: str, name: str) -> bool:
    try:
        return bool(offsets_in_log(Draft.of(folder).before[name].content).data.ranges)
    except (KlogError, KeyError):
        return True


def find_past_retention(planned: Iterable[PlannedRetention]) -> Iterator[Candidate]:
    """Yield the segments past retention, the oldest of a partition first, while another one stays."""
    for one in planned:
        going = one.going
        is_left = any(verdict.action == "keep" for verdict in one.plan.segments)
        yield from one.candidates(RETENTION, sorted(going)[: None if is_left else -1], going)


def _held(plan: Plan, folder: PartitionDir) -> Iterator[LeftOut]:
    """Yield a partition whose segments retention keeps only because their time index is false."""
    doubts = plan.result.index_doubts if isinstance(plan.result, RetainResult) else UNSET
    for doubt in doubts or ():
        if doubt.effect is FalseIndexEffect.KEPT_TOO_LONG:
            why = LeftOutCause.WRONG_DATE(segment=doubt.segment, dates=dates_of(doubt))
            yield LeftOut(folder.path, why, cure_of(folder.path))
            return


def why_unclear(folder: PartitionDir) -> Reason | None:
    """Return why segments of a partition should not go before a start, or None."""
    if folder.is_between:
        return LeftOutCause.CLEANING_INTERRUPTED()
    if folder.orphans:
        return LeftOutCause.NO_LOG(file=min(folder.orphans))
    return None


def is_metadata(folder: PartitionDir) -> bool:
    """Return whether it is the log of a cluster's metadata: its snapshots decide what is deleted."""
    name = find_partition_dir_name(own_name(folder.path))
    return name is not None and TopicPartition(name.topic, name.partition) == TopicPartition(METADATA_TOPIC, 0)


def _files_by_base(folder: PartitionDir) -> Mapping[int, list[Name]]:
    """Return the files of segments, by base offset, in the order in which they go."""
    names: dict[int, list[Name]] = {}
    files = [(file, name) for file, name in folder.files() if file.kind in _ORDER and not file.suffix]
    for file, name in sorted(files, key=lambda one: _ORDER.index(one[0].kind)):
        if file.base_offset is not None:
            names.setdefault(file.base_offset, []).append(name)
    return names


# Local segments of tiered topics that are in remote storage as well go oldest first, as a broker deletes them by local
# retention. What was verified to be there ends at the first doubt. Nothing is written: a broker takes the local log
# start from the first segment that is left, and the log start from its checkpoint, so it loads the rest as after a
# local retention.


def find_remote(
    planned: Iterable[PlannedRetention], store: RemoteStore, metadata: RemoteMetadata, *, with_past_retention: bool
) -> tuple[list[Candidate], list[LeftOut]]:
    """Return the local segments that are safe to lose; and where a closed one is not, why. with_past_retention:
    segments past retention go as well, as they are before these."""
    candidates, left_out = list[Candidate](), list[LeftOut]()
    for one in planned:
        result, folder = one.plan.result, one.folder.path
        if not isinstance(result, RetainResult):
            continue
        try:
            log = read_log(Partition(folder), result.log_start_offset_before)
        except KlogError as error:
            left_out.append(LeftOut(folder, error.reason))
            continue
        if log is None or not metadata.knows(log.topic_id, log.partition):
            continue
        kept = result.kept
        is_off = one.plan.question.circumstances.has_no_remote_storage
        is_tiered = any(segment.reason == TIERED for segment in kept)
        part = find_safe_part(store, metadata, log, is_tiered=is_tiered, is_remote_off=is_off)
        bases = [segment.segment for segment in _before(kept, part.end)]
        if part.why is NotSafe.NOT_TIERED:
            cure = LeftOutCure.SAY_ON(setting=REMOTE_SYSTEM) if is_off else LeftOutCure.SAY_SETTING()
            left_out.append(LeftOut(folder, part.detail, cure))
        elif any(segment.reason == TIERED for segment in kept[len(bases) : -1]):
            left_out.append(LeftOut(folder, part.detail))
        going = one.going if with_past_retention and bases else {}
        candidates += one.candidates(REMOTE, [*sorted(going), *bases], going)
    return candidates, left_out


def _before(kept: list[Kept], end: int) -> Iterator[Kept]:
    """Yield the tiered segments that lie wholly before an offset, and have one after them."""
    for segment, following in pairwise(kept):
        if segment.reason != TIERED or following.segment > end:
            return
        yield segment


# `compact` is only told of: to compact a log, a disk needs room for its new segments before the old ones can go.


class Compactable(Struct, frozen=True, rename={"freed_bytes": "bytes"}):
    """A log that `compact` would make smaller. freed_bytes: by how much; needed_bytes: room for its new segments."""

    path: str
    freed_bytes: int
    needed_bytes: int


def find_compactable(
    folders: Sequence[PartitionDir], log_dir: str, circumstances: Circumstances, jobs: int | None
) -> tuple[list[Compactable], list[LeftOut]]:
    """Return the logs that are due for the cleaner and become smaller; and those of which nobody can tell. Reads these
    logs as a whole."""
    question = CompactQuestion(**asdict(circumstances), jobs=jobs, purge=True)
    checkpoints = Checkpoints.of(log_dir)
    compactable, left_out = list[Compactable](), list[LeftOut]()
    for folder in folders:
        if not folder.state.is_current or is_metadata(folder) or why_unclear(folder) is not None:
            continue
        try:
            if why_left_alone(folder.path, question, checkpoints) is not None:
                continue
            plan, _ = plan_cleaning(folder.path, question, checkpoints, CountingSpool)
        except KlogError as error:
            left_out.append(LeftOut(folder.path, error.reason))
            continue
        if plan.bytes_freed > 0 and isinstance(plan.result, CompactResult) and plan.result.is_cleaned:
            compactable.append(Compactable(folder.path, plan.bytes_freed, plan.bytes_written))
    return compactable, left_out
