"""Logs of `__consumer_offsets` made by hand: commits, tombstones, transactions."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Sequence

from coordinator_records import build_coordinator_key, build_version_prefixed
from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)


def commit_key(group: str = "g", topic: str = "t", partition: int = 0, *, legacy: bool = False) -> bytes:
    """The key of a committed offset."""
    name = "LegacyOffsetCommitKey" if legacy else "OffsetCommitKey"
    return build_coordinator_key(name, {"group": group, "topic": topic, "partition": partition})


def commit_value(offset: int, timestamp: int = 0, *, version: int = 3, metadata: str = "", epoch: int = -1) -> bytes:
    """Its value."""
    values: dict[str, object] = {"offset": offset, "metadata": metadata, "commitTimestamp": timestamp}
    if version >= 3:
        values["leaderEpoch"] = epoch
    return build_version_prefixed("OffsetCommitValue", version, values)


Row = tuple[bytes | None, bytes | None, int]  # key, value, timestamp


class OffsetsLog:
    """Batches one after another, each at the next offset."""

    def __init__(self, start: int = 0) -> None:
        self.data, self.next_offset = bytearray(), start

    def add(self, rows: Sequence[Row], *, producer_id: int = -1, codec: str = "none") -> None:
        """Add a batch of records."""
        records = [
            Record(self.next_offset + n, timestamp, key, value, ()) for n, (key, value, timestamp) in enumerate(rows)
        ]
        txn = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        self.data += build_batch(records, codec=codec, **(txn if producer_id >= 0 else {}))  # type: ignore[arg-type]
        self.next_offset += len(records)

    def commit(self, offset: int, timestamp: int, *, producer_id: int = -1, **named: object) -> None:
        """Add a batch with one commit."""
        key = commit_key(**named)  # type: ignore[arg-type]
        self.add([(key, commit_value(offset, timestamp), timestamp)], producer_id=producer_id)

    def delete(self, timestamp: int, **named: object) -> None:
        """Add a tombstone."""
        self.add([(commit_key(**named), None, timestamp)])  # type: ignore[arg-type]

    def end(self, producer_id: int, timestamp: int, *, is_commit: bool = True) -> None:
        """Add a marker."""
        kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
        value = build_end_transaction_marker(EndTransactionMarker(kind, 0))
        record = Record(self.next_offset, timestamp, build_control_key(kind), value, ())
        self.data += build_batch(
            [record], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
        )
        self.next_offset += 1

    def skip(self, count: int = 1) -> None:
        """Leave offsets out, as the cleaner does."""
        self.next_offset += count

    def write(self, log_dir: pathlib.Path, partition: int = 0, base_offset: int = 0) -> pathlib.Path:
        """Write what there is as a segment; the next one begins empty."""
        folder = log_dir / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{base_offset:020}.log"
        path.write_bytes(self.data)
        self.data = bytearray()
        return path


def random_log(seed: int, batches: int = 60) -> bytes:
    """Commits of a few keys by a few producers, in every codec, with tombstones, other records and gaps."""
    rng, log = random.Random(seed), OffsetsLog()
    keys = [commit_key(g, t, p, legacy=legacy) for g in "ab" for t in "xy" for p in (0, 1) for legacy in (True, False)]
    for n in range(batches):
        producer_id = rng.choice((-1, -1, 3, 4, 5))
        if producer_id >= 0 and rng.random() < 0.3:
            log.end(producer_id, n, is_commit=rng.random() < 0.6)
            continue
        rows: list[Row] = []
        for m in range(rng.choice((1, 1, 2, 9))):
            metadata, version = "m" * rng.choice((0, 5, 300)), rng.randrange(5)
            value = commit_value(n * 10 + m, n, version=version, metadata=metadata)
            rows.append((rng.choice(keys), None if rng.random() < 0.2 else value, n + rng.randrange(3)))
            if rng.random() < 0.1:
                rows.append((rng.choice((b"\0\2more", b"", b"\0\1", b"\0\1\0\5ab", None)), b"other", n))
        log.add(rows, producer_id=producer_id, codec=rng.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")))
        if rng.random() < 0.1:
            log.skip(rng.randrange(4))
    return bytes(log.data)
