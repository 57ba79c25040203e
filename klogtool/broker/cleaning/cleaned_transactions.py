"""Which transactions the cleaner is in the middle of, and which markers it can do without.

CleanedTransactionMetadata: a marker may go once no batch of its transaction is left; an entry of the transaction index
goes with the last batch of its transaction, before its marker does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from klogtool.broker.unified_log.index_files import TransactionIndex
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.indexes import AbortedTxn
from klogtool.log.entries import Entry


class CleanedTransactions:
    """Transactions, as far as a pass over a log has come. index: where entries go whose transaction has batches;
    is_asked: whether a batch was of a transaction, or a marker."""

    def __init__(self, index: TransactionIndex | None = None) -> None:
        self.index = index
        self.is_asked = False
        self._committed: set[int] = set()
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}  # and whether a batch of it was seen
        self._ahead: list[tuple[int, int, AbortedTxn]] = []
        self._added = 0

    def copy(self, index: TransactionIndex | None = None) -> CleanedTransactions:
        """The same, whose entries go elsewhere."""
        other = CleanedTransactions(index)
        other.is_asked = self.is_asked
        other._committed, other._aborted = set(self._committed), dict(self._aborted)
        other._ahead, other._added = list(self._ahead), self._added
        return other

    def add_aborted(self, found: Iterable[AbortedTxn]) -> None:
        """Aborted transactions that the batches to come may be of."""
        for txn in found:
            heapq.heappush(self._ahead, (txn.first_offset, self._added, txn))
            self._added += 1

    def is_like(self, other: CleanedTransactions) -> bool:
        """Whether the batches to come are judged alike."""
        mine, theirs = (sorted(known._ahead, key=lambda row: row[:2]) for known in (self, other))
        is_same_ahead = [row[2] for row in mine] == [row[2] for row in theirs]
        return is_same_ahead and (self._committed, self._aborted) == (other._committed, other._aborted)

    def aborted_from(self, offset: int) -> tuple[set[int], list[AbortedTxn]]:
        """For batches from an offset on: producers in the middle of an aborted transaction, and what is ahead."""
        rows = sorted(self._ahead, key=lambda row: row[:2])
        begun = {txn.producer_id for first, _, txn in rows if first <= offset}
        return {*self._aborted, *begun}, [txn for first, _, txn in rows if first > offset]

    def can_discard(self, batch: Entry) -> bool:
        """Whether the batch, which is the next one, belongs to an aborted transaction, or is a marker of an empty one.

        Raises Corrupt or Unsupported for a control record that cannot be read.
        """
        self.is_asked = self.is_asked or batch.is_control or batch.is_transactional
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
        # With Kafka's schemas, which few logs need.
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
