"""A record that a coordinator cannot read: the doctor and `klogtool offsets` say what its load comes to."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from coordinating import COMPLETE_ABORT, ONGOING, PREPARE_ABORT, make_state, state_of
from coordinator_wounds import OFFSETS, POISON, TRANSACTIONS, put_in_the_middle
from damage import flip_bit, tear_at
from running import FIXTURES, run_here

SOURCES = {OFFSETS: FIXTURES / "groups/logdir", TRANSACTIONS: FIXTURES / "transactions/logdir"}
SHARE_KEY = b"\0\0\0\1g" + bytes(16) + bytes(4)  # group, topic id, partition
Rows = list[dict[str, Any]]


def rows(command: str, log_dir: pathlib.Path, *words: str) -> Rows:
    done = run_here([command, log_dir.name, "--json", *words], log_dir.parent)
    return [json.loads(line) for line in done.out.splitlines()]


def points(log_dir: pathlib.Path, *words: str) -> Rows:
    return [row for row in rows("doctor", log_dir, *words) if row.get("what") == "coordinator-fails"]


@pytest.mark.parametrize("name", POISON)
def test_the_doctor_says_whether_a_coordinator_loads_its_partition(name: str, tmp_path: pathlib.Path) -> None:
    poison = POISON[name]
    log_dir = pathlib.Path(shutil.copytree(SOURCES[poison.topic], tmp_path / "logdir"))
    folder = log_dir / f"{poison.topic}-0"
    assert points(log_dir) == []
    at = put_in_the_middle(next(folder.glob("*.log")), poison.key, poison.value)
    found = points(log_dir)
    assert [pathlib.Path(row["path"]).name for row in found] == [folder.name] * poison.ends
    assert all(f"offset {at:,} " in row["detail"] for row in found)
    before = points(log_dir, "--kafka", "3.9.2")
    assert [("forgets all groups" in row["detail"]) for row in before] == [poison.topic == OFFSETS] * poison.ends


@pytest.mark.parametrize(
    ("key", "value", "ends"),
    [
        (b"k1", b"v1", False),
        (None, b"v1", True),
        (b"\0\0zz", b"\0\0x", True),
        (SHARE_KEY, None, False),
        (SHARE_KEY, b"\0\x63abc", True),
    ],
)
def test_the_share_coordinator_loads_as_that_of_groups(
    tmp_path: pathlib.Path, key: bytes | None, value: bytes | None, ends: bool
) -> None:
    """A broker 4.3.1 said "Failed to load metadata from __share_group_state-0" of the third; both have the same loader.
    Before 4.0 there are no share groups."""
    log_dir = pathlib.Path(shutil.copytree(SOURCES[OFFSETS], tmp_path / "logdir"))
    put_in_the_middle(next((log_dir / "__share_group_state-0").glob("*.log")), key, value)
    assert ["share groups of this partition are not served" in row["detail"] for row in points(log_dir)] == [
        True
    ] * ends
    assert points(log_dir, "--kafka", "3.9.2") == []


@pytest.mark.parametrize("name", [name for name, poison in POISON.items() if poison.topic == OFFSETS])
def test_offsets_names_the_record(name: str, tmp_path: pathlib.Path) -> None:
    poison = POISON[name]
    log_dir = pathlib.Path(shutil.copytree(SOURCES[OFFSETS], tmp_path / "logdir"))
    at = put_in_the_middle(next((log_dir / f"{OFFSETS}-0").glob("*.log")), poison.key, poison.value)
    (answer,) = (row for row in rows("offsets", log_dir) if row["type"] == "answer")
    (log,) = answer["logs"]
    assert (log["load_ends"] or {}).get("offset") == (at if poison.ends else None)
    done = run_here(["offsets", "logdir", "--quiet"], tmp_path)
    assert ("serves no group of this partition" in done.err) == poison.ends
    assert not (poison.ends and "passes over" in done.err)
    assert done.status == (1 if poison.ends or poison.value else 0)


@pytest.mark.parametrize("name", [name for name, one in POISON.items() if one.topic == TRANSACTIONS and one.ends])
def test_txns_leads_to_the_doctor(name: str, tmp_path: pathlib.Path) -> None:
    """verify finds nothing there."""
    log_dir = pathlib.Path(shutil.copytree(SOURCES[TRANSACTIONS], tmp_path / "logdir"))
    poison = POISON[name]
    put_in_the_middle(next((log_dir / f"{TRANSACTIONS}-0").glob("*.log")), poison.key, poison.value)
    done = run_here(["txns", "logdir", "--audit"], tmp_path)
    assert (done.status, "klogtool doctor " in done.err, "klogtool verify" in done.err) == (1, True, False), done.err
    assert points(log_dir)


@pytest.mark.parametrize(("release", "ends"), [("3.9.2", True), ("4.2.0", True), ("4.3.1", False), ("4.4.0", False)])
def test_a_state_of_a_later_version_ends_a_load_before_4_3(tmp_path: pathlib.Path, release: str, ends: bool) -> None:
    """TransactionLog.readTxnRecordValue throws in Scala, and returns an UnknownValueVersion in Java."""
    log_dir = pathlib.Path(shutil.copytree(SOURCES[TRANSACTIONS], tmp_path / "logdir"))
    put_in_the_middle(next((log_dir / f"{TRANSACTIONS}-0").glob("*.log")), b"\0\0\0\1z", b"\0\x63abc")
    told = [row["detail"] for row in points(log_dir, "--kafka", release)]
    assert len(told) == ends
    assert all("Unknown version 99 from the transaction log message value" in detail for detail in told)


def test_an_image_says_nothing_of_records_that_it_does_not_have(tmp_path: pathlib.Path) -> None:
    for topic, source in SOURCES.items():
        name = topic.strip("_")
        assert run_here(["image", str(source), "--output", name], tmp_path).status == 0
        assert points(tmp_path / name) == []


@pytest.mark.parametrize(
    ("states", "is_owed"),
    [
        ([PREPARE_ABORT], True),
        ([ONGOING], True),
        ([PREPARE_ABORT, COMPLETE_ABORT], False),
        ([PREPARE_ABORT, None], True),  # the load ends at the damage
    ],
    ids=["decided", "open", "ended", "decided, then damage"],
)
def test_a_marker_behind_a_false_end(states: list[int | None], is_owed: bool, tmp_path: pathlib.Path) -> None:
    """A coordinator appends it once it runs. The log then ends at a higher offset, and a fetch below it has what lies
    in the file from there on: a part of the hidden records is served. A broker 4.3.1 did so."""
    log_dir = pathlib.Path(shutil.copytree(SOURCES[TRANSACTIONS], tmp_path / "logdir"))
    tear_at(max((log_dir / "t-0").glob("*.log")), 1700)  # before the position of the last entry of its index
    folder = log_dir / f"{TRANSACTIONS}-0"
    shutil.rmtree(folder)
    told = [state_of("id", ONGOING if state is None else state, partitions=[("t", 0)]) for state in states]
    (tmp_path / "made").mkdir()
    made = make_state(tmp_path / "made" / folder.name, told)
    (state,) = made.rename(folder).glob("*.log")
    if None in states:
        flip_bit(state, state.stat().st_size - 1)
    claims = [row for row in rows("doctor", log_dir) if row.get("about") == "partition"]
    (hidden,) = (claim["hidden"] for claim in claims if claim["path"].endswith("/t-0"))
    assert "beyond-log-end" in hidden["why"]
    assert (hidden["records"] is None, hidden["reason"]) == (is_owed, "while-it-runs" if is_owed else None)
