"""What the broker of these tests serves: fixtures that real brokers wrote, and logs of every odd record there is."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from raw_batches import build_batch
from running import FIXTURES
from verifying import marker

from klogtool.format.batch import LOG_APPEND_TIME, Header, Record
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import TopicPartition

START_MS = 1_700_000_000_000
STEP_MS = 10
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MADE_PARTITIONS = 3
FIRST_OFFSETS = (0, 0, 1000)
BATCHES = 60
BATCHES_A_SEGMENT = 14

# topic -> the fixture it comes from, and the topic's name there
TOPICS = {
    "txns": ("transactions/logdir", "t"),
    "input": ("transactions/logdir", "input"),
    "codecs": ("every-codec/logdir", "create"),
    "codecs-append": ("every-codec/logdir", "append"),
    "numbers": ("every-codec/logdir", "numbers"),
    "magic-0": ("magic-0/logdir", "create"),
    "magic-1": ("magic-1/logdir", "create"),
    "magic-1-append": ("magic-1/logdir", "append"),
    "magics": ("three-magics/logdir", "plain"),
    "magics-packed": ("three-magics/logdir", "packed"),
    "compacted": ("compacted/result-2", "keep"),
    "compacted-deleted": ("compacted/result-2", "gone"),
    "epochs": ("leader-epochs/logdir", "t"),
    "inside": ("retention/logdir", "inside"),
    "start": ("retention/logdir", "start"),
    "killed": ("killed-mid-append/after", "torn-tail"),
}


@dataclass(frozen=True)
class Planted:
    """A partition that is to be served. log_start: below it nobody reads; None where the first segment says it."""

    topic: str
    partition: int
    folder: pathlib.Path
    log_start: int | None = None


def planted(work: pathlib.Path) -> list[Planted]:
    """All partitions; those that come from no fixture are made under `work`."""
    made = [Planted("made", n, make_log(work / f"made-{n}", n)) for n in range(MADE_PARTITIONS)]
    return made + [found for topic, (folder, name) in TOPICS.items() for found in _of_fixture(topic, folder, name)]


def _of_fixture(topic: str, folder: str, name: str) -> Iterator[Planted]:
    log_dir = FIXTURES / folder
    checkpoint = log_dir / "log-start-offset-checkpoint"
    starts = parse_offset_checkpoint(checkpoint.read_bytes()) if checkpoint.exists() else {}
    folders = sorted(log_dir.glob(f"{name}-[0-9]"))
    assert folders, f"{folder} has no {name}"
    for partition, found in enumerate(folders):
        assert found.name == f"{name}-{partition}"
        yield Planted(topic, partition, found, starts.get(TopicPartition(name, partition)))


def make_log(folder: pathlib.Path, seed: int) -> pathlib.Path:
    """A partition dir without indexes: transactions that mix, gaps, every codec, times that go back, odd records."""
    folder.mkdir(parents=True)
    batches = list(_Maker(random.Random(seed), FIRST_OFFSETS[seed]).batches())
    for at in range(0, len(batches), BATCHES_A_SEGMENT):
        some = batches[at : at + BATCHES_A_SEGMENT]
        (folder / f"{some[0][0]:020d}.log").write_bytes(b"".join(data for _, data in some))
    return folder


@dataclass
class _Maker:
    """Makes one batch after the other."""

    rng: random.Random
    offset: int
    open_txns: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """(base offset, bytes). The last transaction stays open, so that committed data end before the log does."""
        for n in range(BATCHES):
            if self.open_txns and n < BATCHES - 5 and self.rng.random() < 0.3:
                producer = self.rng.choice(sorted(self.open_txns))
                self.open_txns.discard(producer)
                yield self.offset, marker(self.offset, producer, self.rng.choice(("abort", "commit")))
                self.offset += 1
            else:
                yield self._data(self.rng.choice((0, 0, 1, 2, 3)))

    def _data(self, producer: int) -> tuple[int, bytes]:
        rng = self.rng
        # What compaction took away. Not where a transaction begins: if it stays open, Spark waits there for ever.
        if not producer or producer in self.open_txns:
            self.offset += rng.choice((0, 0, 0, 1, 7))
        base = self.offset
        offsets = sorted(rng.sample(range(base, base + 25), rng.randint(1, 18)))
        self.offset = base + 25
        records = [self._record(offset) for offset in offsets]
        told = {"codec": rng.choice(CODECS), "partition_leader_epoch": 0, "base_offset": base, "last_offset": base + 24}
        if rng.random() < 0.2:
            told |= {"timestamp_type": LOG_APPEND_TIME, "log_append_time": START_MS + base * STEP_MS}
        if producer:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + 25
            self.open_txns.add(producer)
            told |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        return base, build_batch(records, **told)

    def _record(self, offset: int) -> Record:
        rng = self.rng
        timestamp = -1 if rng.random() < 0.02 else START_MS + offset * STEP_MS + rng.randint(-400, 400)
        return Record(offset, timestamp, self._bytes(20), self._bytes(300), tuple(self._headers()))

    def _bytes(self, most: int) -> bytes | None:
        kind = self.rng.random()
        return None if kind < 0.15 else b"" if kind < 0.25 else self.rng.randbytes(self.rng.randint(1, most))

    def _headers(self) -> Iterator[Header]:
        for _ in range(self.rng.choice((0, 0, 0, 1, 2, 3))):
            yield Header(self.rng.choice(("", "a", "a", "größe", "b")).encode(), self._bytes(10))
