"""Finding offsets, times and leader epochs as a broker does, rule by rule (UnifiedLog, LogSegment, OffsetIndex).

Logs are of a few batches, made by `loading.make`; records are a second apart, by offset, from NOW_MS on.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import pytest
from damage import heal_checksums
from loading import CONFIG, NOW_MS, data, make, name_of

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.index_files import READ_WHOLE_BYTES, OffsetIndex, TimeIndex
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.broker.unified_log.lookup import (
    IndexLookup,
    Scan,
    SegmentStep,
    TimeIndexLookup,
    TimestampAndOffset,
)
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import LOG_APPEND_TIME, RECORD_BATCH_OVERHEAD, Record
from klogtool.format.codecs import compress
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.indexes import OffsetIndexEntry
from klogtool.format.message import build_message, build_message_set

Path = pathlib.Path
EPOCH = 1  # of `data`


def at(offset: int) -> int:
    """The time of the record of an offset, as `data` gives it."""
    return NOW_MS + 1000 * offset


def loaded(folder: Path, **given: Any) -> LoadedPartition:
    return load(str(folder), Circumstances(now_ms=NOW_MS, config=CONFIG, **given), jobs=1)


def place(offset: int, time_ms: int | None = None) -> TimestampAndOffset:
    return TimestampAndOffset(at(offset) if time_ms is None else time_ms, offset, EPOCH)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Segments 0, 4 and 10: batches 0-1, 2-3; 4, 6-9 (5 is gone); 10-11, 12."""
    batches = {0: [data(0, records=2), data(2, records=2)], 4: [data(4), data(6, records=4)]}
    return make(tmp_path / "t-0", {**batches, 10: [data(10, records=2), data(12)]})


# --- offsets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "segment", "base_offset", "last_offset"),
    [(0, 0, 0, 1), (1, 0, 0, 1), (3, 0, 2, 3), (4, 4, 4, 4), (5, 4, 6, 9), (9, 4, 6, 9), (11, 10, 10, 11)],
)
def test_the_batch_that_holds_an_offset_or_follows_it(
    log: Path, offset: int, segment: int, base_offset: int, last_offset: int
) -> None:
    found = loaded(log).lookup_offset(offset)
    assert (found.segment, found.base_offset, found.last_offset) == (segment, base_offset, last_offset)
    raw = (log / name_of(segment, "log")).read_bytes()[found.position :]  # type: ignore[misc]
    assert int.from_bytes(raw[:8], "big") == base_offset
    assert int.from_bytes(raw[8:12], "big") + 12 == found.size


def test_the_end_is_nothing_and_what_is_outside_is_refused(log: Path) -> None:
    asked = loaded(log, log_start_offset=3)
    assert asked.lookup_offset(13).is_end
    for offset in (-1, 0, 2, 14):
        with pytest.raises(Refused) as refused:
            asked.lookup_offset(offset)
        assert refused.value.kafka_class == "OffsetOutOfRangeException"
        assert refused.value.path is not None
    assert asked.lookup_offset(3).base_offset == 2


def test_where_all_behind_an_offset_is_gone_it_goes_on_in_the_next_segment(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0), data(1)], 20: [data(25)]})
    found = loaded(folder).lookup_offset(7, explain=True)
    assert (found.segment, found.base_offset, found.floor_segment) == (20, 25, 0)
    segments = [step.segment for step in found.steps if isinstance(step, SegmentStep)]
    assert segments == [0, 20]
    assert found.record == place(25)


def test_the_steps_of_a_search(log: Path) -> None:
    found = loaded(log).lookup_offset(8, explain=True)
    first = len(data(4))
    assert found.index_entry == OffsetIndexEntry(4, 0)
    assert found.record == place(8)
    assert found.steps == (
        SegmentStep(name_of(4, "log"), 4, 2, 3),
        IndexLookup(name_of(4, "index"), None, 1, 4, 0),
        Scan(name_of(4, "log"), 0, 2, first + len(data(6, records=4)), 3),
    )
    last = loaded(log).lookup_offset(9, explain=True)
    assert last.steps[1] == IndexLookup(name_of(4, "index"), 0, 1, 9, first)
    assert last.steps[2] == Scan(name_of(4, "log"), first, 1, len(data(6, records=4)), 4)


