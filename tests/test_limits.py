"""What is too large: an honest line or finding, never a traceback; and docs/limits.md has the values of the code."""

from __future__ import annotations

import json
import os
import pathlib
from functools import cache

import pytest
from raw_batches import raw_batch
from running import ROOT, peak_bytes, run_apart, with_memory

from klogtool.broker.appending.calls import MOST_LINE_BYTES
from klogtool.cli.append import MOST_STDIN_BYTES
from klogtool.cli.apply import MAX_PLAN_BYTES
from klogtool.cli.question_options import MOST_CONFIG_BYTES
from klogtool.decoding.bounds import (
    FREE_ITEMS,
    FREE_TEXT_BYTES,
    ITEMS_PER_BYTE,
    MOST_ITEMS,
    MOST_OWN_ITEMS,
    TEXT_PER_BYTE,
)
from klogtool.decoding.bounds import MOST_TEXT_BYTES as MOST_TEXT_BYTES_OF_VALUE
from klogtool.disk import line_file, standard_input
from klogtool.disk.journal import MAX_FILE_BYTES
from klogtool.format import codecs
from klogtool.format.batch import MOST_HEADERS
from klogtool.format.message import MOST_ALLOCATED
from klogtool.format.names import FileKind, build_file_name
from klogtool.format.producer_replay import MOST_OPEN_TXNS, MOST_PRODUCERS
from klogtool.format.record_digests import MOST_RECORDS as MOST_DIGESTED
from klogtool.format.resync import LARGEST_SOUGHT_BYTES
from klogtool.format.succession import MOST_PRODUCERS as MOST_WITH_SEQUENCES
from klogtool.format.varint import build_zigzag
from klogtool.log.resync import GIVEN_UP_BYTES, MOST_EXTRA_BYTES
from klogtool.log.side_file import MOST_INDEX_BYTES, MOST_TEXT_BYTES
from klogtool.plans.salvage import MOST_LEFT_OUT
from klogtool.render.kept_answer import MOST_ANSWER_BYTES, MOST_PAGE_BYTES
from klogtool.scrub.other_copies import MOST_HASH_LINE_BYTES
from klogtool.verify import index_damage, settings, stable_offsets, verify_producers, verify_segment
from klogtool.verify.baseline import MOST_BASELINE_BYTES

