"""What a running broker feels of `scrub`, and of an ordinary `verify`: latencies of a producer and of a consumer.

`python beside_broker.py FOLDER LOG [--minutes N] [--rounds N]` starts a broker 4.3.1 over FOLDER, in a control group
with so little memory that the page cache is scarce. Beside a topic that is written and read steadily, it has old
segments, made of the batches of LOG. In turn, nobody reads those, `scrub` does, and `verify --no-gentle` does, again
and again. Prints a line for each: the way; median and 99th percentile in ms, to the acknowledgement and to the
consumer; the share of the old segments that is in the page cache afterwards; runs that ended, and their MB/s.
Needs root, Java, mvn, ../shared, and 10 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cold import forget
from large import make_segments
from measuring import HERE, ROOT

sys.path.insert(0, str(ROOT / "tests"))

from kafka.brokers import a_broker, fetched

from klogtool.doctor.host_dirs import cached_bytes

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
KAFKA = "4.3.1"
SEGMENTS, SEGMENT_BYTES = 16, 256 << 20
MEMORY_BYTES = 1536 << 20
RATE, RECORD_BYTES, WARM_SECONDS = 1000, 1000, 20
GROUPS = pathlib.Path("/sys/fs/cgroup")
CONFIG = {"log.index.size.max.bytes": 10 << 20, "log.retention.ms": -1}


@contextmanager
def scarce_memory() -> Iterator[None]:
    """This process, what it starts, and what these have in the page cache, get MEMORY_BYTES: by cgroup v1 or v2."""
    is_first = (GROUPS / "memory").is_dir()
    above = GROUPS / "memory" if is_first else GROUPS
    group = above / f"klogtool-bench-{os.getpid()}"
    group.mkdir()
    (group / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(MEMORY_BYTES))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (above / "cgroup.procs").write_text(str(os.getpid()))
        for pid in (group / "cgroup.procs").read_text().split():
            (above / "cgroup.procs").write_text(pid)
        group.rmdir()


@contextmanager
def again_and_again(command: Callable[[int], list[str]] | None) -> Iterator[list[float]]:
    """Run a command over and over in the background; the seconds of each run. It is killed at the end."""
    seconds: list[float] = []
    until, running = threading.Event(), list[subprocess.Popen[bytes]]()

    def run() -> None:
        while command is not None and not until.is_set():
            begin = time.perf_counter()
            quiet = subprocess.DEVNULL
            running[:] = [subprocess.Popen(command(len(seconds)), stdout=quiet, stderr=quiet)]
            if running[0].wait() in (0, 1):
                seconds.append(time.perf_counter() - begin)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seconds
    finally:
        until.set()
        for process in running:
            process.kill()
        thread.join()


def latencies(load: list[str]) -> dict[str, tuple[float, float]]:
    """Median and 99th percentile in ms, of what a steady load sees."""
    told = subprocess.run(load, check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in told.splitlines()]
    return {what: (int(median) / 1000, int(high) / 1000) for what, _, median, high in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("log")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    old, work = given.folder / "old-0", given.folder / "broker"
    make_segments(given.log, old, SEGMENTS, SEGMENT_BYTES)
    subprocess.run([KLOGTOOL, "rebuild-index", str(old), "--apply", "-q"], check=True, stdout=subprocess.DEVNULL)
    module = fetched(KAFKA)
    class_path = module.classpath(KAFKA)
    classes = given.folder / "classes"
    subprocess.run(["javac", "-d", str(classes), "-cp", class_path, str(HERE / "Load.java")], check=True)
    with scarce_memory(), a_broker(KAFKA, work, config=CONFIG) as broker:
        broker.start()
        for topic in ("old", "live"):
            broker.create_topic(topic, 1)
        broker.stop()
        broker.plant(old, "old", 0, recovery_point=_end_of(old), clean=True)
        broker.start()
        log_dir = str(broker.log_dirs[0])
        segments = sorted(pathlib.Path(log_dir, "old-0").glob("*.log"))[:-1]
        size = sum(map(os.path.getsize, map(str, segments)))
        state = given.folder / "scrub"
        scrub = [KLOGTOOL, "scrub", log_dir, "-q", "--state"]
        ways: dict[str, Callable[[int], list[str]] | None] = {
            "nothing": None,
            "scrub": lambda n: [*scrub, f"{state}-{time.time_ns()}-{n}"],
            "scrub --rate 50MB/s": lambda n: [*scrub, f"{state}-{time.time_ns()}-{n}", "--rate", "50MB/s"],
            "verify --no-gentle": lambda _: [KLOGTOOL, "verify", log_dir, "-q", "--no-gentle"],
        }
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{classes}:{class_path}", "Load"]
        load = [*java, broker.bootstrap, "live", *map(str, (RATE, RECORD_BYTES, WARM_SECONDS, int(given.minutes * 60)))]
        seen: dict[str, list[dict[str, tuple[float, float]]]] = {way: [] for way in ways}
        runs: dict[str, list[float]] = {way: [] for way in ways}
        cached: dict[str, float] = {}
        for _ in range(given.rounds):
            for way, command in ways.items():
                forget(pathlib.Path(log_dir, "old-0"))
                with again_and_again(command) as seconds:
                    seen[way].append(latencies(load))
                runs[way] += seconds
                cached[way] = sum(cached_bytes(str(path)) or 0 for path in segments) / size
        print(f"{SEGMENTS} segments, {size >> 20} MiB closed")
        for way, rounds in seen.items():
            cells = [f"{statistics.median(one[what][n] for one in rounds):.2f}" for what in rounds[0] for n in (0, 1)]
            rate = f"{size / statistics.median(runs[way]) / 1e6:.0f}" if runs[way] else ""
            print("\t".join([way, *cells, f"{cached[way]:.2f}", f"{len(runs[way])}", rate]), flush=True)


def _end_of(folder: pathlib.Path) -> int:
    import klogtool

    partition = klogtool.open(folder)
    assert isinstance(partition, klogtool.Partition)
    return partition.load().log.log_end_offset


if __name__ == "__main__":
    main()
