"""What Kafka's cleaner makes of random logs, and what klogtool decides: passes, statistics, every file byte for byte.

Keys few and many, tombstones, transactions of all fates, idempotent producers, all codecs and magics, small maps and
buffers, lags, ratios, retention behind the cleaning, several rounds with the clock moving on; some logs are damaged.
KLOGTOOL_COMPACT_COUNT: how many cases are asked (default 120). For more: `python -m
tests.kafka.test_compaction_against_kafka --count N --seed S`; `--case SEED.VARIANT` makes one again.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from klogtool.errors import KlogError
from klogtool.format.batch import RECORD_BATCH_OVERHEAD, build_raw_batch, inflate, parse_batch
from klogtool.format.framing import walk_frames, whole_frames
from klogtool.plans.plan import Plan, Rename, Truncate, Write

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
from deciding import decided  # noqa: E402
from readers import READERS, Reader  # noqa: E402

from .comparing import (  # noqa: E402
    asked,
    copy_for_kafka,
    differences,
    field_differences,
    plan_differences,
    result_of,
    simple_name,
    state_differences,
)
from .folders import Files, bases_of, put  # noqa: E402
from .live import Question, Tally, agreed, parser_for, report  # noqa: E402
from .random_logs import Case, Made, Makers, Start, walk_starts  # noqa: E402
from .wounds import wound  # noqa: E402

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_COMPACT_COUNT", "120"))
V2: dict[str, Any] = {"magics": (2,), "times": "rise"}
SHAPES: tuple[dict[str, Any], ...] = (
    V2,
    {**V2, "keys": 4, "tombstones": 0.4},
    {**V2, "keys": 200, "max_records": 6},
    {**V2, "transactional": 4, "idempotent": 1, "end_open": 0.0},
    {**V2, "transactional": 4, "idempotent": 3, "tombstones": 0.3},
    {**V2, "idempotent": 5, "keys": 6},
    {**V2, "headers": 0.5, "append_time": 0.6},
    {**V2, "null_keys": 0.4},
    {**V2, "codecs": ("none",), "max_value": 150, "max_records": 6},
    {"magics": (0, 1, 2), "idempotent": 2},
    {"magics": (1,), "codecs": ("gzip", "lz4", "snappy"), "max_records": 6, "append_time": 0.3},
    {"magics": (0, 1), "tombstones": 0.4, "transactional": 0, "idempotent": 0},
    {},
)
FIELDS = (
    "first_dirty_offset",
    "first_uncleanable_offset",
    "bound",
    "clean_bytes",
    "cleanable_bytes",
    "cleanable_ratio",
    "eligible",
    "end_offset",
)
MAGIC = 2
KEPT_FIELDS = (
    "base_offset",
    "last_offset_delta",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
    "partition_leader_epoch",
)


def walk_logs(makers: Makers, oracle: Any, work: pathlib.Path, seed: int, count: int) -> Iterator[Case]:
    """So many logs to clean."""

    def make(bench: Any, rng: random.Random) -> Made:
        return bench.log(**rng.choice(SHAPES))

    for start in walk_starts(makers, oracle, work, "compact", seed, count, make):
        case = _case(start, makers.logs.T0)
        if makes_logs(case):
            load_once(oracle, case, makers.logs.T0)
        yield case


def _case(start: Start, start_ms: int) -> Case:
    rng, config, bases = start.rng, start.config, bases_of(start.files)
    args: dict[str, Any] = {"now_ms": start_ms + rng.choice((1000, 1000, 10**6)), "log_start_offset": bases[0]}
    if rng.random() < 0.15:
        args["log_start_offset"] = rng.choice(bases) + rng.choice((0, 0, 1, 3))
    if rng.random() < 0.3:
        args["cleaner_checkpoint"] = max(0, rng.choice((*bases, rng.randint(bases[0], bases[-1]))) + rng.choice((0, 1)))
    if rng.random() < 0.1:
        args["high_watermark"] = rng.randint(bases[0], bases[-1] + 9)
    story = [wound(rng, start.dir, args, config) for _ in range(rng.choice((0, 0, 0, 0, 0, 0, 1)))]
    _choose_settings(rng, config, bases)
    args["cleaner"] = {
        "log.cleaner.dedupe.buffer.size": 24 * rng.choice((5, 9, 20, 1000, 1000, 1000)),
        "log.cleaner.io.buffer.size": rng.choice((512, 2048, 65_536, 65_536)),
        "log.cleaner.io.buffer.load.factor": rng.choice((0.5, 0.9, 0.9, 1.0)),
    }
    if rng.random() < 0.1:
        args["cleaner"]["message.max.bytes"] = int(config.setdefault("max.message.bytes", "200"))
    first_ms, passes = start_ms + 10**6, []
    for n in range(rng.choice((1, 1, 2, 3, 5))):
        passes.append({"at_ms": first_ms + sum(rng.choice((0, 1, 30_000, 60_000, 10**6)) for _ in range(n))})
    args.update(passes=sorted(passes, key=lambda row: row["at_ms"]), force=rng.random() < 0.6)
    set_times(start.dir, start_ms)
    return Case(start.told, start.dir, {**args, "config": config}, story, rng)


def makes_logs(case: Case) -> bool:
    """Whether loading makes or cuts a `.log`: its time is then the machine's clock, ahead of the case's by years."""
    try:
        (plan,) = decided("recover", str(case.dir), case.arguments)
    except KlogError:
        return False
    return any(step.path.endswith(".log") and isinstance(step, (Write, Truncate)) for step in plan.steps)


def load_once(oracle: Any, case: Case, start_ms: int) -> None:
    """The case is what Kafka's own load has left, with the times of a case."""
    _, files = asked(oracle, "recover", case)
    shutil.rmtree(case.dir)
    put(case.dir, files)
    set_times(case.dir, start_ms)


