#!/usr/bin/env python3
"""Records out of a log by one of Python's Kafka clients, kafka-python or aiokafka: `python_readers.py CLIENT LOG MIB`.

Checks checksums and parses every record of the first so many MiB, which are in memory, as a consumer does; prints the
records and the seconds that took. Prints nothing where the package is not there.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

MODULES = {"kafka-python": "kafka.record.memory_records", "aiokafka": "aiokafka.record.memory_records"}


def read(records: Any) -> int:
    """How many there are; every one is made."""
    count = 0
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            sys.exit("a checksum does not match")
        for _ in batch:
            count += 1
    return count


def main(package: str, log: str, mib: int) -> None:
    try:
        memory_records = importlib.import_module(MODULES[package]).MemoryRecords
    except ImportError:
        return
    with open(log, "rb") as file:
        data = file.read(mib << 20)
    begin = time.process_time()
    count = read(memory_records(data))
    print(count, time.process_time() - begin)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
