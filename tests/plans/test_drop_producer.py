"""One producer goes from the snapshots of a partition, and a broker's start does not find it again."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from deciding import decided
from loading import NOW_MS, data, files_of, make, marker, name_of, put, result_of
from running import FIXTURES

from klogtool.broker.circumstances import CLEAN, UNCLEAN, Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import KlogError, Refused
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.plans.plan import Plan
from klogtool.render.words import words

Path = pathlib.Path


def transactional(offset: int, producer_id: int, sequence: int = 0, **header: Any) -> bytes:
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, **header}
    return data(offset, is_transactional=True, **header)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """7 and 8 hang from 0 and 1 on, 9 has ended; in two segments; data of 7 only in the first one."""
    first = [transactional(0, 7), transactional(1, 8), transactional(2, 9)]
    second = [marker(3, 9), transactional(4, 8, 1)]
    return make(tmp_path / "t-0", {0: first, 3: second})


def drop(folder: Path, producer_id: int, **given: Any) -> Plan:
    asked = Circumstances(now_ms=NOW_MS, **given).as_arguments() | {"producer_id": producer_id, "jobs": 1}
    (made,) = decided("drop-producer", folder, asked)
    return made


def producers_in(folder: Path) -> dict[str, list[int]]:
    return {
        path.name: [entry.producer_id for entry in parse_producer_snapshot(path.read_bytes())]
        for path in sorted(folder.glob("*.snapshot"))
    }


def state(folder: Path) -> tuple[list[int], int]:
    found = load(str(folder), Circumstances(now_ms=NOW_MS), jobs=1).transaction_state()
    return [known.producer_id for known in found.producers], found.last_stable_offset


def test_it_goes_from_all_snapshots_and_the_others_stay(log: Path) -> None:
    assert producers_in(log) == {name_of(3, "snapshot"): [7, 8, 9], name_of(5, "snapshot"): [7, 8, 9]}
    before = files_of(log)
    made = drop(log, 7)
    assert made.answer == {
        "producer_id": 7,
        "snapshots": [name_of(3, "snapshot"), name_of(5, "snapshot")],
        "is_known": True,
        "open_since": 0,
        "visible": [0, 0],
        "last_stable_offset_before": 0,
        "last_stable_offset": 1,
        "returns_after_unclean_stop": True,  # outside of a log dir everything is recovered
    }
    after = result_of(made)
    assert {name for name in before if before[name] != after[name]} == set(made.answer["snapshots"])
    put(log, after)
    assert producers_in(log) == {name_of(3, "snapshot"): [8, 9], name_of(5, "snapshot"): [8, 9]}
    assert state(log) == ([8, 9], 1)


def test_what_a_recovery_does_not_read_does_not_come_back(log: Path) -> None:
    assert not drop(log, 7, recovery_point=5).answer["returns_after_unclean_stop"]
    assert drop(log, 8, recovery_point=5).answer["returns_after_unclean_stop"]


def test_a_producer_whose_transactions_have_ended(log: Path) -> None:
    answer = drop(log, 9).answer
    assert (answer["open_since"], answer["visible"], answer["last_stable_offset"]) == (None, None, 0)


def test_data_that_are_gone_expose_nothing(log: Path) -> None:
    answer = drop(log, 7, log_start_offset=1).answer
    assert (answer["open_since"], answer["visible"]) == (0, None)
    assert (answer["last_stable_offset_before"], answer["last_stable_offset"]) == (1, 1)


def test_it_is_refused_if_the_next_start_finds_it_again(log: Path) -> None:
    with pytest.raises(Refused, match=r"recovers segments from offset 0 on.*the last at offset 0") as told:
        drop(log, 7, last_stop=UNCLEAN)
    assert "recover" in str(told.value.cure)
    assert drop(log, 7, last_stop=UNCLEAN, recovery_point=5).steps
    (log / name_of(5, "snapshot")).unlink()
    with pytest.raises(Refused, match=r"reads the log from offset 3 on.*the last at offset 4"):
        drop(log, 8)
    assert drop(log, 7).answer["snapshots"] == [name_of(3, "snapshot")]


def test_nothing_to_drop(log: Path) -> None:
    made = drop(log, 99)
    assert (made.steps, made.answer["snapshots"], made.answer["is_known"]) == ((), [], False)


def test_a_damaged_snapshot_is_left_alone(log: Path) -> None:
    (log / name_of(3, "snapshot")).write_bytes(b"\0\1broken")
    made = drop(log, 7)
    assert made.answer["snapshots"] == [name_of(5, "snapshot")]
    assert any("is left as it is" in note for note in map(words, made.notes))


def test_a_log_dir_is_refused() -> None:
    with pytest.raises(KlogError, match="not a partition dir"):
        drop(FIXTURES / "transactions/logdir", 0)


def test_each_producer_of_a_real_log(tmp_path: Path) -> None:
    log_dir = tmp_path / "d"
    shutil.copytree(FIXTURES / "transactions/logdir", log_dir)
    for partition in ("t-0", "t-1"):
        before, _ = state(log_dir / partition)
        assert len(before) > 1
        for producer_id in before:
            made = drop(log_dir / partition, producer_id, last_stop=CLEAN)
            whole = tmp_path / f"{partition}-{producer_id}" / partition
            whole.mkdir(parents=True)
            put(whole, result_of(made))
            left = [known for known in before if known != producer_id]
            assert state(whole) == (left, made.answer["last_stable_offset"])
