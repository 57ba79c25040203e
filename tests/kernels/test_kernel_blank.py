"""The kernel that blanks entries equals format.blanking, on sound, damaged and random bytes."""

from __future__ import annotations

from typing import Any

import pytest
from damage import heal_checksums
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_batches import raw_batch
from vectors import BATCH, BATCHES, MAGIC_0, MAGIC_1, MESSAGES

from klogtool.format.batch_proof import judge_entry
from klogtool.format.blanked_numbers import LARGEST_OFFSET
from klogtool.format.blanking import blank_entry
from klogtool.format.framing import Frame, find_frame
from klogtool.format.java_numbers import MAX_LONG

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


def by_reference(data: bytes, open_from_ms: int, most_offset: int = LARGEST_OFFSET) -> bytes:
    """Each sound entry blanked, one after another, up to the first other one."""
    out, at = memoryview(bytearray(data)), 0
    while isinstance(found := find_frame(data, at, len(data)), Frame) and judge_entry(data, found) is not None:
        blank_entry(out[at : at + found.size], open_from_ms, None, most_offset)
        at += found.size
    return bytes(out)


def by_kernel(native: Any, data: bytes, open_from_ms: int, most_offset: int = LARGEST_OFFSET) -> bytes:
    """The same by the kernel, and by the reference where the kernel stops."""
    out, at = bytearray(data), 0
    while at < len(out):
        at, why = native.blank_batches(out, at, len(out), open_from_ms, most_offset)
        if why == native.DONE:
            break
        found = find_frame(data, at, len(data))
        if not isinstance(found, Frame) or judge_entry(data, found) is None:
            break
        blank_entry(memoryview(out)[at : at + found.size], open_from_ms, None, most_offset)
        at += found.size
    return bytes(out)


def assert_alike(native: Any, data: bytes) -> None:
    for open_from_ms in (0, MAX_LONG):
        for most_offset in (0, LARGEST_OFFSET):
            made = by_kernel(native, data, open_from_ms, most_offset)
            assert made == by_reference(data, open_from_ms, most_offset)


def test_every_kind_of_entry(native: Any) -> None:
    assert_alike(native, EVERY_KIND)


def test_the_kernel_does_most_of_it(native: Any) -> None:
    plain = [vector.data for vector in (BATCH, MAGIC_0, MAGIC_1)]
    data = bytearray(b"".join(plain))
    assert native.blank_batches(data, 0, len(data), MAX_LONG, LARGEST_OFFSET) == (len(data), native.DONE)
    assert bytes(data) == by_reference(b"".join(plain), MAX_LONG)


@pytest.mark.parametrize("position", range(0, len(BATCH.data), 3))
def test_every_byte_changed(native: Any, position: int) -> None:
    for value in (0, 1, 0x7F, 0x80, 0xFF):
        wounded = bytearray(BATCH.data)
        wounded[position] = value
        assert_alike(native, bytes(wounded))
        heal_checksums(wounded)
        assert_alike(native, bytes(wounded))


ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANY
@given(st.binary(max_size=80), st.integers(-2, 40), st.sampled_from(["none", "gzip", "zstd"]))
def test_any_body(native: Any, body: bytes, count: int, codec: str) -> None:
    assert_alike(native, raw_batch(body, codec=codec, records_count=count))


@ANY
@given(st.binary(max_size=200))
def test_any_bytes(native: Any, data: bytes) -> None:
    assert_alike(native, data)