def test_a_batch_that_cannot_be_read_is_found_without_its_record(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0), data(1, codec="gzip")]})
    path = folder / name_of(0, "log")
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 0xFF
    path.write_bytes(raw)
    found = loaded(folder, last_stop="clean").lookup_offset(1, explain=True)
    assert (found.base_offset, found.record) == (1, None)


def test_damage_behind_what_is_found_does_not_matter_and_before_it_does(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0), data(1), data(2)], 3: [data(3)]})
    path = folder / name_of(0, "log")
    raw = bytearray(path.read_bytes())
    second = len(data(0))
    raw[second + 8 : second + 12] = bytes(4)  # a length of 0
    path.write_bytes(raw)
    (folder / name_of(0, "index")).write_bytes(b"")
    asked = loaded(folder, last_stop="clean")
    assert asked.lookup_offset(0, explain=True).base_offset == 0
    with pytest.raises(Corrupt) as found:
        asked.lookup_offset(2)
    assert (found.value.path, found.value.position) == (str(path), second)


def test_compressed_messages_are_found_by_their_inner_offsets(tmp_path: Path) -> None:
    records = [Record(n, at(n), b"k", b"v") for n in range(3)]
    for magic in (0, 1):
        folder = make(tmp_path / f"t-{magic}", {0: build_message_set(records, magic=magic, codec="gzip")})
        found = loaded(folder).lookup_offset(1, explain=True)
        assert (found.base_offset, found.last_offset) == (0, 2)
        assert found.record is not None
        assert (found.record.offset, found.record.leader_epoch) == (1, None)


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4, 6, 7, 9, 10, 12])
def test_the_record_of_a_time_and_the_first_one_after_it(log: Path, offset: int) -> None:
    asked = loaded(log)
    assert asked.lookup_timestamp(at(offset)).found == place(offset)
    assert asked.lookup_timestamp(at(offset) - 999).found == place(offset)


def test_before_the_first_and_after_the_last_time(log: Path) -> None:
    asked = loaded(log)
    assert asked.lookup_timestamp(0).found == place(0)
    assert asked.lookup_timestamp(at(12) + 1).found is None


def test_words_and_kafkas_numbers_for_them(log: Path) -> None:
    asked = loaded(log, log_start_offset=3)
    expected = {
        "earliest": TimestampAndOffset(-1, 3, EPOCH),
        "earliest-local": TimestampAndOffset(-1, 3, EPOCH),
        "latest": TimestampAndOffset(-1, 13, EPOCH),
        "latest-tiered": TimestampAndOffset(-1, -1, -1),
        "earliest-pending-upload": TimestampAndOffset(-1, -1, -1),
        "max": place(12),
    }
    for word, number in (("latest", -1), ("earliest", -2), ("max", -3), ("earliest-local", -4), ("latest-tiered", -5)):
        assert asked.lookup_timestamp(word).found == expected[word]
        assert asked.lookup_timestamp(number).found == expected[word]
    assert asked.lookup_timestamp("earliest-pending-upload").found == expected["latest-tiered"]
    with pytest.raises(KlogError):
        asked.lookup_timestamp("yesterday")


def test_what_only_remote_storage_tells_is_unknown(tmp_path: Path) -> None:
    """fetchOffsetByTimestamp: a broker looks into remote storage first, and asks RemoteLogManager how far it goes."""
    partition = make(tmp_path / "t-0", {4: [data(4)], 10: [data(10)]})
    settings = {**CONFIG, "remote.storage.enable": "true"}
    for start, at_least, not_searched in ((2, 3, (2, 3)), (4, -1, None)):
        asked = load(str(partition), Circumstances(now_ms=NOW_MS, config=settings, log_start_offset=start), jobs=1)
        tiered, pending = (asked.lookup_timestamp(word) for word in ("latest-tiered", "earliest-pending-upload"))
        assert (tiered.found, tiered.at_least, pending.found, pending.at_least) == (None, at_least, None, 4)
        for time, found in ((0, place(4)), (at(11), None)):
            result = asked.lookup_timestamp(time)
            assert (result.found, result.not_searched) == (found, not_searched)
        assert asked.lookup_timestamp("max").not_searched is None


