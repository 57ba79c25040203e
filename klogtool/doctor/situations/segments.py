"""Segments at startup: recovered, cut, split, swapped, deleted (LogLoader, LogSegment.recover).

A broker recovers the segments from the recovery point on after an unclean shutdown, and a segment without .index after
any shutdown. Recovery cuts the log at the first bad batch and deletes all later segments.
"""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import (
    EARLIEST_AND_LATEST,
    REBUILD,
    RECOVER,
    RECOVER_NOW,
    REHEARSE,
    SALVAGE,
    SALVAGE_WITH_REPLICA,
    VERIFY,
    VERIFY_LOG_DIR,
)

_TAKE_BACK = (
    "Did the broker start less than a minute ago (file.delete.delay.ms)? Stop it: the deleted segments still end in "
    ".deleted, and can be renamed back."
)

SITUATIONS = (
    Situation(
        "segment-cut",
        (
            said("Corruption found in segment {base}, truncating to offset {offset}"),
            said("Found invalid messages in log segment {file} at byte offset {position}."),
        ),
        Outcome.LOSES,
        "Recovery found a bad batch. The broker cuts the log there, and deletes all later segments, sound ones too. If "
        "the bad bytes are at the very end of the log, only the last write is lost, or nothing.",
        "Is the damage at the end of the last segment? Then nothing else is lost. " + _TAKE_BACK + " Another replica "
        "may have the records.",
        (RECOVER, SALVAGE, SALVAGE_WITH_REPLICA),
        ("batch-crc", "torn-batch", "zero-tail", "foreign-bytes"),
        causes=(
            Cause(
                "the broker was killed in the middle of a write",
                "the position is at the end of the last segment.",
            ),
            Cause(
                "bytes of the disk have changed",
                "sound batches lie behind the position, or later segments were deleted.",
            ),
        ),
    ),
    Situation(
        "segments-deleted-by-recovery",
        (said("Deleting segments as part of log recovery: {segments}"),),
        Outcome.LOSES,
        "Recovery has cut the log at a bad batch, and deletes all segments after it, with all their records.",
        _TAKE_BACK + " Then use klogtool salvage on a copy with the segments renamed back.",
        (RECOVER, SALVAGE, SALVAGE_WITH_REPLICA),
        ("batch-crc", "foreign-bytes", "leftover-deleted"),
    ),
    Situation(
        "segment-emptied",
        (
            said(
                "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with "
                "starting offset {offset}"
            ),
        ),
        Outcome.LOSES,
        "A batch has a base offset that is not above those before it. The broker empties the whole segment, and "
        "deletes all later ones.",
        _TAKE_BACK + " klogtool salvage keeps every sound batch.",
        (VERIFY, RECOVER, SALVAGE),
        ("offset-order", "batch-header"),
    ),
    Situation(
        "offset-not-above-index",
        (
            said(
                "Attempt to append an offset {} to position {} no larger than the last offset appended ({}) to {file}"
            ),
            said("Attempt to append an offset ({}) to slot {} no larger than the last offset appended ({}) to {file}"),
        ),
        Outcome.REFUSES,
        "A batch has a base offset that is not above those before it, and the broker builds an index of the segment "
        "because there was none. This stops the whole broker, at every start.",
        "klogtool salvage keeps every sound batch. Do not delete the index: it would be built, and fail, again.",
        (VERIFY, SALVAGE, REHEARSE),
        ("offset-order", "batch-header", "index-missing"),
    ),
    Situation(
        "record-size-too-small",
        (said("Found record size {size} smaller than minimum record overhead ({}) in file {file}."),),
        Outcome.REFUSES,
        "There are zeros or foreign bytes where a batch should begin, usually at the end of the last segment after a "
        "power failure. The broker trusts the clean shutdown marker and does not recover, so it does not start. In "
        "bootstrap.checkpoint the same bytes stop it, too.",
        "If everything before these bytes is sound, recovery cuts them off and nothing is lost.",
        (VERIFY, "klogtool recover {folder} --last-stop unclean", RECOVER_NOW),
        ("zero-tail", "foreign-bytes", "clean-marker-false"),
    ),
    Situation(
        "record-corrupt",
        (
            said("Record is corrupt (stored crc = {}, computed crc = {})"),
            said("Record is corrupt (stored crc = {}) in topic partition {partition}."),
            said("Record size {size} is less than the minimum record overhead ({})"),
            said("Record size is less than the minimum record overhead ({})"),
            said("Invalid magic found in record: {}"),
        ),
        Outcome.LOSES,
        "A batch does not match its checksum, or is no batch (CorruptRecordException). Consumers and followers stop at "
        "it, every time. A broker that recovers this segment cuts the log there and deletes all later segments.",
        "Which file is it? Lines around this one, or klogtool verify, name it. Is another replica whole? Do not "
        "restart the broker uncleanly before you have looked. If the file is a .checkpoint of __cluster_metadata-0 or "
        "bootstrap.checkpoint, the broker does not start.",
        (VERIFY, RECOVER, SALVAGE_WITH_REPLICA),
        ("batch-crc", "foreign-bytes", "batch-header", "kraft-snapshot-corrupt"),
    ),
    Situation(
        "segment-split",
        (
            said("Caught segment overflow error: {cause}. Split segment and retry."),
            said("Splitting overflowed segment {segment}"),
            said("Replacing overflowed segment {segment} with split segments {}"),
            said("Detected offset overflow at offset {offset} in segment {segment}"),
        ),
        Outcome.LOSES,
        "A segment has an offset that its index cannot hold, so the broker splits the segment. Brokers before 1.1 "
        "wrote such segments: then nothing is lost. Otherwise a base offset is damaged: the log then ends at an absurd "
        "offset, and new records follow there.",
        "Compare the end offset with another replica. If it is absurd, stop the broker and salvage the partition.",
        (EARLIEST_AND_LATEST, VERIFY, SALVAGE),
        ("offset-overflow", "batch-header"),
    ),
    Situation(
        "segment-split-refused",
        (
            said("Split operation is only permitted for segments with overflow, and the problem path is {file}"),
            said(
                "requirement failed: Split operation is only permitted for segments with overflow, and the problem "
                "path is {file}",
                until="3.9",
            ),
        ),
        Outcome.REFUSES,
        "The name of a segment is above its first offset: the file was renamed or copied. This stops the whole broker.",
        "Give the file, and the files beside it, the name of its first offset; or move it out, if that segment is "
        "there. klogtool salvage does this.",
        (VERIFY, SALVAGE, REHEARSE),
        ("segment-name", "segment-overlap"),
    ),
    Situation(
        "all-segments-deleted",
        (
            said(
                "Deleting all segments because logEndOffset ({end}) is smaller than logStartOffset {start}. This could "
                "happen if segment files were deleted from the file system."
            ),
        ),
        Outcome.LOSES,
        "The log ends below its start in log-start-offset-checkpoint. The broker deletes all its segments, and starts "
        "the log empty at that offset.",
        "Segments are missing, or log-start-offset-checkpoint is wrong. " + _TAKE_BACK,
        (VERIFY, RECOVER, SALVAGE),
        ("checkpoint-entry", "segment-gap"),
    ),
    Situation(
        "segments-deleted-by-truncation",
        (said("Deleting segments as part of log truncation: {segments}"),),
        Outcome.LOSES,
        "The log is truncated, to what the leader has or as somebody asked, and whole segments go.",
        "Lines before this one say why ('Truncating ...'). Is the leader the replica that has the most records? "
        + _TAKE_BACK,
        (EARLIEST_AND_LATEST, VERIFY),
    ),
    Situation(
        "segments-deleted-by-roll",
        (
            said("Deleting segments as part of log roll: {segments}"),
            said("Trying to roll a new log segment with start offset {offset}"),
            said("Newly rolled segment file {file} already exists; deleting it first"),
        ),
        Outcome.OK,
        "A new segment has the name of an empty one, which the broker replaces.",
        "Nothing is lost: the replaced segment is empty, or its file was left over.",
        (VERIFY,),
    ),
    Situation(
        "roll-over-existing",
        (said("Trying to roll a new log segment for topic partition {partition} with start offset {offset} ="),),
        Outcome.UNSERVED,
        "The broker cannot roll a new segment, because one with that name exists or starts later. Appends to the "
        "partition fail.",
        "A base offset or a file name is wrong. klogtool verify says which.",
        (VERIFY, SALVAGE),
        ("segment-overlap", "segment-name", "batch-header"),
    ),
    Situation(
        "control-record-invalid",
        (
            said("Invalid version found for control record: {}. May indicate data corruption"),
            said("Invalid control record type for end transaction marker {}"),
        ),
        Outcome.REFUSES,
        "A transaction marker has a good checksum and unreadable contents. Recovery cuts the segment or leaves it, and "
        "then the whole broker ends, at every start.",
        "klogtool salvage leaves that batch out and keeps the rest. Is another replica whole?",
        ("klogtool verify --deep {folder}", "klogtool salvage {folder} --output DIR", REHEARSE),
        ("records-invalid",),
    ),
    Situation(
        "transaction-marker-short",
        (said("java.nio.BufferUnderflowException"),),
        Outcome.REFUSES,
        "The value of a transaction marker is too short (with EndTransactionMarker in the stack trace), or another "
        "file is. While a broker recovers a log this ends the whole broker, at every start.",
        "The stack trace says which class reads it. klogtool verify --deep names the batch.",
        ("klogtool verify --deep {folder}", "klogtool salvage {folder} --output DIR", REHEARSE),
        ("records-invalid",),
        clue="EndTransactionMarker",
        is_general=True,
    ),
    Situation(
        "abort-markers-out-of-order",
        (
            said(
                "The last offset of appended transactions must increase sequentially, but {} is not greater than "
                "current last offset {} of index {file}"
            ),
        ),
        Outcome.REFUSES,
        "The offsets of ABORT markers in a segment do not increase, so the .txnindex cannot be built. This stops the "
        "whole broker, at every start that recovers the segment.",
        "A base offset is damaged, or blocks were swapped. klogtool salvage puts the sound batches in order.",
        (VERIFY, SALVAGE, REHEARSE),
        ("offset-order", "batch-header"),
    ),
    Situation(
        "index-full",
        (
            said("Attempt to append to a full time index (size = {size})."),
            said("Attempt to append to a full index (size = {size})."),
            said("newPosition > limit: ({} > {})"),
        ),
        Outcome.REFUSES,
        "An index is too small for its segment: segment.index.bytes was lowered below what the segment needs. This "
        "stops the whole broker.",
        "Set segment.index.bytes (log.index.size.max.bytes) to what it was; the default is 10485760.",
        (VERIFY, REHEARSE),
    ),
    Situation(
        "index-overflow",
        (said("Integer overflow for offset: {offset} ({file})"),),
        Outcome.UNSERVED,
        "An offset is too far above the base offset of its segment for the index.",
        "Compare the end offset with another replica: if it is absurd, a base offset is damaged.",
        (VERIFY, SALVAGE),
        ("offset-overflow", "batch-header"),
    ),
    Situation(
        "swap-completed",
        (
            said(
                "Found log file {file} from interrupted swap operation, which is recoverable from .swap files by "
                "renaming."
            ),
            said("Recovering file {file} by renaming from .swap files."),
            said("Deleting segment files {file} that is compacted but has not been deleted yet."),
        ),
        Outcome.OK,
        "The broker died while it replaced segments by cleaned ones, and completes that now: it deletes the old "
        "segments and renames the .swap files. If a .swap is torn, or does not belong here, good records go.",
        "Before the start: does klogtool recover make the log shorter? Then keep a copy of the partition dir.",
        (RECOVER, VERIFY, SALVAGE),
        ("leftover-swap",),
    ),
    Situation(
        "swap-dropped",
        (said("Deleting invalid swap file {file} minCleanedFileOffset: {offset}"),),
        Outcome.OK,
        "A .swap was not complete (a .cleaned at or below it shows that), so the broker deletes it and keeps the old "
        "segments.",
        "Nothing is lost, if they are there: klogtool verify says it if not.",
        (VERIFY,),
        ("leftover-swap", "leftover-cleaned"),
    ),
    Situation(
        "segment-recovered",
        (said("Recovering unflushed segment {base}. {} recovered for {partition}."),),
        Outcome.OK,
        "The broker reads this segment from its beginning and builds its indexes again, because the last shutdown was "
        "not clean. If a batch is bad, it cuts the log there; other lines say so.",
        "The second number is always 0; it means nothing. Before a start, klogtool says what would be cut.",
        (RECOVER, REBUILD),
        ("unclean-shutdown",),
    ),
    Situation(
        "log-truncated",
        (
            said("Truncating to offset {offset}"),
            said("Truncating to {offset} has no effect as the largest offset in the log is {}"),
        ),
        Outcome.OK,
        "The log is truncated to an offset, usually because this replica follows a new leader. Records after it were "
        "not on all in-sync replicas.",
        "Is the offset below the high watermark? Another line says so then, and committed records are lost.",
        (EARLIEST_AND_LATEST, VERIFY_LOG_DIR),
    ),
    Situation(
        "truncated-below-high-watermark",
        (said("Truncating {partition} to offset {offset} below high watermark {}"),),
        Outcome.LOSES,
        "This replica drops records that all in-sync replicas had. The new leader does not have them: it was elected "
        "uncleanly, or its log was cut.",
        "Stop this broker if you want to keep its copy, and save the partition dir first. Compare it with the leader.",
        (EARLIEST_AND_LATEST, SALVAGE_WITH_REPLICA),
    ),
)
