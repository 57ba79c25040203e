"""Metadata that a controller or a broker cannot replay, load or publish."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said

_VERIFY = "klogtool verify {metadata}"
_DOCTOR = "klogtool doctor {dir}"
_DUMP = "klogtool dump-log {metadata} --cluster-metadata-decoder"
_OTHER = "Another controller of the same cluster may have the log without this record: copy its __cluster_metadata-0."
_NEWER = Cause(
    "a newer release wrote the record: it has a type, or a level of a feature, that this one does not know",
    "the exception is 'No MetadataVersion', 'Unknown metadata id' or 'only supports versions'.",
)
_CONTRADICTS = Cause(
    "the record contradicts those before it: another broker epoch, an unknown topic, broker or ACL, a topic twice",
    "the exception is 'did not match the current broker epoch', 'was not registered', 'no such topic' or alike; "
    "klogtool verify reports metadata-replay.",
)
_DAMAGED = Cause(
    "bytes of the record are damaged, or something else than Kafka wrote them",
    "the exception is MetadataParseException or BufferUnderflowException; klogtool verify reports damage.",
)

SITUATIONS = (
    Situation(
        "metadata-record-not-loaded",
        (
            said("Error loading metadata log record from offset {offset}"),
            said("Error loading metadata log record {} in snapshot at offset {offset}"),
            said("Error generating new metadata image from metadata delta between offset {} and {}"),
            said(
                "Unable to apply {} record at offset {offset} on standby controller, from the batch with baseOffset {}"
            ),
            said("Unable to apply {} record from snapshot {} on standby controller, which was {} of {} record(s) in"),
            said("Error while loading snapshot {}"),
        ),
        Outcome.REFUSES,
        "A record of __cluster_metadata-0 cannot be replayed, and a controller ends at it, at every start. A broker "
        "that is no controller logs it as a 'metadata loading fault', and goes on without the record.",
        "Read the exception below the message: it tells the causes apart. " + _OTHER,
        (_VERIFY, _DOCTOR, _DUMP),
        ("metadata-replay",),
        causes=(_NEWER, _CONTRADICTS, _DAMAGED),
        is_general=True,
    ),
    Situation(
        "metadata-record-contradicts",
        (
            said("Tried to {} broker {}, but the given epoch, {}, did not match the current broker epoch, {}"),
            said("Tried to {} broker {}, but that broker was not registered."),
            said("Unable to replay {}: no broker registration found for that id"),
            said("Unable to replay {}: no broker registration with that epoch found"),
            said("Unable to replay {}: no controller registration found for that id"),
            said("Unable to replay {}: no acl with that ID found."),
            said("Unable to replay {}: unknown value for {} field: {}"),
            said("Unable to find partition {}:{}"),
            said("Unable to delete topic with id {}: no such topic found."),
            said("Unable to clear elr for topic with name {}: no such topic found."),
            said("Unable to find a topic named {} in order to clear its ELRs."),
            said("Unable to find credential to delete: {}"),
            said("Can't find topic with ID {} to remove."),
            said("Found duplicate TopicRecord for {} with"),
            said("Tried to create partition {}:{}, but no topic with that ID was found."),
            said("Tried to create partition {}:{}, but no partition with that id was found."),
            said("Failed to find existing ACL with ID {} in either image or changes"),
            said("The lengths for replicas and directories do not match"),
            said("BUG: directory {} not assigned to broker {}"),
            said(
                "Next Producer ID from replayed record ({}) is not greater than current next Producer ID in block ({})"
            ),
            said('Cannot invoke "org.apache.kafka.image.TopicImage.partitions()" because "this.image" is null'),
            said("Encountered {}TransactionRecord without having seen a BeginTransactionRecord"),
            said("Encountered BeginTransactionRecord while already in a transaction"),
        ),
        Outcome.REFUSES,
        "A record of __cluster_metadata-0 does not fit those before it. A controller that replays it ends.",
        "At which offset? The line above the exception has it. " + _OTHER,
        (_VERIFY, _DOCTOR, _DUMP),
        ("metadata-replay",),
        causes=(
            Cause("a tool has edited the log", "only this copy has the record: other controllers start."),
            Cause(
                "two controllers have written at the same offsets, after a rescue or a restore",
                "the copies of two controllers differ at the same offset and epoch.",
            ),
            Cause(
                "records before it are missing: a snapshot is torn, or files of two copies are mixed",
                "klogtool verify finds kraft-snapshot-corrupt, or a gap.",
            ),
            Cause("a fault of the release that wrote it", "all controllers have the record, and all end at it."),
        ),
    ),
    Situation(
        "directory-of-another-broker",
        (said("BUG: directory {} already assigned to broker {}"),),
        Outcome.REFUSES,
        "Two brokers are registered with the same directory id, and a controller that replays it ends: the disk of one "
        "broker was copied to the other one, with its meta.properties.",
        "Compare directory.id in meta.properties of both brokers. Stop the copy, and delete its line directory.id, "
        "unless the log dir has __cluster_metadata-0.",
        (_VERIFY, _DOCTOR),
        ("metadata-replay",),
    ),
    Situation(
        "feature-level-unknown",
        (
            said("Tried to apply FeatureLevelRecord {}, but this controller only supports versions {}"),
            said("Unsupported metadata version - if you are currently upgrading your cluster, please ensure"),
            said("Broker configuration does not support the cluster MetadataVersion"),
        ),
        Outcome.REFUSES,
        "The cluster has a feature at a level that this release does not support. Nothing is lost.",
        "Which release ran here before? Start that one.",
        (_DUMP, _DOCTOR),
        causes=(
            Cause("the level is higher than this release knows: a newer one ran here", "the level is above the range."),
            Cause(
                "the level is older than this release still knows", "the level is below the range: upgrade in steps."
            ),
        ),
    ),
    Situation(
        "metadata-not-published",
        (
            said("Unhandled error publishing the new metadata image ending at {} with publisher {}"),
            said("Unhandled error publishing the new leader change to {} with publisher {}"),
            said("Unhandled error initializing {}"),
            said("Unhandled fault in MetadataLoader#installPublishers"),
            said("Error loading authorizer changes in {}"),
            said("Error loading authorizer snapshot in {}"),
            said("Uncaught exception while publishing {} changes from {}"),
            said("Failed to publish controller metrics from {}"),
            said("Got unexpected exception while closing publisher {}"),
            said("Attempted to install publisher {}, which is already installed."),
            said("Attempted to remove publisher {}, which is not installed."),
            said("Failed to complete initial ACL load process."),
        ),
        Outcome.UNSERVED,
        "The metadata was loaded, and a part of the node could not take it over: settings, quotas, ACLs, metrics or "
        "partitions. That part is not up to date until the node restarts.",
        "The line names the part, the exception below says why: often a setting that cannot be used.",
        (_VERIFY, _DUMP),
        is_general=True,
    ),
    Situation(
        "controller-fault",
        (
            said("exception while claiming leadership"),
            said("exception while completing controller activation"),
            said("exception while renouncing leadership"),
            said("Asked to load snapshot {}, but we are the active controller at epoch {}"),
        ),
        Outcome.REFUSES,
        "A controller failed while it became the active one or gave that up, and ends.",
        "The exception below says why. Another controller takes over, if a majority of them runs.",
        (_VERIFY, _DOCTOR),
        is_general=True,
    ),
    Situation(
        "metadata-snapshot-not-written",
        (
            said("KRaft snapshot file generation error"),
            said("Encountered error while writing {}"),
            said("Not emitting {} despite the fact that {} because snapshots are disabled; {}"),
            said("Error deleting snapshot files {} and {}"),
        ),
        Outcome.UNSERVED,
        "The node could not write or delete a snapshot of the metadata. The log of the metadata grows until it can.",
        "Is the disk of the metadata log dir full, or read-only? The exception says why.",
        ("df -h {dir}", _VERIFY),
    ),
    Situation(
        "isr-change-refused",
        (
            said("Rejecting AlterPartition request from node {} for {}-{} because it specified an invalid ISR"),
            said("{}-{} has overlapping ISR={} and ELR={}"),
        ),
        Outcome.OK,
        "The controller refused a change of the in-sync replicas that a broker asked for.",
        "Does it repeat for the same partition? Then compare the logs of that broker and of the controller.",
        (_VERIFY,),
    ),
    Situation(
        "controller-request-failed",
        (
            said("Unexpected createPartitions error for {}"),
            said("Unexpected deleteTopics error for {}"),
            said("Unknown server error validating {}"),
            said("Unknown server error validating Create Topic"),
            said(
                "processExpiredBrokerHeartbeat: controller event queue overloaded. Timed out heartbeat from broker {}."
            ),
        ),
        Outcome.OK,
        "A request to the controller failed. Nothing was changed.",
        "The exception below says why. An overloaded controller fences brokers: look at its load.",
        (_VERIFY,),
    ),
    Situation(
        "zookeeper-migration-failed",
        (
            said("Aborting the metadata migration from ZooKeeper to KRaft. {}.", until="3.9"),
            said("Could not start the migration", until="3.9"),
            said("Encountered ZooKeeper authentication in {}", until="3.9"),
            said("KRaft controller indicates an active migration, but the ZK state does not.", until="3.9"),
            said("KRaft controller indicates a completed migration, but the migration driver is somehow", until="3.9"),
            said("The controller's ZkMigrationState is NONE which means this cluster should not be", until="3.9"),
            said("Migration driver trying to transition from an unknown state {}", until="3.9"),
            said("Aborting the ZK migration", until="3.9"),
        ),
        Outcome.UNSERVED,
        "The migration of the cluster's metadata from ZooKeeper to KRaft does not go on. Brokers with ZooKeeper serve "
        "their partitions as before.",
        "Nothing was changed in the logs of partitions. Follow the page of Kafka's documents about the migration.",
        (_DOCTOR,),
    ),
    Situation(
        "meta-properties-not-written",
        (said("Error while writing meta.properties to {dir}"),),
        Outcome.OFFLINE,
        "The broker could not write meta.properties, and takes the log dir offline.",
        "Is the disk full or read-only? Does the broker's user own the folder?",
        ("df -h {dir}", "ls -ld {dir}"),
        ("meta-properties-corrupt",),
    ),
    Situation(
        "index-not-unmapped",
        (said("Error unmapping index {file}"),),
        Outcome.OK,
        "The broker could not release the memory of an index. The file is not damaged by it.",
        "Nothing to do.",
        ("klogtool verify {folder}",),
    ),
)
