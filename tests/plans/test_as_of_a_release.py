"""What another release than 4.3.1 does with a partition, rule by rule (broker/releases.py)."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from appending import appended, follower, leader, plan_of, replica
from deciding import decided
from loading import CONFIG, NOW_MS, data, make, result_of
from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.releases import Release
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.indexes import OFFSET_ENTRIES
from klogtool.format.message import build_message_set
from klogtool.plans.plan import Plan
from klogtool.render.words import words

Path = pathlib.Path
COMPACT = {**CONFIG, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
ALL = 1 << 20


def compacted(folder: Path, kafka: str, config: dict[str, str] = COMPACT, **asked: Any) -> Plan:
    (plan,) = decided("compact", folder, {"now_ms": NOW_MS, "jobs": 1, "config": config, "kafka": kafka, **asked})
    return plan


def sizes(plan: Plan) -> list[int]:
    """Of the logs that are left, by base offset."""
    return [len(content) for name, content in sorted(result_of(plan).items()) if name.endswith(".log")]


def loaded(folder: Path, kafka: Release, config: dict[str, str] = CONFIG, **given: Any) -> LoadedPartition:
    return load(str(folder), Circumstances(now_ms=NOW_MS, config=config, kafka=kafka, **given), jobs=1)


# ---------------------------------------------------------------- the cleaner


@pytest.fixture
def overwritten(tmp_path: Path) -> Path:
    """The active segment, the second one, overwrites nothing; the last batch of the first one has no key."""
    keyless = build_batch([Record(1, NOW_MS, None, b"v")])
    return make(tmp_path / "t-0", {0: [data(0), keyless], 2: [data(2)]})


@pytest.mark.parametrize(
    ("kafka", "high_watermark", "left"),
    [("3.6.2", 3, 0), ("3.9.1", 3, 0), ("3.9.2", 3, 61), ("4.3.1", 3, 61), ("4.4.0", 3, 0), ("4.4.0", 2, 61)],
)
def test_the_last_batch_of_the_range_stays_or_goes(
    overwritten: Path, kafka: str, high_watermark: int, left: int
) -> None:
    cleaned = compacted(overwritten, kafka, high_watermark=high_watermark)
    assert sizes(cleaned) == [len(data(0)) + left, len(data(2))]


def test_the_plan_names_the_high_watermark_where_it_decides(overwritten: Path) -> None:
    cleaned = compacted(overwritten, "4.4.0", high_watermark=2)
    assert "high watermark: 2, as given" in map(words, cleaned.notes)
    told = "an emptied batch stays only if it ends at the high watermark, 2 (--high-watermark)"
    assert told in map(words, cleaned.notes)
    assert told not in map(words, compacted(overwritten, "4.3.1", high_watermark=2).notes)
    assert [row["high_watermark"] for row in cleaned.answer["passes"]] == [2]


@pytest.mark.parametrize(("kafka", "magic"), [("3.9.2", 1), ("4.0.1", 2), ("4.4.0", 2)])
def test_old_formats_stay_or_become_magic_2(tmp_path: Path, kafka: str, magic: int) -> None:
    old = build_message_set([Record(n, NOW_MS, b"key %d" % n, b"v") for n in range(2)], magic=1)
    folder = make(tmp_path / "t-0", {0: [old], 2: [data(2)]})
    log = next(content for name, content in result_of(compacted(folder, kafka)).items() if name.endswith("0.log"))
    assert log[16] == magic


@pytest.mark.parametrize(("kafka", "fails"), [("3.9.1", False), ("3.9.2", True), ("4.3.1", True), ("4.4.0", False)])
def test_an_old_batch_that_would_have_to_stay_empty_ends_the_cleaner(tmp_path: Path, kafka: str, fails: bool) -> None:
    old = build_message_set([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")], magic=1)
    folder = make(tmp_path / "t-0", {0: [old], 2: [data(2)]})
    if not fails:
        compacted(folder, kafka)
        return
    with pytest.raises(Corrupt) as refused:
        compacted(folder, kafka)
    assert refused.value.kafka_class == "IllegalStateException"


# ---------------------------------------------------------------- appending


@pytest.mark.parametrize(("kafka", "is_refused"), [("3.9.2", False), ("4.0.1", True)])
def test_a_timestamp_far_ahead(tmp_path: Path, kafka: str, is_refused: bool) -> None:
    ahead = build_batch([Record(0, NOW_MS + 7_200_000, b"k", b"v")])
    (row,) = appended(tmp_path / "t-0", leader(ahead), as_of=kafka)
    assert ("error" in row) is is_refused


@pytest.mark.parametrize(("kafka", "last_offset"), [("3.9.0", 2), ("3.9.1", 0), ("4.3.1", 0)])
def test_batches_of_a_later_leader(tmp_path: Path, kafka: str, last_offset: int) -> None:
    sets = replica(0, epoch=3) + replica(1, epoch=5) + replica(2, epoch=5)
    (row,) = appended(tmp_path / "t-0", follower(sets, leader_epoch=4), as_of=kafka)
    assert row["last_offset"] == last_offset


@pytest.mark.parametrize(("kafka", "is_refused"), [("3.9.2", False), ("4.1.1", False), ("4.2.0", True)])
def test_a_marker_of_the_producers_own_epoch(tmp_path: Path, kafka: str, is_refused: bool) -> None:
    header = {"producer_id": 7, "producer_epoch": 1, "is_transactional": True}
    begun = build_batch([Record(0, NOW_MS, b"k", b"v")], base_sequence=0, **header)
    value = build_end_transaction_marker(EndTransactionMarker(ControlRecordType.COMMIT, 0))
    record = Record(0, NOW_MS, build_control_key(ControlRecordType.COMMIT), value)
    ended = build_batch([record], is_control=True, **header)
    calls = [leader(begun), leader(ended, origin="coordinator", transaction_version=2)]
    *_, row = appended(tmp_path / "t-0", *calls, as_of=kafka)
    assert ("error" in row) is is_refused


@pytest.mark.parametrize(
    ("kafka", "entries"), [("3.9.0", [(4, 148)]), ("3.9.1", [(1, 74), (2, 148), (3, 222), (4, 296)])]
)
def test_an_index_entry_for_each_batch_or_for_a_whole_set(
    tmp_path: Path, kafka: str, entries: list[tuple[int, int]]
) -> None:
    assert len(replica(0)) == 74
    sets = [replica(0) + replica(1), replica(2) + replica(3) + replica(4)]
    plan = plan_of(tmp_path / "t-0", *map(follower, sets), as_of=kafka, index_interval_bytes=0)
    index = next(content for name, content in result_of(plan).items() if name.endswith(".index"))
    assert list(OFFSET_ENTRIES.unpack(index)) == entries


@pytest.mark.parametrize(("kafka", "entries"), [("3.9.0", 0), ("3.9.1", 2)])
def test_index_entries_of_a_cleaned_segment(tmp_path: Path, kafka: str, entries: int) -> None:
    """The cleaner writes all three batches at once; the first write into a file gets no entry."""
    made = [build_batch([Record(n, NOW_MS + n, b"key %d" % n, b"v")]) for n in range(3)]
    folder = make(tmp_path / "t-0", {0: made, 3: [data(3)]})
    index = result_of(compacted(folder, kafka))[f"{0:020d}.index"]
    assert len(list(OFFSET_ENTRIES.unpack(index))) == entries


# ---------------------------------------------------------------- reading


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Batches 0, 1-3, 6."""
    return make(tmp_path / "t-0", {0: [data(0), data(1, records=3, epoch=1), data(6, epoch=2)]})


