"""Why a plan does what it does, and what else is to be said of it; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class ObstacleCause(Cause):
    """What holds the cleaner back."""

    THREAD_DIES, SEE_LOG_DIR, GOES_OFFLINE, CHECKPOINT, CHECKPOINT_UNREAD, TWO_LINES, STALE_LINE, LINE_RESET = some(8)
    NO_COMPACT, NONE_COMPACTED, CLEANER_OFF, HIGH_WATERMARK, YOUNG, SEEMS_YOUNG, OPEN_TRANSACTION = some(7)
    FILE_TIME, TIME_INDEX = some(2)
    ONLY_ACTIVE, OVERFLOW, KEYLESS, FAILS, DUE = some(5)


class ObstacleCure(Cause):
    """What to do about it."""

    REMOVE, EDIT, SYNC, ABORT, ROLL, FORCE, SALVAGE, VERIFY, LOOK = some(9)


class FreeWhat(Cause):
    """The kinds of what `free` can give up."""

    DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY = some(10)


class FreeWhy(Cause):
    """Why a kind is safe to give up."""

    DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY = some(10)
    TRACE = some(1)[0]


class FreeBroker(Cause):
    """What a broker does about a kind by itself, and when."""

    DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY = some(10)


class FreeCosts(Cause):
    """What can no longer be done without a kind."""

    DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY = some(10)


class LeftOutCause(Cause):
    """Why `free` leaves a partition dir alone."""

    WRONG_DATE, CLEANING_INTERRUPTED, NO_LOG, ONLY_COPY = some(4)


class LeftOutCure(Cause):
    """What to do so that `free` can tell what may go."""

    SAY_ON, SAY_SETTING, ASK_DOCTOR = some(3)


class VerdictCause(Cause):
    """What becomes of a segment, and why."""

    STARTS_AGAIN, ALL_DELETED, CUT_OFF, NONE_DELETED, STARTS_INSIDE, DAMAGED_FROM_THERE, REBUILT = some(7)
    NOT_WHOLE_BATCH, SPLIT_OFF, NEEDED, SWAPPED, CLEAN_STOP, BELOW_RECOVERY_POINT, ENDS_BELOW_START = some(7)
    AFTER_CUT, ROLLED, ROLLED_EMPTY, NEW_ACTIVE, BEGINS_CLUSTER, NEW_EPOCH, AS_IT_IS, CLEANED = some(8)
    ALWAYS_ONE, BELOW_START, PAST_SIZE, PAST_TIME, PAST_FILE_TIME, PAST_SECONDS = some(6)


class RecoverCause(Cause):
    """What is wrong with bytes that a recovery removes or a broker hides, and why a partition dir is left alone."""

    FIELD_WRONG, DAMAGED, PARTLY_WRITTEN, PARTLY_WRITTEN_OF, NOT_ASCENDING, EMPTIED = some(6)
    END_DAMAGED, MARKER_FALSE, MISSING, LOSES = some(4)
    NO_METADATA, STRAY, CLUSTER_METADATA, DELETED_TOPIC = some(4)


class PassCause(Cause):
    """Why the log cleaner cleans a log, or does not."""

    NOT_COMPACTED, NOT_COMPACTED_RATIO, UNCLEANABLE, EMPTY, LAG_EXCEEDED, RATIO = some(6)


class ProducersFrom(Cause):
    """From where the producer state comes that decides which batches are a producer's last."""

    LOG, NOTHING, SNAPSHOT, SNAPSHOT_AND_LOG = some(4)


class RollCause(Cause):
    """Why an active segment is due."""

    SIZE, TIME, INDEX_FULL, TIME_INDEX_FULL, OUT_OF_RANGE = some(5)


class PlanNote(Cause):
    """What else is to be said of a plan."""

    EPOCH_UNKNOWN, EPOCH_LATEST, CONTROL_RECORDS, STATE_ONLY_IN_PLACE, LINE, FILE_STAYS = some(6)
    SNAPSHOT_STAYS, EMPTIED_BATCH, NEW_DIR, ID_GENERATED, LINE_STAYS, LEFTOVERS_REMOVED = some(6)
    SWAP_COMPLETED, REPLACED_REMOVED, SPLIT, MARKER_FIRST, LOWERED, ONLY_IN_PLACE, SHORT, SOUND = some(8)
    SOUND_NO_EPOCH, OPEN_STAY, OPEN_COMMITTED, FORGOTTEN, NEEDS_LINE, BELOW_HIGH_WATERMARK = some(6)
    FALSE_CHECKSUMS, LEFT_REMOTE = some(2)
    NO_BATCH_ENDS, LOOKS_TIERED, REMOTE_OFF, ERASES_WITNESS, LEAVES_WITNESS, ERASES_DOUBT = some(6)


class SalvageCause(Cause):
    """What becomes of a segment that is salvaged, and why."""

    ALL, ONLY_COPY, MISSING_ON, MISSING, MISSING_ONE, REJECTED, CORRECTED, CORRECTED_ONE, IN_ORDER = some(9)
    FROM_COPIES, CONTINUES, NOTHING_LEFT, EMPTY, SOUND, NO_SEGMENT, NO_SEGMENT_BUT = some(7)


