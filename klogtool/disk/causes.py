"""Why nothing is written; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class RunRefusal(Cause):
    """Why a run is not begun, finished, taken back or given up."""

    LINK_SINCE, CHANGED, IN_USE, LINK_ON_THE_WAY, NO_FOLDER, NO_SPACE, NO_REGULAR_FILE, COPY_GONE = some(8)
    TAIL_NOT_KEPT, FOLDER_GONE, FILE_GONE, COPY_MODIFIED, NOT_AS_LEFT, NO_RUN, NOTHING_TO_FINISH = some(7)
    KILLED_EARLY, MOVED_SINCE, CUT_SHORT, OTHER_PLACES, ANOTHER, MODIFIED, MODIFIED_KEPT, OTHER_SIZE = some(8)
    FILE_MODIFIED, OTHER_FILE, NEWER_CTIME, NAMES_CHANGED = some(4)


class JournalRefusal(Cause):
    """Why a journal cannot be used, or is not that of a log dir."""

    OTHER_VERSION, RENAMED, NOT_BESIDE, LINK, COPY, OTHER_LOG_DIR, OF_LOG_DIR, ROOT, IN_LOG_DIR, NOT_AT = some(10)
    PLANS_MISSING, NO_JOURNAL, NO_MANIFEST = some(3)


class FolderRefusal(Cause):
    """Why a folder cannot be renamed."""

    OTHER_PLAN, NOT_LAST, MOUNT_POINT, NOT_THERE, INTO_NO_FOLDER, OTHER_FILE_SYSTEM, INTO_LOG_DIR = some(7)
    TAKEN_SINCE, TAKEN, GONE_SINCE, OTHER_SINCE, WITHOUT_NO_UNDO, WITHOUT_OUTPUT = some(6)


class OutputRefusal(Cause):
    """Why nothing can be written there."""

    SAME_NAME, UNFINISHED_EXPORT, NO_EXPORT, NOT_AS_WRITTEN, LOCK, FILE_IN_PARTITION_DIR = some(6)
    FILE_IN_LOG_DIR, IN_IMAGE, IN_USE, TOO_MANY_BYTES, NEW_LOG_DIR, GONE, IN_SOURCE, IN_PARTITION_DIR = some(8)
    NO_PARTITION_NAME, NOT_EMPTY, MOUNT_POINT, OTHER_FILES, ENDLESS_LINK, OTHER_FOLDERS, IN_LOG_DIR = some(7)
    NO_FOLDER, CHANGED, LARGER_THAN_SEGMENT = some(3)
