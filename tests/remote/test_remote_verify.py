"""`klogtool remote verify`: each kind of finding by its wound, and real damage as a consumer met it."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from damage import append_bytes
from raw_batches import build_batch
from remote_stores import LOGS, REMOTE, SEALED, SHARED, STORE, ZSTD, log_bytes, tiered_log_dir
from running import ROOT, run_here, tree_of

from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record
from klogtool.log.segment import Segment
from klogtool.remote.metadata import read_metadata
from klogtool.remote.store import open_store
from klogtool.testing import wounds
from klogtool.verify.findings import Kind

Path = pathlib.Path
NOW = "2026-11-26"
OF_ZSTD = "AejNNKazRgCOP9s5ws4LnA"


def verify(*words: str) -> tuple[int, list[dict[str, Any]]]:
    done = run_here(["remote", "verify", *words, "--now", NOW, "--json"], ROOT)
    rows = [json.loads(line) for line in done.out.splitlines()]
    findings = [row for row in rows if row["type"] == "finding"]
    assert all("cure" in row for row in findings if row["severity"] != "info"), findings
    return done.status, findings


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


def test_a_command_that_is_a_cure_works(tmp_path: Path) -> None:
    """Where the metadata does not have a segment at all, `rm`; where it has none of the partition, it is rebuilt."""
    place = tmp_path / "a b"
    shutil.copytree(REMOTE, place)
    named = [str(place / "store"), "--metadata", str(place / "logs"), "--local", str(place / "logs")]
    (removal,) = [row["cure"] for row in verify(*named)[1] if row["cure"].startswith("rm ")]
    subprocess.run(["bash", "-c", removal], check=True, timeout=60)
    rows = verify(*named)[1]
    assert len([row for row in rows if row["id"] == "remote-orphan"]) == 1
    (rebuilding,) = [row["cure"] for row in rows if row["cure"].startswith("klogtool ")]
    words = ["klogtool", *shlex.split(rebuilding, comments=True)[1:]]
    words[words.index("DIR")] = str(tmp_path / "rebuilt")
    assert run_here(words[1:], ROOT).status in (0, 1)
    assert list((tmp_path / "rebuilt").glob("__remote_log_metadata-*/*.log"))


def test_where_nothing_is_left_there_is_nothing_to_rebuild(tmp_path: Path) -> None:
    store, logs = (Path(shutil.copytree(place, tmp_path / place.name)) for place in (STORE, LOGS))
    lose_the_start(store, logs)
    _, rows = verify(str(store), "--metadata", str(logs), "--local", str(logs))
    (gap,) = [row for row in rows if row["id"] == "remote-gap" and row["last_offset"] == 29]
    assert gap["cure"].startswith("Name the store that has its objects.")
    assert "--topic orders:1 --to-offset 30 " in gap["cure"]


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
    """All batches have another leader epoch than the metadata says; no CRC covers it."""
    log = log_of(store)
    data = bytearray(log.read_bytes())
    for batch in Segment(str(log)).batches():
        data[batch.position + 15] = 9
    log.write_bytes(data)


def log_of(store: Path) -> Path:
    return min(store.glob("orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.log"))


def txn_index_of(store: Path) -> Path:
    return min(store.glob("pay-0-*/*-8yOefv_0SPCYeVarjN7R1g.txnindex"))


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
        "startOffset": 0,
        "endOffset": 29,
        "maxTimestampMs": 1_700_000_029_000,
        "segmentSizeInBytes": 2586,
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
    for log in logs.glob("__remote_log_metadata-*/*.log"):
        if b"orders" in log.read_bytes():
            last = list(Segment(str(log)).batches())[-1].last_offset
            append_bytes(log, build_batch([Record(last + 1 + n, 1, None, value) for n, value in enumerate(values)]))


def keep_metadata_of_others(store: Path, logs: Path) -> None:
    """The partition of the metadata topic that has the topic orders is not here."""
    shutil.rmtree(logs / "__remote_log_metadata-0")


def lose_the_start(store: Path, logs: Path) -> None:
    """Neither metadata nor objects know of orders-1, whose log starts at 0 and is local from 30."""
    shutil.rmtree(min(store.glob("orders-1-*")))
    for log in logs.glob("__remote_log_metadata-*/*.log"):
        log.write_bytes(b"")


def wound(name: str, store: Path, logs: Path) -> None:
    CASES[name][0](store, logs)


# The wound, and what it is found as: id, field, first and last offset.
CASES: dict[str, tuple[Callable[[Path, Path], object], tuple[Any, ...]]] = {
    "no index": (
        lambda s, _: min(s.glob("pay-0-*/*-8yOefv_0SPCYeVarjN7R1g.index")).unlink(),
        ("remote-object-missing", "stuck", 5, 40),
    ),
    "no objects": (
        lambda s, _: [file.unlink() for file in s.glob("pay-0-*/*-8yOefv_0SPCYeVarjN7R1g.*")],
        ("remote-object-missing", "stuck", 5, 40),
    ),
    "short": (lambda s, _: wounds.tear_at(log_of(s), at=-100), ("remote-object-size", "skipped", 25, 29)),
    "empty": (lambda s, _: log_of(s).write_bytes(b""), ("remote-object-size", "skipped", 0, 29)),
    "longer": (lambda s, _: append_bytes(log_of(s), bytes(5)), ("remote-object-size", None, None, None)),
    "a flipped bit": (lambda s, _: flip(log_of(s), 100), ("remote-batch", "batch-crc", 0, 4)),
    "another epoch": (another_epoch, ("remote-mismatch", "partition_leader_epoch", 0, 29)),
    "a wrong index": (
        lambda s, _: flip(min(s.glob("orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.index")), 3),
        ("remote-index", None, None, None),
    ),
    "no index of aborted transactions": (
        lambda s, _: txn_index_of(s).unlink(),
        ("remote-txnindex", "txnindex-missing", 6, 33),
    ),
    "a wrong index of aborted transactions": (
        lambda s, _: flip(txn_index_of(s), 20),
        ("remote-txnindex", "txnindex-entry", 6, 10),
    ),
    "no producers": (
        lambda s, _: min(s.glob("orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.snapshot")).unlink(),
        ("remote-index", None, None, None),
    ),
    "a strange record": (lambda _, logs: append_values(logs, [b"\1\0"]), ("remote-metadata", None, None, None)),
    "another leader": (of_another_leader, ("remote-orphan", "other-lineage", 0, 29)),
    "displaced": (finished_twice, ("remote-displaced", None, 0, 29)),
    "no metadata": (keep_metadata_of_others, ("remote-unchecked", "metadata", None, None)),
    "no key": (lambda s, _: shutil.copytree(SEALED, s / "sealed"), ("remote-unchecked", None, None, None)),
    "all is lost": (lose_the_start, ("remote-gap", "reset", 0, 29)),
    "a second copy": (
        lambda s, _: shutil.copytree(min(s.glob("orders-1-*")), s / "copy" / min(s.glob("orders-1-*")).name),
        ("remote-orphan", "second-copy", None, None),
    ),
}


def test_every_remote_kind_has_its_wound() -> None:
    found = {row[0] for _, row in CASES.values()} | {row[0] for row in OF_THE_FIXTURE} | {"remote-object-corrupt"}
    assert found == {kind.value for kind in Kind if kind.startswith("remote-")}


@pytest.mark.parametrize("name", CASES)
def test_a_wound_is_found(name: str, tmp_path: Path) -> None:
    store, logs = tmp_path / "store", tmp_path / "logs"
    shutil.copytree(STORE, store)
    shutil.copytree(LOGS, logs)
    words = [str(store), "--metadata", str(logs), "--local", str(logs)]
    before = told(verify(*words)[1])
    wound(name, store, logs)
    _, rows = verify(*words)
    assert CASES[name][1] in told(rows) - before


def test_a_manifest_that_cannot_be_read_stops_consumers(tmp_path: Path) -> None:
    shutil.copytree(ZSTD, tmp_path / "store")
    first_of(tmp_path, "rsm-manifest").write_text("{}")
    _, rows = verify(str(tmp_path / "store"))
    assert [(row["id"], row["field"]) for row in rows] == [("remote-object-corrupt", "stuck")]


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
@pytest.mark.parametrize("seed", range(4))
def test_damaged_objects_are_findings(suffix: str, seed: int, tmp_path: Path) -> None:
    """Whatever bytes an object has: findings, an exit status, no traceback."""
    shutil.copytree(ZSTD, tmp_path / "store")
    rng = random.Random(f"{suffix} {seed}")
    for file in sorted(tmp_path.rglob(f"*.{suffix}")):
        data = bytearray(file.read_bytes())
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data[: rng.randrange(len(data) // 2, len(data) + 1)])
    done = run_here(["remote", "verify", str(tmp_path / "store"), "--deep", "--json"], ROOT)
    assert done.status in (0, 1)
    assert "Traceback" not in done.told
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows[-1]["type"] == "summary"
    assert rows[-1]["errors"] == sum(row.get("severity") == "error" for row in rows)


def test_a_segment_that_nobody_reads_stops_nobody(tmp_path: Path) -> None:
    """Objects without metadata are not read, so what is wrong in them is only a note."""
    shutil.copytree(STORE, tmp_path / "store")
    min(tmp_path.rglob("*-FIIY_gb6RdKzgxg8XHE34Q.log")).unlink()
    _, rows = verify(str(tmp_path / "store"), "--metadata", str(LOGS), "--local", str(LOGS))
    (row,) = (row for row in rows if "FIIY" in row["path"] and row["id"] == "remote-object-missing")
    assert (row["severity"], row.get("field")) == ("info", None)


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
    assert b"remote-object-size" in done.out
    assert "Traceback" not in done.told


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "aiven-plain", "aiven-zstd"])
def test_healthy_stores_have_no_finding(name: str) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    logs = str(sample / "logdir")
    assert verify(str(sample / "remote"), "--metadata", logs, "--local", logs) == (0, [])


def consumed(rows: list[dict[str, Any]], topic: str, healthy: list[list[int]]) -> list[list[int]] | str:
    """What a consumer with auto.offset.reset=latest gets, by the findings: stuck, or ranges of offsets."""
    offsets = [offset for first, last in healthy for offset in range(first, last + 1)]
    met = [row for row in rows if f"/{topic}" in row["path"] and row.get("field") in ("stuck", "skipped", "reset")]
    for row in sorted(met, key=lambda row: row["first_offset"]):
        if row["field"] == "stuck":
            return "stuck"
        last = row["last_offset"] if row["field"] == "skipped" else offsets[-1]
        offsets = [one for one in offsets if not row["first_offset"] <= one <= last]
    ranges: list[list[int]] = []
    for one in offsets:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ranges


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "lts-damaged", "aiven-plain", "aiven-zstd-damaged"])
def test_findings_say_what_a_consumer_got(name: str) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    expected = json.loads((sample / "expected.json").read_text())
    logs = str(sample / "logdir")
    _, rows = verify(str(sample / "remote"), "--metadata", logs, "--local", logs)
    healthy = expected["partitions_when_healthy"]
    served = expected.get("partitions_as_served_after_damage", healthy)
    for partition, answers in healthy.items():
        topic, number = partition.rsplit("-", 1)
        at = f"{topic}-{number}-" if name.startswith("lts") else f"{topic}-[^/]*/{number}"
        of_it = [row | {"path": f"/{partition}"} for row in rows if re.search(f"/{at}", row["path"])]
        for isolation in ("read_uncommitted", "read_committed"):
            got = served[partition][isolation]
            want = "stuck" if "consumer" in got else got["offsets"]
            assert consumed(of_it, partition, answers[isolation]["offsets"]) == want
    orphans = [row for row in rows if row["id"] == "remote-orphan"]
    assert len(orphans) == len(expected.get("orphans", ()))


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


def exchange(one: Path, other: Path) -> None:
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def without_batch(n: int) -> Callable[[Path, Path], None]:
    def wound(log: Path, _: Path) -> None:
        data, starts = log.read_bytes(), [batch.position for batch in Segment(str(log)).batches()]
        log.write_bytes(data[: starts[n]] + data[starts[n + 1] :])

    return wound


@pytest.mark.parametrize(
    ("wound", "lost"),
    [
        (exchange, [(60, 89)]),
        (without_batch(0), [(60, 64)]),
        (without_batch(2), [(70, 74)]),
        (lambda log, _: log.write_bytes(log.read_bytes() + bytes(100)), []),
        (lambda log, other: log.write_bytes(log.read_bytes() + other.read_bytes()), []),
    ],
    ids=["exchanged", "first batch gone", "a batch gone", "zeros behind", "the next one behind"],
)
def test_offsets_that_no_batch_has_are_skipped_and_missing(
    wound: Callable[[Path, Path], None], lost: list[tuple[int, int]], tmp_path: Path
) -> None:
    """A broker met each of these (tests/kafka/test_brokers_remote_wounds.py)."""
    store, logs = tmp_path / "store", tmp_path / "logs"
    shutil.copytree(REMOTE / "store", store)
    shutil.copytree(LOGS, logs)
    wound(*(next(store.glob(f"orders-0-*/{start:020d}-*.log")) for start in (60, 90)))
    beside = ["--metadata", str(logs), "--local", str(logs)]
    _, rows = verify(str(store), *beside)
    own = [row for row in rows if "orders-0" in row["path"] and row.get("field") == "skipped"]
    met = [(row["first_offset"], row["last_offset"]) for row in own if row["first_offset"] >= 60]
    assert sorted({*met}) == lost  # what is local is not met
    assert any(row["first_offset"] != 55 for row in own) == bool(lost)
    done = run_here(
        ["remote", "fetch", str(store), "orders-0", *beside, "--output", str(tmp_path / "out"), "--json"], ROOT
    )
    missing = [(one["first_offset"], one["last_offset"]) for one in json.loads(done.out.splitlines()[-1])["missing"]]
    assert (done.status, missing) == (1, [(55, 59), *lost])


def test_names_and_sizes_that_no_broker_writes_are_findings_too(tmp_path: Path) -> None:
    """A folder whose name is not UTF-8; a manifest of no bytes beside a log that has some."""
    store = tmp_path / "store"
    for name in (b"p\xffy", b"pay"):
        for one in (ZSTD / f"pay-{OF_ZSTD}/0").iterdir():
            folder = store / f"{name.decode(errors='surrogateescape')}-{OF_ZSTD if name == b'pay' else 'A' * 22}/0"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, folder)
    assert verify(str(store)) == (0, [])
    for manifest in (store / f"pay-{OF_ZSTD}").rglob("*.rsm-manifest"):
        value = json.loads(manifest.read_bytes())
        value["chunkIndex"] = {"type": "fixed", "originalChunkSize": 9, "originalFileSize": 0}
        value["chunkIndex"] |= {"transformedChunkSize": 9, "finalTransformedChunkSize": 9}
        manifest.write_text(json.dumps(value))
    status, rows = verify(str(store))
    assert (status, {row["id"] for row in rows}) == (1, {"remote-object-size", "remote-index"})


@pytest.mark.parametrize(
    ("damage", "want"),
    [
        (lambda data: data[:-1], {("txnindex-size", None, None), ("txnindex-entry", 28, 33)}),
        (lambda data: b"", {("txnindex-entry", 6, 10), ("txnindex-entry", 22, 27), ("txnindex-entry", 28, 33)}),
        (lambda data: data[34:], {("txnindex-entry", 6, 10)}),
        (lambda data: data + data[-34:], {("txnindex-entry", 28, 33)}),
        (lambda data: data[:10] + (99).to_bytes(8, "big") + data[18:], {("txnindex-entry", 6, 10)}),
        (lambda data: data, set()),
    ],
)
def test_each_aborted_transaction_has_its_entry(
    damage: Callable[[bytes], bytes], want: set[tuple[Any, ...]], tmp_path: Path
) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    index = txn_index_of(tmp_path / "store")
    index.write_bytes(damage(index.read_bytes()))
    rows = verify(str(tmp_path / "store"), "--metadata", str(LOGS))[1]
    found = [row for row in rows if row["id"] == "remote-txnindex"]
    assert {(row["field"], row.get("first_offset"), row.get("last_offset")) for row in found} == want
    assert {row["path"] for row in found} <= {str(index)}


MINUS_ONE = (-1).to_bytes(4, "big", signed=True)
# What a real broker does with each of these: tests/kafka/test_brokers_remote_indexes.py.
REFUSED: tuple[tuple[str, Callable[[bytes], bytes], str | None], ...] = (
    ("txnindex", lambda data: b"\1" + data[1:], "stuck"),  # a version that does not exist
    ("txnindex", lambda data: data[:18] + 2 * MINUS_ONE + data[26:], "stuck"),  # below the segment
    ("txnindex", lambda data: data + bytes(7), None),
    ("index", lambda data: data + bytes(3), "stuck"),
    ("index", lambda data: data + MINUS_ONE + bytes(4), "stuck"),
    ("index", lambda _: bytes(4) + (9999).to_bytes(4, "big"), "skipped"),  # behind the log
    (
        "index",
        lambda _: bytes(4) + (20).to_bytes(4, "big"),
        "skipped",
    ),  # into a batch, where a length seems to be more than there is
    ("index", lambda data: data + bytes(80), None),
    ("timeindex", lambda data: data + bytes(11), "stuck"),
    ("timeindex", lambda data: data + bytes(12), "stuck"),  # the last one is earlier than the first one
    ("timeindex", lambda data: data[:-4] + MINUS_ONE, "stuck"),
    ("timeindex", lambda _: b"", None),
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_an_index_at_which_a_broker_fails_stops_consumers(number: int, tmp_path: Path) -> None:
    suffix, change, consumer = REFUSED[number]
    shutil.copytree(STORE, tmp_path / "store")
    index = txn_index_of(tmp_path / "store").with_suffix(f".{suffix}")
    index.write_bytes(change(index.read_bytes()))
    rows = verify(str(tmp_path / "store"), "--metadata", str(LOGS))[1]
    found = [row for row in rows if row["id"] == "remote-object-corrupt"]
    places = [(row["path"], row["field"], row["first_offset"], row["last_offset"]) for row in found]
    assert places == ([] if consumer is None else [(str(index), consumer, 5, 40)])
    others = {row["id"] for row in rows if row["path"] == str(index) and row not in found}
    assert others <= {"remote-index", "remote-txnindex"}


@pytest.mark.parametrize("content", [b"", b"x", b"0\n1\n7 0\n", None])
@pytest.mark.parametrize("suffix", ["leader_epoch_checkpoint", "snapshot"])
def test_what_a_new_replica_takes_over_is_read(suffix: str, content: bytes | None, tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    (file,) = (tmp_path / "store").glob(f"orders-0-*/*-YUXISDMJQTuoSDibMdAKoQ.{suffix}")
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    _, rows = verify(str(tmp_path / "store"), "--metadata", str(LOGS))
    (row,) = [row for row in rows if row["path"] == str(file)]
    assert (row["id"], row["severity"]) == ("remote-index", "warning")


def test_the_only_copy_of_a_gap_is_not_to_be_deleted(tmp_path: Path) -> None:
    """The older records of the metadata are lost: rebuilt metadata serves the segment again."""
    log_dir, store = tiered_log_dir(tmp_path)
    lose_before(log_dir, store, segments=2)
    _, rows = verify(str(store), "--metadata", str(log_dir), "--local", str(log_dir))
    cures = {(row["id"], row["cure"].split(" --")[0]) for row in rows if row["severity"] != "info"}
    rebuild = f"klogtool remote metadata {store}"
    assert cures == {("remote-orphan", rebuild), ("remote-gap", rebuild)}


def test_a_cut_in_the_epochs_of_a_manifest_stops_no_consumer(tmp_path: Path) -> None:
    """The last part of `.indexes`, where a segment has no aborted transactions."""
    shutil.copytree(ZSTD, tmp_path / "store")
    indexes = first_of(tmp_path, "indexes")
    indexes.write_bytes(indexes.read_bytes()[:-3])
    status, rows = verify(str(tmp_path / "store"))
    assert (status, [(row["id"], row["path"]) for row in rows]) == (0, [("remote-index", str(indexes))])
    indexes.write_bytes(b"")  # now the others are cut as well
    assert {row["id"] for row in verify(str(tmp_path / "store"))[1]} == {"remote-object-corrupt"}


def make_plain(store: Path, chunk_size: int) -> Path:
    """Open the chunks of the segment from offset 6 on; return its log."""
    opened = open_store(str(store))
    (segment,) = (one for one in opened.segments.values() if one.start_offset == 6)
    data, log = log_bytes(opened, segment), Path(segment.path_of_log)
    manifest = log.with_suffix(".rsm-manifest")
    value = json.loads(manifest.read_bytes())
    last = len(data) % chunk_size or chunk_size
    value["compression"] = False
    value["chunkIndex"] = {
        "type": "fixed",
        "originalChunkSize": chunk_size,
        "originalFileSize": len(data),
        "transformedChunkSize": chunk_size,
        "finalTransformedChunkSize": last,
    }
    manifest.write_text(json.dumps(value))
    log.write_bytes(data)
    return log


def test_exchanged_manifests_are_named(tmp_path: Path) -> None:
    """The plugin reads by the sizes and ranges of the manifest that is there, whatever segment it names."""
    store = shutil.copytree(ZSTD, tmp_path / "store")
    rebuilt = ["remote", "metadata", str(store), "--partitions", "1", "--output", str(tmp_path / "logs")]
    assert run_here(rebuilt, ROOT).status == 0
    one, other = sorted(store.rglob("*.rsm-manifest"))[:2]
    texts = one.read_text(), other.read_text()
    for path, text in zip((one, other), reversed(texts), strict=True):
        path.write_text(text)
    for words in ([], ["--metadata", str(tmp_path / "logs")]):
        status, rows = verify(str(store), *words)
        named = [(row["path"], row["detail"]) for row in rows if row["id"] == "remote-mismatch"]
        assert (status, [path for path, _ in named]) == (1, [str(one), str(other)])
        assert all("the manifest is that of segment" in detail for _, detail in named)


def test_sizes_in_a_manifest_that_contradict_each_other_stop_nobody_for_sure(tmp_path: Path) -> None:
    """Of a log that its manifest has ten bytes too short, a consumer got everything."""
    store = shutil.copytree(ZSTD, tmp_path / "store")
    path = make_plain(store, 1024).with_suffix(".rsm-manifest")
    value = json.loads(path.read_bytes())
    value["chunkIndex"]["originalFileSize"] -= 10
    path.write_text(json.dumps(value))
    assert [(row["id"], row.get("field")) for row in verify(str(store))[1]] == [("remote-object-corrupt", None)]


def test_a_cut_in_the_last_plain_chunk_loses_what_is_cut_and_no_more(tmp_path: Path) -> None:
    """A consumer got 49 of 56 records of such a segment, without an error."""
    shutil.copytree(ZSTD, tmp_path / "store")
    log = make_plain(tmp_path / "store", 1024)
    assert verify(str(tmp_path / "store")) == (0, [])
    batches = list(Segment(str(log)).batches())
    log.write_bytes(log.read_bytes()[:-10])
    first = batches[-1].base_offset
    rows = verify(str(tmp_path / "store"))[1]
    assert [(row["id"], row["field"], row["first_offset"], row["last_offset"]) for row in rows] == [
        ("remote-object-size", "skipped", first, 40)
    ]
    out = tmp_path / "out"
    done = run_here(["remote", "fetch", str(tmp_path / "store"), "pay-0", "--output", str(out), "--json"], ROOT)
    missing = [(one["first_offset"], one["last_offset"]) for one in json.loads(done.out.splitlines()[-1])["missing"]]
    assert (done.status, missing) == (1, [(first, 40)])
    log.write_bytes(log.read_bytes()[:1024])  # a whole chunk: a broker does not get behind it
    rows = verify(str(tmp_path / "store"))[1]
    assert [(row["id"], row["field"], row["first_offset"]) for row in rows] == [("remote-object-size", "stuck", 6)]


def cut_metadata(data: bytes, batches: list[tuple[int, int]]) -> bytes:
    return data[: batches[5][0] + 15]


def rot_metadata(data: bytes, batches: list[tuple[int, int]]) -> bytes:
    at = batches[5][1] - 3
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [cut_metadata, rot_metadata])
def test_where_the_metadata_cannot_be_read_to_its_end_nobody_knows(
    damage: Callable[[bytes, list[tuple[int, int]]], bytes], tmp_path: Path
) -> None:
    """What is behind may be the end of a copy, or a deletion."""
    store, logs = tmp_path / "store", tmp_path / "logs"
    shutil.copytree(STORE, store)
    shutil.copytree(LOGS, logs)
    (log,) = (log for log in logs.glob("__remote_log_metadata-*/*.log") if b"orders" in log.read_bytes())
    batches = [(batch.position, batch.position + batch.size) for batch in Segment(str(log)).batches()]
    log.write_bytes(damage(log.read_bytes(), batches))
    beside = ["--metadata", str(logs), "--local", str(logs)]
    _, rows = verify(str(store), *beside)
    assert ("remote-metadata", batches[5][0]) in {(row["id"], row.get("start")) for row in rows}
    own = {row["id"] for row in rows if f"{store}/orders-" in row["path"]}
    assert "remote-unchecked" in own
    assert not own & {"remote-orphan", "remote-gap", "remote-copy-unfinished", "remote-displaced"}
    assert run_here(["remote", "fetch", str(store), "orders-0", *beside], ROOT).status == 4


def test_a_preallocated_metadata_log_is_whole(tmp_path: Path) -> None:
    """A running broker with log.preallocate=true has zeros behind its last batch."""
    logs = tmp_path / "logs"
    shutil.copytree(LOGS, logs)
    for log in logs.glob("__remote_log_metadata-*/*.log"):
        append_bytes(log, bytes(5000))
    plain, found = (verify(str(STORE), "--metadata", str(one), "--local", str(one)) for one in (LOGS, logs))
    assert found == plain


def lose_before(log_dir: Path, store: Path, *, segments: int) -> None:
    """The metadata does not know the first segments any more; they are old, and no longer local."""
    (log,) = log_dir.glob("__remote_log_metadata-0/*.log")
    values = [record.value for batch in Segment(str(log)).batches() for record in batch.records()]
    kept = [Record(n, 1, None, value) for n, value in enumerate(values[2 * segments :])]
    log.write_bytes(build_batch(kept))
    (folder,) = log_dir.glob("t-*")
    starts = sorted({file.stem for file in folder.glob("*.log")})
    for start in starts[:segments]:
        for file in folder.glob(f"{start}.*"):
            file.unlink()
    for file in store.rglob("*.*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))


def cut_in_two(log_dir: Path, store: Path) -> Path:
    """Cut the log of the second segment between its batches, where a leader epoch ends; return the log."""
    log = sorted(store.glob("t-0-*/*.log"))[1]
    first = 12 + int.from_bytes(log.read_bytes()[8:12], "big")
    log.write_bytes(log.read_bytes()[:first])
    for file in (log_dir / "t-0").iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < 160:
            file.unlink()
    return log


def test_holes_between_objects_are_found_without_metadata(tmp_path: Path) -> None:
    log_dir, store = tiered_log_dir(tmp_path)
    assert verify(str(store)) == (0, [])
    log = cut_in_two(log_dir, store)
    for words in ([str(store)], [str(store), "--local", str(log_dir)]):
        status, rows = verify(*words)
        assert (status, ("remote-gap", None, 60, 79) in told(rows)) == (1, True)
        assert all("klogtool remote metadata" not in row["cure"] for row in rows)
    for file in log.parent.glob(f"{log.stem}.*"):
        file.unlink()
    status, rows = verify(str(store))
    assert (status, told(rows)) == (1, {("remote-gap", None, 40, 79)})
    done = run_here(["remote", "ls", str(store)], ROOT)
    assert b"no object has offsets 40 to 79" in done.out
    for file in sorted(store.glob("t-0-*/*"))[-5:]:  # the last one: what is behind it is local
        file.unlink()
    assert ("remote-gap", None, 120, 159) in told(verify(str(store), "--local", str(log_dir))[1])


def test_without_metadata_what_retention_deleted_is_no_hole(tmp_path: Path) -> None:
    """A broker writes the log start a minute after it deleted the first objects."""
    log_dir, store = tiered_log_dir(tmp_path)
    for file in (log_dir / "t-0").iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < 160:
            file.unlink()
    first = min((file for file in store.glob("t-0-*/*.log")), key=lambda file: file.name)
    for file in first.parent.glob(f"{first.stem}.*"):
        file.unlink()
    assert verify(str(store), "--local", str(log_dir)) == (0, [])


def test_a_log_that_was_cut_before_its_metadata_was_rebuilt(tmp_path: Path) -> None:
    """The metadata says what the broker's own said, with the end and the epochs of what was lost."""
    log_dir, store = tiered_log_dir(tmp_path)
    own = read_metadata([str(log_dir)])
    cut_in_two(log_dir, store)
    done = run_here(
        ["remote", "metadata", str(store), "--partitions", "1", "--output", str(tmp_path / "o"), "--json"], ROOT
    )
    lacked = {"topic": "t", "partition": 0, "first_offset": 60, "last_offset": 79}
    assert (done.status, json.loads(done.out.splitlines()[-1])["missing"]) == (1, [lacked])
    rebuilt = read_metadata([str(tmp_path / "o/__remote_log_metadata-0")])
    assert {(one.end_offset, one.epochs) for one in rebuilt.segments()} == {
        (one.end_offset, one.epochs) for one in own.segments()
    }
    words = [str(store), "--metadata", str(tmp_path / "o/__remote_log_metadata-0"), "--local", str(log_dir)]
    status, rows = verify(*words)
    assert (status, ("remote-mismatch", "skipped", 60, 79) in told(rows)) == (1, True)
    fetched = run_here(["remote", "fetch", words[0], "t-0", *words[1:], "--output", str(tmp_path / "t-0")], ROOT)
    assert (fetched.status, b"MISSING offsets 60 to 79" in fetched.out) == (1, True)


