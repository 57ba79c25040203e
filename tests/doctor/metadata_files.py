"""Things that are no files, in place of the files of a metadata log dir, and what a broker 4.3.1 did at each.

The log dirs are those of `broker`: one node that is controller and broker, and whose metadata log has offsets 0 to 61
and a snapshot that ends at 49. What is named in neither table ends the start, or it never comes up.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
from collections.abc import Callable

CM = "d0/__cluster_metadata-0"
LOG, INDEX, TIME_INDEX = (f"{CM}/{0:020d}.{suffix}" for suffix in ("log", "index", "timeindex"))
SNAPSHOT, CHECKPOINT = f"{CM}/{62:020d}.snapshot", f"{CM}/{49:020d}-{1:010d}.checkpoint"
EPOCHS, TOPIC_ID, STATE = (f"{CM}/{name}" for name in ("leader-epoch-checkpoint", "partition.metadata", "quorum-state"))
NEW_EPOCHS, BOOTSTRAP = f"{EPOCHS}.tmp", "d0/bootstrap.checkpoint"
NAMES = (LOG, INDEX, TIME_INDEX, SNAPSHOT, CHECKPOINT, EPOCHS, TOPIC_ID, STATE, NEW_EPOCHS, BOOTSTRAP)
KINDS: dict[str, Callable[[pathlib.Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
    "a folder": os.mkdir,
    "/dev/null": lambda path: path.symlink_to("/dev/null"),
    "a link to no folder": lambda path: path.symlink_to("/nowhere/at/all"),
    "a link to no file": lambda path: path.symlink_to("not-here"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}
# Kafka makes it anew, through the link or in its place; /dev/null has no epochs.
STARTS = {
    *(
        (name, "a link to no file")
        for name in (INDEX, TIME_INDEX, SNAPSHOT, CHECKPOINT, TOPIC_ID, STATE, NEW_EPOCHS, BOOTSTRAP)
    ),
    *((name, "a link to no folder") for name in (CHECKPOINT, TOPIC_ID, STATE, BOOTSTRAP)),
    *((name, "a link to itself") for name in (TOPIC_ID, STATE, BOOTSTRAP)),
    (EPOCHS, "/dev/null"),
}
# It starts with the snapshot alone: the log is not there, or recovery cannot write the producer snapshot.
CUT = {
    *((LOG, kind) for kind in ("/dev/null", "a link to no file")),
    *((SNAPSHOT, kind) for kind in KINDS if kind not in ("a FIFO", "a link to no file")),
}
CASES = [(name, kind) for name in NAMES for kind in KINDS]


def put(disks: pathlib.Path, name: str, kind: str) -> None:
    """What is no file, in place of what has the name."""
    path = disks / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    KINDS[kind](path)
