"""The checkpoint files of a log dir: recovery points, log starts, high watermarks, where the cleaner was.

All four have the same form, and the same damage has another effect in each: LogManager, ReplicaManager and
LogCleanerManager read them.
"""

from __future__ import annotations

from klogtool.doctor.situation import Outcome, Situation, said
from klogtool.doctor.situations.commands import REHEARSE, VERIFY_LOG_DIR

_DELETE = "Delete the file while the broker is stopped; it writes a new one. "
_RECOVERY = "The price: after an unclean shutdown it recovers all segments, which takes long."
_START = "The price: records that were deleted (kafka-delete-records) are visible again until retention runs."
_WATERMARK = "The price: high watermarks start at the log start, and move up when the replicas are in sync."
_CLEANER = "The price: compaction starts at the log start again, which takes one long pass."
_OFFLINE = "The broker takes the log dir offline, also where a WARN line says that the checkpoint is reset."

SITUATIONS = (
    Situation(
        "recovery-point-checkpoint-unreadable",
        (
            said(
                "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}, "
                "resetting the recovery checkpoint to 0"
            ),
            said("Error while reading checkpoint file {dir}/recovery-point-offset-checkpoint"),
            said("Malformed line in checkpoint file [{dir}/recovery-point-offset-checkpoint]: {line}"),
            said(
                "Expected [{}] entries in checkpoint file [{dir}/recovery-point-offset-checkpoint], but found only [{}]"
            ),
            said(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: "
                "{dir}/recovery-point-offset-checkpoint"
            ),
        ),
        Outcome.OFFLINE,
        "recovery-point-offset-checkpoint cannot be read. " + _OFFLINE + " (A number that is none, or a negative "
        "count, is the exception: then the broker goes on as if the file were empty.)",
        _DELETE + _RECOVERY,
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
    ),
    Situation(
        "log-start-checkpoint-unreadable",
        (
            said(
                "Error occurred while reading log-start-offset-checkpoint file of directory {dir}, "
                "resetting to the base offset of the first segment"
            ),
            said("Error while reading checkpoint file {dir}/log-start-offset-checkpoint"),
            said("Malformed line in checkpoint file [{dir}/log-start-offset-checkpoint]: {line}"),
            said("Expected [{}] entries in checkpoint file [{dir}/log-start-offset-checkpoint], but found only [{}]"),
            said(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {dir}/log-start-offset-checkpoint"
            ),
        ),
        Outcome.OFFLINE,
        "log-start-offset-checkpoint cannot be read. " + _OFFLINE + " (A number that is none, or a negative count, is "
        "the exception: then the broker goes on as if the file were empty.)",
        _DELETE + _START,
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
    ),
    Situation(
        "high-watermark-checkpoint-unreadable",
        (
            said("Error while reading checkpoint file {dir}/replication-offset-checkpoint"),
            said("Malformed line in checkpoint file [{dir}/replication-offset-checkpoint]: {line}"),
            said("Expected [{}] entries in checkpoint file [{dir}/replication-offset-checkpoint], but found only [{}]"),
            said(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: "
                "{dir}/replication-offset-checkpoint"
            ),
        ),
        Outcome.OFFLINE,
        "replication-offset-checkpoint cannot be read. The broker takes the log dir offline when its first partition "
        "becomes leader or follower.",
        _DELETE + _WATERMARK,
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
    ),
    Situation(
        "high-watermark-no-number",
        (said("Unable to start fetching {partition} with topic ID {topic_id} due to NumberFormatException"),),
        Outcome.UNSERVED,
        "replication-offset-checkpoint has an offset or a partition that is no number. The broker runs, and serves no "
        "partition of this log dir.",
        _DELETE + _WATERMARK,
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
    ),
    Situation(
        "cleaner-checkpoint-unreadable",
        (
            said("Failed to access checkpoint file cleaner-offset-checkpoint in dir {dir}"),
            said("Error while reading checkpoint file {dir}/cleaner-offset-checkpoint"),
            said("Malformed line in checkpoint file [{dir}/cleaner-offset-checkpoint]: {line}"),
            said("Expected [{}] entries in checkpoint file [{dir}/cleaner-offset-checkpoint], but found only [{}]"),
            said(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {dir}/cleaner-offset-checkpoint"
            ),
        ),
        Outcome.OFFLINE,
        "cleaner-offset-checkpoint cannot be read. The broker takes the log dir offline when the cleaner runs.",
        _DELETE + _CLEANER,
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
    ),
    Situation(
        "cleaner-checkpoint-duplicate",
        (said("Duplicate key {partition} (attempted merging values {} and {})", since="4.1"),),
        Outcome.UNSERVED,
        "The same partition is in cleaner-offset-checkpoint of two log dirs. The cleaner thread ends, and nothing is "
        "compacted any more; everything else works. (Brokers before 4.1 take one of the two.)",
        "Delete the line of the log dir that does not have the partition, and lower the number in the second line of "
        "the file. Then restart the broker.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-entry",),
    ),
    Situation(
        "checkpoint-malformed",
        (
            said("Malformed line in checkpoint file [{file}]: {line}"),
            said("Expected [{}] entries in checkpoint file [{file}], but found only [{}]"),
            said("Unrecognised version:{}, expected version: {} in checkpoint file at: {file}"),
            said("Error while reading checkpoint file {file}"),
        ),
        Outcome.OFFLINE,
        "A checkpoint file cannot be read: a line is wrong, or the number of lines, or the version, or it is not text. "
        "The broker takes the log dir offline. If the log dir is the metadata log dir, or the last one, it ends.",
        "Move the file away while the broker is stopped. What that costs depends on the file: klogtool explain "
        "checkpoint-corrupt has all four. A leader-epoch-checkpoint is better rebuilt from the log.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt", "epochs-corrupt"),
    ),
    Situation(
        "text-not-utf-8",
        (said("java.nio.charset.MalformedInputException: Input length = {}"),),
        Outcome.OFFLINE,
        "A text file is not UTF-8: a checkpoint, a leader-epoch-checkpoint or a partition.metadata. The broker takes "
        "the log dir offline.",
        "A line around this one names the file ('Error while reading ...'). klogtool verify names it, too.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt", "epochs-corrupt", "partition-metadata-corrupt"),
        is_general=True,
    ),
    Situation(
        "checkpoint-count-negative",
        (said("Illegal Capacity: {}"),),
        Outcome.OK,
        "The second line of recovery-point-offset-checkpoint or log-start-offset-checkpoint is a negative number. The "
        "broker goes on as if the file were empty.",
        "Nothing is lost. After an unclean shutdown the start takes longer.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
        clue="Error occurred while reading ",
    ),
    Situation(
        "checkpoint-no-number",
        (said('NumberFormatException: For input string: "{}"'),),
        Outcome.OK,
        "An offset or a partition in recovery-point-offset-checkpoint or log-start-offset-checkpoint is no number. The "
        "broker goes on as if the file were empty.",
        "Nothing is lost. After an unclean shutdown the start takes longer. The same exception has other causes: "
        "klogtool verify names the file.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("checkpoint-corrupt",),
        clue="Error occurred while reading ",
    ),
    Situation(
        "checkpoint-not-written",
        (
            said("Error while writing to checkpoint file {file}"),
            said("Error while writing to highwatermark file in directory {dir}"),
            said("Disk error while writing recovery offsets checkpoint in directory {dir}: {cause}"),
            said("Disk error while writing log start offsets checkpoint in directory {dir}: {cause}"),
        ),
        Outcome.OFFLINE,
        "The broker could not write a checkpoint file, and takes the log dir offline.",
        "The exception says why: a full disk, a file system that is mounted read-only, a missing permission, a failing "
        "disk.",
        ("df -h {dir}", "df -i {dir}", "findmnt --target {dir}", VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "checkpoint-of-deleted-partition",
        (said("Failed to write to checkpoint file {file}. This is ok if the topic/partition is being deleted"),),
        Outcome.OK,
        "The partition dir is gone: its topic is being deleted.",
        "Nothing to do, if somebody deleted the topic.",
    ),
)
