"""The kernels of verification equal format.batch_proof and format.succession: what they take, where they stop, why."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from damage import heal_checksums
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import layout
from kafka.damage import harm
from kafka.generated import by_klogtool, shapes
from vectors import BATCH, BATCHES, MESSAGES, Vector

from klogtool import kernels
from klogtool.errors import Corrupt
from klogtool.format import layouts
from klogtool.format.batch import CODEC_NAMES
from klogtool.format.batch_proof import FACTS, EntryFacts, judge_entry
from klogtool.format.framing import Frame, find_frame
from klogtool.format.message import inflate_or_none, parse_entry
from klogtool.format.succession import MOST_AT_ONCE, Succession, Why, facts_at

WIDTH = len(FACTS)
ROOM = 8
EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


def rows_for(count: int) -> array[int]:
    return array("q", bytes(8 * WIDTH * count))


# ---------------------------------------------------------------- entries by themselves


def test_the_facts_are_the_same_ones(native: Any) -> None:
    assert native.FACTS == FACTS


def proved_by_kernel(native: Any, data: bytes, deep: bool) -> Iterator[EntryFacts]:
    """All that the kernel takes for plain, one after another; steps over the others as their frames say."""
    at, rows, body = 0, rows_for(ROOM), None
    while isinstance(frame := find_frame(data, at, len(data)), Frame):
        at, count, why = native.prove(data, at, at + 1, 1000, rows, deep, body)
        assert (count == 1) == (why == native.DONE)
        if count:
            yield facts_at(rows, 0)
        body = inflate_or_none(parse_entry(data, frame)) if why == native.BODY else None
        if not count and body is None:
            at = frame.position + frame.size


def assert_alike(native: Any, data: bytes, deep: bool) -> None:
    """What the kernel takes is plain, and its facts are the reference's; what is plain and simple it takes."""
    taken = {facts.position - 1000: facts for facts in proved_by_kernel(native, data, deep)}
    at = 0
    while isinstance(frame := find_frame(data, at, len(data)), Frame):
        try:
            judged = judge_entry(data, frame, base=1000, deep=deep)
        except Corrupt:
            judged = None
        plain = judged is not None and judged.is_plain
        if at in taken:
            assert judged is not None
            assert judged.is_plain, judged
            assert taken[at] == judged.facts
        elif not deep:
            assert not plain, frame
        at += frame.size


@pytest.mark.parametrize("deep", [False, True])
def test_each_kind_of_entry(native: Any, deep: bool) -> None:
    assert_alike(native, EVERY_KIND, deep)
    taken = {facts.magic for facts in proved_by_kernel(native, EVERY_KIND, deep)}
    assert taken == {0, 1, 2}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("vector", [*MESSAGES, *BATCHES], ids=str)
def test_every_byte_changed_and_healed(native: Any, vector: Vector, deep: bool) -> None:
    """So that the checksum does not tell."""
    for position in range(len(vector.data)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF, vector.data[position] ^ 1):
            wounded = bytearray(layout.put(vector.data, position, bytes([value])))
            heal_checksums(wounded)
            assert_alike(native, bytes(wounded), deep)


