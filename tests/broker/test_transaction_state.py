"""The state of transactional ids, as a coordinator loads it from `__transaction_state`."""

from __future__ import annotations

import contextlib
import pathlib
import random
import shutil
from typing import Any

import pytest
from coordinating import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    key_of,
    make_state,
    state_of,
    tombstone_of,
)
from loading import NOW_MS
from running import FIXTURES

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.coordinator.coordinators import USUAL_PARTITIONS, Coordinators, find_coordinators
from klogtool.broker.coordinator.transaction_state import CoordinatorPartition, TransactionState, load_transactions
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import Corrupt
from klogtool.format.names import TopicPartition

Path = pathlib.Path


def loaded(folder: Path, *, with_ends: bool = False, **given: Any) -> CoordinatorPartition:
    log = load(str(folder), Circumstances(now_ms=NOW_MS, **given), jobs=1).log
    found = load_transactions(log, 0, with_ends=with_ends)
    assert found is not None
    return found


def test_the_latest_record_of_an_id_wins_and_a_tombstone_removes_it(tmp_path: Path) -> None:
    states = [
        state_of("a", EMPTY, producerId=1),
        state_of("b", EMPTY, producerId=2),
        state_of("a", ONGOING, producerId=1, producerEpoch=4, partitions=[("t", 0), ("t", 1), ("u", 7)]),
        tombstone_of("b"),
        tombstone_of("never there"),
    ]
    (one,) = loaded(make_state(tmp_path / "__transaction_state-0", states)).latest.values()
    assert (one.transactional_id, one.producer_id, one.producer_epoch, one.timeout_ms) == ("a", 1, 4, 60_000)
    assert (one.state, one.state.told, one.offset) == (TransactionState.ONGOING, "Ongoing", 2)
    assert one.partitions == {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 7)}
    assert (one.previous_producer_id, one.next_producer_id, one.client_version) == (-1, -1, 0)


def test_tagged_fields_of_version_1(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "previousProducerId": 5,
        "nextProducerId": 7,
        "nextProducerEpoch": 0,
        "clientTransactionVersion": 2,
    }
    states = [state_of("a", COMPLETE_COMMIT, version=1, producerId=6, **more)]
    partition = loaded(make_state(tmp_path / "__transaction_state-0", states))
    one = partition.latest["a"]
    assert (one.previous_producer_id, one.next_producer_id, one.client_version) == (5, 7, 2)
    known = Coordinators([partition], 1)
    assert known.find(6) == known.find_former(5) == known.find_former(7) == one
    assert known.find(5) is known.find(-1) is known.find_former(-1) is None


def test_what_no_release_knows_is_passed_over(tmp_path: Path) -> None:
    key, value = state_of("a", ONGOING)
    assert value is not None
    states = [(key, value), (b"\0\x09" + key[2:], value), (key_of("b"), b"\0\x09" + value[2:])]
    assert list(loaded(make_state(tmp_path / "__transaction_state-0", states)).latest) == ["a"]


def test_records_of_an_image_say_nothing(tmp_path: Path) -> None:
    key, value = state_of("a", ONGOING)
    blank = bytes(len(key)), bytes(len(value or b""))
    log = load(str(make_state(tmp_path / "__transaction_state-0", [blank])), Circumstances(now_ms=NOW_MS), jobs=1).log
    assert load_transactions(log, 0) is None


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0short", state_of("a", 9)[1]])
def test_a_record_that_cannot_be_read_ends_the_loading(tmp_path: Path, value: bytes) -> None:
    for later in ([], [state_of("a", EMPTY)], [tombstone_of("a")]):  # a coordinator reads those that are replaced, too
        folder = make_state(tmp_path / f"__transaction_state-{len(later)}", [(key_of("a"), value), *later])
        with pytest.raises(Corrupt, match="offset 0"):
            loaded(folder)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_random_bytes_are_refused_or_read(tmp_path: Path) -> None:
    rng = random.Random(24)
    key, value = state_of("a", ONGOING, version=1, partitions=[("t", 0)])
    assert value is not None
    for n in range(200):
        broken = bytearray(value)
        broken[rng.randrange(len(value))] = rng.randrange(256)
        folder = make_state(tmp_path / f"__transaction_state-{n}", [(key, bytes(broken[: rng.randrange(len(value))]))])
        with contextlib.suppress(Corrupt):
            loaded(folder)


def test_ends_are_kept_from_the_last_gap_on(tmp_path: Path) -> None:
    states = [
        state_of("a", PREPARE_COMMIT, partitions=[("t", 0)]),
        state_of("a", COMPLETE_COMMIT),
        state_of("a", ONGOING, partitions=[("t", 0)]),
        state_of("a", COMPLETE_ABORT),
    ]
    folder = make_state(tmp_path / "__transaction_state-0", states)
    kept = loaded(folder, with_ends=True)
    assert [one.offset for one in kept.ends] == [0, 1, 3]
    later = loaded(folder, with_ends=True, log_start_offset=1)
    assert [one.offset for one in later.ends] == [1, 3]
    assert loaded(folder).ends == ()


def test_the_coordinators_of_a_log_dir() -> None:
    known = find_coordinators([str(FIXTURES / "transactions/logdir/t-0")], Circumstances(now_ms=NOW_MS))
    assert (list(known.partitions), known.expected, known.is_whole) == ([0], USUAL_PARTITIONS, False)
    assert {known.find(number).transactional_id for number in (0, 1)} == {"tx-0", "tx-1"}  # type: ignore[union-attr]
    assert known.find(77) is None
    with_metadata = find_coordinators([str(FIXTURES / "metadata/logdir")], Circumstances(now_ms=NOW_MS))
    assert (with_metadata.expected, with_metadata.is_whole) == (1, True)


def test_the_copy_that_ends_last_counts(tmp_path: Path) -> None:
    for name, states in {"d1": ["x"], "d2": ["x", "y"], "d3": []}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text("version=1\n")
        make_state(tmp_path / name / "__transaction_state-0", [state_of(one, producerId=7) for one in states])
    known = find_coordinators([str(tmp_path / name) for name in ("d1", "d2", "d3")], Circumstances(now_ms=NOW_MS))
    assert list(known.partitions[0].latest) == ["x", "y"]


def test_a_partition_that_cannot_be_loaded_is_not_at_hand(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    make_state(tmp_path / "__transaction_state-0", [(key_of("a"), b"\0")])
    make_state(tmp_path / "__transaction_state-3", [state_of("b")])
    known = find_coordinators([str(tmp_path)], Circumstances(now_ms=NOW_MS))
    assert list(known.partitions) == [3]
    assert [problem.path for problem in known.problems] == [str(tmp_path / "__transaction_state-0")]