def test_the_copy_of_the_newest_leader_counts(tmp_path: Path) -> None:
    """Another broker led the metadata topic last: its copy is shorter, and has the deletion that was written then."""
    log_dir, _ = tiered_log_dir(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    log = other / "__remote_log_metadata-0/00000000000000000000.log"
    key = next(read_metadata([str(log_dir)]).segments())
    known = [batch.last_offset for batch in Segment(str(log)).batches()][-1]
    words = {"topicIdPartition": {"name": "t", "id": key.key.topic_id, "partition": 0}, "id": key.key.segment_id}
    update = {"remoteLogSegmentId": words, "brokerId": 1, "eventTimestampMs": 1, "customMetadata": None}
    value = build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, {**update, "remoteLogSegmentState": 2})
    append_bytes(log, build_batch([Record(known + 1, 1, None, value)], partition_leader_epoch=5))
    (log.parent / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n5 {known + 1}\n")
    late = [Record(known + 1 + n, 1, None, value) for n in range(3)]
    append_bytes(log_dir / "__remote_log_metadata-0" / log.name, build_batch(late, partition_leader_epoch=0))
    for dirs in ([log_dir, other], [other, log_dir]):
        metadata = read_metadata([str(one) for one in dirs])
        states = [one.state.value for one in metadata.segments()]
        assert (metadata.dropped, states.count("DELETE_SEGMENT_STARTED")) == (0, 1)


def test_a_displaced_segment_is_the_only_copy(tmp_path: Path) -> None:
    """A copy that finished without objects hides the good segment: that one is to be kept, and is fetched."""
    log_dir, store = tiered_log_dir(tmp_path)
    for file in (log_dir / "t-0").iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < 160:
            file.unlink()
    own = sorted(read_metadata([str(log_dir)]).segments(), key=lambda one: one.start_offset)[1]
    named = {"topicIdPartition": {"name": "t", "id": own.key.topic_id, "partition": 0}, "id": "AAAAAAAAAAAAAAAAAAAABQ"}
    both = {"remoteLogSegmentId": named, "brokerId": 1, "eventTimestampMs": 1, "customMetadata": None}
    started = {
        **both,
        "startOffset": own.start_offset,
        "endOffset": own.end_offset,
        "maxTimestampMs": 1,
        "segmentSizeInBytes": 100,
        "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in own.epochs],
        "remoteLogSegmentState": 0,
        "txnIndexEmpty": True,
    }
    finished = {**both, "remoteLogSegmentState": 1}
    log = log_dir / "__remote_log_metadata-0/00000000000000000000.log"
    end = [batch.last_offset for batch in Segment(str(log)).batches()][-1] + 1
    values = [
        build_metadata_record("RemoteLogSegmentMetadataRecord", 0, started),
        build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, finished),
    ]
    append_bytes(log, build_batch([Record(end + n, 1, None, value) for n, value in enumerate(values)]))
    words = [str(store), "--metadata", str(log_dir), "--local", str(log_dir)]
    rows = verify(*words)[1]
    assert told(rows) == {("remote-object-missing", "stuck", 40, 79), ("remote-displaced", None, 40, 79)}
    assert not any(row["cure"].startswith("rm ") for row in rows)
    done = run_here(["remote", "fetch", words[0], "t-0", *words[1:], "--output", str(tmp_path / "t-0")], ROOT)
    assert (done.status, b"offsets 0 to 200 (exclusive)" in done.out) == (0, True)
    assert [
        record.offset for batch in Segment(str(tmp_path / f"t-0/{40:020d}.log")).batches() for record in batch.records()
    ][:2] == [40, 41]
