"""Which producer snapshots a start writes, and where it finds a transaction that is open, where batches are gone."""

from __future__ import annotations

import pathlib

import pytest
from loading import CONFIG, NOW_MS, data, make, marker, name_of, names_of, plan, result_of, segment

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot, parse_producer_snapshot


def test_snapshots_at_the_last_two_segments_and_at_the_end(tmp_path: pathlib.Path) -> None:
    """UnifiedLog.rebuildProducerState, for logs that an older release has written."""
    folder = make(tmp_path / "t-0", {base: segment(base) for base in (0, 4, 8, 12)})
    for file in folder.glob("*.snapshot"):
        file.unlink()
    assert names_of(result_of(plan(folder, recovery_point=16)), "snapshot") == [8, 12, 16]


def loaded(folder: pathlib.Path, opened_at: int, end: int, release: str = "4.3.1") -> LoadedLog:
    """The log after a clean stop, whose snapshot has a transaction that begins at an offset."""
    entry = ProducerStateEntry(5, 0, 0, opened_at, 0, NOW_MS, 0, opened_at)
    (folder / name_of(end, "snapshot")).write_bytes(build_producer_snapshot([entry]))
    circumstances = Circumstances(now_ms=NOW_MS, config=CONFIG, last_stop=CLEAN, kafka=release)
    return load(str(folder), circumstances).log


@pytest.mark.parametrize(
    ("opened_at", "begins_at"),
    [
        (1, 0),  # in the middle of a batch
        (4, 12),  # the batches from it on have been cleaned away: in the next segment
        (10, 12),
        (13, 12),
        (14, 14),
        (16, 16),  # behind it the log has nothing
        (99, 16),
    ],
)
def test_a_transaction_begins_with_the_batch_that_is_left(
    tmp_path: pathlib.Path, opened_at: int, begins_at: int
) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0, records=4)], 10: [data(12, records=2), data(14, records=2)]})
    assert loaded(folder, opened_at, 16).first_unstable_offset == begins_at


def test_before_4_0_a_transaction_begins_at_the_offset_as_it_is(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0, records=4)]})
    assert loaded(folder, 1, 4, "3.9.2").first_unstable_offset == 1
    assert loaded(folder, 1, 4).first_unstable_offset == 0


@pytest.mark.parametrize("end", [0, 4, 8])
def test_a_snapshot_in_the_middle_needs_no_batch_below_it(tmp_path: pathlib.Path, end: int) -> None:
    """What a snapshot has is not read again, and what is above it is."""
    batches = {
        base: [data(base + n, producer_id=base + n, producer_epoch=0, base_sequence=0) for n in range(4)]
        for base in (0, 4, 8)
    }
    folder = make(tmp_path / "t-0", batches)
    for file in folder.glob("*.snapshot"):
        file.unlink()
    (folder / name_of(end, "snapshot")).write_bytes(build_producer_snapshot([]))
    files = result_of(plan(folder, recovery_point=12))
    known = {each.producer_id for each in parse_producer_snapshot(files[name_of(12, "snapshot")])}
    assert known == set(range(end, 12))


@pytest.mark.parametrize("version", [0, 1])
def test_an_odd_version_in_a_transaction_index_is_noted(tmp_path: pathlib.Path, version: int) -> None:
    """Releases read it in two ways: the answer depends on the release."""
    begun = data(0, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    folder = make(tmp_path / "t-0", {0: [begun, marker(1, 5)], 2: segment(2)})
    index = folder / name_of(0, "txnindex")
    index.write_bytes(bytes([0, version]) + index.read_bytes()[2:])
    circumstances = Circumstances(now_ms=NOW_MS, config=CONFIG, last_stop=CLEAN)
    assert load(str(folder), circumstances).log.report.has_odd_txn_version == bool(version)
