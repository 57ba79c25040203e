"""Random logs for recovery: all that batches do to indexes, epochs and producers, mostly orderly, some of it not."""

from __future__ import annotations

import random
from collections.abc import Iterator

from klogtool.format.batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Record,
    build_raw_batch,
    build_record,
)
from klogtool.format.message import build_message, build_message_set

BASE_OFFSET = 1000
TIMESTAMP = 1_700_000_000_000
LARGEST_BODY = 300
# Data outside of a transaction, from a producer that has one open, fails a load.
PRODUCERS_OF = {
    "plain": (-1,),
    "idempotent": (0, 4000, 2**62),
    "txn": (1, 2, 3, 7),
    "marker": (1, 2, 3, 7, 1, 2, 3, 0),
    "emptied": (1, 2, 3, 7, 9, 5000, 2**61),
}
PRODUCERS = (0, 1, 2, 3, 7, 4000, 2**62)


KINDS = (("plain",), ("idempotent",), ("txn", "marker"), ("plain", "idempotent", "txn", "marker"))
PRODUCER_EPOCHS = (0, 0, 0, 1)


def recovery_log(
    rng: random.Random,
    batches: int,
    kinds_of: tuple[tuple[str, ...], ...] = KINDS,
    producer_epochs: tuple[int, ...] = PRODUCER_EPOCHS,
) -> bytes:
    """A log of so many batches from BASE_OFFSET on. kinds_of: one of these has the kinds that occur; "emptied": markers
    of which compaction has left the header."""
    return b"".join(_walk(rng, batches, rng.choice(kinds_of), producer_epochs))


def _walk(
    rng: random.Random, batches: int, kinds: tuple[str, ...], producer_epochs: tuple[int, ...]
) -> Iterator[bytes]:
    offset, timestamp, epoch = BASE_OFFSET, TIMESTAMP, rng.choice((-1, 0, 3))
    magics = rng.choice(((2,), (2,), (2,), (0, 1, 2), (1,)))
    odds = rng.choice((0, 0, 0.003, 0.1))
    for _ in range(batches):
        timestamp += rng.choice((0, 1, 1, 5, -3, 0))
        epoch += rng.random() < 0.02
        count = rng.choice((1, 1, 1, 2, 5))
        producer_epoch, odd = rng.choice(producer_epochs), rng.random() < odds
        made = _entry(rng, rng.choice(magics), rng.choice(kinds), offset, count, timestamp, epoch, producer_epoch, odd)
        offset += count + (rng.random() < 0.02) * rng.randrange(1000)
        yield made


def _entry(
    rng: random.Random,
    magic: int,
    kind: str,
    offset: int,
    count: int,
    timestamp: int,
    epoch: int,
    producer_epoch: int,
    odd: bool,
) -> bytes:
    if magic < 2:
        return _message(rng, magic, offset, count, timestamp)
    is_marker, is_empty = kind in ("marker", "emptied"), kind == "emptied"
    fields = {
        "base_offset": offset,
        "last_offset_delta": 0 if is_marker else count - 1,
        "attributes": (TRANSACTIONAL_BIT | CONTROL_BIT if is_marker else TRANSACTIONAL_BIT if kind == "txn" else 0)
        | rng.choice((0, 0, TIMESTAMP_TYPE_BIT)),
        "base_timestamp": timestamp,
        "max_timestamp": timestamp + rng.choice((0, 0, 4)),
        "producer_id": rng.choice(PRODUCERS_OF[kind]),
        "producer_epoch": producer_epoch,
        "base_sequence": -1 if is_marker or kind == "plain" else rng.choice((0, 5, 2**31 - 2, rng.randrange(2**31))),
        "records_count": 0 if is_empty else 1,
        "partition_leader_epoch": epoch,
    }
    body = b"" if is_empty else _marker_body(rng, odd) if is_marker else bytes(rng.randrange(LARGEST_BODY))
    if odd:
        name = rng.choice(list(fields))
        fields[name] = rng.choice(ODD_VALUES[name])
    return build_raw_batch(body, **fields)


ODD_VALUES: dict[str, tuple[int, ...]] = {
    "base_offset": (-1, 0, BASE_OFFSET, BASE_OFFSET + 2**31, 2**63 - 1),
    "last_offset_delta": (-1, -5, 2**31 - 1, -(2**31)),
    "attributes": (0, 7, TRANSACTIONAL_BIT, CONTROL_BIT, CONTROL_BIT | 4, 0x7FFF, -1),
    "base_timestamp": (-1, 2**63 - 1, -(2**63)),
    "max_timestamp": (-1, 0, 2**63 - 1, -(2**63), TIMESTAMP + 10**6),
    "producer_id": (-1, -2, 0, 7, -(2**63), 2**63 - 1),
    "producer_epoch": (-1, 2**15 - 1, -(2**15)),
    "base_sequence": (-1, -2, 2**31 - 1, -(2**31)),
    "records_count": (0, -1, 2, 2**31 - 1),
    "partition_leader_epoch": (-1, 0, 2**31 - 1, -(2**31)),
}


def _marker_body(rng: random.Random, odd: bool) -> bytes:
    version = rng.choice((0, 1, -1)) if odd else 0
    kind = rng.choice((0, 1, 2, 7)) if odd else rng.choice((0, 1, 1))
    key = version.to_bytes(2, "big", signed=True) + kind.to_bytes(2, "big")
    value = version.to_bytes(2, "big", signed=True) + rng.randrange(9).to_bytes(4, "big")
    cut = rng.choice((0, 1, 6)) if odd else 0
    record = Record(0, rng.choice((0, 3)), key, rng.choice((None, value[cut:])) if odd else value)
    return build_record(record, base_offset=0, base_timestamp=0) + (b"x" if odd and rng.random() < 0.2 else b"")


def _message(rng: random.Random, magic: int, offset: int, count: int, timestamp: int) -> bytes:
    times = timestamp if magic else -1
    if count == 1:
        return build_message(offset, b"k", bytes(rng.randrange(LARGEST_BODY)), magic=magic, timestamp=times)
    records = [Record(offset + n, times, None, b"v" * n) for n in range(count)]
    return build_message_set(records, magic=magic, codec=rng.choice(("gzip", "lz4", "none")))


def wounded(rng: random.Random, log: bytes) -> bytes:
    """The log as it is, or cut, or with a bit, a few bytes or a whole stretch of it another one."""
    data, at = bytearray(log), rng.randrange(len(log) or 1)
    kind = rng.choice(("whole", "whole", "cut", "flip", "bytes", "zeros", "tail"))
    if kind == "cut":
        del data[at:]
    elif kind == "flip" and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "bytes":
        data[at : at + 8] = rng.randbytes(8)
    elif kind == "zeros":
        data[at:] = bytes(len(data) - at)
    elif kind == "tail":
        data += bytes(rng.choice((1, 17, 18, 1000)))
    return bytes(data)