@pytest.mark.parametrize("field", layout.BATCH)
@pytest.mark.parametrize(
    "number", [0, 1, 2, -1, -2, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
)
def test_numbers_at_their_edges(native: Any, field: str, number: int) -> None:
    _, size = layout.BATCH[field]
    for vector in BATCHES:
        wounded = bytearray(layout.with_field(vector.data, layout.BATCH, field, number % (1 << 8 * size)))
        heal_checksums(wounded)
        for deep in (False, True):
            assert_alike(native, bytes(wounded), deep)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_logs(native: Any, seed: int) -> None:
    rng = random.Random(f"prove {seed}")
    name = "t-0/00000000000000000000.log"
    files = {name: b"".join(by_klogtool(shape) for shape in shapes(rng, codecs=CODEC_NAMES))[:20_000]}
    for deep in (False, True):
        assert_alike(native, files[name], deep)
    harm(files, rng)
    for data in files.values():
        for deep in (False, True):
            assert_alike(native, data, deep)


def test_it_stops_where_rows_are_full_where_it_is_told_to_and_where_the_data_ends(native: Any) -> None:
    data, size, rows = BATCH.data * 20, len(BATCH.data), rows_for(ROOM)
    assert native.prove(data, 0, len(data), 0, rows) == (ROOM * size, ROOM, native.FULL)
    assert native.prove(data, 0, 2 * size + 1, 0, rows) == (3 * size, 3, native.DONE)
    assert native.prove(data, 0, 2 * size, 0, rows) == (2 * size, 2, native.DONE)
    for have in range(2 * size + 1, 3 * size):
        assert native.prove(data[:have], 0, len(data), 0, rows) == (2 * size, 2, native.CUT_OFF)
    assert native.prove(b"", 0, 1, 0, rows) == (0, 0, native.CUT_OFF)
    assert native.prove(b"", 0, 0, 0, rows) == (0, 0, native.DONE)


def test_arguments_that_make_no_sense_are_refused(native: Any) -> None:
    for at, rows in ((-1, rows_for(1)), (82, rows_for(1)), (0, array("q")), (0, array("q", [0] * (WIDTH - 1)))):
        with pytest.raises(ValueError, match="at is to lie"):
            native.prove(BATCH.data, at, 81, 0, rows)


# ---------------------------------------------------------------- entries one behind the other

STATE = (
    *("highest_offset", "last_offset", "before_offset", "first_offset", "epoch", "before_epoch", "latest_epoch"),
    *("largest_timestamp", "batches", "records", "bytes", "gaps", "magics", "sparse", "has_producers"),
    "has_transactions",
    *("index_at", "index_noted", "time_at", "time_noted", "future", "previous"),
)


def state_of(succession: Any) -> dict[str, Any]:
    return {name: getattr(succession, name) for name in STATE}


def assert_follow_alike(
    native: Any, rows: array[int], offset_index: bytes = b"", time_index: bytes = b"", *, base: int = 0, now: int = 50
) -> list[int]:
    """Both take the same entries and stop in front of the same ones; those are left out, and both go on."""
    reference = Succession(base, now, offset_index, time_index)
    kernel = native.Succession(base, now, offset_index, time_index)
    assert state_of(kernel) == state_of(reference)
    count, at, whys = len(rows) // WIDTH, 0, []
    while at < count:
        expected = reference.follow(rows, at, count)
        assert kernel.follow(rows, at, count) == expected
        assert state_of(kernel) == state_of(reference)
        assert kernel.fetch_epochs() == reference.fetch_epochs()
        at, why = expected
        whys.append(why)
        if why == Why.DONE:
            continue
        producer_id = facts_at(rows, at).producer_id
        assert kernel.last_sequence(producer_id) == reference.last_sequence(producer_id)
        for succession in (reference, kernel):
            if why in (Why.INDEX, Why.INDEX_REACH):
                succession.index_at, succession.index_noted = succession.index_at + 1, -1
            elif why in (Why.TIME, Why.TIME_REACH):
                succession.time_at, succession.time_noted = succession.time_at + 1, -1
            elif why == Why.SEQUENCE:
                succession.forget_producer(producer_id)
        at += why in (Why.OFFSET, Why.OVERFLOW, Why.EPOCH)
    return whys


def drawn_rows(rng: random.Random, count: int) -> array[int]:
    """Entries that mostly follow each other."""
    rows, position, offset, timestamp, epoch = array("q"), 0, rng.choice((0, 0, 7)), 10, 0
    for _ in range(count):
        magic = rng.choice((2, 2, 2, 2, 1, 0))
        size, delta = rng.randrange(61, 300), rng.choice((0, 0, 1, 5))
        offset += rng.choice((0, 0, 0, 0, 1, 3, -1, -2, 2**31 if rng.random() < 0.05 else 0))
        epoch += rng.choice((0, 0, 0, 1, -1)) if rng.random() < 0.3 else 0
        timestamp += rng.choice((0, 1, 5, -3))
        producer_id = rng.choice((-1, -1, 5, 6, 7)) if magic == 2 else -1
        facts = {
            "position": position,
            "size": size,
            "magic": magic,
            "first_offset": offset if magic == 2 or rng.random() < 0.5 else -(2**63),
            "last_offset": offset + delta if magic == 2 else offset,
            "partition_leader_epoch": epoch if magic == 2 else -1,
            "max_timestamp": rng.choice((timestamp, timestamp, -1)),
            "attributes": rng.choice((0, 0, 0x10, 0x20, 0x30)) if magic == 2 else 0,
            "producer_id": producer_id,
            "producer_epoch": rng.choice((0, 0, 1)) if producer_id >= 0 else -1,
            "base_sequence": rng.choice((0, 1, 2, 3, 2**31 - 1, -1)) if producer_id >= 0 else -1,
            "records_count": rng.choice((delta + 1, delta, 0)),
            "marker": -1,
            "coordinator_epoch": -1,
        }
        rows.extend(facts[name] for name in FACTS)
        position, offset = position + size, facts["last_offset"] + 1
    return rows


def drawn_indexes(rng: random.Random, rows: array[int]) -> tuple[bytes, bytes]:
    """Entries for some of them, mostly right."""
    offsets, times, largest = [], [], -1
    for number in range(len(rows) // WIDTH):
        facts = facts_at(rows, number)
        if rng.random() < 0.3 and facts.last_offset >= 0:
            offsets.append(
                (facts.last_offset + rng.choice((0, 0, 0, 1, -1)), facts.position + rng.choice((0, 0, 0, 1)))
            )
        if facts.max_timestamp > largest:
            largest = facts.max_timestamp
            if rng.random() < 0.5 and facts.last_offset >= 0:
                times.append((largest + rng.choice((0, 0, 0, 1, -1)), facts.last_offset + rng.choice((0, 0, 0, 1, -1))))
    offset_bytes = b"".join(
        layouts.OFFSET_INDEX_ENTRY.build({"relative_offset": o % 2**31, "position": p}) for o, p in offsets
    )
    time_bytes = b"".join(
        layouts.TIME_INDEX_ENTRY.build({"timestamp": t, "relative_offset": o % 2**31}) for t, o in times
    )
    return offset_bytes, time_bytes


@pytest.mark.parametrize("seed", range(60))
def test_entries_that_mostly_follow_each_other(native: Any, seed: int) -> None:
    rng = random.Random(f"follow {seed}")
    rows = drawn_rows(rng, 120)
    assert_follow_alike(native, rows, *drawn_indexes(rng, rows))


def test_every_reason_to_stop_comes_up(native: Any) -> None:
    whys = set()
    for seed in range(40):
        rng = random.Random(f"follow {seed}")
        rows = drawn_rows(rng, 120)
        whys.update(assert_follow_alike(native, rows, *drawn_indexes(rng, rows)))
    assert whys == set(Why)


LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, -(2**63)])


