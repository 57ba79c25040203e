"""What is wrong with a query, with rows that are written, and with what a job reads; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class OptionCause(Cause):
    """What is wrong with options of a query or of a write, and which have no effect."""

    UNKNOWN, OF_KAFKA, NO_BROKER, STREAMS_ONLY, ONE_OF, NO_JSON, OTHER_JSON, NO_PARTITIONS, NO_OFFSETS = some(9)
    NO_NUMBER, NO_WHOLE_NUMBER, BELOW_ZERO, NEGATIVE, ZERO, NOT_BETWEEN, NO_SIZE, NO_DURATION, NO_PATTERN = some(9)
    NO_PATH, TABLE_OF_CATALOG, TABLE_MADE, ONE_STRATEGY, NO_TOPICS, NO_SUCH_TOPIC, NO_SUCH_PARTITION = some(7)
    COPIES_OF_STREAM, FAILFAST, OF_RECORDS, NO_FORMAT, NO_SCHEMAS, DECODES_RECORDS, DECODES_ONE_TOPIC = some(7)
    LEFT_OUT_OF_RECORDS, LEAST_ABOVE_MOST, STREAM_OF_RECORDS, OLD_PYSPARK = some(4)
    BEGINS_LATEST, PARTITION_BEGINS_LATEST, END_OF_STREAM, ENDS_EARLIEST, PARTITION_ENDS_EARLIEST = some(5)
    OTHER_PARTITIONS, BEGINS_BEHIND_END, NOT_ALL_PARTITIONS, START_ABOVE_END, NO_OFFSET_OF_TIME = some(5)
    NO_COLUMN, OTHER_TYPES, OTHER_MODE = some(3)


class WriteCause(Cause):
    """What is wrong with where, what and how `write.format("klog")` writes."""

    REPLACES, NO_PATH, NO_FILE_SYSTEM, TOPIC_REFUSED, OF_CLUSTER, NO_JSON, TOPIC_IDS, NO_TOPIC_ID, LEVEL = some(9)
    COLUMN_UNKNOWN, COLUMN_TWICE, NO_VALUE, NO_TOPIC, NO_PARTITION, TWO_PARTITIONS, OTHER_TYPE = some(7)
    ALREADY_PARTITION, NO_PARTITIONS, HOW_MANY, ROW_WITHOUT_TOPIC, ROW_OF_PARTITION, ROW_WITHOUT_OFFSET = some(6)
    ROW_NEGATIVE, ROW_BEFORE, TOO_MANY_OFFSETS, NO_ROWS, NO_ROWS_OF, TWO_TASKS = some(6)


class LogCause(Cause):
    """What is wrong with what a job reads or adds to, and what a task leaves alone."""

    NO_PARTITION_DIR, FOUND_TWICE, TWO_TOPICS, NOT_NAMED, NO_LOG_DIR, ENCRYPTED, NO_JSON = some(7)
    BEGINS_LATER, ENDS_EARLIER, CHANGED, ASTRAY, BACKWARD, OUT_OF_ORDER, WRONG_CRC = some(7)
    TOPIC_NOT_CHOSEN, ELSEWHERE, ONE_TASK = some(3)


class StreamCause(Cause):
    """What a stream misses, most in the words of Spark's kafka source."""

    ADDED, DELETED, OFFSET_CHANGED, TOPIC_AGAIN, GONE, AND_MORE, NO_CHECKPOINT = some(7)


class ExportCause(Cause):
    """Why a folder is no export, and why offsets are missing in one."""

    NO_EXPORT, FILE_GONE, NOT_NAMED, SCHEMA = some(4)
    DELETED_BEFORE, CHANGED, OBJECT_MISSING, SHORTER, OTHER_EPOCH = some(5)


class SessionCause(Cause):
    """Why Spark does not run, and which Python it runs."""

    NO_SPARK, NO_JAVA, NO_JAVA_HOME, OLD_JAVA, FAILED, NOT_STARTED, OTHER_PYTHON = some(7)


class SparkCure(Cause):
    """What to do about it."""

    AS_VIEW, ALL_COPIES, WITHOUT_LOST, OTHER_CHECKPOINT, FETCH, VERIFY_REMOTE, SEE_LOG = some(7)
