"""What a fetch gets: UnifiedLog.read, LocalLog.read, LogSegment.read and the consumer's filter, rule by rule."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import pytest
from loading import CONFIG, NOW_MS, data, make, marker, name_of

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition, load
from klogtool.errors import Changed, Refused
from klogtool.format.indexes import AbortedTxn

Path = pathlib.Path
ALL = 1 << 20


def loaded(folder: Path, **given: Any) -> LoadedPartition:
    return load(str(folder), Circumstances(now_ms=NOW_MS, config=CONFIG, **given), jobs=1)


def transactional(offset: int, producer_id: int, sequence: int = 0) -> bytes:
    return data(offset, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def offsets(found: FetchedBytes, **how: bool) -> list[int]:
    return [batch.base_offset for batch in found.batches(**how) if batch.base_offset is not None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Segments 0 and 4, of batches 0, 1-3 and 4, 6."""
    return make(tmp_path / "t-0", {0: [data(0), data(1, records=3)], 4: [data(4), data(6)]})


def test_from_the_batch_that_holds_the_offset_to_the_end_of_its_segment(log: Path) -> None:
    found = loaded(log).read(2, ALL)
    raw = (log / name_of(0, "log")).read_bytes()
    first = len(data(0))
    assert (found.fetched.segment, found.fetched.position, found.fetched.base_offset) == (0, first, 1)
    assert found.data() == raw[first:]
    assert found.sha256() == hashlib.sha256(raw[first:]).hexdigest()
    assert read_content(found.content) == raw[first:]
    assert offsets(found) == [1]
    assert [record.offset for record in found.records()] == [2, 3]


def test_an_offset_that_is_gone_reads_from_the_next_batch(log: Path) -> None:
    assert offsets(loaded(log).read(5, ALL)) == [6]


@pytest.mark.parametrize("max_bytes", [0, 1, 40, len(data(4)) - 1])
def test_less_than_a_batch(log: Path, max_bytes: int) -> None:
    """testReadWithTooSmallMaxLength, testReadWithMinMessage."""
    cut = loaded(log).read(4, max_bytes)
    assert cut.fetched.size == max_bytes
    assert cut.fetched.first_entry_incomplete == (max_bytes > 0)
    assert cut.fetched.needed_bytes == len(data(4))
    assert offsets(cut) == []
    whole = loaded(log).read(4, max_bytes, min_one_message=True)
    assert (whole.fetched.size, whole.fetched.first_entry_incomplete) == (len(data(4)), False)
    assert whole.fetched.needed_bytes is None
    assert loaded(log).read(4, cut.fetched.needed_bytes or 0).data() == whole.data()


def test_the_last_batch_is_cut(log: Path) -> None:
    found = loaded(log).read(4, len(data(4)) + 5)
    assert (found.fetched.size, found.fetched.first_entry_incomplete) == (len(data(4)) + 5, False)
    assert offsets(found) == [4]


def test_out_of_range(log: Path) -> None:
    for offset, given in ((-1, {}), (8, {}), (3, {"log_start_offset": 4})):
        with pytest.raises(Refused) as refused:
            loaded(log, **given).read(offset, ALL)
        assert refused.value.kafka_class == "OffsetOutOfRangeException"
    with pytest.raises(Refused) as refused:
        loaded(log).read(0, -1)
    assert refused.value.kafka_class == "IllegalArgumentException"


def test_at_the_end_there_is_nothing(log: Path) -> None:
    for max_bytes in (ALL, -1):
        found = loaded(log).read(7, max_bytes).fetched
        assert (found.base_offset, found.segment, found.size, found.needed_bytes) == (7, 4, 0, None)
        assert found.position == len(data(4)) + len(data(6))


def test_never_past_the_high_watermark(log: Path) -> None:
    for high_watermark, expected in ((7, [4, 6]), (6, [4]), (5, [4]), (4, []), (2, [])):
        asked = loaded(log, high_watermark=high_watermark)
        assert offsets(asked.read(4, ALL, isolation="high_watermark")) == expected
        assert offsets(asked.read(4, ALL)) == [4, 6]


