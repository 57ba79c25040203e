"""Last stable offsets in transaction indexes: no entry may hide a later one from readers that need it.

A read_committed fetch takes the entries of the transaction indexes in order. It stops at the first one whose last
stable offset is not below the end of the fetched range (TransactionIndex.collectAbortedTxns). So that offset must not
be above the start of any transaction that ends later. Brokers always write it that way, with one exception. A leader
and a recovery write the start of the first open transaction, or else the offset after the marker. A follower first
reads a whole set of batches. It may then write the start of the next transaction of another producer; it skips the next
one of the same producer (ProducerStateManager.findNextIncompleteTxn). The cleaner copies entries, and only removes
transactions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.indexes import ABORTED_TXN_SIZE, AbortedTxn
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind
from klogtool.format.producer_replay import NOTHING, Aborted
from klogtool.log.entries import RecordBatch
from klogtool.log.segment import Segment
from klogtool.verify.causes import FindingCause, TxnIndexCause
from klogtool.verify.findings import Finding, Kind

MOST_FINDINGS_OF_A_FILE = 10
MOST_ENTRIES = 1 << 17  # limit of entries that wait for later ones; reached only if transactions stay open for long


class _Waiting(Struct, frozen=True):
    """An entry that is right so far, and its number in the file."""

    path: str
    number: int
    entry: AbortedTxn


class StableOffsets:
    """The entries of a partition's transaction indexes, until everything is known that they could hide from readers.

    log_end_offset: MAX_LONG if unknown.
    """

    def __init__(self, log_end_offset: int) -> None:
        self._log_end_offset = log_end_offset
        self._waiting: list[_Waiting] = []
        self._reported: Counter[str] = Counter()

    def wrong(self, entry: AbortedTxn) -> Reason | None:
        """Return what is wrong with an entry, whatever follows it."""
        if entry.last_stable_offset > self._log_end_offset:
            return TxnIndexCause.ABOVE_LOG_END(end=self._log_end_offset, stable=entry.last_stable_offset)
        return None

    def add(self, path: str, number: int, entry: AbortedTxn) -> None:
        """Add an entry, in the order of the log."""
        if len(self._waiting) < MOST_ENTRIES:
            self._waiting.append(_Waiting(path, number, entry))

    def end_segment(self, aborted: Sequence[Aborted], reached: int, open_from: int | None) -> Iterator[Finding]:
        """Yield the entries that hide a transaction which was aborted in the segment that ends here.

        aborted: its transactions, by marker. reached: its end. open_from: where the first open transaction began.
        """
        seen = [txn for txn in aborted if txn.is_known and txn.visible_from != NOTHING]
        markers = [txn.last_offset for txn in seen]
        # For each transaction and those after it: where the earliest begins for readers.
        earliest = list(accumulate(reversed([txn.visible_from for txn in seen]), min))[::-1]
        kept, doubtful = [], []
        for waiting in self._waiting:
            later = bisect_right(markers, waiting.entry.last_offset)
            if later < len(seen) and earliest[later] < waiting.entry.last_stable_offset:
                doubtful.append((waiting, earliest[later]))
            elif waiting.entry.last_stable_offset > min(reached, MAX_LONG if open_from is None else open_from):
                kept.append(waiting)
        self._waiting = kept
        yield from self._overlook(doubtful, TxnIndexCause.OVERLOOKS_ABORTED)

    def finish(self, open_from: int | None) -> Iterator[Finding]:
        """Yield the entries that will hide a transaction which is still open, if it is aborted; then how many were not
        reported."""
        if open_from is not None:
            doubtful = [(w, open_from) for w in self._waiting if w.entry.last_stable_offset > open_from]
            yield from self._overlook(doubtful, TxnIndexCause.OVERLOOKS_OPEN)
        for path, count in self._reported.items():
            if (more := count - MOST_FINDINGS_OF_A_FILE) > 0:
                yield Finding(Kind.TXNINDEX_ENTRY, path, FindingCause.MORE(count=more))

    def _overlook(self, doubtful: list[tuple[_Waiting, int]], what: TxnIndexCause) -> Iterator[Finding]:
        """Yield those that a follower would not write either; each comes with the start of a later transaction."""
        for path, of_file in groupby(doubtful, key=lambda pair: pair[0].path):
            pairs = list(of_file)
            lawful = _as_followers_write([waiting.entry for waiting, _ in pairs], path)
            for waiting, first_offset in pairs:
                if waiting.entry not in lawful:
                    yield from self._reported_once(waiting, first_offset, what)

    def _reported_once(self, waiting: _Waiting, first_offset: int, what: TxnIndexCause) -> Iterator[Finding]:
        self._reported[waiting.path] += 1
        if self._reported[waiting.path] > MOST_FINDINGS_OF_A_FILE:
            return
        why = what(stable=waiting.entry.last_stable_offset, first_offset=first_offset)
        yield false_entry(waiting.path, waiting.number, waiting.entry, why)


def _as_followers_write(entries: Sequence[AbortedTxn], path: str) -> set[AbortedTxn]:
    """Return the entries whose last stable offset is where the next transaction of another producer begins, in the same
    segment.

    entries: of one transaction index, in order.
    """
    left, lawful = list(reversed(entries)), set()
    waiting: dict[int, list[AbortedTxn]] = {}  # by producer: entries whose marker has passed
    for offset, producer_id in _walk_transactional(path.removesuffix(FileKind.TXN_INDEX.value) + FileKind.LOG.value):
        while left and left[-1].last_offset < offset:
            entry = left.pop()
            waiting.setdefault(entry.producer_id, []).append(entry)
        for other in [known for known in waiting if known != producer_id]:
            lawful |= {entry for entry in waiting.pop(other) if entry.last_stable_offset == offset}
        if not left and not waiting:
            break
    return lawful


def _walk_transactional(log: str) -> Iterator[tuple[int, int]]:
    """Yield base offset and producer of transactional batches, as far as the log can be read."""
    try:
        for batch in Segment(log).batches():
            if isinstance(batch, RecordBatch) and batch.is_transactional and not batch.is_control:
                yield batch.base_offset, batch.producer_id
    except KlogError:  # reported as damage of the log
        return


def false_entry(path: str, number: int, entry: AbortedTxn, wrong: Reason) -> Finding:
    """Return the finding for an entry of a transaction index."""
    tells_which = entry.first_offset <= entry.last_offset
    return Finding(
        Kind.TXNINDEX_ENTRY,
        path,
        TxnIndexCause.ENTRY(entry=str(entry), wrong=wrong),
        start=number * ABORTED_TXN_SIZE,
        end=(number + 1) * ABORTED_TXN_SIZE,
        first_offset=entry.first_offset if tells_which else None,
        last_offset=entry.last_offset if tells_which else None,
    )
