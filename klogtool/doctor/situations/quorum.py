"""KRaft's quorum: who votes, who leads, and replicas that do not agree."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said

_VERIFY = "klogtool verify {dir}"
_DOCTOR = "klogtool doctor {dir}"
_VOTERS = "klogtool dump-log {metadata} --deep-iteration"
_OLD_ID = Cause(
    "meta.properties lost its directory.id, or the disk was formatted anew",
    "klogtool verify reports quorum-voter; KRaftVoters of the metadata log has another voterDirectoryId for this node.",
)
_FEW = Cause(
    "too few of the voters run, or they do not reach each other",
    "the log repeats 'could not be established. Node may not be available.' with the number of a voter.",
)
_MOVED = Cause(
    "hosts or ports of most voters have changed",
    "KRaftVoters of the metadata log has addresses that are not those of the configuration.",
)
_STATIC = Cause(
    "controller.quorum.voters is missing or names others, and the quorum is static",
    "'Starting voters are VoterSet(voters={})', and the metadata log has no KRaftVoters.",
)

SITUATIONS = (
    Situation(
        "voter-key-differs",
        (
            said("sent a voter key ({}) in the {} request that doesn't match the local key ({}); rejecting the vote"),
            said("sent a voter key ({}) in the {} request that doesn't match the local key ({}); returning INVALID"),
        ),
        Outcome.UNSERVED,
        "The other controllers know this node as a voter under another directory id, so it does not vote. If that is "
        "so for most voters, no leader is ever elected, and nothing is served.",
        "Compare directory.id in meta.properties with voterDirectoryId in the newest KRaftVoters. Write the old one "
        "back while the node is stopped.",
        (_VERIFY, _VOTERS),
        ("quorum-voter",),
    ),
    Situation(
        "no-controller-elected",
        (
            said("Unable to register the broker because the RPC got timed out before it could be sent."),
            said("Shutting down because we were unable to register with the controller quorum."),
            said("No controller appears to be active."),
        ),
        Outcome.REFUSES,
        "The broker has not found a leader of the controllers for a minute, and ends. A controller alone does not end.",
        "Does any controller say 'Becoming the active controller'? Look into the logs of all controllers before you "
        "edit anything, and never start a new, empty one first.",
        (_VERIFY, _DOCTOR, _VOTERS),
        ("quorum-voter",),
        causes=(_OLD_ID, _FEW, _MOVED, _STATIC),
    ),
    Situation(
        "starting-voters",
        (said("Starting voters are VoterSet(voters={})"), said("Latest set of voters is {}")),
        Outcome.OK,
        "The voters that this node knows at its start. An empty set means that no record and no configuration names "
        "any: no leader is ever elected then. The line may show the voters of a snapshot, and a later record in the "
        "log wins.",
        "Is this node's id there, with the directory.id of its meta.properties?",
        (_VOTERS,),
    ),
    Situation(
        "node-not-in-static-voters",
        (
            said(
                "If process.roles contains the 'controller' role, the node id {} must be included in the set of voters"
            ),
            said(
                "If process.roles contains just the 'broker' role, the node id {} must not be included in the set of "
                "voters"
            ),
        ),
        Outcome.REFUSES,
        "controller.quorum.voters and node.id of the configuration do not fit. The check comes before any log is read.",
        "Is node.id right? Is the line controller.quorum.voters the same on all nodes?",
        ("klogtool dump-log {dir}/meta.properties",),
    ),
    Situation(
        "kraft-version-without-voters",
        (said("The kraft.version is {} but there is no voter set in the log or checkpoint {}"),),
        Outcome.REFUSES,
        "An upgrade to a dynamic quorum was only half done: kraft.version is 1, and no record names the voters. The "
        "node wins the election, and ends.",
        "Another controller may have the voters: copy its folder __cluster_metadata-0.",
        (_VERIFY, _VOTERS),
        ("quorum-voter",),
    ),
    Situation(
        "raft-thread-ended",
        (said("Unexpected error in raft IO thread"), said("Graceful shutdown of RaftClient failed")),
        Outcome.REFUSES,
        "KRaft's own thread has failed, and the node ends. The exception below the message says why.",
        "Read the exception. A second start is safe only if it is 'Unknown leader endpoints'.",
        (_VERIFY, _DOCTOR),
        is_general=True,
    ),
    Situation(
        "leader-endpoints-unknown",
        (said("Unknown leader endpoints ({}) after request or response with leader ({}) and the voters {}"),),
        Outcome.REFUSES,
        "An empty controller heard of the leader before it knew the voters, and ended. This is a race of its first "
        "start.",
        "Start it again.",
        (_VERIFY,),
    ),
    Situation(
        "truncation-below-high-watermark",
        (
            said("The leader requested truncation to offset {offset}, which is below the current high watermark {}"),
            said("Attempt to truncate to offset {offset}, which is below the current high watermark {}"),
        ),
        Outcome.REFUSES,
        "The leader's metadata log parts from this one below what this node holds for committed: there are two "
        "histories. The node ends, before it throws its own away.",
        "Stop all controllers. Copy every __cluster_metadata-0 before anything else. Which copy has the highest epoch "
        "and offset? A restart of this node lets it cut its log.",
        (_VERIFY, _VOTERS),
        causes=(
            Cause("old controllers were started again beside a rescued one", "their logs end at a lower epoch."),
            Cause("a wiped controller was elected", "the leader's log begins with a new LeaderChange at offset 0."),
        ),
    ),
    Situation(
        "two-leaders-of-one-epoch",
        (
            said(
                "Received request or response with leader {} and epoch {} which is inconsistent with current leader {} "
                "and epoch {}"
            ),
        ),
        Outcome.REFUSES,
        "Two controllers were elected in the same epoch, by different sets of voters. The one that notices ends.",
        "Stop all controllers, copy every __cluster_metadata-0, and compare the voters and the last epochs in them.",
        (_VERIFY, _VOTERS),
    ),
    Situation(
        "vote-of-an-epoch-in-the-log",
        (said("Received unexpected invalid request error"),),
        Outcome.REFUSES,
        "The node asked for votes in an epoch that its own log already has, because quorum-state says that it voted "
        "for itself then.",
        "Delete quorum-state while the node is stopped: it takes the epoch of the log.",
        (_VERIFY, "klogtool dump-log {metadata}/quorum-state"),
        ("quorum-state-corrupt",),
    ),
    Situation(
        "cluster-id-of-a-peer-differs",
        (said("Unexpected error INCONSISTENT_CLUSTER_ID in {} response: {}"),),
        Outcome.UNSERVED,
        "This node has another cluster.id than the controller that it asks. It gets nothing from it.",
        "Which of the two is right? Compare meta.properties of all nodes before you edit one.",
        ("klogtool dump-log {dir}/meta.properties",),
        ("meta-properties-conflict",),
    ),
    Situation(
        "raft-response-error",
        (
            said("Unexpected error {} in {} response: {}"),
            said("Caught unexpected error in fetch completion of request {}"),
            said("Request {} failed due to authentication error"),
            said("Request {} failed due to unsupported version error"),
            said("Received cluster authorization error in response {}"),
            said("Had an error during log cleaning"),
        ),
        Outcome.UNSERVED,
        "A request between controllers failed. KRaft tries again; as long as it fails, this node gets no metadata.",
        "The line names the error. Compare listeners, security settings and releases of both nodes.",
        (_VERIFY,),
        is_general=True,
    ),
    Situation(
        "snapshot-from-leader-refused",
        (
            said("The leader sent a snapshot id with a valid end offset {} but with an invalid epoch {}"),
            said("The leader sent a snapshot id with a valid epoch {} but with an invalid end offset {}"),
            said("Received fetch snapshot response with an invalid id. Expected {}; Received {}"),
            said("Full log truncation expected but didn't happen. Snapshot of {}, log end offset {}, last fetched {}"),
            said("Snapshot id ({}) is not valid according to the log: {}"),
        ),
        Outcome.UNSERVED,
        "A snapshot of the metadata does not fit the log of this node or of the leader.",
        "Compare the names of .checkpoint files and the epochs of the logs on all controllers.",
        (_VERIFY, _VOTERS),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "snapshot-without-its-log",
        (
            said(
                "Log doesn't have a last fetch epoch and there is a snapshot ({}). Expected the snapshot's end offset"
            ),
            said("Snapshot expected since next offset of {} is {}, log start offset is {} and high-watermark is {}"),
        ),
        Outcome.REFUSES,
        "__cluster_metadata-0 has a snapshot, and a log that does not begin or end where the snapshot does.",
        "Were files of two copies mixed? Take the whole folder of one controller.",
        (_VERIFY, _DOCTOR),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "not-a-voter-in-state",
        (
            said("Cannot transition to {} since the local id ({}) and directory id ({}) is not one of the voters {}"),
            said("Local replica ({}, {}) must be in the set of voters {}"),
            said("Local replica {} is not a voter in {}"),
        ),
        Outcome.REFUSES,
        "The node wanted to lead or to be elected, and is none of the voters.",
        "Compare node.id and directory.id in meta.properties with the newest KRaftVoters.",
        (_VERIFY, _VOTERS),
        ("quorum-voter",),
    ),
    Situation(
        "quorum-configuration-malformed",
        (
            said("Missing kraft bootstrap servers. Must specify a value for {}."),
            said("Failed to parse host name from {} for the configuration {}."),
            said("Failed to parse host port from {} for the configuration {}."),
            said("Failed to parse voter ID as an integer from {}"),
            said("Host string ({}) is not routeable"),
            said("Invalid configuration value for {}. Each entry should be in the form `{id}@{host}:{port}`."),
            said("The node directory id must be set and not be the zero uuid"),
        ),
        Outcome.REFUSES,
        "The configuration of the quorum cannot be used. No log was read.",
        "controller.quorum.voters is ID@HOST:PORT,...; controller.quorum.bootstrap.servers is HOST:PORT,...",
        ("klogtool dump-log {dir}/meta.properties",),
    ),
    Situation(
        "metadata-frame-unreadable",
        (
            said("Invalid non-positive frame size: {}"),
            said("Specified frame size, {}, is larger than the entire size of the batch, which is {}"),
            said("Got an unexpected empty key in the record"),
            said("Got an unexpected empty value in the record"),
            said("Got key in the record when no key was expected"),
            said("Missing value in the record when a value was expected"),
            said("Got numHeaders of {}, but this is invalid because it is not 0 as expected."),
            said("Got timestamp delta of {}, but this is invalid because it is not 0 as expected."),
            said("Unable to read {} bytes, only read {}"),
            said("Failed to read records into memory"),
            said("First control record is not a snapshot header ({})"),
            said("First batch is not a control batch with at least one record"),
        ),
        Outcome.REFUSES,
        "A record of __cluster_metadata-0 or of a .checkpoint is not framed as KRaft writes it: something else than "
        "KRaft wrote there, or the bytes changed.",
        "Another controller of the same cluster has a whole copy of __cluster_metadata-0.",
        (_VERIFY, "klogtool recover {metadata}"),
        ("kraft-snapshot-corrupt", "metadata-replay", "records-invalid"),
    ),
)
