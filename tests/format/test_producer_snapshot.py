"""Producer snapshots: bytes of a broker, Kafka's words for each way of being damaged, the order of a Java hash map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt
from klogtool.format.checksums import crc32c
from klogtool.format.hash_order import LongHashKeys
from klogtool.format.layouts import PRODUCER_ENTRY, SNAPSHOT_HEADER
from klogtool.format.producer_snapshot import (
    PRODUCER_ENTRY_SIZE,
    SNAPSHOT_HEADER_SIZE,
    ProducerStateEntry,
    build_producer_snapshot,
    decrement_sequence,
    parse_producer_snapshot,
)

EMPTY = bytes.fromhex("0001 48674bc7 00000000")  # version, crc, count
AFTER_AN_ABORT = bytes.fromhex(
    "0000000000000032"  # producer id
    "0002"  # producer epoch
    "00000000"  # last sequence
    "000000000000000e"  # last offset
    "00000000"  # offset delta
    "00000174876e8000"  # timestamp
    "00000007"  # coordinator epoch
    "ffffffffffffffff"  # current transaction's first offset
)
ENTRY = ProducerStateEntry(
    producer_id=50,
    producer_epoch=2,
    last_sequence=0,
    last_offset=14,
    offset_delta=0,
    timestamp=1_600_000_000_000,
    coordinator_epoch=7,
    current_txn_first_offset=None,
)
WITHOUT_BATCH = ProducerStateEntry(51, 0, -1, -1, 0, 5, 3, 20)

longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
entries = st.builds(
    ProducerStateEntry,
    longs,
    st.integers(-(1 << 15), (1 << 15) - 1),
    ints,
    longs,
    ints,
    longs,
    ints,
    st.none() | st.integers(0, (1 << 63) - 1),
)


def snapshot(count: int, rest: bytes) -> bytes:
    """A snapshot that claims `count` entries, with the CRC of what follows."""
    covered = count.to_bytes(4, "big", signed=True) + rest
    return b"\0\1" + crc32c(covered).to_bytes(4, "big") + covered


def refusal_of(data: bytes) -> str:
    with pytest.raises(Corrupt) as found:
        parse_producer_snapshot(data)
    assert found.value.kafka_class == "CorruptSnapshotException"
    return found.value.reason


def test_sizes() -> None:
    assert (SNAPSHOT_HEADER_SIZE, PRODUCER_ENTRY_SIZE) == (10, 46)


def test_vectors() -> None:
    assert build_producer_snapshot([]) == EMPTY
    assert parse_producer_snapshot(EMPTY) == []
    assert parse_producer_snapshot(snapshot(1, AFTER_AN_ABORT)) == [ENTRY]
    assert build_producer_snapshot([ENTRY]) == snapshot(1, AFTER_AN_ABORT)


@given(st.lists(entries, max_size=6))
def test_round_trip(written: list[ProducerStateEntry]) -> None:
    built = build_producer_snapshot(written)
    assert parse_producer_snapshot(built) == parse_producer_snapshot(memoryview(built)) == written
    starts = range(SNAPSHOT_HEADER_SIZE, len(built), PRODUCER_ENTRY_SIZE)
    declared = [PRODUCER_ENTRY.parse(built[at : at + PRODUCER_ENTRY_SIZE]) for at in starts]
    assert SNAPSHOT_HEADER.parse(built[:SNAPSHOT_HEADER_SIZE]).entries_count == len(written)
    assert [entry.producer_id for entry in declared] == [entry.producer_id for entry in written]
    assert [entry.coordinator_epoch for entry in declared] == [entry.coordinator_epoch for entry in written]


def test_a_producer_without_batch() -> None:
    (read,) = parse_producer_snapshot(build_producer_snapshot([WITHOUT_BATCH]))
    assert (read.has_batch, read.first_sequence, read.first_offset) == (False, -1, -1)
    assert read.current_txn_first_offset == 20


def test_the_first_record_of_the_last_batch_is_derived() -> None:
    entry = ProducerStateEntry(1, 0, last_sequence=3, last_offset=109, offset_delta=9, timestamp=0,
                               coordinator_epoch=-1, current_txn_first_offset=None)  # fmt: skip
    assert (entry.first_offset, entry.first_sequence) == (100, (1 << 31) - 6)


@pytest.mark.parametrize(
    ("sequence", "decrement", "before"),
    [(10, 4, 6), (0, 1, (1 << 31) - 1), (3, 9, (1 << 31) - 6), (5, 5, 0), (0, -1, 1), (-1, (1 << 31) - 1, 0)],
)
def test_sequences_wrap_at_the_largest_int(sequence: int, decrement: int, before: int) -> None:
    assert decrement_sequence(sequence, decrement) == before


# What Kafka says of damage.


@pytest.mark.parametrize("size", [0, 1])
def test_too_short_for_a_version(size: int) -> None:
    assert refusal_of(EMPTY[:size]) == "Snapshot failed schema validation: null"


@pytest.mark.parametrize("size", range(2, 10))
def test_too_short_for_a_header(size: int) -> None:
    assert refusal_of(EMPTY[:size]) == "Snapshot failed schema validation: null"


@pytest.mark.parametrize("version", [0, 2, -1, 256])
def test_unknown_version(version: int) -> None:
    reason = refusal_of(version.to_bytes(2, "big", signed=True))
    assert reason == f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}"


def test_negative_count() -> None:
    assert refusal_of(snapshot(-1, b"")) == (
        "Snapshot failed schema validation: non-nullable field producerEntries was serialized as null"
    )


def test_count_above_the_bytes_that_are_left() -> None:
    assert refusal_of(snapshot((1 << 31) - 1, AFTER_AN_ABORT)) == (
        "Snapshot failed schema validation: Tried to allocate a collection of size 2147483647, "
        "but there are only 46 bytes remaining."
    )


def test_count_above_the_entries_that_are_there() -> None:
    assert refusal_of(snapshot(2, AFTER_AN_ABORT)) == "Snapshot failed schema validation: null"
    assert refusal_of(snapshot(1, AFTER_AN_ABORT[:-1])) == "Snapshot failed schema validation: null"


def test_wrong_crc_names_both() -> None:
    data = bytearray(EMPTY)
    data[5] ^= 1
    assert refusal_of(bytes(data)) == (
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: 1214729158. Computed crc: 1214729159"
    )


def test_bytes_after_the_entries_are_under_the_crc() -> None:
    assert "CRC is no longer valid" in refusal_of(EMPTY + b"\0")
    assert parse_producer_snapshot(snapshot(1, AFTER_AN_ABORT + b"stale")) == [ENTRY]


@given(st.data())
def test_each_flipped_bit_and_each_cut_is_found(data: st.DataObject) -> None:
    sound = build_producer_snapshot([ENTRY, WITHOUT_BATCH])
    at = data.draw(st.integers(0, 8 * len(sound) - 1))
    flipped = bytearray(sound)
    flipped[at // 8] ^= 1 << at % 8
    refusal_of(bytes(flipped))
    refusal_of(sound[: at // 8])


@given(st.binary(max_size=120))
def test_any_bytes(data: bytes) -> None:
    for candidate in (data, b"\0\1" + data, snapshot(len(data) // 46, data)):
        assert kafka_class_of(parse_producer_snapshot, candidate) in (None, "CorruptSnapshotException")


# Order of entries.


def test_hash_order_of_a_broker() -> None:
    inserted = [1000, 16, 3, 17, 1, 4294967297, 65536, 50, 51]
    assert LongHashKeys(inserted).in_order == [16, 4294967297, 17, 1, 65536, 50, 3, 51, 1000]


def test_hash_order_grows_with_the_table() -> None:
    assert LongHashKeys(range(12)).in_order == list(range(12))
    assert LongHashKeys([16, 0]).in_order == [16, 0]  # one bucket of 16
    assert LongHashKeys([16, 0, *range(1, 12)]).in_order == [*range(12), 16]  # thirteen keys: 32 buckets


def test_a_crowded_bucket_makes_a_small_table_grow() -> None:
    crowd = [16 * n for n in range(9)]  # nine keys, all in bucket 0 of 16; then in two buckets of 32
    assert LongHashKeys(crowd).in_order == [0, 32, 64, 96, 128, 16, 48, 80, 112]


@given(st.lists(longs, unique=True, max_size=60))
def test_hash_order_keeps_every_id(ids: list[int]) -> None:
    assert sorted(LongHashKeys(ids).in_order) == sorted(ids)
