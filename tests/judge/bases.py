"""Base states: log dirs of a real broker, made once for each release and kept in a cache.

One broker over two log dirs lives five lives, and after each its folder is copied: S1 (stopped cleanly), S2 (killed),
S3 (stopped), S4 (killed), S5 (stopped). It holds topics with small segments in all codecs: plain, compacted,
transactional (committed, aborted, and open where it was killed), idempotent, one that moved between the log dirs, one
that is empty; and topics of many empty partitions, which a case fills with copies of the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from kafka.beside import module_beside
from kafka.brokers import classes_of, fetched, share_classes, with_options
from kafka.kafka import cache_folder

STATES = ("S1", "S2", "S3", "S4", "S5")
KILLED = ("S2", "S4")
LOG_DIRS = ("d0", "d1")
RELEASES = ("4.3.1", "4.4.0", "3.9.2")
FED = ("plain-0", "plain-1", "comp-0", "txn-0", "txn-1", "idem-0", "moved-0", "empty-0")
INTERNAL = ("__consumer_offsets-0", "__transaction_state-0")
MANY, MANY_COMPACTED = "many", "manyc"
COUNT, COUNT_COMPACTED = 96, 24
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LONG_MS, A_DAY_MS = 7000000, 86400000
NODE_ID = 1

# Of a broker that is judged: a cleaner would do away with records that the start leaves alone.
QUIET = {"log.cleaner.enable": "false"}
# Nothing happens behind the judge's back: no retention, no cleaner, no checkpoint but those of a stop. Small indexes,
# since a killed broker leaves them at their full size.
CONFIG = {
    "log.retention.check.interval.ms": A_DAY_MS,
    "log.cleaner.backoff.ms": 2000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": A_DAY_MS,
    "log.initial.task.delay.ms": 600000,
    "transaction.max.timeout.ms": 7200000,
    "log.flush.offset.checkpoint.interval.ms": A_DAY_MS,
    "log.index.size.max.bytes": 16384,
}


@contextmanager
def broker_over(version: str, work: Path) -> Iterator[Any]:
    """A broker over d0 (with the metadata) and d1 of a folder; not started yet, and nothing of it is left running."""
    module = fetched(version)
    log_dirs = [work / name for name in LOG_DIRS]
    broker = module.Broker(
        version, work, log_dir=log_dirs, metadata_in_log_dir=True, node_id=NODE_ID, config=dict(CONFIG)
    )
    try:
        yield share_classes(broker)
    finally:
        broker.close()


def base_of(version: str) -> Path:
    """The folder with the states of a release; made first where it is not in the cache, which takes a minute."""
    key = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    cache = cache_folder() / "judge"
    home = cache / f"base-{version}-{key}"
    if home.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".lock-{version}").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            making = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            try:
                _Feeding(version, making).live()
                shutil.rmtree(making / "live")
                making.rename(home)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return home


@contextmanager
def _classes_kept(broker: Any) -> Iterator[None]:
    """This broker, which stops by itself, leaves the archive of its classes for those after it, if there is none."""
    archive = classes_of(broker.version)
    if archive.exists():
        yield
        return
    made = archive.with_suffix(".making")
    with_options(broker, f"-XX:ArchiveClassesAtExit={made}")
    yield
    if made.exists():
        made.rename(archive)


class _Feeding:
    """The five lives of the broker that makes the states of a release."""

    def __init__(self, version: str, home: Path) -> None:
        self.version, self.home, self.work = version, home, home / "live"
        self.rng = random.Random(5)
        self.record = module_beside("brokers/broker.py").Record

    def live(self) -> None:
        with self.life("S1") as broker:
            self.create_topics(broker)
            self.feed(broker, "A", 5)
            broker.join_group("g1", "plain", 10)
            broker.join_group("g2", "comp", 5)
            time.sleep(4)  # the cleaner has its turn
        with self.life("S2", killed=True) as broker:
            self.feed(broker, "B", 4)
            broker.delete_records("idem", 0, 12)
            broker.join_group("g1", "plain", 10)
            time.sleep(3)
            self.leave_open(broker, "open1", 3)
        with self.life("S3") as broker:
            self.feed(broker, "C", 4)
            self.move(broker)
            broker.alter_topic("comp", min_cleanable_dirty_ratio="1.0", min_compaction_lag_ms=str(A_DAY_MS))
            broker.join_group("g3", "moved", 4)
        with self.life("S4", killed=True) as broker:
            self.feed(broker, "D", 4)
            broker.delete_records("plain", 1, 20)
            self.leave_open(broker, "open2", 4)
            broker.produce("plain", 0, self.records(3, "z"))
            broker.produce("txn", 1, self.records(3, "z"))
        with self.life("S5") as broker:
            self.feed(broker, "E", 2)

    @contextmanager
    def life(self, state: str, *, killed: bool = False) -> Iterator[Any]:
        with broker_over(self.version, self.work) as broker, nullcontext() if killed else _classes_kept(broker):
            broker.start()
            yield broker
            broker.kill() if killed else broker.stop()
        for name in LOG_DIRS:
            shutil.copytree(self.work / name, self.home / state / name, symlinks=True)

    def create_topics(self, broker: Any) -> None:
        is_new = self.version >= "4"
        segments: dict[str, Any] = {"internal_segment_bytes" if is_new else "segment_bytes": 3000}
        segments["index_interval_bytes"] = 400
        kept = {**segments, "retention_ms": -1}
        compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.1", "min_compaction_lag_ms": "0"}
        never = {"cleanup_policy": "compact", "min_compaction_lag_ms": str(A_DAY_MS)}
        for topic, count in (("plain", 2), ("txn", 2), ("idem", 1), ("moved", 1), ("empty", 1), (MANY, COUNT)):
            broker.create_topic(topic, count, **kept)
        broker.create_topic("comp", 1, **segments, **compacted)
        broker.create_topic(MANY_COMPACTED, COUNT_COMPACTED, **segments, **never)

    def records(self, count: int, tag: str, keys: int | None = None) -> list[Any]:
        now_ms = int(time.time() * 1000) - 100000
        return [
            self.record(
                key=f"k{self.rng.randrange(keys)}".encode() if keys else f"{tag}{i}".encode(),
                value=self.rng.randbytes(self.rng.randrange(5, 60)),
                timestamp=now_ms + i,
                headers=(("h", b"x%d" % i),) if i % 3 == 0 else (),
            )
            for i in range(count)
        ]

    def feed(self, broker: Any, tag: str, rounds: int) -> None:
        for _ in range(rounds):
            for topic, partition in (("plain", 0), ("plain", 1), ("moved", 0)):
                records = self.records(self.rng.randrange(3, 12), tag)
                broker.produce(topic, partition, records, compression_type=self.rng.choice(CODECS))
            records = self.records(self.rng.randrange(4, 12), tag, keys=15)
            broker.produce("comp", 0, records, compression_type=self.rng.choice(CODECS))
            records = self.records(self.rng.randrange(2, 9), tag)
            broker.produce("idem", 0, records, enable_idempotence="true", compression_type=self.rng.choice(CODECS))
        for name, end in (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "abort")):
            self.transactions(broker, f"tx-{tag}-{name}", end, max(1, rounds // 3))

    def transactions(self, broker: Any, name: str, end: str, count: int) -> None:
        producer = broker.producer(
            name, transactional_id=name, compression_type=self.rng.choice(CODECS), transaction_timeout_ms=LONG_MS
        )
        for _ in range(count):
            producer.begin()
            for _ in range(self.rng.choice((1, 2))):
                self.send(producer, self.rng.randrange(2, 6), name)
            if end == "commit":
                producer.send_offset("g-tx", "plain", 0, self.rng.randrange(5))
            getattr(producer, end)()
        producer.close()

    def send(self, producer: Any, count: int, tag: str) -> None:
        for partition in (0, 1):
            for record in self.records(count, tag):
                producer.send("txn", partition, record)
        producer.flush()

    def leave_open(self, broker: Any, name: str, count: int) -> None:
        producer = broker.producer(name, transactional_id=name, transaction_timeout_ms=LONG_MS)
        producer.begin()
        self.send(producer, count, name)

    def move(self, broker: Any) -> None:
        source = broker.partition_dir("moved", 0).parent
        d0, d1 = (self.work / name for name in LOG_DIRS)
        broker.move("moved", 0, d1 if source.name == "d0" else d0)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            is_moving = any(self.work.glob("d?/*-future"))
            if not is_moving and broker.partition_dir("moved", 0).parent != source:
                return
            time.sleep(0.2)
        raise TimeoutError("moved-0 did not move to the other log dir")
