"""format("klog") beside Spark's kafka source with a broker on this machine, on the same 2.5 million records.

    python tools/benchmarks/spark_reads.py FOLDER [RUNS] [--without-broker | --beside-nothing]

By the PySpark that it is run with; the other side is the environment of `make interop`. Both sessions are warm, and
take turns. Lines of tab-separated words, for bench.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "interop")]

from measuring import Samples  # noqa: E402

from klogtool.format.batch import BatchOrigin, Record, build_batch  # noqa: E402
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, OffsetIndexEntry, TimeIndexEntry  # noqa: E402
from klogtool.spark.starting import FAST  # noqa: E402

SIDE = pathlib.Path(__file__).with_name("spark_side.py")
PARTITIONS, RECORDS = 4, 625_000  # of each
VALUE_BYTES, BATCH_RECORDS = 380, 40
LARGE_BYTES = 33 << 20
SMALL_SEGMENTS = 5000
# what, what Spark's kafka source does for it, how much faster klog is to be
READS = (("count", "count", 2.0), ("noop", "noop", 1.7), ("export", "parquet", 3.0), ("between", "between", 8.0))
SETTINGS = [f"{name}={value}" for name, value in FAST.items()]
TOPIC = "bench"
COLD = 2  # runs before those that count
WITHOUT_BROKER = "--without-broker"
BESIDE_NOTHING = "--beside-nothing"
# what, of which log, what is done, with which schema, how many times what a source takes that does nothing
NOTHING_READS: tuple[tuple[str, str, str, str | None, str], ...] = (
    ("7 columns, noop sink", "none", "noop", None, "1.2"),
    ("7 columns, lz4", "lz4", "noop", None, "1.2"),
    ("two columns, with a schema", "none", "noop", "key binary, offset bigint", "1.3"),
    ("count", "none", "count", None, "1.0"),
    ("count, with the schema `offset bigint`", "none", "count", "offset bigint", "-"),
)
COLUMNS = "import klogtool, sys; sum(b.num_rows for b in klogtool.scan(sys.argv[1], with_control=False).to_reader())"


# ---------------------------------------------------------------- data


def make_logs(folder: pathlib.Path, segment_bytes: int, codec: str = "none") -> pathlib.Path:
    """Four partitions in segments of so many bytes, with indexes; the same bytes each time."""
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for partition in range(PARTITIONS):
            _make_partition(folder / f"{TOPIC}-{partition}", segment_bytes, codec)
        (folder / "complete").touch()
    return folder


def _make_partition(folder: pathlib.Path, segment_bytes: int, codec: str) -> None:
    folder.mkdir(parents=True)
    batches = list(_templates(codec))
    per_segment = max(1, segment_bytes // len(batches[0])) * BATCH_RECORDS
    for base in range(0, RECORDS, per_segment):
        log, entries = bytearray(), []
        for offset in range(base, min(base + per_segment, RECORDS), BATCH_RECORDS):
            if log:
                entries.append(OffsetIndexEntry(offset + BATCH_RECORDS - 1, len(log)))
            batch = batches[offset // BATCH_RECORDS % len(batches)]
            batch[:8] = offset.to_bytes(8, "big")
            log += batch
        end = min(base + per_segment, RECORDS)
        name = f"{folder}/{base:020d}"
        pathlib.Path(f"{name}.log").write_bytes(log)
        pathlib.Path(f"{name}.index").write_bytes(OFFSET_ENTRIES.build(entries, base))
        newest = TimeIndexEntry(1_700_000_000_000 + BATCH_RECORDS - 1, end - 1)
        pathlib.Path(f"{name}.timeindex").write_bytes(TIME_ENTRIES.build([newest], base))


def _templates(codec: str) -> Iterator[bytearray]:
    """Batches without an offset of their own: it is not under the checksum. A codec has values that become half."""
    rng = random.Random(1)

    def value() -> bytes:
        return rng.randbytes(VALUE_BYTES) if codec == "none" else rng.randbytes(VALUE_BYTES // 2).hex().encode()

    for _ in range(50):
        records = [
            Record(n, 1_700_000_000_000 + n, f"key-{rng.randrange(10**6):06d}".encode(), value())
            for n in range(BATCH_RECORDS)
        ]
        yield bytearray(build_batch(records, BatchOrigin(partition_leader_epoch=0), codec=codec))


def part_of(logs: pathlib.Path, folder: pathlib.Path, eighths: int) -> pathlib.Path:
    """So many eighths of the segments of each partition."""
    shutil.rmtree(folder, ignore_errors=True)
    for partition in sorted(logs.glob(f"{TOPIC}-*")):
        (folder / partition.name).mkdir(parents=True)
        names = sorted(path.stem for path in partition.glob("*.log"))
        for name in names[: len(names) * eighths // 8]:
            for path in partition.glob(f"{name}.*"):
                os.link(path, folder / partition.name / path.name)
    return folder


# ---------------------------------------------------------------- two Sparks


class Side:
    """A Spark in a process of its own."""

    def __init__(self, python: str, form: str, target: pathlib.Path, words: Sequence[str]) -> None:
        self._target = str(target / form)
        command = [python, str(SIDE), form, *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if self._answer() != "ready":
            sys.exit(f"Spark does not start: {' '.join(command)}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, what: str, options: Mapping[str, str], **more: str) -> tuple[float, int | None]:
        """More: another source (form), a schema, where to write (target)."""
        assert self._process.stdin is not None
        asked = {"what": what, "options": options, "target": self._target} | more
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        if not (told := self._answer()):
            sys.exit(f"Spark gave up: {what} {options}")
        seconds, rows = json.loads(told)
        return seconds, rows

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self._target, ignore_errors=True)


@contextmanager
def kafka_side(logs: pathlib.Path, work: pathlib.Path) -> Iterator[tuple[Side, list[int]]]:
    """Spark's kafka source, and the broker that serves it a copy of the logs (its process)."""
    from kafka.brokers import a_broker
    from spark40 import JARS, PYTHON

    shutil.rmtree(work / "broker", ignore_errors=True)
    with a_broker("4.3.1", work / "broker", heap="1g") as broker:
        broker.start()
        broker.create_topic(TOPIC, PARTITIONS, retention_ms=-1, retention_bytes=-1, segment_ms=1 << 60)
        broker.stop()
        for partition in range(PARTITIONS):
            broker.plant(
                logs / f"{TOPIC}-{partition}", TOPIC, partition, recovery_point=RECORDS, high_watermark=RECORDS
            )
        broker.start()
        jars = ",".join(map(str, sorted(JARS.glob("*.jar"))))
        side = Side(str(PYTHON), "kafka", work, [f"spark.jars={jars}", f"kafka.bootstrap.servers={broker.bootstrap}"])
        try:
            yield side, [broker._process.popen.pid]
        finally:
            side.close()
    shutil.rmtree(work / "broker", ignore_errors=True)


