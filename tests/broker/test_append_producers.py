"""Producers that append: ProducerStateManagerTest and the idempotence of UnifiedLogTest, through append."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from appending import NOW_MS, Record, appended, batch, build_batch, follower, leader, plan_of

from klogtool.broker.content import read_content
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.indexes import parse_txn_index
from klogtool.plans.plan import Plan, Write


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "t-0"


def sent(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, txn: bool = False) -> dict[str, Any]:
    header = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return leader(batch(count, is_transactional=txn, **header))


def marker(*, aborts: bool = False, epoch: int = 0, coordinator: int = 0, producer_id: int = 9, at: int = 0) -> bytes:
    kind = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
    value = build_end_transaction_marker(EndTransactionMarker(kind, coordinator))
    record = Record(at, NOW_MS, build_control_key(kind), value)
    header = {"producer_id": producer_id, "producer_epoch": epoch, "is_transactional": True, "is_control": True}
    return build_batch([record], partition_leader_epoch=1, **header)


def ended(version: int | None = 1, **more: Any) -> dict[str, Any]:
    told = {} if version is None else {"transaction_version": version}
    return leader(marker(**more), origin="coordinator", **told)


def outcome(folder: pathlib.Path, *calls: dict[str, Any], **config: Any) -> list[str | None]:
    """The class of exception of each call, None if it is done."""
    return [row["error"]["class"] if "error" in row else None for row in appended(folder, *calls, **config)]


def txn_index(plan: Plan) -> list[tuple[int, int, int, int]]:
    found = [step for step in plan.steps if isinstance(step, Write) and step.path.endswith(".txnindex")]
    entries = parse_txn_index(read_content(found[0].content)) if found else []
    return [(e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset) for e in entries]


def test_the_same_batch_again_is_answered_as_then(folder: pathlib.Path) -> None:
    rows = appended(folder, sent(0, 3), sent(3), sent(0, 3), leader(batch(1)))
    assert [(row["first_offset"], row["last_offset"], row["log_end_offset"]) for row in rows] == [
        (0, 2, 3),
        (3, 3, 4),
        (0, 2, 4),
        (4, 4, 5),
    ]


def test_of_five_batches_each_is_known(folder: pathlib.Path) -> None:
    calls = [sent(n) for n in range(6)]
    assert outcome(folder, *calls, sent(1), sent(0)) == [None] * 7 + ["OutOfOrderSequenceException"]


@pytest.mark.parametrize(
    ("calls", "last"),
    [
        ([sent(0), sent(1)], None),
        ([sent(0), sent(2)], "OutOfOrderSequenceException"),
        ([sent(7), sent(8)], None),
        ([sent(0, epoch=1), sent(1, epoch=0)], "InvalidProducerEpochException"),
        ([sent(5), sent(0, epoch=1)], None),
        ([sent(5), sent(6, epoch=1)], "OutOfOrderSequenceException"),
        ([sent(2**31 - 1), sent(0)], None),
        ([sent(2**31 - 2, 2), sent(0)], None),
        ([sent(2**31 - 2, 2), sent(1)], "OutOfOrderSequenceException"),
        ([sent(0), sent(0, producer_id=10)], None),
    ],
)
def test_sequences_and_epochs(folder: pathlib.Path, calls: list[Any], last: str | None) -> None:
    assert outcome(folder, *calls) == [None] * (len(calls) - 1) + [last]


@pytest.mark.parametrize(
    ("version", "epoch", "kafka_class"),
    [
        (0, 0, None),
        (1, 0, None),
        (2, 0, "InvalidProducerEpochException"),
        (2, 1, None),
        (1, 1, None),
        (None, 0, "IllegalArgumentException"),
    ],
)
def test_a_marker_by_its_version(
    folder: pathlib.Path, version: int | None, epoch: int, kafka_class: str | None
) -> None:
    assert outcome(folder, sent(0, txn=True), ended(version, epoch=epoch)) == [None, kafka_class]


def test_a_marker_that_is_written_again(folder: pathlib.Path) -> None:
    assert outcome(folder, sent(0, txn=True), ended(2, epoch=1), ended(2, epoch=1)) == [None] * 3


def test_a_coordinator_that_is_none_any_more(folder: pathlib.Path) -> None:
    calls = [sent(0, txn=True), ended(coordinator=3), ended(coordinator=2)]
    assert outcome(folder, *calls)[-1] == "TransactionCoordinatorFencedException"


def test_data_out_of_its_transaction(folder: pathlib.Path) -> None:
    assert outcome(folder, sent(0, txn=True), sent(1)) == [None, "InvalidTxnStateException"]


def test_a_transaction_that_nobody_was_asked_about(folder: pathlib.Path) -> None:
    verified = {"transaction_partition_verification_enable": "true"}
    assert outcome(folder, sent(0, txn=True), **verified) == ["InvalidTxnStateException"]
    assert outcome(folder, sent(0, txn=True)) == [None]


def test_an_aborted_one_is_in_the_index(folder: pathlib.Path) -> None:
    calls = [sent(0, txn=True), sent(0, producer_id=10, txn=True), ended(aborts=True)]
    assert txn_index(plan_of(folder, *calls)) == [(9, 0, 2, 1)]
    assert txn_index(plan_of(folder, calls[0], calls[2])) == [(9, 0, 1, 2)]
    assert txn_index(plan_of(folder, calls[0], ended())) == []


def test_in_one_set_of_a_follower_all_are_seen_first(folder: pathlib.Path) -> None:
    """A transaction that begins behind the marker is open, too, when that one counts."""

    def data(at: int, producer_id: int) -> bytes:
        header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        return build_batch([Record(at, NOW_MS, b"k", b"v")], partition_leader_epoch=1, **header)

    parts = [data(0, 9), marker(at=1, aborts=True), data(20, 10)]
    assert txn_index(plan_of(folder, follower(b"".join(parts)))) == [(9, 0, 1, 20)]
    assert txn_index(plan_of(folder, *map(follower, parts))) == [(9, 0, 1, 2)]