def test_of_times_out_of_order_the_first_in_the_log_and_not_below_the_log_start(tmp_path: Path) -> None:
    times = (5, 9, 2, 9, 1, 7)
    batches = [data(n, time_ms=NOW_MS + time) for n, time in enumerate(times)]
    asked = loaded(make(tmp_path / "t-0", {0: batches}))
    assert asked.lookup_timestamp(NOW_MS + 6).found == place(1, NOW_MS + 9)
    assert asked.lookup_timestamp(NOW_MS + 9).found == place(1, NOW_MS + 9)
    assert asked.lookup_timestamp(NOW_MS + 1).found == place(0, NOW_MS + 5)
    assert asked.lookup_timestamp("max").found == place(1, NOW_MS + 9)
    later = loaded(tmp_path / "t-0", log_start_offset=2)
    assert later.lookup_timestamp(NOW_MS + 9).found == place(3, NOW_MS + 9)


def test_only_the_first_segment_that_is_said_to_reach_a_time_is_searched(tmp_path: Path) -> None:
    """Its log start cut its records off: nothing is found, though the next segment has such a record."""
    folder = make(tmp_path / "t-0", {0: [data(0, time_ms=NOW_MS + 50), data(1)], 2: [data(2, time_ms=NOW_MS + 90)]})
    assert loaded(folder, log_start_offset=2).lookup_timestamp(NOW_MS + 40).found is None


def test_a_segment_without_times_counts_by_the_time_of_its_file(tmp_path: Path) -> None:
    old = build_message_set([Record(n, -1, b"k", b"v") for n in range(2)], magic=0)
    folder = make(tmp_path / "t-0", {0: old, 2: [data(2)]})
    log, at_ms = folder / name_of(0, "log"), at(2)
    os.utime(log, ns=(at_ms * 10**6, at_ms * 10**6))
    late = loaded(folder, last_stop="clean").lookup_timestamp(at_ms)
    assert late.found is None
    assert late.steps[0] == SegmentStep(log.name, 0, 1, 2, at_ms, by_mtime=True)
    os.utime(log, ns=(at_ms * 10**6 - 1, at_ms * 10**6 - 1))
    assert loaded(folder, last_stop="clean").lookup_timestamp(at_ms).found == place(2)


def test_the_largest_time_of_a_log_without_times_is_not_found(tmp_path: Path) -> None:
    old = build_message_set([Record(0, -1, b"k", b"v")], magic=0)
    assert loaded(make(tmp_path / "t-0", {0: old})).lookup_timestamp("max").found is None


def test_log_append_time_is_the_time_of_all_records_of_a_batch(tmp_path: Path) -> None:
    batch = data(0, records=3, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW_MS + 7)
    asked = loaded(make(tmp_path / "t-0", {0: [batch]}))
    assert asked.lookup_timestamp(NOW_MS + 7).found == place(0, NOW_MS + 7)
    assert asked.lookup_timestamp("max").found == place(0, NOW_MS + 7)
    assert asked.lookup_timestamp(NOW_MS + 8).found is None


