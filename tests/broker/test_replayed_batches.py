"""Batches that a broker reads once more at its start: the same producers by the kernel and without it."""

from __future__ import annotations

import itertools
import pathlib
import random
from typing import Any
from unittest.mock import patch

import pytest
from raw_batches import build_batch, raw_batch
from readers import Reader, told
from recovered import LOG_NAME, drawn_producers, state_of
from recovery_logs import BASE_OFFSET, KINDS, PRODUCER_EPOCHS, TIMESTAMP, recovery_log, wounded

from klogtool import kernels
from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.broker.releases import REFERENCE_RULES, Release, Rules, rules_of
from klogtool.broker.unified_log import mapped_windows, replayed_batches
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.errors import KlogError
from klogtool.format.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.log import mapped
from klogtool.log.producer_state import Examined, ProducerStateManager

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the kernels are not built")

EMPTIED = (("emptied", "txn", "marker"), ("emptied", "idempotent"))


def replay(
    reader: str,
    folder: pathlib.Path,
    producers: ProducerStateManager,
    start: int,
    end: int,
    rules: Rules = REFERENCE_RULES,
) -> dict[str, Any]:
    """What becomes of the producers, or the error."""
    with Reader(reader).reading() as native:
        segment = LogSegment(Draft.of(str(folder)), BASE_OFFSET, LogConfig(), rules=rules)
        try:
            replayed_batches.replay_batches(producers, segment, start, end)
        except KlogError as error:
            return {"error": told(error)}
    assert native is None or native.asked["Recovery"] == 1
    return state_of(producers)


def by_reference(found: list[int]) -> Any:
    """Meanwhile what the reference is asked for is counted."""
    examine = replayed_batches.examine_producers

    def counted(*arguments: Any, **named: Any) -> Examined:
        found.append(1)
        return examine(*arguments, **named)

    return patch.object(replayed_batches, "examine_producers", counted)


@pytest.mark.parametrize("seed", range(20))
def test_both_readers_know_the_same_producers(tmp_path: pathlib.Path, seed: int) -> None:
    for n in range(10):
        rng = random.Random(f"{seed}-{n}")
        epochs = rng.choice((PRODUCER_EPOCHS, (0,), (1,)))
        log = wounded(rng, recovery_log(rng, rng.choice((1, 5, 60, 300)), KINDS + EMPTIED, epochs))
        (tmp_path / LOG_NAME).write_bytes(log)
        start, end = (0, len(log)) if rng.random() < 0.7 else sorted(rng.choices(range(len(log) + 1), k=2))
        spans = patch.object(mapped_windows, "SPAN_BYTES", rng.choice((300, 2000, 8 << 20)))
        with spans, patch.object(mapped, "MAPPED_FROM_BYTES", rng.choice((1, 1 << 20))):
            kernel = replay("kernel", tmp_path, drawn_producers(random.Random(seed)), start, end)
        assert kernel == replay("reference", tmp_path, drawn_producers(random.Random(seed)), start, end), f"log {n}"


@pytest.mark.parametrize("kinds", [*KINDS, *EMPTIED], ids=" ".join)
def test_the_kernel_does_all_of_an_ordinary_log(tmp_path: pathlib.Path, kinds: tuple[str, ...]) -> None:
    count: list[int] = []
    for n in range(20):  # few have nothing unusual, but some of each kind do
        rng = random.Random(n)
        (tmp_path / LOG_NAME).write_bytes(recovery_log(rng, 50, (kinds,), (3,)))
        with by_reference(count):
            replay("kernel", tmp_path, ProducerStateManager(), 0, (tmp_path / LOG_NAME).stat().st_size)
    assert len(count) < 20


def data_batch(offset: int, epoch: int, producer_id: int = 7, *, is_transactional: bool = False) -> bytes:
    record = Record(offset, TIMESTAMP, None, b"v")
    fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": offset % 1000}
    return build_batch([record], is_transactional=is_transactional, **fields)


def end_marker(offset: int, producer_id: int) -> bytes:
    marker = build_end_transaction_marker(EndTransactionMarker(ControlRecordType.COMMIT, 0))
    record = Record(offset, TIMESTAMP, build_control_key(ControlRecordType.COMMIT), marker)
    fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "is_control": True}
    return build_batch([record], is_transactional=True, **fields)


def emptied_marker(offset: int, producer_id: int) -> bytes:
    return raw_batch(
        b"",
        base_offset=offset,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        base_timestamp=-1,
        max_timestamp=-1,
        producer_id=producer_id,
        producer_epoch=0,
        records_count=0,
    )


