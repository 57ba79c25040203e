"""Wounds of a remote store, of the metadata topic and of local leader epochs, put to a broker and its consumers."""

from __future__ import annotations

import base64
import itertools
import json
import pathlib
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey
from klogtool.log.partition import Partition
from klogtool.remote.metadata import read_metadata

from .beside import module_beside
from .test_brokers_remote import METADATA, TOPIC, run, settings_of

Path: TypeAlias = pathlib.Path
RECORDS, EACH, LOCAL_FROM = 40, 60, 21
READERS, PATIENCE_S = 3, 30


class Tier:
    """The store and the metadata of one partition: what a wound changes. n: of a remote segment."""

    def __init__(self, store: Path, log_dir: Path, number: int) -> None:
        self.store, self.log_dir, self.number = store, log_dir, number
        self.folder = next(iter([*store.glob(f"{TOPIC}-{number}-*"), *store.glob(f"{TOPIC}-*/{number}")]))
        self.logs = sorted(self.folder.glob("*.log"))

    def path(self, n: int, suffix: str = "log") -> Path:
        return self.logs[n].with_suffix(f".{suffix}")

    def edit(self, change: Callable[[bytes], bytes], n: int = 1, suffix: str = "log") -> None:
        path = self.path(n, suffix)
        path.write_bytes(change(path.read_bytes()))

    def exchange(self, *suffixes: str, of: tuple[int, int] = (1, 2)) -> None:
        for suffix in suffixes:
            one, other = (self.path(n, suffix) for n in of)
            data = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(data)

    def batches(self, n: int = 1) -> list[tuple[int, int]]:
        data, at, found = self.path(n).read_bytes(), 0, []
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            found.append((at, at + size))
            at += size
        return found

    def tell(self, state: int, n: int = 1) -> None:
        """Append an update of a segment's state to the metadata topic."""
        self._append(self._update(self.known(n).key, state))

    def known(self, n: int) -> RemoteSegment:
        """What the metadata has of a segment."""
        segments = read_metadata([str(self.log_dir)]).segments()
        return next(one for one in segments if self.logs[n].name[21:43] == one.key.segment_id)

    def span(self, n: int) -> tuple[int, int]:
        return self.known(n).start_offset, self.known(n).end_offset

    def finish(self, n: int, first: int, last: int, *, copied: bool) -> None:
        """Append the records of one more segment, which ends up finished. copied: the objects of segment `n` are its
        own, too."""
        known, segment_id = self.known(n), base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        key = SegmentKey(known.key.topic_id, known.key.partition, segment_id)
        started = self._of(key, 0) | {
            "startOffset": first,
            "endOffset": last,
            "maxTimestampMs": known.max_timestamp_ms,
            "segmentSizeInBytes": known.size,
            "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": max(first, at)} for epoch, at in known.epochs],
            "txnIndexEmpty": True,
        }
        self._append(build_metadata_record("RemoteLogSegmentMetadataRecord", 0, started), self._update(key, 1))
        for path in self.folder.glob(f"{self.logs[n].stem}.*") if copied else ():
            shutil.copy(path, path.with_name(f"{first:020d}-{segment_id}{path.suffix}"))

    def _of(self, key: SegmentKey, state: int) -> dict[str, Any]:
        where = {"name": TOPIC, "id": key.topic_id, "partition": key.partition}
        of = {"remoteLogSegmentId": {"topicIdPartition": where, "id": key.segment_id}, "customMetadata": None}
        return of | {"brokerId": 1, "eventTimestampMs": 1_700_000_000_000, "remoteLogSegmentState": state}

    def _update(self, key: SegmentKey, state: int) -> bytes:
        return build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, self._of(key, state))

    def _append(self, *values: bytes) -> None:
        log = Partition(str(self.log_dir / f"{METADATA}-0")).segments[-1]
        last = list(log.batches())[-1].last_offset
        with open(log.path, "ab") as file:
            file.write(build_batch([Record(last + 1 + n, 1, None, value) for n, value in enumerate(values)]))


def local_start(log_dir: Path, number: int) -> int:
    return min(int(log.stem) for log in (log_dir / f"{TOPIC}-{number}").glob("*.log"))


def spans_of(log_dir: Path, number: int, tier: Tier) -> list[tuple[int, int]]:
    """First and last offset of each segment that is only in remote storage."""
    local = local_start(log_dir, number)
    starts = [int(log.name[:20]) for log in tier.logs if int(log.name[:20]) < local]
    return [(start, after - 1) for start, after in itertools.pairwise([*starts, local])]


