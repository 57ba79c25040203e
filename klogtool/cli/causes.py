"""Why a command does not do what it was asked for; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class CommandRefusal(Cause):
    """Why a command refuses what it was asked for."""

    LONG_INPUT, LARGE_PAGE, NO_LOG_DIR_WITH, BY_HAND, LONG_DESCRIPTION, NO_MESSAGE, NO_DIR_OF = some(7)
    OUTPUT_AMONG_INPUT, NOT_OF_METRICS, NO_PARTITION, SEVERAL_TOPICS, NO_RECORD_SINCE, NO_OBJECTS_OF = some(6)
    NO_FOLDER_NO_RUN, NOT_OF_BASELINE, FOR_GOOD, SAVED_ON_REMOTE, REJECTED_IN_LOG_DIR, OTHER_EXPORT = some(6)
    WHICH_TO_DISCARD, UNKNOWN_RUN, NO_RUN, SEVERAL_RUNS, NONE_BELOW, NOTHING_TO_VERIFY, EXCLUDED = some(7)
    SAME_DISK = some(1)[0]


class CommandCure(Cause):
    """What to do then."""

    FROM_FILE, SIMILAR, FETCH, OUTPUT_ELSEWHERE, FIRST_OPTIONS, MOVE_OR_DELETE = some(6)
