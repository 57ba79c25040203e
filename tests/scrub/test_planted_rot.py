"""Single bits that rot in closed segments: all are found within a period, none twice, none that did not rot.

A finding names the bytes. But where a checksum does not cover the bits (indexes, base offsets and leader epochs of
batches), and verify finds something in the same block of sums, that finding stands for the block.
"""

from __future__ import annotations

import pathlib
import random
from bisect import bisect

import pytest
from scrub.scrubbed import closed_logs, make_log_dir, rot, scrub

from klogtool.log.segment import Segment
from klogtool.scrub.file_sums import BLOCK_BYTES

Path = pathlib.Path
UNCOVERED = (*range(8), *range(12, 16))  # base offset and leader epoch in the header of a batch
SUFFIXES = (".log",) * 8 + (".index", ".timeindex")


def check_rot(log_dir: Path, state: Path, bits: int, rng: random.Random) -> None:
    assert scrub(state, log_dir).findings == []
    logs = closed_logs(log_dir)
    by_name = {log.name: log for log in logs}  # the partitions are equal
    starts = {name: [batch.position for batch in Segment(str(log)).batches()] for name, log in by_name.items()}
    planted: dict[Path, set[int]] = {}
    while sum(map(len, planted.values())) < bits:
        path = rng.choice(logs).with_suffix(rng.choice(SUFFIXES))
        position = rng.randrange(path.stat().st_size)
        if position not in planted.setdefault(path, set()):
            rot(path, position, rng.randrange(8))
            planted[path].add(position)
    done = scrub(state, log_dir, days=31)
    assert done.status == 1
    assert done.summary["checked"] == len(logs)
    found: dict[Path, list[tuple[int, int]]] = {}
    for row in done.findings:
        span = row.get("start", 0), row.get("end", row["start"] + 1 if "start" in row else 1 << 62)
        found.setdefault(Path(row["path"]), []).append(span)
    for path, positions in planted.items():
        for position in positions:
            spans = found.get(path, [])
            if path.suffix != ".log" or position - last_start(starts[path.name], position) in UNCOVERED:
                spans = [(start - start % BLOCK_BYTES, -(-end // BLOCK_BYTES) * BLOCK_BYTES) for start, end in spans]
            assert any(start <= position < end for start, end in spans), (path, position)
    places = [(row["path"], row.get("start"), row["id"]) for row in done.findings]
    assert len(places) == len(set(places))
    by_stem = {path.with_suffix("") for path in planted}
    assert {path.with_suffix("") for path in found} <= by_stem
    again = scrub(state, log_dir, days=32)
    assert (again.findings, again.status, again.summary["checked"]) == ([], 1, 0)
    assert again.summary["errors"] + again.summary["warnings"] == len(done.findings)


def last_start(starts: list[int], position: int) -> int:
    """Where the batch begins that a byte is in."""
    return starts[bisect(starts, position) - 1]


@pytest.mark.parametrize("seed", range(3))
def test_every_bit_is_found_once(seed: int, tmp_path: Path) -> None:
    check_rot(make_log_dir(tmp_path / "logs"), tmp_path / "state", 30, random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [4, pytest.param(86, marks=[pytest.mark.nightly, pytest.mark.timeout(1200)])])
def test_a_thousand_bits(partitions: int, tmp_path: Path) -> None:
    """86 partitions are 1 GiB."""
    log_dir = make_log_dir(tmp_path / "logs", partitions=partitions, records=100_000, segment_bytes=1 << 20)
    size = sum(log.stat().st_size for log in closed_logs(log_dir))
    check_rot(log_dir, tmp_path / "state", 1000, random.Random(7))
    print(f"1,000 bits in {size:,} bytes of closed logs")