@pytest.mark.slow
@given(
    rows=st.lists(st.lists(LONGS, min_size=WIDTH, max_size=WIDTH), max_size=6),
    base=st.sampled_from([0, 1, 100, 2**63 - 1, 2**63 - 2**31]),
    offset_index=st.binary(max_size=40),
    time_index=st.binary(max_size=40),
)
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_any_numbers(rows: list[list[int]], base: int, offset_index: bytes, time_index: bytes) -> None:
    """Those that prove() gives, as far as their ranges go."""
    fitting = array("q")
    for row in rows:
        facts = EntryFacts(*row)
        facts.magic, facts.size, facts.position = facts.magic % 3, facts.size % 2**31, facts.position % 2**62
        facts.attributes, facts.records_count = facts.attributes % 128, facts.records_count % 2**31
        facts.base_sequence = (facts.base_sequence + 2**31) % 2**32 - 2**31
        facts.producer_epoch = (facts.producer_epoch + 2**15) % 2**16 - 2**15
        facts.partition_leader_epoch = (facts.partition_leader_epoch + 2**31) % 2**32 - 2**31
        fitting.extend(getattr(facts, name) for name in FACTS)
    assert_follow_alike(kernels.native, fitting, offset_index, time_index, base=base)


def test_more_producers_than_are_remembered(native: Any) -> None:
    """Those that come too late are not judged; by either."""
    rows = array("q")
    for number in range(70_000):
        rows.extend((number * 61, 61, 2, number, number, 0, 0, 0, number * 977, 0, 5, 1, -1, -1))
    for number in (0, 100, 69_999):
        at = 70_000 + number
        rows.extend((at * 61, 61, 2, at, at, 0, 0, 0, number * 977, 0, 7, 1, -1, -1))
    reference, kernel = (make(0, 0, b"", b"") for make in (Succession, native.Succession))
    for succession in (reference, kernel):
        at = 0
        while at < 70_000:
            at, why = succession.follow(rows, at, 70_000)
            assert why == Why.DONE
        assert succession.follow(rows, 70_000, 70_002) == (70_000, Why.SEQUENCE)
        assert succession.last_sequence(0) == 5
        assert succession.last_sequence(69_999 * 977) == -1
    assert state_of(kernel) == state_of(reference)


