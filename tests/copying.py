"""Copies of a partition made of the same records, in batches, codecs and segments that chance decides."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from raw_batches import build_batch

from klogtool.format.batch import CODEC_NAMES, Header, Record

Path = pathlib.Path
MOST_IN_A_BATCH = 9


def random_records(rng: random.Random, count: int, start: int = 0) -> list[Record]:
    """Records with offsets that follow each other."""
    return [random_record(rng, start + n) for n in range(count)]


def random_record(rng: random.Random, offset: int) -> Record:
    key = rng.choice([None, b"", rng.randbytes(rng.randrange(1, 20))])
    value = rng.choice([None, b"", rng.randbytes(rng.randrange(1, 200)), b"text " * rng.randrange(50)])
    headers = tuple(Header(rng.randbytes(3), rng.choice([None, b"", b"v"])) for _ in range(rng.choice((0, 0, 1, 3))))
    return Record(offset, rng.randrange(-1, 10**12), key, value, headers)


@dataclass
class Copy:
    """A copy of these records. epochs: (leader epoch, first offset), ascending. codec: None for any."""

    records: Sequence[Record]
    rng: random.Random
    epochs: Sequence[tuple[int, int]] = ((0, 0),)
    codec: str | None = None
    most_in_a_batch: int = MOST_IN_A_BATCH
    fields: dict[str, Any] = field(default_factory=dict)

    def batches(self) -> Iterator[bytes]:
        """The batches; none crosses the start of an epoch."""
        at = 0
        while at < len(self.records):
            epoch, end = self._epoch_at(self.records[at].offset)
            count = self.rng.randint(1, self.most_in_a_batch)
            some = [record for record in self.records[at : at + count] if record.offset < end]
            codec = self.codec or self.rng.choice(CODEC_NAMES)
            yield build_batch(some, codec=codec, partition_leader_epoch=epoch, **self.fields)
            at += len(some)

    def _epoch_at(self, offset: int) -> tuple[int, int]:
        starts = [start for _, start in self.epochs if start > offset]
        return max(epoch for epoch, start in self.epochs if start <= offset), min(starts, default=1 << 62)

    def write(self, partition: Path, most_in_a_segment: int = 8) -> Path:
        """Write the partition dir, with its leader epochs; return it."""
        batches, first = list(self.batches()), True
        while batches or first:
            count = self.rng.randint(1, most_in_a_segment)
            write_copy(partition, batches[:count])
            batches, first = batches[count:], False
        lines = [f"{epoch} {start}\n" for epoch, start in self.epochs]
        (partition / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(lines))
        return partition


def write_copy(partition: Path, batches: Sequence[bytes]) -> Path:
    """Write a segment of these batches into a partition dir; return the dir."""
    partition.mkdir(parents=True, exist_ok=True)
    base = int.from_bytes(batches[0][:8], "big") if batches else 0
    (partition / f"{base:020d}.log").write_bytes(b"".join(batches))
    return partition
