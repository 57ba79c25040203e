"""Which control batches the cleaner may remove (CleanedTransactionMetadata.onControlBatchRead)."""

import struct

import pytest
from raw_batches import build_batch

from klogtool.broker.cleaning.cleaned_transactions import CleanedTransactions
from klogtool.format.batch import Record, parse_batch
from klogtool.format.control import ControlRecordType
from klogtool.format.indexes import AbortedTxn

OF_TRANSACTIONS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


@pytest.mark.parametrize("type_id", range(9))
def test_only_a_marker_without_batches_may_go(type_id: int) -> None:
    record = Record(0, 1, struct.pack(">hh", 0, type_id), b"")
    data = build_batch([record], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    assert CleanedTransactions().can_discard(parse_batch(data, 0)) is (type_id in OF_TRANSACTIONS)


def test_states_are_alike_that_know_the_same_transactions() -> None:
    """In whatever order they came to know those ahead: a group that is cleaned elsewhere does not say it."""
    ahead = [
        AbortedTxn(version=0, producer_id=n, first_offset=10 * n, last_offset=10 * n + 5, last_stable_offset=0)
        for n in range(3)
    ]

    def knowing(*known: AbortedTxn) -> CleanedTransactions:
        state = CleanedTransactions()
        state.add_aborted(known)
        return state

    assert knowing(*ahead).is_like(knowing(*reversed(ahead)))
    assert knowing(*ahead).copy().is_like(knowing(*ahead))
    assert not knowing(*ahead).is_like(knowing(*ahead[:2]))
    assert not knowing(*ahead[:2]).is_like(knowing(ahead[0], ahead[2]))
    assert not knowing(ahead[0]).is_like(knowing())
