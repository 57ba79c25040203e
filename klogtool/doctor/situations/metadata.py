"""KRaft's own files: `__cluster_metadata-0`, its snapshots, quorum-state, bootstrap.checkpoint."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said

_VERIFY = "klogtool verify {metadata}"
_RECOVER = "klogtool recover {metadata}"
_OTHER = "Another controller of the same cluster has a whole copy of __cluster_metadata-0."

SITUATIONS = (
    Situation(
        "metadata-cut",
        (said("Found invalid messages in log segment {dir}/__cluster_metadata-0/{} at byte offset {position}."),),
        Outcome.LOSES,
        "The log of the cluster's metadata has a bad batch, and is cut there. If it is the last batch, nothing else is "
        "lost. Otherwise the broker forgets everything after it: partitions that were created later become -stray.",
        "Stop the broker before you look. " + _OTHER + " Never start a lone controller on a shortened metadata log.",
        (_VERIFY, _RECOVER),
        ("batch-crc", "torn-batch", "zero-tail"),
        causes=(
            Cause(
                "the node was killed in the middle of a write",
                "the position is at the end of the log.",
            ),
            Cause(
                "bytes of the disk have changed",
                "sound batches lie behind the position.",
            ),
        ),
    ),
    Situation(
        "metadata-empty",
        (said("Performing controller activation. The metadata log appears to be empty."),),
        Outcome.LOSES,
        "The log of the cluster's metadata is empty, and the controller begins a new one. This is normal at the first "
        "start of a new cluster, and only then. Otherwise the cluster is forgotten: no topic exists, and every "
        "partition of every log dir becomes -stray.",
        "Is this a new cluster? If not, stop all its nodes at once. Is the disk of the metadata log dir mounted? "
        + _OTHER,
        (_VERIFY, "klogtool doctor {dir}"),
        causes=(
            Cause(
                "the cluster is new",
                "no log dir of any node has a partition dir.",
            ),
            Cause(
                "the metadata log dir is not mounted, was emptied, or is at another path",
                "log dirs have partitions, and lines 'Found stray log dir' follow.",
            ),
        ),
    ),
    Situation(
        "shared-server-failed",
        (said("Got exception while starting SharedServer"),),
        Outcome.REFUSES,
        "The broker cannot open __cluster_metadata-0, or one of its snapshots, and ends.",
        "The exception below the message says which file. " + _OTHER,
        (_VERIFY, "klogtool doctor {dir}"),
        ("kraft-snapshot-corrupt", "quorum-state-corrupt", "epochs-corrupt", "unreadable"),
        is_general=True,
    ),
    Situation(
        "quorum-state-behind",
        (said("Epoch from quorum store file ({file}) is {}, which is smaller than last written epoch {} in the log"),),
        Outcome.OK,
        "quorum-state is missing, or older than the log. The node takes the epoch of the log, and a new election "
        "follows.",
        "Nothing to do.",
        (_VERIFY,),
    ),
    Situation(
        "quorum-state-unreadable",
        (said("Error while reading the Quorum status from the file {file}"),),
        Outcome.REFUSES,
        "quorum-state is empty, or is not JSON. The node does not know for whom it voted, and ends.",
        "Are the other controllers running? Then delete quorum-state while this node is stopped: it takes the epoch of "
        "the log. With a single controller this is safe, too.",
        (_VERIFY, "klogtool dump-log {file}"),
        ("quorum-state-corrupt",),
    ),
    Situation(
        "quorum-state-version",
        (said("data_version ({}) is not within the min ({}) and max ({}) supported version"),),
        Outcome.REFUSES,
        "quorum-state has a version that this release does not know: a newer release wrote it.",
        "Start the release that wrote it, or delete quorum-state while this node is stopped.",
        (_VERIFY,),
        ("quorum-state-corrupt",),
    ),
    Situation(
        "quorum-state-not-written",
        (said("Error while writing the Quorum status from the file {file}"),),
        Outcome.REFUSES,
        "The node could not write quorum-state.",
        "Is the disk full, mounted read-only, or failing? Check the owner and mode of the folder.",
        ("df -h {dir}", "findmnt --target {dir}"),
    ),
    Situation(
        "bootstrap-without-metadata-version",
        (
            said(
                "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary "
                "bootstrap metadata file: {file}"
            ),
        ),
        Outcome.REFUSES,
        "bootstrap.checkpoint is empty, torn or overwritten.",
        "Does __cluster_metadata-0 have records? Then move bootstrap.checkpoint away: it is not needed any more. If "
        "that folder is empty or missing, find out why first.",
        (_VERIFY, "klogtool dump-log {file}"),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "metadata-snapshot-deleted",
        (said("Deleted unneeded snapshot file with path {file}"),),
        Outcome.OK,
        "The node removes an unfinished or deleted snapshot of the metadata. This is normal.",
        "Nothing to do.",
        (_VERIFY,),
    ),
    Situation(
        "metadata-snapshot-corrupt",
        (
            said("CorruptRecordException: Invalid magic found in record: {}"),
            said("CorruptRecordException: Record size {} is less than the minimum record overhead ({})"),
            said("CorruptRecordException: Record is corrupt (stored crc = {}, computed crc = {})"),
        ),
        Outcome.REFUSES,
        "A .checkpoint of __cluster_metadata-0 is damaged. (In a log of a partition the same exception stops readers.)",
        "Move the damaged .checkpoint away if an older one, and the log since then, are whole. " + _OTHER,
        (_VERIFY, _RECOVER),
        ("kraft-snapshot-corrupt",),
        clue="SharedServer",
    ),
    Situation(
        "metadata-snapshot-empty",
        (said("Unhandled fault in MetadataLoader#handleLoadSnapshot. Snapshot offset was {offset}"),),
        Outcome.REFUSES,
        "The newest .checkpoint of __cluster_metadata-0 is empty (a NoSuchElementException follows).",
        "Move the empty .checkpoint away if an older one, and the log since then, are whole. " + _OTHER,
        (_VERIFY, _RECOVER),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "metadata-snapshot-name",
        (said("StringIndexOutOfBoundsException: begin 0, end 20, length {}"),),
        Outcome.REFUSES,
        "A .checkpoint in __cluster_metadata-0 is not named as a snapshot is (20 digits, a dash, 10 digits).",
        "Move the file out of __cluster_metadata-0.",
        (_VERIFY, "ls {metadata}"),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "metadata-snapshot-missing",
        (
            said(
                "Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start "
                "offset {offset}"
            ),
        ),
        Outcome.REFUSES,
        "__cluster_metadata-0 starts above offset 0, and there is no snapshot of what was before. The cluster's "
        "metadata is not complete.",
        "Was a .checkpoint moved away? Put it back. " + _OTHER,
        (_VERIFY, _RECOVER),
        ("kraft-snapshot-corrupt",),
    ),
    Situation(
        "metadata-of-newer-release",
        (
            said("No MetadataVersion with feature level {}. Valid feature levels are from {} to {}."),
            said("No MetadataVersion with feature level {cause}"),
            said("UnsupportedVersionException: Unknown metadata id {}"),
        ),
        Outcome.REFUSES,
        "The metadata has a record that this release does not know: a newer release formatted these log dirs, or "
        "metadata.version was raised. Nothing is lost.",
        "Start the newer release again. A finished upgrade of metadata.version cannot be taken back by an older "
        "release.",
        ("klogtool dump-log {metadata} --cluster-metadata-decoder", _VERIFY),
    ),
    Situation(
        "metadata-fault",
        (
            said("Unhandled fault in MetadataLoader#handleCommit. {cause}"),
            said("Encountered metadata loading fault: {cause}"),
            said("Encountered metadata publishing fault: {cause}"),
        ),
        Outcome.UNSERVED,
        "The broker could not apply a change of the cluster's metadata. A node that is also a controller ends.",
        "The exception below the message says what failed. Later changes may be missing on this broker until it "
        "restarts.",
        (_VERIFY,),
        is_general=True,
    ),
)
