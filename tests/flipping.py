"""Every single bit of a small log dir, flipped one by one: which flips `verify --deep` sees, and which it does not."""

from __future__ import annotations

import functools
import pathlib
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace
from running import FIXTURES
from verifying import run_verify

from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.fields import field_positions
from klogtool.format.identity import parse_clean_shutdown, parse_meta_properties, parse_partition_metadata
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, parse_txn_index
from klogtool.format.layouts import BATCH_HEADER
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.segment import Segment

Path = pathlib.Path
EPOCH_NAME = "partition_leader_epoch"
# Of transactions/logdir one partition stays: of this size all flips can be tried.
LOG_DIRS = {"leader-epochs": "t-0", "transactions": "t-1"}


@dataclass(frozen=True, order=True)
class Flip:
    """A bit of a file. name: the file's, below the log dir."""

    scene: str
    name: str
    position: int
    bit: int

    def __str__(self) -> str:
        return f"{self.scene}/{self.name}:{self.position}.{self.bit}"


def small_log_dir(scene: str, target: Path) -> Path:
    """A sound log dir of one partition."""
    source, partition = FIXTURES / scene / "logdir", LOG_DIRS[scene]
    topic, number = partition.rsplit("-", 1)
    shutil.copytree(source / partition, target / partition)
    for file in (path for path in source.iterdir() if path.is_file()):
        data = file.read_bytes()
        if file.name.endswith("-checkpoint") and data:
            lines = [line for line in data.decode().splitlines()[2:] if line.startswith(f"{topic} {number} ")]
            data = "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()
        (target / file.name).write_bytes(data)
    return target


def files_of(log_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(log_dir)) for path in log_dir.rglob("*") if path.is_file())


def all_flips(scene: str, log_dir: Path) -> Iterator[Flip]:
    for name in files_of(log_dir):
        for position in range((log_dir / name).stat().st_size):
            yield from (Flip(scene, name, position, bit) for bit in range(8))


class Flipped:
    """A log dir, with one bit at a time flipped, and put back."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self._whole = {name: (log_dir / name).read_bytes() for name in files_of(log_dir)}
        self._sound = self._found()

    def data(self, flip: Flip) -> bytes:
        """The file with the bit flipped."""
        data = bytearray(self._whole[flip.name])
        data[flip.position] ^= 1 << flip.bit
        return bytes(data)

    def put(self, flip: Flip) -> None:
        (self.log_dir / flip.name).write_bytes(self.data(flip))

    def put_back(self, flip: Flip) -> None:
        (self.log_dir / flip.name).write_bytes(self._whole[flip.name])

    def is_seen(self, flip: Flip) -> bool:
        """Whether verify finds anything that it does not find in the sound log dir."""
        self.put(flip)
        try:
            return bool(self._found() - self._sound)
        finally:
            self.put_back(flip)

    def _found(self) -> set[tuple[str, str]]:
        findings, _ = run_verify(self.log_dir, deep=True)
        return {(finding.id, finding.path) for finding in findings if finding.severity.value != "info"}


# ---------------------------------------------------------------- what a flip that nobody sees is

# By class, as docs/verify.md has them. Of the harmless ones Kafka's answers stay the same.
HARMLESS = (
    "bytes that mean the same to Kafka",
    "an index entry that still leads to its batch",
    "the version of an aborted transaction",
    "a last stable offset that hides no transaction",
)
UNSEEN = (
    "an id in `meta.properties`",
    "the content of the clean shutdown marker",
    "the topic id of a single partition",
    "a checkpointed offset",
    "a leader epoch in a KRaft snapshot",
)
SAME, INDEX_ENTRY, TXN_VERSION, LAST_STABLE_OFFSET = HARMLESS
IDENTITY, MARKER, TOPIC_ID, OFFSET, SNAPSHOT_EPOCH = UNSEEN


PARSERS: dict[FileKind, Callable[[bytes], object]] = {
    FileKind.META_PROPERTIES: parse_meta_properties,
    FileKind.CLEAN_SHUTDOWN: parse_clean_shutdown,
    FileKind.PARTITION_METADATA: lambda data: parse_partition_metadata(data).topic_id,
    FileKind.LEADER_EPOCH_CHECKPOINT: parse_leader_epoch_checkpoint,
    FileKind.RECOVERY_POINT_CHECKPOINT: parse_offset_checkpoint,
    FileKind.REPLICATION_CHECKPOINT: parse_offset_checkpoint,
    FileKind.LOG_START_CHECKPOINT: parse_offset_checkpoint,
    FileKind.TXN_INDEX: lambda data: [replace(entry, version=0) for entry in parse_txn_index(data)],
}
OF_KIND = {
    FileKind.META_PROPERTIES: IDENTITY,
    FileKind.CLEAN_SHUTDOWN: MARKER,
    FileKind.PARTITION_METADATA: TOPIC_ID,
    FileKind.RECOVERY_POINT_CHECKPOINT: OFFSET,
    FileKind.REPLICATION_CHECKPOINT: OFFSET,
}


def class_of(log_dir: Path, flip: Flip, data: bytes) -> str | None:
    """Which of the classes above a flip belongs to that verify does not see; None: to none. data: with the flip."""
    path = log_dir / flip.name
    kind, before = parse_file_name(path.name).kind, path.read_bytes()
    parse = PARSERS.get(kind)
    if parse is not None and parse(before) == parse(data):
        return TXN_VERSION if kind is FileKind.TXN_INDEX else SAME
    if kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        return INDEX_ENTRY if leads_to_the_same_batches(path, before, data) else None
    if kind is FileKind.TXN_INDEX:
        return LAST_STABLE_OFFSET if overlooks_nothing(before, data) else None
    if kind is FileKind.BOOTSTRAP_SNAPSHOT:
        return SNAPSHOT_EPOCH if field_of(path, flip.position) == EPOCH_NAME else None
    return OF_KIND.get(kind)


@functools.cache
def spans_of(log: Path) -> list[tuple[int, int]]:
    return [(batch.position, batch.position + batch.size) for batch in Segment(str(log)).batches()]


def field_of(log: Path, position: int) -> str:
    """The field of a batch's header that a byte lies in; `records` behind it."""
    start = next(start for start, end in spans_of(log) if position < end)
    fields = ((name, start + at, kind.sizeof()) for name, at, kind in field_positions(BATCH_HEADER))
    return next((name for name, at, size in fields if at <= position < at + size), "records")


