"""Jobs that look at headers and side files only, over 4 GiB in four segments, after a clean stop.

`python headers.py FOLDER LOG RUNS` makes the partition in FOLDER out of the batches of LOG, and prints a line for each
job: its name, processor seconds of whole processes without those of a start and GB of log a second. The last line
is the work of `spark inventory` on one core, in a program that runs already. `bench.py` runs this.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

from cold import MIB, make_logs
from measuring import ROOT, Samples, in_turn

sys.path.insert(0, str(ROOT))

from klogtool.log.file import LogFile
from klogtool.spark.head_columns import walk_head_rows
from klogtool.spark.inventory import HeadCounts

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
SEGMENTS = 4
JOBS = ("txns", "lookup --offset 5", "lookup --leader-epoch 0")


def main(folder: pathlib.Path, log: str, runs: int) -> None:
    small, large = folder / "small-0", folder / "large-0"
    folder.mkdir(parents=True, exist_ok=True)
    make_logs(small, log, SEGMENTS, MIB)
    logs = make_logs(large, log, SEGMENTS, 1024 * MIB)
    size = sum(map(os.path.getsize, logs))
    for words in JOBS:
        first, *others = words.split()
        command = [KLOGTOOL, first, "", *others, "--last-stop", "clean"]
        beside, whole = (Samples([*command[:2], str(path), *command[3:]]) for path in (small, large))
        in_turn(runs, beside, whole)
        _tell(words, statistics.median(whole.processor_seconds) - statistics.median(beside.processor_seconds), size)
    _inventory(logs)  # what it imports is no work
    _tell("inventory", statistics.median(_seconds(lambda: _inventory(logs)) for _ in range(runs)), size)


def _tell(name: str, seconds: float, size: int) -> None:
    print(f"{name}\t{seconds:.3f}\t{size / seconds / 1e9 if seconds > 0 else 0:.0f}", flush=True)


def _inventory(logs: list[str]) -> None:
    for log in logs:
        counts = HeadCounts()
        with LogFile(log) as file:
            counts.add_all(walk_head_rows(file, 0, os.path.getsize(log)))


def _seconds(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
