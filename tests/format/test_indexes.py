"""Offset, time and transaction index: bytes as brokers write them, lookups as Kafka ends them, damage as it says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt, Refused
from klogtool.format.indexes import (
    ABORTED_TXN_SIZE,
    NO_TIMESTAMP,
    OFFSET_ENTRIES,
    OFFSET_INDEX_ENTRY_SIZE,
    TIME_ENTRIES,
    TIME_INDEX_ENTRY_SIZE,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    build_txn_index,
    entries_before_zero_tail,
    find_aborted_txns,
    index_entries_count,
    parse_txn_index,
    preallocated_index_size,
    sanity_check_offset_index,
    sanity_check_time_index,
    sanity_check_txn_index,
    to_relative_offset,
    walk_txn_index,
)
from klogtool.format.layouts import ABORTED_TXN

BASE = 45
OFFSET_INDEX = bytes.fromhex(
    "00000005 000000a2"  # relative offset, position
    "00000009 00000144"
)
TIME_INDEX = bytes.fromhex(
    "00000174876e8019 00000005"  # timestamp, relative offset
)
TXN_INDEX = bytes.fromhex(
    "0000"  # version
    "0000000000000032"  # producer id
    "000000000000000e"  # first offset
    "0000000000000010"  # last offset, of the marker
    "000000000000000f"  # last stable offset
)
ABORTED = AbortedTxn(0, producer_id=50, first_offset=14, last_offset=16, last_stable_offset=15)

longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
relative_offsets = st.integers(0, (1 << 31) - 1)
bases = st.integers(0, (1 << 62))


@contextmanager
def corrupt_index(reason: str) -> Iterator[pytest.ExceptionInfo[Corrupt]]:
    with pytest.raises(Corrupt, match=reason) as found:
        yield found
    assert found.value.kafka_class == "CorruptIndexException"


def test_the_sizes_are_those_of_kafka() -> None:
    assert (OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, ABORTED_TXN_SIZE) == (8, 12, 34)


# Bytes and entries.


def test_offset_index_vector() -> None:
    entries = [OffsetIndexEntry(offset=1005, position=162), OffsetIndexEntry(offset=1009, position=324)]
    assert OFFSET_ENTRIES.parse(OFFSET_INDEX, 1000) == entries
    assert OFFSET_ENTRIES.build(entries, 1000) == OFFSET_INDEX


def test_time_index_vector() -> None:
    entries = [TimeIndexEntry(timestamp=1_600_000_000_025, offset=1005)]
    assert TIME_ENTRIES.parse(TIME_INDEX, 1000) == entries
    assert TIME_ENTRIES.build(entries, 1000) == TIME_INDEX


def test_txn_index_vector() -> None:
    assert parse_txn_index(TXN_INDEX) == [ABORTED]
    assert build_txn_index([ABORTED]) == TXN_INDEX


@pytest.mark.parametrize("size", range(1, OFFSET_INDEX_ENTRY_SIZE))
def test_a_partial_entry_at_the_end_is_no_entry(size: int) -> None:
    assert len(OFFSET_ENTRIES.parse(OFFSET_INDEX + b"\xff" * size, 0)) == 2
    assert len(TIME_ENTRIES.parse(TIME_INDEX + b"\xff" * size, 0)) == 1
    assert len(parse_txn_index(TXN_INDEX + b"\xff" * size)) == 1


def test_relative_offsets_are_signed_and_wrap_as_java_longs() -> None:
    below = bytes.fromhex("ffffffff 00000000")
    assert OFFSET_ENTRIES.parse(below, 45) == [OffsetIndexEntry(44, 0)]
    assert OFFSET_ENTRIES.parse(below, -(1 << 63)) == [OffsetIndexEntry((1 << 63) - 1, 0)]
    assert OFFSET_ENTRIES.parse(bytes.fromhex("00000001 ffffffff"), (1 << 63) - 1) == [OffsetIndexEntry(-(1 << 63), -1)]


@pytest.mark.parametrize(
    ("base", "offset"),
    [(0, -(1 << 31)), (0, 1 << 31), (1, 0), (100, 10), (1 << 31, 0), (-(1 << 31), 0), (1 << 31, 1 << 32)],
)
def test_an_offset_that_does_not_fit_is_refused(base: int, offset: int) -> None:
    # the pairs of Kafka's testAppendForLogSegmentOffsetOverflowException
    assert to_relative_offset(offset, base) is None
    with pytest.raises(Refused) as refused:
        OFFSET_ENTRIES.build([OffsetIndexEntry(offset, 0)], base)
    assert refused.value.kafka_class == "IndexOffsetOverflowException"
    with pytest.raises(Refused):
        TIME_ENTRIES.build([TimeIndexEntry(0, offset)], base)


def test_the_largest_relative_offset_fits() -> None:
    assert to_relative_offset((1 << 31) - 1, 0) == (1 << 31) - 1


@given(bases, st.lists(st.tuples(relative_offsets, ints), max_size=20))
def test_offset_index_round_trip(base: int, pairs: list[tuple[int, int]]) -> None:
    entries = [OffsetIndexEntry(base + relative, position) for relative, position in pairs]
    built = OFFSET_ENTRIES.build(entries, base)
    assert OFFSET_ENTRIES.parse(built, base) == entries
    assert list(OFFSET_ENTRIES.unpack(built)) == pairs


@given(bases, st.lists(st.tuples(longs, relative_offsets), max_size=20))
def test_time_index_round_trip(base: int, pairs: list[tuple[int, int]]) -> None:
    entries = [TimeIndexEntry(timestamp, base + relative) for timestamp, relative in pairs]
    built = TIME_ENTRIES.build(entries, base)
    assert TIME_ENTRIES.parse(built, base) == entries
    assert list(TIME_ENTRIES.unpack(built)) == pairs


@given(st.lists(st.builds(AbortedTxn, st.integers(-128, 0), longs, longs, longs, longs), max_size=20))
def test_txn_index_round_trip(entries: list[AbortedTxn]) -> None:
    built = build_txn_index(entries)
    assert parse_txn_index(built) == entries
    declared = [ABORTED_TXN.parse(built[at : at + ABORTED_TXN_SIZE]) for at in range(0, len(built), ABORTED_TXN_SIZE)]
    assert [entry.producer_id for entry in declared] == [entry.producer_id for entry in entries]
    assert [entry.last_stable_offset for entry in declared] == [entry.last_stable_offset for entry in entries]


@given(st.binary(max_size=200), longs)
def test_any_bytes_are_an_index(data: bytes, base: int) -> None:
    """No bytes raise anything but Corrupt; the fast form and the declarations say the same."""
    assert len(OFFSET_ENTRIES.parse(data, base)) == len(data) // 8 == len(list(OFFSET_ENTRIES.unpack(memoryview(data))))
    assert len(TIME_ENTRIES.parse(data, base)) == len(data) // 12 == len(list(TIME_ENTRIES.unpack(bytearray(data))))
    for entries in (OFFSET_ENTRIES, TIME_ENTRIES):
        assert entries.last(data, base) == [entries.none_below(base), *entries.parse(data, base)][-1]
    OFFSET_ENTRIES.lookup(data, base, base + 1)
    TIME_ENTRIES.lookup(data, base, 5)
    for check in (sanity_check_offset_index, sanity_check_time_index, sanity_check_txn_index):
        assert kafka_class_of(check, data, base) in (None, "CorruptIndexException", "KafkaException")


# Preallocated files.


def test_preallocated_sizes() -> None:
    default_segment_index_bytes = 10 * 1024 * 1024
    assert preallocated_index_size(default_segment_index_bytes, OFFSET_INDEX_ENTRY_SIZE) == 10_485_760
    assert preallocated_index_size(default_segment_index_bytes, TIME_INDEX_ENTRY_SIZE) == 10_485_756
    with pytest.raises(Refused, match="Invalid max index size: 7"):
        preallocated_index_size(7, OFFSET_INDEX_ENTRY_SIZE)


@pytest.mark.parametrize("zeros", [0, 1, 8, 80, 83])
def test_zeros_are_entries_to_kafka_and_yet_tell_where_the_real_ones_end(zeros: int) -> None:
    data = OFFSET_INDEX + bytes(zeros)
    assert index_entries_count(data, OFFSET_INDEX_ENTRY_SIZE) == 2 + zeros // 8
    assert entries_before_zero_tail(data, OFFSET_INDEX_ENTRY_SIZE) == 2
    assert entries_before_zero_tail(bytes(zeros), OFFSET_INDEX_ENTRY_SIZE) == 0


def test_zero_bytes_at_the_end_of_a_real_entry_belong_to_it() -> None:
    data = TIME_ENTRIES.build([TimeIndexEntry(timestamp=1 << 40, offset=BASE)], BASE)
    assert entries_before_zero_tail(data + bytes(24), TIME_INDEX_ENTRY_SIZE) == 1


# Lookup.


@pytest.mark.parametrize("count", [1, 30, 1024, 1025, 1026, 3000])
def test_offset_lookup_is_a_floor_lookup_in_a_sound_index(count: int) -> None:
    rng = random.Random(count)
    relative = sorted(rng.sample(range(1, 10 * count + 10), count))
    entries = [OffsetIndexEntry(BASE + offset, n) for n, offset in enumerate(relative)]
    data = OFFSET_ENTRIES.build(entries, BASE)
    for target in [*rng.sample(range(BASE - 5, BASE + 10 * count + 20), 30), relative[0] + BASE, relative[-1] + BASE]:
        below = [entry for entry in entries if entry.offset <= target]
        assert OFFSET_ENTRIES.lookup(data, BASE, target) == (below[-1] if below else OffsetIndexEntry(BASE, 0))


def test_offset_lookup_at_the_extremes() -> None:
    assert OFFSET_ENTRIES.lookup(b"", BASE, BASE) == OffsetIndexEntry(BASE, 0)
    assert OFFSET_ENTRIES.lookup(b"1234567", BASE, BASE) == OffsetIndexEntry(BASE, 0)
    assert OFFSET_ENTRIES.lookup(OFFSET_INDEX, 0, 4) == OffsetIndexEntry(0, 0)
    assert OFFSET_ENTRIES.lookup(OFFSET_INDEX, 0, 9) == OffsetIndexEntry(9, 324)
    assert OFFSET_ENTRIES.lookup(OFFSET_INDEX, 0, (1 << 63) - 1) == OffsetIndexEntry(9, 324)


@pytest.mark.parametrize(
    ("timestamp", "found"), [(9, (NO_TIMESTAMP, 45)), (25, (20, 65)), (30, (30, 75)), (1000, (290, 335))]
)
def test_time_lookup(timestamp: int, found: tuple[int, int]) -> None:
    # Kafka's TimeIndexTest: base 45, entries (10i, 45 + 10i)
    data = TIME_ENTRIES.build([TimeIndexEntry(10 * i, BASE + 10 * i) for i in range(1, 30)], BASE)
    assert TIME_ENTRIES.lookup(data, BASE, timestamp) == TimeIndexEntry(*found)
    assert TIME_ENTRIES.lookup(b"", BASE, timestamp) == TimeIndexEntry(NO_TIMESTAMP, BASE)


def test_lookup_in_a_disordered_index_ends_where_kafka_ends() -> None:
    """The warm section (the last 1024 entries and one) decides: answers taken from Kafka 4.3.1's OffsetIndex."""
    entries = [OffsetIndexEntry(10 * n, n) for n in range(1, 2001)]
    entries[975] = OffsetIndexEntry(1, 7)  # slot 975 is the first warm one
    data = OFFSET_ENTRIES.build(entries, 0)
    assert OFFSET_ENTRIES.lookup(data, 0, 50) == OffsetIndexEntry(1, 7)  # a plain search would find (50, 5)
    assert OFFSET_ENTRIES.lookup(data, 0, 15_000) == OffsetIndexEntry(15_000, 1500)


