"""Transactions during a pass of the cleaner, and which markers can be removed (CleanedTransactionMetadata).

A marker can be removed when no batch of its transaction is left. An entry of the transaction index is removed with the
last batch of its transaction, earlier than the marker.

ProducerStateManager has another rule. It remembers where a transaction is open; this class remembers whether batches of
it are left.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from klogtool.broker.unified_log.index_files import TransactionIndex
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.indexes import AbortedTxn
from klogtool.log.entries import Entry


class CleanedTransactions:
    """The state of transactions at the current batch of a pass.

    index: the new transaction index; an aborted transaction gets an entry if it had batches. is_queried: whether any
    batch was transactional or a marker.
    """

    def __init__(self, index: TransactionIndex | None = None) -> None:
        self.index = index
        self.is_queried = False
        self._committed: set[int] = set()
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}  # the transaction, and whether a batch of it was seen
        self._ahead: list[tuple[int, int, AbortedTxn]] = []
        self._added = 0

    def copy(self, index: TransactionIndex | None = None) -> CleanedTransactions:
        """Return a copy that writes its entries to another index."""
        other = CleanedTransactions(index)
        other.is_queried = self.is_queried
        other._committed, other._aborted = set(self._committed), dict(self._aborted)
        other._ahead, other._added = list(self._ahead), self._added
        return other

    def add_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions to which the next batches may belong."""
        for txn in aborted:
            heapq.heappush(self._ahead, (txn.first_offset, self._added, txn))
            self._added += 1

    def is_like(self, other: CleanedTransactions) -> bool:
        """Whether both states give the same results for the next batches."""
        mine, theirs = (sorted(known._ahead, key=lambda row: row[:2]) for known in (self, other))
        is_same_ahead = [row[2] for row in mine] == [row[2] for row in theirs]
        return is_same_ahead and (self._committed, self._aborted) == (other._committed, other._aborted)

    def aborted_from(self, offset: int) -> tuple[set[int], list[AbortedTxn]]:
        """Return the producers with an aborted transaction open at an offset, and the aborted transactions that begin
        later."""
        rows = sorted(self._ahead, key=lambda row: row[:2])
        begun = {txn.producer_id for first, _, txn in rows if first <= offset}
        return {*self._aborted, *begun}, [txn for first, _, txn in rows if first > offset]

    def can_discard(self, batch: Entry) -> bool:
        """Whether the next batch belongs to an aborted transaction, or is a marker of a transaction without batches.

        Raises Corrupt or Unsupported for a control record that cannot be read.
        """
        self.is_queried = self.is_queried or batch.is_control or batch.is_transactional
        while self._ahead and self._ahead[0][0] <= batch.last_offset:
            txn = heapq.heappop(self._ahead)[2]
            self._aborted.setdefault(txn.producer_id, (txn, False))
        return self._can_discard_marker(batch) if batch.is_control else self._can_discard_data(batch)

    def _can_discard_data(self, batch: Entry) -> bool:
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = aborted[0], True
        return True

    def _can_discard_marker(self, batch: Entry) -> bool:
        record = next(iter(batch.records()), None)
        if record is None:  # cleaned before
            return True
        kind = ControlRecordType.of(parse_control_type_id(record.key))
        if kind is ControlRecordType.ABORT:
            aborted = self._aborted.pop(batch.producer_id, None)
            if aborted is None or not aborted[1]:
                return True
            if self.index is not None:
                self.index.append(aborted[0])
            return False
        if kind is ControlRecordType.COMMIT:
            is_of_data = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not is_of_data
        return False
