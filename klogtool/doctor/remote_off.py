"""What a broker without remote storage does not serve of a topic that has it."""

from __future__ import annotations

from klogtool.broker.circumstances import REMOTE_SYSTEM
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause


def find_unserved(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point if older records are in remote storage: without it, a log starts with its first segment
    (UnifiedLog.isRemoteLogEnabled)."""
    terms, first = log.terms, log.segments.first.base_offset
    if not terms.is_remote_off or terms.log_start_offset >= first:
        return None
    span = terms.log_start_offset, first - 1
    detail = AheadCause.REMOTE_OFF(first=span[0], last=span[1], setting=REMOTE_SYSTEM)
    cure = AdviceCause.REMOTE_ON(setting=REMOTE_SYSTEM)
    return Ahead(path, What.REMOTE_OFF, detail, *span, cure=cure, is_hidden=True, is_uncounted=True)