@pytest.mark.parametrize(
    "log",
    [
        # Epoch 1 again behind epoch 2: the batches of epoch 1 that were known before are known again.
        [data_batch(BASE_OFFSET, 2), data_batch(BASE_OFFSET + 1, 1)],
        # A transaction begins at an offset that was there.
        [data_batch(BASE_OFFSET + 5, 1, 8), data_batch(BASE_OFFSET + 5, 1, 9, is_transactional=True)],
        # It begins where one has begun that a marker below it has ended.
        [
            data_batch(BASE_OFFSET + 5, 0, 8, is_transactional=True),
            end_marker(BASE_OFFSET + 4, 8),
            data_batch(BASE_OFFSET + 5, 0, 9, is_transactional=True),
        ],
        # And it ends: a broker does not load this log.
        [
            data_batch(BASE_OFFSET + 5, 0, 8, is_transactional=True),
            end_marker(BASE_OFFSET + 4, 8),
            data_batch(BASE_OFFSET + 5, 0, 9, is_transactional=True),
            end_marker(BASE_OFFSET + 6, 9),
        ],
    ],
    ids=["epoch", "offset", "first-offset", "first-offset-and-end"],
)
def test_what_goes_back_is_the_references(tmp_path: pathlib.Path, log: list[bytes]) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"".join(log))
    count: list[int] = []
    left = []
    for reader in ("reference", "kernel"):
        producers = ProducerStateManager()
        (tmp_path / f"{BASE_OFFSET - 1:020d}.log").write_bytes(data_batch(BASE_OFFSET - 1, 1))
        before = LogSegment(Draft.of(str(tmp_path)), BASE_OFFSET - 1, LogConfig())
        replayed_batches.replay_batches(producers, before, 0, before.size)
        with by_reference(count):
            left.append(replay(reader, tmp_path, producers, 0, sum(map(len, log))))
    assert left[0] == left[1]
    assert len(count) == 2


@pytest.mark.parametrize("ends_again", [False, True])
def test_a_transaction_that_ended_and_begins_once_more(tmp_path: pathlib.Path, ends_again: bool) -> None:
    """The state before is from behind these batches: a log that went back has such a snapshot. A broker lets all begin
    before any ends, so the one that is open in the end is none that it knows, and to end it again is an error."""
    first = BASE_OFFSET + 8
    again = data_batch(first, 0, is_transactional=True)
    log = [end_marker(BASE_OFFSET, 7), data_batch(BASE_OFFSET + 1, 0, 8), again]
    log += [end_marker(first + 1, 7)] if ends_again else []
    left = []
    for reader in ("reference", "kernel"):
        producers = ProducerStateManager()
        (tmp_path / LOG_NAME).write_bytes(again)
        replay("reference", tmp_path, producers, 0, len(again))
        (tmp_path / LOG_NAME).write_bytes(b"".join(log))
        left.append((replay(reader, tmp_path, producers, 0, sum(map(len, log))), producers.ongoing_txns))
    assert left[0] == left[1]
    assert left[0][1] == []
    assert ("error" in left[0][0]) == ends_again


def test_the_order_of_producers_is_that_in_which_they_came_up(tmp_path: pathlib.Path) -> None:
    """Ids that share a bucket of Java's map, some of whose batches compaction has emptied."""
    ids = [16 * n for n in (5, 3, 9, 1, 7, 2)]
    log = []
    for n, producer_id in enumerate(ids):
        if n % 2:
            log.append(data_batch(BASE_OFFSET + n, 0, producer_id))
            continue
        log.append(emptied_marker(BASE_OFFSET + n, producer_id))
    (tmp_path / LOG_NAME).write_bytes(b"".join(log))
    left = [
        replay(reader, tmp_path, ProducerStateManager(), 0, sum(map(len, log))) for reader in ("reference", "kernel")
    ]
    assert left[0] == left[1]
    assert len(left[0]["snapshot"]) == len(ids)


def drawn_log(rng: random.Random, count: int) -> bytes:
    """Batches of so many producers, each of which comes up again some times; some are emptied markers."""
    ids = rng.sample(range(300), count)
    again = rng.choices(ids, k=rng.choice((0, 1, 5)))
    kinds = [emptied_marker if rng.random() < 0.1 else data_batch for _ in ids + again]
    return b"".join(
        emptied_marker(BASE_OFFSET + n, producer_id)
        if kind is emptied_marker
        else data_batch(BASE_OFFSET + n, 0, producer_id)
        for n, (kind, producer_id) in enumerate(zip(kinds, ids + again, strict=True))
    )


@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_both_readers_put_many_producers_in_the_same_order(tmp_path: pathlib.Path, release: Release) -> None:
    """12, 13, 24 and 25 producers fill a map, which grows."""
    rules = rules_of(release)
    for seed, count in itertools.product(range(12), (11, 12, 13, 14, 23, 24, 25, 26, 50)):
        log = drawn_log(random.Random(f"{seed} {count}"), count)
        (tmp_path / LOG_NAME).write_bytes(log)
        left = [
            replay(reader, tmp_path, ProducerStateManager(), 0, len(log), rules)["snapshot"]
            for reader in ("reference", "kernel")
        ]
        assert left[0] == left[1], (seed, count)


def test_the_order_is_scalas_before_4_0(tmp_path: pathlib.Path) -> None:
    log = [data_batch(BASE_OFFSET + n, 0, producer_id) for n, producer_id in enumerate((19, 51, 3))]
    (tmp_path / LOG_NAME).write_bytes(b"".join(log))
    ids = {}
    for release in ("3.9.2", "4.0.1"):
        snapshot = replay("kernel", tmp_path, ProducerStateManager(), 0, sum(map(len, log)), rules_of(release))[
            "snapshot"
        ]
        ids[release] = [entry.producer_id for entry in snapshot]
    assert ids == {"3.9.2": [3, 19, 51], "4.0.1": [3, 51, 19]}
