"""Tiered storage: segments that are copied to, or missing from, the remote tier."""

from __future__ import annotations

from klogtool.doctor.situation import Outcome, Situation, said
from klogtool.doctor.situations.commands import VERIFY

_REMOTE = "klogtool dump-log {dir}/__remote_log_metadata-0 --remote-log-metadata-decoder"

SITUATIONS = (
    Situation(
        "remote-copy-failed",
        (said("Error occurred while copying log segments of partition: {partition}"),),
        Outcome.UNSERVED,
        "A segment was not copied to the remote tier. It stays on the local disk, also if retention is due, until a "
        "copy works: the disk fills.",
        "The exception below says why: the store, its credentials, or the segment. Watch the free space.",
        (VERIFY, "df -h {dir}"),
    ),
    Situation(
        "remote-metadata-not-initialized",
        (
            said("Encountered error while initializing topic-based RLMM resources"),
            said("Encountered error while initializing producer/consumer"),
            said("Encountered error while querying or creating {} topic."),
            said("Encountered error while creating {} topic.", until="3.9"),
            said("Timed out in initializing the resources, retried to initialize the resource for {} ms.", until="3.9"),
            said("Stopping the server as it failed to initialize topic-based RLMM resources"),
            said("Timed out to initialize the resources within {} ms."),
            said("Initialization thread was interrupted while waiting to join on close."),
        ),
        Outcome.REFUSES,
        "The broker cannot use __remote_log_metadata, without which nothing of the remote tier can be read. It may "
        "end.",
        "Do its partitions have a leader? Can this broker reach its own listener?",
        (_REMOTE, VERIFY),
    ),
    Situation(
        "remote-metadata-partitions-differ",
        (said("Existing topic partition count {} is not same as the expected partition count {}"),),
        Outcome.REFUSES,
        "__remote_log_metadata has another number of partitions than the configuration says. Segments would be looked "
        "for in the wrong partition.",
        "Set remote.log.metadata.topic.num.partitions to the number that the topic has.",
        (_REMOTE,),
    ),
    Situation(
        "remote-metadata-transition",
        (
            said("Current state: {} can not be transitioned to target state: {}, segmentId: {}. Dropping the event"),
            said("Error occurred while processing the records"),
        ),
        Outcome.UNSERVED,
        "A record of __remote_log_metadata does not fit those before it, and is dropped. A segment may be missing from "
        "the remote log, or stay in the store for ever.",
        "Which segment? klogtool dump-log shows the events of its id.",
        (_REMOTE,),
    ),
    Situation(
        "remote-offset-missing",
        (
            said(
                "Received request for offset {offset} for leader epoch {} and partition {partition} which does not "
                "exist"
            ),
            said("No topic id registered for topic partition: {partition}"),
            said("UnifiedLog does not exist for topic partition: {partition}"),
        ),
        Outcome.UNSERVED,
        "A reader asked for an offset that neither the local log nor the remote tier has.",
        "What is the line of the partition in log-start-offset-checkpoint? Is __remote_log_metadata whole?",
        (VERIFY, _REMOTE),
    ),
    Situation(
        "remote-index-cache",
        (
            said("Error occurred while cleaning up expired entry"),
            said("Error while inserting entry {} for key {} into the cleaner queue because queue is full."),
            said("Cleaner thread received interruption but remote index cache is not closed"),
            said("Unable to create directory {dir} for RemoteIndexCache."),
            said("Received entry as null for key {} when the it is removed from the cache."),
        ),
        Outcome.UNSERVED,
        "The folder remote-log-index-cache of the log dir cannot be used. Indexes in it are copies, and can be fetched "
        "again.",
        "Does the broker's user own the folder? Is the disk full?",
        ("ls -ld {dir}", "df -h {dir}"),
    ),
    Situation(
        "remote-consumer-not-closed",
        (
            said("Encountered error while waiting for consumerTaskThread to finish."),
            said("Error encountered while closing the consumer"),
            said("Error encountered while closing the producer"),
        ),
        Outcome.OK,
        "The clients of __remote_log_metadata were not closed in time. This comes at a stop.",
        "Nothing to do.",
        (_REMOTE,),
    ),
)
