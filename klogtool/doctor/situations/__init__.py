"""The table of situations: the messages of brokers from 3.9 to 4.4, each with its meaning and what to do.

What a broker does was observed on real brokers of 4.3.1 and 3.9.2, or read in their sources.

    commands        commands that several situations name
    identity        meta.properties: which broker, cluster and directory a log dir belongs to
    folders         names of folders, topic ids, strays, moves between log dirs
    checkpoints     the checkpoint files of a log dir
    side_files      indexes, producer snapshots, leader epochs of a partition
    segments        segments: recovered, cut, split, swapped, deleted at startup
    metadata        `__cluster_metadata`, its snapshots, quorum-state, bootstrap.checkpoint
    controlling     metadata that a controller or a broker cannot replay, load or publish
    quorum          KRaft's voters and leaders
    disk            locks, permissions, full and broken disks, memory maps
    starting        clean and unclean starts, and how a failed start ends
    cleaning        the log cleaner
    retention       segments deleted while a broker runs
    appending       what a broker refuses to append
    records         records that cannot be read: consumers, followers, cleaners
    tiered          the remote tier and its metadata
    replicating     followers that truncate, elections, fencing
"""

from __future__ import annotations

from klogtool.doctor.situation import Situation
from klogtool.doctor.situations import (
    appending,
    checkpoints,
    cleaning,
    controlling,
    disk,
    folders,
    identity,
    metadata,
    quorum,
    records,
    replicating,
    retention,
    segments,
    side_files,
    starting,
    tiered,
)

SITUATIONS: tuple[Situation, ...] = (
    *identity.SITUATIONS,
    *folders.SITUATIONS,
    *checkpoints.SITUATIONS,
    *side_files.SITUATIONS,
    *segments.SITUATIONS,
    *metadata.SITUATIONS,
    *controlling.SITUATIONS,
    *quorum.SITUATIONS,
    *disk.SITUATIONS,
    *starting.SITUATIONS,
    *cleaning.SITUATIONS,
    *retention.SITUATIONS,
    *records.SITUATIONS,
    *tiered.SITUATIONS,
    *appending.SITUATIONS,
    *replicating.SITUATIONS,
)
