"""free: local segments of tiered topics that are in remote storage as well, oldest first, as a broker deletes them by
local retention. What was verified to be there ends at the first doubt.

Nothing is written: a broker takes the local log start from the first segment that is left, and the log start from its
checkpoint, so it loads the rest as after a local retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from klogtool.broker.unified_log.kept_segments import TIERED, Kept
from klogtool.errors import KlogError
from klogtool.log.partition import Partition
from klogtool.plans.free_candidates import LeftOut
from klogtool.plans.free_choice import Candidate
from klogtool.plans.free_kinds import REMOTE
from klogtool.plans.free_retention import PlannedRetention
from klogtool.plans.retain import RetainResult
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.safe_to_lose import NotSafe, find_safe_part
from klogtool.remote.store import RemoteStore

_SAY_IT = "Name the log dir with __cluster_metadata, too, or give the setting with --config or --config-file."


def find_remote(
    planned: Iterable[PlannedRetention], store: RemoteStore, metadata: RemoteMetadata, *, with_past_retention: bool
) -> tuple[list[Candidate], list[LeftOut]]:
    """Return the local segments that are safe to lose; and where a closed one is not, why. with_past_retention:
    segments past retention go as well, as they are before these."""
    found, left_out = list[Candidate](), list[LeftOut]()
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
        part = find_safe_part(store, metadata, log, is_tiered=any(segment.reason == TIERED for segment in kept))
        bases = [segment.segment for segment in _before(kept, part.end)]
        if part.why is NotSafe.NOT_TIERED:
            left_out.append(LeftOut(folder, part.detail, _SAY_IT))
        elif any(segment.reason == TIERED for segment in kept[len(bases) : -1]):
            left_out.append(LeftOut(folder, part.detail))
        going = one.going if with_past_retention and bases else {}
        found += one.candidates(REMOTE, [*sorted(going), *bases], going)
    return found, left_out


def _before(kept: list[Kept], end: int) -> Iterator[Kept]:
    """Yield the tiered segments that lie wholly before an offset, and have one after them."""
    for segment, following in pairwise(kept):
        if segment.reason != TIERED or following.segment > end:
            return
        yield segment
