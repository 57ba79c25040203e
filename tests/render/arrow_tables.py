"""Logs as Arrow tables, for the tests: read by the kernel or the reference, looked into, and what they are made of."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from kafka.generated import by_klogtool, shapes
from raw_batches import build_batch
from readers import READERS, Reader, log_file
from running import FIXTURES

from klogtool import kernels
from klogtool.format.batch import Record
from klogtool.format.codecs import CODECS
from klogtool.log.file import LogFile
from klogtool.render.arrow import LogPart, RecordQuery, Tally, schema, walk_record_batches

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

needs_kernel = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
LOGS = sorted(path for path in FIXTURES.glob("**/*.log") if path.is_file())
SEGMENT_OFFSETS = (5, 60)  # others are astray
TIME = 1_700_000_000_000
Row = dict[str, Any]
Told = list[tuple[int | None, str]]


def read(data: bytes, reader: str = "kernel", **options: Any) -> tuple[Any, Told, Tally]:
    """The table of a log with these bytes, the errors in it, and the tally; every record batch is looked into."""
    told: Told = []
    tally = Tally()
    part = LogPart(
        "t", 3, **{name: options.pop(name) for name in ("start", "end") if name in options}, offsets=SEGMENT_OFFSETS
    )
    query = RecordQuery(
        on_damage=lambda error: told.append((error.position, error.reason)), tally=tally, **({"jobs": 1} | options)
    )
    with log_file(data) as path, LogFile(path) as file, Reader(reader).reading():
        batches = list(walk_record_batches(file, part, query))
    for name in ("first_invalid", "first_astray", "first_backward"):
        place = getattr(tally, name)
        setattr(tally, name, place and ("", place[1]))
    return table_of(batches, options.get("columns")), told, tally


def table_of(batches: Iterable[Any], names: list[str] | None = None) -> Any:
    kept = list(batches)
    for batch in kept:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= 1 << 16
    return pa.Table.from_batches(kept, schema(names))


def rows_of(data: bytes, **options: Any) -> list[Row]:
    table, told, _ = read(data, **options)
    assert told == []
    found: list[Row] = table.to_pylist()
    return found


def both_say_the_same(data: bytes, **options: Any) -> tuple[Any, Told, Tally]:
    by_reference, by_kernel = (read(data, reader, **options) for reader in READERS)
    assert by_kernel[1:] == by_reference[1:]
    assert by_kernel[0].equals(by_reference[0])
    return by_kernel


def generated(seed: int) -> bytes:
    """A segment of batches of every magic, codec and shape."""
    rng = random.Random(seed)
    return b"".join(by_klogtool(shape) for shape in shapes(rng, codecs=CODECS) + shapes(rng, codecs=CODECS))


def numbered(count: int, first: int = 0, size: int = 20) -> list[Record]:
    return [Record(n, TIME + n, b"k%06d" % n, (b"%d-" % n).ljust(size, b"v")) for n in range(first, first + count)]


def batches_of(count: int, **options: Any) -> bytes:
    """Batches of ten records each."""
    return b"".join(build_batch(numbered(10, 10 * n), **options) for n in range(count))
