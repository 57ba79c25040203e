"""Which control batches the cleaner may remove (CleanedTransactionMetadata.onControlBatchRead)."""

import struct

import pytest
from raw_batches import build_batch

from klogtool.broker.cleaning.cleaned_transactions import CleanedTransactions
from klogtool.format.batch import Record, parse_batch
from klogtool.format.control import ControlRecordType

OF_TRANSACTIONS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


@pytest.mark.parametrize("type_id", range(9))
def test_only_a_marker_without_batches_may_go(type_id: int) -> None:
    record = Record(0, 1, struct.pack(">hh", 0, type_id), b"")
    data = build_batch([record], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    assert CleanedTransactions().can_discard(parse_batch(data, 0)) is (type_id in OF_TRANSACTIONS)
