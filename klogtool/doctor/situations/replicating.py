"""Followers and leaders, as far as they change a log: truncations, elections, fencing."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import EARLIEST_AND_LATEST, SALVAGE_WITH_REPLICA, VERIFY, VERIFY_LOG_DIR

_EPOCHS = "klogtool lookup {folder} --leader-epoch 0"

SITUATIONS = (
    Situation(
        "leader-without-epoch",
        (
            said(
                "Based on replica's leader epoch, leader replied with an unknown offset in {partition}. The initial "
                "fetch offset {offset} will be used for truncation."
            ),
        ),
        Outcome.LOSES,
        "The leader does not know the leader epoch of this replica, so the replica truncates its log to its high "
        "watermark. If that is 0, it loses everything: for example a -future folder whose current copy is gone.",
        "Stop the broker before it truncates, if this replica is the only one with the records. Before a start: a "
        "-future folder without its partition can be renamed to the plain name.",
        (EARLIEST_AND_LATEST, VERIFY_LOG_DIR, "klogtool rebuild-index {folder} --only leader-epoch-checkpoint"),
        ("epochs-missing", "epochs-content"),
        causes=(
            Cause(
                "leader-epoch-checkpoint of the leader is lost or behind",
                "klogtool verify of the leader finds epochs-missing or epochs-content.",
            ),
            Cause(
                "a -future folder stands alone",
                "the folder of this replica ends in -future.",
            ),
        ),
    ),
    Situation(
        "truncated-by-epoch",
        (
            said(
                "Based on replica's leader epoch, leader replied with epoch {} unknown to the replica for {partition}."
            ),
            said(
                "Based on replica's leader epoch, leader replied with epoch {} below any replica's tracked epochs for "
                "{partition}."
            ),
            said("Leader or replica is on protocol version where leader epoch is not considered"),
            said("Truncating partition {partition} with {} due to leader epoch and offset {}"),
            said("Truncating partition {partition} with {} due to local high watermark {}"),
        ),
        Outcome.OK,
        "A follower truncates its log to where it agrees with the new leader. What goes was not on all in-sync "
        "replicas, unless the leader was elected uncleanly.",
        "Is the new leader the replica with the most records? Compare the ends before the follower starts, if you "
        "doubt it.",
        (EARLIEST_AND_LATEST, _EPOCHS),
        ("epochs-content",),
    ),
    Situation(
        "replica-emptied",
        (
            said(
                "Truncate fully and reset fetch offset for partition {partition} from {end} to the current leader's "
                "start offset {start} because the local replica's end offset is smaller"
            ),
        ),
        Outcome.OK,
        "A follower was away for so long that the leader has deleted everything that it has. It empties its log and "
        "starts at the leader's start.",
        "Nothing is lost if the leader has the records. If the leader was restored or emptied, keep a copy first.",
        (EARLIEST_AND_LATEST,),
    ),
    Situation(
        "fetch-offset-reset",
        (
            said("Reset fetch offset for partition {partition} from {end} to current leader's latest offset {}"),
            said("Current offset {offset} for partition {partition} is out of range, which typically implies a leader"),
        ),
        Outcome.LOSES,
        "The leader's log is shorter than that of this follower, so the follower truncates to the leader's end: the "
        "leader was elected uncleanly, or its log was cut.",
        "Stop this broker if you want to keep its copy, and save the partition dir first. Compare it with the leader.",
        (EARLIEST_AND_LATEST, SALVAGE_WITH_REPLICA),
        causes=(
            Cause(
                "the leader was elected uncleanly",
                "a line 'UNCLEAN partition change' comes before it.",
            ),
            Cause(
                "the leader's log was cut, or restored from an older copy",
                "the leader has recovered the partition, or somebody has changed its files.",
            ),
        ),
    ),
    Situation(
        "truncation-failed",
        (
            said("Failed to truncate {partition} at offset {offset}"),
            said("Unexpected error occurred during truncation for {partition} at offset {offset}"),
        ),
        Outcome.UNSERVED,
        "A follower could not truncate its log, and does not follow the leader any more.",
        "The exception below the message says why. The partition is under-replicated until the broker restarts.",
        (VERIFY, "klogtool truncate {folder} --to {offset}"),
    ),
    Situation(
        "follower-stopped",
        (
            said("Partition {partition} marked as failed"),
            said("Unexpected error occurred while processing data for partition {partition} at offset {offset}"),
            said("Error while processing data for partition {partition} at offset {offset}"),
            said("Offset mismatch for partition {partition}: fetched offset = {}, log end offset = {}."),
        ),
        Outcome.UNSERVED,
        "A follower does not follow its leader any more: the partition is under-replicated until the broker restarts.",
        "Lines before this one say why.",
        (VERIFY, EARLIEST_AND_LATEST),
        is_general=True,
    ),
    Situation(
        "unclean-election",
        (
            said("UNCLEAN partition change for {partition}: {}"),
            said("to {} using an unclean election"),
            said("Triggering unclean leader election for offline partition {partition}. {}"),
        ),
        Outcome.LOSES,
        "A replica became leader although it was not in sync. Records that only the others have are lost: they "
        "truncate to the new leader when they follow it. With one replica nothing is lost.",
        "Are the replicas that were in sync still down? Save their partition dirs before they start again.",
        (EARLIEST_AND_LATEST, SALVAGE_WITH_REPLICA),
    ),
    Situation(
        "unclean-election-refused",
        (
            said("Cannot trigger unclean leader election for offline partition {partition}: {}"),
            said("Cannot trigger unclean leader election for offline partition {partition} because unclean leader"),
        ),
        Outcome.UNSERVED,
        "The partition has no leader, and no replica may become one without a loss.",
        "Bring back a broker that was in the ISR or ELR. Its log dir may be offline: look there first.",
        (EARLIEST_AND_LATEST, VERIFY),
    ),
    Situation(
        "partition-recovering",
        (
            said("The topic partition {partition} was marked as RECOVERING. Marking the topic partition as RECOVERED."),
            said("The topic partition {partition} was marked as RECOVERING."),
            said("recovering from an unclean leader election"),
        ),
        Outcome.OK,
        "The leader of the partition was elected uncleanly, and notes it. It serves the partition as it is. With one "
        "replica nothing is lost; with several, the others truncate to this one.",
        "Compare its end offset with those of the other replicas.",
        (EARLIEST_AND_LATEST,),
    ),
    Situation(
        "broker-fenced",
        (
            said("Fencing broker {} at epoch {} because its session has timed out."),
            said("are fenced or in controlled shutdown."),
        ),
        Outcome.UNSERVED,
        "The controller has not heard of the broker for broker.session.timeout.ms: it is down, hangs, or still "
        "recovers its logs. Its partitions get other leaders.",
        "Is the broker still loading logs ('Recovering ... logs')? Does its disk hang (dmesg)?",
        ("klogtool doctor {dir}",),
        causes=(
            Cause(
                "the broker is down",
                "it logs nothing any more.",
            ),
            Cause(
                "it still recovers its logs",
                "it logs 'Recovering ... logs' and no 'Kafka Server started'.",
            ),
            Cause(
                "its disk or its JVM hangs",
                "dmesg or its garbage collection log shows a long pause.",
            ),
        ),
    ),
    Situation(
        "partition-in-offline-log-dir",
        (
            said(
                "Unable to bring up new local leader {partition} with topic id {topic_id} because it resides in an "
                "offline log directory."
            ),
            said("Unable to start fetching {partition} with topic ID {topic_id} due to a storage error {cause}"),
            said(
                "Unable to delete replica {partition} because the local replica for the partition is in an offline log "
                "directory"
            ),
            said("A topic with the same name but different id exists but it resides in an offline log directory."),
            said(
                "Skipped the become-leader state change for {partition} with topic id {topic_id} due to a storage error"
            ),
        ),
        Outcome.UNSERVED,
        "The partition is in a log dir that is offline. This broker does not serve it.",
        "Find out why the log dir is offline: the first line at ERROR that names it.",
        (VERIFY_LOG_DIR,),
        is_general=True,
    ),
    Situation(
        "replica-created-again",
        (said("Expected partition {partition} with topic id {topic_id} to exist, but it was missing. Creating..."),),
        Outcome.LOSES,
        "The cluster expects the partition on this broker, and it is not in any of its log dirs: the broker creates an "
        "empty one. If no other replica has the records, they are lost here.",
        "Is a log dir missing in log.dirs, or a disk not mounted? Look for a -stray folder of the partition.",
        (VERIFY_LOG_DIR,),
        ("partition-metadata-missing",),
        causes=(
            Cause(
                "a log dir is missing in log.dirs, or not mounted",
                "all partitions of one log dir are missing.",
            ),
            Cause(
                "the folder was renamed to -stray, moved or deleted",
                "only this partition is missing; look for its -stray folder.",
            ),
        ),
    ),
    Situation(
        "high-watermark-moved-down",
        (
            said("Non-monotonic update of high watermark from {} to {}"),
            said("No checkpointed highwatermark is found for partition {partition}"),
        ),
        Outcome.OK,
        "The high watermark of the partition is lower than before, or unknown. It moves up when the replicas are in "
        "sync.",
        "After a truncation this is expected. Otherwise look for lines with 'Truncating'.",
        (EARLIEST_AND_LATEST,),
        ("checkpoint-entry",),
        causes=(
            Cause(
                "the log was truncated or recovered",
                "a line 'Truncating' or 'Corruption found' comes before it.",
            ),
            Cause(
                "replication-offset-checkpoint was lost, or is older than the log",
                "the old value is much higher than the line in the file.",
            ),
        ),
    ),
)
