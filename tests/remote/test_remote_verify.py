"""`klogtool remote verify`: each kind of finding by its wound, and real damage as a consumer met it."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from remote_stores import LOGS, REMOTE, SEALED, SHARED, STORE, ZSTD
from running import ROOT, run_here, tree_of

from klogtool.format.internal.records import build_metadata_record
from klogtool.log.segment import Segment
from klogtool.testing import wounds
from klogtool.verify.findings import Kind

Path = pathlib.Path
NOW = "2026-11-26"


def verify(*words: str) -> tuple[int, list[dict[str, Any]]]:
    done = run_here(["remote", "verify", *words, "--now", NOW, "--json"], ROOT)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return done.status, [row for row in rows if row["type"] == "finding"]


def told(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["id"], row.get("field"), row.get("first_offset"), row.get("last_offset")) for row in rows}


# What a consumer met in fixtures/remote (its README), and what its metadata has.
OF_THE_FIXTURE = {
    ("remote-orphan", "no-metadata", None, None),
    ("remote-object-size", "skipped", 55, 59),
    ("remote-object-missing", "stuck", 0, 29),
    ("remote-copy-unfinished", None, 44, 76),
    ("remote-delete-unfinished", None, 41, 43),
    ("remote-gap", "reset", 41, 43),
}


def test_real_damage_is_what_a_consumer_met() -> None:
    before = tree_of(REMOTE)
    status, rows = verify(str(STORE), "--metadata", str(LOGS), "--local", str(LOGS))
    assert status == 1
    found = told(rows)
    assert {row for row in found if row[0] != "remote-copy-unfinished"} == {
        row for row in OF_THE_FIXTURE if row[0] != "remote-copy-unfinished"
    }
    assert len([row for row in rows if row["id"] == "remote-orphan"]) == 2
    assert len([row for row in rows if row["id"] == "remote-copy-unfinished"]) == 1
    assert tree_of(REMOTE) == before


def test_sound_segments_have_no_finding(tmp_path: Path) -> None:
    assert verify(str(ZSTD)) == (0, [])
    status, rows = verify(str(SEALED))
    assert (status, {row["id"] for row in rows}) == (4, {"remote-unchecked"})


def first_of(folder: Path, suffix: str) -> Path:
    return min(folder.rglob(f"*.{suffix}"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def another_epoch(store: Path, logs: Path) -> None:
    """The metadata says another leader epoch than the batches."""
    log = log_of(store)
    data = bytearray(log.read_bytes())
    data[15] = 9  # the low byte of the first batch's leader epoch, which no CRC covers
    log.write_bytes(data)


def log_of(store: Path) -> Path:
    return min(store.glob("orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.log"))


def finished_twice(store: Path, logs: Path) -> None:
    """The orphan of the first segment is finished, too, and takes its place."""
    add_segment(logs, "FIIY_gb6RdKzgxg8XHE34Q", {"0": 0})


def of_another_leader(store: Path, logs: Path) -> None:
    add_segment(logs, "FIIY_gb6RdKzgxg8XHE34Q", {"1": 0})


def add_segment(logs: Path, segment_id: str, epochs: dict[str, int]) -> None:
    where = {"name": "orders", "id": "IgXg_sa0SDSFdeIekkvIFQ", "partition": 0}
    of = {"remoteLogSegmentId": {"topicIdPartition": where, "id": segment_id}, "brokerId": 1, "eventTimestampMs": 1}
    of |= {"customMetadata": None}
    started = {
        **of,
        **{"startOffset": 0, "endOffset": 29, "maxTimestampMs": 1_700_000_029_000, "segmentSizeInBytes": 2586},
        "segmentLeaderEpochs": [{"leaderEpoch": int(epoch), "offset": at} for epoch, at in epochs.items()],
        "remoteLogSegmentState": 0,
        "txnIndexEmpty": True,
    }
    values = [
        build_metadata_record("RemoteLogSegmentMetadataRecord", 0, started),
        build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, {**of, "remoteLogSegmentState": 1}),
    ]
    append_values(logs, values)


def append_values(logs: Path, values: list[bytes]) -> None:
    """To the partition of the metadata topic that has this topic."""
    from damage import append_bytes

    from klogtool.format.batch import Record, build_batch

    for log in logs.glob("__remote_log_metadata-*/*.log"):
        if b"orders" in log.read_bytes():
            last = list(Segment(str(log)).batches())[-1].last_offset
            append_bytes(log, build_batch([Record(last + 1 + n, 1, None, value) for n, value in enumerate(values)]))


CASES: dict[str, Callable[[Path, Path], object]] = {
    "remote-object-missing": lambda store, logs: first_of(store, "index").unlink(),
    "remote-object-size": lambda store, logs: wounds.tear_at(log_of(store), at=-100),
    "remote-object-corrupt": lambda store, logs: first_of(store, "rsm-manifest").write_text("{}"),
    "remote-batch": lambda store, logs: flip(log_of(store), 100),
    "remote-mismatch": another_epoch,
    "remote-index": lambda store, logs: flip(min(store.glob("orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.index")), 3),
    "remote-gap": lambda store, logs: None,
    "remote-metadata": lambda store, logs: append_values(logs, [b"\1\0"]),
    "remote-orphan": of_another_leader,
    "remote-displaced": finished_twice,
    "remote-copy-unfinished": lambda store, logs: None,
    "remote-delete-unfinished": lambda store, logs: None,
    "remote-unchecked": lambda store, logs: shutil.copytree(SEALED, store / "sealed"),
}


def test_every_remote_kind_has_its_wound() -> None:
    assert CASES.keys() == {kind.value for kind in Kind if kind.row.is_remote}


@pytest.mark.parametrize("finding_id", CASES)
def test_a_wound_is_found(finding_id: str, tmp_path: Path) -> None:
    store, logs = tmp_path / "store", tmp_path / "logs"
    shutil.copytree(ZSTD if finding_id == "remote-object-corrupt" else STORE, store)
    shutil.copytree(LOGS, logs)
    words = [] if finding_id == "remote-object-corrupt" else ["--metadata", str(logs), "--local", str(logs)]
    before = told(verify(str(store), *words)[1])
    CASES[finding_id](store, logs)
    found = told(verify(str(store), *words)[1])
    assert finding_id in {row[0] for row in found - before} or finding_id in {row[0] for row in before}
    assert finding_id in {row[0] for row in found}
    if finding_id not in {"remote-gap", "remote-copy-unfinished", "remote-delete-unfinished"}:
        assert finding_id in {row[0] for row in found - before}


def test_what_began_just_now_is_normal() -> None:
    """A copy and a deletion that began less than an hour ago may still be going on."""
    done = run_here(["remote", "ls", str(STORE), "--metadata", str(LOGS), "--json"], ROOT)
    rows = [json.loads(line) for line in done.out.splitlines()]
    (begun,) = (row["event_ms"] for row in rows if row.get("state") == "COPY_SEGMENT_STARTED")
    words = ["--metadata", str(LOGS), "--now", str(begun + 60_000), "--json"]
    done = run_here(["remote", "verify", str(STORE), *words], ROOT)
    found = {row["id"]: row["severity"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "finding"}
    assert found["remote-copy-unfinished"] == "info"


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github", "gitlab"])
def test_reports_are_those_of_verify(form: str) -> None:
    words = ["--metadata", str(LOGS), "--local", str(LOGS), "--now", NOW, "--format", form]
    done = run_here(["remote", "verify", str(STORE), *words], ROOT)
    assert done.status == 1
    assert b"remote-object-size" in done.out or form == "text"
    assert "Traceback" not in done.told


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "aiven-plain", "aiven-zstd"])
def test_healthy_stores_have_no_finding(name: str) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    logs = str(sample / "logdir")
    assert verify(str(sample / "remote"), "--metadata", logs, "--local", logs) == (0, [])


@pytest.mark.shared
def test_damage_of_chunks_is_what_a_consumer_met() -> None:
    sample = SHARED / "aiven-zstd-damaged"
    if not sample.exists():
        pytest.skip("no samples")
    logs = str(sample / "logdir")
    _, rows = verify(str(sample / "remote"), "--metadata", logs, "--local", logs)
    found = told(rows)
    assert ("remote-object-missing", "stuck", 0, 19) in found
    assert ("remote-gap", "reset", 28, 31) in found
    assert {row[1] for row in found if row[0] in ("remote-object-size", "remote-object-corrupt")} == {"stuck"}
    assert len([row for row in rows if row["id"] == "remote-orphan"]) == 2


@pytest.mark.shared
def test_an_unclean_election_leaves_what_nobody_deletes() -> None:
    sample = SHARED / "lts-unclean"
    if not sample.exists():
        pytest.skip("no samples")
    logs = [word for n in (2, 3) for word in ("--local", str(sample / f"n{n}"))]
    _, rows = verify(str(sample / "remote"), "--metadata", str(sample / "n1"), *logs)
    assert told(rows) == {
        ("remote-displaced", None, 60, 89),
        ("remote-orphan", "other-lineage", 90, 119),
    }
