"""`klogtool remote fetch`: what is brought back has the records that a consumer got, and is a sound log."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest
from remote_stores import LOGS, SEALED, SHARED, STORE, ZSTD, pem
from running import ROOT, run_here, tree_of

from klogtool.log.entries import walk_records
from klogtool.log.partition import Partition

Path = pathlib.Path
OTHER_ID = "AAAAAAAAAAAAAAAAAAAA_w"


def fetch(*words: str) -> tuple[int, dict[str, Any]]:
    done = run_here(["remote", "fetch", *words, "--json"], ROOT)
    assert "Traceback" not in done.told
    return done.status, json.loads(done.out.splitlines()[-1]) if done.out else {}


def digest_of(partition: Path, start: int) -> tuple[int, str]:
    """How a consumer with read_uncommitted sees it: see the samples' README."""
    count, sha = 0, hashlib.sha256()
    for segment in Partition(str(partition)).segments:
        for batch in segment.batches():
            for record in batch.records() if not batch.is_control else ():
                if record.offset < start:
                    continue
                key, value = (b"-" if one is None else base64.b64encode(one) for one in (record.key, record.value))
                sha.update(b"%d %d %s %s\n" % (record.offset, record.timestamp, key, value))
                count += 1
    return count, sha.hexdigest()


def is_sound(partition: Path, start: int = 0) -> bool:
    words = ["--deep", "--fail-on", "warning", "-q", "--log-start-offset", str(start)]
    return run_here(["verify", str(partition), *words], ROOT).status == 0


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "aiven-plain", "aiven-zstd", "aiven-enc"])
def test_a_fetched_partition_has_what_a_consumer_got(name: str, tmp_path: Path) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    words = ["--metadata", str(sample / "logdir"), "--local", str(sample / "logdir")]
    if (sample / "key1.private.der.b64").exists():
        pytest.importorskip("cryptography")
        (tmp_path / "key.pem").write_bytes(pem(sample / "key1.private.der.b64"))
        words += ["--key", f"key1={tmp_path}/key.pem"]
    before = tree_of(sample)
    for partition, want in json.loads((sample / "expected.json").read_text())["partitions_when_healthy"].items():
        status, answer = fetch(str(sample / "remote"), partition, *words, "--output", str(tmp_path / partition))
        assert (status, answer["missing"]) == (0, [])
        assert (answer["log_start_offset"], answer["log_end_offset"]) == (want["log_start"], want["end"])
        got = digest_of(tmp_path / partition, want["log_start"])
        assert got == (want["read_uncommitted"]["count"], want["read_uncommitted"]["sha256"])
        assert is_sound(tmp_path / partition, want["log_start"])
    assert tree_of(sample) == before


@pytest.mark.shared
def test_after_an_unclean_election_it_is_the_new_leaders_log(tmp_path: Path) -> None:
    sample = SHARED / "lts-unclean"
    if not sample.exists():
        pytest.skip("no samples")
    want = json.loads((sample / "expected.json").read_text())["served"]
    words = ["--metadata", str(sample / "n1"), "--local", str(sample / "n3"), "--output", str(tmp_path / "t-0")]
    status, _ = fetch(str(sample / "remote"), "t-0", *words)
    assert (status, digest_of(tmp_path / "t-0", 0)) == (0, (want["count"], want["sha256"]))


def test_what_is_damaged_or_gone_is_left_out_and_said(tmp_path: Path) -> None:
    beside = ["--metadata", str(LOGS), "--local", str(LOGS)]
    missing = {"orders-0": (55, 59), "orders-1": (0, 29), "pay-0": (41, 43)}
    counts = {"orders-0": 125, "orders-1": 50, "pay-0": 61}
    for name, lost in missing.items():
        status, answer = fetch(str(STORE), name, *beside, "--output", str(tmp_path / name))
        assert status == 1
        assert [(one["first_offset"], one["last_offset"]) for one in answer["missing"]] == [lost]
        assert digest_of(tmp_path / name, 0)[0] == counts[name]


def test_without_metadata_the_objects_are_enough(tmp_path: Path) -> None:
    status, answer = fetch(str(ZSTD), "pay-0", "--output", str(tmp_path / "pay-0"))
    assert (status, answer["log_start_offset"], answer["log_end_offset"]) == (0, 0, 47)
    assert is_sound(tmp_path / "pay-0")
    assert run_here(["transplant", str(tmp_path / "pay-0"), "--check"], ROOT).status == 0
    status, later = fetch(str(ZSTD), "pay-0", "--from", "7", "--output", str(tmp_path / "later"))
    assert (status, later["log_start_offset"], later["log_end_offset"]) == (0, 7, 47)
    assert later["checkpoints"]["log-start-offset-checkpoint"] == 7
    assert digest_of(tmp_path / "later", 7)[0] == digest_of(tmp_path / "pay-0", 7)[0]
    newest = max(record.timestamp for record in walk_records(str(tmp_path / f"pay-0/{0:020d}.log")))
    for time, start in (newest, 0), (newest + 1, 6):
        text = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
        assert fetch(str(ZSTD), "pay-0", "--from", text)[1]["log_start_offset"] == start


