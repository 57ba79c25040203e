"""Side files of a partition: indexes, producer snapshots, leader-epoch-checkpoint, and names that are none."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import (
    REBUILD,
    REBUILD_EPOCHS,
    REBUILD_SNAPSHOTS,
    RECOVER,
    REHEARSE,
    SALVAGE,
    TRANSACTIONS,
    VERIFY,
    VERIFY_LOG_DIR,
)

_RECOVERED = (
    "The broker recovers that segment: it reads all of it and builds the indexes again. Damage in the segment that "
    "nobody noticed before is cut off then, with all later segments."
)

SITUATIONS = (
    Situation(
        "offset-index-missing",
        (
            said(
                "Could not find offset index file corresponding to log file {file}, recovering segment and rebuilding "
                "index files..."
            ),
        ),
        Outcome.OK,
        "A segment has no .index. " + _RECOVERED,
        "Is the segment itself sound? klogtool verify says so before a broker reads it.",
        (VERIFY, RECOVER, REBUILD),
        ("index-missing",),
    ),
    Situation(
        "offset-index-corrupt",
        (
            said("Found a corrupted index file corresponding to log file {file} due to {cause}, recovering segment"),
            said("Corrupt index found, index file {file} has non-zero size but the last offset is {}"),
            said("Index file {file} is corrupt, found {} bytes which is neither positive nor a multiple of {}"),
            said("Corrupt time index found, time index file ({file}) has non-zero size but the last timestamp is {}"),
            said("Corrupt time index found, time index file ({file}) has non-zero size but the last offset is {}"),
            said("Time index file {file} is corrupt, found {} bytes which is neither positive nor a multiple of {}"),
        ),
        Outcome.OK,
        "An index contradicts its segment. " + _RECOVERED,
        "Is the segment itself sound? klogtool verify says so before a broker reads it.",
        (VERIFY, RECOVER, REBUILD),
        ("index-entry", "index-size", "timeindex-entry", "txnindex-entry"),
        causes=(
            Cause(
                "the index was damaged, or not written before the power failed",
                "klogtool verify finds the index only, and the batches are sound.",
            ),
            Cause(
                "the segment itself is damaged or shorter, so its index points beyond it",
                "klogtool verify finds damage in the .log, too.",
            ),
        ),
    ),
    Situation(
        "transaction-index-below-segment",
        (
            said(
                "Found a corrupted index file corresponding to log file {file} due to Last offset of aborted "
                "transaction {} in index {} is less than start offset {}, recovering segment"
            ),
            said("Last offset of aborted transaction {} in index {file} is less than start offset {}"),
        ),
        Outcome.OK,
        "The .txnindex of a segment has an entry that ends before the segment. " + _RECOVERED,
        "Is the segment itself sound? klogtool verify says so before a broker reads it.",
        (VERIFY, RECOVER, REBUILD),
        ("txnindex-entry",),
    ),
    Situation(
        "transaction-index-version",
        (said("Unexpected aborted transaction version {} in transaction index {file}, current version is {}"),),
        Outcome.REFUSES,
        "A .txnindex has an entry of a version that does not exist. One such file stops the whole broker.",
        "The file is derived from the log: rebuild it, or delete it if the topic has no aborted transactions.",
        ("klogtool rebuild-index {folder} --only txnindex --apply", VERIFY, REHEARSE),
        ("txnindex-entry",),
    ),
    Situation(
        "transaction-index-unreadable",
        (
            said("Failed to read from the transaction index {file}"),
            said("Failed read position from the transaction index {file}"),
        ),
        Outcome.REFUSES,
        "A .txnindex cannot be read.",
        "Check the disk, and the owner and mode of the file. The file is derived from the log and can be rebuilt.",
        ("ls -l {file}", "klogtool rebuild-index {folder} --only txnindex --apply", TRANSACTIONS),
        ("unreadable", "txnindex-size"),
    ),
    Situation(
        "orphaned-index",
        (said("Found an orphaned index file {file}, with no corresponding log file."),),
        Outcome.LOSES,
        "An index has no .log: the segment is gone. The broker deletes the index. If nobody deleted the segment on "
        "purpose, its records are lost.",
        "Look for the .log, or for .log.deleted, before a broker starts. Another replica may have the records.",
        (VERIFY, SALVAGE),
        ("orphan-file", "segment-gap"),
        causes=(
            Cause(
                "somebody, or a failed copy, removed the .log",
                "the offsets of the segment are missing, and later segments are there.",
            ),
            Cause(
                "the broker was killed while retention deleted the segment",
                "it is the oldest segment, and the offsets below the log start are gone on purpose.",
            ),
        ),
    ),
    Situation(
        "producer-snapshot-corrupt",
        (
            said("Failed to load producer snapshot from '{file}': {cause}"),
            said("Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}"),
            said("Snapshot failed schema validation: {cause}", since="4.0"),
            said("Snapshot contained an unknown file version {}"),
            said("Error reading field 'version': java.nio.BufferUnderflowException", until="3.9"),
        ),
        Outcome.OK,
        "A producer snapshot is damaged. The broker deletes it, takes the one before, and reads the log from there.",
        "Nothing is lost if an older snapshot is whole. If none is, the broker forgets its producers after a clean "
        "shutdown: it accepts duplicates, and forgets open transactions.",
        (VERIFY, REBUILD_SNAPSHOTS, TRANSACTIONS),
        ("snapshot-corrupt",),
    ),
    Situation(
        "producer-snapshot-deleted",
        (
            said("Deleted producer state snapshot {file}"),
            said("Failed to delete producer state snapshot {file} because it does not exist."),
            said("Failed to rename producer state snapshot {file} with deletion suffix because it was already deleted"),
        ),
        Outcome.OK,
        "The broker has removed a producer snapshot that it does not need. This is normal.",
        "Nothing to do.",
        (TRANSACTIONS,),
        ("snapshot-stray",),
    ),
    Situation(
        "producer-snapshot-not-deleted",
        (
            said("Error while deleting producer state snapshot {} for {partition} in dir {dir}"),
            said("Error while deleting producer state snapshots for {partition} in dir {dir}"),
        ),
        Outcome.OFFLINE,
        "The broker could not remove a producer snapshot, and takes the log dir offline.",
        "Is the file system mounted read-only? Check the disk, and the owner and mode of the partition dir.",
        ("findmnt --target {dir}", VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "producer-state-rebuilt",
        (
            said("Reloading from producer snapshot and rebuilding producer state from offset {offset}"),
            said("Producer state recovery took {}ms for snapshot load and {}ms for segment recovery"),
            said("Loading producer state till offset {offset}"),
            said("Loading producer state from snapshot file '{file}"),
            said("Wrote producer snapshot at offset {offset} with {} producer ids"),
        ),
        Outcome.OK,
        "The broker restores what it knows of producers, from a snapshot and from the log after it. This is normal.",
        "If it takes minutes, the newest snapshot is missing or damaged.",
        (TRANSACTIONS, VERIFY),
        ("snapshot-missing",),
    ),
    Situation(
        "snapshot-move-noise",
        (
            said(
                "Failed atomic move of {file}.snapshot to {}.snapshot.deleted retrying with a non-atomic move",
            ),
        ),
        Outcome.OK,
        "Noise. Two parts of the broker remove the same producer snapshot, and one finds it gone (a "
        "NoSuchFileException follows).",
        "Nothing to do.",
    ),
    Situation(
        "file-move-retried",
        (said("Failed atomic move of {file} to {} retrying with a non-atomic move"),),
        Outcome.OK,
        "A file could not be renamed in one step, and the broker tries again in another way. If that fails, too, an "
        "error follows.",
        "Look for an error after this line. Repeated lines may be a network file system, or another process that "
        "removes files of the log dir.",
        (VERIFY_LOG_DIR,),
    ),
    Situation(
        "leader-epochs-unreadable",
        (
            said("Error while reading checkpoint file {folder}/leader-epoch-checkpoint"),
            said("Malformed line in checkpoint file [{folder}/leader-epoch-checkpoint]: {line}"),
            said("Expected [{}] entries in checkpoint file [{folder}/leader-epoch-checkpoint], but found only [{}]"),
            said(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {folder}/leader-epoch-checkpoint"
            ),
        ),
        Outcome.OFFLINE,
        "leader-epoch-checkpoint of a partition cannot be read; after a power failure it may be zeros. This one file "
        "takes the whole log dir offline. If the log dir is the metadata log dir, or the last one, the broker ends.",
        "The file is derived from the log: rebuild it.",
        (REBUILD_EPOCHS, VERIFY, REHEARSE),
        ("epochs-corrupt",),
    ),
    Situation(
        "leader-epoch-negative",
        (said("Received invalid partition leader epoch entry {}"),),
        Outcome.REFUSES,
        "leader-epoch-checkpoint of a partition has a negative epoch or offset. One such file stops the whole broker, "
        "and the message does not name it.",
        "klogtool verify names the file, which is derived from the log: rebuild it.",
        (VERIFY_LOG_DIR, REBUILD_EPOCHS),
        ("epochs-corrupt",),
    ),
    Situation(
        "leader-epoch-no-number",
        (said('NumberFormatException: For input string: "{}"'),),
        Outcome.REFUSES,
        "leader-epoch-checkpoint of a partition has an epoch that is no number. One such file stops the whole broker, "
        "and the message does not name it.",
        "klogtool verify names the file, which is derived from the log: rebuild it.",
        (VERIFY_LOG_DIR, REBUILD_EPOCHS),
        ("epochs-corrupt",),
        clue="LeaderEpochCheckpointFile",
    ),
    Situation(
        "leader-epochs-conflict",
        (said("New epoch entry {} caused truncation of conflicting entries {}. Cache now contains {} entries."),),
        Outcome.OK,
        "leader-epoch-checkpoint had entries that do not increase, or a batch carried a wrong epoch. The broker drops "
        "the entries that conflict with the new one.",
        "Rare after an unclean election, else a sign of a damaged epoch field. Followers that ask for a dropped epoch "
        "may truncate at the wrong offset.",
        (VERIFY, "klogtool lookup {folder} --leader-epoch 0", REBUILD_EPOCHS),
        ("epochs-content", "epoch-order"),
    ),
    Situation(
        "file-name-no-offset",
        (said('NumberFormatException: For input string: "{}"'),),
        Outcome.REFUSES,
        "A file in a partition dir has the ending of a segment (.log, .index, .timeindex, .snapshot, .swap, .cleaned), "
        "but its name is no offset, for example foo.log. One such file stops the whole broker; the message has the "
        "name, but not the folder.",
        "klogtool verify names the file. Move it out of the log dir.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("segment-name",),
        clue="LogFileUtils.offsetFromFile",
    ),
    Situation(
        "temporary-file-deleted",
        (
            said("Deleting stray temporary file {file}"),
            said("Deleting stray .clean file {file}"),
        ),
        Outcome.OK,
        "The broker removes a file that ends in .deleted or .cleaned: the rest of an earlier deletion or cleaning.",
        "Until a broker starts, a .deleted segment can be renamed back, if the log no longer contains its offsets.",
        (VERIFY,),
        ("leftover-deleted", "leftover-cleaned"),
    ),
)
