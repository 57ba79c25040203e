"""Where a coordinator's load of a partition ends: at the first record that it cannot read.

Sources: CoordinatorLoaderImpl.processMemoryRecords and CoordinatorRecordSerde.deserialize (before 4.0 the
GroupMetadataManager in Scala); TransactionStateManager.loadTransactionMetadata. Records of a type that the coordinator
does not know are passed over. What replaying a record refuses is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from klogtool.broker.releases import REFERENCE_RULES, Rules
from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.format.commit_replay import is_commit_key
from klogtool.format.internal.offset_commits import parse_offset_commit
from klogtool.format.internal.records import (
    GROUP,
    SHARE,
    SHORT_BYTES,
    TRANSACTION,
    UnknownRecordType,
    java_message,
    parse_coordinator_record,
)
from klogtool.format.names import OFFSETS_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC
from klogtool.log.entries import Entry

MODULES = {OFFSETS_TOPIC: GROUP, TRANSACTIONS_TOPIC: TRANSACTION, SHARES_TOPIC: SHARE}
MOST_BYTES = 4 << 20  # of a log whose records are all opened one by one, however many they are
MOST_RECORDS, MOST_LARGE_BYTES = 10_000, 256 << 20  # of one with a few large records
NULL_KEY = "requirement failed: Transaction state log's key should not be null"
UNKNOWN_VERSION = "UnknownRecordVersionException"
TRANSACTION_STATES = 8  # TransactionState.fromId
UNKNOWN_STATE_ID = "Unknown transaction state id {} from the transaction status message"
UNKNOWN_STATE = "Unknown version {} from the transaction log message value"
_NO_VERSION = "Could not read version from key's buffer."
_NO_KEY = {GROUP: _NO_VERSION, SHARE: _NO_VERSION, TRANSACTION: NULL_KEY}
_BLANKED = bytes(range(2))  # of keys in an image: zeros, and the last byte is 1 if it was not zero


class LoadEnd(Struct, frozen=True):
    """The record at which a load ends, by its offset, and what Kafka says of it."""

    offset: int
    reason: str


def is_loaded(entry: Entry, log_start_offset: int) -> bool:
    """Return whether a coordinator loads what an entry has: it is no marker, and ends at the log start or above."""
    return entry.last_offset >= log_start_offset and not (isinstance(entry, RecordBatch) and entry.is_control)


def find_load_end(entries: Iterable[Entry], module: str, rules: Rules = REFERENCE_RULES) -> LoadEnd | None:
    """Return the first record that ends a load; None if none does. entries: those that are loaded. module: GROUP,
    SHARE or TRANSACTION. rules: those of the release.

    Records that were blanked (`klogtool image`) are passed over: nothing is known of them. Raises KlogError if an entry
    cannot be read.
    """
    for entry in entries:
        for record in entry.records():
            reason = why_unread(record.key, record.value, module, rules)
            if reason is not None:
                return LoadEnd(record.offset, reason)
    return None


def why_unread(key: bytes | None, value: bytes | None, module: str, rules: Rules = REFERENCE_RULES) -> str | None:
    """Return what Kafka says of a record that its coordinator cannot read; None if it can, or passes over it."""
    if key is None:
        return _NO_KEY[module]
    if len(key) >= SHORT_BYTES and not key.strip(_BLANKED):
        return None
    try:
        if module == GROUP and value is not None and is_commit_key(key):
            parse_offset_commit(key, value)
        else:
            _, message = parse_coordinator_record(module, key, value)
            number = message.values.get("transactionStatus", 0) if message is not None else 0
            if not 0 <= number < TRANSACTION_STATES:
                return UNKNOWN_STATE_ID.format(number)
    except UnknownRecordType:
        return None
    except KlogError as error:
        if module != TRANSACTION or error.kafka_class != UNKNOWN_VERSION or value is None:
            return java_message(error)
        version = int.from_bytes(value[:SHORT_BYTES], "big", signed=True)
        return None if rules.passes_over_states else UNKNOWN_STATE.format(version)
    return None