def test_lookup_in_an_untrimmed_index_starts_among_the_zeros() -> None:
    data = OFFSET_INDEX + bytes(8 * 3000)
    assert OFFSET_ENTRIES.lookup(data, 100, 109) == OffsetIndexEntry(100, 0)  # the last zero entry


# Sanity checks.


def test_sound_indexes_pass() -> None:
    sanity_check_offset_index(b"", BASE)
    sanity_check_offset_index(bytes(8), BASE)  # an entry at the base offset itself is sane
    sanity_check_offset_index(OFFSET_INDEX, BASE)
    sanity_check_time_index(b"", BASE)
    sanity_check_time_index(TIME_INDEX, BASE)
    sanity_check_txn_index(TXN_INDEX + b"\0", 16)


def test_offset_index_below_its_base() -> None:
    with corrupt_index("the last offset is 44 which is less than the base offset 45") as found:
        sanity_check_offset_index(OFFSET_INDEX + bytes.fromhex("ffffffff 00000000"), BASE)
    assert found.value.position == 16


def test_index_of_an_odd_length() -> None:
    with corrupt_index("Index file is corrupt, found 15 bytes which is neither positive nor a multiple of 8") as found:
        sanity_check_offset_index(OFFSET_INDEX[:-1], BASE)
    assert found.value.position == 8
    with corrupt_index("Time index file is corrupt, found 13 bytes which is neither positive nor a multiple of 12"):
        sanity_check_time_index(TIME_INDEX + b"\0", BASE)


