"""The records of a fetch by the kernel: the lines of batches walked one by one, to the byte, and the same errors."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from raw_batches import build_batch
from running import FIXTURES

from klogtool import kernels
from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition, load
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.render import log_lines, read
from klogtool.render.decoder_classes import internal_topic
from klogtool.render.json_lines import batch_row, error_row, json_line, record_row
from klogtool.render.kafka_text import walk_batch_text, walk_records_text
from klogtool.render.read import walk_json_records, walk_text_records
from klogtool.render.selection import RecordOptions

ZERO_TAIL = FIXTURES / "killed-mid-append/logdir/zero-tail-0"  # no fetch gets past the zeros
PARTITIONS = sorted({p for p in FIXTURES.glob("*/logdir/*") if isinstance(open_path(str(p)), Partition)} - {ZERO_TAIL})
NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "LEAST_BYTES", 1)
    monkeypatch.setattr(read, "MOST_BYTES", 2000)
    monkeypatch.setattr(read, "SPAN_BYTES", 700)
    monkeypatch.setattr(log_lines, "SPAN_BYTES", 700)


def by_reference(found: FetchedBytes, *, committed_only: bool, is_json: bool) -> Iterator[bytes]:
    try:
        for batch in found.batches(committed_only=committed_only):
            if is_json:
                name, topic = batch.path, internal_topic(batch.path)
                yield json_line(batch_row(name, batch))
                for record in batch.records():
                    if record.offset >= found.offset:
                        yield json_line(record_row(name, batch, record, topic))
            else:
                yield from map(str.encode, walk_batch_text(batch))
                options = RecordOptions(deep=True, print_data=True)
                shown = walk_records_text(batch, options, lambda _: None, lambda offset, *_: offset >= found.offset)
                yield from map(str.encode, shown)
    except KlogError as error:
        if is_json:
            yield json_line(error_row(error.path or "", error))
        raise


def joined(pieces: Iterator[bytes | memoryview]) -> tuple[bytes, str]:
    """All of them, and the error that ended them."""
    made = b""
    try:
        for piece in pieces:
            made += piece
    except KlogError as error:
        return made, str(error)
    return made, ""


def assert_same(found: FetchedBytes, jobs: int) -> None:
    for committed_only in (False, True):
        for is_json, walk in ((True, walk_json_records), (False, walk_text_records)):
            expected = joined(by_reference(found, committed_only=committed_only, is_json=is_json))
            assert joined(walk(found, committed_only=committed_only, jobs=jobs)) == expected


def loaded(path: pathlib.Path) -> LoadedPartition:
    return load(str(path), Circumstances(last_stop="clean", now_ms=NOW_MS), 1)


def asked(partition: LoadedPartition, rng: random.Random) -> Iterator[FetchedBytes]:
    """Fetches from all over what is on this disk, of all sizes. The log of a tiered topic begins elsewhere."""
    first = max(partition.log_start_offset, partition.log.segments.all[0].base_offset)
    for _ in range(12):
        offset = rng.randint(first, partition.log_end_offset)
        most = rng.choice((1, 200, 900, 5000, 1 << 20))
        yield partition.read(offset, most, min_one_message=rng.random() < 0.5, isolation="read_committed")


@pytest.mark.parametrize("path", PARTITIONS, ids=lambda path: "/".join(path.parts[-3:]))
def test_of_logs_of_brokers(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rng = random.Random(str(path.name))
    for found in asked(loaded(path), rng):
        assert_same(found, rng.choice((1, 2)))


@pytest.mark.parametrize("seed", range(40))
def test_of_damaged_logs(seed: int, tmp_path: pathlib.Path) -> None:
    """Bytes that are other ones, anywhere: broken records, wrong checksums, offsets that go back."""
    rng = random.Random(seed)
    folder = tmp_path / "t-0"
    shutil.copytree(rng.choice((FIXTURES / "transactions/logdir/t-0", FIXTURES / "leader-epochs/logdir/t-0")), folder)
    log = max(folder.glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    log.chmod(0o600)
    log.write_bytes(data)
    try:
        for found in asked(loaded(folder), rng):
            assert_same(found, rng.choice((1, 2)))
    except KlogError:
        return


@pytest.mark.parametrize("order", [(0, 50, 10, 60), (0, 50, 20, 30, 70)])
def test_of_offsets_that_go_back(order: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    batches = [build_batch([Record(first + n, NOW_MS, b"k", b"v") for n in range(5)]) for first in order]
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    partition = loaded(tmp_path / "t-0")
    for offset in (0, 3, 50, 52):
        assert_same(partition.read(offset, 1 << 20), 1)


@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_the_kernel_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(read, "_json_of", lambda _, batch, form: iter(shown.append(batch) or ()))
    found = loaded(FIXTURES / "transactions/logdir/t-0").read(30, 1 << 20)
    lines = b"".join(walk_json_records(found, committed_only=False)).splitlines()
    assert len(shown) == 1  # the first batch
    assert [json.loads(line)["type"] for line in lines].count("batch") == len(list(found.batches())) - 1
