"""Fleets as text: what each broker has, made as log dirs of real batches. Each batch has one record.

# a story, which nobody reads but people
metadata t-0 replicas 1 2 3 isr 1 2 leader 1        what __cluster_metadata says; it is put into every broker's file
broker 1 clean                                      clean: it stopped in order
  t-0 epochs 0:0 2:40 end 60 start 5 holes 45-50    a copy: leader epochs by the batches, offsets, damaged offsets
      checkpoint 0:0 2:40 | none                    leader-epoch-checkpoint; default: as the batches
      state stray  disk d2  id B  hw 30             default: current, d1, the id of the topic, no high watermark
"""

from __future__ import annotations

import os
import pathlib
import zlib
from dataclasses import dataclass, field

from msgspec.structs import replace
from raw_batches import raw_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.fleet.collected import Collected, MetadataFacts, PartitionFacts
from klogtool.fleet.collecting import Collecting, collect
from klogtool.format.batch import Record, build_record
from klogtool.format.checkpoints import EpochEntry, build_leader_epoch_checkpoint, build_offset_checkpoint
from klogtool.format.identity import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    build_clean_shutdown,
    build_meta_properties,
    build_partition_metadata,
)
from klogtool.format.names import TopicPartition
from klogtool.format.uuids import build_uuid

FIRST_MS = 1_700_000_000_000
UNIQUE = "0123456789abcdef0123456789abcdef"


@dataclass
class CopyLine:
    """A copy of a partition: see above."""

    topic: str
    partition: int
    epochs: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    start: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)
    checkpoint: list[tuple[int, int]] | None = None
    has_checkpoint: bool = True
    state: str = "current"
    disk: str = "d1"
    id: str = "A"
    hw: int | None = None

    @property
    def folder(self) -> str:
        name = f"{self.topic}-{self.partition}"
        return name if self.state == "current" else f"{name}.{UNIQUE}-{self.state}"


@dataclass
class BrokerLines:
    """A broker and its copies."""

    node_id: int
    is_clean: bool = False
    copies: list[CopyLine] = field(default_factory=list)
    disks: set[str] = field(default_factory=lambda: {"d1"})


@dataclass
class Fleet:
    """All brokers, and what the metadata says."""

    brokers: list[BrokerLines] = field(default_factory=list)
    known: list[PartitionFacts] = field(default_factory=list)
    features: dict[str, int] = field(default_factory=dict)


def topic_id_of(topic: str, letter: str = "A") -> bytes:
    """The id of a topic: letter A is that of the metadata."""
    return bytes([ord(letter)]) * 12 + zlib.crc32(topic.encode()).to_bytes(4, "big")


def parse_fleet(text: str) -> Fleet:
    """The fleet that a text describes."""
    fleet = Fleet()
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "broker":
            fleet.brokers.append(BrokerLines(int(words[1]), "clean" in words))
        elif words[0] == "metadata":
            fleet.known.append(_known(words[1:]))
        elif words[0] == "features":
            fleet.features = {name: int(level) for name, _, level in (word.partition("=") for word in words[1:])}
        elif words[0] == "disk":
            fleet.brokers[-1].disks.add(words[1])
        else:
            copy = _copy(words)
            fleet.brokers[-1].copies.append(copy)
            fleet.brokers[-1].disks.add(copy.disk)
    return fleet


