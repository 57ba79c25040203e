"""Wounds of a log dir's own files: the clean shutdown marker, checkpoints, what does not belong there.

`file` names the log dir: "" if the draft is of it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from klogtool.broker.draft import Draft
from klogtool.building.wound_places import below, check_new, put, wrong
from klogtool.errors import KlogError
from klogtool.format.checkpoints import build_offset_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import CleanShutdown, build_clean_shutdown
from klogtool.format.names import FileKind, TopicPartition
from klogtool.log.folder import find_partition_dir_name

Checkpoint: TypeAlias = Literal[
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
]


def unclean_stop(draft: Draft, file: str = "") -> None:
    """Delete the clean shutdown marker, if there is one: the broker was killed, and will run recovery."""
    draft.delete(below(file, FileKind.CLEAN_SHUTDOWN.value))


def clean_stop(draft: Draft, file: str = "", *, broker_epoch: int = 1) -> None:
    """Write the clean shutdown marker, whatever the logs are like: the broker will not look at their ends."""
    put(draft, below(file, FileKind.CLEAN_SHUTDOWN.value), build_clean_shutdown(CleanShutdown(0, broker_epoch)))


def forge_checkpoint(draft: Draft, file: str = "", *, checkpoint: Checkpoint, partition: str, offset: int) -> None:
    """Set the offset of a partition in a checkpoint of the log dir; other lines stay. Raises KlogError for no
    name of a partition."""
    name = below(file, checkpoint)
    named = find_partition_dir_name(partition)
    if named is None:
        raise KlogError(f"'{partition}' is not the name of a partition: a topic, a hyphen and a number")
    offsets = parse_offset_checkpoint(draft.read(name)) if name in draft and draft.size(name) else {}
    put(draft, name, build_offset_checkpoint({**offsets, TopicPartition(named.topic, named.partition): offset}))


def drop_checkpoint(draft: Draft, file: str = "", *, checkpoint: Checkpoint) -> None:
    """Delete a checkpoint of the log dir. Raises KlogError if there is none."""
    name = below(file, checkpoint)
    if name not in draft:
        raise wrong(draft, name, "no such file")
    draft.delete(name)


def add_file(draft: Draft, file: str = "", *, name: str, text: str = "") -> None:
    """Create a file that is not Kafka's. name: a path below the folder: `lost+found/x` also creates a folder, with
    which no broker starts. Raises KlogError for any other path, and for a file that exists."""
    if name.startswith("/") or not set(name.split("/")).isdisjoint(("", ".", "..")):
        raise KlogError(f"'{name}' is not a path below a folder")
    path = below(file, name)
    check_new(draft, path)
    put(draft, path, text.encode())
