"""free: how much `compact` would free, as it decides now. free only tells that: to compact a log, a disk needs room for
its new segments before the old ones can go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.spools import CountingSpool
from klogtool.errors import KlogError
from klogtool.format.names import PartitionDirState
from klogtool.plans.compact import CompactQuestion, CompactResult, plan_one, why_left_alone
from klogtool.plans.free_candidates import LeftOut, PartitionDir
from klogtool.plans.free_retention import is_metadata, why_unclear


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
    question = CompactQuestion(circumstances=circumstances, jobs=jobs, purge=True)
    checkpoints = Checkpoints.of(log_dir)
    found, left_out = list[Compactable](), list[LeftOut]()
    for folder in folders:
        if folder.state is not PartitionDirState.CURRENT or is_metadata(folder) or why_unclear(folder) is not None:
            continue
        try:
            if why_left_alone(folder.path, question, checkpoints) is not None:
                continue
            plan, _ = plan_one(folder.path, question, checkpoints, CountingSpool)
        except KlogError as error:
            left_out.append(LeftOut(folder.path, error.reason))
            continue
        if plan.bytes_freed > 0 and isinstance(plan.result, CompactResult) and plan.result.is_cleaned:
            found.append(Compactable(folder.path, plan.bytes_freed, plan.bytes_written))
    return found, left_out
