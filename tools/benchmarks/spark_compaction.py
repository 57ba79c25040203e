"""Compaction of one partition of ten million records: `klogtool spark compact` beside what one would write in Spark.

    python tools/benchmarks/spark_compaction.py FOLDER [RUNS]

By the PySpark that it is run with, on `local[2]`. All runs are in one warm session and take turns; what they write is
Parquet, or a log dir. Lines of tab-separated words, for bench.py: what, the way, seconds, seconds of the processor,
megabytes of shuffle written, records left, times ours by the clock and by the processor.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from klogtool.disk.assembling import Assembly  # noqa: E402
from klogtool.format.batch import BatchOrigin, Record, build_batch  # noqa: E402
from klogtool.format.checksums import crc32c  # noqa: E402
from klogtool.plans.compact import CompactQuestion  # noqa: E402
from klogtool.spark.compacting import compact_with_spark, find_folders  # noqa: E402
from klogtool.spark.starting import Session, open_session  # noqa: E402

RECORDS, KEYS, VALUE_BYTES, BATCH_RECORDS = 10_000_000, 1_000_000, 100, 50
SEGMENT_BYTES = 128 << 20
NOW_MS = 1_700_000_000_000
QUESTION = CompactQuestion(
    now_ms=NOW_MS + 10**9,
    loaded_at_ms=NOW_MS + 10**9,
    config={"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)},
    last_stop="clean",
    jobs=1,
    purge=True,
)


# ---------------------------------------------------------------- data


def make_log_dir(folder: pathlib.Path) -> pathlib.Path:
    """A log dir with one partition, whose last segment is empty. The same bytes each time."""
    log_dir, raw = folder / "logdir", folder / "raw" / "bench-0"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        raw.mkdir(parents=True)
        log_dir.mkdir()
        _write_segments(raw)
        command = [sys.executable, "-m", "klogtool", "rebuild-index", str(raw), "--output", str(log_dir / raw.name)]
        subprocess.run([*command, "--quiet"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        shutil.rmtree(raw)
        (log_dir / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=bench\n")
        (folder / "complete").touch()
    return log_dir


def _write_segments(partition: pathlib.Path) -> None:
    rng, log, base = random.Random(1), bytearray(), 0
    template, places = _template(rng)
    for offset in range(0, RECORDS, BATCH_RECORDS):
        if len(log) + len(template) > SEGMENT_BYTES:
            (partition / f"{base:020d}.log").write_bytes(log)
            log, base = bytearray(), offset
        for place in places:
            template[place : place + 8] = b"%08d" % rng.randrange(KEYS)
        template[:8] = offset.to_bytes(8, "big")
        template[17:21] = crc32c(memoryview(template)[21:]).to_bytes(4, "big")
        log += template
    (partition / f"{base:020d}.log").write_bytes(log)
    (partition / f"{RECORDS:020d}.log").touch()


def _template(rng: random.Random) -> tuple[bytearray, list[int]]:
    """A batch, and where its keys are."""
    records = [
        Record(n, NOW_MS + n, b"key-%04d" % n, rng.randbytes(VALUE_BYTES // 2).hex().encode())
        for n in range(BATCH_RECORDS)
    ]
    batch = bytearray(build_batch(records, BatchOrigin(partition_leader_epoch=0)))
    return batch, [batch.index(b"key-%04d" % n) for n in range(BATCH_RECORDS)]


# ---------------------------------------------------------------- what is measured


def by_klogtool(session: Session, log_dir: str, target: str) -> int:
    """`klogtool spark compact --purge`, without Spark's start."""
    assembly = Assembly.begin(target, [log_dir])
    try:
        [(_, plan)] = compact_with_spark(session, assembly, QUESTION, find_folders(log_dir, QUESTION))
    finally:
        assembly.abandon()
    return int(plan.answer["passes"][0]["stats"]["messages_written"])


def by_window(session: Session, log_dir: str, target: str) -> int:
    """The first row of each key's, the latest offset first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    table = session.spark.read.format("klog").load(log_dir)
    rank = f.row_number().over(Window.partitionBy("topic", "partition", "key").orderBy(f.desc("offset")))
    table.withColumn("rank", rank).where("rank = 1").drop("rank").write.parquet(target)
    return int(session.spark.read.parquet(target).count())


def by_join(session: Session, log_dir: str, target: str) -> int:
    """The rows whose offset is the largest of their key's."""
    from pyspark.sql import functions as f

    table = session.spark.read.format("klog").load(log_dir)
    names = ["topic", "partition", "key"]
    narrow = session.spark.read.format("klog").schema("key binary, topic string, partition int, offset long")
    latest = narrow.load(log_dir).groupBy(names).agg(f.max("offset").alias("offset"))
    table.join(latest, [*names, "offset"], "left_semi").write.parquet(target)
    return int(session.spark.read.parquet(target).count())


WAYS: dict[str, Callable[[Session, str, str], int]] = {
    "klogtool spark compact": by_klogtool,
    "window: row_number() over key": by_window,
    "join with max(offset) by key": by_join,
}


def shuffle_written(session: Session) -> int:
    """Bytes so far, by Spark's own count."""
    time.sleep(1)  # it comes behind the tasks
    executors = session.context._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(n).totalShuffleWrite() for n in range(executors.size()))


def processor_seconds() -> float:
    """Of this process and all below it: Spark's JVM, and its workers, those that are gone included."""
    found: dict[int, tuple[int, int]] = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text().rsplit(")", 1)[1].split()
            found[int(path.parent.name)] = int(words[1]), sum(map(int, words[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in found.items() if parent in family} - family:
        family |= more
    return sum(found[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def measure(log_dir: str, work: pathlib.Path, runs: int) -> None:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    shuffled, left = dict[str, int](), dict[str, int]()
    with open_session("local[2]", {"spark.driver.memory": "4g"}) as session:
        for _ in range(runs + 1):  # the first is cold
            for name, way in WAYS.items():
                target = work / "compacted"
                before, begun, begun_processor = shuffle_written(session), time.perf_counter(), processor_seconds()
                left[name] = way(session, log_dir, str(target))
                taken[name].append((time.perf_counter() - begun, processor_seconds() - begun_processor))
                shuffled[name] = shuffle_written(session) - before
                shutil.rmtree(target)
    assert len(set(left.values())) == 1, left
    medians = {
        name: [statistics.median(column) for column in zip(*rows[1:], strict=True)] for name, rows in taken.items()
    }
    ours = medians["klogtool spark compact"]
    for name, (seconds, processor) in medians.items():
        told = [f"{seconds:.1f}", f"{processor:.1f}", f"{shuffled[name] / 1e6:.0f}", str(left[name])]
        print("compaction", name, *told, f"{seconds / ours[0]:.1f}", f"{processor / ours[1]:.1f}", sep="\t", flush=True)


def main() -> None:
    work, runs = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    os.environ["PYSPARK_PYTHON"] = sys.executable
    measure(str(make_log_dir(work / "spark-compact")), work, runs)


if __name__ == "__main__":
    main()