@pytest.mark.parametrize(("kafka", "inside", "in_gap"), [("3.9.2", 2, 5), ("4.0.1", 1, 6)])
def test_a_high_watermark_inside_a_batch_or_in_a_gap(log: Path, kafka: Release, inside: int, in_gap: int) -> None:
    ends = [loaded(log, kafka, high_watermark=at).read(0, ALL, isolation="high_watermark").fetched.end for at in (2, 5)]
    assert ends == [inside, in_gap]


@pytest.mark.parametrize(("kafka", "offset", "epoch"), [("3.6.2", 3, 2), ("3.8.1", 1, 1), ("4.3.1", 1, 1)])
def test_the_largest_timestamp(tmp_path: Path, kafka: Release, offset: int, epoch: int) -> None:
    latest = data(1, records=3, time_ms=NOW_MS + 10**6)
    folder = make(tmp_path / "t-0", {0: [data(0), latest, data(4, epoch=2)]})
    found = loaded(folder, kafka).lookup_timestamp("max").found
    assert found is not None
    assert (found.timestamp, found.offset, found.leader_epoch) == (NOW_MS + 10**6, offset, epoch)


@pytest.mark.parametrize(("kafka", "base"), [("3.9.2", 0), ("4.0.1", 0), ("4.1.1", 5), ("4.3.1", 5)])
def test_an_offset_that_two_batches_reach(tmp_path: Path, kafka: Release, base: int) -> None:
    """The last offset of the first batch is above the base of the next one (KAFKA-18989)."""
    reaching = build_batch([Record(n, NOW_MS, b"k", b"v") for n in (0, 9)])
    folder = make(tmp_path / "t-0", {0: [reaching, data(5), data(10)]})
    (folder / f"{0:020d}.index").write_bytes(b"")  # else it leads to the batch
    assert loaded(folder, kafka, last_stop="clean").lookup_offset(5).base_offset == base


