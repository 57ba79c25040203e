"""What a broker remembers of producers: batches, transactions, what a leader turns away, and snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.errors import KlogError
from klogtool.format.batch import Record, RecordBatch, parse_batch
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.indexes import AbortedTxn
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.log.producer_state import (
    TV_2,
    AppendOrigin,
    ProducerStateManager,
)

DAY_MS = 86_400_000


def data(
    offset: int, *, pid: int = 1, epoch: int = 0, seq: int = 0, records: int = 1, txn: bool = False
) -> RecordBatch:
    made = [Record(offset + n, 1000 + offset + n, None, b"v") for n in range(records)]
    header: dict[str, Any] = {"producer_id": pid, "producer_epoch": epoch, "base_sequence": seq}
    return parse_batch(build_batch(made, is_transactional=txn, **header))


def marker(offset: int, *, pid: int = 1, epoch: int = 0, aborts: bool = True, coordinator: int = 0) -> RecordBatch:
    kind = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
    value = build_end_transaction_marker(EndTransactionMarker(kind, coordinator))
    record = Record(offset, 5000 + offset, build_control_key(kind), value)
    header: dict[str, Any] = {"producer_id": pid, "producer_epoch": epoch}
    return parse_batch(build_batch([record], is_transactional=True, is_control=True, **header))


def begins_of_open(state: ProducerStateManager) -> list[int]:
    return [txn.first_offset for txn in state.ongoing_txns]


def empty_marker(offset: int, *, pid: int = 1) -> RecordBatch:
    built = build_batch(
        [], base_offset=offset, last_offset=offset, producer_id=pid, producer_epoch=0, is_control=True, max_timestamp=-1
    )
    return parse_batch(built)


def after(*batches: RecordBatch) -> ProducerStateManager:
    state = ProducerStateManager()
    for batch in batches:
        state.apply(batch)
    return state


# ---------------------------------------------------------------- what is in the log counts


def test_five_batches_are_kept_and_the_last_one_goes_into_a_snapshot() -> None:
    state = after(*(data(n, seq=n) for n in range(7)))
    assert [batch.last_sequence for batch in state.producers[1].batches] == [2, 3, 4, 5, 6]
    assert state.snapshot_entries() == [ProducerStateEntry(1, 0, 6, 6, 0, 1006, -1, None)]
    assert state.map_end_offset == 7


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_forgets_the_batches_of_the_one_before(epoch: int) -> None:
    state = after(data(0, epoch=2, seq=5), data(1, epoch=epoch, seq=0))
    assert [(batch.last_offset, state.producers[1].producer_epoch) for batch in state.producers[1].batches] == [
        (1, epoch)
    ]


def test_batches_without_a_producer_only_move_the_end() -> None:
    state = after(data(4, pid=-1, epoch=-1, seq=-1, records=3))
    assert (state.is_empty, state.map_end_offset) == (True, 7)


def test_transactions_open_and_end() -> None:
    state = after(data(0, txn=True), data(1, pid=2, txn=True))
    assert (begins_of_open(state), state.first_unstable_offset) == ([0, 1], 0)
    # What is stable ends where the other producer's transaction begins.
    assert state.apply(marker(2)) == AbortedTxn(0, 1, 0, 2, 1)
    assert state.apply(marker(3, pid=2, aborts=False)) is None
    assert (begins_of_open(state), state.first_unstable_offset) == ([], 0)
    state.on_high_watermark_updated(3)
    assert [txn.producer_id for txn in state.unreplicated_txns] == [2]
    state.on_high_watermark_updated(4)
    assert state.first_unstable_offset is None
    assert state.producers[1].last_timestamp == 5002


def test_a_marker_without_a_transaction_leaves_no_entry() -> None:
    state = after(data(0))
    assert state.apply(marker(1, coordinator=7)) is None
    assert state.producers[1].coordinator_epoch == 7
    assert len(state.producers[1].batches) == 1


def test_a_marker_of_the_next_epoch_forgets_the_batches() -> None:
    """As brokers write it since transactions of version 2."""
    state = after(data(0, txn=True), marker(1, epoch=1))
    assert state.snapshot_entries() == [ProducerStateEntry(1, 1, -1, -1, 0, 5001, 0, None)]


def test_a_marker_that_compaction_emptied_changes_nothing() -> None:
    state = after(data(0, txn=True))
    assert state.apply(empty_marker(1)) is None
    assert begins_of_open(state)[0] == 0


def test_data_outside_of_an_open_transaction_is_refused() -> None:
    with pytest.raises(KlogError) as refused:
        after(data(0, txn=True), data(1, seq=1))
    assert refused.value.kafka_class == "InvalidTxnStateException"


# ---------------------------------------------------------------- snapshots


def test_expired_producers_are_not_taken_from_a_snapshot_unless_a_transaction_is_open() -> None:
    entries = [ProducerStateEntry(n, 0, 0, 5, 0, 1000, -1, 5 if n == 3 else None) for n in (1, 3)]
    state = ProducerStateManager()
    state.load(entries, 1000 + DAY_MS, DAY_MS)
    assert list(state.producers) == [3]
    state.clear()
    assert state.is_empty
    state.load(entries, 999 + DAY_MS, DAY_MS)
    assert list(state.producers) == [1, 3]
    assert begins_of_open(state)[0] == 5


def test_a_snapshot_that_is_taken_over_is_the_same() -> None:
    state = after(data(0, txn=True), data(1, pid=17, seq=4, records=3), marker(4, pid=33))
    again = ProducerStateManager()
    again.load(state.snapshot_entries(), 1000, DAY_MS)
    assert again.snapshot_entries() == state.snapshot_entries()


# ---------------------------------------------------------------- what a leader turns away


def offered(
    state: ProducerStateManager, batch: RecordBatch, version: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT
) -> str | None:
    """The class of the refusal of a client's batch, or None."""
    try:
        state.prepare_update(batch.producer_id, origin).append(batch, transaction_version=version)
    except KlogError as refused:
        return refused.kafka_class
    return None


