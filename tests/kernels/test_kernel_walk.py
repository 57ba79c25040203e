"""The walk over entries equals format.framing.whole_frames, at every cut and end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import BATCH, BATCHES, MESSAGES

from klogtool import kernels
from klogtool.format import framing

SAMPLE = b"".join(vector.data for vector in (MESSAGES[0], BATCHES[0], MESSAGES[5]))


def test_cut_at_every_length(native: Any) -> None:
    for size in range(len(SAMPLE) + 1):
        for end in (size, size + 1, size + 17, size + 18, len(SAMPLE), 1 << 40):
            if end >= size:
                expected = framing.whole_frames(SAMPLE[:size], end)
                assert native.whole_frames(SAMPLE[:size], end) == expected, (size, end)


def test_what_it_says(native: Any) -> None:
    assert native.whole_frames(SAMPLE, len(SAMPLE)) == (len(SAMPLE), 0)
    assert native.whole_frames(SAMPLE[:60], len(SAMPLE)) == (28, len(BATCH.data))
    assert native.whole_frames(SAMPLE[:30], len(SAMPLE)) == (28, framing.HEADER_SIZE_UP_TO_MAGIC + 1)


@pytest.mark.parametrize("length", [13, 14, 0, -1, -(2**31), 2**31 - 1, 2**31 - 13])
def test_lengths_at_their_edges(native: Any, length: int) -> None:
    data = BATCH.data + bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(30)
    for end in (len(data), len(data) + 1, 1 << 31, 1 << 40):
        assert native.whole_frames(data, end) == framing.whole_frames(data, end)


@given(st.binary(max_size=200), st.integers(0, 400))
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_any_bytes(data: bytes, more: int) -> None:
    log = BATCH.data + bytes(8) + b"\0\0" + data
    end = len(log) + more
    assert kernels.native.whole_frames(log, end) == framing.whole_frames(log, end)
