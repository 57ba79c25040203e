"""What the tests of bad input share: copies of fixtures, the files that are spoilt, and what comes into them."""

from __future__ import annotations

import pathlib
import random
import shutil

from running import FIXTURES

MEMORY_BYTES = 1 << 30  # all that a process has that is asked about bad input
FILES_OF_A_PARTITION = [  # of transactions/logdir/t-0, one of each kind
    f"{7:020d}.log",
    f"{38:020d}.log",
    f"{7:020d}.index",
    f"{38:020d}.timeindex",
    f"{7:020d}.txnindex",
    f"{62:020d}.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
]
SIZE_OF_WHAT_IS_NOT_THERE = 100


def writable_copy(fixture: str, to: pathlib.Path) -> pathlib.Path:
    """A folder of the fixtures, to be changed at will."""
    shutil.copytree(FIXTURES / fixture, to)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return to


def garbage_for(path: pathlib.Path) -> list[bytes]:
    """What may stand in the place of a file: nothing, bytes of one kind, chance."""
    size = path.stat().st_size if path.exists() else SIZE_OF_WHAT_IS_NOT_THERE
    return [b"", b"\xff" * size, bytes(size), random.Random(path.name).randbytes(size + 7)]
