"""What the cleaner reads a segment through: it ends with Kafka's error where less than a batch is left."""

from __future__ import annotations

import pathlib

import pytest
from loading import data

from klogtool.broker.cleaning.read_buffer import ReadBuffer, walk_batches
from klogtool.broker.config import log_config
from klogtool.broker.content import FileRange
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import KlogError

WHOLE = data(0) + data(1)


@pytest.mark.parametrize(
    ("tail", "kafka_class"),
    [
        (data(2)[:-3], "IllegalStateException"),
        (data(2)[:5], "IllegalStateException"),
        (bytes(100), "CorruptRecordException"),
        (data(2)[:8] + b"\x7f\0\0\0" + data(2)[12:], "CorruptRecordException"),
    ],
    ids=["a batch cut off", "a few bytes", "zeros", "a length beyond the end"],
)
def test_a_tail_that_is_no_batch(tmp_path: pathlib.Path, tail: bytes, kafka_class: str) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(WHOLE + tail)
    found = []
    content = (FileRange(str(path), 0, len(WHOLE + tail)),)
    with ContentFile(str(path), content) as file, pytest.raises(KlogError) as error:
        found.extend(entry.base_offset for entry in walk_batches(file, ReadBuffer(log_config({}))))
    assert (found, error.value.kafka_class) == ([0, 1], kafka_class)
