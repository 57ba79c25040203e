"""A store behind pyarrow's own client of S3, and answers that are wrong: of elsewhere, cut off, or that the store is
busy. What is wrong once changes no answer, or is told; what is always wrong ends in time."""

from __future__ import annotations

import json
import pathlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from fake_s3 import FakeS3, as_wanted, busy, ends_early, of_another_batch, of_elsewhere, serving
from raw_batches import build_batch
from remote_stores import LOGS, STORE, ZSTD
from running import Done, run_here

from klogtool.format.batch import Record
from klogtool.log import storage

pytest.importorskip("pyarrow.fs")
Path = pathlib.Path
OF_BROKER = ["--metadata", str(LOGS), "--local", str(LOGS)]
KEYS = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(params=[STORE, ZSTD], ids=["local", "zstd"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storage, "WAITS_S", (0.0,) * len(storage.WAITS_S))
    with serving(FakeS3(request.param)) as served:
        yield served


def verified(store: str, folder: Path, *words: str) -> Done:
    done = run_here(["remote", "verify", store, *words, "--deep", "--now", "2026-11-26", "--json"], folder)
    assert "Traceback" not in done.told
    return done


def findings(done: Done) -> Counter[tuple[str, str, int | None, int | None]]:
    rows = map(json.loads, done.out.splitlines())
    return Counter(
        (row["id"], row["path"].split("/")[-1], row.get("first_offset"), row.get("last_offset"))
        for row in rows
        if row["type"] == "finding"
    )


def once(fault: Callable[..., object], suffix: str = "") -> Callable[[str], Callable[..., object]]:
    """The first answer for each object is wrong."""
    seen: set[str] = set()

    def fault_of(name: str) -> Callable[..., object]:
        is_first = name not in seen and name.endswith(suffix)
        seen.add(name)
        return fault if is_first else as_wanted

    return fault_of


def words_of(bucket: FakeS3) -> list[str]:
    return OF_BROKER if bucket.folder == STORE else []


def test_a_bucket_is_checked_as_a_folder_is(bucket: FakeS3, tmp_path: Path) -> None:
    here, there = (verified(store, tmp_path, *words_of(bucket)) for store in (str(bucket.folder), bucket.uri))
    assert (there.status, findings(there)) == (here.status, findings(here))
    assert bucket.requests


@pytest.mark.parametrize("fault", [of_elsewhere, ends_early, busy], ids=lambda fault: fault.__name__)
def test_what_is_wrong_once_is_no_damage(bucket: FakeS3, fault: Callable[..., object], tmp_path: Path) -> None:
    sound = findings(verified(bucket.uri, tmp_path, *words_of(bucket)))
    bucket.fault_of = once(fault)
    told = findings(verified(bucket.uri, tmp_path, *words_of(bucket)))
    more = told - sound
    assert {finding_id for finding_id, *_ in more} <= {"remote-unchecked"}
    assert bool(more) is (fault is of_elsewhere)  # the others are requested again


def test_other_batches_that_come_once_are_no_end_of_a_segment(bucket: FakeS3, tmp_path: Path) -> None:
    """Their times and sizes are those of the batches that were wanted."""
    bucket.folder = tmp_path / "store"
    folder = bucket.folder / "t-0-AAAAAAAAAAAAAAAAAAAAAA"
    folder.mkdir(parents=True)
    objects = {
        "log": b"".join(build_batch([Record(n, 7, None, b"x")]) for n in range(3)),
        "index": b"",
        "timeindex": (7).to_bytes(8, "big") + bytes(4),
        "leader_epoch_checkpoint": b"0\n1\n0 0\n",
    }
    for suffix, data in objects.items():
        (folder / f"{0:020d}-AAAAAAAAAAAAAAAAAAAAAQ.{suffix}").write_bytes(data)

    def segment() -> dict[str, object]:
        rows = map(json.loads, run_here(["remote", "ls", bucket.uri, "--json"], tmp_path).out.splitlines())
        return next(row for row in rows if row["type"] == "segment")

    assert (segment()["end_offset"], segment()["error"]) == (2, None)
    bucket.fault_of = once(of_another_batch, ".log")
    told = segment()
    assert told["end_offset"] is None
    assert "other bytes" in str(told["error"])


def test_a_partition_is_fetched_whole_or_not_at_all(bucket: FakeS3, tmp_path: Path) -> None:
    words = ["pay-0", *words_of(bucket), "--output"]
    assert run_here(["remote", "fetch", bucket.uri, *words, "sound"], tmp_path).status in (0, 1)
    bucket.fault_of = once(of_elsewhere, ".log")
    done = run_here(["remote", "fetch", bucket.uri, *words, "wrong"], tmp_path)
    logs = [{path.name: path.read_bytes() for path in (tmp_path / name).glob("*.log")} for name in ("sound", "wrong")]
    assert (done.status, logs[1]) == (4, {}) or logs[0] == logs[1]
    assert "Traceback" not in done.err


def test_a_store_that_never_gives_a_whole_body_ends_in_time(bucket: FakeS3, tmp_path: Path) -> None:
    bucket.fault_of = lambda _: ends_early
    began = time.monotonic()
    done = verified(bucket.uri, tmp_path, *words_of(bucket))
    assert "remote-unchecked" in {finding_id for finding_id, *_ in findings(done)}
    assert time.monotonic() - began < 120, "211 s where each range was requested four times"


class Clock:
    """A clock that goes on by the time that requests and waits take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_store_that_is_down_is_not_waited_for_at_each_object(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, requests, is_down = Clock(), list[int](), True

    def fetch(position: int, size: int) -> bytes:
        requests.append(position)
        clock.sleep(1)
        if is_down:
            raise TimeoutError("Read timed out")
        return bytes(size)

    monkeypatch.setattr(storage, "time", clock)
    traffic = storage.Traffic()
    for _ in range(100):
        with pytest.raises(storage.Unreadable, match="timed out"):
            storage.StoredFile("far", 10, fetch, 10, traffic).read(0, 10)
    assert len(requests) < 120
    assert clock.now < 140, "660 seconds where each is requested four times"
    is_down = False
    assert storage.StoredFile("far", 10, fetch, 10, traffic).read(0, 10) == bytes(10)
    assert traffic.patience_s == storage.REFUND_S
