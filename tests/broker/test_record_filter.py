"""What the cleaner keeps of a batch, and what it does not build (Cleaner.shouldRetainRecord, MemoryRecordsBuilder)."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.broker.cleaning.offset_map import OffsetMap
from klogtool.broker.cleaning.record_filter import FilterTerms, KeptBatch, filter_batch
from klogtool.errors import Refused
from klogtool.format.batch import Record
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.message import build_message, build_message_set
from klogtool.log.segment import Segment

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
VALUES = (None, b"", b"v", b"v" * 200)


def terms_for(*keys: bytes, latest: int = 100, **more: Any) -> FilterTerms:
    """Terms of a pass whose map has each key at its place in this order, and reaches to `latest`."""
    offsets = OffsetMap(24 * 100, 1.0)
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    offsets.put(b"of another batch", latest)
    return FilterTerms(offsets, NOW_MS, RETENTION_MS, -1, {}, **more)


def entry_of(folder: pathlib.Path, data: bytes) -> Any:
    """The only batch of a segment."""
    path = folder / f"{0:020d}.log"
    path.write_bytes(data)
    (entry,) = Segment(str(path)).batches()
    return entry


def kept_records(folder: pathlib.Path, kept: KeptBatch | None, whole: bytes) -> list[Record]:
    return [] if kept is None else list(entry_of(folder, whole if kept.data is None else kept.data).records())


@pytest.mark.parametrize("horizon_ms", [None, NOW_MS - 1, NOW_MS, NOW_MS + 1])
def test_a_delete_horizon_is_of_tombstones_only(tmp_path: pathlib.Path, horizon_ms: int | None) -> None:
    """Whatever a batch says of its tombstones, a value stays, also one of no bytes."""
    keys = [b"k%d" % n for n in range(len(VALUES))]
    records = [Record(n, NOW_MS, key, value) for n, (key, value) in enumerate(zip(keys, VALUES, strict=True))]
    data = build_batch(records, delete_horizon_ms=horizon_ms)
    terms = terms_for(*keys)
    kept = kept_records(tmp_path, filter_batch(entry_of(tmp_path, data), terms, can_discard=False), data)
    is_gone = horizon_ms is not None and horizon_ms <= NOW_MS
    assert [record.value for record in kept] == [value for value in VALUES if value is not None or not is_gone]
    assert terms.tally.gone == ({"tombstones": 1} if is_gone else {})


@pytest.mark.parametrize("retains", [False, True])
@pytest.mark.parametrize("value", VALUES)
def test_only_a_tombstone_of_old_goes_by_the_age_of_its_segment(
    tmp_path: pathlib.Path, value: bytes | None, retains: bool
) -> None:
    message = entry_of(tmp_path, build_message(0, b"k", value, magic=1, timestamp=5))
    terms = terms_for(b"k", retains_legacy_tombstones=retains)
    assert (filter_batch(message, terms, can_discard=False) is None) == (value is None and not retains)


@pytest.mark.parametrize(
    ("offsets", "times", "header", "reason"),
    [
        ([5, 6, 6], None, {}, "Illegal offset 6 following previous offset 6"),
        ([5, 7, 6], None, {}, "Illegal offset 6 following previous offset 7"),
        ([5, 6, 7], [1, -2, 1], {}, "Invalid negative timestamp -2"),
        ([5, 6, 7], [1, 1, -2], {}, "Invalid negative timestamp -2"),
        ([5, 6, 7], None, {"is_transactional": True}, "transactional messages without a valid producer ID"),
        ([5, 6, 7], None, {"producer_id": 9, "base_sequence": 0}, "Invalid negative producer epoch"),
        ([5, 6, 7], None, {"producer_id": 9, "producer_epoch": 0}, "Invalid negative sequence number used"),
        ([5, 6, 7], [1, -1, 1], {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}, ""),
        ([5, 6, 9], None, {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}, ""),
    ],
)
def test_what_is_not_built_anew(
    tmp_path: pathlib.Path, offsets: Sequence[int], times: Sequence[int] | None, header: dict[str, Any], reason: str
) -> None:
    """A batch that loses a record is built anew. One that loses none stays as it is, whatever is wrong with it."""
    rows = zip(offsets, times or [NOW_MS] * len(offsets), strict=True)
    records = [Record(4, NOW_MS, b"old", b"v")] + [Record(at, time, b"k%d" % at, b"v") for at, time in rows]
    batch = entry_of(tmp_path, build_batch(records, base_offset=4, last_offset=9, **header))
    whole = filter_batch(batch, terms_for(latest=3), can_discard=False)
    assert whole is not None
    assert whole.data is None
    terms = terms_for(latest=4)
    terms.offsets.put(b"old", 5)
    for at in offsets:
        terms.offsets.put(b"k%d" % at, at)
    if reason:
        with pytest.raises(Refused, match=reason) as refused:
            filter_batch(batch, terms, can_discard=False)
        assert refused.value.kafka_class == "IllegalArgumentException"
    else:
        kept = filter_batch(batch, terms, can_discard=False)
        assert kept is not None
        assert kept.data is not None
        assert [record.offset for record in kept_records(tmp_path, kept, b"")] == list(offsets)


@pytest.mark.parametrize(("first", "last"), [(0, MAX_INT), (0, MAX_INT + 1), (7, MAX_INT + 7), (7, MAX_INT + 8)])
def test_messages_too_far_apart_become_no_batch(tmp_path: pathlib.Path, first: int, last: int) -> None:
    """A wrapper of magic 0 has whole offsets; a batch has their distance from the first."""
    records = [Record(at, NOW_MS, b"k", b"v") for at in (first, last)]
    wrapper = entry_of(tmp_path, build_message_set(records, magic=0, codec="gzip"))
    terms = terms_for(latest=first - 1)
    if last - first > MAX_INT:
        with pytest.raises(Refused, match=f"Maximum offset delta exceeded, base offset: {first}") as refused:
            filter_batch(wrapper, terms, can_discard=False)
        assert refused.value.kafka_class == "IllegalArgumentException"
    else:
        kept = kept_records(tmp_path, filter_batch(wrapper, terms, can_discard=False), b"")
        assert [record.offset for record in kept] == [first, last]