class Reader:
    """Asks for one range after the other; a client that does not answer in time is stuck, and replaced."""

    def __init__(self, broker: Any, work: Path) -> None:
        self._broker, self._work = broker, work
        self._client: Any = None

    def read(self, number: int, first: int, last: int, isolation: str = "read_uncommitted") -> list[int]:
        module = module_beside("brokers/broker.py")
        if self._client is None:
            self._work.mkdir(exist_ok=True)
            self._client = module.Client(self._broker.version, self._broker.bootstrap, self._work)
            self._client.ask("ends", TOPIC, 0, "read_uncommitted")
        client, got = self._client, []
        alarm = threading.Timer(PATIENCE_S, client.kill)
        alarm.start()
        client.tell("consume", TOPIC, number, first, last + 1, isolation)
        client._popen.stdin.flush()
        for line in iter(client._popen.stdout.readline, ""):
            answer = json.loads(line)
            if "offset" not in answer:
                break
            got.append(answer["offset"])
        else:
            self._client = None
        alarm.cancel()
        return got


def lost_by(rows: list[dict[str, Any]], tier: Tier) -> Iterator[int]:
    """The offsets of a partition that consumers do not get."""
    for row in rows:
        is_own = row["type"] == "finding" and f"{row['path']}/".startswith(f"{tier.folder}/")
        is_met = row.get("field") in ("stuck", "skipped", "reset", "batch-crc")
        if is_own and is_met and "first_offset" in row:
            yield from range(row["first_offset"], row["last_offset"] + 1)


def fill(broker: Any, partitions: int, elections: tuple[int, ...] = ()) -> None:
    """The same records in each partition, most of which are only in remote storage at the end. elections: the broker
    starts again before these records, so that a leader epoch begins there. It is stopped."""
    record = module_beside("brokers/broker.py").Record
    kept = {**settings_of(broker.version), "file.delete.delay.ms": 1, "retention.ms": -1}
    broker.start()
    broker.create_topic(TOPIC, partitions, **kept)
    producer = broker.producer("all")
    for n in range(RECORDS):
        if n in elections:
            producer.close()
            broker.stop()
            broker.start()
            producer = broker.producer(f"all{n}")
        for number in range(partitions):
            producer.send(TOPIC, number, record(key=b"%d" % n, value=(b"%d " % n) * (EACH // 3)))
        producer.flush()
    wait_for_tier(broker, partitions)
    broker.stop()


def wait_for_tier(broker: Any, partitions: int) -> None:
    until = time.monotonic() + 240
    while any(local_start(broker.log_dirs[0], n) < LOCAL_FROM for n in range(partitions)):
        assert time.monotonic() < until, "nothing was moved to remote storage"
        time.sleep(0.3)
    time.sleep(2)


def compare_with_consumers(
    broker: Any,
    work: Path,
    store: Path,
    wounds: Mapping[str, Callable[[Tier], None]],
    *words: object,
    alone: bool = False,
) -> None:
    """Wound one partition each, ask `remote verify`, then consumers: they get what it does not name. alone: a consumer
    begins at each offset; else one reads each segment from its begin."""
    log_dir = broker.log_dirs[0]
    tiers = [Tier(store, log_dir, number) for number in range(len(wounds))]
    spans = [spans_of(log_dir, number, tier) for number, tier in enumerate(tiers)]
    for tier, wound in zip(tiers, wounds.values(), strict=True):
        wound(tier)
    shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
    done = run("verify", store, "--metadata", log_dir, "--local", log_dir, *words, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    broker.start()
    if alone:
        spans = [[(offset, offset) for first, last in own for offset in range(first, last + 1)] for own in spans]
    questions = [(number, *span) for number, own in enumerate(spans) for span in own]
    readers = [Reader(broker, work / f"reader{n}") for n in range(READERS)]

    def ask(n: int) -> list[list[int]]:
        return [readers[n].read(*question) for question in questions[n::READERS]]

    with ThreadPoolExecutor(READERS) as pool:
        answers = list(pool.map(ask, range(READERS)))
    wrong = []
    for n, (number, first, last) in enumerate(questions):
        got, lost = answers[n % READERS][n // READERS], set(lost_by(rows, tiers[number]))
        want = [offset for offset in range(first, last + 1) if offset not in lost]
        if got != want:
            wrong.append(f"{list(wounds)[number]}: {first} to {last}: got {got}, klogtool {want}")
    broker.stop()
    assert not wrong, "\n".join(wrong)
