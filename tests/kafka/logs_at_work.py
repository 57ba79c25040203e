"""Random logs that are loaded, and then asked to change: what the questions of log, retention and append begin with.

Of all magics and codecs, with transactions, epochs and gaps, sound or damaged, after a clean stop or a kill; index
sizes that leave room for nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .folders import Files, bases_of
from .random_logs import Case, Made, Makers, Start, walk_starts
from .wounds import wound

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"magics": (0, 1, 2)},
    {"magics": (0,)},
    {"magics": (1,), "times": "rise"},
    {"gaps": 0.7, "batches": 45},
    {"magics": (2,), "epochs": 0.2},
    {"magics": (2,), "idempotent": 4},
    {"gaps": 0.3, "max_records": 6},
)
INDEX_BYTES = ("4", "8", "12", "20", "24", "36", "40", "67", "100", "2000", "10485760")


def walk_logs(makers: Makers, oracle: Any, work: Path, seed: int, count: int) -> Iterator[Case]:
    """So many logs to put a question about; args has now_ms for the load and at_ms for the change."""

    def make(bench: Any, rng: random.Random) -> Made:
        shapes = (*SHAPES, makers.damage.TXN, makers.damage.TXN, makers.damage.V2)
        folder, config, shape = bench.log(**rng.choice(shapes))
        if rng.random() < 0.2:
            bench.compacted(folder, config)
        return folder, config, shape

    for start in walk_starts(makers, oracle, work, "log", seed, count, make):
        yield _case(start, makers.logs.T0)


def _case(start: Start, t0_ms: int) -> Case:
    rng, config, files = start.rng, start.config, start.files
    start_ms = t0_ms + rng.choice((1000, 100_000, 86_000_000))
    args: dict[str, Any] = {"clean": rng.random() < 0.75, "now_ms": start_ms}
    args["at_ms"] = start_ms + rng.choice((0, 1, 40_000, 10**7, 10**9))
    if not args["clean"]:
        args["recovery_point"] = rng.choice((0, 0, *bases_or_any(files)))
    if start.about.first_offset or rng.random() < 0.3:
        args["log_start_offset"] = rng.choice((start.about.first_offset, some_offset(rng, files)))
    if rng.random() < 0.3:
        args["high_watermark"] = some_offset(rng, files)
    config["index.interval.bytes"] = rng.choice(("0", "50", "300", "4096"))
    if rng.random() < 0.4:
        config["segment.index.bytes"] = rng.choice(INDEX_BYTES)
    if rng.random() < 0.1:
        config["preallocate"] = "true"
    story = [wound(rng, start.dir, args, config) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    return Case(start.told, start.dir, {**args, "config": config}, story, rng)


def bases_or_any(files: Files) -> list[int]:
    """The base offsets of the segments; one that is as good as any where there is none."""
    return bases_of(files) or [7]


def some_offset(rng: random.Random, files: Files) -> int:
    """Of the log mostly: at a segment's base, near it, anywhere; below it or far above."""
    bases = bases_or_any(files)
    near = rng.choice(bases) + rng.choice((-1, 0, 0, 1, 2, 5))
    return max(0, rng.choice((near, near, near, rng.randint(bases[0], bases[-1] + 20), 0, bases[-1] + 1000)))


def arguments_of(case: Case, **more: Any) -> dict[str, Any]:
    """The question as klogtool's decisions take it: loaded at one time, changed at a later one."""
    return {**case.arguments, "loaded_at_ms": case.args["now_ms"], "now_ms": case.args["at_ms"], **more}


def without_room(files: Files) -> Files:
    """A preallocated segment that goes as soon as it has come is never closed, and keeps its zeros; not klogtool's."""
    return {name: b"" if name.endswith(".log.deleted") and not any(data) else data for name, data in files.items()}
