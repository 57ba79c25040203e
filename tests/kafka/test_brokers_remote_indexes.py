"""Wounded index objects of a tiered topic with transactions: what `klogtool remote verify` says that consumers do not
get, and which aborted records it says they get, is so, at both isolation levels."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from klogtool.log.partition import Partition

from .beside import module_beside
from .local_tier import tiered
from .test_brokers_remote import TOPIC, run, settings_of
from .test_brokers_start_on_it import a_scratch_folder
from .tiers import READERS, Reader, Tier, local_start, lost_by, spans_of

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

Path: TypeAlias = pathlib.Path
VERSION, TRANSACTIONS, LOCAL_FROM = "4.3.1", 16, 32
LEVELS = ("read_uncommitted", "read_committed")
ENTRY_BYTES = 34


def _number(data: bytes, at: int, size: int, value: int) -> bytes:
    return data[:at] + value.to_bytes(size, "big", signed=True) + data[at + size :]


def _begin(data: bytes) -> int:
    return int.from_bytes(data[10:18], "big")


def _first_aborted(tier: Tier) -> int:
    return next(n for n, log in enumerate(tier.logs) if log.with_suffix(".txnindex").stat().st_size)


def wound(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[Tier], None]:
    """Change an object of the first segment with aborted transactions."""

    return lambda tier: tier.edit(change, _first_aborted(tier), suffix)


def third_for_first(tier: Tier) -> None:
    n = _first_aborted(tier)
    position = tier.batches(n)[2][0]
    tier.edit(lambda _: bytes(4) + position.to_bytes(4, "big"), n, "index")


WOUNDS: dict[str, Callable[[Tier], None]] = {
    "none": lambda _: None,
    "transactions: gone": lambda tier: tier.path(_first_aborted(tier), "txnindex").unlink(),
    "transactions: empty": wound("txnindex", lambda _: b""),
    "transactions: first entry gone": wound("txnindex", lambda data: data[ENTRY_BYTES:]),
    "transactions: another version": wound("txnindex", lambda data: _number(data, 0, 2, 1)),
    "transactions: below the segment": wound("txnindex", lambda data: _number(data, 18, 8, -1)),
    "transactions: torn": wound("txnindex", lambda data: data[:-5]),
    "transactions: more bytes": wound("txnindex", lambda data: data + bytes(7)),
    "transactions: zeros": wound("txnindex", lambda data: data + bytes(ENTRY_BYTES)),
    "transactions: another producer": wound("txnindex", lambda data: _number(data, 2, 8, 4711)),
    "transactions: begins later": wound("txnindex", lambda data: _number(data, 10, 8, 10**6)),
    "offsets: torn": wound("index", lambda _: bytes(11)),
    "offsets: below the segment": wound("index", lambda data: data + (-5).to_bytes(4, "big", signed=True) + bytes(4)),
    "offsets: zeros": wound("index", lambda data: data + bytes(80)),
    "offsets: behind the log": wound("index", lambda _: (0).to_bytes(4, "big") + (9999).to_bytes(4, "big")),
    "offsets: into a batch": wound("index", lambda _: bytes(4) + (300).to_bytes(4, "big")),
    "offsets: the third batch for the first": third_for_first,
    "transactions: begins inside": wound("txnindex", lambda data: _number(data, 10, 8, _begin(data) + 1)),
    "times: torn": wound("timeindex", lambda data: data[:-1]),
    "times: fall": wound("timeindex", lambda data: data + data[:12].replace(data[:8], bytes(8))),
    "times: below the segment": wound("timeindex", lambda data: data[:-4] + (-5).to_bytes(4, "big", signed=True)),
    "times: zeros": wound("timeindex", lambda data: data + bytes(24)),
    "times: empty": wound("timeindex", lambda _: b""),
}


def fill(broker: Any) -> None:
    """The same transactions in each partition; every third one is aborted."""
    record = module_beside("brokers/broker.py").Record
    kept = {**settings_of(VERSION), "file.delete.delay.ms": 1, "retention.ms": -1}
    broker.create_topic(TOPIC, len(WOUNDS), **kept)
    producer = broker.producer("txn", transactional_id="mover")
    for n in range(TRANSACTIONS):
        producer.begin()
        for _ in range(3):
            for number in range(len(WOUNDS)):
                producer.send(TOPIC, number, record(key=b"%d" % n, value=b"x" * 60))
            producer.flush()
        (producer.abort if n % 3 == 1 else producer.commit)()


def aborted_of(partition: Path) -> set[int]:
    """The offsets of records that were aborted, and of all markers, by a log that was fetched."""
    aborted: set[int] = set()
    open_from: dict[int, list[int]] = {}
    for segment in Partition(str(partition)).segments:
        for batch in segment.batches():
            offsets = [record.offset for record in batch.records()]
            if batch.is_control:
                mine = open_from.pop(batch.producer_id, [])
                is_abort = next(iter(batch.records())).key[3] == 0
                aborted |= set(mine) if is_abort else set()
            else:
                open_from.setdefault(batch.producer_id, []).extend(offsets)
    return aborted


def seen_of(rows: list[dict[str, Any]], number: int) -> Iterator[int]:
    """The offsets of which aborted records are seen."""
    for row in rows:
        is_own = row["type"] == "finding" and row["id"] == "remote-txnindex" and f"{TOPIC}-{number}-" in row["path"]
        if is_own and "first_offset" in row:
            yield from range(row["first_offset"], row["last_offset"] + 1)


def data_of(partition: Path) -> set[int]:
    return {
        record.offset
        for segment in Partition(str(partition)).segments
        for batch in segment.batches()
        if not batch.is_control
        for record in batch.records()
    }


def test_consumers_get_what_verify_says(tmp_path: Path) -> None:
    with a_scratch_folder() as work, tiered(VERSION, work) as broker:
        broker.start()
        fill(broker)
        log_dir, store = broker.log_dirs[0], work / "remote/kafka-tiered-storage"
        until = time.monotonic() + 180
        while any(local_start(log_dir, n) < LOCAL_FROM for n in range(len(WOUNDS))):
            assert time.monotonic() < until, "nothing was moved to remote storage"
            time.sleep(0.3)
        time.sleep(2)
        broker.stop()
        tiers = [Tier(store, log_dir, number) for number in range(len(WOUNDS))]
        spans = [spans_of(log_dir, number, tier) for number, tier in enumerate(tiers)]
        sides = ["--metadata", log_dir, "--local", log_dir]
        for number in range(len(WOUNDS)):
            assert run("fetch", store, f"{TOPIC}-{number}", *sides, "--output", work / f"f{number}").status == 0
        for tier, change in zip(tiers, WOUNDS.values(), strict=True):
            change(tier)
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        done = run("verify", store, *sides, "--json")
        rows = [json.loads(line) for line in done.out.splitlines()]
        (tmp_path / "rows.json").write_bytes(done.out)
        broker.start()
        questions = [(number, level, *span) for number, own in enumerate(spans) for span in own for level in LEVELS]
        readers = [Reader(broker, work / f"reader{n}") for n in range(READERS)]

        def ask(n: int) -> list[list[int]]:
            return [readers[n].read(*question) for question in of_level(questions[n::READERS])]

        def of_level(asked: list[Any]) -> Iterator[tuple[int, int, int, str]]:
            return ((number, first, last, level) for number, level, first, last in asked)

        with ThreadPoolExecutor(READERS) as pool:
            answers = list(pool.map(ask, range(READERS)))
        wrong = []
        for n, (number, level, first, last) in enumerate(questions):
            got = [offset for offset in answers[n % READERS][n // READERS] if first <= offset <= last]
            fetched = work / f"f{number}"
            hidden = set(lost_by(rows, tiers[number]))
            if level == "read_committed":
                hidden |= aborted_of(fetched) - set(seen_of(rows, number))
            want = [offset for offset in sorted(data_of(fetched)) if first <= offset <= last and offset not in hidden]
            if got != want:
                wrong.append((list(WOUNDS)[number], level, first, last, "got", got, "klogtool", want))
        broker.stop()
        assert not wrong, "\n".join(map(str, wrong))