def _sections(words: list[str], names: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word in names:
            name = word
            found[name] = []
        else:
            found[name].append(word)
    return found


def _named(word: str) -> tuple[str, int]:
    topic, _, number = word.rpartition("-")
    return topic, int(number)


def _known(words: list[str]) -> PartitionFacts:
    topic, partition = _named(words[0])
    told = _sections(words[1:], ("replicas", "isr", "elr", "leader"))
    lists = {name: tuple(map(int, told.get(name, []))) for name in ("replicas", "isr", "elr")}
    leader = int(told.get("leader", ["-1"])[0])
    return PartitionFacts(topic, build_uuid(topic_id_of(topic)), partition, **lists, leader=leader, leader_epoch=9)


def _copy(words: list[str]) -> CopyLine:
    told = _sections(words[1:], ("epochs", "end", "start", "holes", "checkpoint", "state", "disk", "id", "hw"))
    copy = CopyLine(
        *_named(words[0]), epochs=_pairs(told.get("epochs", []), ":"), holes=_pairs(told.get("holes", []), "-")
    )
    if "checkpoint" in told:
        copy.has_checkpoint = told["checkpoint"] != ["none"]
        copy.checkpoint = _pairs(told["checkpoint"], ":") if copy.has_checkpoint else None
    for name in ("end", "start", "hw"):
        if name in told:
            setattr(copy, name, int(told[name][0]))
    for name in ("state", "disk", "id"):
        if name in told:
            setattr(copy, name, told[name][0])
    return copy


def _pairs(words: list[str], sign: str) -> list[tuple[int, int]]:
    return [(int(one), int(other)) for one, _, other in (word.partition(sign) for word in words)]


# As log dirs.


def batch_of(topic: str, offset: int, epoch: int) -> bytes:
    """The batch of one record that the leader of this epoch wrote at this offset."""
    time = FIRST_MS + offset
    body = build_record(
        Record(offset, time, b"%d" % offset, f"{topic} {offset} of {epoch}".encode()),
        base_offset=offset,
        base_timestamp=time,
    )
    return raw_batch(body, base_offset=offset, base_timestamp=time, max_timestamp=time, partition_leader_epoch=epoch)


def make_broker(broker: BrokerLines, root: pathlib.Path, cluster_id: str = "fleet") -> list[pathlib.Path]:
    """The log dirs of a broker; returns their paths."""
    log_dirs = []
    for n, disk in enumerate(sorted(broker.disks)):
        log_dir = root / f"b{broker.node_id}" / disk
        log_dir.mkdir(parents=True)
        identity = MetaProperties(1, cluster_id, broker.node_id, bytes([broker.node_id, n + 1]) * 8)
        (log_dir / "meta.properties").write_bytes(build_meta_properties(identity))
        copies = [copy for copy in broker.copies if copy.disk == disk]
        for copy in copies:
            make_copy(copy, log_dir)
        _make_checkpoints(log_dir, copies, is_clean=broker.is_clean)
        log_dirs.append(log_dir)
    return log_dirs


def make_copy(copy: CopyLine, log_dir: pathlib.Path) -> pathlib.Path:
    """The partition dir of a copy."""
    folder = log_dir / copy.folder
    folder.mkdir()
    hurt = {offset for first, last in copy.holes for offset in range(first, last + 1)}
    with (folder / f"{copy.start:020d}.log").open("wb") as log:
        for offset in range(copy.start, copy.end):
            epoch = max((e for e, start in copy.epochs if start <= offset), default=0)
            batch = bytearray(batch_of(copy.topic, offset, epoch))
            if offset in hurt:
                batch[-1] ^= 1
            log.write(batch)
    (folder / f"{copy.start:020d}.index").touch()
    (folder / f"{copy.start:020d}.timeindex").touch()
    topic_id = topic_id_of(copy.topic, copy.id)
    (folder / "partition.metadata").write_bytes(build_partition_metadata(PartitionMetadata(0, topic_id)))
    if copy.has_checkpoint:
        own = [(epoch, max(start, copy.start)) for epoch, start in copy.epochs]
        entries = [EpochEntry(epoch, start) for epoch, start in (own if copy.checkpoint is None else copy.checkpoint)]
        (folder / "leader-epoch-checkpoint").write_bytes(build_leader_epoch_checkpoint(entries))
    return folder


def _make_checkpoints(log_dir: pathlib.Path, copies: list[CopyLine], *, is_clean: bool) -> None:
    held = [copy for copy in copies if copy.state == "current"]
    keys = {TopicPartition(copy.topic, copy.partition): copy for copy in held}
    high = {key: copy.hw for key, copy in keys.items() if copy.hw is not None}
    (log_dir / "replication-offset-checkpoint").write_bytes(build_offset_checkpoint(high))
    recovered = {key: copy.end for key, copy in keys.items()} if is_clean else {}
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(build_offset_checkpoint(recovered))
    (log_dir / "log-start-offset-checkpoint").write_bytes(build_offset_checkpoint({}))
    if is_clean:
        (log_dir / ".kafka_cleanshutdown").write_bytes(build_clean_shutdown(CleanShutdown(0, 5)))


def collect_broker(log_dirs: list[pathlib.Path], fleet: Fleet) -> Collected:
    """What `fleet collect` finds, with the metadata that the fleet has by its text."""
    found = collect(list(map(str, log_dirs)), Collecting(Circumstances(now_ms=FIRST_MS), 1))
    if not fleet.known:
        return found
    metadata = MetadataFacts(str(log_dirs[0]), 100, fleet.features)
    return replace(
        found, broker=replace(found.broker, metadata=metadata), partitions=tuple(fleet.known), path=f"b{os.getpid()}"
    )


def make_fleet(text: str, root: pathlib.Path) -> tuple[Fleet, dict[int, list[pathlib.Path]]]:
    """The log dirs of all brokers of a text, by node id."""
    fleet = parse_fleet(text)
    return fleet, {broker.node_id: make_broker(broker, root) for broker in fleet.brokers}
