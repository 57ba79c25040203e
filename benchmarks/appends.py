#!/usr/bin/env python3
"""Appending inside the library: `appends.py batches LOG FOLDER` or `appends.py records LOG FOLDER LINES`.

batches: all batches of LOG, validated, into a new partition dir below FOLDER: the seconds of the decision, and those of
decision and writing together (synced, read back). records: so many JSON lines as dump-log prints them of LOG: records a
second, of the decision and of all. The best of some runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

from klogtool.disk.output import carry_out_to
from klogtool.repair.append import decide
from klogtool.repair.saved_plan import SavedPlan

RUNS = 3


def appended(folder: str, asked: dict[str, object]) -> tuple[float, float]:
    """Seconds until it is decided, and until it is written."""
    source, output = os.path.join(folder, "append-0"), os.path.join(folder, "appended-0")
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(source)
    begin = time.perf_counter()
    plans = list(decide(source, {"now_ms": 1_700_000_000_000, **asked}))
    if any("error" in row for row in plans[0].answer["appends"]):
        sys.exit(f"refused: {plans[0].answer}")
    decided = time.perf_counter() - begin
    carry_out_to(list(map(SavedPlan.of, plans)), source, output)
    total = time.perf_counter() - begin
    shutil.rmtree(source)
    shutil.rmtree(output)
    return decided, total


def lines_of(log: str, folder: str, most: int) -> tuple[str, int]:
    """A file of record lines, and how many there are."""
    path = os.path.join(folder, "append.jsonl")
    dump = subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "klogtool"), "dump-log", log, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert dump.stdout is not None
    count = 0
    with open(path, "wb") as file:
        for line in dump.stdout:
            if line.startswith(b'{"type":"record"'):
                file.write(line)
                count += 1
                if count == most:
                    break
    dump.kill()
    dump.wait()
    return path, count


if __name__ == "__main__":
    what, log, folder = sys.argv[1:4]
    config = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    if what == "batches":
        runs = [appended(folder, {"batches": [os.path.abspath(log)]}) for _ in range(RUNS)]
        print(min(run[0] for run in runs), min(run[1] for run in runs))
    else:
        path, count = lines_of(log, folder, int(sys.argv[4]))
        runs = [appended(folder, {"records": path, "config": config}) for _ in range(RUNS)]
        print(count / min(run[0] for run in runs), count / min(run[1] for run in runs))
        os.unlink(path)