def _choose_settings(rng: random.Random, config: dict[str, str], bases: list[int]) -> None:
    config["cleanup.policy"] = rng.choice(("compact", "compact", "compact", "compact,delete"))
    config["delete.retention.ms"] = rng.choice(("0", "1", "60000", "60000", "2000000"))
    config["min.cleanable.dirty.ratio"] = rng.choice(("0", "0", "0.3", "0.7"))
    config["index.interval.bytes"] = rng.choice(("0", "50", "300", "4096"))
    if rng.random() < 0.3:
        config["segment.bytes"] = rng.choice(("2000", "4000", "20000"))
    if rng.random() < 0.2:
        config["min.compaction.lag.ms"] = rng.choice(("1000", "960000", "990000"))
    if rng.random() < 0.1:
        config["max.compaction.lag.ms"] = rng.choice(("10000", "2000000"))
    if "delete" in config["cleanup.policy"]:
        config["retention.ms"] = rng.choice(("-1", "980000", "1000000"))
        config["retention.bytes"] = rng.choice(("-1", "-1", "3000"))


def set_times(folder: pathlib.Path, start_ms: int) -> None:
    """Logs a minute apart: tombstones of magic 0 and 1 are judged by that."""
    for n, path in enumerate(sorted(folder.glob("*.log"))):
        os.utime(path, ns=((start_ms + 60_000 * n) * 10**6,) * 2)


# --- the comparison ---------------------------------------------------------------------------------------------------


def arguments_of(case: Case) -> dict[str, Any]:
    return {
        **case.arguments,
        "first_dirty_offset": case.args.get("cleaner_checkpoint"),
        "passes_at_ms": [row["at_ms"] for row in case.args["passes"]],
        "force": case.args["force"],
    }