def test_a_question_that_the_release_does_not_know(log: Path) -> None:
    assert loaded(log, "3.9.0").lookup_timestamp("latest-tiered").found is not None
    with pytest.raises(Refused) as refused:
        loaded(log, "3.8.1").lookup_timestamp("latest-tiered")
    assert refused.value.kafka_class == "UnsupportedVersionException"


# ---------------------------------------------------------------- max.decompressed.message.bytes

LIMIT = {"max.decompressed.message.bytes": "50"}
LARGE = [Record(0, NOW_MS, b"a", b"v" * 20), Record(1, NOW_MS + 5, b"b", b"v" * 60)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(("kafka", "is_refused"), [("4.3.1", False), ("4.4.0", True)])
def test_an_append_of_a_record_that_is_too_large(tmp_path: Path, kafka: str, codec: str, is_refused: bool) -> None:
    (row,) = appended(tmp_path / "t-0", leader(build_batch(LARGE, codec=codec)), as_of=kafka, **_underscored(LIMIT))
    told = "Invalid record size: 67 exceeds the configured maximum record size of 50."
    assert row.get("error") == ({"class": "InvalidRecordException", "message": told} if is_refused else None)


def test_a_record_that_is_not_compressed_may_be_as_large_as_a_batch(tmp_path: Path) -> None:
    (row,) = appended(tmp_path / "t-0", leader(build_batch(LARGE)), as_of="4.4.0", **_underscored(LIMIT))
    assert "error" not in row


def test_a_lookup_reads_up_to_the_record_that_is_too_large(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [build_batch(LARGE, codec="gzip")]})
    log = loaded(folder, "4.4.0", {**CONFIG, **LIMIT})
    assert (found := log.lookup_timestamp(NOW_MS).found) is not None
    assert found.offset == 0
    with pytest.raises(Corrupt, match="exceeds the configured maximum") as failed:
        log.lookup_timestamp(NOW_MS + 1)
    assert failed.value.kafka_class == "InvalidRecordException"
    assert loaded(folder, "4.3.1", {**CONFIG, **LIMIT}).lookup_timestamp(NOW_MS + 1).found is not None


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_inside_a_wrapper_are_all_read_first(tmp_path: Path, magic: int) -> None:
    folder = make(tmp_path / "t-0", {0: [build_message_set(LARGE, magic=magic, codec="gzip")], 2: [data(2)]})
    with pytest.raises(Corrupt, match="exceeds the configured maximum"):
        compacted(folder, "4.4.0", {**COMPACT, **LIMIT})


def test_the_cleaner_fails_at_a_record_that_is_too_large(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [build_batch(LARGE, codec="zstd")], 2: [data(2)]})
    with pytest.raises(KlogError) as failed:
        compacted(folder, "4.4.0", {**COMPACT, **LIMIT})
    assert failed.value.kafka_class == "InvalidRecordException"
    assert compacted(folder, "4.3.1", {**COMPACT, **LIMIT}).answer["passes"]
    assert compacted(folder, "4.4.0", {**COMPACT, "max.decompressed.message.bytes": "67"}).answer["passes"]


@pytest.mark.parametrize(
    ("kafka", "note"),
    [
        ("4.4.0", "max.decompressed.message.bytes: 50, as given"),
        ("4.3.1", "max.decompressed.message.bytes: ignored, because Kafka 4.3.1 does not know it"),
    ],
)
def test_a_limit_that_the_release_does_not_know_is_told(tmp_path: Path, kafka: str, note: str) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0)]})
    assert note in map(words, compacted(folder, kafka, {**COMPACT, **LIMIT}).notes)
    assert not any("decompressed" in told for told in map(words, compacted(folder, kafka).notes))


def _underscored(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}
