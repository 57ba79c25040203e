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
