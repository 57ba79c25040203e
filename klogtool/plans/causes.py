"""Why the cleaner leaves a log alone, and what becomes of files that no plan is about; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class ObstacleCause(Cause):
    """What holds the cleaner back."""

    THREAD_DIES, SEE_LOG_DIR, GOES_OFFLINE, CHECKPOINT, CHECKPOINT_UNREAD, TWO_LINES, STALE_LINE, LINE_RESET = some(8)
    NO_COMPACT, CLEANER_OFF, HIGH_WATERMARK, YOUNG, SEEMS_YOUNG, OPEN_TRANSACTION = some(6)
    FILE_TIME, TIME_INDEX = some(2)
    ONLY_ACTIVE, OVERFLOW, KEYLESS, FAILS, DUE = some(5)


class ObstacleCure(Cause):
    """What to do about it."""

    REMOVE, EDIT, SYNC, ABORT, ROLL, FORCE, SALVAGE, VERIFY, LOOK = some(9)
