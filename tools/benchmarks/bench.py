#!/usr/bin/env python3
"""klogtool beside Kafka's own DumpLogSegments, and its recovery of segments, on the same files, in one run.

Whole processes, start included, output to /dev/null, in turn (Kafka, klogtool, Kafka, klogtool, ...) so that both see
the machine in the same mood; medians. Peak memory is the kernel's count for the process (wait4), which is why this
program imports next to nothing: a child's count begins with its parent's.

Needs Java; the jars come by mvn into the same cache as those of tests/kafka. Data are made once, by Gen.java.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from measuring import HERE, ROOT, Samples, Setup, Table, in_turn, kafka_home, make_data, told_by

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
DATA_SETS = ("plain", "lz4", "zstd", "single")
KEYED = ("keyed", "keyed-lz4")
DUMPS = {"shallow": [], "deep": ["--deep-iteration"], "print": ["--print-data-log"]}
EXPORTS = ("json", "batches", "arrow", "parquet")
BATCHES = "import sys, klogtool\nfor _ in klogtool.scan(sys.argv[1], jobs=int(sys.argv[2])).to_reader(): pass"
RECOVERIES = {"rebuild-index": ["rebuild-index"], "verify": ["verify"]}
WALKS = ("walk",)
RESYNCS = ("resync",)
CRCS = ("crc",)
DEEPS = ("verify-deep",)
COPIES = ("diff", "hash")
PYTHON_READERS = ("kafka-python", "aiokafka")
READERS_MIB = 32  # of each log: the slower of them takes minutes for a GiB
STARTS = ("help", "small", "verify-small")
LARGE = ("large",)
LARGE_SEGMENTS = 4
LOOKUPS = ("lookup",)
COLD = ("cold",)
HEADERS = ("headers",)
READS = {"raw to a file": "--raw {sink}", "raw to a pipe": "--raw - | cat > /dev/null", "SHA-256": "--format json"}
FETCHES = ("read",)
COLUMNS = ("columns",)
GROWTHS = ("growth",)
APPENDS = ("append",)
APPEND_LINES = 300_000
COMPACTS = ("compact",)
SPARKS = ("spark",)
SPARK_COMPACTS = ("spark-compact",)
SPARK_PYTHON = ROOT / ".work/venv-spark/bin/python"
INTEROP_PYTHON = ROOT / ".work/venv-interop/bin/python"
COMPACT_SEGMENT_BYTES = 128 << 20
SMALL_FILE = ROOT / "fixtures/every-codec/logdir/create-0/00000000000000000000.log"
# Kafka's time over ours, at least (one job).
WANTED: dict[str, dict[str, float]] = {
    "shallow": {"plain": 5, "lz4": 5, "zstd": 6, "single": 15},
    "deep": {"plain": 12, "lz4": 7, "zstd": 4, "single": 15},
    "print": {"plain": 9, "lz4": 7, "zstd": 4, "single": 15},
    "recover": {"plain": 3, "lz4": 3, "zstd": 3, "single": 15},
    "compact": {"keyed": 4, "keyed-lz4": 2.5},
    "large": {"plain": 4, "lz4": 5, "zstd": 6, "single": 20},
}
WANTED_OF_LARGE_DUMPS = {"shallow": 8, "deep": 23, "print": 20}


def require_same(kafkas: list[str], ours: list[str]) -> None:
    """Both print the same bytes, or this ends here."""
    theirs = subprocess.Popen(kafkas, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    mine = subprocess.Popen(ours, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert theirs.stdout is not None
    assert mine.stdout is not None
    while (expected := theirs.stdout.read(1 << 20)) == (found := mine.stdout.read(1 << 20)) and expected:
        pass
    if expected != found:
        sys.exit(f"not the same output: {' '.join(ours)}")


def dumps(setup: Setup, only: Callable[[str], bool]) -> Table:
    """One row for each data set and kind of dump."""
    jobs = [f"{n} job{'s' * (n > 1)}" for n in setup.jobs]
    head = ["data", "dump", "Kafka s", *(f"klogtool s, {j}" for j in jobs), *(f"ratio, {j}" for j in jobs)]
    table = Table(*head, "wanted", "Kafka MB", "klogtool MB")
    for name in filter(only, DATA_SETS):
        for dump, options in ((d, o) for d, o in DUMPS.items() if only(d)):
            kafka = Samples(setup.dump_log_segments(setup.log(name), options))
            ours = [
                Samples([KLOGTOOL, "dump-log", "--files", setup.log(name), *options, "--jobs", str(n)])
                for n in setup.jobs
            ]
            if setup.compare:
                require_same(kafka.command, ours[0].command)
            in_turn(setup.runs, kafka, *ours)
            row = [name, dump, f"{kafka.median:.2f}", *(f"{o.median:.3f}" for o in ours)]
            row += [f"{kafka.median / o.median:.1f}" for o in ours]
            table.add(*row, str(WANTED[dump][name]), f"{kafka.peak:.0f}", f"{max(o.peak for o in ours):.0f}")
    return table


def recoveries(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Kafka's recovery of a segment, its JVM's start not counted, beside whole processes of ours that only plan."""
    java = setup.java("Recover")
    jobs = [f"{n} job{'s' * (n > 1)}" for n in setup.jobs]
    head = ["data", "command", "Kafka s, first", "warm", *(f"klogtool s, {j}" for j in jobs)]
    table = Table(*head, *(f"first ratio, {j}" for j in jobs), "wanted", "klogtool MB")
    for name in filter(only, DATA_SETS):
        folder = os.path.dirname(setup.log(name))
        for what, command in ((w, c) for w, c in RECOVERIES.items() if only(w)):
            # What verify has to say of a dir without checkpoints (status 1) is no matter here.
            ours = [Samples([KLOGTOOL, *command, folder, "--jobs", str(n)], (0, 1)) for n in setup.jobs]
            passes = []
            for _ in range(setup.runs):
                passes.append([float(line) for line in told_by([*java, "3", setup.log(name)]).split()])
                in_turn(1, *ours)
            first, warm = statistics.median(p[0] for p in passes), statistics.median(p[-1] for p in passes)
            row = [name, what, f"{first:.2f}", f"{warm:.2f}", *(f"{o.median:.3f}" for o in ours)]
            row += [f"{first / o.median:.1f}" for o in ours]
            table.add(*row, str(WANTED["recover"][name]), f"{max(o.peak for o in ours):.0f}")
    return table