PAGE = ROOT / "docs/limits.md"
MIB = 1 << 20
MEMORY_BYTES = 900 * MIB
INFLATED_BYTES = 400 * MIB
SNAPPY_BLOCK_BYTES, SNAPPY_HEAD_BYTES = 32 << 10, 16  # as Kafka's library frames it
# What the page says: the value of the code, and the number that the words mean.
VALUES = {
    "256 MiB (268,435,456)": (codecs.MAX_INFLATED_BYTES, 268_435_456),
    "4,194,304": (MOST_DIGESTED, 4_194_304),
    "1,048,576": (MOST_HEADERS, 1_048_576),
    "341 MiB (357,564,416)": (MOST_ALLOCATED, 357_564_416),
    "2,147,483,647": (MOST_INDEX_BYTES, 2_147_483_647),
    "128 MiB |": (LARGEST_SOUGHT_BYTES, 128 * MIB),
    "1 GiB, then 128 MiB more": ((MOST_EXTRA_BYTES, GIVEN_UP_BYTES), (1024 * MIB, 128 * MIB)),
    "10,000 |": (MOST_LEFT_OUT, 10_000),
    "262,144": (MOST_PRODUCERS, 262_144),
    "open transactions at a time | 65,536": (MOST_OPEN_TXNS, 65_536),
    "sequence numbers are followed | 65,536": (MOST_WITH_SEQUENCES, 65_536),
    "131,072": (stable_offsets.MOST_ENTRIES, 131_072),
    "one kind in one segment | 1,000": (verify_segment.MOST_FINDINGS, 1000),
    "1,000 runs": (index_damage.MOST_RUNS, 1000),
    "transaction index | 10 |": (verify_producers.MOST_FINDINGS_OF_A_FILE, 10),
    "`quorum-state` | 64 MiB": (MOST_TEXT_BYTES, 64 * MIB),
    "in `verify` | 256 MiB": (verify_producers.MOST_SIDE_FILE_BYTES, 256 * MIB),
    "`--config-file` | 16 MiB": (MOST_CONFIG_BYTES, 16 * MIB),
    "`--baseline` | 256 MiB": (MOST_BASELINE_BYTES, 256 * MIB),
    "a settings file of `verify` | 1 MiB": (settings.MOST_SETTINGS_BYTES, MIB),
    "1,000 items in a list; 1,000 dots in a line": ((settings.MOST_ITEMS, settings.MOST_DOTS), (1000, 1000)),
    "a state of `scrub` | 1 GiB": (line_file.MOST_BYTES, 1024 * MIB),
    "lines of `hash` for `scrub --replica` | 64 MiB": (MOST_HASH_LINE_BYTES, 64 * MIB),
    "`doctor --from` | 16 MiB": (MOST_PAGE_BYTES, 16 * MIB),
    "the answer in it 16 MiB": (MOST_ANSWER_BYTES, 16 * MIB),
    "a journal | 4 GiB": ((MAX_PLAN_BYTES, MAX_FILE_BYTES), (4096 * MIB, 4096 * MIB)),
    "`--requests` | 256 MiB": (MOST_LINE_BYTES, 256 * MIB),
    "8 for each of its bytes and 4,096 more": ((ITEMS_PER_BYTE, FREE_ITEMS), (8, 4096)),
    "at most 262,144 (`json` and programs: 1,048,576)": ((MOST_OWN_ITEMS, MOST_ITEMS), (262_144, 1_048_576)),
    "64 for each of its bytes and 1,048,576 more": ((TEXT_PER_BYTE, FREE_TEXT_BYTES), (64, 1_048_576)),
    "at most 67,108,864": (MOST_TEXT_BYTES_OF_VALUE, 67_108_864),
    "standard input of `append` | 256 MiB": (MOST_STDIN_BYTES, 256 * MIB),
    "standard input of `dump-log` | 2 GiB": (standard_input.MOST_BYTES, 2048 * MIB - 1),
}
COMMANDS = {
    "verify --deep": "verify --deep {log}",
    "dump-log text": "dump-log {log} --print-data-log",
    "dump-log json": "dump-log {log} --format json",
    "dump-log arrow": "dump-log {log} --format arrow --output {out}",
    "compact": "compact {log} --config cleanup.policy=compact --force",
    "append": "append {new} --create --batches {file}",
    "salvage --deep": "salvage {log} --deep --output {out}",
    "txns": "txns {log}",
    "hash": "hash {log}",
    "diff": "diff --deep {log} {other}",
    "lookup --timestamp": "lookup {log} --timestamp 1",
    "read --records": "read {log} --offset 0 --max-bytes 1000000000 --records",
}


@pytest.mark.parametrize("told", VALUES)
def test_the_page_has_the_limits_of_the_code(told: str) -> None:
    assert told in PAGE.read_text()
    in_code, as_told = VALUES[told]
    assert in_code == as_told