def test_nothing_is_written_without_output_or_where_something_is(tmp_path: Path) -> None:
    status, answer = fetch(str(ZSTD), "pay-0")
    assert (status, answer["output"], list(tmp_path.iterdir())) == (0, None, [])
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_bytes(b"x")
    assert fetch(str(ZSTD), "pay-0", "--output", str(tmp_path / "there"))[0] == 3
    assert fetch(str(ZSTD), "none-0", "--output", str(tmp_path / "new"))[0] == 2
    assert fetch(str(ZSTD), "pay-0", "--from", "yesterday")[0] == 2
    assert fetch(str(SEALED), "pay-0", "--output", str(tmp_path / "new"))[0] == 4
    assert not (tmp_path / "new").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_damaged_objects_never_give_damaged_logs(suffix: str, tmp_path: Path) -> None:
    for n in range(6):
        store = tmp_path / f"store{n}"
        shutil.copytree(ZSTD, store)
        for file in sorted(store.rglob(f"*.{suffix}"))[: 1 + n % 3]:
            data = bytearray(file.read_bytes())
            data[(n * 977) % len(data)] ^= 0x40
            file.write_bytes(data)
        status, answer = fetch(str(store), "pay-0", "--output", str(tmp_path / f"out{n}"))
        assert status in (0, 1, 3, 4)
        assert (status in (0, 1)) == (tmp_path / f"out{n}").exists()
        assert status != 1 or answer["missing"]


def test_metadata_that_is_not_at_hand_is_no_missing_record(tmp_path: Path) -> None:
    """Without the partition of the metadata topic that has its records, nobody knows that no segment serves them."""
    logs = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    has_records = [log.parent for log in logs.glob("__remote_log_metadata-*/*.log") if log.stat().st_size]
    empty = [folder for folder in logs.glob("__remote_log_metadata-*") if folder not in has_records]
    if not empty:  # the topic stays, with another partition
        empty = [logs / "__remote_log_metadata-7"]
        shutil.copytree(has_records[0], empty[0])
        (empty[0] / f"{0:020d}.log").write_bytes(b"")
    for folder in has_records:
        shutil.rmtree(folder)
    for more in ([], ["--local", str(logs)]):
        done = run_here(["remote", "fetch", str(STORE), "orders-0", "--metadata", str(logs), *more], ROOT)
        assert (done.status, done.out) == (4, b"")
        assert "which is in none of the log dirs (--metadata)" in done.told
    assert b"  from 0 " in run_here(["remote", "fetch", str(STORE), "orders-0"], ROOT).out


def test_a_topic_whose_objects_were_copied_is_fetched_by_its_new_name(tmp_path: Path) -> None:
    (old,) = ZSTD.iterdir()
    shutil.copytree(old, tmp_path / "store" / f"new-{OTHER_ID}")
    status, answer = fetch(str(tmp_path / "store"), "new-0", "--output", str(tmp_path / "new-0"))
    assert (status, answer["missing"], answer["topic_id"]) == (0, [], OTHER_ID)
    assert Partition(str(tmp_path / "new-0")).topic_id == OTHER_ID
    assert (answer["log_start_offset"], answer["log_end_offset"]) == (0, 47)


@pytest.mark.parametrize("bit", [1, 16, 32])
def test_a_base_offset_that_rotted_costs_its_batch_alone(bit: int, tmp_path: Path) -> None:
    """No checksum covers a base offset: the batch is readable, and in the wrong place."""
    shutil.copytree(STORE, tmp_path / "store")
    (log,) = (tmp_path / "store").glob("orders-0-*/00000000000000000090-*.log")
    data = bytearray(log.read_bytes())
    position = sum(12 + int.from_bytes(data[at + 8 : at + 12], "big") for at in (0, 431))
    assert int.from_bytes(data[position : position + 8], "big") == 100
    data[position + 7] ^= bit
    log.write_bytes(data)
    words = [str(tmp_path / "store"), "orders-0", "--metadata", str(LOGS), "--output", str(tmp_path / "orders-0")]
    status, answer = fetch(*words)
    assert status == 1
    assert (answer["missing"][-1]["first_offset"], answer["missing"][-1]["last_offset"]) == (100, 104)
    assert is_sound(tmp_path / "orders-0")


@pytest.mark.parametrize(
    ("gone", "start", "want"),
    [
        ((0,), None, [(0, 29)]),
        ((90,), None, [(90, None)]),
        ((0, 90), None, [(0, 29), (90, None)]),
        ((0, 90), 40, [(90, None)]),
        ((0, 90), 95, [(95, None)]),
        ((0,), 10, [(10, 29)]),
    ],
)
def test_objects_that_do_not_say_what_they_are_are_missing(
    gone: tuple[int, ...], start: int | None, want: list[tuple[int, int | None]], tmp_path: Path
) -> None:
    (folder,) = STORE.glob("orders-0-*")
    shutil.copytree(folder, tmp_path / folder.name)
    objects = [one for base in gone for one in (tmp_path / folder.name).glob(f"{base:020d}-*.log")]
    for one in objects:
        one.unlink()
    status, answer = fetch(str(tmp_path), "orders-0", *([] if start is None else ["--from", str(start)]))
    own = [one for one in answer["missing"] if one["why"] == "the object does not exist"]
    assert (status, [(one["first_offset"], one["last_offset"]) for one in own]) == (1, want)
    assert {one["path"] for one in own} <= set(map(str, objects))
