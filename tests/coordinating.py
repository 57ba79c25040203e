"""Partitions of `__transaction_state`, made of what coordinators would have written."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from coordinator_records import build_coordinator_key, build_version_prefixed
from loading import NOW_MS, make
from raw_batches import build_batch

from klogtool.format.batch import Record

KEY, VALUE = "TransactionLogKey", "TransactionLogValue"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
State = tuple[bytes, bytes | None]


def state_of(
    transactional_id: str,
    status: int = EMPTY,
    *,
    version: int = 0,
    partitions: Sequence[tuple[str, int]] = (),
    **values: Any,
) -> State:
    """Key and value of a record. partitions: (topic, partition). values: fields by Kafka's names."""
    usual = {
        "producerId": 0,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": status,
        "transactionPartitions": None
        if status == EMPTY
        else [{"topic": topic, "partitionIds": [number]} for topic, number in partitions],
        "transactionLastUpdateTimestampMs": NOW_MS,
        "transactionStartTimestampMs": NOW_MS,
    }
    tagged = {"previousProducerId": -1, "nextProducerId": -1, "nextProducerEpoch": -1, "clientTransactionVersion": 0}
    whole = usual | (tagged if version else {}) | values
    return key_of(transactional_id), build_version_prefixed(VALUE, version, whole)


def key_of(transactional_id: str) -> bytes:
    return build_coordinator_key(KEY, {"transactionalId": transactional_id})


def tombstone_of(transactional_id: str) -> State:
    return key_of(transactional_id), None


def make_state(folder: pathlib.Path, states: Sequence[State], times: Sequence[int] = ()) -> pathlib.Path:
    """A partition dir with a batch for each record. times: of the records, else a second apart."""
    batches = [
        build_batch([Record(n, times[n] if times else NOW_MS + 1000 * n, *state)]) for n, state in enumerate(states)
    ]
    return make(folder, {0: batches})