def test_a_high_watermark_inside_of_a_batch_is_where_the_batch_begins(log: Path) -> None:
    asked = loaded(log, high_watermark=2)
    found = asked.read(0, ALL, isolation="high_watermark")
    assert (offsets(found), found.fetched.end) == ([0], 1)
    nothing = asked.read(2, ALL, isolation="high_watermark").fetched
    assert (nothing.size, nothing.base_offset, nothing.position) == (0, 1, len(data(0)))


def test_where_all_up_to_the_end_is_gone_nothing_is_read(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0)], 5: b""})
    found = loaded(folder).read(2, ALL, isolation="read_committed").fetched
    assert (found.base_offset, found.segment, found.position, found.size) == (5, 5, 0, 0)
    assert found.aborted is None


def test_read_committed_ends_where_a_transaction_is_open(tmp_path: Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0), transactional(1, 7), data(2)]})
    asked = loaded(folder)
    assert asked.last_stable_offset == 1
    assert offsets(asked.read(0, ALL, isolation="read_committed")) == [0]
    assert asked.read(1, ALL, isolation="read_committed").fetched.aborted == ()
    assert offsets(asked.read(0, ALL, isolation="high_watermark")) == [0, 1, 2]


@pytest.fixture
def with_aborts(tmp_path: Path) -> Path:
    """Producer 7 aborts 1 (marker 3), commits 5 (marker 6); 8 aborts 2 and 4 (marker 8), in the next segment."""
    first = [data(0), transactional(1, 7), transactional(2, 8), marker(3, 7), transactional(4, 8, 1)]
    second = [transactional(5, 7, 1), marker(6, 7, aborts=False), data(7), marker(8, 8), data(9)]
    return make(tmp_path / "t-0", {0: first, 5: second})


def test_aborted_transactions_of_all_segments_that_matter(with_aborts: Path) -> None:
    asked = loaded(with_aborts)
    found = asked.read(0, ALL, isolation="read_committed")
    assert found.fetched.aborted == (AbortedTxn(0, 7, 1, 3, 2), AbortedTxn(0, 8, 2, 8, 9))
    assert asked.read(0, ALL).fetched.aborted is None
    assert offsets(found) == [0, 1, 2, 3, 4]
    assert offsets(found, committed_only=True) == [0]
    later = asked.read(5, ALL, isolation="read_committed")
    assert later.fetched.aborted == (AbortedTxn(0, 8, 2, 8, 9),)
    assert offsets(later, committed_only=True) == [5, 7, 9]


def test_an_abort_marker_ends_the_transaction_and_another_one_may_begin(tmp_path: Path) -> None:
    batches = [transactional(0, 7), marker(1, 7), transactional(2, 7, 1), marker(3, 7, aborts=False)]
    folder = make(tmp_path / "t-0", {0: [*batches, transactional(4, 7, 2), marker(5, 7)]})
    found = loaded(folder).read(0, ALL, isolation="read_committed")
    assert [txn.first_offset for txn in found.fetched.aborted or ()] == [0, 4]
    assert offsets(found, committed_only=True) == [2]


def test_what_is_cut_of_a_log_in_loading_is_not_read(log: Path) -> None:
    path = log / name_of(4, "log")
    path.write_bytes(path.read_bytes()[:-1])
    assert offsets(loaded(log, last_stop="unclean").read(4, ALL)) == [4]
    assert loaded(log, last_stop="unclean").read(4, ALL).data() == data(4)
    # After a clean stop nobody looks: the last index entry leads to the torn batch, and the log ends at its base.
    assert loaded(log, last_stop="clean").log_end_offset == 4


def test_a_log_that_was_cut_meanwhile_is_told(log: Path) -> None:
    found = loaded(log).read(0, ALL)
    path = log / name_of(0, "log")
    path.write_bytes(path.read_bytes()[:-30])
    for look in (found.sha256, found.data, lambda: list(found.batches())):
        with pytest.raises(Changed) as told:
            look()
        assert told.value.path == str(path)


def test_nothing_is_written(with_aborts: Path) -> None:
    before = Draft.of(str(with_aborts)).before
    asked = loaded(with_aborts)
    list(asked.read(0, ALL, isolation="read_committed").records(committed_only=True))
    asked.lookup_timestamp("max"), asked.lookup_offset(3, explain=True)
    assert Draft.of(str(with_aborts)).before == before
