"""What happens to a log while it is read; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class LogEvent(Cause):
    """What happens to a partition that is followed."""

    DELETED, DELETED_UNREAD, GONE, BACK, REPLACED, WENT_BACK, CUT = some(7)
