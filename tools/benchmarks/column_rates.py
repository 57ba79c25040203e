#!/usr/bin/env python3
"""klogtool.scan in a program that is running already: `column_rates.py LOG RUNS JOBS...`.

Prints a line for each choice of columns: its name, then million records a second for each number of jobs, the best of
the runs. The record batches are counted and dropped.
"""

from __future__ import annotations

import sys
import time

import klogtool
from klogtool.spark.reading import columns_of

SPARKS, SPARKS_WITH_HEADERS = columns_of(headers=False, metadata=False), columns_of(headers=True, metadata=False)
CHOICES: dict[str, tuple[str, ...] | None] = {
    "all": None,
    "those of Spark's kafka source, with headers": SPARKS_WITH_HEADERS,
    "those of Spark's kafka source, as it gives them by default": SPARKS,
    "`key`, `offset`": ("key", "offset"),
}


def rate(log: str, columns: tuple[str, ...] | None, jobs: int) -> float:
    """Million records a second, once."""
    begin = time.perf_counter()
    records = sum(batch.num_rows for batch in klogtool.scan(log, columns=columns, jobs=jobs).to_reader())
    return records / (time.perf_counter() - begin) / 1e6


def main() -> None:
    log, runs, *jobs = sys.argv[1:]
    for name, columns in CHOICES.items():
        rates = [max(rate(log, columns, int(n)) for _ in range(int(runs))) for n in jobs]
        print(name, *(f"{found:.1f}" for found in rates), sep="\t", flush=True)


if __name__ == "__main__":
    main()
