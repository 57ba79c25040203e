"""Records made by a seed: keys out of a number of keys, values of letters and digits.

The seed alone decides (Mersenne Twister, whose numbers are the same in every Python). No object stays for a record.
"""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Iterator
from functools import partial
from itertools import accumulate

from klogtool import kernels
from klogtool.building.entries import Course, take_producer
from klogtool.building.spec import Generated
from klogtool.errors import KlogError
from klogtool.format.batch import CODEC_NAMES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL_BIT
from klogtool.format.batch_encoding import BatchForm, BytesColumn, RecordColumns
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.java_numbers import MAX_LONG

CHUNK_BYTES = 4 << 20  # about so many bytes of records are made at a time
MOST_CHUNK_RECORDS = 1 << 16
RECORD_BYTES = 40  # of a record beside its value, about
MOST_VALUE_BYTES = 16 << 20
_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_LETTERS = bytes(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[n & 63] for n in range(256))
_KEY_DIGITS = 6


def value_sizes(generated: Generated) -> tuple[int, int]:
    """Return the smallest and the largest size of a value. Raises KlogError for what is neither a size nor a range."""
    sizes = _RANGE.fullmatch(generated.value_bytes) if isinstance(generated.value_bytes, str) else None
    least, most = map(int, sizes.groups()) if sizes else (generated.value_bytes, generated.value_bytes)
    if not (isinstance(least, int) and isinstance(most, int) and 0 <= least <= most <= MOST_VALUE_BYTES):
        raise KlogError(f"value_bytes is a size or a range like 100..200, up to {MOST_VALUE_BYTES}")
    return least, most


def walk_batches(generated: Generated, course: Course, batch_bytes: int) -> Iterator[bytes]:
    """Yield the batches, many at a time; each has at most `batch_bytes`, before compression.

    Raises KlogError for what cannot be.
    """
    if generated.transactional and generated.producer is None:
        raise KlogError("transactional records have a producer")
    if generated.epoch is not None and generated.producer is None:
        raise KlogError("epoch goes with producer")
    if course.magic != CURRENT_MAGIC:
        raise KlogError(f"records of magic {course.magic} are not generated: list them")
    if course.next_offset + generated.records > MAX_LONG:
        raise KlogError("more records than offsets")
    random_numbers = random.Random(generated.seed)
    per_chunk = _chunk_records(generated, batch_bytes)
    for done in range(0, generated.records, per_chunk):
        count = min(per_chunk, generated.records - done)
        first, start_ms = course.next_offset, course.now_ms
        course.now_ms, course.next_offset = min(start_ms + count * course.step_ms, MAX_LONG), first + count
        columns = RecordColumns(
            array("q", range(first, first + count)),
            _times(start_ms, course.step_ms, count),
            _keys(generated.keys, count, random_numbers),
            _values(generated, count, random_numbers),
        )
        yield _encoded(columns, generated, _form(generated, count, course, batch_bytes))


def _chunk_records(generated: Generated, batch_bytes: int) -> int:
    """Return how many records are made at a time: whole batches, where their number of records is what ends them."""
    largest = value_sizes(generated)[1] + RECORD_BYTES
    wanted = min(MOST_CHUNK_RECORDS, max(1, max(CHUNK_BYTES, batch_bytes) // largest))
    return wanted - wanted % generated.batch_records or wanted


def _encoded(columns: RecordColumns, generated: Generated, form: BatchForm) -> bytes:
    compress = None if generated.codec == "none" else partial(kernels.compress, generated.codec, magic=CURRENT_MAGIC)
    return kernels.native.encode_batches(columns, 0, columns.rows, form, compress)


def _form(generated: Generated, count: int, course: Course, batch_bytes: int) -> BatchForm:
    producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
    if generated.producer is not None:
        producer = take_producer(course, generated.producer, generated.epoch, None, count)
    return BatchForm(
        batch_bytes=batch_bytes,
        batch_records=generated.batch_records,
        attributes=CODEC_NAMES.index(generated.codec) | (TRANSACTIONAL_BIT if generated.transactional else 0),
        partition_leader_epoch=course.take_leader_epoch(generated.leader_epoch),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


def _times(start_ms: int, step_ms: int, count: int) -> array[int]:
    stop_ms = start_ms + count * step_ms
    if not step_ms or stop_ms > MAX_LONG:
        return array("q", [start_ms]) * count
    return array("q", range(start_ms, stop_ms, step_ms))


def _keys(keys: int, count: int, numbers: random.Random) -> BytesColumn | None:
    if not keys:
        return None
    digits = max(_KEY_DIGITS, len(str(keys - 1)))
    picked = "".join([f"key-{number:0{digits}d}" for number in numbers.choices(range(keys), k=count)])
    size = digits + len("key-")
    return BytesColumn(array("i", range(0, size * count + 1, size)), picked.encode())


def _values(generated: Generated, count: int, numbers: random.Random) -> BytesColumn:
    least, most = value_sizes(generated)
    if least == most:
        starts = array("i", range(0, least * count + 1, least)) if least else array("i", [0]) * (count + 1)
    else:
        starts = array("i", accumulate(numbers.choices(range(least, most + 1), k=count), initial=0))
    return BytesColumn(starts, numbers.randbytes(starts[-1]).translate(_LETTERS))
