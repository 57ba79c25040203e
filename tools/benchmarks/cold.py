"""Gentle and ordinary `verify` of a log that is not in the page cache, beside direct reads of the same logs.

`python cold.py FOLDER LOG RUNS` makes the logs in FOLDER out of the batches of LOG, and prints a line for each shape:
its name, GB/s of direct reads; then for each way GB/s of whole processes, the ratio, processor seconds, and the share
of the logs that is in the page cache afterwards. It does so for the disk of FOLDER, and for a disk of a known rate
(`rated_disk.py`), where the system lets us make one. `bench.py` runs this.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from large import make_segments
from measuring import ROOT, Samples
from rated_disk import RATE, CannotMakeDisk, RatedDisk

sys.path.insert(0, str(ROOT))

from klogtool.doctor.host_dirs import cached_bytes
from klogtool.log.segment import Segment

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
MIB = 1 << 20
SMALL = {"1,024 segments of 1 MiB": (1024, MIB)}
SHAPES = {"4 segments of 1 GiB": (4, 1024 * MIB)} | SMALL
RATED_SHAPES = {"4 segments of 256 MiB": (4, 256 * MIB)} | SMALL
BYTES_ON_DISK = 3 << 30  # RATED_SHAPES, their indexes and snapshots
WAYS = ("--gentle", "--no-gentle")
READ_BYTES = 4 * MIB


def make_logs(folder: pathlib.Path, log: str, count: int, segment_bytes: int) -> list[str]:
    """Return the logs of a partition of so many segments with indexes; make it if it is missing."""
    if not folder.exists():
        first = folder.with_suffix(".first")
        cut = max(batch.position for batch in Segment(log).batches() if batch.position <= MIB)
        first.write_bytes(pathlib.Path(log).read_bytes()[:cut])
        make_segments(str(first), folder, count, segment_bytes)
        subprocess.run([KLOGTOOL, "rebuild-index", str(folder), "--apply", "-q"], check=True, stdout=subprocess.DEVNULL)
    return [str(path) for path in sorted(folder.glob("*.log"))]


def forget(folder: pathlib.Path) -> None:
    """Have the files out of the page cache."""
    for path in folder.iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def direct_seconds(logs: Sequence[str]) -> float:
    """Read the logs one after the other past the page cache, as `dd iflag=direct bs=4M` does."""
    memory = mmap.mmap(-1, READ_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = time.perf_counter()
    for log in logs:
        fd, at = os.open(log, os.O_RDONLY | os.O_DIRECT), 0
        while count := os.preadv(fd, [memory], at):
            at += count
        os.close(fd)
    return time.perf_counter() - begin


def measure(folder: pathlib.Path, logs: Sequence[str], runs: int) -> list[str]:
    """Return the cells of a shape, of all ways in turn."""
    size = sum(map(os.path.getsize, logs))
    ways = {way: Samples([KLOGTOOL, "verify", str(folder), "-q", way], (0, 1)) for way in WAYS}
    direct, cached = list[float](), dict.fromkeys(WAYS, 0.0)
    for _ in range(runs):
        direct.append(direct_seconds(logs))
        for way, samples in ways.items():
            forget(folder)
            samples.run()
            cached[way] = sum(cached_bytes(log) or 0 for log in logs) / size
    fastest = statistics.median(direct)
    cells = [f"{size / fastest / 1e9:.2f}"]
    for way, samples in ways.items():
        cells += [f"{size / samples.median / 1e9:.2f}", f"{fastest / samples.median:.2f}"]
        cells += [f"{statistics.median(samples.processor_seconds):.2f}", f"{cached[way]:.2f}"]
    return cells


def measure_all(shapes: Mapping[str, tuple[int, int]], disk: str, folder: pathlib.Path, log: str, runs: int) -> None:
    """Print a line for each shape, of logs in a folder of a disk."""
    for name, (number, segment_size) in shapes.items():
        place = folder / f"cold{number}-0"
        made = make_logs(place, log, number, segment_size)
        print("\t".join([name + disk, *measure(place, made, runs)]), flush=True)


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    measure_all(SHAPES, "", where, sys.argv[2], int(sys.argv[3]))
    try:
        with RatedDisk(where, BYTES_ON_DISK) as mounted:
            disk = f", at {RATE // 1_000_000} MB/s"
            measure_all(RATED_SHAPES, disk, mounted, sys.argv[2], int(sys.argv[3]))
    except CannotMakeDisk as error:
        print(f"no disk of a known rate: {error}", file=sys.stderr)
