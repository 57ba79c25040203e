"""free: the segments that retention no longer keeps, as `retain` decides, and only those that can simply be deleted.

`retain` leaves what a broker leaves that stops cleanly, so it also writes. Here nothing is written, because the disk
may be full: what is left is what a broker leaves that is killed after it has deleted the segments. Its next start takes
the log start offset and the leader epochs from the first segment. So the newest segment always stays: a log without
segments forgets its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.errors import KlogError
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.free_candidates import LeftOut, PartitionDir
from klogtool.plans.free_choice import Candidate, Name
from klogtool.plans.free_kinds import RETENTION, FreeKind
from klogtool.plans.index_doubts import FalseIndexEffect, cure_of, dates_text
from klogtool.plans.plan import Plan
from klogtool.plans.retain import RetainQuestion, RetainResult, plan_one

# The .log goes last: an index without it would look like the trace of a lost segment. The offset index goes first: a
# segment that lacks it is recovered by the next start, which builds the others, too.
_ORDER = (
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LOG,
)


class PlannedRetention(Struct, frozen=True):
    """A partition dir, and what `retain` decides about it."""

    folder: PartitionDir
    plan: Plan

    @property
    def going(self) -> Mapping[int, str]:
        """The segments that retention deletes, with the reasons."""
        return {verdict.segment: verdict.why for verdict in self.plan.segments if verdict.action == "delete"}

    def candidates(self, kind: FreeKind, bases: Sequence[int], why: Mapping[int, str]) -> Iterator[Candidate]:
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


def plan_retention(
    folders: Sequence[PartitionDir],
    log_dir: str,
    circumstances: Circumstances,
    jobs: int | None,
    cluster: ClusterConfig | None = None,
) -> tuple[list[PlannedRetention], list[LeftOut]]:
    """Return what retention does to partitions; and those of which nobody can tell: they cannot be read, or a setting
    may not be the topic's. cluster: if another log dir has the metadata."""
    question = RetainQuestion(circumstances=circumstances, jobs=jobs, purge=True)
    checkpoints = Checkpoints.of(log_dir, cluster)
    found, left_out = list[PlannedRetention](), list[LeftOut]()
    for folder in folders:
        if folder.state is not PartitionDirState.CURRENT or is_metadata(folder):
            continue
        if (why := why_unclear(folder)) is not None:
            left_out.append(LeftOut(folder.path, why))
            continue
        try:
            plan, _ = plan_one(folder.path, question, checkpoints, needs_known_settings=True)
        except KlogError as error:
            left_out.append(LeftOut(folder.path, error.reason, error.cure))
            continue
        found.append(PlannedRetention(folder, plan))
        left_out += _held(plan, folder)
    return found, left_out


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
            why = f"retention keeps segment {doubt.segment} by a wrong date: {dates_text(doubt)}"
            yield LeftOut(folder.path, why, cure_of(folder.path))
            return


def why_unclear(folder: PartitionDir) -> str | None:
    """Return why segments of a partition should not go before a start, or None."""
    if folder.is_between:
        return "a cleaning was interrupted: the next start completes it"
    if folder.orphans:
        return f"{min(folder.orphans)} has no .log, so a segment may be lost: run klogtool doctor first"
    return None


def is_metadata(folder: PartitionDir) -> bool:
    """Return whether it is the log of a cluster's metadata: its snapshots decide what is deleted."""
    name = find_partition_dir_name(own_name(folder.path))
    return name is not None and TopicPartition(name.topic, name.partition) == TopicPartition(METADATA_TOPIC, 0)


def _files_by_base(folder: PartitionDir) -> Mapping[int, list[Name]]:
    """Return the files of segments, by base offset, in the order in which they go."""
    found: dict[int, list[Name]] = {}
    files = [(file, name) for file, name in folder.files() if file.kind in _ORDER and not file.suffix]
    for file, name in sorted(files, key=lambda one: _ORDER.index(one[0].kind)):
        if file.base_offset is not None:
            found.setdefault(file.base_offset, []).append(name)
    return found
