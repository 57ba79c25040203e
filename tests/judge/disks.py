"""What a fault may lay hands on: two log dirs, the older states of them, and the dice."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .bases import LOG_DIRS, MANY, MANY_COMPACTED

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
MARKER = ".kafka_cleanshutdown"
METADATA = "__cluster_metadata-0"
PARTITION = re.compile(r"[\w.]+-\d+")
# topic-partition -> offset
Lines: TypeAlias = dict[str, int]


@dataclass(frozen=True)
class Disks:
    """rng: decides everything. older: earlier copies of the same log dirs. only: the one partition dir that faults may
    touch (else any), and as: the name that the older states have it under."""

    rng: random.Random
    root: Path
    older: Sequence[Path]
    only: Path | None = None
    known_as: str = ""

    @property
    def log_dirs(self) -> list[Path]:
        return [self.root / name for name in LOG_DIRS]

    def partitions(self) -> list[Path]:
        return [self.only] if self.only else partitions_of(self.root)

    def partition(self) -> Path:
        return self.rng.choice(self.partitions())

    def files(self, *endings: str) -> list[Path]:
        """Files of the partitions that are not empty, with such names."""
        found = [path for partition in self.partitions() for path in sorted(partition.iterdir()) if path.is_file()]
        return [path for path in found if path.stat().st_size and (not endings or path.name.endswith(endings))]

    def log(self) -> Path:
        return self.rng.choice(self.files(".log"))

    def side_file(self, *, with_id: bool = True) -> Path:
        others = [path for path in self.files() if path.suffix != ".log"]
        return self.rng.choice([path for path in others if with_id or path.name != "partition.metadata"])

    def log_dir(self) -> Path:
        return self.rng.choice(self.log_dirs)

    def other_log_dir(self, log_dir: Path) -> Path:
        return next(other for other in self.log_dirs if other != log_dir)

    def older_copy(self, partition: Path) -> Path:
        """The same partition in an older state; IndexError where there is none."""
        name = self.known_as or partition.name
        copies = [state / log_dir / name for state in self.older for log_dir in LOG_DIRS]
        return self.rng.choice([copy for copy in copies if copy.is_dir()])

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))


# What was done, or None where it did not apply. LookupError, ValueError and OSError say that it did not, too.
Fault: TypeAlias = Callable[[Disks], str | None]


def partitions_of(root: Path) -> list[Path]:
    """Partition dirs of both log dirs, without the metadata and those that only a case of many partitions fills."""
    found = [path for name in LOG_DIRS for path in sorted((root / name).iterdir()) if path.is_dir()]
    return [
        path
        for path in found
        if PARTITION.fullmatch(path.name)
        and path.name != METADATA
        and path.name.rsplit("-", 1)[0] not in (MANY, MANY_COMPACTED)
    ]


def segment_files(log: Path) -> list[Path]:
    """The .log and the side files of the same base offset."""
    return sorted(path for path in log.parent.iterdir() if path.name.startswith(log.name[:20]) and path.is_file())


def read_lines(checkpoint: Path) -> Lines:
    """The entries of an offset checkpoint; none where there is no such file."""
    if not checkpoint.is_file():
        return {}
    rows = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
    return {f"{row[0]}-{row[1]}": int(row[2]) for row in rows if len(row) == 3}


def write_lines(checkpoint: Path, lines: Lines) -> None:
    """The checkpoint with these entries and no others."""
    rows = [" ".join([*partition.rsplit("-", 1), str(offset)]) for partition, offset in lines.items()]
    checkpoint.write_text("".join(f"{line}\n" for line in ["0", str(len(rows)), *rows]))


def damage(disks: Disks, menu: Sequence[tuple[Fault, float]], times: Iterable[int]) -> list[str]:
    """Draw so many faults and do them; what was done. Each has dice of its own, so one can be left out of a story."""
    told = []
    for _ in times:
        (fault,) = disks.rng.choices([fault for fault, _ in menu], [weight for _, weight in menu])
        own = Disks(random.Random(disks.rng.getrandbits(64)), disks.root, disks.older, disks.only, disks.known_as)
        try:
            done = fault(own)
        except (LookupError, ValueError, OSError):
            continue
        if done:
            told.append(done)
    return told