class SalvageNote(Cause):
    """What else is to be said of a salvage."""

    START_UNKNOWN, MISSING, START_ABOVE_END, START_NEEDS_LINE, WRITTEN_AGAIN, LEFT_OUT, FROM_REPLICA = some(7)
    ASIDE, OTHER_FORM, OTHER_BATCHES, NOT_TAKEN, END_TAKEN, END_NOT_TAKEN, START_NOT_TAKEN, OPEN = some(8)
    OPEN_MARKER_LOST, ABORT_LOST, PERHAPS_MISSING, ONLY_LEFT, MAY_HAVE, MAY_HAVE_FILL = some(6)


class GuessedCause(Cause):
    """Why a setting that nobody gave may not be the topic's, and what to do."""

    SAY_POLICY, CLEANER_LINE, NOT_COMPACTED, SAY_COMPACT, RECORDS, TIERED, SAY_TIERED, GAPS = some(8)
    SERVER_PROPERTIES, GIVE, REMOTE_OFF, SAY_REMOTE, KEPT_LONGER, SAY_RETENTION, NOT_KNOWN, SEGMENT = some(8)
    SEGMENTS = some(1)


class IndexDoubtCause(Cause):
    """What a time index says against its log, and what to do."""

    REBUILD_FIRST, NOT_DUE, FALSE_INDEX, BY_FILE, BY_INDEX, BY_FILE_OF_SEGMENT, BY_INDEX_OF_SEGMENT = some(7)


class MarkCleanCause(Cause):
    """Why a log dir cannot be marked clean."""

    CANNOT, ENDS_INSIDE, INDEX_ENDS_ELSEWHERE, NO_LOG_DIR = some(4)


class LeftOutOfImage(Cause):
    """Why an image has no copy of something."""

    NO_UTF8, NO_FILE, LINK_UP = some(3)


class TopicIdCause(Cause):
    """What is known of the id of a topic."""

    NOTHING_KNOWS, UNKNOWN, BY, OTHER_ID = some(4)


class AppendRefusal(Cause):
    """Why nothing can be appended, or no partition dir made for it."""

    NO_DIR, NO_WAY, NO_CODEC, NO_ZSTD, NO_NAME, NO_TOPIC_ID, OTHER_TOPIC_ID = some(7)


class MendRefusal(Cause):
    """Why an edit of a log dir cannot be made."""

    NOT_ABSOLUTE, TO_OTHER_FOLDER, NO_MOVE, TAKEN, TOO_LONG, SAME_TEXT, NAME_TAKEN, LONG_CHECKPOINT = some(8)
    SAME_LINE, NO_FILE, NOT_A_FILE, OUTSIDE, SHOWS_USE = some(5)


class NodeIdsRefusal(Cause):
    """Why nodes cannot be given other ids."""

    UNREAD, TAKEN, NO_VOTERS, OTHER_VOTERS, DIRECTORY_STAYS = some(5)


class PlanRefusal(Cause):
    """Why a command makes no plan, of the commands with a reason or two of their own."""

    NO_COMMAND, FOUND_AGAIN, RECOVERS, READS, SNAPSHOT_FIRST, NO_FOLDER_OF_DIR, PASSWORD, IN_ENVIRONMENT = some(8)
    TOO_MANY_NAMES, KEEP_NAMES, NO_MAP, NOT_APPENDED, NO_RECORD, NOT_ONE_LOG, NOT_LOADED = some(7)
    DECIDES_DIFFERENTLY, NO_SAVED_PLAN, ONE_OFFSET, FALSE_INDEX, NO_FILE_FOR_STEP = some(5)


class RebuildRefusal(Cause):
    """Why indexes cannot be rebuilt, and what is wrong with the segment."""

    DAMAGED, ONLY_SOME, ENDS_INSIDE, NO_SEGMENT, NEEDS_SPLIT, ENDS_BELOW_START, LEFTOVER = some(7)


class NotACopyCause(Cause):
    """Why a partition dir cannot be a copy, or batches cannot be kept, in a salvage."""

    STOPS, STOPS_TOO_OFTEN, OTHER_TOPIC_ID, OTHER_PARTITION, OTHER_BATCHES = some(5)


class TransplantRefusal(Cause):
    """Why a partition or a log dir cannot be adopted as it is."""

    OPEN_TRANSACTIONS, NO_METADATA, NO_NAME, NAME_REFUSED, OTHER_NAME, OF_ITS_CLUSTER, NO_LOG_DIR = some(7)
    NO_NODE, SAME_CLUSTER, DAMAGED, LEFT_OVER = some(4)


class FieldCause(Cause):
    """What is wrong with a field of JSON that somebody else may have written."""

    NUL, OUTSIDE, NOT_ABSOLUTE, NO_TEXT, NO_PATH, CHANGED, PLANS_MISSING, NO_HEAD, OTHER_SCHEMA, NO_PLAN = some(10)
    NO_JSON, NOT_OURS, NO_MOVE, OTHER_FILES, NO_NAMES, UNKNOWN, MISSING, NULL = some(8)
