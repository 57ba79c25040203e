"""Why a copy leads, follows or is left, what is lost, and what a rebuilt snapshot guesses; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class ShareCause(Cause):
    """Why a copy is dealt with as it is."""

    UNREADABLE, OTHER_TOPIC, DELETED, NO_REPLICA, BEST_IS_NO_REPLICA, HIDDEN_BY_NAME = some(6)
    STARTS_BEYOND_RECORDS, BESIDE_BETTER, BESIDE_BETTER_UNSEEN, WOULD_LEAD = some(4)
    ONLY_COPY, HIGHEST_EPOCH, HIGHEST_EPOCH_AND_END, HIGHEST_END, AS_GOOD = some(5)
    DAMAGED, CUT_TOO_LATE, SAME_AS_BEST, FETCHES, CUT_BY_BROKER, SALVAGE_SOURCE = some(6)


class RangeCause(Cause):
    """Why offsets of another copy matter."""

    FILLS_HOLE, GOES_ON, HEAD_LOST, RETENTION, BEHIND_BEST, OTHER_RECORDS, IN_EPOCH, IN_EPOCHS = some(8)
    MARKED_DELETED = some(1)[0]


class FleetProblem(Cause):
    """What is wrong with a partition, or not known of the whole."""

    OF_BROKER, START_DELETES, NO_COPY, NO_METADATA, METADATA_NOT_WHOLE, NO_MAJORITY, NO_LEADER = some(7)


class NotAsPlanned(Cause):
    """What does not hold about a copy after `fleet apply`."""

    NO_FILE, STILL_THERE, GONE, NO_PLAIN_NAME, OTHER_END, DAMAGED_AT, NOT_CUT, BEST_NOT_THERE = some(8)


class NotAdoptedCause(Cause):
    """Why no broker adopts a folder."""

    OTHER_ID, IMPOSSIBLE_NAME, TOPIC_DELETED, MOVE_UNFINISHED, NO_ID, IMPOSSIBLE_ID, IMPOSSIBLE_EPOCH = some(7)
    SET_ASIDE, NAME_CUT, BETTER_COPY = some(3)


class Guess(Cause):
    """What a rebuilt snapshot has that no disk says."""

    METADATA_VERSION, FEATURES, LEADER_EPOCHS, PRODUCER_ID, REPLICA_ORDER, INTERNAL_SETTINGS = some(6)
    CLEANED, HELD, LOOKS_COMPACTED, AND_MORE = some(4)


class FleetRefusal(Cause):
    """Why nothing can be decided for several brokers."""

    OTHER_CLUSTER, NO_BROKER, SECOND_FILE, UNKNOWN_LEVEL, NOTHING_ADOPTABLE, UNKNOWN_TOPIC, TWO_FILES = some(7)
    NO_SUCH_ID, CHANGED, SEVERAL_BROKERS, NO_PARTITION_DIR, NO_BROKER_OF, OF_OTHER_CLUSTER, ALSO_ABOUT = some(7)
    OTHER_BROKER, TOO_MANY_MIXES, NO_DISK, METADATA_LEFT, OF_ALL, COPY_IT, ITS_VOTERS, OTHER_CLUSTERS = some(8)
    SAY_WHICH, SET_ASIDE, NO_IDENTITY, WRITE_IT, SAME_TOPIC_ID, NAME_BACK, FEW_PARTITIONS, MOVE_AWAY = some(8)
    OF_OTHER_BROKER = some(1)[0]


class FramedRefusal(Cause):
    """Why a file is none of `fleet collect` or `fleet plan`."""

    NO_BROKER, OTHER_FORMAT, NO_HEAD, OTHER_COMMAND, NO_END, LINES_MISSING, OTHER_SUM, LONG_LINE = some(8)
    NO_NAME, IMPOSSIBLE_NAME, NO_JSON, MANY_EPOCHS, AT_LINE, NO_FLEET, TWICE, UNPLANNED_DIR, NOT_OF = some(9)


class ImpossibleCause(Cause):
    """What cannot be, of what a row says."""

    BROKER_IDS, LOG_DIR_TWICE, NO_TOPIC, NO_PARTITION, OTHER_FOLDER, OFFSETS, HOLE, DAMAGE, LOST, EPOCHS = some(10)
    OTHER_LOG_DIR, TWICE, NO_BROKER, METADATA_ELSEWHERE, NO_PATH, NEGATIVE_ID, REPLICA_TWICE, SPAN = some(8)
    OTHER_PARTITION, CUT_NOWHERE, CUT_BEHIND_END = some(3)
