"""klogtool txns: who will end what is open."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil
from typing import Any

import pytest
from coordinating import COMPLETE_ABORT, ONGOING, PREPARE_COMMIT, make_state, state_of
from loading import NOW_MS, data, make, marker
from running import FIXTURES, Done, run_here

from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot

Path = pathlib.Path
ABORT = "kafka-transactions.sh --bootstrap-server ... abort --topic t --partition 0 --start-offset"
MINUTE_MS = 60_000


def transactional(offset: int, producer_id: int, **header: Any) -> bytes:
    return data(offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True, **header)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """t-0, where producers 1, 2 and 3 have open transactions, from offsets 0, 1 and 2 on, and 4 has ended."""
    found = tmp_path / "d"
    found.mkdir()
    (found / "meta.properties").write_text("version=1\nbroker.id=1\n")
    (found / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    batches = [*(transactional(n, n + 1) for n in range(3)), transactional(3, 4), marker(4, 4)]
    make(found / "t-0", {0: batches})
    return found


def ask(log_dir: Path, *options: str, now_ms: int = NOW_MS + 5000, status: int = 0) -> Done:
    done = run_here(["txns", *options, "--now", str(now_ms)], log_dir)
    assert done.status == status, done.err
    return done


def drop(log_dir: Path, *words: str) -> Done:
    return run_here(["drop-producer", "--producer-id", "1", *words, "--now", str(NOW_MS + 5000)], log_dir)


def rows(log_dir: Path, *options: str, **more: Any) -> dict[int, dict[str, Any]]:
    """The rows of open transactions, by producer."""
    found = [json.loads(line) for line in ask(log_dir, *options, "--format", "json", **more).out.splitlines()]
    return {row["producer_id"]: row for row in found if row.get("status") == "open"}


def add_states(log_dir: Path) -> None:
    """1 is ongoing on t-0, 2 on another partition, 3 has ended; nobody knows 4."""
    states = [
        state_of("one", ONGOING, producerId=1, partitions=[("t", 0), ("u", 1)]),
        state_of("two", PREPARE_COMMIT, producerId=2, partitions=[("t", 1)]),
        state_of("three", COMPLETE_ABORT, producerId=3),
    ]
    make_state(log_dir / "__transaction_state-0", states)


def test_the_coordinator_says_who_ends_it(log_dir: Path) -> None:
    add_states(log_dir)
    found = rows(log_dir, "t-0")
    assert {n: row["verdict"] for n, row in found.items()} == {1: "ongoing", 2: "hanging", 3: "hanging"}
    assert {n: row["abort"] for n, row in found.items()} == {1: None, 2: f"{ABORT} 1", 3: f"{ABORT} 2"}
    names = ("transactional_id", "state", "timeout_ms", "coordinator", "data", "held_from")
    assert [found[1][name] for name in names] == ["one", "Ongoing", 60_000, "__transaction_state-0", "whole", 0]
    assert [found[3][name] for name in names[:2]] == ["three", "CompleteAbort"]
    told = ask(log_dir, "t-0").out.decode()
    assert f"  →  {ABORT} 2\n" in told
    plain = " ".join(told.split())
    assert "Transactional id one (Ongoing, timeout 1 min, __transaction_state-0). Ongoing: its coord" in plain
    assert "by its timeout" not in plain
    assert "by its timeout" in " ".join(ask(log_dir, "t-0", now_ms=NOW_MS + MINUTE_MS + 1).out.decode().split())


def test_without_its_coordinator_the_age_says_what_is_suspect(log_dir: Path) -> None:
    assert {row["verdict"] for row in rows(log_dir, "t-0").values()} == {"unknown"}
    late = rows(log_dir, "t-0", now_ms=NOW_MS + 15 * MINUTE_MS + 2000)  # of the last writes, at 0, 1 and 2 s
    assert {n: row["verdict"] for n, row in late.items()} == {1: "suspect", 2: "suspect", 3: "unknown"}
    assert late[1]["abort"] == f"{ABORT} 0"
    told = " ".join(ask(log_dir, "t-0", now_ms=NOW_MS + 60 * MINUTE_MS).out.decode().split())
    assert "find-hanging" in told
    assert "(0 of 50 partitions of __transaction_state)" in told


def test_nobody_has_the_producer_if_every_coordinator_is_at_hand(log_dir: Path, tmp_path: Path) -> None:
    add_states(log_dir)
    for number in range(1, 50):
        make_state(log_dir / f"__transaction_state-{number}", [])
    shutil.rmtree(log_dir / "__transaction_state-0")
    make_state(log_dir / "__transaction_state-0", [])
    assert {row["verdict"] for row in rows(log_dir, "t-0").values()} == {"hanging"}
    assert "no transactional id has this producer id" in ask(log_dir, "t-0").out.decode()


def test_transaction_state_of_another_log_dir(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "a folder"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    add_states(other)
    expected = {1: "ongoing", 2: "hanging", 3: "hanging"}
    for place in (other, other / "__transaction_state-0"):
        found = rows(log_dir, "t-0", "--transaction-state", str(place))
        assert {n: row["verdict"] for n, row in found.items()} == expected
    several = rows(log_dir, ".", str(other))
    assert {n: (row["verdict"], row["path"]) for n, row in several.items()} == {
        n: (verdict, "./t-0") for n, verdict in expected.items()
    }
    assert run_here(["txns", "t-0", "--transaction-state", str(tmp_path / "none")], log_dir).status == 2


def test_data_that_are_gone(log_dir: Path) -> None:
    """The snapshot still has what lies below the log start."""
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    found = rows(log_dir, "t-0")
    assert {n: row["data"] for n, row in found.items()} == {3: "whole", 1: "gone", 2: "gone"}
    assert [found[1][name] for name in ("first_offset", "last_offset", "held_from")] == [0, None, 0]
    assert "Its data are gone, only the producer state remembers it." in ask(log_dir, "t-0").out.decode()


def test_data_that_are_partly_gone_and_what_a_broker_forgot(log_dir: Path) -> None:
    (snapshot,) = (log_dir / "t-0").glob("*5.snapshot")
    entries = [ProducerStateEntry(3, 0, 0, 2, 0, NOW_MS, -1, 1)]
    snapshot.write_bytes(build_producer_snapshot(entries))
    found = rows(log_dir, "t-0")
    assert {n: (row["data"], row["verdict"]) for n, row in found.items()} == {
        1: ("whole", "forgotten"),
        2: ("whole", "forgotten"),
        3: ("partly-gone", "unknown"),
    }
    assert found[3]["held_from"] == 1
    told = " ".join(ask(log_dir, "t-0").out.decode().split())
    assert "Forgotten: a broker does not know that it is open, so readers do not wait for it." in told
    assert "It began at offset 1, but the log has its data only from the offset above on." in told


def test_a_broken_coordinator_is_told_and_not_at_hand(log_dir: Path) -> None:
    key, _ = state_of("one")
    make_state(log_dir / "__transaction_state-0", [(key, b"\0")])
    done = ask(log_dir, "t-0", status=1)
    assert "__transaction_state-0: " in done.err
    assert "its transactional ids are not known" in done.err
    assert ask(log_dir, "t-0", "-q", status=1).err == ""


def test_fields_of_the_contract_stay(log_dir: Path) -> None:
    (row, *_) = rows(log_dir, "t-0").values()
    first = ["type", "producer_id", "producer_epoch", "first_offset", "last_offset", "status"]
    assert list(row)[:8] == [*first, "first_timestamp", "marker_offset"]


def test_only_open_transactions_need_coordinators(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir/__transaction_state-0", tmp_path / "d/__transaction_state-0")
    shutil.copytree(FIXTURES / "transactions/logdir/__consumer_offsets-0", tmp_path / "d/__consumer_offsets-0")
    for file in (tmp_path / "d/__transaction_state-0").glob("*.log"):
        file.write_bytes(b"broken")
    assert ask(tmp_path / "d", "__consumer_offsets-0").err == ""


def test_a_producer_is_dropped_and_put_back(log_dir: Path) -> None:
    """Of four producers only the dropped one goes; undo brings the bytes back."""
    snapshots = {path: path.read_bytes() for path in sorted((log_dir / "t-0").glob("*.snapshot"))}
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    plain = drop(log_dir, "t-0")
    assert plain.out.decode().startswith("t-0: producer 1 goes from 1 producer snapshot; all others stay\n")
    assert "EXPOSES its data at offsets 0 to 0" in plain.out.decode()
    assert {path: path.read_bytes() for path in snapshots} == snapshots
    done = drop(log_dir, "t-0", "--apply")
    assert {path: path.read_bytes() for path in snapshots} != snapshots
    assert {n: row["verdict"] for n, row in rows(log_dir, "t-0").items()} == {
        1: "forgotten",
        2: "unknown",
        3: "unknown",
    }
    undo = done.out.decode().partition("To take it back: klogtool ")[2].splitlines()[0]
    assert run_here(shlex.split(undo), log_dir).status == 0
    assert {path: path.read_bytes() for path in snapshots} == snapshots


def test_what_cannot_be_dropped(log_dir: Path) -> None:
    assert drop(log_dir, ".").status == 2
    assert drop(log_dir, "t-0", "--last-stop", "unclean").status == 3
    assert run_here(["drop-producer", "t-0"], log_dir).status == 2


@pytest.mark.parametrize("words", ["--drop-producer 1 t-0", "t-0 --drop-producer=1", "--drop-producer 1 t-0 --json"])
def test_the_older_name_of_drop_producer(log_dir: Path, words: str) -> None:
    as_json = ["--json"] if "--json" in words else []
    now = ["--now", str(NOW_MS)]
    named = run_here(["drop-producer", "t-0", "--producer-id", "1", *as_json, *now], log_dir)
    assert named.status == 0
    assert run_here(["txns", *words.split(), *now], log_dir) == named


def test_paths_of_two_clusters_are_refused(log_dir: Path, tmp_path: Path) -> None:
    """Each cluster has producer ids of its own."""
    other = tmp_path / "other"
    other.mkdir()
    add_states(other)
    for name, cluster in ((log_dir, "one"), (other, "two")):
        (name / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    for words in (["t-0", "--transaction-state", str(other)], [".", str(other)], ["--audit", ".", str(other)]):
        done = run_here(["txns", *words], log_dir)
        assert (done.status, "several clusters: one, two." in done.err) == (2, True)
    (other / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=one\n")
    assert rows(log_dir, "t-0", "--transaction-state", str(other))[1]["verdict"] == "ongoing"
