"""What a person does about a quorum, and why new voters are refused, as causes; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class QuorumCure(Cause):
    """What to do so that a leader is elected."""

    NAME_ALL, OLD_LISTENER, OLD_NODE, BRING_BACK_AS, VOTER, ADD_CONTROLLER, BRING_BACK, DOCTOR, NODE_ID = some(9)
    CORRECT, OTHER_CLUSTER, STATIC_VOTER, STANDALONE, OTHER_ENDPOINTS, NODE_AND_DIRECTORY, ONLY_THOSE_LEFT = some(7)
    ONE_OF_TWO, SAME_VOTERS, KEEP_DOWN, MAJORITY_FIRST, BEST_FIRST, VOTERS_AS_BEFORE, LISTENERS_AS_BEFORE = some(7)
    LONGER_COPY = some(1)[0]


class MetadataCopyCause(Cause):
    """What is wrong with a copy of the metadata log."""

    OTHER_TOPIC_ID, NO_SNAPSHOT, ENDS_INSIDE, BATCH_DAMAGED = some(4)


class NewVotersCause(Cause):
    """Why new voters would do harm, and what to do then."""

    DOCTOR_FIRST, COUNT, RECORDS, BEHIND, FORMAT_ANEW, START_ONCE, NO_DIRECTORY_ID, UNSEEN_EPOCH = some(8)
    WOULD_BE_LOST, STATIC_WITH_MANY, OTHER_CLUSTERS, SALVAGE, LOG_DAMAGED, NOBODY_SAYS_WHO, NO_NEW_VOTER = some(7)
    NO_METADATA, TORN, TAKE_BETTER, LISTENS_WHERE, UNKNOWN_DIRECTORY, EMPTY_MAY_LEAD, FIRST_THEN_START = some(7)
    START, UPGRADE, FIRST, FIRST_SETTINGS, INSTEAD, CAN_ELECT, NO_EPOCH, NOT_ELECTED, BRING_DISKS, NAME_ONE = some(10)
    NAME_ONE_CLUSTER, SAME_DIRECTORY, OR_LEAVE_OUT, NAME_SETTINGS, START_ENDS, FORMAT, REBUILD_METADATA = some(7)
    WRITE_ID, TWO_LOGS, NAME_IT, OTHER_DIRECTORY, NAME_DIRECTORY, NEVER_AGAIN, MAY_START, WHENCE_EPOCH = some(8)
    NAME_ONE_OF_THEM, WHICH_LOG, LEAVE_ID_OUT = some(3)
