"""The log cleaner: partitions that it cannot clean, threads that end."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import RECOVER, SALVAGE, VERIFY, VERIFY_LOG_DIR, WHY_NOT_COMPACTED

_COMPACT = "klogtool compact {folder}"

SITUATIONS = (
    Situation(
        "partition-uncleanable",
        (
            said(
                "Unexpected exception thrown when cleaning log {log}. Marking its partition ({partition}) as "
                "uncleanable"
            ),
            said("as uncleanable"),
        ),
        Outcome.UNSERVED,
        "The cleaner failed at this partition, and leaves it alone until the broker restarts. The partition is served, "
        "and grows. After a restart the same happens again. Segments before the failure may be cleaned already.",
        "The exception below says why. Damage in a batch is the usual cause.",
        (VERIFY, WHY_NOT_COMPACTED, SALVAGE),
        ("batch-crc", "records-invalid", "foreign-bytes"),
        causes=(
            Cause(
                "a batch is damaged",
                "the exception is a CorruptRecordException, and klogtool verify finds it.",
            ),
            Cause(
                "a batch is larger than the limit of the topic",
                "the exception speaks of a message larger than the maximum allowable size.",
            ),
            Cause(
                "a batch of an old format would become empty",
                "the exception is 'Empty batches are only supported for magic v2 and above'.",
            ),
        ),
    ),
    Situation(
        "cleaner-io-failed",
        (said("Failed to clean up log for {partition} in dir {dir} due to IOException"),),
        Outcome.OFFLINE,
        "The cleaner could not read or write, and the broker takes the whole log dir offline.",
        "The exception says why: a full disk, a file system that is read-only, a failing disk. Cleaning needs free "
        "space for the new segments.",
        ("df -h {dir}", VERIFY, WHY_NOT_COMPACTED, "dmesg -T"),
        ("unreadable",),
    ),
    Situation(
        "cleaner-thread-ended",
        (said("[kafka-log-cleaner-thread-{}]: Error due to"),),
        Outcome.UNSERVED,
        "A thread of the cleaner has ended. If it was the only one, nothing is compacted any more until the broker "
        "restarts, and compacted topics grow.",
        "The exception below the message says why. A NumberFormatException comes from cleaner-offset-checkpoint, and "
        "so does 'Duplicate key'.",
        (VERIFY_LOG_DIR, WHY_NOT_COMPACTED),
        ("checkpoint-corrupt", "checkpoint-entry"),
    ),
    Situation(
        "cleaner-checkpoint-no-number",
        (said('NumberFormatException: For input string: "{}"'),),
        Outcome.UNSERVED,
        "cleaner-offset-checkpoint has an offset or a partition that is no number. The cleaner thread ends, and "
        "nothing is compacted any more.",
        "Delete the file while the broker is stopped. The price: compaction starts at the log start again.",
        (VERIFY_LOG_DIR,),
        ("checkpoint-corrupt",),
        clue="kafka-log-cleaner-thread-",
    ),
    Situation(
        "cleaner-empty-old-batch",
        (said("Empty batches are only supported for magic v2 and above"),),
        Outcome.UNSERVED,
        "The last batch of the cleaned range is of an old format (magic 0 or 1) and would become empty. The cleaner "
        "fails, and the partition is marked uncleanable; 3.9.2 to 4.3.1 do this.",
        "4.4.0 cleans it in most cases. klogtool compact shows what a broker would do.",
        (WHY_NOT_COMPACTED, _COMPACT),
    ),
    Situation(
        "cleaner-message-too-large",
        (
            said("This log contains a message larger than maximum allowable size of {size}."),
            said("Batch size {size} < buffer size {}, but not processed for {log}"),
            said("Invalid batch size {size} for {log}"),
            said("Could not determine next batch size for {log}"),
            said("Log segment may be corrupt, batch size {size} > {} bytes left in segment for {log}"),
        ),
        Outcome.UNSERVED,
        "The cleaner found a batch that is larger than it may be: a length is damaged, the last batch is torn, or "
        "max.message.bytes was lowered. The partition is marked uncleanable.",
        "klogtool verify says whether the batch is damaged. If it is not, raise max.message.bytes of the topic.",
        (VERIFY, WHY_NOT_COMPACTED, SALVAGE),
        ("batch-header", "torn-batch", "foreign-bytes"),
        causes=(
            Cause(
                "a length is damaged, or the last batch is torn",
                "klogtool verify finds batch-header or torn-batch.",
            ),
            Cause(
                "max.message.bytes was lowered below what is stored",
                "klogtool verify finds nothing.",
            ),
        ),
    ),
    Situation(
        "cleaner-overflow",
        (said("Caught segment overflow error during cleaning: {cause}"),),
        Outcome.OK,
        "The cleaner found a segment whose offsets are too far apart, splits it, and tries again later.",
        "Compare the end offset with another replica: if it is absurd, a base offset is damaged.",
        (VERIFY, RECOVER),
        ("offset-overflow",),
    ),
    Situation(
        "cleaner-start-reset",
        (
            said(
                "Resetting first dirty offset of {partition} to log start offset {start} since the checkpointed offset "
                "{offset} is invalid."
            ),
            said(
                "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger than the log "
                "end offset {end}. Resetting to the log start offset {start}."
            ),
        ),
        Outcome.OK,
        "The line of the partition in cleaner-offset-checkpoint is outside of the log. The cleaner starts at the log "
        "start again.",
        "Is the offset larger than the log end? Then the log has lost its end: compare it with another replica.",
        (VERIFY, WHY_NOT_COMPACTED),
        ("checkpoint-entry",),
    ),
    Situation(
        "cleaner-invalid-messages",
        (said("Found {} invalid messages during compaction."),),
        Outcome.LOSES,
        "The cleaner has dropped records that have no key. A compacted topic cannot keep them.",
        "Which producer writes without keys? A broker refuses such records while cleanup.policy is compact.",
        (WHY_NOT_COMPACTED, _COMPACT),
    ),
    Situation(
        "cleaner-log-dir-stopped",
        (
            said("Stopping cleaning logs in dir {dir}"),
            said("Failed to access checkpoint file {} in dir {dir}"),
        ),
        Outcome.OFFLINE,
        "The log dir has failed, and the cleaner leaves it alone.",
        "Earlier lines say why the log dir has failed.",
        (VERIFY_LOG_DIR,),
        is_general=True,
    ),
    Situation(
        "cleaner-buffer",
        (
            said("Cannot use more than 2G of cleaner buffer space per cleaner thread, ignoring excess buffer space..."),
            said("Growing cleaner I/O buffers from {} bytes to {} bytes."),
        ),
        Outcome.OK,
        "The cleaner says how much memory it uses. This is normal.",
        "Nothing to do.",
    ),
    Situation(
        "cleaner-thread-stopped",
        (
            said("[kafka-log-cleaner-thread-{}]: Stopped"),
            said("[kafka-log-cleaner-thread-{}]: Shutdown completed"),
        ),
        Outcome.OK,
        "A thread of the cleaner has ended. This is normal when the broker stops.",
        "If the broker has not stopped, look for 'Error due to' before this line: then nothing is compacted any more.",
        (WHY_NOT_COMPACTED,),
    ),
    Situation(
        "cleaner-pass",
        (
            said("Beginning cleaning of log {partition}"),
            said("Log cleaner thread {} cleaned log {partition} (dirty section = [{}, {}])"),
            said("Swapping in cleaned segment {} for segment(s) {}"),
            said("is aborted and paused"),
        ),
        Outcome.OK,
        "The cleaner works on a compacted partition. This is normal.",
        "If a partition is not cleaned although you expect it, klogtool says why.",
        (WHY_NOT_COMPACTED,),
    ),
)