def test_so_many_at_once_and_no_more(native: Any) -> None:
    rows = array("q")
    for number in range(MOST_AT_ONCE + 10):
        rows.extend((number * 61, 61, 2, number, number, number % 2, 0, 0, -1, -1, -1, 1, -1, -1))
        if number % 2:
            rows[-WIDTH + FACTS.index("partition_leader_epoch")] = number
        else:
            rows[-WIDTH + FACTS.index("partition_leader_epoch")] = -1
    for succession in (Succession(0, 0, b"", b""), native.Succession(0, 0, b"", b"")):
        assert succession.follow(rows, 0, MOST_AT_ONCE + 10) == (MOST_AT_ONCE, Why.DONE)
        assert len(succession.fetch_epochs()) == MOST_AT_ONCE
        assert succession.follow(rows, MOST_AT_ONCE, MOST_AT_ONCE + 10) == (MOST_AT_ONCE + 10, Why.DONE)


def test_rows_that_are_not_there_are_refused(native: Any) -> None:
    succession = native.Succession(0, 0, b"", b"")
    for rows, at, count in ((rows_for(1), 0, 2), (rows_for(1), -1, 1), (rows_for(1), 0, -1)):
        with pytest.raises(ValueError, match="rows do not hold"):
            succession.follow(rows, at, count)
    with pytest.raises(ValueError, match="below 0"):
        native.Succession(-1, 0, b"", b"")


# ---------------------------------------------------------------- indexes


@given(data=st.lists(st.integers(-1, 4), max_size=8), times=st.booleans())
@settings(deadline=None)
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_entries_in_order(data: list[int], times: bool) -> None:
    pairs = list(zip(data[::2], data[1::2], strict=False))
    if times:
        packed = b"".join(layouts.TIME_INDEX_ENTRY.build({"timestamp": a, "relative_offset": b}) for a, b in pairs)
        good = all(b[0] > a[0] and b[1] >= a[1] for a, b in zip([(-1, 0), *pairs], pairs, strict=False))
    else:
        packed = b"".join(layouts.OFFSET_INDEX_ENTRY.build({"relative_offset": a, "position": b}) for a, b in pairs)
        good = all(b[0] > a[0] and b[1] > a[1] for a, b in zip([(-1, -1), *pairs], pairs, strict=False))
    assert kernels.native.entries_in_order(packed, times) == good
    assert kernels.native.entries_in_order(packed + b"\0\0\0", times) == good