def large(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Partitions of four segments, 4 GiB in all, so that the start hardly counts: whole processes on both sides."""
    jobs = [f"{n} job{'s' * (n > 1)}" for n in setup.jobs]
    head = ["data", "MiB", "command", "Kafka s", *(f"klogtool s, {j}" for j in jobs), *(f"ratio, {j}" for j in jobs)]
    table = Table(*head, "wanted", "klogtool MB")
    recover = setup.java("Recover")
    for name in filter(only, DATA_SETS):
        folder = setup.data / f"{name}-large-0"
        making = [sys.executable, str(HERE / "large.py"), setup.log(name), str(folder), str(LARGE_SEGMENTS)]
        logs = told_by(making).split()
        size = sum(os.path.getsize(log) for log in logs) >> 20
        for command, theirs, ours, wanted in _large_commands(setup, name, str(folder), logs, recover):
            kafka = Samples(theirs)
            mine = [Samples([KLOGTOOL, *ours, "--jobs", str(n)], (0, 1)) for n in setup.jobs]
            in_turn(setup.runs, kafka, *mine)
            row = [name, str(size), command, f"{kafka.median:.2f}", *(f"{o.median:.3f}" for o in mine)]
            row += [f"{kafka.median / o.median:.1f}" for o in mine]
            table.add(*row, str(wanted), f"{max(o.peak for o in mine):.0f}")
        for log in logs:  # the next one's have to fit into the page cache
            os.unlink(log)
    return table


def _large_commands(
    setup: Setup, name: str, folder: str, logs: list[str], recover: list[str]
) -> Iterator[tuple[str, list[str], list[str], float]]:
    """(what it is called, Kafka's command, klogtool's, the ratio that is wanted)."""
    files = ",".join(logs)
    for dump, options in DUMPS.items() if name == "plain" else ():  # Kafka dumps the others for minutes
        theirs = setup.dump_log_segments(files, options)
        yield dump, theirs, ["dump-log", "--files", files, *options], WANTED_OF_LARGE_DUMPS[dump]
    for command in RECOVERIES:
        yield command, ["/usr/bin/env", *recover, "1", *logs], [command, folder], WANTED["large"][name]


def walks(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Recovery in the library beside a bare CRC-32C pass over the same mapping."""
    head = ["data", "bare CRC s, 1 job", "2 jobs", "1 / 2", "recovery s, 1 job", "2 jobs", "1 / 2"]
    table = Table(*head, "recovery / CRC, 1 job")
    for name in filter(only, DATA_SETS):
        walk = [sys.executable, str(HERE / "recovery_walk.py"), setup.log(name)]
        told = told_by(walk)
        bare, bare_2, one, two = map(float, told.split())
        row = [f"{bare:.3f}", f"{bare_2:.3f}", f"{bare / bare_2:.2f}", f"{one:.3f}", f"{two:.3f}", f"{one / two:.2f}"]
        table.add(name, *row, f"{one / bare:.2f}")
    return table


def resyncs(setup: Setup, only: Callable[[str], bool]) -> Table:
    """The search for the next good batch through a GiB of damage, by what the damage is; processor time."""
    table = Table("damage", "GB/s", "wanted", "outcome")
    name = next(filter(only, DATA_SETS))
    walk = [sys.executable, str(HERE / "resync_walk.py"), str(setup.exports), setup.log(name), "1024"]
    told = told_by(walk)
    for line in told.splitlines():
        kind, rate, outcome = line.split("\t")
        table.add(kind, f"{float(rate) / 1e9:.2f}", "1", outcome)
    return table


def crcs(setup: Setup, _: Callable[[str], bool]) -> Table:
    """CRC-32C in each way that the processor has."""
    table = Table("CRC-32C by", "piece, bytes", "GB/s")
    for line in told_by([sys.executable, str(HERE / "crc_rates.py")]).splitlines():
        way, size, bytes_a_second = line.split("\t")
        table.add(way, size, f"{float(bytes_a_second) / 1e9:.1f}")
    return table


def deep_verifications(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Records a second of `verify --deep`, a whole process, beside Python's Kafka clients in one that is running: of
    processor time, as theirs is counted."""
    jobs = [f"{n} job{'s' * (n > 1)}" for n in setup.jobs]
    table = Table("data", *(f"verify --deep, {j}" for j in jobs), *PYTHON_READERS, "in")
    for name in filter(only, DATA_SETS):
        log = setup.log(name)
        command = [KLOGTOOL, "verify", os.path.dirname(log), "--deep", "-q", "--jobs"]
        ours = [Samples([*command, str(n)], (0, 1)) for n in setup.jobs]
        in_turn(setup.runs, *ours)
        records = last_offset(log) + 1
        table.add(
            name,
            *(f"{records / statistics.median(o.processor_seconds) / 1e6:.2f}" for o in ours),
            *(python_rate(log, p) for p in PYTHON_READERS),
            "million records a processor second",
        )
    return table


def copies(setup: Setup, only: Callable[[str], bool]) -> Table:
    """`diff` of two copies beside `cmp` and `cat` of both; `hash` beside `verify --deep`."""
    table = Table("data", "command", "s", "beside", "s of that", "ratio", "klogtool MB")
    for name in filter(only, DATA_SETS):
        log = setup.log(name)
        copy = setup.data / "copy" / f"{name}-0" / os.path.basename(log)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, copy)
        folders = os.path.dirname(log), str(copy.parent)
        asked = {
            "diff": ([*folders], {"cmp": ["/usr/bin/cmp", log, str(copy)], "cat": ["/usr/bin/cat", log, str(copy)]}),
            "hash": ([folders[0]], {"verify --deep": [KLOGTOOL, "verify", "--deep", "-q", folders[0]]}),
        }
        for command, (paths, others) in ((c, a) for c, a in asked.items() if only(c)):
            ours = Samples([KLOGTOOL, command, *paths])
            theirs = {what: Samples(other, (0, 1)) for what, other in others.items()}
            in_turn(setup.runs, ours, *theirs.values())
            for what, other in theirs.items():
                ratio = f"{ours.median / other.median:.2f}"
                table.add(name, command, f"{ours.median:.3f}", what, f"{other.median:.3f}", ratio, f"{ours.peak:.0f}")
    return table


def python_rate(log: str, package: str) -> str:
    """Million records a second of a client in Python; "-" where it is not installed."""
    reader = [sys.executable, str(HERE / "python_readers.py"), package, log, str(READERS_MIB)]
    told = told_by(reader).split()
    return f"{int(told[0]) / float(told[1]) / 1e6:.3f}" if told else "-"


def last_offset(log: str) -> int:
    """The last offset of a segment, from the last line of its dump (which is long: it does not come in here)."""
    dump = subprocess.Popen([KLOGTOOL, "dump-log", "--files", log], stdout=subprocess.PIPE)
    last = subprocess.run(["tail", "-n", "1"], stdin=dump.stdout, check=True, capture_output=True).stdout
    if dump.wait():
        sys.exit(f"klogtool cannot dump {log}")
    return int(last.split(b"lastOffset: ")[1].split()[0])


def exports(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Records a second, out of the data as JSON lines, as record batches that a program drops, as Arrow and Parquet."""
    table = Table("data", "format", "jobs", "s", "million records/s", "MB")
    for name in filter(only, DATA_SETS):
        records = last_offset(setup.log(name)) + 1
        for form in filter(only, EXPORTS):
            for jobs in setup.jobs:
                target = setup.exports / f"{name}.{form}"
                command = [KLOGTOOL, "dump-log", setup.log(name), "--format", form, "--jobs", str(jobs)]
                if form == "batches":
                    command = [sys.executable, "-c", BATCHES, setup.log(name), str(jobs)]
                elif form != "json":
                    command += ["--output", str(target)]
                ours = Samples(command)
                for _ in range(setup.runs):
                    target.unlink(missing_ok=True)
                    ours.run()
                rate = records / ours.median / 1e6
                table.add(name, form, str(jobs), f"{ours.median:.3f}", f"{rate:.2f}", f"{ours.peak:.0f}")
                target.unlink(missing_ok=True)
    return table


def columns(setup: Setup, _: Callable[[str], bool]) -> Table:
    """Million records a second of klogtool.columns over the plain data, in a program that is running already."""
    table = Table("columns", *(f"{n} job{'s' * (n > 1)}" for n in setup.jobs))
    asked = [sys.executable, str(HERE / "column_rates.py"), setup.log("plain"), str(setup.runs), *map(str, setup.jobs)]
    for line in told_by(asked).splitlines():
        table.add(*line.split("\t"))
    return table


def starts(setup: Setup, only: Callable[[str], bool]) -> Table:
    """What does hardly any work: its time is the start's."""
    commands = {
        "help": ["--help"],
        "small": ["dump-log", str(SMALL_FILE), "--print-data-log"],
        "verify-small": ["verify", str(SMALL_FILE.parent)],
    }
    table = Table("start", "ms", "MB", "command")
    for name in filter(only, STARTS):
        ours = Samples([KLOGTOOL, *commands[name]], (0, 1))
        in_turn(setup.runs * 3, ours)
        told = {
            "help": "klogtool --help",
            "small": f"dump a file of {SMALL_FILE.stat().st_size} bytes",
            "verify-small": "verify the partition dir of that file",
        }[name]
        table.add(name, f"{ours.median * 1000:.0f}", f"{ours.peak:.0f}", told)
    return table


def lookups(setup: Setup, _: Callable[[str], bool]) -> Table:
    """The cost of finding something, which the size of the log is not to matter for."""
    each = [f"{what} {figure}" for what in ("offset", "time", "fetch") for figure in ("us", "99 %")]
    table = Table("sparse log", "segments", "load ms", *each)
    asked = [sys.executable, str(HERE / "lookups.py"), str(setup.exports / "lookups")]
    for line in told_by(asked).splitlines():
        table.add(*line.split("\t"))
    return table


def cold(setup: Setup, _: Callable[[str], bool]) -> Table:
    """`verify` of a log that is not in the page cache, beside direct reads: both ways, and what each leaves there."""
    each = [
        f"{way} {figure}" for way in ("gentle", "ordinary") for figure in ("GB/s", "ratio", "processor s", "cached")
    ]
    table = Table("log", "direct GB/s", *each)
    folder = str(setup.exports / "cold")
    return filled(table, [sys.executable, str(HERE / "cold.py"), folder, setup.log("plain"), str(setup.runs)])


def headers(setup: Setup, _: Callable[[str], bool]) -> Table:
    """Jobs that look at headers and side files only: 30 GB of log a second are wanted."""
    table = Table("job", "processor s", "GB/s")
    folder = str(setup.exports / "headers")
    return filled(table, [sys.executable, str(HERE / "headers.py"), folder, setup.log("plain"), str(setup.runs)])


def growths(setup: Setup, _: Callable[[str], bool]) -> Table:
    """What becomes of a command's processor time where a log has twice and four times as many segments, leader epochs
    or partitions; its peak memory."""
    table = Table("shape", "command", "n", "s at n", "2n", "4n", "2n / n", "4n / 2n", "MB at n", "4n")
    return filled(table, [sys.executable, str(HERE / "growth.py"), str(setup.exports / "growth"), str(setup.scale)])


def reads(setup: Setup, only: Callable[[str], bool]) -> Table:
    """A whole segment, as one fetch: moved by the kernel, or read for its SHA-256; cp beside it."""
    table = Table("data", "where to", "s", "GB/s", "MB")
    sink = setup.exports / "fetched"
    for name in filter(only, DATA_SETS):
        log = setup.log(name)
        read = f"{KLOGTOOL} read {pathlib.Path(log).parent} --offset 0 --max-bytes 2147483647 --quiet "
        ways = {"cp": f"cp {log} {sink}", **{way: read + words.format(sink=sink) for way, words in READS.items()}}
        for way, words in ways.items():
            ours = Samples(["/bin/sh", "-c", words if "|" in words else f"exec {words}"])
            for _ in range(setup.runs):
                sink.unlink(missing_ok=True)
                ours.run()
            rate = os.path.getsize(log) / ours.median / 1e9
            table.add(name, way, f"{ours.median:.3f}", f"{rate:.2f}", f"{ours.peak:.0f}")
    sink.unlink(missing_ok=True)
    return table


def appends(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Batches of a segment into a new one, by Kafka's LogSegment.append and by klogtool, step by step; records out of
    JSON lines. Seconds, and processor seconds behind the stroke."""
    java = setup.java("Append", "-Xmx3g")
    kafkas = ("Kafka: append", "read, check, append", "and flush")
    ours = ("klogtool: read, check, decide", "and write", "and sync, read back")
    table = Table("data", *kafkas, *ours, "JSON lines, records/s: decide", "and write all")
    for name in filter(only, DATA_SETS):
        kafka = [*java, setup.log(name), str(setup.exports), str(setup.runs)]
        passes = [list(map(float, line.split())) for line in told_by(kafka).splitlines()]
        best = [min(told[n] for told in passes) for n in range(6)]
        program = [sys.executable, str(HERE / "appends.py")]
        best += map(float, told_by([*program, "batches", setup.log(name), str(setup.exports)]).split())
        rates = told_by([*program, "records", setup.log(name), str(setup.exports), str(APPEND_LINES)]).split()
        figures = [*(f"{figure:.2f}" for figure in best), *(f"{float(rate):,.0f}" for rate in rates)]
        table.add(name, *(" / ".join(figures[n : n + 2]) for n in range(0, len(figures), 2)))
    return table


def compactions(setup: Setup, only: Callable[[str], bool]) -> Table:
    """Kafka's cleaner, one thread, its JVM's start not counted, beside whole processes of ours in place, over one
    partition and over two; both write to the data's file system, with fsync."""
    head = ("Kafka s, first", "warm", "klogtool s, 1 job", "first ratio", "wanted", "two partitions, 1 job", "2 jobs")
    table = Table("data", *head, "1 job / 2 jobs", "wanted", "klogtool MB, 1 job", "2 jobs")
    for name in filter(only, KEYED):
        compaction = Compaction(setup, name)
        passes = []
        for _ in range(setup.runs):
            passes.append(compaction.kafka())
            for ours in compaction.ours:
                compaction.run(ours)
        first, warm = (statistics.median(told[n] for told in passes) for n in (0, -1))
        one, two_serial, two_parallel = compaction.ours
        gain = two_serial.median / two_parallel.median
        row = [f"{first:.2f}", f"{warm:.2f}", f"{one.median:.2f}", f"{first / one.median:.1f}"]
        row += [f"{WANTED['compact'][name]}", f"{two_serial.median:.2f}", f"{two_parallel.median:.2f}"]
        table.add(name, *row, f"{gain:.2f}", "1.6", f"{one.peak:.0f}", f"{two_parallel.peak:.0f}")
    return table


class Compaction:
    """The runs over copies of one data set, which end here unless all leave as many bytes as Kafka's."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.source = setup.data / f"{name}-0"
        self.scratch = setup.data / "compacted"
        self.java = [*setup.java("Clean"), str(self.source), str(self.scratch), str(COMPACT_SEGMENT_BYTES), "2"]
        # The last segment is empty: its name is the log's end. A log dir without checkpoints says none of this.
        end = max(path.stem for path in self.source.glob("*.log")).lstrip("0")
        whole = [f"--{word}={end}" for word in ("high-watermark", "recovery-point")]
        settings = ("cleanup.policy=compact", f"segment.bytes={COMPACT_SEGMENT_BYTES}")
        given = ["--apply", "--quiet", "--last-stop=clean", *whole, *(f"--config={setting}" for setting in settings)]
        log_dir = self.scratch / "logdir"
        runs = ((log_dir / self.source.name, 1), (log_dir, 1), (log_dir, 2))
        self.ours = [Samples([KLOGTOOL, "compact", str(path), *given, f"--jobs={jobs}"]) for path, jobs in runs]
        self.bytes_left = 0

    def kafka(self) -> tuple[float, ...]:
        """Seconds of Kafka's cleaner in a JVM of its own: the first pass, then the warmer one."""
        self.scratch.mkdir(exist_ok=True)
        told = [line.split() for line in told_by(self.java).splitlines()]
        self.bytes_left = int(told[0][1])
        return tuple(float(seconds) for seconds, _ in told)

    def run(self, ours: Samples) -> None:
        """Once, over fresh copies."""
        copies = [self._copy(number) for number in range(2)]
        ours.run()
        one_alone = ours is self.ours[0]
        for copy in copies[: 1 if one_alone else 2]:
            left = sum(path.stat().st_size for path in copy.glob("*.log"))
            if left != self.bytes_left:
                sys.exit(f"{left} bytes are left, Kafka leaves {self.bytes_left}: {' '.join(ours.command)}")
        shutil.rmtree(self.scratch)

    def _copy(self, number: int) -> pathlib.Path:
        """Segments as hard links, since compaction replaces whole files; the others, and what is empty, as copies."""
        copy = self.scratch / "logdir" / f"{self.source.name[:-1]}{number}"
        copy.mkdir(parents=True)
        for path in self.source.iterdir():
            is_segment = path.suffix == ".log" and path.stat().st_size
            (os.link if is_segment else shutil.copy)(path, copy / path.name)
        return copy


def sparks(setup: Setup, _: Callable[[str], bool]) -> Table:
    """format("klog") beside Spark's kafka source and a broker, warm, in turn; by the clock and in processor time, which
    other programs of the machine change less. Then klog alone: by size, and over thousands of small segments."""
    table = Table("what", "", "s", "klog s", "processor s", "klog's", "ratio", "by processor time", "wanted")
    if not SPARK_PYTHON.exists():
        print("no PySpark: make test-spark, and make interop for Spark's kafka source")
        return table
    asked = [str(SPARK_PYTHON), str(HERE / "spark_reads.py"), str(setup.data), str(setup.runs)]
    if not INTEROP_PYTHON.exists():
        print("no Spark with a kafka source: make interop")
        asked.append("--without-broker")
    return filled(table, asked)


def spark_compactions(setup: Setup, _: Callable[[str], bool]) -> Table:
    """`klogtool spark compact` of ten million records beside a window and a join over format("klog"), warm, in turn."""
    head = ("s", "processor s", "MB of shuffle", "records left", "times ours", "by processor time")
    table = Table("what", "", *head)
    if not SPARK_PYTHON.exists():
        print("no PySpark: make test-spark")
        return table
    return filled(table, [str(SPARK_PYTHON), str(HERE / "spark_compaction.py"), str(setup.data), str(setup.runs)])


def filled(table: Table, asked: list[str]) -> Table:
    """With the lines that a program prints, as they come."""
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            table.add(*line.rstrip("\n").split("\t"))
    if process.returncode:
        sys.exit(f"status {process.returncode} from: {' '.join(asked)}")
    return table


@dataclass(frozen=True)
class Part:
    """A table, the names that ask for it, and of what data it is made."""

    make: Callable[[Setup, Callable[[str], bool]], Table]
    names: Iterable[str]
    data: Sequence[str] = DATA_SETS


PARTS = (
    Part(dumps, DUMPS),
    Part(exports, EXPORTS),
    Part(columns, COLUMNS, ("plain",)),
    Part(recoveries, RECOVERIES),
    Part(large, LARGE),
    Part(walks, WALKS),
    Part(resyncs, RESYNCS),
    Part(crcs, CRCS, ()),
    Part(deep_verifications, DEEPS),
    Part(copies, COPIES),
    Part(lookups, LOOKUPS, ()),
    Part(cold, COLD, ("plain",)),
    Part(headers, HEADERS, ("plain",)),
    Part(growths, GROWTHS, ()),
    Part(reads, FETCHES),
    Part(appends, APPENDS),
    Part(compactions, COMPACTS, KEYED),
    Part(sparks, SPARKS, ()),
    Part(spark_compactions, SPARK_COMPACTS, ()),
    Part(starts, STARTS, ()),
)


def machine() -> str:
    cpu = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        cpu = line.split(": ")[1] if line.startswith("model name") else cpu
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, {java}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, help="folder with plain-0/ lz4-0/ ... (default: made)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of the data that are made; 1: 2 GiB, 20,000 segments"
    )
    parser.add_argument("--exports", type=pathlib.Path, help="folder for Arrow and Parquet files (default: the data's)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", default="1,2", help="klogtool's --jobs, each a column")
    names = ",".join([*DATA_SETS, *KEYED, *(name for part in PARTS for name in part.names)])
    parser.add_argument("--only", default=names, help=f"of {names}: data sets and what to do with them")
    parser.add_argument("--compare", action="store_true", help="first see that both print the same bytes")
    parser.add_argument("--markdown", action="store_true", help="the tables again, for docs/performance.md")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    chosen = arguments.only.split(",")
    # naming no data set means all of them; naming no job likewise
    jobs_named = [name for part in PARTS for name in part.names]
    named = [group for group in ((*DATA_SETS, *KEYED), jobs_named) if set(group) & set(chosen)]

    def only(name: str) -> bool:
        return name in chosen or not any(name in group for group in named)

    data = arguments.data or ROOT / ".work" / f"bench-{arguments.scale:g}"
    home = kafka_home()
    parts = [p for p in PARTS if any(map(only, p.names)) and (not p.data or any(map(only, p.data)))]
    make_data(data, arguments.scale, sorted({n for p in parts for n in p.data if only(n)}), f"{home}/lib/*")
    jobs = [int(n) for n in arguments.jobs.split(",")]
    setup = Setup(
        data, f"{home}/lib/*", arguments.runs, jobs, arguments.compare, arguments.exports or data, arguments.scale
    )
    print(machine())
    tables = []
    for part in parts:
        tables.append(part.make(setup, only))
        print()
    if arguments.markdown:
        print("\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
