"""`klogtool remote ls`: partitions and segments of a store, by objects and by metadata."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from typing import Any

import pytest
from remote_stores import LOGS, SEALED, SHARED, STORE, ZSTD, pem
from running import ROOT, Done, peak_bytes, run_here, tree_of

from klogtool.errors import KlogError
from klogtool.render.remote import MOST_NAMED, unread_lines

Path = pathlib.Path


def ls(*words: str) -> tuple[Done, list[dict[str, Any]]]:
    done = run_here(["remote", "ls", *words, "--json"], ROOT)
    return done, [json.loads(line) for line in done.out.splitlines()]


def test_states_are_those_of_the_metadata_topic() -> None:
    before = tree_of(STORE), tree_of(LOGS)
    done, rows = ls(str(STORE), "--metadata", str(LOGS), "--local", str(LOGS))
    assert done.status == 0
    partitions = {f"{row['topic']}-{row['partition']}": row for row in rows if row["type"] == "partition"}
    assert {name: row["states"] for name, row in partitions.items()} == {
        "old-0": None,
        "orders-0": {"COPY_SEGMENT_FINISHED": 4, "UNKNOWN": 1},
        "orders-1": {"COPY_SEGMENT_FINISHED": 2},
        "pay-0": {"COPY_SEGMENT_FINISHED": 2, "COPY_SEGMENT_STARTED": 1, "DELETE_SEGMENT_STARTED": 1},
    }
    assert partitions["orders-0"]["epochs"] == [[0, 0], [2, 60], [4, 100]]
    assert partitions["orders-0"]["log_end_offset"] == 130
    assert rows[-1]["bytes"] == sum(file.stat().st_size for file in STORE.rglob("*") if file.is_file())
    assert sum(row["bytes"] for row in partitions.values()) == rows[-1]["bytes"]
    assert (tree_of(STORE), tree_of(LOGS)) == before


def test_without_metadata_the_objects_say_what_they_are() -> None:
    done, rows = ls(str(STORE))
    (missing,) = (row for row in rows if row["type"] == "segment" and row["error"])
    assert (done.status, missing["error"], missing["topic"]) == (1, "the object does not exist", "orders")
    _, rows = ls(str(ZSTD))
    assert [(row["start_offset"], row["end_offset"]) for row in rows if row["type"] == "segment"] == [
        (0, 5),
        (6, 40),
        (41, 46),
    ]


def test_a_key_is_read_and_never_shown(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    (tmp_path / "key.pem").write_bytes(pem())
    done, rows = ls(str(SEALED), "--key", f"key1={tmp_path}/key.pem")
    assert (done.status, rows[-1]["segments"]) == (0, 10)
    assert not any(line in done.out + done.told.encode() for line in pem().splitlines()[1:-1])
    (tmp_path / "key.pem").write_bytes(b"secret")
    done, _ = ls(str(SEALED), "--key", f"key1={tmp_path}/key.pem")
    assert (done.status, "secret" in done.told, "not a private RSA key" in done.told) == (2, False, True)
    assert ls(str(SEALED), "--key", "key1")[0].status == 2


def test_foreign_objects_are_one_line(tmp_path: Path) -> None:
    shutil.copytree(ZSTD, tmp_path / "store")
    for number in range(3):
        (tmp_path / f"store/7c5e000{number}/ns").mkdir(parents=True)
        (tmp_path / f"store/7c5e000{number}/ns/{number}").write_bytes(b"x")
    done = run_here(["remote", "ls", "store"], tmp_path)
    assert done.out.decode().splitlines()[-1].startswith("3 other objects, named as AutoMQ names them")
    assert run_here(["remote", "ls", "nowhere"], tmp_path).status == 2
    assert run_here(["remote", "ls", "store", "--metadata", "store"], tmp_path).status != 0


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        ("Confluent", "0/Y2Zx/AejNNKazRgCOP9s5ws4LnA/0/00000000000000000000_0_v0.segment"),
        ("Redpanda", "a0000000/meta/kafka/orders/0_18/manifest.bin"),
        ("Redpanda", "0d1f2a3b/kafka/orders/0_18/0-1023-1048576-1-v1.log.1"),
        ("AutoMQ", "7c5e0001/ns/1"),
        ("Aiven, Iceberg", "db/orders/metadata/gTyBSv1KTnGyPZSidSrdHQ.puffin"),
        ("Pinterest", "orders-0/00000000000000000000.log"),
        ("WarpStream", "warpstream/some-cluster/some-file"),
        ("Inkless", "wal/gTyBSv1KTnGyPZSidSrdHQ"),
        ("unknown", "wal/a-word-of-22-letters-x"),
        ("unknown", "wal/0b0d2f2e-8b4c-4f5e-9a55-0a7c4d2b9e11"),
    ],
)
def test_other_layouts_are_known_by_their_names(layout: str, path: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(b"x")
    done, rows = ls(str(tmp_path))
    assert (done.status, rows[-1]["foreign"], rows[-1]["foreign_layout"]) == (0, 1, layout)


@pytest.mark.slow
def test_ten_thousand_objects_are_listed_in_256_mb(tmp_path: Path) -> None:
    (folder,) = STORE.glob("orders-0-*")
    files = [(file.suffix, file.read_bytes()) for file in folder.glob("*-YUXISDMJQTuoSDibMdAKoQ.*")]
    for number in range(10_000 // len(files)):
        place = tmp_path / f"t{number // 100}-0-{number // 100:022d}"
        place.mkdir(exist_ok=True)
        for suffix, data in files:
            (place / f"{0:020d}-{number:022d}{suffix}").write_bytes(data)
    with (tmp_path.parent / "rows").open("w+b") as rows:
        began = time.monotonic()
        assert peak_bytes(["remote", "ls", str(tmp_path), "--json"], rows.fileno()) < 256 << 20
        assert time.monotonic() - began < 60
        rows.seek(0)
        assert json.loads(rows.read().splitlines()[-1])["segments"] == 10_000 // len(files)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "lts-damaged", "aiven-zstd", "aiven-zstd-damaged"])
def test_real_stores_are_listed_as_their_metadata_says(name: str) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    told = json.loads((sample / "expected.json").read_text())["segments_by_metadata"]
    _, rows = ls(str(sample / "remote"), "--metadata", str(sample / "logdir"))
    found = {row["segment_id"]: row for row in rows if row["type"] == "segment" and row["state"] is not None}
    live = {one: said for one, said in told.items() if said["state"] != "DELETE_SEGMENT_FINISHED"}
    assert {one: (row["start_offset"], row["end_offset"], row["state"]) for one, row in found.items()} == {
        one: (said["start"], said["end"], said["state"]) for one, said in live.items()
    }


@pytest.mark.parametrize("store", [STORE, ZSTD, SEALED])
def test_columns_have_what_json_has(store: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    words = [str(store), *(["--metadata", str(LOGS)] if store is STORE else [])]
    rows = [row for row in ls(*words)[1] if row["type"] == "segment"]
    done = run_here(["remote", "ls", *words, "--format", "arrow", "--output", str(tmp_path / "x.arrow")], ROOT)
    assert done.out == b""
    columns = pa.ipc.open_file(tmp_path / "x.arrow").read_all().to_pylist()
    assert all(len(row["topic_id"]) == 22 for row in columns)
    for row in columns:
        row["epochs"] = [[one["epoch"], one["start_offset"]] for one in row["epochs"]]
        row["objects"] = dict(row["objects"])
        row["type"] = "segment"
        del row["topic_id"], row["layout"]
    assert columns == rows
    assert rows


def test_a_topic_whose_name_is_not_utf8_has_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    (old,) = ZSTD.iterdir()
    shutil.copytree(old, tmp_path / "store" / f"p\udcffy-{'A' * 21}Q")
    words = ["remote", "ls", str(tmp_path / "store"), "--format", "arrow", "--output", str(tmp_path / "x.arrow")]
    assert run_here(words, ROOT).status == 0
    assert {row["topic"] for row in pa.ipc.open_file(tmp_path / "x.arrow").read_all().to_pylist()} == {"p\\xffy"}


SECRET_URIS = [
    "s3://AKID:SeCrEt@bucket/x?endpoint_override=127.0.0.1:1&bogus=1",
    "s3://bucket/x?session_token=SeCrEt&bogus=1",
    "s3://bucket/x?passwd=SeCrEt",
    "s3://bucket/x?authorization=SeCrEt",
    "s3://bucket/x?X-Amz-Credential=SeCrEt",
    "abfs://account@host/x?sig=SeCrEt&bogus=1",
    "unheard-of://user:SeCrEt@host/x",
]


@pytest.mark.parametrize("uri", SECRET_URIS)
@pytest.mark.parametrize("words", [["remote", "ls"], ["remote", "verify"], ["remote", "metadata"], ["dump-log"]])
def test_what_cannot_be_opened_is_named_without_its_secrets(words: list[str], uri: str) -> None:
    pytest.importorskip("pyarrow")
    done = run_here([*words, uri], ROOT)
    assert done.status == 4
    assert "***" in done.err
    assert "SeCrEt" not in done.err + done.out.decode()


def test_columns_need_a_file_outside_of_what_is_read(tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    words = ["remote", "ls", str(tmp_path / "store"), "--format"]
    before = tree_of(tmp_path)
    assert run_here([*words, "arrow"], ROOT).status == 2
    assert run_here([*words, "json", "--output", str(tmp_path / "x.arrow")], ROOT).status == 2
    assert run_here([*words, "arrow", "--output", str(tmp_path / "store/x.arrow")], ROOT).status == 3
    assert tree_of(tmp_path) == before


def test_alike_errors_are_one_line_that_names_the_first_object(tmp_path: Path) -> None:
    (folder,) = STORE.glob("old-0-*")
    for number in range(50):  # the segment's objects, under the base offsets of others
        for file in folder.iterdir():
            copy = tmp_path / folder.name / f"{100 + number:020d}-{number:022d}.{file.name.partition('.')[2]}"
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(file, copy)
    first = f"{tmp_path}/{folder.name}/{100:020d}-{0:022d}"
    done, rows = ls(str(tmp_path))
    why = "offsets 100 to 29 with 0 leader epochs cannot be a segment"
    assert (done.status, rows[-1]["unread"]) == (1, 50)
    assert rows[-1]["first_unread"] == [{"path": f"{first}.log", "position": None, "why": why, "more": 49}]
    assert done.told.splitlines() == [f"klogtool: {first}.log: {why} (and 49 more like this: -v shows all)"]
    assert len(run_here(["remote", "ls", str(tmp_path), "-v"], ROOT).told.splitlines()) == 50
    done = run_here(["remote", "metadata", str(tmp_path)], ROOT)
    left_out = [line for line in done.out.decode().splitlines() if "left out" in line]
    assert left_out == [f"  left out: {first}: {why} (and 49 more like this: -v shows all)"]


@pytest.mark.parametrize("suffix", ["leader_epoch_checkpoint", "log"])
def test_what_cannot_be_read_names_its_object(suffix: str, tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    (damaged,) = (tmp_path / "store").glob(f"old-0-*/*.{suffix}")
    damaged.write_bytes(b"x")
    done, rows = ls(str(tmp_path / "store"))
    assert (done.status, rows[-1]["unread"]) == (1, 2)
    assert str(damaged) in [one["path"] for one in rows[-1]["first_unread"]]
    assert f"klogtool: {damaged}: " in done.told


def test_kinds_of_errors_are_bounded() -> None:
    errors = [KlogError(f"{chr(97 + n % 26) * (n // 26 + 1)} is wrong", path=f"p{n}") for n in range(100)]
    lines = list(unread_lines(errors, verbose=False))
    assert (len(lines), lines[0], lines[-1]) == (MOST_NAMED + 1, "p0: a is wrong", "and 80 more (-v shows all)")
