"""Batches and message sets of every magic, codec and shape, from a seed: by klogtool's builders, and by Kafka's."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from raw_batches import build_batch

from klogtool.format.batch import Header, Record
from klogtool.format.message import build_message_set

from .kafka import Kafka

TIME = 1_700_000_000_000
TIMES = (TIME, TIME, TIME + 1, TIME + 86_400_000, TIME - 5000, 0, -1, 2**40, 2**62)
BYTES = (
    *(
        None,
        b"",
        b"k",
        b"key",
        b"\0",
        b"\xff\xfe",
        b"a\nb\r\nc\td",
        b"|",
        b" ",
        b"  key: payload: ",
        bytes(7),
        b"x" * 63,
        b"x" * 64,
    ),
    *(
        "ä€😀\u2028\u0000".encode(),
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf0\x9f\x98",
        b"\xc3",
        b"\xc0\x80",
        b"\xe2\x82",
        b"\xf5\x80\x80\x80",
    ),
    *(b"y" * 8191, b"z" * 8192, bytes(range(256)), bytes(range(256)) * 17),
)
HEADER_KEYS = ("", "h", "trace-id", "ü,]", "a,b", "\u20ac" * 5, "n\nl", "x" * 130)


@dataclass(frozen=True)
class Shape:
    """A batch as both builders understand it. Sequences and ids are -1 where there are none."""

    magic: int
    codec: str
    records: tuple[Record, ...]
    log_append_time: int | None = None
    last_offset: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    partition_leader_epoch: int = -1
    delete_horizon_ms: int | None = None

    @property
    def base_offset(self) -> int:
        return self.records[0].offset


def by_kafka(kafka: Kafka, shape: Shape) -> bytes:
    """The bytes by MemoryRecordsBuilder."""
    fields = {name: value for name, value in asdict(shape).items() if value is not None and name != "records"}
    records = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [[header.key.decode(), header.value] for header in record.headers],
        }
        for record in shape.records
    ]
    return kafka.build({**fields, "base_offset": shape.base_offset, "records": records})


def by_klogtool(shape: Shape) -> bytes:
    """The bytes by klogtool's own builders."""
    type_name = "CreateTime" if shape.log_append_time is None else "LogAppendTime"
    if shape.magic < 2:
        return build_message_set(
            shape.records,
            magic=shape.magic,
            codec=shape.codec,
            timestamp_type=type_name,
            log_append_time=shape.log_append_time,
        )
    return build_batch(
        shape.records,
        codec=shape.codec,
        last_offset=shape.last_offset,
        timestamp_type=type_name,
        log_append_time=shape.log_append_time,
        delete_horizon_ms=shape.delete_horizon_ms,
        producer_id=shape.producer_id,
        producer_epoch=shape.producer_epoch,
        base_sequence=shape.base_sequence,
        is_transactional=shape.transactional,
        is_control=shape.control,
        partition_leader_epoch=shape.partition_leader_epoch,
    )


# ---------------------------------------------------------------- drawing


def shapes(rng: random.Random, *, magics: Sequence[int] = (0, 1, 2), codecs: Sequence[str]) -> list[Shape]:
    """The batches of one segment, offsets rising; zstd only in magic 2."""
    found: list[Shape] = []
    offset = rng.choice((0, 0, 0, 37, 2**31 - 3, 5_000_000_000))
    for _ in range(rng.randint(1, 8)):
        magic = rng.choice(magics)
        codec = rng.choice([c for c in codecs if magic == 2 or c != "zstd"])
        shape = draw(rng, magic, codec, offset)
        found.append(shape)
        last = shape.records[-1].offset if shape.last_offset is None else shape.last_offset
        offset = last + rng.choice((1, 1, 1, 2, 50))
    return found


def draw(rng: random.Random, magic: int, codec: str, offset: int) -> Shape:
    """One batch that begins at this offset."""
    if magic == 2 and rng.random() < 0.15:
        return _marker(rng, offset)
    records = []
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        headers = ()
        if magic == 2 and rng.random() < 0.3:
            headers = tuple(
                Header(rng.choice(HEADER_KEYS).encode(), rng.choice(BYTES)) for _ in range(rng.randint(1, 4))
            )
        timestamp = -1 if magic == 0 else rng.choice(TIMES)
        records.append(Record(offset, timestamp, rng.choice(BYTES), rng.choice(BYTES), headers))
        offset += rng.choice((1, 1, 1, 1, 3))
    shape = Shape(magic, codec, tuple(records))
    if magic > 0 and rng.random() < 0.3:
        shape = replace(shape, log_append_time=TIME + rng.randrange(1000))
    return _with_producer(rng, shape) if magic == 2 else shape


def _with_producer(rng: random.Random, shape: Shape) -> Shape:
    if rng.random() < 0.5:
        shape = replace(
            shape,
            producer_id=rng.choice((0, 1, 1000, 2**63 - 1)),
            producer_epoch=rng.choice((0, 1, 32767)),
            base_sequence=rng.choice((0, 5, 2**31 - 1, 2**31 - 2)),
            transactional=rng.random() < 0.5,
        )
    if rng.random() < 0.2:
        shape = replace(shape, delete_horizon_ms=rng.choice((0, TIME, TIME + 10**9)))
    if rng.random() < 0.2:
        shape = replace(shape, last_offset=shape.records[-1].offset + rng.choice((1, 7)))
    return replace(shape, partition_leader_epoch=rng.choice((-1, 0, 3, 2**31 - 1)))


def _marker(rng: random.Random, offset: int) -> Shape:
    """A transaction marker, or one of KRaft's control batches."""
    kind = rng.randrange(7)
    uuid = rng.randbytes(16)
    value = (
        struct.pack(">hi", 0, rng.choice((0, 7, -1))),
        struct.pack(">hi", 0, rng.choice((0, 2**31 - 1))),
        struct.pack(">hi", 0, 3) + b"\2\0\0\0\1\0\1\0",
        struct.pack(">hq", 0, TIME) + b"\0",
        struct.pack(">h", 0) + b"\0",
        struct.pack(">hh", 0, 1) + b"\0",
        struct.pack(">hB", 0, 2)
        + struct.pack(">i", 1)
        + uuid
        + b"\2\x05NAME\x04h.x\x23\x85\0"
        + struct.pack(">hh", 0, 1)
        + b"\0\0\0",
    )[kind]
    record = Record(offset, TIME, struct.pack(">hh", 0, kind), value)
    shape = Shape(2, "none", (record,), control=True, partition_leader_epoch=rng.choice((0, 4)))
    return replace(shape, producer_id=9, producer_epoch=1, transactional=True) if kind < 2 else shape
