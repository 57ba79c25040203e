"""What a lookup costs in logs from 1 MiB to 10 GiB: sparse ones, so that any disk has room for them.

`python lookups.py FOLDER` prints a line for each log: its name, segments, then milliseconds to load it as after a clean
stop, and microseconds (median, 99th percentile) of a lookup by offset, by time, and of a fetch. `bench.py` runs this.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

from sparse_logs import FIRST_MS, make_sparse_log

import klogtool

MIB, GIB = 1 << 20, 1 << 30
LOGS = {
    "1 MiB": (MIB, 4096, GIB),
    "1 GiB": (GIB, 16 << 10, GIB),
    "10 GiB": (10 * GIB, 128 << 10, GIB),
    "10 GiB, 1280 segments": (10 * GIB, 128 << 10, 8 * MIB),
}
QUESTIONS = 1000


def microseconds(ask: Callable[[int], object], offsets: list[int]) -> tuple[float, float]:
    """Median and 99th percentile."""
    times = []
    for offset in offsets:
        begin = time.perf_counter()
        ask(offset)
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times), sorted(times)[len(times) * 99 // 100]


def measure(name: str, folder: pathlib.Path) -> None:
    size, batch_bytes, segment_bytes = LOGS[name]
    shutil.rmtree(folder, ignore_errors=True)
    end = make_sparse_log(folder, size=size, batch_bytes=batch_bytes, segment_bytes=segment_bytes)
    partition = klogtool.open(folder)
    assert isinstance(partition, klogtool.Partition)
    partition.load()
    begin = time.perf_counter()
    loaded = partition.load()
    load_ms = (time.perf_counter() - begin) * 1000
    rng = random.Random(1)
    offsets = [rng.randrange(end) for _ in range(QUESTIONS)]
    loaded.lookup_timestamp(FIRST_MS + 1000 * (end - 1))  # the first one looks into each segment's time index
    cells = [name, f"{len(loaded.log.segments)}", f"{load_ms:.1f}"]
    asked: list[Callable[[int], object]] = [
        loaded.lookup_offset,
        lambda offset: loaded.lookup_timestamp(FIRST_MS + 1000 * offset),
        lambda offset: loaded.read(offset, MIB),
    ]
    for ask in asked:
        cells += [f"{figure:.0f}" for figure in microseconds(ask, offsets)]
    print("\t".join(cells), flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    for log_name in LOGS:
        measure(log_name, pathlib.Path(sys.argv[1]) / "t-0")
