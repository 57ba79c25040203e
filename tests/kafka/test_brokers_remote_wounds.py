"""Wounded stores of Kafka's LocalTieredStorage: what `klogtool remote verify` says that consumers do not get is what a
consumer does not get, segment by segment."""

from __future__ import annotations

import itertools
import json
import pathlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record
from klogtool.log.partition import Partition
from klogtool.remote.metadata import read_metadata

from .beside import module_beside
from .test_brokers_remote import METADATA, TOPIC, run, settings_of, tiered
from .test_brokers_start_on_it import a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

Path = pathlib.Path
VERSION, RECORDS, EACH, LOCAL_FROM = "4.3.1", 40, 60, 21
READERS, PATIENCE_S = 3, 12


class Tier:
    """The store and the metadata of one partition: what a wound changes. n: of a remote segment."""

    def __init__(self, store: Path, log_dir: Path, number: int) -> None:
        self.store, self.log_dir, self.number = store, log_dir, number
        self.folder = next(store.glob(f"{TOPIC}-{number}-*"))
        self.logs = sorted(self.folder.glob("*.log"))

    def path(self, n: int, suffix: str = "log") -> Path:
        return self.logs[n].with_suffix(f".{suffix}")

    def edit(self, change: Callable[[bytes], bytes], n: int = 1, suffix: str = "log") -> None:
        path = self.path(n, suffix)
        path.write_bytes(change(path.read_bytes()))

    def exchange(self, *suffixes: str) -> None:
        for suffix in suffixes:
            one, other = self.path(1, suffix), self.path(2, suffix)
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
        known = read_metadata([str(self.log_dir)])
        key = next(one.key for one in known.segments() if self.logs[n].name[21:43] == one.key.segment_id)
        of = {
            "remoteLogSegmentId": {
                "topicIdPartition": {"name": TOPIC, "id": key.topic_id, "partition": key.partition},
                "id": key.segment_id,
            },
            "brokerId": 1,
            "eventTimestampMs": 1_700_000_000_000,
            "customMetadata": None,
            "remoteLogSegmentState": state,
        }
        value = build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, of)
        log = Partition(str(self.log_dir / f"{METADATA}-0")).segments[-1]
        last = list(log.batches())[-1].last_offset
        with open(log.path, "ab") as file:
            file.write(build_batch([Record(last + 1, 1_700_000_000_000, None, value)]))


def _epochs_wrong(data: bytes) -> bytes:
    return data[:12] + (7).to_bytes(4, "big") + data[16:]  # the first batch: outside its CRC


WOUNDS: dict[str, Callable[[Tier], None]] = {
    "none": lambda _: None,
    "cut": lambda tier: tier.edit(lambda data: data[:-100]),
    "cut between batches": lambda tier: tier.edit(lambda data: data[: tier.batches()[-2][1]]),
    "empty": lambda tier: tier.edit(lambda _: b""),
    "gone": lambda tier: tier.path(1).unlink(),
    "logs exchanged": lambda tier: tier.exchange("log"),
    "all exchanged": lambda tier: tier.exchange("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"),
    "index gone": lambda tier: tier.path(1, "index").unlink(),
    "time index gone": lambda tier: tier.path(1, "timeindex").unlink(),
    "snapshot gone": lambda tier: tier.path(1, "snapshot").unlink(),
    "epochs gone": lambda tier: tier.path(1, "leader_epoch_checkpoint").unlink(),
    "zeros behind": lambda tier: tier.edit(lambda data: data + bytes(100)),
    "first batch gone": lambda tier: tier.edit(lambda data: data[tier.batches()[0][1] :]),
    "batch in the middle gone": lambda tier: tier.edit(
        lambda data: data[: tier.batches()[2][0]] + data[tier.batches()[2][1] :]
    ),
    "the next segment behind": lambda tier: tier.edit(lambda data: data + tier.path(2).read_bytes()),
    "flipped": lambda tier: tier.edit(lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]),
    "index of another": lambda tier: tier.path(1, "index").write_bytes(tier.path(2, "index").read_bytes()),
    "epoch of a batch": lambda tier: tier.edit(_epochs_wrong),
    "deletion begun": lambda tier: tier.tell(2),
    "deletion ended": lambda tier: (tier.tell(2), tier.tell(3), None)[2],
}


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
            self._client = module.Client(VERSION, self._broker.bootstrap, self._work)
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


def lost_by(rows: list[dict[str, Any]], number: int) -> Iterator[int]:
    """The offsets of a partition that consumers do not get."""
    own = f"{TOPIC}-{number}"
    for row in rows:
        is_own = row["type"] == "finding" and (f"{own}-" in row["path"] or row["path"].endswith(own))
        is_met = row.get("field") in ("stuck", "skipped", "reset", "batch-crc")
        if is_own and is_met and "first_offset" in row:
            yield from range(row["first_offset"], row["last_offset"] + 1)


def test_consumers_do_not_get_what_verify_says(tmp_path: Path) -> None:
    with a_scratch_folder() as work, tiered(VERSION, work) as broker:
        broker.start()
        record = module_beside("brokers/broker.py").Record
        kept = {**settings_of(VERSION), "file.delete.delay.ms": 1, "retention.ms": -1}
        broker.create_topic(TOPIC, len(WOUNDS), **kept)
        producer = broker.producer("all")
        for n in range(RECORDS):
            for number in range(len(WOUNDS)):
                producer.send(TOPIC, number, record(key=b"%d" % n, value=b"x" * EACH))
            producer.flush()
        log_dir, store = broker.log_dirs[0], work / "remote/kafka-tiered-storage"
        until = time.monotonic() + 120
        while any(local_start(log_dir, n) < LOCAL_FROM for n in range(len(WOUNDS))):
            assert time.monotonic() < until, "nothing was moved to remote storage"
            time.sleep(0.3)
        time.sleep(2)
        broker.stop()
        tiers = [Tier(store, log_dir, number) for number in range(len(WOUNDS))]
        spans = [spans_of(log_dir, number, tier) for number, tier in enumerate(tiers)]
        for tier, wound in zip(tiers, WOUNDS.values(), strict=True):
            wound(tier)
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        done = run("verify", store, "--metadata", log_dir, "--local", log_dir, "--json")
        rows = [json.loads(line) for line in done.out.splitlines()]
        broker.start()
        questions = [(number, *span) for number, own in enumerate(spans) for span in own]
        readers = [Reader(broker, work / f"reader{n}") for n in range(READERS)]

        def ask(n: int) -> list[list[int]]:
            return [readers[n].read(*question) for question in questions[n::READERS]]

        with ThreadPoolExecutor(READERS) as pool:
            answers = list(pool.map(ask, range(READERS)))
        wrong = []
        for n, question in enumerate(questions):
            number, first, last = question
            got = answers[n % READERS][n // READERS]
            lost = set(lost_by(rows, number))
            want = [offset for offset in range(first, last + 1) if offset not in lost]
            if got != want:
                wrong.append((list(WOUNDS)[number], first, last, "got", got, "klogtool", want))
        broker.stop()
        assert not wrong, "\n".join(map(str, wrong))
