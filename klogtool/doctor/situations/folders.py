"""Folders of a log dir: their names, topic ids, strays, copies of a partition, and moves between log dirs."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import EARLIEST_AND_LATEST, REHEARSE, VERIFY, VERIFY_LOG_DIR

_STRAY = (
    "The broker renames the folder to -stray, with all its data, and serves nothing from it. Where the cluster knows "
    "the topic, an empty partition takes its place."
)
_TAKE_BACK = (
    "Do not delete -stray folders. Take one back: stop the broker, move the new empty folder away, give the -stray "
    "folder its plain name, and write partition.metadata with the topic's id."
)

SITUATIONS = (
    Situation(
        "foreign-folder-in-log-dir",
        (
            said(
                "Found directory {folder}, '{}' is not in the form of topic-partition or "
                "topic-partition.uniqueId-delete (if marked for deletion)."
            ),
        ),
        Outcome.REFUSES,
        "A folder in the log dir is not a partition dir. One such folder stops the whole broker.",
        "Move the folder out of the log dir. If it is lost+found, the log dir is the root of a disk: use a sub-folder "
        "of the disk as log dir.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("foreign-folder",),
    ),
    Situation(
        "metadata-in-wrong-log-dir",
        (
            said(
                "Found unexpected metadata location in data directory `{folder}` "
                "(the configured metadata directory is {other})."
            ),
        ),
        Outcome.REFUSES,
        "__cluster_metadata-0 is in a log dir that is not the metadata log dir.",
        "Was metadata.log.dir changed, or the order of log.dirs? The first of log.dirs is the metadata log dir if "
        "metadata.log.dir is not set. Compare both copies before you move one away.",
        ("klogtool verify {folder}", EARLIEST_AND_LATEST),
    ),
    Situation(
        "stray-without-topic-id",
        (said("The topicId does not exist in {log}, treat it as a stray log"),),
        Outcome.LOSES,
        "The partition dir has no partition.metadata. " + _STRAY,
        _TAKE_BACK,
        (REHEARSE, VERIFY_LOG_DIR, EARLIEST_AND_LATEST),
        ("partition-metadata-missing",),
    ),
    Situation(
        "stray-topic-unknown",
        (said("Found stray log dir {log}: the topicId {topic_id} does not exist in the metadata image"),),
        Outcome.LOSES,
        "The cluster does not know the topic id of this partition: the topic was deleted or created again, or the "
        "cluster's metadata is lost. " + _STRAY,
        "Are there many such lines? Then __cluster_metadata-0 is lost or was cut: stop the broker before anything "
        "else. " + _TAKE_BACK,
        ("klogtool verify {metadata}", VERIFY_LOG_DIR, EARLIEST_AND_LATEST),
        ("topic-id-mismatch",),
        causes=(
            Cause(
                "the topic was deleted, or created again, while the broker was down",
                "only partitions of one topic are set aside, and others are served.",
            ),
            Cause(
                "__cluster_metadata-0 is lost, cut, or that of another cluster",
                "partitions of all topics are set aside.",
            ),
        ),
    ),
    Situation(
        "stray-not-assigned",
        (said("Found stray log dir {log}: the current replica assignment {} does not contain the local brokerId {}."),),
        Outcome.LOSES,
        "The cluster knows the topic, but this broker has no replica of the partition. " + _STRAY,
        "Was the partition reassigned while this broker was down? Then its other replicas have the records, and the "
        "-stray folder can be deleted after a check.",
        (EARLIEST_AND_LATEST, VERIFY),
    ),
    Situation(
        "stray-renamed",
        (
            said("Log in {folder} marked stray and renamed to {other}"),
            said("Log for partition {partition} is marked as stray and renamed to {folder}"),
        ),
        Outcome.LOSES,
        "The broker has set the partition dir aside: it has the ending -stray now, and keeps its data. " + _STRAY,
        "A line before this one says why. " + _TAKE_BACK,
        (VERIFY_LOG_DIR, "klogtool verify {folder}"),
        ("topic-id-mismatch", "partition-metadata-missing"),
    ),
    Situation(
        "stray-kept",
        (said("Loaded stray log: {folder}"),),
        Outcome.OK,
        "A -stray folder of an earlier start is still there. The broker loads it and then leaves it alone. Its replica "
        "starts empty.",
        "Compare it with the partition that is served. Rename it back, or delete it, while the broker is stopped.",
        (EARLIEST_AND_LATEST, VERIFY),
    ),
    Situation(
        "partition-created",
        (said("Created log for partition {partition} in {folder} with properties {}"),),
        Outcome.OK,
        "The broker has created an empty partition. This is normal for a new topic, and after a reassignment.",
        "Was the partition on this broker before? Then its data is elsewhere: in a -stray folder, on a disk that is "
        "not mounted, or in a log dir that log.dirs does not name any more.",
        (VERIFY_LOG_DIR,),
    ),
    Situation(
        "partition-deleted",
        (
            said("Deleting segments as the log has been deleted: {segments}"),
            said("is renamed to {folder} and is scheduled for deletion"),
        ),
        Outcome.LOSES,
        "A deleted partition is a -delete folder, and is removed after file.delete.delay.ms (1 minute by default). "
        "This is normal after a topic was deleted, or a partition was moved.",
        "If nobody deleted the topic: stop the broker at once. Until the minute is over you can rename the folder "
        "back.",
        (VERIFY_LOG_DIR,),
    ),
    Situation(
        "partition-in-two-log-dirs",
        (said("Duplicate log directories for {partition} are found in both {folder} and {other}. It is likely"),),
        Outcome.REFUSES,
        "The same partition is in two log dirs of this broker. It cannot decide which one to use.",
        "A log dir failed while a partition was moved, or a copy was put back. Keep the one that has more, and move "
        "the other out of the log dir. Kafka says to delete the one in the log dir that failed: compare first.",
        (EARLIEST_AND_LATEST, "klogtool lookup {other} --timestamp earliest --timestamp latest", VERIFY),
        ("duplicate-partition",),
    ),
    Situation(
        "future-in-two-log-dirs",
        (said("Duplicate log directories found: {folder}, {other}"),),
        Outcome.REFUSES,
        "There are two -future folders of the same partition.",
        "Keep one of them, or none if the partition itself is there: a -future folder is an unfinished move.",
        (VERIFY_LOG_DIR, EARLIEST_AND_LATEST),
        ("duplicate-partition",),
    ),
    Situation(
        "move-finished",
        (
            said("Attempting to replace current log {log} with {} for {partition}"),
            said("The current replica is successfully replaced with the future replica for {partition}"),
        ),
        Outcome.OK,
        "A partition is moved to another log dir. The new copy has caught up and takes the place of the old one, which "
        "becomes a -delete folder.",
        "Nothing to do.",
    ),
    Situation(
        "future-recovered",
        (said("Attempting to recover abandoned future log for {partition} at {log}"),),
        Outcome.OK,
        "A -future folder is where the controller wants the partition, and the old copy is gone: it becomes the "
        "partition.",
        "Nothing to do. Compare its end offset with the other replicas.",
        (EARLIEST_AND_LATEST,),
    ),
    Situation(
        "partition-metadata-unreadable",
        (
            said("Error while reading partition metadata file {file}"),
            said("Malformed line in partition metadata file [{file}]: {line}", since="4.0"),
            said("Malformed line in checkpoint file [{folder}/partition.metadata]: {line}", until="3.9"),
            said("Invalid topic ID in partition metadata file ({file})"),
            said("Unrecognized version of partition metadata file ({file}): {}", since="4.0"),
            said("Unrecognized version of partition metadata file + ({file}): {}", until="3.9"),
        ),
        Outcome.OFFLINE,
        "partition.metadata is not as it must be. This one file takes the whole log dir offline.",
        "Write it again: 'version: 0', then 'topic_id: ' and the id of the topic, as in another partition of the "
        "topic.",
        ("cat {folder}/partition.metadata", VERIFY, REHEARSE),
        ("partition-metadata-corrupt",),
    ),
    Situation(
        "partition-metadata-empty",
        (
            said(
                'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null',
            ),
        ),
        Outcome.REFUSES,
        "A partition.metadata is empty, or has one line only (a NullPointerException). One such file stops the whole "
        "broker, and the message does not name it.",
        "klogtool verify names the file. Write it again: 'version: 0', then 'topic_id: ' and the id of the topic.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("partition-metadata-corrupt",),
    ),
    Situation(
        "topic-id-unreadable",
        (
            said(
                "Input string `{}` decoded as {} bytes, which is not equal to the expected 16 bytes of a "
                "base64-encoded UUID"
            ),
        ),
        Outcome.REFUSES,
        "An id is not the base64 text of 16 bytes. In a partition.metadata this stops the whole broker, and the "
        "message does not name the file.",
        "klogtool verify names the file. Write it again with the id of the topic.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("partition-metadata-corrupt",),
    ),
    Situation(
        "partition-metadata-not-written",
        (said("Error while writing partition metadata file {file}"),),
        Outcome.OFFLINE,
        "The broker could not write partition.metadata, and takes the log dir offline.",
        "Is the disk full, mounted read-only, or failing? Check the owner and mode of the partition dir.",
        ("df -h {dir}", "df -i {dir}", VERIFY_LOG_DIR),
    ),
    Situation(
        "topic-id-differs",
        (
            said(
                "Tried to assign topic ID {topic_id} to log for topic partition {partition},but log already contained "
                "topic ID {}"
            ),
            said(
                "Tried to assign topic ID {topic_id} to log for topic partition {partition}, but log already contained "
                "topic ID {}"
            ),
            said("Tried to record topic ID {topic_id} to file {file} but had already recorded {}"),
            said("Received INCONSISTENT_TOPIC_ID from the leader for partition {partition}."),
        ),
        Outcome.UNSERVED,
        "The partition on this disk belongs to another topic of the same name (InconsistentTopicIdException): the "
        "topic was deleted and created again, or the folder comes from another cluster.",
        "Which id has the topic now (kafka-topics.sh --describe)? Keep a copy of the folder before you move it out.",
        ("cat {folder}/partition.metadata", VERIFY_LOG_DIR),
        ("topic-id-mismatch",),
        causes=(
            Cause(
                "the topic was deleted and created again",
                "the new id is younger: its records begin at offset 0.",
            ),
            Cause(
                "the folder was restored or copied from another cluster",
                "meta.properties of the place that it came from has another cluster.id.",
            ),
        ),
    ),
    Situation(
        "topic-id-of-metadata-differs",
        (
            said(
                "Tried to assign topic ID {topic_id} to log for topic partition __cluster_metadata-0,but log already "
                "contained topic ID {}"
            ),
        ),
        Outcome.REFUSES,
        "partition.metadata of __cluster_metadata-0 has the id of another topic.",
        "Delete that partition.metadata: the broker writes it again.",
        ("cat {metadata}/partition.metadata", "klogtool verify {metadata}"),
        ("topic-id-mismatch",),
    ),
    Situation(
        "folder-of-failed-log-dir",
        (said("Can not create log for {partition} because log directories {dir} are offline"),),
        Outcome.UNSERVED,
        "A log dir is offline, and the partition may be in it. The broker creates no new one.",
        "Find out why the log dir is offline: earlier lines name it.",
        (VERIFY_LOG_DIR,),
    ),
)
