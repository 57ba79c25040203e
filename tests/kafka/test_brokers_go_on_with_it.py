"""Brokers go on with logs that klogtool worked at: appended to, rolled, retained, cut, begun anew, compacted.

A broker of each release makes topics and stops. Logs of fixtures take their places, and klogtool works at each in the
broker's own log dir, which stays marked clean. The broker starts on it: it mends nothing, leaves every file as it is,
serves every record that should be there, and appends to each. Then klogtool finds nothing wrong, looks up what the
broker serves, and knows the offsets that it knew.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from raw_batches import build_batch

import klogtool
from klogtool.format.batch import Record
from klogtool.verify.findings import Severity

from .brokers import CUTS, VERSIONS, Served, a_broker, kept_files, records_of
from .test_brokers_start_on_it import FIXTURES, a_scratch_folder
from .test_brokers_start_on_it import klogtool as run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path: TypeAlias = pathlib.Path
NEW = (b"new", b"by the broker")
APPENDED: Served = [(n, b"k%d" % n, b"by klogtool") for n in range(20)]
BATCH_GAP = 7
NOW_MS = 1_700_000_300_000

# What is done to a partition; what a broker is to serve then, of what was there before.
Work: TypeAlias = Callable[[Path], None]
Expect: TypeAlias = Callable[[Served, Path], Served]


def done(*words: str | Path) -> None:
    found = run(*words, "--apply")
    assert found.status == 0, found.err


def records_beside(partition: Path) -> Path:
    """What APPENDED has, in JSON lines."""
    rows = [{"key": {"utf8": f"k{n}"}, "value": {"utf8": "by klogtool"}} for n in range(len(APPENDED))]
    at = partition.parent.parent / f"{partition.name}.records"
    at.write_text("\n".join(map(json.dumps, rows)))
    return at


def append_records(partition: Path) -> None:
    small = ("--batch-records", "6", "--config", "segment.bytes=900")
    done("append", partition, "--records", records_beside(partition), "--codec", "zstd", *small)


def append_batches(partition: Path) -> None:
    """As a follower, with a gap before them."""
    first = end_of(partition) + BATCH_GAP
    at = partition.parent.parent / f"{partition.name}.batches"
    at.write_bytes(
        b"".join(
            build_batch([Record(first + n, NOW_MS + n, b"k%d" % n, b"by klogtool")], partition_leader_epoch=0)
            for n in range(20)
        )
    )
    done("append", partition, "--batches", at, "--leader-epoch", "0")


def append_to_what_is_not_there(partition: Path) -> None:
    metadata = (partition / "partition.metadata").read_bytes()
    shutil.rmtree(partition)
    topic_id = metadata.split()[-1].decode()
    done("append", partition, "--create", "--topic-id", topic_id, "--records", records_beside(partition))
    assert (partition / "partition.metadata").read_bytes() == metadata


def by(*words: str) -> Work:
    """A command with these options."""
    return lambda partition: done(words[0], partition, *words[1:])


def shifted(records: Served, by_offset: int) -> Served:
    return [(offset + by_offset, key, value) for offset, key, value in records]


def as_before(before: Served, _: Path) -> Served:
    return before


def up_to(offset: int) -> Expect:
    return lambda before, _: [record for record in before if record[0] < offset]


def from_offset(offset: int) -> Expect:
    return lambda before, _: [record for record in before if record[0] >= offset]


def of_segments_that_stay(before: Served, partition: Path) -> Served:
    first = min(int(path.name[:20]) for path in partition.glob("*.log"))
    kept = [record for record in before if record[0] >= first]
    assert 0 < len(kept) < len(before)
    return kept


def last_of_each_key(before: Served, partition: Path) -> Served:
    """None that was not there, and the last value of each key."""
    found = records_of(partition)
    assert set(found) < set(before)
    values: list[Mapping[Any, Any]] = [{key: value for _, key, value in records} for records in (found, before)]
    assert {key: value for key, value in values[1].items() if value is not None and key is not None}.items() <= (
        values[0].items()
    )
    return found


@dataclass(frozen=True)
class Case:
    """A sound partition (None: an empty one), what is done to it, and what is served then."""

    source: str | None
    work: Work
    expected: Expect


FOREVER = ("--config", "retention.ms=-1")
TRANSACTIONS, MAGICS, RETENTION = "transactions/logdir/t-0", "three-magics/logdir/plain-0", "retention/logdir/inside-0"
CASES = {
    "records": Case(TRANSACTIONS, append_records, lambda before, _: before + shifted(APPENDED, 62)),
    "records-old": Case(
        "magic-1/logdir/append-1",
        append_records,
        lambda before, _: before + shifted(APPENDED, before[-1][0] + 1),
    ),
    "batches": Case(TRANSACTIONS, append_batches, lambda before, _: before + shifted(APPENDED, 62 + BATCH_GAP)),
    "created": Case(None, append_to_what_is_not_there, lambda before, _: APPENDED),
    "rolled": Case(MAGICS, by("roll", "--force"), as_before),
    "rolled-empty": Case(None, by("roll", "--force"), as_before),
    "by-size": Case(
        RETENTION,
        by("retain", *FOREVER, "--config", "retention.bytes=3000"),
        of_segments_that_stay,
    ),
    "by-time": Case(
        RETENTION,
        by("retain", "--config", "retention.ms=1", "--now", str(NOW_MS + 10**9)),
        lambda before, _: [],
    ),
    "deleted": Case(TRANSACTIONS, by("delete-records", "--before", "20"), from_offset(20)),
    "all-deleted": Case(MAGICS, by("delete-records", "--before", "-1"), lambda before, _: []),
    "cut": Case(TRANSACTIONS, by("truncate", "--to", "20"), up_to(20)),
    "cut-old": Case(MAGICS, by("truncate", "--to", "12", "--purge"), up_to(12)),
    "anew": Case(TRANSACTIONS, by("truncate", "--start-at", "500"), lambda before, _: []),
    "compacted": Case(MAGICS, by("compact", "--force", "--config", "cleanup.policy=compact"), last_of_each_key),
}


def end_of(partition: Path) -> int:
    return opened(partition).load().log_end_offset


def opened(partition: Path) -> klogtool.Partition:
    found = klogtool.open(partition)
    assert isinstance(found, klogtool.Partition)
    return found


@dataclass(frozen=True)
class Seen:
    """Of one topic, while the broker ran: its ends, what it served before and after an append; files around its life.
    consumed: what was served in the end, with timestamps."""

    ends: tuple[int, int]
    served: Served
    expected: Served
    served_after: Served
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    consumed: list[Any]


def plant(broker: Any, scratch: Path) -> dict[str, Served]:
    """Logs in the places of the broker's own; what is served of each as it is."""
    broker.start()
    for topic in CASES:
        broker.create_topic(topic, 1, retention_ms=-1)
    broker.stop()
    sound = {}
    for topic, case in CASES.items():
        if case.source is not None:
            broker.plant(FIXTURES / case.source, topic, 0, clean=True)
        sound[topic] = records_of(broker.partition_dir(topic, 0))
    return sound


