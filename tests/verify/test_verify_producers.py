"""Transaction indexes and producer snapshots against the log: what is false is found, what only looks so is not."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest
from damage import append_bytes, flip_bit, overwrite, tear_at
from msgspec.structs import replace
from raw_batches import build_batch, raw_batch
from verifying import data, edit_snapshot, edit_txn_index, found, ids, marker, run_verify, told, write_log

from klogtool.format.indexes import ABORTED_TXN_SIZE, AbortedTxn, build_txn_index, parse_txn_index
from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot
from klogtool.log.gentle import begin_gently, end_gently
from klogtool.log.producer_replay import Halt
from klogtool.verify import verify_producers

CopyOf = Callable[[str], pathlib.Path]
Path = pathlib.Path


@pytest.fixture
def partition(copy_of: CopyOf) -> Path:
    return copy_of("transactions/logdir/t-0")


@pytest.fixture
def txn_index(partition: Path) -> Path:
    """Aborted: producer 1 from 3 to its marker at 7, and from 16 to 34."""
    return partition / f"{7:020d}.txnindex"


# ---------------------------------------------------------------- transaction index


def test_a_missing_index(txn_index: Path) -> None:
    txn_index.unlink()
    (finding,) = found(txn_index.parent)
    assert (finding.id, finding.path) == ("txnindex-missing", str(txn_index))
    assert (finding.first_offset, finding.last_offset) == (3, 34)


@pytest.mark.parametrize("size", [0, 34])
def test_missing_entries(txn_index: Path, size: int) -> None:
    tear_at(txn_index, size)
    findings = found(txn_index.parent)
    assert ids(findings) == {"txnindex-entry"}
    assert [(f.first_offset, f.last_offset) for f in findings] == [(3, 7), (16, 34)][size // 34 :]


def test_a_part_of_an_entry(txn_index: Path) -> None:
    append_bytes(txn_index, b"\1\2\3")
    (finding,) = found(txn_index.parent)
    assert (finding.id, finding.start, finding.end) == ("txnindex-size", 68, 71)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"producer_id": 2}, "marker at 34 belongs to producer 1"),
        ({"first_offset": 17}, "started at 16"),
        ({"first_offset": 18}, "records before 18 look committed"),
        ({"first_offset": 15}, "started at 16"),
        ({"first_offset": 7}, "decided before"),
        ({"first_offset": 3}, "decided before"),
        ({"last_offset": 33}, "no ABORT marker at 33"),
        ({"last_offset": 15}, "no ABORT marker at 15"),  # a COMMIT
        ({"last_offset": 99}, "no ABORT marker at 99"),
        ({"last_offset": 6}, "is not above the marker"),
        ({"last_stable_offset": 20}, "would miss it"),
        ({"last_stable_offset": 18}, "first open transaction started at 19"),
    ],
    ids=str,
)
def test_a_false_entry(txn_index: Path, change: dict[str, int], why: str) -> None:
    edit_txn_index(txn_index, lambda entries: [entries[0], replace(entries[1], **change)])
    findings = found(txn_index.parent)
    assert ids(findings) == {"txnindex-entry"}
    assert why in findings[0].detail
    assert (findings[0].start, findings[0].end) == (34, 68)


def test_an_entry_too_many(txn_index: Path) -> None:
    invented = AbortedTxn(0, 4, 12, 35, 36)
    edit_txn_index(txn_index, lambda entries: [*entries, invented])
    assert [f.id for f in found(txn_index.parent)] == ["txnindex-entry"]


def test_a_marker_below_the_segment_makes_a_broker_recover_it(txn_index: Path) -> None:
    edit_txn_index(txn_index, lambda entries: [replace(entries[0], last_offset=6), entries[1]])
    findings = found(txn_index.parent)
    assert "below the segment" in findings[0].detail


def test_a_version_that_kafka_does_not_know_stops_a_broker(txn_index: Path) -> None:
    overwrite(txn_index, 34, b"\1")
    (finding,) = found(txn_index.parent)
    assert (finding.id, finding.start) == ("txnindex-entry", 34)
    assert "does not start" in finding.detail


def test_garbage_is_not_told_entry_by_entry(txn_index: Path) -> None:
    txn_index.write_bytes(build_txn_index(AbortedTxn(0, 9, 9, 40 + n, 9) for n in range(10_000)))
    findings = found(txn_index.parent)
    assert len(findings) == 11
    assert "more such entries" in findings[-1].detail


def entry(producer_id: int, first: int, last: int, stable: int | None = None) -> AbortedTxn:
    return AbortedTxn(0, producer_id, first, last, last + 1 if stable is None else stable)


def with_txn_index(folder: Path, base: int, *entries: AbortedTxn) -> Path:
    (folder / f"{base:020d}.txnindex").write_bytes(build_txn_index(entries))
    return folder


def test_an_index_as_a_follower_writes_it(tmp_path: Path) -> None:
    """It appends sets: the transaction that begins behind the marker counts already when its stable offset is taken."""
    log = write_log(tmp_path / "t-0", s0=[data(0, 1), marker(1, 1), data(2, 2), marker(3, 2, "commit")])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 2))))


# ---------------------------------------------------------------- last stable offsets


def collected(entries: list[AbortedTxn], start: int, end: int) -> list[tuple[int, int]]:
    """What a fetch of these offsets is told (TransactionIndex.collectAbortedTxns)."""
    found = []
    for txn in entries:
        if txn.last_offset >= start and txn.first_offset < end:
            found.append((txn.producer_id, txn.first_offset))
        if txn.last_stable_offset >= end:
            break
    return found


@pytest.mark.parametrize("bit", range(64))
@pytest.mark.parametrize("number", [0, 1])
def test_a_flip_in_a_last_stable_offset_is_found_or_harmless(txn_index: Path, number: int, bit: int) -> None:
    right = parse_txn_index(txn_index.read_bytes())
    flip_bit(txn_index, number * ABORTED_TXN_SIZE + 26 + bit // 8, bit % 8)
    wrong = parse_txn_index(txn_index.read_bytes())
    assert wrong != right
    findings = [f for f in found(txn_index.parent) if f.id == "txnindex-entry"]
    log_end_offset = 63
    fetches = [(start, end) for start in range(log_end_offset) for end in range(start + 1, log_end_offset + 1)]
    is_harmless = all(collected(wrong, *fetch) == collected(right, *fetch) for fetch in fetches)
    assert findings or is_harmless
    assert findings or 0 <= wrong[number].last_stable_offset <= log_end_offset


ABORTED_TWICE = [data(0, 1), marker(1, 1), data(2), data(3, 1, 1), marker(4, 1), data(5)]


def test_an_entry_that_reaches_beyond_the_start_of_a_later_aborted_transaction(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=ABORTED_TWICE)
    for stable in (0, 1, 2, 3):
        later = entry(1, 3, 4)
        findings = found(with_txn_index(log, 0, entry(1, 0, 1, stable), later))
        assert ("txnindex-entry" in ids(findings)) == (stable < 2), stable
    for stable in (4, 5, 6):
        (finding,) = (f for f in found(with_txn_index(log, 0, entry(1, 0, 1, stable), later)) if "txn" in f.id)
        assert (finding.id, finding.start, finding.end) == ("txnindex-entry", 0, 34)
        assert f"readers of offsets below {stable} would miss the transaction that starts at 3" in finding.detail


def test_an_entry_that_reaches_into_a_later_segment(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=ABORTED_TWICE[:3], s3=ABORTED_TWICE[3:])
    with_txn_index(log, 3, entry(1, 3, 4))
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 3))))
    for stable in (4, 6):
        (finding,) = (f for f in found(with_txn_index(log, 0, entry(1, 0, 1, stable))) if "txn" in f.id)
        assert finding.path == str(log / f"{0:020d}.txnindex")


def test_an_entry_that_reaches_over_a_transaction_that_ends_much_later(tmp_path: Path) -> None:
    first, second = [data(0, 1), marker(1, 1), data(2)], [data(3, 2), data(4)]
    log = write_log(tmp_path / "t-0", s0=first, s3=second, s5=[data(5), marker(6, 2)])
    with_txn_index(log, 5, entry(2, 3, 6))
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 3))))
    assert "txnindex-entry" in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 4))))


@pytest.mark.parametrize(("end", "is_wrong"), [([], True), ([marker(4, 2, "commit")], False)])
def test_an_entry_that_reaches_over_an_open_transaction(tmp_path: Path, end: list[bytes], is_wrong: bool) -> None:
    log = write_log(tmp_path / "t-0", s0=[data(0, 1), marker(1, 1), data(2), data(3, 2), *end, data(5)])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 3))))
    assert ("txnindex-entry" in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 5))))) == is_wrong


def test_an_entry_that_reaches_beyond_the_end_of_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=[data(0, 1), marker(1, 1), data(2), data(3)])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 0, 1, 4))))
    for stable in (5, 2**40, 2**63 - 1):
        assert "the log ends at 4" in str(found(with_txn_index(log, 0, entry(1, 0, 1, stable))))


def test_an_entry_of_a_compacted_transaction_must_not_reach_too_far_either(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=[data(0), marker(8, 1), data(12, 2), marker(15, 2), data(20)])
    for stable, is_wrong in ((9, False), (12, False), (13, True), (30, True)):
        entries = entry(1, 2, 8, stable), entry(2, 12, 15)
        assert ("txnindex-entry" in ids(found(with_txn_index(log, 0, *entries)))) == is_wrong


def test_a_follower_passes_over_the_next_transaction_of_the_same_producer(tmp_path: Path) -> None:
    """As ProducerStateManager does: in a set of batches, the next one of another producer counts."""
    batches = [data(0, 1), marker(1, 1), data(2, 1, 1), data(3, 2), marker(4, 2, "commit"), marker(5, 1), data(6)]
    log = write_log(tmp_path / "t-0", s0=batches)
    for stable, is_wrong in ((2, False), (3, False), (4, True), (5, True), (6, True)):
        entries = entry(1, 0, 1, stable), entry(1, 2, 5)
        assert ("txnindex-entry" in ids(found(with_txn_index(log, 0, *entries)))) == is_wrong, stable


def test_many_entries_that_reach_too_far_are_not_all_told(tmp_path: Path) -> None:
    batches = [b for n in range(50) for b in (data(2 * n, 1, n), marker(2 * n + 1, 1))]
    log = write_log(tmp_path / "t-0", s0=batches)
    findings = found(with_txn_index(log, 0, *(entry(1, 2 * n, 2 * n + 1, 100) for n in range(50))))
    told = [f.detail for f in findings if f.id == "txnindex-entry"]
    assert (len(told), told[-1]) == (11, "39 more such entries")  # the last one is as it should be


def test_a_transaction_from_before_the_log_begins(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s10=[data(10, 1, 5), marker(11, 1), marker(12, 2)])
    with_txn_index(log, 10, entry(1, 4, 11), entry(2, 3, 12))
    assert "txnindex-entry" not in ids(found(log))


def test_only_the_marker_is_left_of_a_compacted_transaction(tmp_path: Path) -> None:
    """The entry may outlive the data by a pass of the cleaner, and the marker the entry."""
    log = write_log(tmp_path / "t-0", s0=[data(0), data(7), marker(8, 1)])
    assert ids(found(log)) <= {"epochs-missing", "index-missing", "timeindex-missing"}
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 2, 8))))


def test_an_emptied_batch_needs_no_entry(tmp_path: Path) -> None:
    empty = build_batch(
        [], base_offset=3, last_offset=4, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log = write_log(tmp_path / "t-0", s0=[data(0), empty, marker(8, 1)])
    assert not ids(found(log)) & {"txnindex-missing", "txnindex-entry"}
    with_txn_index(log, 0, entry(1, 2, 8))
    assert "txnindex-entry" not in ids(found(log))


def test_an_entry_that_hides_committed_records_of_a_compacted_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=[data(0, 1), marker(2, 1, "commit"), data(5, 1, 1), marker(8, 1)])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 4, 8))))
    assert "txnindex-entry" in ids(found(with_txn_index(log, 0, entry(1, 2, 8))))
    assert "txnindex-entry" in ids(found(with_txn_index(log, 0, entry(1, 0, 8))))


def test_where_the_log_goes_back_a_marker_may_come_twice(tmp_path: Path) -> None:
    """As of a segment that holds its bytes twice: recovery leaves the entry of the first, the second ends nothing."""
    batches = [data(0), data(7), marker(8, 1)]
    log = write_log(tmp_path / "t-0", s0=[*batches, *batches])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 2, 8))))
    assert "txnindex-entry" in ids(found(with_txn_index(log, 0, entry(2, 2, 8))))


def test_where_the_log_goes_back_later_offsets_came_before(tmp_path: Path) -> None:
    later = [data(20, 1), marker(21, 1, "commit")]
    log = write_log(tmp_path / "t-0", s0=[*later, data(5, 1, 1), marker(8, 1)])
    assert "txnindex-entry" not in ids(found(with_txn_index(log, 0, entry(1, 5, 8))))


def test_below_the_log_start_nobody_reads(tmp_path: Path) -> None:
    """After records were deleted, recovery knows of a transaction only what is left of it."""
    log = write_log(tmp_path / "log/t-0", s0=[data(0, 1), data(1, 1, 1), marker(2, 1)])
    with_txn_index(log, 0, entry(1, 1, 2))
    assert "txnindex-entry" in ids(found(log))
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    assert "txnindex-entry" not in ids(found(log))


def test_damage_may_have_hidden_a_marker(partition: Path) -> None:
    """The COMMIT of producer 0 at 15 is gone: what it says of the ABORT at 15 + n cannot be known."""
    log = partition / f"{7:020d}.log"
    flip_bit(log, 700)
    assert not ids(found(partition)) & {"txnindex-missing", "txnindex-entry"}


def test_data_out_of_its_transaction_stops_a_broker_that_recovers(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s0=[data(0, 1), data(1, 1, 1, txn=False)])
    finding = next(f for f in found(log) if f.id == "batch-attributes")
    assert (finding.first_offset, finding.last_offset) == (1, 1)
    assert "InvalidTxnStateException" in finding.detail


# ---------------------------------------------------------------- snapshots


def snapshot(partition: Path, offset: int) -> Path:
    return partition / f"{offset:020d}.snapshot"


def test_a_snapshot_that_is_damaged(partition: Path) -> None:
    flip_bit(snapshot(partition, 36), 40)
    tear_at(snapshot(partition, 38), 0)
    findings = found(partition)
    assert told(findings) == [
        ("snapshot-corrupt", f"{36:020d}.snapshot"),
        ("snapshot-corrupt", f"{38:020d}.snapshot"),
    ]
    assert "CRC is no longer valid" in findings[0].detail


@pytest.mark.parametrize(
    "change",
    [
        {"producer_epoch": 7},
        {"last_sequence": 5},
        {"last_offset": 30},
        {"last_offset": 36},
        {"offset_delta": 2},
        {"timestamp": 5},
        {"coordinator_epoch": 3},
        {"current_txn_first_offset": 18},
        {"current_txn_first_offset": None},
        {"current_txn_first_offset": 36},
    ],
    ids=str,
)
def test_what_the_log_contradicts(partition: Path, change: dict[str, int | None]) -> None:
    def wound(entries: list[ProducerStateEntry]) -> list[ProducerStateEntry]:
        return [replace(e, **change) if e.producer_id == 0 else e for e in entries]

    edit_snapshot(snapshot(partition, 36), wound)
    (finding,) = found(partition)
    assert (finding.id, finding.path) == ("snapshot-content", str(snapshot(partition, 36)))
    assert "producer 0" in finding.detail


def test_a_producer_that_never_wrote(partition: Path) -> None:
    invented = ProducerStateEntry(77, 0, 0, 5, 0, 0, -1, None)
    edit_snapshot(snapshot(partition, 36), lambda entries: [*entries, invented])
    assert told(found(partition)) == [("snapshot-content", f"{36:020d}.snapshot")]


@pytest.mark.parametrize(
    ("count", "named", "more"), [(1, 1, ""), (3, 3, ""), (4, 3, "; and 1 more"), (9, 3, "; and 6 more")]
)
def test_of_many_contradictions_the_first_three_are_named(partition: Path, count: int, named: int, more: str) -> None:
    invented = [ProducerStateEntry(70 + n, 0, 0, 5, 0, 0, -1, None) for n in range(count)]
    edit_snapshot(snapshot(partition, 36), lambda entries: [*entries, *invented])
    (finding,) = found(partition)
    assert [n for n in range(count) if f"producer {70 + n}" in finding.detail] == list(range(named))
    assert finding.detail.partition("; and ")[1:] == (more[:6], more[6:])


def test_a_producer_may_have_been_forgotten_but_not_its_open_transaction(partition: Path) -> None:
    edit_snapshot(snapshot(partition, 36), lambda entries: [e for e in entries if e.producer_id not in (1, 4)])
    assert found(partition) == []
    edit_snapshot(snapshot(partition, 36), lambda entries: [e for e in entries if e.producer_id != 2])
    assert told(found(partition)) == [("snapshot-content", f"{36:020d}.snapshot")]


def test_snapshots_that_changed_places(partition: Path) -> None:
    older, newer = snapshot(partition, 36), snapshot(partition, 62)
    old, new = older.read_bytes(), newer.read_bytes()
    older.write_bytes(new)
    newer.write_bytes(old)
    assert told(found(partition)) == [("snapshot-content", older.name), ("snapshot-content", newer.name)]


def test_a_snapshot_beyond_the_end(copy_of: CopyOf) -> None:
    partition = copy_of("transactions/logdir") / "t-0"
    snapshot(partition, 62).rename(snapshot(partition, 99))
    (finding,) = found(partition)
    assert (finding.id, finding.path, finding.first_offset) == ("snapshot-stray", str(snapshot(partition, 99)), 62)


def test_a_snapshot_beyond_the_end_of_which_nobody_knows(partition: Path) -> None:
    """A log that was cut in a gap of its offsets ends where it was cut."""
    snapshot(partition, 62).rename(snapshot(partition, 99))
    assert found(partition) == []
    snapshot(partition, 36).rename(snapshot(partition, 99))
    assert told(found(partition)) == [("snapshot-stray", f"{99:020d}.snapshot")]


def test_an_end_that_was_lost_leaves_its_snapshot_behind(partition: Path) -> None:
    for path in partition.glob(f"{38:020d}.*"):
        path.unlink()
    assert ("snapshot-stray", f"{62:020d}.snapshot") in told(found(partition))


def test_a_snapshot_of_a_former_stop_is_normal_but_not_amid_a_batch(partition: Path) -> None:
    log = write_log(partition.parent / "u-0", s0=[data(0, 1, count=3, txn=False), data(3, 1, 3, txn=False)])
    (log / f"{3:020d}.snapshot").write_bytes(
        build_producer_snapshot([ProducerStateEntry(1, 0, 2, 2, 2, 1_700_000_000_002, -1, None)])
    )
    assert not {f for f in ids(found(log)) if f.startswith("snapshot")}
    (log / f"{3:020d}.snapshot").rename(log / f"{2:020d}.snapshot")
    assert "snapshot-content" in ids(found(log))


def test_no_snapshot_at_all(partition: Path) -> None:
    for path in partition.glob("*.snapshot"):
        path.unlink()
    assert found(partition) == []
    (missing,) = (f for f in run_verify(partition)[0] if f.id == "snapshot-missing")
    assert "forgets all producers" in missing.detail


def test_one_snapshot_is_missing(copy_of: CopyOf) -> None:
    log_dir = copy_of("transactions/logdir")
    for offset in (36, 62):
        snapshot(log_dir / "t-0", offset).unlink()
    missing = [f for f in run_verify(log_dir)[0] if f.id == "snapshot-missing"]
    assert [f.first_offset for f in missing] == [36, 62]


def test_a_snapshot_with_an_absurd_count(partition: Path) -> None:
    overwrite(snapshot(partition, 36), 6, b"\x7f\xff\xff\xff")
    assert told(found(partition)) == [("snapshot-corrupt", f"{36:020d}.snapshot")]


def test_an_entry_is_as_long_as_it_is_here() -> None:
    assert ABORTED_TXN_SIZE == 34


def test_gentle_reading_reads_a_log_with_producers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of a false snapshot is what reading twice says."""

    def large(offset: int) -> bytes:
        return raw_batch(b"x" * 9000, base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=offset)

    partition = write_log(tmp_path / "t-0", s0=[large(0), large(1)], s2=[large(2), large(3)])
    entry = ProducerStateEntry(7, 0, 0, 0, 0, 0, -1, None)
    (partition / f"{2:020d}.snapshot").write_bytes(build_producer_snapshot([entry]))
    expected = found(partition)
    assert "snapshot-content" in ids(expected)

    def read_again(*_: object) -> Iterator[Halt]:
        raise AssertionError

    monkeypatch.setattr(verify_producers, "replay_segment", read_again)
    begin_gently()
    try:
        assert found(partition) == expected
    finally:
        end_gently()
