"""meta.properties: which broker and cluster a log dir belongs to, and which directory of the broker it is.

A broker checks this first, in all its log dirs (MetaPropertiesEnsemble, KafkaRaftServer.initializeLogDirs).
"""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import DUMP_IDENTITY, REHEARSE, VERIFY_LOG_DIR

_OFFLINE_DIR = (
    "The broker continues with its other log dirs. If this is its only one, or has __cluster_metadata-0, it ends."
)

_NEVER_OF_A_VOTER = (
    "In a log dir with __cluster_metadata-0 of a dynamic quorum, write the old id back instead: klogtool verify shows "
    "it, and with another id the controller does not vote."
)

SITUATIONS = (
    Situation(
        "meta-properties-missing-here",
        (said("No `meta.properties` found in {dir} (have you run `kafka-storage.sh` to format the directory?)"),),
        Outcome.REFUSES,
        "The log dir has no meta.properties, or does not exist. It is new, it was emptied, or its disk is not mounted.",
        "Is the disk mounted? Is the path in log.dirs right? Format only a log dir that is meant to be empty: "
        "kafka-storage.sh format --ignore-formatted, with the cluster id of the other log dirs.",
        ("findmnt --target {dir}", VERIFY_LOG_DIR),
        ("meta-properties-missing",),
        causes=(
            Cause(
                "the disk is not mounted, so the folder below it is empty",
                "findmnt shows no file system of its own for the path.",
            ),
            Cause(
                "the path in log.dirs is wrong",
                "the log dir is at another path, with its meta.properties.",
            ),
            Cause(
                "the file was deleted, and the partitions are there",
                "the folder has partition dirs.",
            ),
            Cause(
                "the log dir is new",
                "the folder is empty, and was never used.",
            ),
        ),
    ),
    Situation(
        "meta-properties-missing-everywhere",
        (said("No readable meta.properties files found."),),
        Outcome.REFUSES,
        "No log dir of the broker has a meta.properties that can be read.",
        "Are the disks mounted? Is log.dirs right? Does the broker run as the owner of the files?",
        ("findmnt --target {dir}", VERIFY_LOG_DIR),
        ("meta-properties-missing", "meta-properties-corrupt"),
    ),
    Situation(
        "cluster-id-differs",
        (said("Invalid cluster.id in: {file}. Expected {}, but read {}"),),
        Outcome.REFUSES,
        "The log dir belongs to another cluster than the other log dirs of this broker.",
        "Was a disk of another broker or cluster attached? Do not edit the id before you know whose data it is.",
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-conflict",),
        causes=(
            Cause(
                "a disk of another cluster is attached, or restored to the wrong host",
                "topics of the log dir are unknown to this cluster.",
            ),
            Cause(
                "kafka-storage.sh format was run with a new id on one of the log dirs",
                "the log dir with the other id has no partitions, or few.",
            ),
        ),
    ),
    Situation(
        "node-id-differs",
        (said("Stored node id {} doesn't match previous node id {} in {file}. If you moved your data"),),
        Outcome.REFUSES,
        "The log dir belongs to another broker: its node.id is not the one in the configuration or in the other log "
        "dirs.",
        "Is it the disk of another broker, or is node.id wrong in server.properties? Kafka's message suggests removing "
        "all data: do not do that to find out.",
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-conflict",),
        causes=(
            Cause(
                "it is the disk of another broker",
                "another broker misses this log dir, and its partitions are assigned to that one.",
            ),
            Cause(
                "node.id in the configuration is wrong",
                "all log dirs of this host have the same node.id, and it is not the configured one.",
            ),
        ),
    ),
    Situation(
        "directory-id-duplicate",
        (said("Duplicate directory ID {} found. It was the ID of {dir}, but also of {other}"),),
        Outcome.REFUSES,
        "Two log dirs have the same directory.id: one is a copy of the other, or both are the same folder under two "
        "names (a symbolic link).",
        "Are both paths the same folder? If one is a copy of a disk, delete the line directory.id in the copy: the "
        "broker generates a new one. Partitions that are in both stop the start next. " + _NEVER_OF_A_VOTER,
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-conflict", "duplicate-partition"),
    ),
    Situation(
        "directory-id-reserved",
        (said("Invalid reserved directory ID {} found in {dir}"),),
        Outcome.REFUSES,
        "directory.id is zero, or another id that Kafka keeps for itself.",
        "Delete the line directory.id in meta.properties: the broker generates a new id. " + _NEVER_OF_A_VOTER,
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "meta-properties-unreadable",
        (said("Error while reading meta.properties file {file}"),),
        Outcome.OFFLINE,
        "meta.properties cannot be read: its contents are wrong, it is a folder, or the broker may not read it. "
        + _OFFLINE_DIR,
        "The exception below the message says why. Check the owner and mode of the file and of the log dir, and "
        "whether the disk is mounted.",
        ("ls -ld {dir} {dir}/meta.properties", VERIFY_LOG_DIR, REHEARSE),
        ("meta-properties-corrupt", "unreadable"),
    ),
    Situation(
        "directory-id-unreadable",
        (said("Unable to read directory.id as a Uuid: {cause}"),),
        Outcome.OFFLINE,
        "directory.id in meta.properties is no id. " + _OFFLINE_DIR,
        "Delete the line directory.id in meta.properties: the broker generates a new id. " + _NEVER_OF_A_VOTER,
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "meta-properties-version",
        (
            said("Unknown meta.properties version number {}"),
            said("Invalid meta.properties version string '{}'"),
        ),
        Outcome.OFFLINE,
        "The version in meta.properties is neither 0 nor 1. " + _OFFLINE_DIR,
        "Compare the file with that of another log dir of this broker.",
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "cluster-id-missing",
        (said("cluster.id was not found."),),
        Outcome.OFFLINE,
        "meta.properties of version 1 has no cluster.id. " + _OFFLINE_DIR,
        "Copy the line cluster.id from another log dir of this broker.",
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "node-id-missing",
        (
            said("Error: node ID not found in {dir}"),
            said("Error: cluster ID not found in {dir}"),
        ),
        Outcome.REFUSES,
        "meta.properties has no node.id, or no cluster.id. An empty or overwritten file counts as version 0 without "
        "ids.",
        "Write the file again: version=1, node.id and cluster.id are enough. Another log dir of this broker has the "
        "values.",
        (DUMP_IDENTITY, VERIFY_LOG_DIR),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "log-dir-not-loaded",
        (
            said("Failed to load {dir} during broker startup"),
            said("Failed to create or validate data directory {dir}"),
        ),
        Outcome.OFFLINE,
        "The broker could not use this log dir when it started; mostly it could not read its meta.properties. "
        + _OFFLINE_DIR,
        "Lines around this one say why, for example 'Error while reading meta.properties file'.",
        ("ls -ld {dir} {dir}/meta.properties", VERIFY_LOG_DIR, REHEARSE),
        ("meta-properties-corrupt", "unreadable"),
        is_general=True,
    ),
    Situation(
        "log-creation-skipped",
        (
            said(
                "Skipping creation of log because there are potentially offline log directories and log may already "
                "exist there. directoryId={}, topicId={topic_id}, targetLogDirectoryId={}"
            ),
            said("Skipping creation of log because there are potentially offline log directories"),
        ),
        Outcome.UNSERVED,
        "A log dir is offline, and this partition may be in it. The broker does not create an empty one, and does not "
        "serve the partition.",
        "Find out which log dir is offline, and why: earlier lines name it. The partition is back when that log dir "
        "is.",
        (VERIFY_LOG_DIR,),
        is_general=True,
    ),
    Situation(
        "meta-properties-rewritten",
        (said("Rewriting {dir}/meta.properties"),),
        Outcome.OK,
        "The broker writes meta.properties again, for example because it had no directory.id.",
        "Nothing to do.",
        (DUMP_IDENTITY,),
    ),
    Situation(
        "metadata-log-dir-unreadable",
        (said("Encountered I/O error in metadata log directory {dir}. Cannot continue."),),
        Outcome.REFUSES,
        "meta.properties of the metadata log dir cannot be read. A broker does not start without that log dir.",
        "Is the disk mounted? Check the owner and mode of the log dir and of its meta.properties.",
        ("ls -ld {dir} {dir}/meta.properties", VERIFY_LOG_DIR),
        ("meta-properties-corrupt", "unreadable"),
    ),
)
