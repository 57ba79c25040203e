"""Transactions as batches and markers tell them, and as a broker remembers them."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from damage import overwrite
from loading import CONFIG, NOW_MS, data, make, marker, name_of
from running import Done

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import FileRange
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.broker.unified_log.log_segment import walk_entries_with
from klogtool.broker.unified_log.log_transactions import Status, Transaction
from klogtool.errors import Changed, KlogError
from klogtool.format.batch import LOG_APPEND_TIME, TRANSACTIONAL_BIT
from klogtool.log.mapped import MAPPED_FROM_BYTES

Path = pathlib.Path


def loaded(folder: Path, **given: Any) -> LoadedPartition:
    return load(str(folder), Circumstances(now_ms=NOW_MS, config=CONFIG, **given), jobs=1)


def transactional(offset: int, producer_id: int, **header: Any) -> bytes:
    whole = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True, **header}
    return data(offset, **whole)


def at(offset: int) -> int:
    return NOW_MS + 1000 * offset


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """7 aborts 0-3, 8 commits 1, 9 has a marker alone, 8 is open from 6 on; in two segments."""
    first = [transactional(0, 7), transactional(1, 8), data(2), transactional(3, 7)]
    second = [marker(4, 8, aborts=False), marker(5, 7), transactional(6, 8, records=2), marker(8, 9, aborts=False)]
    return make(tmp_path / "t-0", {0: first, 4: second})


def test_each_as_its_marker_comes_and_the_open_ones_last(log: Path) -> None:
    assert list(loaded(log).transactions()) == [
        Transaction(8, 0, 1, 1, Status.COMMITTED, at(1), 4),
        Transaction(7, 0, 0, 3, Status.ABORTED, at(0), 5),
        Transaction(9, 0, None, None, Status.EMPTY, at(8), 8),
        Transaction(8, 0, 6, 7, Status.OPEN, at(6), None),
    ]


def test_what_lies_below_the_log_start_does_not_count(log: Path) -> None:
    found = list(loaded(log, log_start_offset=2).transactions())
    assert [(txn.producer_id, txn.first_offset, txn.status) for txn in found] == [
        (8, None, Status.EMPTY),
        (7, 3, Status.ABORTED),
        (9, None, Status.EMPTY),
        (8, 6, Status.OPEN),
    ]


def test_what_a_broker_remembers(log: Path) -> None:
    state = loaded(log).transaction_state()
    assert [(one.producer_id, one.current_txn_first_offset) for one in state.producers] == [
        (7, None),
        (8, 6),
        (9, None),
    ]
    assert (state.high_watermark, state.last_stable_offset, state.first_unstable_offset) == (9, 6, 6)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in state.aborted] == [(7, 0, 5)]
    held = loaded(log, high_watermark=3).transaction_state()
    # Those that ended above the high watermark are forgotten: a snapshot does not have them.
    assert (held.high_watermark, held.last_stable_offset, held.first_unstable_offset) == (3, 3, 6)


def test_the_time_of_the_first_record(tmp_path: Path) -> None:
    appended = transactional(0, 7, timestamp_type=LOG_APPEND_TIME, log_append_time=5)
    compacted = transactional(1, 8, delete_horizon_ms=9)
    folder = make(tmp_path / "t-0", {0: [appended, compacted]})
    assert [txn.first_timestamp for txn in loaded(folder).transactions()] == [5, None]


def test_offsets_that_go_back_end_it(log: Path) -> None:
    """A base offset that was hit: the transaction seemed to reach behind its marker."""
    path = log / name_of(4, "log")
    second_marker = len(marker(4, 8, aborts=False))
    overwrite(path, 0, (1 << 20).to_bytes(8, "big"))
    transactions = loaded(log, last_stop="clean").transactions()
    assert next(transactions).marker_offset == 1 << 20
    with pytest.raises(KlogError, match=r"offset 5 does not lie behind offset 1048576") as told:
        next(transactions)
    assert (told.value.path, told.value.position) == (str(path), second_marker)


def test_damage_ends_it_after_what_lies_before(log: Path) -> None:
    path = log / name_of(4, "log")
    second_marker = len(marker(4, 8, aborts=False))
    overwrite(path, second_marker + 61 + 4, b"\xff\xff\xff")
    transactions = loaded(log, last_stop="clean").transactions()
    assert next(transactions).marker_offset == 4
    with pytest.raises(KlogError) as told:
        next(transactions)
    assert (told.value.path, told.value.position) == (str(path), second_marker)


@pytest.mark.parametrize("left", [0, 5000, 200_000])
def test_a_large_log_that_is_cut_while_it_is_read(tmp_path: Path, left: int) -> None:
    """It is mapped: zeros are seen where it has no bytes any more, and say nothing of it."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(transactional(n, 7) if n % 50 == 0 else data(n) for n in range(20_000)))
    assert path.stat().st_size > MAPPED_FROM_BYTES
    with ContentFile(path, (FileRange(str(path), 0, path.stat().st_size),)) as file:
        entries = walk_entries_with(file, TRANSACTIONAL_BIT)
        next(entries)
        os.truncate(path, left)
        with pytest.raises(Changed):
            list(entries)


def test_the_command(klogtool: Callable[..., Done], log: Path) -> None:
    done = klogtool("txns", log, "--now", str(NOW_MS), "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["type"] for row in rows] == ["klogtool", *["transaction"] * 4, "answer"]
    assert rows[2]["status"] == "aborted"
    assert rows[-1]["last_stable_offset"] == 6
    assert (done.status, done.err) == (0, "")
    told = klogtool("txns", log, "--now", str(NOW_MS))
    assert told.out.decode().splitlines()[-1] == "1 committed, 1 aborted, 1 open, 1 empty; 3 producers known"
    assert klogtool("txns", log / "none").status == 2