def test_time_index_out_of_order() -> None:
    descending = TIME_ENTRIES.build([TimeIndexEntry(10, 55), TimeIndexEntry(5, 65)], BASE)
    with corrupt_index("the last timestamp is 5 which is less than the first timestamp 10"):
        sanity_check_time_index(descending, BASE)
    with corrupt_index("the last offset is 44 which is less than the first offset 45"):
        sanity_check_time_index(bytes.fromhex("0000000000000005 ffffffff"), BASE)


def test_txn_index_below_its_segment() -> None:
    with corrupt_index(
        r"Last offset of aborted transaction AbortedTxn\(version=0, producerId=50, firstOffset=14, lastOffset=16, "
        r"lastStableOffset=15\) in index is less than start offset 100"
    ):
        sanity_check_txn_index(TXN_INDEX, 100)


# Transaction index.


def test_only_the_first_byte_of_the_version_is_read() -> None:
    assert parse_txn_index(b"\x00\xff" + TXN_INDEX[2:])[0].version == 0
    assert parse_txn_index(b"\xff\x00" + TXN_INDEX[2:])[0].version == -1
    later = walk_txn_index(TXN_INDEX + b"\x01\x00" + TXN_INDEX[2:])
    assert next(later) == ABORTED
    with pytest.raises(Corrupt, match="Unexpected aborted transaction version 1") as found:
        next(later)
    assert (found.value.kafka_class, found.value.position) == ("KafkaException", ABORTED_TXN_SIZE)


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound_offset", "producer_ids", "complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
    ],
)
def test_aborted_transactions_of_a_fetch(
    fetch_offset: int, upper_bound_offset: int, producer_ids: list[int], complete: bool
) -> None:
    # Kafka's testCollectAbortedTransactions
    entries = [(0, 0, 10, 11), (1, 5, 15, 13), (2, 18, 35, 25), (3, 32, 50, 40)]
    data = build_txn_index(AbortedTxn(0, *fields) for fields in entries)
    found, is_complete = find_aborted_txns(data, fetch_offset, upper_bound_offset)
    assert ([entry.producer_id for entry in found], is_complete) == (producer_ids, complete)
