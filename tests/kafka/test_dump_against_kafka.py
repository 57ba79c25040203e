"""klogtool dump-log prints what Kafka's DumpLogSegments prints, byte for byte, of sound and of damaged files.

KLOGTOOL_FUZZ_COUNT: how many damaged cases are asked (default 400). For more, and to keep what differs:
`python -m tests.kafka.fuzz`.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from . import fuzz, layout
from .generated import by_kafka, by_klogtool, draw, shapes
from .kafka import Kafka, read_tree
from .ours import Klogtool

pytestmark = pytest.mark.kafka

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FUZZ_COUNT = int(os.environ.get("KLOGTOOL_FUZZ_COUNT", "400"))
FUZZ_PARTS = max(8, FUZZ_COUNT // 2000)  # a part is a test, and a test has a time limit
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OPTIONS: tuple[list[str], ...] = (
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--deep-iteration", "--max-bytes", "700"],
)


def assert_same(kafka: Kafka, ours: Klogtool, case: fuzz.Case) -> None:
    """Both print the same; the failure tells the case, the command and the first line that differs."""
    found = fuzz.Run(kafka, ours, keep=None).put(case)
    assert found is None, f"\n{case.told()}\n{found.text}"


# ---------------------------------------------------------------- the harness itself


@pytest.mark.parametrize("scenario", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_kafka_answers_as_it_did_when_the_fixtures_were_made(kafka: Kafka, scenario: str) -> None:
    folder = FIXTURES / scenario
    files = {name: data for name, data in read_tree(folder).items() if not name.startswith("golden/")}
    for line in (folder / "golden" / "commands.jsonl").read_text().splitlines():
        command = json.loads(line)
        answer = kafka.dump(files, command["argv"])
        assert answer.stdout == (folder / command["stdout"]).read_bytes(), command["argv"]


# ---------------------------------------------------------------- generated batches


@pytest.mark.parametrize(("magic", "codec"), [(m, c) for m in (0, 1, 2) for c in CODECS if m == 2 or c != "zstd"])
def test_our_builders_write_what_kafkas_writes(kafka: Kafka, magic: int, codec: str) -> None:
    rng = random.Random(f"{magic} {codec}")
    for _ in range(40):
        shape = draw(rng, magic, codec, rng.choice((0, 12, 2**40)))
        theirs, mine = by_kafka(kafka, shape), by_klogtool(shape)
        if shape.codec == "none":
            assert mine.hex() == theirs.hex(), shape
        else:
            assert expanded(mine) == expanded(theirs), shape


def expanded(entry: bytes) -> tuple[bytes, ...]:
    """All of a compressed batch or wrapper but its size and CRC, the records decompressed: compressors differ."""
    found = layout.Entry(0, entry)
    if found.magic == 2:
        return entry[:8], entry[12:17], entry[21:61], layout.body_of(found)
    message = layout.parse_message(found)
    body = layout.decompress(found.codec, message.value or b"", found.magic)
    return entry[:8], entry[16:18], repr((message.timestamp, message.key)).encode(), body


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("builder", ["klogtool's batches", "Kafka's batches"])
def test_generated_segments(kafka: Kafka, ours: Klogtool, builder: str, seed: int) -> None:
    rng = random.Random(f"segments {seed}")
    codecs = (CODECS, CODECS, ("none",), ("none", "zstd"))[seed % 4]
    drawn = shapes(rng, magics=((0, 1, 2), (2,), (1,), (0,))[seed % 4], codecs=codecs)
    entries = [by_klogtool(shape) if builder.startswith("klogtool") else by_kafka(kafka, shape) for shape in drawn]
    name = f"t-0/{drawn[0].base_offset:020d}.log"
    for options in OPTIONS:
        case = fuzz.Case(f"generated {seed}", builder, {name: b"".join(entries)}, ["--files", name, *options])
        assert_same(kafka, ours, case)


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("part", range(FUZZ_PARTS))
def test_damaged_fixtures(kafka: Kafka, ours: Klogtool, part: int) -> None:
    cases = fuzz.Cases(fuzz.find_partitions([FIXTURES]), seed=1)
    run, told = fuzz.Run(kafka, ours, keep=None), []
    for number in range(part, FUZZ_COUNT, FUZZ_PARTS):
        case = cases.case(number)
        found = run.put(case)
        if found:
            told.append(f"{case.told()}\n{found.text}")
    assert not told, f"{len(told)} of {run.tally.asked} questions are answered otherwise; the first:\n{told[0]}"
