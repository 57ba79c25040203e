"""Why something is a finding; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class FindingCause(Cause):
    """What several checks say: more of the same, and what a broker does at an error."""

    MORE, OFFLINE, OFFLINE_BY, NO_START, NO_START_BY, STOPPED = some(6)


class DamageCause(Cause):
    """What is wrong with bytes that are no sound entry."""

    WRONG_BATCH, WRONG_MESSAGE, ZEROS, CUT_BEHIND, CUT_INSIDE, NONE_THERE, NO_BATCH = some(7)
    NONE_FOLLOWS, HEADER_CUT, WRONG_MAGIC, WRONG_LENGTH, TOO_SHORT, UNCHECKED = some(6)


class OrderCause(Cause):
    """Why a sound entry does not fit its neighbours, or the end of the log."""

    WRONG_OFFSET, WRONG_END, NEXT_SEGMENT, NEXT_BATCH, CLOSED, BEYOND_END, OVERFLOW = some(7)
    BELOW_BASE, BEYOND_LARGEST, FOLLOWS, COPY, BEHIND, MORE_BEHIND, SEQUENCE = some(7)


class SegmentCause(Cause):
    """What is wrong with batches of a segment, by what is known beside them."""

    OUTSIDE_TRANSACTION, MORE_ALIKE, BYTES_CHANGED, FUTURE = some(4)
    MANY_FUTURE, LATER_THAN_NOW, OTHER_UNIT, IN_SECONDS = some(4)


class IndexCause(Cause):
    """What is wrong with an offset or a time index."""

    ENTRY, ENTRIES, DISORDER, TOO_MANY, ZEROS, SIZE, OFFSET_AT, TIME_AT, LOG_ENDS, NO_BATCH = some(10)
    OTHER_OFFSET, ENDS_BELOW, NOT_LARGEST, MESSAGES_END_BELOW, MISSING, MISSING_TIMES = some(6)
    NO_ENTRY, OTHER_MAXIMUM, READERS_MISS = some(3)


class TxnIndexCause(Cause):
    """What is wrong with a transaction index."""

    ENTRY, TORN, IN_NO_INDEX, MANY_IN_NO_INDEX, NO_ENTRY, ABOVE_LOG_END, OVERLOOKS_ABORTED = some(7)
    OVERLOOKS_OPEN, NOT_ABOVE, BELOW_ZERO, BELOW_SEGMENT, OTHER_PRODUCER, LOOK_COMMITTED, NO_MARKER = some(7)
    NOTHING_OPEN_THERE, STARTED_AT, WAS_OPEN, FIRST_OPEN, NOTHING_OPEN, DECIDED_BEFORE = some(6)


class SnapshotCause(Cause):
    """What is wrong with a producer snapshot."""

    NONE_AT_ALL, NONE_AT, ALL, FIRST_FEW, BEYOND, TWICE, INVENTED, DIFFERS, BATCH_MISSING = some(9)
    TXN_MISSING, FIELD_ABOVE, UNREADABLE = some(3)


class EpochCause(Cause):
    """What is wrong with leader epochs."""

    MISSING, ONE, FROM_TO, WRONG, NO_FIT, OTHERS_SAY, NOT_ASCENDING, BEYOND_END = some(8)
    OTHER_IN_LOG, BELOW_ALL, AROUND, FOLLOWS, UNKNOWN = some(5)


class NameCause(Cause):
    """What a broker makes of a name."""

    NOT_FOUND, FOLDER, FOREIGN_FOLDER, NESTED_LOGS, FOREIGN_FILE, NOT_OF_PARTITION, DELETED = some(7)
    UNFINISHED_SNAPSHOT = some(1)
    NO_END_OFFSET, BELOW_ZERO, NOT_20_DIGITS, IGNORED_INDEX, NO_LOG, NO_LOG_BUT, NO_OFFSET = some(7)
    UNREAD_OFFSET, CLEANED, SWAP_NOT_READY, SWAP_RENAMED, SWAP_COMPLETED, SWAP_UNINDEXED = some(6)
    NOWHERE_ELSE, WOULD_BE_LOST, MAY_BE_LOST, SWAP_STOPS, BESIDE_EMPTY, BESIDE_EMPTY_PACKED, STILL_OPEN = some(7)
    FOR_MISSING = some(1)[0]


class PartitionCause(Cause):
    """What is wrong with a partition dir as a whole."""

    GAP, COMPACTED, GAPS_INSIDE, FIRST_BATCH_BELOW, OVERLAP, NO_TOPIC_ID, MISNAMED, REPLACED = some(8)
    ELSEWHERE, IN_METADATA, EPOCHS_BEGIN = some(3)


class CheckpointCause(Cause):
    """What is wrong with a checkpoint or the clean shutdown marker of a log dir."""

    RECOVERY_POINT_LOST, REPLICATION_LOST, LOG_START_LOST, CLEANER_LOST, ENTRY, NOWHERE, BELOW_ZERO = some(7)
    LOG_STARTS, RECOVERY_POINT_BEYOND, REPLICATION_BEYOND, LOG_START_BEYOND, CLEANER_BEYOND = some(5)
    DAMAGED_TAIL, ENDS_EARLY, INDEX_ENDS_EARLY = some(3)


class LogDirCause(Cause):
    """What is wrong with a log dir, or with several of one broker."""

    FOLDER, NO_PARTITION_NAME, FOREIGN_FILE, UNCLEAN, NO_META_PROPERTIES, NO_ID, RESERVED, MARKER_FOLDER = some(8)
    OTHER_ID, ALSO_IN, MISPLACED, MISPLACED_OF, MAY_BE_OF, LOG_DIR_ITSELF, LOST_FOUND, IN_THE_WAY = some(8)


class KraftCause(Cause):
    """What is wrong with the metadata log, its snapshots, its voters and its vote."""

    NO_SNAPSHOT, READ_ALL_THE_SAME, NEEDED, NO_VOTERS, NOT_VOTER, NO_LEADER, NONE_OF_VOTERS = some(7)
    NO_DIRECTORY_ID, OTHER_DIRECTORY_ID, OTHER_NODE, METADATA_ID, NO_REPLAY, NO_REPLAY_IN, IN_SNAPSHOT = some(7)
    IN_LOG, RECORD, NODE_ENDS, CONTROLLER_ENDS, FAULT_LOGGED = some(5)


class CureCause(Cause):
    """What mends a finding: first commands for a shell (`verify/cures.py` makes them), then what a person does."""

    REBUILD_INDEX, REBUILD_SEGMENT, SALVAGE, SALVAGE_FROM_COPY, RECOVER, RECOVER_AS, TRUNCATE = some(7)
    MOVE_OUT, MOVE_UP, RENAME, RENAME_OVER, UNPACK, EXCHANGE, REMOVE, EDIT, WRITE_LINES, IN_TURN = some(10)
    REMARKED = some(1)[0]
    LEAVE_IT, METADATA_FIRST, FROM_REPLICA, AS_BROKERS_USER, FROM_A_CONTROLLER, OLDER_SNAPSHOT = some(6)
    HASH, SALVAGE_INTO, SALVAGE_WITH, COPY_ASIDE, MOVE_IN, MAKE_FOLDER, LOOK_INTO = some(7)
    MOVE_FILES, WRITE_OVER, UNPACK_OVER, UNPACK_TO, UNPACK_ASIDE = some(5)
    FORGET_CHANGES, META_PROPERTIES, TOPIC_ID, OTHER_BROKERS_DISK, SUB_FOLDER, NODE_ID, EXCHANGE_ONCE = some(7)
    IS_LOG_DIR = some(1)[0]
    META_PROPERTIES_OF_VOTER, SUB_FOLDER_OF_DISK, UNMOUNT = some(3)


class CureRemark(Cause):
    """What stands behind a command: what it costs, or when it is right."""

    RECOVERS_ALL, FREE_IN_SYNC, READABLE_AGAIN, LONG_CLEANING, BROKER_DELETES, NEW_ELECTION, NEW_ID = some(7)
    NEW_ID_OF_COPY, METADATA_KEEPS_ID, VOTES_WITH, ENDS, SEARCH_REPLICA, WAS_HERE, SEVERAL = some(7)
    REPAIR_FIRST, IF_OF_TOPIC, MOVE_FOLDER, RENAME_FOLDER, OTHER_ID, FORGOT_IT_LED = some(6)
    SAME_DIGESTS, COPY_OF, COPY_AT, EXCHANGE_FOLDERS, REBUILT, PUT_FOLDER_BACK = some(6)