@pytest.mark.parametrize(
    ("epoch", "seq", "refused"),
    [
        (2, 5, None),
        (2, 6, "OutOfOrderSequenceException"),
        (2, 0, "OutOfOrderSequenceException"),
        (3, 0, None),
        (3, 1, "OutOfOrderSequenceException"),
        (1, 5, "InvalidProducerEpochException"),
    ],
)
def test_sequences_and_epochs_of_a_client(epoch: int, seq: int, refused: str | None) -> None:
    state = after(data(0, epoch=2, seq=0, records=5))
    assert offered(state, data(5, epoch=epoch, seq=seq)) == refused
    assert offered(state, data(5, epoch=epoch, seq=seq), origin=AppendOrigin.REPLICATION) is None


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    assert offered(ProducerStateManager(), data(0, seq=99)) is None


def test_after_the_largest_sequence_comes_zero() -> None:
    assert offered(after(data(0, seq=2**31 - 1)), data(1, seq=0)) is None


@pytest.mark.parametrize(
    ("version", "epoch", "refused"),
    [
        (0, 2, None),
        (0, 1, "InvalidProducerEpochException"),
        (TV_2, 3, None),
        (TV_2, 2, "InvalidProducerEpochException"),
        (-1, 3, "IllegalArgumentException"),
    ],
)
def test_markers_by_the_version_of_transactions(version: int, epoch: int, refused: str | None) -> None:
    state = after(data(0, epoch=2, txn=True))
    assert offered(state, marker(1, epoch=epoch), version, origin=AppendOrigin.COORDINATOR) == refused


def test_a_marker_that_is_written_again_does_no_harm() -> None:
    state = after(data(0, txn=True), marker(1, epoch=1))
    assert offered(state, marker(2, epoch=1), TV_2, origin=AppendOrigin.COORDINATOR) is None


def test_a_coordinator_of_an_older_epoch_is_fenced() -> None:
    state = after(data(0, txn=True), marker(1, coordinator=5))
    refused = offered(state, marker(2, coordinator=4), origin=AppendOrigin.COORDINATOR)
    assert refused == "TransactionCoordinatorFencedException"


def test_a_batch_that_was_sent_twice_is_known() -> None:
    state = after(data(0, seq=0, records=3), data(3, seq=3))
    assert state.producers[1].find_duplicate(data(9, seq=0, records=3)) is not None
    assert state.producers[1].find_duplicate(data(9, seq=0, records=2)) is None
    assert state.producers[1].find_duplicate(data(9, epoch=1, seq=3)) is None
