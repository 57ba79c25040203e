"""free: the segments that retention no longer keeps, as `retain` decides, and only those that can simply be deleted.

`retain` leaves what a broker leaves that stops cleanly, so it also writes. Here nothing is written, because the disk
may be full: what is left is what a broker leaves that is killed after it has deleted the segments. Its next start takes
the log start offset and the leader epochs from the first segment. So the newest segment always stays: a log without
segments forgets its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.errors import KlogError
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition, parse_file_name
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.free_candidates import LeftOut, PartitionDir
from klogtool.plans.free_choice import Candidate, Name, find_name
from klogtool.plans.free_kinds import RETENTION
from klogtool.plans.index_doubts import FalseIndexEffect, cure_of, dates_text
from klogtool.plans.plan import Delete, Plan
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


def find_past_retention(
    folders: Sequence[PartitionDir],
    log_dir: str,
    circumstances: Circumstances,
    jobs: int | None,
    cluster: ClusterConfig | None = None,
) -> tuple[list[Candidate], list[LeftOut]]:
    """Return the segments past retention, the oldest of a partition first; and the partitions of which nobody can
    tell: they cannot be read, or a setting may not be the topic's. cluster: if another log dir has the metadata."""
    question = RetainQuestion(circumstances=circumstances, jobs=jobs, purge=True)
    checkpoints = Checkpoints.of(log_dir, cluster)
    found, left_out = list[Candidate](), list[LeftOut]()
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
        found += _candidates(plan, folder)
        left_out += _held(plan, folder)
    return found, left_out


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


def _candidates(plan: Plan, folder: PartitionDir) -> Iterator[Candidate]:
    """Yield a candidate for each segment that goes, while another one stays."""
    going = {verdict.segment: verdict.why for verdict in plan.segments if verdict.action == "delete"}
    bases = sorted(going)
    if not any(verdict.action == "keep" for verdict in plan.segments):
        bases = bases[:-1]
    files = _files_by_base(plan, folder.path)
    settings = tuple(plan.result.settings) if isinstance(plan.result, RetainResult) else ()
    facts = tuple(replace(fact, path=os.path.join(folder.path, fact.path).rstrip("/")) for fact in plan.facts)
    for base in bases:
        names = files.get(base, ())
        logs = [name for name in names if name.fact.path.endswith(FileKind.LOG.value)]
        if logs:
            yield Candidate(
                RETENTION,
                logs[0].fact.path,
                folder.log_dir,
                tuple(names),
                facts,
                chain=folder.path,
                why=going[base],
                settings=settings,
            )


def _files_by_base(plan: Plan, folder: str) -> Mapping[int, list[Name]]:
    """Return the files of segments that the plan deletes, by base offset, in the order in which they go."""
    found: dict[int, list[Name]] = {}
    files = [parse_file_name(step.path) for step in plan.steps if isinstance(step, Delete)]
    of_segments = [file for file in files if file.kind in _ORDER and not file.suffix]
    for file in sorted(of_segments, key=lambda file: _ORDER.index(file.kind)):
        name = find_name(os.path.join(folder, file.name))
        if name is not None and file.base_offset is not None:
            found.setdefault(file.base_offset, []).append(name)
    return found