def tell(broker: Any, scratch: Path) -> tuple[str, dict[str, Seen]]:
    """What the broker said, and what was seen of each topic."""
    sound = plant(broker, scratch)
    expected = {}
    partitions = {topic: broker.partition_dir(topic, 0) for topic in CASES}
    for topic, case in CASES.items():
        case.work(partitions[topic])
        expected[topic] = case.expected(sound[topic], partitions[topic])
    before = {topic: kept_files(partition) for topic, partition in partitions.items()}
    broker.start()
    record = [sys.modules[type(broker).__module__].Record(key=NEW[0], value=NEW[1])]
    after: dict[str, tuple[tuple[int, int], Served, list[Any]]] = {}
    for topic in CASES:
        first = [(found.offset, found.key, found.value) for found in broker.consume(topic, 0)]
        ends = broker.offsets(topic, 0)
        broker.produce(topic, 0, record)
        consumed = broker.consume(topic, 0)
        after[topic] = ends, first, consumed
    said = broker.log_text()
    broker.stop()
    seen = {}
    for topic, (ends, first, consumed) in after.items():
        last = [(r.offset, r.key, r.value) for r in consumed]
        files = before[topic], kept_files(partitions[topic])
        seen[topic] = Seen(ends, first, expected[topic], last, *files, consumed)
    return said, seen


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_goes_on(version: str) -> None:
    """One test, since each story takes long, and tests are shared out among processes."""
    with a_scratch_folder() as scratch, a_broker(version, scratch / "broker") as broker:
        said, seen = tell(broker, scratch)
        check_nothing_was_mended(said)
        for topic, found in seen.items():
            check_topic(topic, found)
            check_lookups(broker.partition_dir(topic, 0), topic, found)


def check_nothing_was_mended(said: str) -> None:
    lines = [line for line in said.splitlines() if "__cluster_metadata" not in line]
    assert not [line for line in lines if "Recovering unflushed segment" in line or any(cut in line for cut in CUTS)]


def check_topic(topic: str, found: Seen) -> None:
    assert found.served == found.expected, topic
    assert found.served_after == [*found.expected, (found.ends[1], *NEW)], topic
    for name, data in found.before.items():
        if name.endswith(".log"):
            assert found.after[name].startswith(data), (topic, name)
    active = max(name for name in found.before if name.endswith(".log"))
    grown = {name for name, data in found.after.items() if found.before.get(name) != data}
    new = {name for name in grown if name[:20] < active[:20]}
    assert not new, (topic, new)


def check_lookups(partition: Path, topic: str, found: Seen) -> None:
    """klogtool's answers over what the broker left."""
    wrong = {finding.id for finding in opened(partition).verify() if finding.severity is not Severity.INFO}
    assert not wrong, (topic, wrong)
    loaded = opened(partition).load()
    assert (loaded.log_start_offset, loaded.log_end_offset) == (found.ends[0], found.ends[1] + 1), topic
    for record in found.consumed:
        held = loaded.lookup_offset(record.offset, explain=True).record
        assert held is not None, topic
        assert (held.offset, held.timestamp) == (record.offset, record.timestamp), topic
    newest = max(found.consumed, key=lambda record: record.timestamp)
    by_time = loaded.lookup_timestamp(newest.timestamp).found
    assert by_time is not None, topic
    assert by_time.offset <= newest.offset, topic
