"""Notes on how a log is loaded, and why segments stay; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class LoadNote(Cause):
    """What a broker knows of a partition beside its dir, and from where."""

    FATE, DELETED, STRAY, FUTURE = some(4)
    RELEASE, RELEASE_AT_LEVEL, STOP_GIVEN, STOP_ASSUMED, STOP_CLEAN, STOP_UNCLEAN = some(6)
    STOP_OF_METADATA = some(1)[0]
    OFFSET, AS_GIVEN, OUTSIDE, OF_SUCCESSOR, NO_FILE, UNREADABLE, NO_LINE, BY_FILE = some(8)
    SETTING, IGNORED_SETTING, OTHERS_DEFAULT, ALL_DEFAULT = some(4)
    HAS_COMPACT, CLEANER_LINE = some(2)
    OTHER_TOPIC_ID, METADATA_NOT_WHOLE, UNKNOWN_TOPIC, WRONG_TYPE = some(4)


class KeptCause(Cause):
    """Why a segment stays after retention."""

    EMPTY, HIGH_WATERMARK, POLICY, TIERED, UNLIMITED, SIZE, BEHIND = some(7)
    RECORD_AGO, FILE_AGO, RECORD_AHEAD, FILE_AHEAD, OTHER_UNIT = some(5)


class ImageProblem(Cause):
    """Why the metadata on a disk is not whole."""

    BEGINS_LATER, NO_BATCH, BATCH_DAMAGED = some(3)


class UnreadRecordCause(Cause):
    """Which record a coordinator cannot read, and what to do."""

    DOCTOR, AT = some(2)


class LineCause(Cause):
    """What is wrong with a line of what is to be appended."""

    AT, TOO_LONG, NO_OBJECT, TWICE, NO_ROLE, NO_ORIGIN, HEX_AND_FILE, NO_CONTENT, NO_NUMBER = some(9)
    OUT_OF_RANGE, NO_JSON, NO_FIELD, NO_HEX, NO_CALL, NO_BYTES, NO_RECORD, NO_HEADERS_IN = some(8)
    NO_HEADERS, HEADER_KEYS, NO_HEADER, NULL_KEY, NO_TIMESTAMP = some(5)


class WrongWord(Cause):
    """What is wrong with a word that names a setting, a release or a time."""

    NO_SETTING, NO_VALUE, NO_RELEASE, NO_TIME = some(4)


class ServerRefusal(Cause):
    """Why a process ends at settings that do not go together, in Kafka's words."""

    REQUIRED, ORDER, EARLY, NO_CLASSIC, NO_CODEC, UPDATES, ACKS, OLD_LEVEL, OTHER_BROKER_ID, OTHER_ID = some(10)
    NO_NODE_ID, MIGRATION, ROLL, JITTER, RETENTION, NO_LOG_DIR, CORDONS_ALL, CORDONS_UNKNOWN, BY_ZERO = some(9)
    SMALL_BUFFER, TIMEOUTS, CHANGES_IN_ISR, SMALL_QUEUE, NO_CONNECTIONS, LONG_DELAY, NO_CONTROLLERS = some(7)
    NO_VOTERS, BROKER_VOTES, NO_CONTROLLER_LISTENER, LISTENS_AS_CONTROLLER, UNMAPPED, AUTO_JOIN = some(6)
    LISTENS_AS_BROKER, CONTROLLER_ADVERTISES, BETWEEN_CONTROLLERS, CONTROLLER_NO_VOTER, LISTENS_NOWHERE = some(5)
    LISTENS_ELSEWHERE, NO_BROKER_LISTENER, ADVERTISES_CONTROLLER, BETWEEN_OTHERS, ADVERTISES_MORE = some(5)
    ADVERTISES_ALL, OTHER_MECHANISM, NO_ROUTE, NO_ZOOKEEPER, NO_BUFFER, AT_LEAST, AT_MOST, LESS = some(8)
    NO_LEVEL = some(1)[0]


class ListenerRefusal(Cause):
    """Why it ends at its listeners, its voters or its bootstrap servers, in Kafka's words."""

    NO_VOTER, NO_VOTER_ID, NO_VOTER_HOST, NO_SERVER, NO_NAME, NO_PAIR, NO_PROTOCOL, NO_LISTENERS = some(8)
    NO_ENDPOINT, UNKNOWN_PROTOCOL, SAME_NAME, SAME_PORT, OF_ONE_KIND, SHARED_PORT, ONLY_ONE = some(7)
    UNKNOWN_NAME = some(1)[0]


class ValueRefusal(Cause):
    """Why it ends at the value of one setting, in Kafka's words."""

    INVALID, MISSING, NO_BOOLEAN, NO_NUMBER, TOO_LOW, TOO_HIGH, NO_GZIP_LEVEL, EMPTY, OTHER_WORD = some(9)
    OTHER_WORD_OF_ANY_CASE, EMPTY_LIST, ANY_WORD, EMPTY_WORD = some(4)