def check_compact(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    """compact: the passes, every file, and the times of those that were cleaned."""
    answer, after = asked(oracle, "clean", case)
    times = {path.name: path.stat().st_mtime_ns // 10**6 for path in copy_for_kafka(case).iterdir()}
    broken = answer if "error" in answer else next((row for row in answer["passes"] if "error" in row), None)
    tally[simple_name(broken["error"]) if broken else _done(answer)] += 1

    def compare(plan: Plan) -> Iterator[str]:
        yield from _answers(plan.answer, answer)
        yield from differences(_all_inflated(result_of(plan)), _all_inflated(after))
        yield from _times(plan, times)

    yield from plan_differences(
        lambda: list(decided("compact", str(case.dir), arguments_of(case))), broken or answer, compare
    )


def _all_inflated(files: Files) -> Files:
    return {name: _inflated(name, data) for name, data in files.items()}


def _inflated(name: str, data: bytes) -> bytes:
    """A log with what is compressed with zstd as it was before, and no checksum: the library that is installed may be a
    later one than Kafka's, and finds other Huffman tables now and then. All else is compared as it stands."""
    if ".log" not in name:
        return data
    made, end = bytearray(), whole_frames(data, len(data))[0]
    for frame in walk_frames(data, 0, end):
        made += _inflated_batch(data[frame.position : frame.position + frame.size], frame.magic)
    return bytes(made) + data[end:]


def _inflated_batch(batch: bytes, magic: int) -> bytes:
    if magic != MAGIC or len(batch) < RECORD_BATCH_OVERHEAD:
        return batch
    parsed = parse_batch(batch)
    try:
        body = inflate(parsed) if parsed.codec == "zstd" and parsed.crc_valid else None
    except KlogError:
        return batch
    kept = {field: getattr(parsed, field) for field in KEPT_FIELDS}
    return batch if body is None else build_raw_batch(body, **kept)


def _done(answer: dict[str, Any]) -> str:
    cleaned = sum("stats" in row for row in answer["passes"])
    return f"{cleaned} passes" + (", split" if any(row.get("aborted") for row in answer["passes"]) else "")


def _answers(ours: Any, kafkas: Any) -> Iterator[str]:
    if ours["cleaner_checkpoint"] != kafkas.get("cleaner_checkpoint"):
        yield f"cleaner_checkpoint: {ours['cleaner_checkpoint']}, Kafka {kafkas.get('cleaner_checkpoint')}"
    for n, (row, wanted) in enumerate(zip(ours["passes"], kafkas["passes"], strict=True)):
        for name in FIELDS:
            if row.get(name) != wanted.get(name):
                yield f"pass {n}: {name}: {row.get(name)}, Kafka {wanted.get(name)}"
        if row.get("stats"):
            found = field_differences(row["stats"], wanted["stats"], list(row["stats"]))
            yield from (f"pass {n}: {difference}" for difference in found)
    yield from state_differences(ours, kafkas)


def _times(plan: Plan, kafkas: dict[str, int]) -> Iterator[str]:
    """Of segments that were cleaned."""
    times = {step.path: step.mtime_ns for step in plan.steps if isinstance(step, Write)}
    for step in plan.steps:
        if isinstance(step, Rename) and step.path in times:
            times[step.to] = times.pop(step.path)
    for name, mtime_ns in times.items():
        if (
            mtime_ns is not None
            and name.endswith((".log", ".index", ".timeindex"))
            and mtime_ns // 10**6 != kafkas[name]
        ):
            yield f"modification time of {name}: {mtime_ns // 10**6}, Kafka {kafkas[name]}"


QUESTIONS = {"compact": Question(walk_logs, check_compact)}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_random_logs_are_cleaned_as_kafka_cleans_them(reader: str) -> None:
    with Reader(reader).reading() as native:
        tally = agreed(QUESTIONS["compact"], COUNT // len(READERS))
        assert native is None or native.asked["BatchCleaner"] > 0
    assert tally


def main() -> int:
    parser = parser_for(__doc__, QUESTIONS, count=400)
    parser.add_argument("--reader", choices=READERS, default="kernel")
    given = parser.parse_args()
    with Reader(given.reader).reading():
        return report(QUESTIONS, given)


if __name__ == "__main__":
    sys.exit(main())
