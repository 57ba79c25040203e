"""Fields that do not count when two values are compared count nowhere."""

from __future__ import annotations

from raw_batches import build_batch

from klogtool.disk.states import FileState
from klogtool.format.batch import Record, parse_batch


def test_fields_that_are_not_compared() -> None:
    one, same, other = FileState(1, 2, 3, 4, "x"), FileState(1, 2, 3, 5), FileState(1, 2, 4, 4, "x")
    assert one == same
    assert (one != same) is False
    assert hash(one) == hash(same)
    assert one != other
    assert (one == other) is False
    assert one != (1, 2, 3, 4, "x")


def test_fields_that_are_not_shown() -> None:
    batch = parse_batch(build_batch([Record(7, 1, b"k", b"v")]))
    assert "data=" not in repr(batch)
    assert "base_offset=7" in repr(batch)
