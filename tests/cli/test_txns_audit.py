"""klogtool txns --audit: logs made by each recipe are recognised, and what brokers wrote is not accused."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from coordinating import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
    make_state,
    state_of,
)
from loading import NOW_MS, make
from raw_batches import build_batch
from running import FIXTURES, ROOT, Done, run_here

from klogtool.format.batch import LOG_APPEND_TIME, Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)

Path = pathlib.Path
COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
CORPORA = ROOT.parent / "shared" / "corpus"
# Damage took markers there: the coordinator completed what is open.
DAMAGED = {"4.3.1-crash": ["lost-end", "lost-end"]}


class Log:
    """A partition of one producer, batch after batch; times are in seconds after NOW_MS."""

    def __init__(self, folder: Path, producer_id: int = 7, **header: Any) -> None:
        self.folder, self._producer_id, self._header = folder, producer_id, header
        self._batches: list[bytes] = []

    def data(self, epoch: int, at_s: float = 0) -> Log:
        return self._add(Record(len(self._batches), NOW_MS + int(at_s * 1000), b"k", b"v"), epoch, **self._header)

    def marker(self, kind: ControlRecordType, epoch: int, at_s: float = 0) -> Log:
        value = build_end_transaction_marker(EndTransactionMarker(kind, 0))
        record = Record(len(self._batches), NOW_MS + int(at_s * 1000), build_control_key(kind), value)
        return self._add(record, epoch, is_control=True)

    def made(self) -> Path:
        return make(self.folder, {0: self._batches})

    def _add(self, record: Record, epoch: int, **header: Any) -> Log:
        if header.get("timestamp_type") == LOG_APPEND_TIME:
            header["log_append_time"] = record.timestamp
        whole = {"producer_id": self._producer_id, "producer_epoch": epoch, "base_sequence": -1, **header}
        self._batches.append(build_batch([record], partition_leader_epoch=0, is_transactional=True, **whole))
        return self


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    found = tmp_path / "d"
    found.mkdir()
    (found / "meta.properties").write_text("version=1\n")
    (found / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return found


def run_audit(*paths: Path, form: str = "json") -> Done:
    words = ["txns", "--audit", *map(str, paths), "--now", str(NOW_MS + 100_000), "--format", form]
    return run_here(words, ROOT)


def found_in(*paths: Path) -> list[dict[str, Any]]:
    done = run_audit(*paths)
    _, *found, answer = [json.loads(line) for line in done.out.splitlines()]
    assert answer["findings"] == len(found)
    assert done.status == (1 if found else 0), done.err
    return found


def ids(*paths: Path) -> list[str]:
    return sorted(row["id"] for row in found_in(*paths))


def decided(log_dir: Path, *ends: tuple[int, Sequence[int], float, float], before: Sequence[State] = ()) -> None:
    """Decisions about transactional id `app` with producer 7 and epoch 0: the state that is prepared, the partitions of
    topic t, when it is prepared and completed."""
    states, times = [*before, state_of("app", EMPTY, producerId=7)], [NOW_MS] * (len(before) + 1)
    for prepared, numbers, since_s, until_s in ends:
        partitions = [("t", number) for number in numbers]
        completed = COMPLETE_COMMIT if prepared == PREPARE_COMMIT else COMPLETE_ABORT
        states += [
            state_of("app", ONGOING, producerId=7, partitions=partitions),
            state_of("app", prepared, producerId=7, partitions=partitions),
            state_of("app", completed, producerId=7),
        ]
        times += [NOW_MS + int(second * 1000) for second in (since_s, since_s, until_s)]
    make_state(log_dir / "__transaction_state-0", states, times)


# What the logs say by themselves.


def test_sound_transactions_of_both_versions(log_dir: Path) -> None:
    first = Log(log_dir / "t-0").data(0).marker(COMMIT, 0).data(0).marker(ABORT, 0)  # version 1: one epoch
    first.data(0).marker(ABORT, 1)  # fenced
    first.data(1).marker(COMMIT, 2).data(2).marker(ABORT, 3).marker(COMMIT, 4).made()  # version 2
    Log(log_dir / "t-1").data(0).marker(ABORT, 0).data(1).marker(COMMIT, 2).made()
    assert found_in(log_dir) == []


def test_a_torn_transaction(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(4).marker(COMMIT, 5).made()
    Log(log_dir / "t-1").data(4).marker(ABORT, 5).made()
    (row,) = found_in(log_dir)
    assert (row["id"], row["producer_id"], row["transactional_id"]) == ("torn", 7, None)
    assert {(part["partition"], part["status"], part["marker_offset"]) for part in row["parts"]} == {
        (0, "committed", 1),
        (1, "aborted", 1),
    }
    told = run_audit(log_dir, form="text").out.decode()
    assert "torn: producer 7: the transaction of epoch 4 is committed on some partitions" in " ".join(told.split())
    assert told.splitlines()[-1] == "1 finding; 2 partitions, 2 transactions, 0 partitions of __transaction_state"


def test_partitions_on_two_brokers(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "another one"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    Log(log_dir / "t-0").data(4).marker(COMMIT, 5).made()
    Log(other / "t-1").data(4).marker(ABORT, 5).made()
    assert (ids(log_dir), ids(other), ids(log_dir, other)) == ([], [], ["torn"])


def test_a_late_marker_hits_the_next_transaction_in_version_2(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(3).marker(COMMIT, 4).data(4).marker(COMMIT, 4).data(4).marker(ABORT, 5).made()
    (row,) = found_in(log_dir)
    assert (row["id"], row["parts"][0]["first_offset"], row["parts"][0]["marker_offset"]) == ("late-marker", 2, 3)


def test_an_abort_by_hand_between_two_committed_transactions(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(3).marker(COMMIT, 4).data(4).marker(ABORT, 4).made()
    assert ids(log_dir) == []  # it may have been alone
    Log(log_dir / "t-1").data(4).marker(COMMIT, 5).made()
    assert ids(log_dir) == ["late-marker"]


def test_a_marker_of_an_earlier_epoch(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(5).marker(ABORT, 4).made()
    assert ids(log_dir) == ["late-marker"]


def test_data_that_come_after_the_end_of_their_epoch(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(4).marker(COMMIT, 5).data(4).made()
    assert ids(log_dir) == ["stale-data"]


def test_they_join_the_next_transaction(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(4).marker(COMMIT, 5).data(4).data(5).marker(COMMIT, 6).made()
    assert ids(log_dir) == ["joined", "stale-data"]


def test_parts_of_one_epoch_that_were_open_at_the_same_time(log_dir: Path) -> None:
    """Recipe of Jepsen, version 1: a marker ends one partition of the transaction early, the other ends otherwise."""
    kind = {"timestamp_type": LOG_APPEND_TIME}
    Log(log_dir / "t-0", **kind).data(0, 1).marker(COMMIT, 0, 2).data(0, 10).marker(COMMIT, 0, 14).data(0, 16).marker(
        ABORT, 0, 20
    ).made()
    Log(log_dir / "t-1", **kind).data(0, 1).marker(COMMIT, 0, 2).data(0, 10).marker(ABORT, 0, 20).made()
    (row,) = found_in(log_dir)
    assert (row["id"], [part["marker_offset"] for part in row["parts"]]) == ("torn", [3, 3])


def test_times_of_clients_prove_nothing(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0, 10).marker(COMMIT, 0, 14).data(0, 16).marker(ABORT, 0, 20).made()
    Log(log_dir / "t-1").data(0, 10).marker(ABORT, 0, 20).made()
    assert found_in(log_dir) == []


# What the coordinators say beside.


def test_a_late_marker_hits_the_next_transaction_in_version_1(log_dir: Path) -> None:
    """Recipe of Jepsen: the commit marker of the first transaction comes again while the second is open."""
    Log(log_dir / "t-0").data(0).marker(COMMIT, 0, 2).data(0).marker(COMMIT, 0, 8).data(0).marker(ABORT, 0, 12).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 2), (PREPARE_ABORT, [0], 12, 12))
    (row,) = found_in(log_dir)
    assert (row["id"], row["transactional_id"], row["parts"][0]["marker_offset"]) == ("late-marker", "app", 3)
    assert "commit marker" in row["detail"]


def test_a_marker_that_comes_again_without_data_does_no_harm(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0).marker(COMMIT, 0, 2).marker(COMMIT, 0, 8).data(0).marker(ABORT, 0, 12).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 2), (PREPARE_ABORT, [0], 12, 12))
    assert found_in(log_dir) == []


def test_a_marker_of_the_wrong_kind(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0).marker(ABORT, 0, 3).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 4))
    (row,) = found_in(log_dir)
    assert (row["id"], row["detail"]) == (
        "wrong-fate",
        "the marker says aborted, but the coordinator decided PrepareCommit at offset 2",
    )


def test_a_marker_on_a_partition_that_is_not_in_the_transaction(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0).marker(ABORT, 0, 3).made()
    decided(log_dir, (PREPARE_ABORT, [1], 2, 4))
    assert ids(log_dir) == ["late-marker"]


def test_clocks_of_brokers_may_differ_a_little(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0).marker(COMMIT, 0, 2.9).data(0).marker(COMMIT, 0, 9.1).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 2), (PREPARE_COMMIT, [0], 10, 10))
    assert found_in(log_dir) == []


def test_what_compaction_removed_is_not_missed(log_dir: Path) -> None:
    """Its records begin after the first marker, and with a gap."""
    Log(log_dir / "t-0").data(0).marker(COMMIT, 0, 2).data(0).marker(ABORT, 0, 12).made()
    states = [state_of("app", ONGOING, producerId=7, partitions=[("t", 0)])] * 2
    batches = [
        build_batch([Record(offset, NOW_MS + 1000 * second, *state)])
        for offset, second, state in [
            (0, 0, states[0]),
            (5, 11, states[1]),
            (6, 12, state_of("app", PREPARE_ABORT, producerId=7, partitions=[("t", 0)])),
        ]
    ]
    make(log_dir / "__transaction_state-0", {0: batches})
    assert found_in(log_dir) == []


def test_an_end_whose_first_record_was_removed(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0).marker(COMMIT, 0, 2).made()
    states = [state_of("other", EMPTY, producerId=9), state_of("app", COMPLETE_COMMIT, producerId=7)]
    make_state(log_dir / "__transaction_state-0", states, [NOW_MS, NOW_MS + 3000])
    assert found_in(log_dir) == []


def test_an_end_that_the_log_does_not_have(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0, 1).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 3))
    (row,) = found_in(log_dir)
    assert (row["id"], row["parts"][0]["status"]) == ("lost-end", "open")
    assert "PrepareCommit" not in row["detail"].replace("PrepareCommit at offset 2", "")


def test_late_data_hang(log_dir: Path) -> None:
    """The marker is there, and data of the same epoch after it, which the coordinator does not know."""
    Log(log_dir / "t-0").data(0, 1).marker(COMMIT, 0, 2).data(0, 5).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 3))
    (row,) = found_in(log_dir)
    assert (row["id"], row["parts"][0]["first_offset"]) == ("hanging", 2)
    assert "after a marker of epoch 0" in row["detail"]


def test_an_ongoing_transaction_is_not_accused(log_dir: Path) -> None:
    Log(log_dir / "t-0").data(0, 1).made()
    make_state(log_dir / "__transaction_state-0", [state_of("app", ONGOING, producerId=7, partitions=[("t", 0)])])
    assert found_in(log_dir) == []


# Around it.


def test_damage_is_told_and_what_is_open_before_it_is_not_accused(log_dir: Path) -> None:
    partition = Log(log_dir / "t-0").data(0, 1).marker(COMMIT, 0, 2).data(0, 5).marker(ABORT, 0, 9).made()
    decided(log_dir, (PREPARE_COMMIT, [0], 2, 3), (PREPARE_ABORT, [0], 8, 9))
    (log,) = partition.glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[:-30] + b"\xff" * 30)
    done = run_audit(log_dir)
    assert done.status == 1
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == ["klogtool", "answer"]
    assert "t-0" in done.err


def test_it_does_not_go_with_drop_producer(log_dir: Path) -> None:
    assert run_here(["txns", str(log_dir), "--audit", "--producer-id", "1"], log_dir).status == 2
    assert run_here(["txns", str(log_dir), "--audit", "--apply"], log_dir).status == 2


@pytest.mark.parametrize("fixture", ["transactions/logdir", "compacted/result-2", "metadata/logdir", "groups/logdir"])
def test_fixtures_have_none(fixture: str) -> None:
    assert ids(FIXTURES / fixture) == []


@pytest.mark.shared
def test_clean_corpora_have_none() -> None:
    if not CORPORA.is_dir():
        pytest.skip("no ../shared/corpus beside the project")
    tried = 0
    for corpus in sorted(CORPORA.iterdir()):
        log_dirs = sorted({path.parent for path in corpus.rglob("meta.properties")})
        for log_dir in log_dirs:
            assert ids(log_dir) == DAMAGED.get(corpus.name, []), log_dir
            tried += 1
    assert tried >= 10
