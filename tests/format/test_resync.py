"""The next batch behind damage: what proves itself, and what only looks like one."""

from __future__ import annotations

import random

import pytest
from damage import heal_checksums
from kafka import layout
from vectors import (
    BATCH,
    BATCH_EMPTIED,
    BATCH_WITH_HEADERS,
    BATCHES,
    MAGIC_0,
    MAGIC_1,
    MESSAGES,
    Vector,
)

from klogtool.format.batch import build_raw_batch
from klogtool.format.resync import (
    LARGEST_SOUGHT_BYTES,
    OFFSETS_OF_A_SEGMENT,
    Sought,
    find_batch,
    find_head,
    walk_unproved,
)

GARBAGE = random.Random(7).randbytes(300)
NOTHING = (-1, 0)


def found_in(data: bytes, at: int = 0, *, stop: int | None = None, lowest: int = 0, end: int | None = None) -> object:
    sought = Sought(lowest, len(data) if end is None else end)
    return find_batch(data, at, len(data) if stop is None else stop, sought)


def changed(vector: Vector, field: str, value: int) -> bytes:
    """The entry with another value in a field of its header, its checksum right."""
    fields = layout.Entry(0, vector.data).fields
    data = bytearray(layout.with_field(vector.data, fields, field, value))
    heal_checksums(data)
    return bytes(data)


@pytest.mark.parametrize("vector", [*BATCHES, *MESSAGES], ids=str)
def test_an_entry_behind_garbage(vector: Vector) -> None:
    assert found_in(GARBAGE + vector.data + GARBAGE) == (300, 0)
    assert found_in(vector.data) == (0, 0)


def test_nothing_in_garbage_or_zeros() -> None:
    assert found_in(GARBAGE) == NOTHING
    assert found_in(bytes(500)) == NOTHING
    assert found_in(b"") == NOTHING
    assert found_in(b"\xff" * 500) == NOTHING


def test_the_first_of_two_is_found() -> None:
    data = GARBAGE + BATCH.data + BATCH_WITH_HEADERS.data
    assert found_in(data) == (300, 0)
    assert found_in(data, 300) == (300, 0)
    assert found_in(data, 301) == (300 + len(BATCH.data), 0)


def test_only_positions_before_the_stop_are_tried() -> None:
    data = GARBAGE + BATCH.data
    assert found_in(data, stop=300) == NOTHING
    assert found_in(data, stop=301) == (300, 0)


@pytest.mark.parametrize("vector", [BATCH, MAGIC_0, MAGIC_1], ids=str)
def test_a_wrong_checksum_does_not_prove_itself(vector: Vector) -> None:
    for position in range(17, len(vector.data)):
        wounded = bytearray(vector.data)
        wounded[position] ^= 1
        assert found_in(bytes(wounded)) == NOTHING, position


def test_offsets_below_the_lowest_are_left_out() -> None:
    assert found_in(BATCH_WITH_HEADERS.data, lowest=20) == (0, 0)
    assert found_in(BATCH_WITH_HEADERS.data, lowest=21) == NOTHING
    assert found_in(MAGIC_1.data, lowest=9) == (0, 0)
    assert found_in(MAGIC_1.data, lowest=10) == NOTHING


def test_offsets_beyond_a_segment_are_left_out() -> None:
    assert found_in(changed(BATCH, "base_offset", OFFSETS_OF_A_SEGMENT)) == (0, 0)
    assert found_in(changed(BATCH, "base_offset", OFFSETS_OF_A_SEGMENT + 1)) == NOTHING
    assert found_in(changed(BATCH, "base_offset", OFFSETS_OF_A_SEGMENT + 1), lowest=1) == (0, 0)
    assert found_in(changed(BATCH, "base_offset", -1)) == NOTHING


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attributes", 0x05),
        ("attributes", 0x80),
        ("attributes", 0x0100),
        ("records_count", -1),
        ("records_count", 0),
        ("records_count", 3),
        ("last_offset_delta", 0),
        ("last_offset_delta", -1),
        ("magic", 3),
    ],
)
def test_a_header_that_cannot_be_is_not_proved_by_its_checksum(field: str, value: int) -> None:
    assert found_in(changed(BATCH, field, value)) == NOTHING


@pytest.mark.parametrize(("body_size", "attributes", "found"), [(13, 0, NOTHING), (14, 0, (0, 0)), (13, 1, (0, 0))])
def test_records_have_seven_bytes_at_least_unless_compressed(
    body_size: int, attributes: int, found: tuple[int, int]
) -> None:
    fields = {"base_offset": 5, "partition_leader_epoch": 0, "last_offset_delta": 1, "base_timestamp": 0}
    fields |= {"max_timestamp": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "records_count": 2}
    assert found_in(build_raw_batch(bytes(body_size), attributes=attributes, **fields)) == found


def test_a_batch_that_ends_before_it_begins_is_none() -> None:
    assert found_in(BATCH_EMPTIED.data) == (0, 0)
    assert found_in(changed(BATCH_EMPTIED, "last_offset_delta", -1)) == NOTHING


@pytest.mark.parametrize(
    ("field", "value"),
    [("attributes", 0x7C), ("records_count", 1), ("last_offset_delta", 2**31 - 1)],
)
def test_a_header_that_can_be_is(field: str, value: int) -> None:
    assert found_in(changed(BATCH, field, value)) == (0, 0)