# A value of this size; at most so many times its size, and what a start takes.
VALUE_BYTES = 60 * MIB
START_BYTES = 72 * MIB  # Python, klogtool's modules, and what libraries keep
PEAKS = {
    "dump-log {log} --format json": 3.2,
    "dump-log {log} --format json --resync": 3.2,
    "read {log} --offset 0 --max-bytes 1000000000 --records --format json": 3.2,
    "dump-log {log} --print-data-log": 3.2,
    "dump-log {log} --print-data-log --resync": 3.2,
    "read {log} --offset 0 --max-bytes 1000000000 --raw {out}": 1.5,
    "verify --deep {log}": 2.2,
    "salvage --shallow {log} --output {out}": 1.5,
    "salvage {log} --output {out}": 3.2,
    "compact {log} --config cleanup.policy=compact --force --output {out}": 1.5,
    "append {new} --create --batches {file} --config max.message.bytes=200000000 --output {out}": 1.5,
    "append {new} --create --records {lines} --config max.message.bytes=200000000 --output {out}": 6.5,
}
# All but one byte needs six in JSON.
VALUES_OF_A_RECORD = {"control characters": bytes([1]) * VALUE_BYTES, "no UTF-8": bytes([1, 255]) * (VALUE_BYTES // 2)}


def record(value: bytes = b"\1", headers: bytes = b"\0") -> bytes:
    body = b"\0\0\0\2k" + value + headers
    return build_zigzag(len(body)) + body


def sized(data: bytes) -> bytes:
    return build_zigzag(len(data)) + data


@pytest.fixture(scope="module", params=VALUES_OF_A_RECORD)
def with_a_long_value(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder: pathlib.Path = tmp_path_factory.mktemp("long-value") / "t-0"
    folder.mkdir()
    value = VALUES_OF_A_RECORD[request.param]
    (folder / build_file_name(FileKind.LOG, 0)).write_bytes(raw_batch(record(sized(value))))
    with (folder.parent / "lines").open("wb") as lines:
        lines.write(b'{"value":"' + b"v" * VALUE_BYTES + b'"}\n')
    return folder


def words_of(command: str, log: pathlib.Path, place: pathlib.Path) -> list[str]:
    """The words of a command, each with its paths, which may have blanks."""
    named = {
        "log": log,
        "file": log / build_file_name(FileKind.LOG, 0),
        "lines": log.parent / "lines",
        "other": ROOT / "fixtures/every-codec/logdir/append-4",
        "out": place / "out",
        "new": place / "new-0",
    }
    return [word.format(**named) for word in command.split()]


@pytest.mark.slow
@pytest.mark.parametrize("command", PEAKS)
def test_memory_is_a_few_times_the_largest_value(
    with_a_long_value: pathlib.Path, command: str, tmp_path: pathlib.Path
) -> None:
    log = with_a_long_value
    words = words_of(command, log, tmp_path)
    assert peak_bytes(words) <= PEAKS[command] * VALUE_BYTES + START_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("command", ["verify --deep", "salvage --deep --output {out}"])
def test_memory_of_a_batch_that_is_not_inflated_is_the_limit(codec: str, command: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = bomb(codec)
    (folder / build_file_name(FileKind.LOG, 0)).write_bytes(data)
    words = [*words_of(command, folder, tmp_path), str(folder)]
    assert peak_bytes(words) <= codecs.MAX_INFLATED_BYTES + 2 * len(data) + START_BYTES


@cache
def bomb(codec: str) -> bytes:
    """A batch of some megabytes at most that inflates to more than the limit."""
    if codec == "snappy":
        return raw_batch(_snappy_bomb(), codec=codec)
    return raw_batch(codecs.compress(codec, record(sized(bytes(INFLATED_BYTES))), magic=2), codec=codec)


def _snappy_bomb() -> bytes:
    """Blocks that are all the same: to compress so much takes minutes."""
    begins = record(sized(bytes(INFLATED_BYTES)))[:SNAPPY_BLOCK_BYTES]
    block = codecs.compress("snappy", bytes(SNAPPY_BLOCK_BYTES), magic=2)[SNAPPY_HEAD_BYTES:]
    return codecs.compress("snappy", begins, magic=2) + block * (INFLATED_BYTES // SNAPPY_BLOCK_BYTES)


LOGS = {
    **{f"{codec} bomb": (lambda codec=codec: bomb(codec)) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "huge value": lambda: raw_batch(record(sized(b"v" * 60 * MIB))),
    "huge header count": lambda: raw_batch(record(headers=build_zigzag(2 * MOST_HEADERS) + b"\0\1" * 2 * MOST_HEADERS)),
    "false header count": lambda: raw_batch(record(headers=build_zigzag(2**31 - 1))),
    "false records count": lambda: raw_batch(record(), records_count=2**31 - 1),
}


@pytest.fixture(scope="module", params=LOGS)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder: pathlib.Path = tmp_path_factory.mktemp("limits") / "t-0"
    folder.mkdir()
    (folder / build_file_name(FileKind.LOG, 0)).write_bytes(LOGS[request.param]())
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_too_large_ends_in_an_honest_line(log: pathlib.Path, command: str, tmp_path: pathlib.Path) -> None:
    words = words_of(COMMANDS[command], log, tmp_path)
    done = run_apart(*words, before=with_memory(MEMORY_BYTES), stdout=os.open(os.devnull, os.O_WRONLY))
    assert "Traceback" not in done.err
    assert "MemoryError" not in done.err
    assert done.status in (0, 1, 3, 4), done.err
    if done.status in (3, 4):
        assert any(line.startswith("klogtool: ") for line in done.err.splitlines()), done.err


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_that_is_not_looked_into_is_told_and_kept(codec: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = bomb(codec)
    (folder / build_file_name(FileKind.LOG, 0)).write_bytes(data)
    done = run_apart("verify", "--deep", folder, "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    (found,) = [row for row in rows if row.get("id") in ("unreadable", "records-invalid")]
    assert (done.status, found["id"], found["start"], found["end"]) == (1, "unreadable", 0, len(data))
    assert found["detail"] == "the records are not checked: inflates to more than 268435456 bytes"
    assert "cure" not in found
    done = run_apart("salvage", folder, "--deep", "--output", tmp_path / "out", "--format", "json")
    (plan,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert (done.status, plan["answer"]["kept_batches"], plan["answer"]["lost"]) == (0, 1, [])
