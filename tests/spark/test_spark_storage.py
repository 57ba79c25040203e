"""Files elsewhere are read by ranges, few and no larger than need be; what is read is the same."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from loading import data, make
from planned import read, splits_of
from raw_batches import build_batch
from running import FIXTURES
from unreliable_storage import FAULTS, Unreliable, unreliable

from klogtool.errors import KlogError, Refused, Unsupported
from klogtool.format.batch import Record
from klogtool.log import storage
from klogtool.log.file import Unreadable
from klogtool.log.probing import NEAR_BYTES
from klogtool.log.storage import Place, RemoteStorage, Stored, StoredFile, Traffic, expand, open_place
from klogtool.spark.options import places_of

__all__ = ["unreliable"]

LARGE = 500_000


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, int]]]:
    """`far:///path` is a path of this machine, read by ranges only: the list gets (file, position, size) of each."""
    asked: list[tuple[str, int, int]] = []

    def walk(path: str) -> list[Stored]:
        names = [path] if os.path.isfile(path) else [str(p) for p in pathlib.Path(path).rglob("*") if p.is_file()]
        return [Stored(name, os.path.getsize(name), 0) for name in names]

    def fetch(path: str, position: int, size: int) -> bytes:
        asked.append((os.path.basename(path), position, size))
        with open(path, "rb") as file:
            file.seek(position)
            return file.read(size)

    def opened(place: Place) -> tuple[Any, str]:
        return RemoteStorage("far://", walk, fetch, Traffic()), place.uri

    monkeypatch.setattr(storage, "_by_fsspec", opened)
    open_place.cache_clear()
    yield asked
    open_place.cache_clear()


@pytest.fixture
def large_batches(tmp_path: pathlib.Path) -> pathlib.Path:
    """40 batches of half a megabyte, as two segments."""

    def batch(offset: int) -> bytes:
        return build_batch([Record(offset, 1_700_000_000_000 + offset, b"k", bytes(LARGE))], partition_leader_epoch=1)

    return make(tmp_path / "t-0", {0: [batch(n) for n in range(20)], 20: [batch(n) for n in range(20, 40)]})


@pytest.mark.parametrize("table", ["records", "batches", "segments"])
@pytest.mark.parametrize("name", ["every-codec", "three-magics", "transactions", "retention"])
def test_the_same_rows_as_from_this_machine(elsewhere: list[Any], name: str, table: str) -> None:
    log_dir = FIXTURES / name / "logdir"
    for options in ({"table": table}, {"table": table, "splitBytes": 500}):
        here, there = read(log_dir, **options), read(f"far://{log_dir}", **options)
        left = [c for c in here.column_names if c not in ("file", "modified", "log_dir")]
        assert there.select(left).equals(here.select(left))
    assert elsewhere, "nothing was fetched"


def test_headers_of_large_batches_do_not_cost_their_records(
    elsewhere: list[tuple[str, int, int]], large_batches: pathlib.Path
) -> None:
    assert read(f"far://{large_batches}", table="batches").num_rows == 40
    last = max(elsewhere, key=lambda asked: asked[2])
    elsewhere.remove(last)  # nothing follows the last batch of a log: its checksum says that it is the last
    assert last[0].endswith(f"{20:020d}.log")
    assert sum(size for _, _, size in elsewhere) < 40 * 5000 + NEAR_BYTES  # for its header
    assert len(elsewhere) <= 43


def test_a_listing_reads_no_log(elsewhere: list[tuple[str, int, int]], large_batches: pathlib.Path) -> None:
    read(f"far://{large_batches}", table="segments", columns="file,size,index_size,is_active")
    splits_of(f"far://{large_batches}")
    assert [name for name, _, _ in elsewhere if name.endswith(".log")] == []


def test_records_are_fetched_in_large_pieces_and_once(
    elsewhere: list[tuple[str, int, int]], large_batches: pathlib.Path
) -> None:
    assert read(f"far://{large_batches}").num_rows == 40
    logs = [(position, size) for name, position, size in elsewhere if name.endswith(".log")]
    assert len(logs) <= 4
    assert sum(size for _, size in logs) < 1.1 * 40 * LARGE


def test_few_offsets_are_few_bytes(elsewhere: list[tuple[str, int, int]], large_batches: pathlib.Path) -> None:
    bounds = {"startingOffsets": '{"t":{"0":7}}', "endingOffsets": '{"t":{"0":9}}'}
    assert read(f"far://{large_batches}", **bounds).column("offset").to_pylist() == [7, 8]
    logs = {(position, size) for name, position, size in elsewhere if name.endswith(".log")}
    assert sum(size for _, size in logs) < 8 * LARGE


def test_a_file_is_not_asked_twice_for_the_same_bytes() -> None:
    asked = []

    def fetch(position: int, size: int) -> bytes:
        asked.append((position, size))
        return bytes(range(100))[position : position + size]

    file = StoredFile("x", 100, fetch, ahead_bytes=10)
    assert [file.read(0, 4), file.read(4, 4), file.read(8, 4)] == [bytes(range(n, n + 4)) for n in (0, 4, 8)]
    assert asked == [(0, 10), (10, 8)]
    assert file.read(95, 10) == bytes(range(95, 100))
    assert bytes(file.read_into(bytearray(50), 40, 50)) == bytes(range(40, 90))
    assert file.read(100, 5) == b""


@pytest.mark.parametrize("table", ["records", "batches", "segments", "left_out"])
@pytest.mark.parametrize("name", ["every-codec", "transactions", "retention"])
def test_requests_that_fail_now_and_then_change_no_row(unreliable: Unreliable, name: str, table: str) -> None:
    log_dir, rng, row = FIXTURES / name / "logdir", random.Random(f"{name} {table}"), 0

    def fault_of() -> str | None:
        nonlocal row  # never more faults in a row than klogtool retries
        row = row + 1 if row < len(storage.WAITS_S) and rng.random() < 0.5 else 0
        return rng.choice(list(FAULTS)) if row else None

    options = {"table": table, "splitBytes": 500, "mode": rng.choice(["PERMISSIVE", "DROPMALFORMED"])}
    expected, sound = read(f"far://{log_dir}", **options), unreliable.requests
    unreliable.fault_of = fault_of
    assert read(f"far://{log_dir}", **options).equals(expected)
    assert unreliable.requests > sound


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_range_that_never_comes_is_an_error_never_fewer_rows(
    unreliable: Unreliable, tmp_path: pathlib.Path, fault: str, mode: str
) -> None:
    make(tmp_path / "t-0", {0: [data(n) for n in range(9)], 9: [data(n) for n in range(9, 18)]})
    whole = read(f"far://{tmp_path}", mode=mode)
    assert whole.num_rows == 18
    sound, unreliable.requests = unreliable.requests, 0
    for good in range(sound):  # the first requests are answered, all later ones fail
        left = iter([None] * good)
        unreliable.fault_of = lambda left=left: next(left, fault)  # type: ignore[misc]
        with pytest.raises(KlogError, match="far://"):
            read(f"far://{tmp_path}", mode=mode)


def test_what_is_not_there_is_not_requested_again(unreliable: Unreliable, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    system, path = open_place(Place(f"far://{tmp_path}/file"))
    [stored] = system.list(path)
    (tmp_path / "file").unlink()
    with system.open(stored) as file, pytest.raises(Unreadable, match="no such file"):
        file.read(0, 3)
    assert unreliable.requests == 1
    (tmp_path / "file").write_bytes(b"a")  # replaced by a shorter one
    with system.open(stored) as file, pytest.raises(Unreadable, match="1 bytes came where 3 were requested"):
        file.read(0, 3)


def test_places(tmp_path: pathlib.Path) -> None:
    for name in ("a1", "a2", "b"):
        (tmp_path / name).mkdir()
    assert [p.uri for p in expand(Place(f"{tmp_path}/a*"))] == [f"{tmp_path}/a1", f"{tmp_path}/a2"]
    assert expand(Place("s3://b/x*")) == [Place("s3://b/x*")]
    with pytest.raises(Unreadable, match="no such file"):
        expand(Place(f"{tmp_path}/c*"))
    with pytest.raises(Refused, match="no path"):
        list(places_of([], ""))
    with pytest.raises(Unsupported, match="nope://x"):
        open_place(Place("nope://x"))


def test_what_is_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Unreadable, match="no such file"):
        read(tmp_path / "nothing")
    with pytest.raises(Refused, match="no partition dir"):
        read(tmp_path)
    folder = make(tmp_path / "t-0", {0: data(0)})
    (folder / "00000000000000000000.log").unlink()
    with pytest.raises(Refused, match="no partition dir"):
        read(tmp_path)
