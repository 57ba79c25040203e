#!/usr/bin/env python3
"""Appending inside the library: `appends.py batches LOG FOLDER` or `appends.py records LOG FOLDER LINES`.

batches: all batches of LOG, validated, into a new partition dir below FOLDER: seconds and processor seconds of the
decision; of decision and writing together, nothing synced; and as klogtool writes, synced and read back. records: so
many JSON lines as dump-log prints them of LOG: records a second, of the decision and of all, and of a processor second.
The best of some runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

from klogtool.disk.disk import Disk
from klogtool.disk.output import carry_out_to
from klogtool.plans.append import AppendQuestion, decide
from klogtool.plans.plan import Plan, Write
from klogtool.plans.question import read_question
from klogtool.plans.saved_plan import SavedPlan

RUNS = 3


Seconds = tuple[float, float]  # of the clock and of the processor


def seconds_since(begin: Seconds) -> Seconds:
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def appended(folder: str, asked: dict[str, object]) -> tuple[Seconds, Seconds, Seconds]:
    """Until it is decided, until it is written, until it is synced, read back and in its place."""
    source, output = os.path.join(folder, "append-0"), os.path.join(folder, "appended-0")
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(source)
    begin = seconds_since((0, 0))
    plans = list(decide(source, read_question(AppendQuestion, {"now_ms": 1_700_000_000_000, **asked})))
    if any("error" in row for row in plans[0].answer["appends"]):
        sys.exit(f"refused: {plans[0].answer}")
    decided = seconds_since(begin)
    written = write_only(plans[0], output)
    begin = seconds_since((0, 0))
    carry_out_to(list(map(SavedPlan.of, plans)), source, output)
    carried_out = seconds_since(begin)
    shutil.rmtree(output)
    shutil.rmtree(source)
    return decided, added(decided, written), added(decided, carried_out)


def added(one: Seconds, other: Seconds) -> Seconds:
    return one[0] + other[0], one[1] + other[1]


def write_only(plan: Plan, output: str) -> Seconds:
    """The same files, written and nothing else; in vain."""
    os.sync()  # what an earlier run left to the system does not count
    os.makedirs(output)
    begin = seconds_since((0, 0))
    for step in plan.steps:
        assert isinstance(step, Write)
        Disk().write(os.path.join(output, step.path), step.content)
    written = seconds_since(begin)
    shutil.rmtree(output)
    os.sync()
    return written


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
        print(*(min(run[n][unit] for run in runs) for n in range(3) for unit in (0, 1)))
    else:
        path, count = lines_of(log, folder, int(sys.argv[4]))
        runs = [appended(folder, {"records": path, "config": config}) for _ in range(RUNS)]
        print(*(count / min(run[n][unit] for run in runs) for n in (0, 2) for unit in (0, 1)))
        os.unlink(path)