def leads_to_the_same_batches(index: Path, before: bytes, after: bytes) -> bool:
    """Whether a reader that goes by the flipped index comes to the batch that it looks for.

    An entry of an offset index may have a higher offset than its batch: who looks for that goes on from there. One of a
    time index has to name the batch of its timestamp, at any of its offsets.
    """
    base = int(index.name.split(".")[0])
    batches = list(Segment(str(index.with_suffix(".log"))).batches())
    if index.suffix == ".index":
        old, new = OFFSET_ENTRIES.parse(before, base), OFFSET_ENTRIES.parse(after, base)
        passed = [max((b.last_offset for b in batches if b.position < e.position), default=-1) for e in old]
        same = [entry.position for entry in old] == [entry.position for entry in new]
        return same and all(entry.offset > last for entry, last in zip(new, passed, strict=True))
    held = [range(batch.base_offset, batch.last_offset + 1) for batch in batches]
    times = [TIME_ENTRIES.parse(data, base) for data in (before, after)]
    ours, theirs = ([(e.timestamp, next((r for r in held if e.offset in r), None)) for e in found] for found in times)
    return ours == theirs


def overlooks_nothing(before: bytes, after: bytes) -> bool:
    """Whether no reader stops at an entry, by its last stable offset, in front of one that concerns it."""
    old, new = parse_txn_index(before), parse_txn_index(after)
    if [replace(entry, last_stable_offset=0) for entry in old] != [
        replace(entry, last_stable_offset=0) for entry in new
    ]:
        return False
    return all(later.first_offset >= entry.last_stable_offset for n, entry in enumerate(new) for later in new[n + 1 :])


def some_flips(scene: str, log_dir: Path, count: int, rng: random.Random) -> list[Flip]:
    """About so many, spread over all files and all fields of batch headers."""
    strata: dict[tuple[str, str], list[Flip]] = defaultdict(list)
    for flip in all_flips(scene, log_dir):
        is_log = flip.name.endswith(".log")
        strata[flip.name, field_of(log_dir / flip.name, flip.position) if is_log else ""].append(flip)
    of_each = max(1, count // len(strata))
    return sorted(flip for flips in strata.values() for flip in rng.sample(flips, min(of_each, len(flips))))
