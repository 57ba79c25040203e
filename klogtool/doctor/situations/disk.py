"""The disk under a log dir: locks, permissions, space, errors of the device, limits of the system."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import RECOVER, REHEARSE, VERIFY, VERIFY_LOG_DIR

_MOUNT = "findmnt --target {dir}"

SITUATIONS = (
    Situation(
        "log-dir-in-use",
        (
            said(
                "Failed to acquire lock on file .lock in {dir}. A Kafka instance in another process or thread is using "
                "this directory."
            ),
        ),
        Outcome.REFUSES,
        "Another process holds the lock of the log dir: a broker that still runs, or klogtool. A .lock file that is "
        "only left over does no harm.",
        "Is the old broker still shutting down? Do two brokers have the same log.dirs? Do not delete .lock.",
        ("fuser -v {dir}/.lock",),
    ),
    Situation(
        "log-dir-not-locked",
        (said("Disk error while locking directory {dir}"),),
        Outcome.OFFLINE,
        "The broker cannot create or lock .lock: the log dir is read-only, or belongs to somebody else.",
        "Is the file system mounted read-only? Does the broker run as the owner of the log dir (chown)?",
        ("ls -ld {dir} {dir}/.lock", _MOUNT, VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "log-dir-not-created",
        (
            said("Failed to create data directory {dir}"),
            said("{dir} is not a readable log directory."),
        ),
        Outcome.OFFLINE,
        "The log dir does not exist and cannot be created, or is a file, or cannot be read.",
        "Is the disk mounted? Is the path in log.dirs right? Check owner and mode.",
        ("ls -ld {dir}", _MOUNT, VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "no-log-dir-usable",
        (said("Shutdown broker because none of the specified log dirs from {dir} can be created or validated"),),
        Outcome.REFUSES,
        "The broker can use none of its log dirs, and ends.",
        "Earlier lines name each of them. Are the disks mounted?",
        (_MOUNT, VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "log-dirs-repeated",
        (said('Configuration key "log.dirs" contains duplicate values. Duplicates will be removed.', since="4.0"),),
        Outcome.OK,
        "log.dirs names a log dir twice. The broker uses it once. (3.9 does not start: 'Duplicate log directory "
        "found'.)",
        "Remove the second entry.",
    ),
    Situation(
        "log-dirs-same",
        (said("Duplicate log directory found: {dir}"),),
        Outcome.REFUSES,
        "Two entries of log.dirs are the same folder.",
        "Remove one of them. A symbolic link to a log dir counts as the same folder.",
        ("readlink -f {dir}",),
        ("meta-properties-conflict",),
    ),
    Situation(
        "log-dir-load-failed",
        (said("Error while loading log dir {dir}"),),
        Outcome.OFFLINE,
        "A file or a partition of the log dir could not be read or written, so the broker takes the whole log dir "
        "offline. If that is the metadata log dir, or the last one, it ends.",
        "The exception below the message names the file. Check the owner and mode of all files, and whether the disk "
        "is full or read-only.",
        (REHEARSE, VERIFY_LOG_DIR, "df -h {dir}"),
        ("unreadable",),
        is_general=True,
    ),
    Situation(
        "file-not-readable",
        (said("Could not read file {file}"),),
        Outcome.OFFLINE,
        "The broker may not read a file of a partition, and takes the whole log dir offline.",
        "Give the file to the broker's user (chown), then restart the broker.",
        ("ls -l {file}", VERIFY, REHEARSE),
        ("unreadable",),
    ),
    Situation(
        "access-denied",
        (
            said("java.nio.file.AccessDeniedException: {file}"),
            said("{file} (Permission denied)"),
        ),
        Outcome.OFFLINE,
        "The broker may not read or write a file, and takes the whole log dir offline. If that is the metadata log "
        "dir, or the last one, it ends.",
        "Did somebody work on the files as root? Give them to the broker's user (chown -R), then restart the broker.",
        ("ls -l {file}", VERIFY_LOG_DIR, REHEARSE),
        ("unreadable",),
    ),
    Situation(
        "read-only-file-system",
        (
            said("{file}: Read-only file system"),
            said("{file} (Read-only file system)"),
            said("Read-only file system"),
        ),
        Outcome.OFFLINE,
        "The file system is mounted read-only, often because the kernel has seen errors of the disk. The broker takes "
        "the log dir offline. If that is the metadata log dir, or the last one, it ends.",
        "Look into dmesg for errors of the disk before you mount it again. klogtool can read it as it is.",
        (_MOUNT, "dmesg -T", VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "not-a-directory",
        (
            said("{file}: Not a directory"),
            said("{file} (Is a directory)"),
            said("java.io.IOException: Is a directory"),
            said("{file}: Is a directory"),
        ),
        Outcome.OFFLINE,
        "A file is where a folder should be, or a folder where a file should be. The broker takes the log dir offline. "
        "If that is the metadata log dir, or the last one, it ends.",
        "Move out what does not belong there.",
        ("ls -ld {file}", VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "disk-full",
        (
            said("No space left on device"),
            said("Disk quota exceeded"),
        ),
        Outcome.OFFLINE,
        "The disk is full, or has no inodes left. The broker takes the log dir offline at the first write that fails. "
        "A broker that has to recover this log dir cannot start on it. A metadata log dir ends the broker.",
        "Is it space or inodes? Free space outside the log dir first. Never delete segments by hand: klogtool free "
        "says what can be given up, the safest first.",
        ("df -h {dir}", "df -i {dir}", "klogtool free {dir}", REHEARSE),
    ),
    Situation(
        "input-output-error",
        (
            said("Input/output error"),
            said("Structure needs cleaning"),
            said("Remote I/O error"),
        ),
        Outcome.OFFLINE,
        "The disk or its file system has failed to read or write. The broker takes the log dir offline.",
        "Look into dmesg and SMART. Copy what can be read to another disk before you repair the file system. Is "
        "another replica whole?",
        ("dmesg -T", VERIFY_LOG_DIR, "klogtool salvage {folder} --output DIR"),
        ("unreadable",),
        causes=(
            Cause(
                "the disk fails",
                "dmesg shows errors of the device.",
            ),
            Cause(
                "the file system is damaged, or its server is away",
                "dmesg shows errors of the file system or of NFS, and none of the device.",
            ),
        ),
    ),
    Situation(
        "stale-file-handle",
        (said("Stale file handle"),),
        Outcome.OFFLINE,
        "The log dir is on a network file system, and its server has lost the file. The broker takes the log dir "
        "offline.",
        "Kafka needs a local disk: on NFS, renames of open files fail. Mount it again, then check the log dir.",
        (_MOUNT, VERIFY_LOG_DIR),
        ("unreadable",),
    ),
    Situation(
        "too-many-open-files",
        (said("Too many open files"),),
        Outcome.OFFLINE,
        "The broker has reached the limit of open files. It may take log dirs offline, or refuse connections. Each "
        "segment needs its .log open, and its .txnindex.",
        "Raise the limit (LimitNOFILE of systemd, ulimit -n) to 100000 or more; count segments first. Nothing on the "
        "disk is damaged.",
        ("find {dir} -name '*.log' -printf .", VERIFY_LOG_DIR),
    ),
    Situation(
        "map-failed",
        (said("Map failed"),),
        Outcome.OFFLINE,
        "The broker has reached the limit of memory maps (vm.max_map_count, 65530 by default). Each open index is one. "
        "It takes the log dir offline, or ends.",
        "Raise vm.max_map_count to more than twice the number of segments, for example 262144. Nothing on the disk is "
        "damaged.",
        ("sysctl vm.max_map_count", "find {dir} -name '*.index' -printf ."),
    ),
    Situation(
        "log-dir-failed",
        (
            said("Stopping serving replicas in dir {dir} with uuid {} because the log directory has failed."),
            said("Stopping serving replicas in dir {dir}"),
            said("Stopped serving replicas in dir {dir}"),
            said("Stopping serving logs in dir {dir}"),
            said("are offline due to failure on log directory {dir}"),
            said("because they are in the failed log directory {dir}."),
        ),
        Outcome.OFFLINE,
        "The broker has taken the log dir offline: none of its partitions is served by this broker until it restarts.",
        "An earlier line says why: the first line at ERROR that names this log dir. Check the disk, then what a start "
        "would do. Only a restart brings the log dir back.",
        (REHEARSE, VERIFY_LOG_DIR, "dmesg -T"),
        ("unreadable",),
        is_general=True,
    ),
    Situation(
        "log-dir-offline-already",
        (
            said("The log dir {dir} is already offline due to a previous IO exception."),
            said("Can not create log {} because log directory {dir} is offline"),
        ),
        Outcome.OFFLINE,
        "The log dir went offline before. If it is the metadata log dir, the broker ends.",
        "An earlier line says why: the first line at ERROR that names this log dir.",
        (REHEARSE, VERIFY_LOG_DIR, "df -h {dir}"),
        is_general=True,
    ),
    Situation(
        "log-dir-marked-offline",
        (said("Directories {} in broker {} marked offline, remaining directories: {}"),),
        Outcome.OFFLINE,
        "A line of the controller: a broker has taken log dirs offline. Their partitions get other leaders, if they "
        "have other replicas in sync.",
        "The directory ids are those in meta.properties (directory.id). Look into the log of that broker.",
        ("klogtool dump-log {dir}/meta.properties",),
        is_general=True,
    ),
    Situation(
        "metadata-log-dir-failed",
        (said("Shutdown broker because the metadata log dir {dir} has failed"),),
        Outcome.REFUSES,
        "The log dir with __cluster_metadata-0 is offline, so the broker ends, even if its other log dirs are fine.",
        "Earlier lines say why. Check the disk.",
        ("klogtool verify {metadata}", VERIFY_LOG_DIR, "df -h {dir}"),
        ("unreadable",),
        is_general=True,
    ),
    Situation(
        "all-log-dirs-failed",
        (said("Shutdown broker because all log dirs in {dir} have failed"),),
        Outcome.REFUSES,
        "All log dirs of the broker are offline, so it ends.",
        "Earlier lines say why, for each of them. If it is the same error in all, think of limits (open files, memory "
        "maps) and of owners before you think of disks.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("unreadable",),
        is_general=True,
    ),
    Situation(
        "io-error-in-partition",
        (
            said("Error while appending records to {partition} in dir {dir}"),
            said("Error while rolling log segment for {partition} in dir {dir}"),
            said("Error while flushing log for {partition} in dir {dir} with offset {}"),
            said("Error while deleting segments for {partition} in dir {dir}"),
            said("Error while deleting all segments for {partition} in dir {dir}"),
            said("Error while deleting log for {partition} in dir {dir}"),
            said("Error while deleting dir for {partition} in dir {dir}"),
            said("Error while renaming dir for {partition} in dir {dir}"),
            said("Error while renaming dir for {partition} in log dir {dir}"),
            said("Error while truncating log to offset {offset} for {partition} in dir {dir}"),
            said("Error while truncating the entire log for {partition} in dir {dir}"),
            said("Error while fetching offset by timestamp for {partition} in dir {dir}"),
            said("Error while creating log for {partition} in dir {dir}"),
        ),
        Outcome.OFFLINE,
        "An input or output failed in a partition while the broker ran, and it takes the whole log dir offline.",
        "The exception below the message says why: a full disk, a file system that is read-only, a file that somebody "
        "removed, a failing disk. Look into dmesg.",
        (VERIFY_LOG_DIR, RECOVER, "df -h {dir}", "dmesg -T"),
        ("unreadable",),
    ),
)
