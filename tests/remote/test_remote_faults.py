"""A store whose requests fail: what fails now and then changes no answer; what never comes is told, and nothing is half
done."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import threading
from typing import Any

import pytest
from remote_stores import LOGS, STORE, ZSTD
from running import Done, run_here, tree_of
from unreliable_storage import FAULTS, Unreliable, unreliable

from klogtool.log import storage

__all__ = ["unreliable"]

Path = pathlib.Path
OF_BROKER = ["--metadata", str(LOGS), "--local", str(LOGS)]
STORES = {"local": (STORE, "orders-0", OF_BROKER), "zstd": (ZSTD, "pay-0", [])}
COMMANDS = ("ls", "verify", "fetch", "metadata")


def run(command: str, store: str, name: str, output: Path) -> Done:
    _, partition, words = STORES[name]
    own = {
        "ls": words,
        "verify": [*words, "--deep", "--now", "2026-11-26"],
        "fetch": [partition, *words, "--output", str(output)],
        "metadata": ["--partitions", "3", "--output", str(output)],
    }
    done = run_here(["remote", command, store, *own[command], "--json"], LOGS.parent)
    assert "Traceback" not in done.told
    return done


def answer(done: Done) -> list[dict[str, Any]]:
    rows = [json.loads(line.replace("far://", "")) for line in done.out.decode().splitlines()]
    for row in rows:
        for field in ("seconds", "event_ms", "output", "cure", "detail"):  # a store elsewhere knows no times
            row.pop(field, None)
    return rows


def logs_in(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.rglob("*.log"))}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("command", COMMANDS)
def test_requests_that_fail_now_and_then_change_no_answer(
    unreliable: Unreliable, tmp_path: Path, name: str, command: str
) -> None:
    store = STORES[name][0]
    sound = run(command, str(store), name, tmp_path / "sound")
    rng, thread = random.Random(f"{name} {command}"), threading.local()

    def fault_of() -> str | None:  # never more faults in a row than klogtool retries: a thread asks one by one
        row = getattr(thread, "row", 0)
        thread.row = row + 1 if row < len(storage.WAITS_S) and rng.random() < 0.5 else 0
        return rng.choice(list(FAULTS)) if thread.row else None

    unreliable.fault_of = fault_of
    faulty = run(command, f"far://{store}", name, tmp_path / "faulty")
    assert faulty.status == sound.status
    if command != "metadata":  # made of times
        assert answer(faulty) == answer(sound)
    if command == "fetch":
        assert logs_in(tmp_path / "faulty") == logs_in(tmp_path / "sound") != {}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_never_comes_is_told_and_nothing_is_half_done(
    unreliable: Unreliable, tmp_path: Path, name: str, command: str, fault: str
) -> None:
    store = shutil.copytree(STORES[name][0], tmp_path / "store")
    before, output = tree_of(store), tmp_path / "output"
    run(command, f"far://{store}", name, tmp_path / "sound")
    requests = unreliable.requests
    assert requests
    good = iter([None] * random.Random(f"{name} {command} {fault}").randrange(requests))
    unreliable.fault_of = lambda: next(good, fault)
    done = run(command, f"far://{store}", name, output)
    assert done.status in (1, 4)
    assert not output.exists() or not any(output.iterdir())
    if command == "verify":
        found = [row for row in answer(done) if row["type"] == "finding"]
        assert "remote-unchecked" in {row["id"] for row in found}
        assert not {row["id"] for row in found} & {"remote-batch", "remote-object-corrupt"}
    else:
        assert "far://" in done.err or command == "ls"
    assert tree_of(store) == before


class Failing:
    """As pyarrow's file system of Azure: its errors are no OSError."""

    def get_file_info(self, _: object) -> object:
        raise RuntimeError("Unknown error: Check for Hierarchical Namespace support: not permitted")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_cannot_be_listed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    pytest.importorskip("pyarrow.fs")
    monkeypatch.setattr(storage, "file_system", lambda place: (Failing(), "tier/z"))
    words = {"fetch": ["t-0", "--output", "out"], "metadata": ["--output", "out"]}
    done = run_here(["remote", command, f"abfs://someone:topsecret@host/{command}", *words.get(command, [])], tmp_path)
    assert (done.status, "Traceback" in done.told, "topsecret" in done.told) == (4, False, False)
    assert "not permitted" in done.told


class ShortOfArrow:
    """As pyarrow's S3: says that all was read, and leaves what did not come as it was."""

    def __init__(self, data: bytes, missing: int) -> None:
        self._data, self._missing, self._at = data, missing, 0

    def seek(self, position: int) -> None:
        self._at = position

    def readinto(self, buffer: bytearray) -> int:
        found = self._data[self._at : self._at + len(buffer)]
        came = len(found) - self._missing
        buffer[:came] = found[:came]
        return len(found)


@pytest.mark.parametrize("last", [0, 1, 0x5A, 0xA5, 255])
def test_an_answer_that_calls_itself_whole_is_held_against_a_mark(last: int) -> None:
    data = bytes(99) + bytes([last])
    for missing in (1, 2, 50, 100):
        with pytest.raises(OSError, match="shorter than the 100 bytes"):
            storage._ArrowFile(ShortOfArrow(data, missing)).read(0, 100)
    whole = storage._ArrowFile(ShortOfArrow(data, 0))
    assert [whole.read(0, 100), whole.read(99, 1), whole.read(50, 100)] == [data, data[99:], data[50:]]


def test_threads_that_share_a_file_get_their_own_bytes() -> None:
    rng = random.Random(7)
    data, mistakes = rng.randbytes(50_000), list[tuple[int, int]]()
    file = storage.StoredFile("far", len(data), lambda position, size: data[position : position + size], 4_000)

    def read(seed: int) -> None:
        own = random.Random(seed)
        for _ in range(3_000):
            position, size = own.randrange(len(data)), own.randrange(1, 3_000)
            if file.read(position, size) != data[position : position + size]:
                mistakes.append((position, size))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mistakes == []
