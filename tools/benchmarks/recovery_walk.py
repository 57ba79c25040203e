#!/usr/bin/env python3
"""Recovery inside the library beside a bare CRC-32C pass over the same pieces of the same file: `recovery_walk.py LOG`.

Prints seconds, the best of some runs: the bare pass on one thread and on two, then recovery likewise. Of the bare
pass each thread takes a half, and shares nothing with the other: no second job can bring more.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from klogtool import kernels
from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.mapped_windows import SPAN_BYTES
from klogtool.broker.unified_log.segment_recovery import SegmentRecovery
from klogtool.log.file import LogFile
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.mapped import MappedReads
from klogtool.log.producer_state import ProducerStateManager

RUNS = 5


def bare_pass(path: str, jobs: int) -> None:
    """Every byte's CRC-32C, piece by piece."""
    size = os.path.getsize(path)
    share = -(-size // jobs // SPAN_BYTES) * SPAN_BYTES
    threads = [
        threading.Thread(target=bare_pass_of, args=(path, at, min(at + share, size))) for at in range(0, size, share)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare_pass_of(path: str, start: int, end: int) -> None:
    with LogFile(path) as file, MappedReads(file) as reads:
        for at in range(start, end, SPAN_BYTES):
            piece = reads.read(at, SPAN_BYTES)
            kernels.native.crc32c(piece)
            reads.give_back(piece)


def recovery(path: str, jobs: int) -> None:
    """LogSegment.recover, in memory: nothing is written."""
    draft = Draft.of(os.path.dirname(path))
    segment = LogSegment(draft, int(os.path.basename(path).partition(".")[0]), LogConfig())
    truncated = SegmentRecovery(segment, LeaderEpochFileCache(), ProducerStateManager(), jobs).run()
    if truncated:
        sys.exit(f"{truncated} bytes were cut off")


def best(work: Callable[[str, int], None], path: str, jobs: int) -> float:
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work(path, jobs)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    log = os.path.abspath(sys.argv[1])
    for work in (bare_pass, recovery):
        print(best(work, log, 1), best(work, log, 2))
