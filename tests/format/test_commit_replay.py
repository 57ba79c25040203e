"""What counts of the commits in a log, by Kafka's rules; and commits cut up as Kafka's schemas read them."""

from __future__ import annotations

import random

import pytest
from committing import OffsetsLog, commit_key, commit_value
from coordinator_records import build_version_prefixed
from hypothesis import given
from hypothesis import strategies as st

from klogtool.errors import KlogError
from klogtool.format.commit_replay import CommitReplay, KeptCommit, end_of_key, replay_entry
from klogtool.format.framing import walk_frames
from klogtool.format.internal.offset_commits import OffsetCommit, parse_offset_commit
from klogtool.format.internal.records import GROUP, parse_coordinator_record
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import build_message, parse_entry


def replayed(log: OffsetsLog | bytes, at_ms: int = MAX_LONG, log_start: int = 0, clean_end: int = 0) -> CommitReplay:
    data = bytes(log.data) if isinstance(log, OffsetsLog) else log
    replay = CommitReplay(at_ms, log_start, clean_end)
    for frame in walk_frames(data, 0, len(data)):
        replay_entry(replay, parse_entry(data, frame))
    return replay


def offsets_of(kept: list[KeptCommit]) -> dict[tuple[str, int], int | None]:
    """(topic, partition) -> offset, None for a tombstone."""
    found: dict[tuple[str, int], int | None] = {}
    for one in kept:
        name = parse_coordinator_record(GROUP, one.key, None)[0].values
        commit = None if one.value is None else parse_offset_commit(one.key, one.value)
        found[name["topic"], name["partition"]] = None if commit is None else commit.offset
    return found


def test_the_last_one_counts_and_tombstones_delete() -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.commit(2, 200)
    log.commit(7, 200, topic="u")
    log.delete(300, topic="u")
    assert offsets_of(replayed(log).committed()) == {("t", 0): 2, ("u", 0): None}
    assert offsets_of(replayed(log, at_ms=299).committed()) == {("t", 0): 2, ("u", 0): 7}
    assert offsets_of(replayed(log, at_ms=199).committed()) == {("t", 0): 1}


def test_a_clock_that_went_back_hides_nothing() -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.commit(2, 900)
    log.commit(3, 200)
    assert offsets_of(replayed(log, at_ms=500).committed()) == {("t", 0): 3}


def test_a_legacy_key_names_the_same_offset() -> None:
    log = OffsetsLog()
    log.add([(commit_key(legacy=True), commit_value(1, 1, version=0), 1)])
    log.commit(2, 2)
    assert offsets_of(replayed(log).committed()) == {("t", 0): 2}


def test_a_transaction_counts_from_its_marker_on() -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.commit(5, 200, producer_id=9)
    assert offsets_of(replayed(log).committed()) == {("t", 0): 1}
    assert offsets_of(replayed(log).pending()) == {("t", 0): 5}
    log.end(9, 300)
    assert offsets_of(replayed(log).committed()) == {("t", 0): 5}
    assert replayed(log).pending() == []
    assert offsets_of(replayed(log, at_ms=299).committed()) == {("t", 0): 1}
    assert offsets_of(replayed(log, at_ms=299).pending()) == {("t", 0): 5}


def test_an_aborted_transaction_does_not() -> None:
    log = OffsetsLog()
    log.commit(5, 200, producer_id=9)
    log.end(9, 300, is_commit=False)
    log.end(9, 400)
    assert replayed(log).committed() == replayed(log).pending() == []


def test_a_later_commit_without_transaction_stays() -> None:
    log = OffsetsLog()
    log.commit(5, 200, producer_id=9)
    log.commit(6, 250)
    assert replayed(log).pending() == []
    log.end(9, 300)
    assert offsets_of(replayed(log).committed()) == {("t", 0): 6}


def test_a_tombstone_ends_what_is_pending() -> None:
    """OffsetMetadataManager.replay removes the pending ones of all producers."""
    log = OffsetsLog()
    log.commit(5, 200, producer_id=9)
    log.delete(250)
    log.end(9, 300)
    assert offsets_of(replayed(log).committed()) == {("t", 0): None}


def test_a_tombstone_in_a_transaction_counts_at_once() -> None:
    log = OffsetsLog()
    log.commit(5, 100)
    log.add([(commit_key(), None, 200)], producer_id=9)
    assert offsets_of(replayed(log).committed()) == {("t", 0): None}


