"""How much retention would delete of a partition now, and how much the cleaner would clean: a look without a plan.

Reads only names, indexes and the newest producer snapshot, if the last stop counts as clean.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.cleaning.dirty_range import find_log_to_clean
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.kept_segments import ages_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import delete_old_segments
from klogtool.errors import KlogError
from klogtool.plans.causes import IndexDoubtCause
from klogtool.plans.compact import find_first_dirty
from klogtool.plans.index_doubts import Timekeeper, first_too_early, retention_doubts
from klogtool.verify.cures import rebuild_index


class Headroom(Struct, frozen=True):
    """retention_due_bytes: of whole segments that are due now. cleanable_bytes, cleanable_ratio: of a compacted log,
    else None. is_cleaning_due: whether the cleaner would clean it now.

    why_unknown: why the log cannot be loaded, or a time index is false; then all numbers are None.
    """

    cleanup_policy: str | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    retention_due_bytes: int | None = None
    cleanable_bytes: int | None = None
    cleanable_ratio: float | None = None
    is_cleaning_due: bool | None = None
    why_unknown: str | None = None


def find_headroom(folder: str, circumstances: Circumstances) -> Headroom:
    """Look at a partition dir."""
    try:
        return _headroom(folder, circumstances)
    except KlogError as error:
        return Headroom(why_unknown=error.reason)


def _headroom(folder: str, circumstances: Circumstances) -> Headroom:
    checkpoints = Checkpoints.beside(folder)
    log = LoadedLog(Draft.of(folder), terms_of(folder, circumstances, checkpoints=checkpoints))
    config = log.terms.config
    cleanable = cleanable_ratio = is_due = None
    if config.compact:
        to_clean = find_log_to_clean(log, find_first_dirty(folder, checkpoints), log.terms.now_ms)
        cleanable, cleanable_ratio, is_due = to_clean.cleanable_bytes, to_clean.cleanable_ratio, to_clean.is_eligible
    ages, keeper = ages_of(log), Timekeeper(log)
    policy = [name for name, is_asked in (("compact", config.compact), ("delete", config.delete)) if is_asked]
    deleted = delete_old_segments(log)
    due = sum(deletion.size for deletion in deleted)
    if first_too_early(retention_doubts(log, keeper, ages, deleted, ())) is not None:
        return Headroom(why_unknown=str(IndexDoubtCause.FALSE_INDEX(command=rebuild_index(folder, "timeindex"))))
    return Headroom(
        ",".join(policy), config.retention_ms, config.retention_bytes, due, cleanable, cleanable_ratio, is_due
    )
