"""Segments that a running broker deletes, by its settings or because somebody asked."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import EARLIEST_AND_LATEST, VERIFY

_RETAIN = "klogtool retain {folder}"
_TAKE_BACK = (
    "If this was not meant: change the setting, and stop the broker within a minute (file.delete.delay.ms). The files "
    "still end in .deleted, and can be renamed back."
)

SITUATIONS = (
    Situation(
        "retention-by-time",
        (
            said("due to log retention time {}ms breach based on the largest record timestamp in the segment"),
            said("due to log retention time {}ms breach based on the last modified time of the segment"),
            said("due to local log retention time {}ms breach"),
        ),
        Outcome.OK,
        "All records of a segment are older than retention.ms, so the broker deletes the segment. This is what "
        "retention is for. Where a segment has no timestamps, the modification time of its file counts.",
        _TAKE_BACK,
        (_RETAIN, EARLIEST_AND_LATEST),
        ("timeindex-max", "timestamp-implausible"),
        causes=(
            Cause(
                "the records are as old as it says",
                "klogtool lookup shows the same times.",
            ),
            Cause(
                "the time index is wrong: zeros, or times in another unit",
                "klogtool verify finds timeindex-max, timeindex-entry or timestamp-implausible.",
            ),
        ),
    ),
    Situation(
        "retention-by-size",
        (
            said("due to log retention size {} breach. Log size after deletion will be {}."),
            said("due to local log retention size {} breach. Local log size after deletion will be {}."),
        ),
        Outcome.OK,
        "The partition is larger than retention.bytes, so the broker deletes its oldest segments. The limit is for "
        "each partition, not for the topic.",
        _TAKE_BACK,
        (_RETAIN, EARLIEST_AND_LATEST),
    ),
    Situation(
        "retention-by-log-start",
        (
            said("Deleting segments due to log start offset {offset} breach: {segments}"),
            said("Deleting segments due to local log start offset {offset} breach: {segments}"),
        ),
        Outcome.OK,
        "Segments lie below the log start offset, which kafka-delete-records or a leader has raised. The broker "
        "deletes them.",
        _TAKE_BACK,
        (_RETAIN, EARLIEST_AND_LATEST),
    ),
    Situation(
        "segments-deleted-by-retention",
        (said("Deleting segment files {segments}"),),
        Outcome.OK,
        "The broker removes files of deleted segments. A line before this one says why they were deleted.",
        _TAKE_BACK,
        (_RETAIN, VERIFY),
        ("leftover-deleted",),
    ),
    Situation(
        "log-start-raised",
        (
            said("Incremented log start offset to {offset} due to {}"),
            said("Incremented local log start offset to {offset} due to reason {}"),
        ),
        Outcome.OK,
        "The log start offset has moved up: by retention, by kafka-delete-records, or because the leader's has. "
        "Records below it are gone for readers.",
        "The reason is at the end of the line.",
        (_RETAIN, EARLIEST_AND_LATEST),
    ),
    Situation(
        "segment-rolled",
        (
            said("Rolled new log segment at offset {offset} in {} ms."),
            said("Rolling the active segment to make it eligible for deletion"),
        ),
        Outcome.OK,
        "The broker has started a new segment. This is normal.",
        "If segments are very small, klogtool says why they are rolled.",
        ("klogtool roll {folder}",),
    ),
    Situation(
        "offset-out-of-range",
        (
            said("Received request for offset {offset} for partition {partition}, but we only have log segments"),
            said(
                "Cannot increment the log start offset to {offset} of partition {partition} since it is larger than "
                "the high watermark {}"
            ),
        ),
        Outcome.OK,
        "A consumer, a follower or kafka-delete-records asked for an offset that the log does not have "
        "(OffsetOutOfRangeException): retention has deleted it, or the log has lost its end.",
        "Compare the offset with the log's first and last one. If it is above the end, the log was cut: look for "
        "'Truncating' and 'Corruption found'.",
        (EARLIEST_AND_LATEST, VERIFY),
        ("segment-gap",),
        causes=(
            Cause(
                "retention or kafka-delete-records has deleted the offset",
                "the offset is below the log start offset.",
            ),
            Cause(
                "the log has lost its end",
                "the offset is above the log end, and the log has lines 'Truncating' or 'Corruption found'.",
            ),
            Cause(
                "the committed offset is of another topic of the same name",
                "the topic is younger than the commit.",
            ),
        ),
    ),
)