def test_other_records_are_passed_over_and_those_of_nobody_counted() -> None:
    log = OffsetsLog()
    log.add([(b"\0\2group", b"x", 1), (b"", b"x", 1), (None, b"x", 1), (b"user-7", b"x", 1), (b"\0\27", b"x", 1)])
    replay = replayed(log)
    assert replay.committed() == []
    assert (replay.records, replay.foreign) == (5, 3)


def test_batches_below_the_log_start_are_not_there() -> None:
    log = OffsetsLog()
    log.commit(1, 1)
    log.commit(2, 2, topic="u")
    assert offsets_of(replayed(log, log_start=1).committed()) == {("u", 0): 2}


def test_gaps_and_times() -> None:
    log = OffsetsLog()
    log.commit(1, 10)
    log.skip()
    log.commit(2, 20, topic="u")
    log.commit(3, 30, topic="v")
    replay = replayed(log, clean_end=3)
    assert (replay.gap_end, replay.clean_timestamp, replay.latest_timestamp) == (2, 20, 30)


def test_messages_of_old_formats_have_the_time_of_the_commit() -> None:
    """Magic 0 has no timestamps."""
    data = b"".join(
        build_message(n, commit_key(), value, magic=0)
        for n, value in enumerate((commit_value(1, 100, version=1), commit_value(2, 200, version=1), None))
    )
    assert offsets_of(replayed(data, at_ms=150).committed()) == {("t", 0): 1}
    assert offsets_of(replayed(data, at_ms=199).committed()) == {("t", 0): 1}
    assert offsets_of(replayed(data).committed()) == {("t", 0): None}


def test_a_wrong_checksum_takes_nothing() -> None:
    log = OffsetsLog()
    log.commit(1, 1)
    log.data[-1] ^= 1
    replay = CommitReplay(MAX_LONG, 0, 0)
    (frame,) = walk_frames(bytes(log.data), 0, len(log.data))
    with pytest.raises(KlogError, match="checksum"):
        replay_entry(replay, parse_entry(bytes(log.data), frame))
    assert replay.committed() == []


def by_schema(key: bytes, value: bytes) -> OffsetCommit | str:
    try:
        name, found = parse_coordinator_record(GROUP, key, value)
    except KlogError as error:
        return error.reason
    assert found is not None
    epoch = found.values.get("leaderEpoch", -1)
    whose = name.values["group"], name.values["topic"], name.values["partition"]
    return OffsetCommit(
        *whose, found.values["offset"], epoch, found.values["metadata"], found.values["commitTimestamp"]
    )


def cut_up(key: bytes, value: bytes) -> OffsetCommit | str:
    try:
        return parse_offset_commit(key, value)
    except KlogError as error:
        return error.reason


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_cut_up_as_the_schemas_read_it(version: int) -> None:
    rng = random.Random(version)
    for legacy in (False, True):
        key = commit_key("gruppe-ä", "t" * 40, 7, legacy=legacy)
        value = commit_value(1 << 40, 1_700_000_000_000, version=version, metadata="é" * 9, epoch=3)
        assert cut_up(key, value) == by_schema(key, value)
        for _ in range(300):
            pair = [bytearray(key), bytearray(value)]
            wounded = rng.choice(pair)
            wounded[rng.randrange(len(wounded))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            if rng.random() < 0.3:
                del wounded[rng.randrange(len(wounded)) :]
            wounded += bytes(rng.choice((0, 0, 3)))
            if pair[0][:2] in (b"\0\0", b"\0\1"):
                assert cut_up(bytes(pair[0]), bytes(pair[1])) == by_schema(bytes(pair[0]), bytes(pair[1]))


def test_a_topic_id_does_not_matter() -> None:
    values = {"offset": 5, "metadata": "", "commitTimestamp": 1, "topicId": "MDEyMzQ1Njc4OUFCQ0RFRg"}
    value = build_version_prefixed("OffsetCommitValue", 4, values)
    assert parse_offset_commit(commit_key(), value).offset == 5


@given(st.binary(max_size=40))
def test_the_end_of_a_key_lies_in_it(key: bytes) -> None:
    assert min(2, len(key)) <= end_of_key(key) <= max(2, len(key))


def test_bytes_behind_a_key_are_not_of_it() -> None:
    assert end_of_key(commit_key() + b"more") == len(commit_key())
