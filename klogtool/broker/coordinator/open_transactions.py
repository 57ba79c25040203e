"""Open transactions of a partition, and whether somebody will still end them.

The judgement is that of `kafka-transactions.sh find-hanging` (TransactionsCommand.FindHangingTransactionsCommand): a
transaction hangs if no transactional id has its producer id, or if the coordinator does not list the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from klogtool.broker.coordinator.coordinators import Coordinators
from klogtool.broker.coordinator.transaction_state import TransactionMetadata
from klogtool.broker.unified_log.log_transactions import Status, Transaction
from klogtool.format.names import TopicPartition
from klogtool.format.producers import ProducerState

MAX_TIMEOUT_MS = 15 * 60 * 1000  # transaction.max.timeout.ms; find-hanging looks for what is open longer


class Data(Enum):
    """What of an open transaction's data the log still has. GONE: only the producer state remembers it."""

    WHOLE = "whole"
    PARTLY_GONE = "partly-gone"
    GONE = "gone"


class TransactionVerdict(Enum):
    """Who will end an open transaction.

    ONGOING: its coordinator. HANGING: nobody. SUSPECT: the coordinator is not at hand, and the last write is older than
    any timeout that a broker allows. UNKNOWN: the same, but it is younger. FORGOTTEN: a broker does not know that it is
    open, so readers do not wait for it.
    """

    ONGOING = "ongoing"
    HANGING = "hanging"
    SUSPECT = "suspect"
    UNKNOWN = "unknown"
    FORGOTTEN = "forgotten"


class OpenTransaction(Struct, frozen=True):
    """An open transaction. held_from: the offset from which a broker holds readers back, which names it in
    `kafka-transactions.sh abort`; None: it does not. metadata: of its transactional id, or None. is_late: the
    coordinator would abort it now, by its timeout."""

    transaction: Transaction
    data: Data
    held_from: int | None
    verdict: TransactionVerdict
    metadata: TransactionMetadata | None = None
    is_late: bool = False

    @property
    def is_to_abort(self) -> bool:
        """Whether an administrator should abort it (SUSPECT: after a look at the cluster)."""
        return self.verdict in (TransactionVerdict.HANGING, TransactionVerdict.SUSPECT)


def find_open(
    transactions: Sequence[Transaction],
    producers: Sequence[ProducerState],
    partition: TopicPartition | None,
    coordinators: Coordinators,
    now_ms: int,
) -> Iterator[OpenTransaction]:
    """Yield a judgement for each open transaction of a partition: those of the log in their order, then those that only
    the producer state remembers.

    transactions: the open ones of the log. producers: all that a broker remembers. partition None: its folder does not
    say which it is.
    """
    held = {known.producer_id: known for known in producers if known.current_txn_first_offset is not None}
    for txn in transactions:
        yield _judged(txn, held.pop(txn.producer_id, None), partition, coordinators, now_ms)
    for known in held.values():  # the log has no data of them
        first, epoch = known.current_txn_first_offset, known.producer_epoch
        txn = Transaction(known.producer_id, epoch, first, None, Status.OPEN, None, None)
        yield _judged(txn, known, partition, coordinators, now_ms)


def _judged(
    txn: Transaction,
    known: ProducerState | None,
    partition: TopicPartition | None,
    coordinators: Coordinators,
    now_ms: int,
) -> OpenTransaction:
    metadata = coordinators.find(txn.producer_id)
    former = metadata or coordinators.find_former(txn.producer_id)
    if known is None:
        return OpenTransaction(txn, Data.WHOLE, None, TransactionVerdict.FORGOTTEN, former)
    since, data = known.current_txn_first_offset, Data.WHOLE
    if txn.last_offset is None or txn.first_offset is None:
        data = Data.GONE
    elif since is not None and since < txn.first_offset:
        data = Data.PARTLY_GONE
    verdict = TransactionVerdict.HANGING
    if metadata is not None and partition in metadata.partitions:
        verdict = TransactionVerdict.ONGOING
    elif metadata is None and not coordinators.is_whole:
        is_old = now_ms - known.last_timestamp > MAX_TIMEOUT_MS
        verdict = TransactionVerdict.SUSPECT if is_old else TransactionVerdict.UNKNOWN
    is_late = metadata is not None and metadata.start_ms + metadata.timeout_ms < now_ms
    return OpenTransaction(txn, data, since, verdict, former, is_late)
