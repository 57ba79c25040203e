"""What a coordinator does with its partition once the broker leads it: it loads all of it, and may not get to the end.

The partition itself is served all the same.
"""

from __future__ import annotations

from klogtool.broker.coordinator.coordinator_load import MODULES, find_load_end
from klogtool.broker.coordinator.transaction_state import walk_data
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.internal.records import TRANSACTION
from klogtool.format.names import PartitionDirState
from klogtool.log.partition import Partition

MOST_BYTES = 4 << 20  # of a partition: its records are opened one by one


def find_unloaded(path: str, log: LoadedLog, most_unread: int) -> Ahead | None:
    """Return the point about a record that the coordinator of this partition cannot read. most_unread: bytes to read at
    most, if that is less than MOST_BYTES; of a longer log nothing is known. Damage is told by others."""
    partition = Partition(path)
    module = MODULES.get(partition.topic or "")
    if module is None or partition.state is not PartitionDirState.CURRENT:
        return None
    if sum(segment.size for segment in log.segments.values(log.log_start_offset)) > min(MOST_BYTES, most_unread):
        return None
    try:
        end = find_load_end(walk_data(log), module, log.terms.rules)
    except KlogError:
        return None
    if end is None:
        return None
    forgets = AheadCause.TRANSACTIONS_NOT_LOADED if module is TRANSACTION else AheadCause.GROUPS_FORGOTTEN
    is_refused = module is not TRANSACTION and not log.terms.rules.forgets_unloaded_groups
    cause = AheadCause.GROUPS_NOT_LOADED if is_refused else forgets
    cure = AdviceCause.CUT_STATE if module is TRANSACTION else AdviceCause.COMMITS_BY_FILE
    return Ahead(
        path,
        What.COORDINATOR_FAILS,
        cause(offset=end.offset, why=end.reason),
        cure=cure(path=quoted(path), offset=end.offset),
    )