def test_the_largest_time_is_found_ahead_of_a_damage_in_the_same_compressed_batch(tmp_path: Path) -> None:
    """A broker reads the batch as far as it has to for `max` (streamingIterator); for a time it reads all of it."""
    plain = data(0, records=3, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW_MS + 7)
    body = bytearray(plain[RECORD_BATCH_OVERHEAD:])
    body[1 + body[0] // 2] = 1  # the length of the second record: -1
    batch = bytearray(plain[:RECORD_BATCH_OVERHEAD] + compress("gzip", bytes(body), magic=2))
    batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
    batch[22] |= 1  # gzip
    heal_checksums(batch)
    asked = loaded(make(tmp_path / "t-0", {0: [bytes(batch)], 3: [data(3, time_ms=NOW_MS)]}), last_stop="clean")
    assert asked.lookup_timestamp("max").found == place(0, NOW_MS + 7)
    with pytest.raises(Corrupt):
        asked.lookup_timestamp(NOW_MS + 7)


def test_keys_and_values_of_messages_are_not_looked_at_for_a_time(tmp_path: Path) -> None:
    good, bad = (build_message(n, b"k", b"value", magic=1, timestamp=at(n)) for n in range(2))
    too_long = bad[: -len(b"value") - 4] + (1 << 20).to_bytes(4, "big") + b"value"
    wrapper = build_message(1, None, compress("gzip", good + too_long, magic=1), magic=1, timestamp=at(1), attributes=1)
    asked = loaded(make(tmp_path / "t-0", {0: [wrapper], 2: [data(2, time_ms=at(0))]}), last_stop="clean")
    assert asked.lookup_timestamp("max").found == TimestampAndOffset(at(1), 1, None)
    assert asked.lookup_timestamp(at(1)).found == TimestampAndOffset(at(1), 1, None)


def test_the_steps_of_a_search_by_time(log: Path) -> None:
    found = loaded(log).lookup_timestamp(at(9))
    first = len(data(4))
    assert found.steps == (
        SegmentStep(name_of(4, "log"), 4, 2, 3, at(9)),
        TimeIndexLookup(name_of(4, "timeindex"), 0, 1, at(9), 9),
        IndexLookup(name_of(4, "index"), 0, 1, 9, first),
        Scan(name_of(4, "log"), first, 1, len(data(6, records=4)), 4),
    )


# --- leader epochs ----------------------------------------------------------------------------------------------------


def test_where_an_epoch_ended(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0, epoch=2), data(1, epoch=2), data(2, epoch=5)]})
    asked = loaded(folder)
    ends = {epoch: asked.end_offset_for_epoch(epoch) for epoch in (-1, 0, 2, 3, 5, 6)}
    assert {epoch: (end.found_epoch, end.end_offset) for epoch, end in ends.items()} == {
        -1: (None, None),
        0: (0, 0),
        2: (2, 2),
        3: (2, 2),
        5: (5, 3),
        6: (None, None),
    }


# --- indexes ----------------------------------------------------------------------------------------------------------


def opened_index(folder: Path, entries: int, *, base: int = 45) -> tuple[Draft, OffsetIndex, TimeIndex]:
    draft = Draft(str(folder), {})
    index, time_index = (kind(draft, name, base, 1 << 20) for kind, name in ((OffsetIndex, "i"), (TimeIndex, "t")))
    for n in range(entries):
        index.append(base + n, 10 * n)
        time_index.maybe_append(10 * (n + 1), base + n)
    for one in (index, time_index):
        one.trim_to_valid_size()
        one.write_back()
    return draft, OffsetIndex(draft, "i", base, 1 << 20), TimeIndex(draft, "t", base, 1 << 20)


@pytest.mark.parametrize(
    ("position", "offset"), [(5, 46), (10, 46), (22, 47), (23, 47), (24, 48), (34, 48), (38, None), (237, None)]
)
def test_upper_bound_of_a_fetch(tmp_path: Path, position: int, offset: int | None) -> None:
    """OffsetIndexTest.testFetchUpperBoundOffset."""
    index = OffsetIndex(Draft(str(tmp_path), {}), "i", 45, 240)
    assert index.find_upper_bound(5) is None
    for entry in ((45, 0), (46, 10), (47, 23), (48, 37)):
        index.append(*entry)
    found = index.find_upper_bound(position)
    assert (found and found.offset) == offset


def test_a_large_index_is_searched_as_a_small_one(tmp_path: Path) -> None:
    entries = 3 * READ_WHOLE_BYTES // 8
    _, index, time_index = opened_index(tmp_path, entries)
    rng = random.Random(1)
    for target in [44, 45, 44 + entries, 45 + entries, *(rng.randrange(45, 45 + entries) for _ in range(50))]:
        below = min(target, 44 + entries)
        assert index.lookup(target).offset == max(below, 45)
        assert time_index.lookup(10 * (target - 44) + 5).timestamp == (10 * (below - 44) if below >= 45 else -1)


def test_an_index_that_was_only_looked_at_is_written_back_unread(tmp_path: Path) -> None:
    path = tmp_path / name_of(0, "index")
    path.write_bytes(bytes(range(8)) * (READ_WHOLE_BYTES // 4) + b"odd")
    draft = Draft.of(str(tmp_path))
    index = OffsetIndex(draft, path.name, 0, 1 << 20)
    index.resize_to_full()
    index.trim_to_valid_size()
    index.write_back()
    assert draft.read(path.name) == path.read_bytes()[:-3]
