"""Checkpoint files: what Kafka's reader forgives, what it refuses and by which exception, what epochs remain."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.checkpoints import (
    EpochEntry,
    assign_leader_epochs,
    build_leader_epoch_checkpoint,
    build_offset_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from klogtool.format.names import TopicPartition

IO = "KafkaStorageException"
NUMBER = "NumberFormatException"
ARGUMENT = "IllegalArgumentException"
ONE = {TopicPartition("t", 0): 5}

longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
topics = st.text("abc.-_09é", min_size=1, max_size=8)


def test_offset_checkpoint_vector() -> None:
    offsets = {TopicPartition("a", 0): 7, TopicPartition("b-c", 12): -1}
    text = b"0\n2\na 0 7\nb-c 12 -1\n"
    assert parse_offset_checkpoint(text) == offsets
    assert build_offset_checkpoint(offsets) == text
    assert build_offset_checkpoint({}) == b"0\n0\n"


def test_leader_epoch_vector() -> None:
    entries = [EpochEntry(3, 0), EpochEntry(4, 20)]
    data = bytes.fromhex("300a 320a 3320300a 342032300a")
    assert parse_leader_epoch_checkpoint(data) == entries
    assert build_leader_epoch_checkpoint(entries) == data
    assert build_leader_epoch_checkpoint([]) == b"0\n0\n"


@pytest.mark.parametrize("topic", ["a b", "a\nb", "\t", "a\r"])
def test_a_topic_that_no_reader_would_find_again_is_not_written(topic: str) -> None:
    with pytest.raises(Unsupported, match="blanks"):
        build_offset_checkpoint({TopicPartition(topic, 0): 5})


@given(st.dictionaries(st.builds(TopicPartition, topics, ints), longs, max_size=8))
def test_offset_checkpoint_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert parse_offset_checkpoint(build_offset_checkpoint(offsets)) == offsets


@given(st.lists(st.builds(EpochEntry, ints, longs), max_size=8))
def test_leader_epoch_round_trip(entries: list[EpochEntry]) -> None:
    assert parse_leader_epoch_checkpoint(build_leader_epoch_checkpoint(entries)) == entries


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\r\n", b"-0\n", b"0\n0", b"0\n0\n", b"+0\n+0\n"])
def test_empty(data: bytes) -> None:
    assert parse_offset_checkpoint(data) == {}
    assert parse_leader_epoch_checkpoint(data) == []


@pytest.mark.parametrize(
    "data",
    [
        b"0\n1\nt 0 5",
        b"0\r\n1\r\nt 0 5\r\n",
        b"0\r1\rt 0 5\r",
        b"0\n1\nt\t0 \x0b\x0c 5\n",
        b"0\n1\nt 0 5  \n",  # blanks at the end of a line make no field
        b"0\n1\nt +0 005\n",
        "0\n1\nt ٠ ٥\n".encode(),
        b"0\n2\nt 0 4\nt 0 5\n",  # the last one wins
    ],
)
def test_forgiven(data: bytes) -> None:
    assert parse_offset_checkpoint(data) == ONE


def test_a_leading_blank_makes_an_empty_topic() -> None:
    assert parse_offset_checkpoint(b"0\n1\n 0 5\n") == {TopicPartition("", 0): 5}


@pytest.mark.parametrize(
    ("data", "kafka_class", "reason"),
    [
        (b"\n", IO, "Malformed line in checkpoint file: "),
        (b"x\n", IO, "Malformed line in checkpoint file: x"),
        (b"0 \n", IO, "Malformed line in checkpoint file: 0 "),
        (b"1\n", IO, "Unrecognised version:1, expected version: 0 in checkpoint file"),
        (b"0\nx\n", IO, "Malformed line in checkpoint file: x"),
        (b"0\n-1\n", ARGUMENT, "Illegal Capacity: -1"),
        (b"0\n2\nt 0 5\n", IO, "Expected [2] entries in checkpoint file, but found only [1]"),
        (b"0\n0\nt 0 5\n", IO, "Expected [0] entries in checkpoint file, but found only [1]"),
        (b"0\n1\nt 0\n", IO, "Malformed line in checkpoint file: t 0"),
        (b"0\n1\nt 0 5 6\n", IO, "Malformed line in checkpoint file: t 0 5 6"),
        (b"0\n1\n t 0 5\n", IO, "Malformed line in checkpoint file:  t 0 5"),
        (b"0\n1\nt 0 5\n\n", IO, "Malformed line in checkpoint file: "),
        ("0\n1\nt\u00a00\u00a05\n".encode(), IO, "Malformed line in checkpoint file: t\u00a00\u00a05"),
        (b"0\n1\nt x 5\n", NUMBER, 'For input string: "x"'),
        (b"0\n1\nt 0 9223372036854775808\n", NUMBER, 'For input string: "9223372036854775808"'),
        (b"0\n1\nt 2147483648 0\n", NUMBER, 'For input string: "2147483648"'),
        (b"0\n1\nt 0 5\xff\n", IO, "Malformed input: not UTF-8"),
        (b"0\n2147483647\nt 0 5\n", IO, "Expected [2147483647] entries in checkpoint file, but found only [1]"),
    ],
)
def test_refused(data: bytes, kafka_class: str, reason: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_offset_checkpoint(data)
    assert (found.value.kafka_class, found.value.reason) == (kafka_class, reason)


@pytest.mark.parametrize(
    ("data", "kafka_class"),
    [(b"0\n1\n1 2 3\n", IO), (b"0\n1\n1\n", IO), (b"0\n1\n 5\n", NUMBER), (b"0\n1\n1 x", NUMBER)],
)
def test_epoch_lines_have_two_fields(data: bytes, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_leader_epoch_checkpoint(data)
    assert found.value.kafka_class == kafka_class


@given(st.binary(max_size=60), st.binary(max_size=30))
def test_any_bytes(start: bytes, end: bytes) -> None:
    for data in (start, b"0\n1\n" + start, b"0\n1\nt 0 5" + start + end):
        for parse in (parse_offset_checkpoint, parse_leader_epoch_checkpoint):
            assert kafka_class_of(parse, data) in (None, IO, NUMBER, ARGUMENT)


# Leader epochs as a broker takes them.


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([(2, 6), (3, 8), (4, 11)], [(2, 6), (3, 8), (4, 11)]),
        ([(2, 6), (2, 10)], [(2, 6)]),  # once assigned an epoch keeps its start
        ([(2, 6), (2, 5)], [(2, 5)]),  # unless it starts earlier
        ([(2, 6), (3, 5)], [(3, 5)]),  # a start at or above the new one goes
        ([(2, 6), (3, 6)], [(3, 6)]),
        ([(2, 6), (4, 11), (3, 20)], [(2, 6), (3, 20)]),  # an epoch at or above the new one goes
        ([(1, 2), (2, 6), (3, 8), (2, 7)], [(1, 2), (2, 7)]),
        ([(5, 0), (0, 0)], [(0, 0)]),
        ([], []),
    ],
)
def test_assigned_epochs(lines: list[tuple[int, int]], kept: list[tuple[int, int]]) -> None:
    assigned = assign_leader_epochs(EpochEntry(*line) for line in lines)
    assert [(entry.epoch, entry.start_offset) for entry in assigned] == kept


@pytest.mark.parametrize("entry", [EpochEntry(-1, 0), EpochEntry(0, -1)])
def test_negative_epochs_are_not_assigned(entry: EpochEntry) -> None:
    with pytest.raises(Corrupt, match="Received invalid partition leader epoch entry EpochEntry") as found:
        assign_leader_epochs([EpochEntry(0, 0), entry])
    assert found.value.kafka_class == ARGUMENT
    assert found.value.kafka_message == "Received invalid partition leader epoch entry EpochEntry"  # "(" until 4.1


@given(st.lists(st.builds(EpochEntry, st.integers(0, 9), st.integers(0, 30)), max_size=12))
def test_assigned_epochs_ascend(entries: list[EpochEntry]) -> None:
    assigned = assign_leader_epochs(entries)
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(assigned))
    assert assign_leader_epochs(assigned) == assigned
    assert not entries or assigned
