"""The kernels of append beside the reference: sets of batches, records of one batch."""

from __future__ import annotations

import random

import pytest
from looped import for_each
from raw_batches import build_batch

from klogtool import kernels
from klogtool.broker.appending.record_survey import RecordsSurvey, survey_records
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.framing import Frame
from klogtool.log.entries import RecordBatch, read_entry
from klogtool.log.windows import Window

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")

NOW_MS = 1_700_000_000_000


def opened(data: bytes) -> RecordBatch:
    entry = read_entry(Window(0, memoryview(data), len(data), last=True), Frame(0, 0, len(data), 2), "")
    assert isinstance(entry, RecordBatch)
    return entry


def by_reference(batch: RecordBatch) -> RecordsSurvey:
    found = list(batch.records())
    times = [record.timestamp for record in found if record.timestamp != -1]
    return RecordsSurvey(
        len(found),
        min(times, default=-1),
        max(times, default=-1),
        any(record.key is None for record in found),
        [record.offset - batch.base_offset for record in found] == list(range(len(found))),
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("seed", range(8))
def test_records_as_the_reference_sees_them(codec: str, seed: int) -> None:
    rng = random.Random(seed)
    made, offset = [], 0
    for _ in range(rng.randrange(1, 30)):
        key = None if rng.random() < 0.1 else rng.randbytes(rng.randrange(90))
        when = rng.choice([-1, NOW_MS, NOW_MS + rng.randrange(-(10**6), 10**6), 0, 2**62])
        made.append(Record(offset, when, key, rng.choice([None, b"", rng.randbytes(200)])))
        offset += 1 if rng.random() < 0.95 else 2
    batch = opened(build_batch(made, codec=codec))
    assert survey_records(batch) == by_reference(batch)


@for_each(range(300), "seed {}".format)
def test_what_the_reference_refuses_is_left_to_it(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(build_batch([Record(n, NOW_MS, b"k" * n, b"v") for n in range(3)]))
    data[rng.randrange(57, len(data))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    batch = opened(bytes(data))
    try:
        expected = by_reference(batch)
    except KlogError:
        assert survey_records(batch) is None
        return
    assert survey_records(batch) in (None, expected)


def test_arguments_that_are_none() -> None:
    native = kernels.native
    assert native.survey_records(b"", 0, 0) is None
    assert native.survey_records(b"\0", -5, 0) is None
    for at in (-1, 5):
        with pytest.raises(ValueError, match="at is to lie in the data"):
            native.AppendSurvey().take(b"\0", at, 9, 0)
    assert native.AppendSurvey().take(b"", 0, 0, 0) == (0, native.DONE)
