"""The kernel that sets leader epochs equals format.restamp, on sound, damaged and random bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vectors import BATCH, BATCHES, MESSAGES

from klogtool.format.batch import parse_batch
from klogtool.format.restamp import set_leader_epochs

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))
ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_alike(native: Any, data: bytes) -> None:
    for stop in (len(data), len(data) // 2):
        for epoch in (0, 77, -1):
            ours, theirs = bytearray(data), bytearray(data)
            assert native.set_leader_epochs(ours, 0, stop, epoch) == set_leader_epochs(
                memoryview(theirs), 0, stop, epoch
            )
            assert ours == theirs


def test_only_the_epoch_changes_and_the_checksum_holds() -> None:
    data = bytearray(BATCH.data)
    before = parse_batch(bytes(data))
    assert set_leader_epochs(memoryview(data), 0, len(data), 77) == (len(data), 1)
    batch = parse_batch(data)
    assert (batch.partition_leader_epoch, batch.crc_valid) == (77, True)
    assert [*batch.records()] == [*before.records()]
    assert set_leader_epochs(memoryview(data), 0, len(data), 77) == (len(data), 0)


def test_every_kind_of_entry(native: Any) -> None:
    assert_alike(native, EVERY_KIND)


@pytest.mark.parametrize("position", range(0, len(BATCH.data), 3))
def test_every_byte_changed(native: Any, position: int) -> None:
    for value in (0, 1, 0x7F, 0x80, 0xFF):
        wounded = bytearray(BATCH.data + BATCH.data)
        wounded[position] = value
        assert_alike(native, bytes(wounded))


@ANY
@given(st.binary(max_size=200))
def test_any_bytes(native: Any, data: bytes) -> None:
    assert_alike(native, data)