# ---------------------------------------------------------------- what is told


class Times:
    """Seconds of runs, by the clock and of processors; those of a session that was cold are left out."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processors: list[float] = []
        self.rows: set[int] = set()

    def run(self, side: Side, what: str, options: Mapping[str, str], pids: Sequence[int], **more: str) -> None:
        before = processor_seconds(pids)
        seconds, rows = side.ask(what, options, **more)
        self.clock.append(seconds)
        self.processors.append(processor_seconds(pids) - before)
        self.rows |= set() if rows is None else {rows}

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.clock[COLD:]), statistics.median(self.processors[COLD:])


def processor_seconds(pids: Sequence[int]) -> float:
    """What these processes and all below them, those that are gone included, have used."""
    stats = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it is gone
            continue
        stats[int(name)] = int(words[1]), sum(map(int, words[11:15]))
    family, found = set(pids), set[int]()
    while family:
        found |= family
        family = {pid for pid, (parent, _) in stats.items() if parent in family} - found
    return sum(stats[pid][1] for pid in found if pid in stats) / os.sysconf("SC_CLK_TCK")


def beside_kafka(klog: Side, kafka: Side | None, broker: Sequence[int], options: Mapping[str, str], runs: int) -> None:
    for what, whats, wanted in READS:
        ours, theirs = Times(), Times()
        for _ in range(runs + COLD):
            ours.run(klog, what, options, [klog.pid])
            if kafka is not None:
                theirs.run(kafka, whats, {"subscribe": TOPIC}, [kafka.pid, *broker])
        if len(ours.rows | theirs.rows) > 1:
            sys.exit(f"{what}: {ours.rows} rows, Spark's kafka source has {theirs.rows}")
        (clock, processors), (their_clock, their_processors) = ours.medians, theirs.medians if kafka else (0.0, 0.0)
        ratios = f"{their_clock / clock:.1f}", f"{their_processors / processors:.1f}"
        figures = [f"{n:.2f}" for n in (their_clock, clock, their_processors, processors)]
        tell("beside kafka", what, *figures, *ratios, f"{wanted}")


def by_size(klog: Side, logs: pathlib.Path, work: pathlib.Path, runs: int) -> None:
    for eighths in (1, 2, 4, 8):
        folder = part_of(logs, work / "part", eighths)
        for what in ("count", "noop"):
            ours = Times()
            for _ in range(runs + COLD):
                ours.run(klog, what, {"path": str(folder)}, [klog.pid])
            clock, processors = ours.medians
            tell("by size", f"{what}, {eighths}/8", "-", f"{clock:.2f}", "-", f"{processors:.2f}", "-", "-", "linear")
    shutil.rmtree(work / "part")


def by_table(klog: Side, logs: pathlib.Path, runs: int) -> None:
    """Headers only are to take at most half of what the records take."""
    times = {table: Times() for table in ("records", "batches", "segments")}
    for _ in range(runs + COLD):
        for table, ours in times.items():
            ours.run(klog, "count", {"path": str(logs), "table": table}, [klog.pid])
    clock, processors = times["records"].medians
    for table in ("batches", "segments"):
        its_clock, its_processors = times[table].medians
        figures = [f"{n:.2f}" for n in (clock, its_clock, processors, its_processors)]
        tell("headers only", table, *figures, f"{its_clock / clock:.2f}", f"{its_processors / processors:.2f}", "0.5")


def beside_columns(klog: Side, logs: pathlib.Path, runs: int) -> None:
    """Records by Spark, warm, beside a process that does nothing but klogtool.columns."""
    alone = Samples([sys.executable, "-c", COLUMNS, str(logs)])
    ours = {what: Times() for what in ("count", "noop")}
    for _ in range(runs + COLD):
        alone.run()
        for what, times in ours.items():
            times.run(klog, what, {"path": str(logs)}, [klog.pid])
    plain, plain_processors = alone.median, statistics.median(alone.processor_seconds)
    for what, times in ours.items():
        clock, processors = times.medians
        figures = [f"{n:.2f}" for n in (plain, clock, plain_processors, processors)]
        tell("beside columns", what, *figures, f"{clock / plain:.1f}", f"{processors / plain_processors:.1f}", "2")


def small_segments(klog: Side, large: pathlib.Path, small: pathlib.Path, runs: int) -> None:
    count = len(list(small.glob("*/*.log")))
    for what in ("count", "noop", "export"):
        few, many = Times(), Times()
        for _ in range(runs + COLD):
            few.run(klog, what, {"path": str(large)}, [klog.pid])
            many.run(klog, what, {"path": str(small)}, [klog.pid])
        (clock, processors), (more_clock, more_processors) = few.medians, many.medians
        figures = [f"{n:.2f}" for n in (clock, more_clock, processors, more_processors)]
        tell(
            "small segments",
            f"{what}, {count}",
            *figures,
            f"{more_clock / clock:.1f}",
            f"{more_processors / processors:.1f}",
            "2",
        )


def beside_nothing(klog: Side, logs: Mapping[str, pathlib.Path], work: pathlib.Path, runs: int) -> None:
    """Half of the records beside a Python source that does nothing, and beside the same rows as Parquet."""
    halves = {codec: part_of(folder, work / f"half-{codec}", 4) for codec, folder in logs.items()}
    for what, codec, deed, schema, wanted in NOTHING_READS:
        half, parquet = halves[codec], work / f"parquet-{codec}"
        rows = klog.ask("count", {"path": str(half)})[1]
        if not parquet.exists():
            klog.ask("parquet", {"path": str(half)}, target=str(parquet))
        log = str(min(half.glob("*/*.log")))
        forms = {
            "klog": {"path": str(half)},
            "nothing": {"log": log, "rows": str(rows)},
            "parquet": {"path": str(parquet)},
        }
        times = {form: Times() for form in forms}
        more = {} if schema is None else {"schema": schema}
        for _ in range(runs + COLD):
            for form, options in forms.items():
                times[form].run(klog, deed, options, [klog.pid], form=form, **more)
        if any(found.rows - {rows} for found in times.values()):
            sys.exit(f"{what}: {[found.rows for found in times.values()]}")
        clock, processors = times["klog"].medians
        for form in ("nothing", "parquet"):
            its_clock, its_processors = times[form].medians
            figures = [f"{n:.2f}" for n in (its_clock, clock, its_processors, processors)]
            ratios = f"{clock / its_clock:.1f}", f"{processors / its_processors:.2f}"
            tell(f"beside {form}", what, *figures, *ratios, wanted if form == "nothing" else "-")
    for codec, folder in halves.items():
        shutil.rmtree(folder)
        shutil.rmtree(work / f"parquet-{codec}", ignore_errors=True)


def tell(*words: Any) -> None:
    print(*words, sep="\t", flush=True)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    work, runs = pathlib.Path(words[0]), int(words[1]) if len(words) > 1 else 5
    large = make_logs(work / "spark-large", LARGE_BYTES)
    total = sum(path.stat().st_size for path in large.glob("*/*.log"))
    logs = {"none": large, "lz4": make_logs(work / "spark-lz4", LARGE_BYTES, "lz4")}
    with ExitStack() as stack:
        klog = Side(sys.executable, "klog", work, SETTINGS)
        stack.callback(klog.close)
        beside_nothing(klog, logs, work, runs)
        if BESIDE_NOTHING in sys.argv:
            return
        small = make_logs(work / "spark-small", total // SMALL_SEGMENTS)
        alone = WITHOUT_BROKER in sys.argv or not (ROOT.parent / "shared/brokers").exists()
        kafka, broker = (None, []) if alone else stack.enter_context(kafka_side(large, work))
        beside_kafka(klog, kafka, broker, {"path": str(large)}, runs)
        by_size(klog, large, work, runs)
        by_table(klog, large, runs)
        beside_columns(klog, large, runs)
        small_segments(klog, large, small, runs)


if __name__ == "__main__":
    main()