@pytest.mark.parametrize("attributes", [0x10, 0x80, 0xFF])
def test_a_message_has_four_bits_of_attributes(attributes: int) -> None:
    assert found_in(changed(MAGIC_1, "attributes", attributes)) == NOTHING
    assert found_in(changed(MAGIC_1, "attributes", 0x0F)) == (0, 0)


def test_an_entry_that_is_not_whole_in_the_buffer_is_plausible() -> None:
    data = GARBAGE + BATCH.data
    assert found_in(data[:-1], end=len(data)) == (300, len(BATCH.data))
    assert found_in(data[:362], end=len(data)) == (300, len(BATCH.data))
    assert found_in(data[:318], end=len(data)) == (300, len(BATCH.data))  # not even its header is
    assert found_in(data[:317], end=len(data)) == NOTHING


def test_an_entry_that_the_log_has_no_room_for_is_none() -> None:
    data = GARBAGE + BATCH.data
    assert found_in(data[:-1]) == NOTHING
    assert found_in(data, end=len(data) - 1) == NOTHING


def test_a_batch_shorter_than_its_header_is_none() -> None:
    short = changed(BATCH_EMPTIED, "length", 48)
    assert found_in(short) == NOTHING
    assert found_in(short[:30], end=61) == NOTHING


def test_what_claims_more_than_is_sought_is_passed_over() -> None:
    for size, expected in ((LARGEST_SOUGHT_BYTES, (0, LARGEST_SOUGHT_BYTES)), (LARGEST_SOUGHT_BYTES + 1, NOTHING)):
        data = layout.with_field(BATCH.data, layout.BATCH, "length", size - 12)
        assert found_in(data, end=1 << 40) == expected


def test_a_messages_key_and_value_fill_it() -> None:
    """What is seen of them, at least: random bytes look like a message more often than one would like."""
    for size in range(18, len(MAGIC_1.data)):
        assert found_in(MAGIC_1.data[:size], end=len(MAGIC_1.data)) == (0, len(MAGIC_1.data))
    longer = layout.with_field(MAGIC_1.data, layout.MESSAGE_1, "size", len(MAGIC_1.data) - 11)
    assert found_in(layout.sealed(longer + b"x")) == NOTHING
    assert found_in(changed(MAGIC_1, "key_length", 2)) == NOTHING
    assert found_in(changed(MAGIC_1, "key_length", 2**31 - 1)) == NOTHING
    assert found_in(changed(MAGIC_1, "key_length", -2)) == NOTHING  # null, and its bytes are left over


def test_a_messages_key_is_not_larger_than_any() -> None:
    sizes = layout.with_field(
        layout.with_field(MAGIC_1.data, layout.MESSAGE_1, "size", 1 << 24), layout.MESSAGE_1, "key_length", 1 << 20
    )
    assert found_in(sizes, end=1 << 40) == (0, (1 << 24) + 12)
    assert found_in(layout.with_field(sizes, layout.MESSAGE_1, "key_length", (1 << 20) + 1), end=1 << 40) == NOTHING


def test_a_producer_id_below_none_is_none() -> None:
    assert found_in(changed(BATCH, "producer_id", -1)) == (0, 0)
    assert found_in(changed(BATCH, "producer_id", -2)) == NOTHING


def test_the_first_head_proved_or_not() -> None:
    wounded = bytearray(GARBAGE + BATCH.data)
    wounded[-1] ^= 1
    sought = Sought(0, len(wounded))
    assert find_head(bytes(wounded), 0, len(wounded), sought) == 300
    assert find_head(bytes(wounded), 301, len(wounded), sought) == -1
    assert find_head(bytes(wounded[:-1]), 0, len(wounded), Sought(0, len(wounded) - 1)) == -1


def test_headers_that_follow_each_other_proved_or_not() -> None:
    wounded = bytearray(BATCH.data)
    wounded[-1] ^= 1
    batches = [layout.with_field(bytes(wounded), layout.BATCH, "base_offset", 2 * n) for n in range(4)]
    data, size = b"".join(batches), len(wounded)
    everything = Sought(0, len(data))
    assert walk_unproved(data, 0, everything, -1) == (3 * size, 3, 5)  # the last has none behind it
    assert walk_unproved(data, size, everything, -1) == (3 * size, 2, 5)
    assert walk_unproved(data, 0, everything, 0) == (0, 0, 0)  # not behind what lies before
    assert walk_unproved(data[: 3 * size + 60], 0, everything, -1) == (2 * size, 2, 3)
    assert walk_unproved(data[:60], 0, everything, -1) == (0, 0, -1)
    back = b"".join(batches[n] for n in (0, 1, 1, 2))
    assert walk_unproved(back, 0, everything, -1) == (size, 1, 1)


def test_a_batch_inside_a_damaged_one_is_found() -> None:
    """The value of a record may be a log: then what is in it looks as good as what it is in."""
    outer = bytearray(layout.sealed(BATCH.data[:61] + BATCH_WITH_HEADERS.data))
    assert found_in(bytes(outer)) == (0, 0)
    outer[17] ^= 1
    assert found_in(bytes(outer)) == (61, 0)
