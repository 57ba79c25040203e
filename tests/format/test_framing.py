"""How entries follow each other: FileLogInputStream's rules, byte for byte."""

from __future__ import annotations

import pytest
from damage import frames_of
from hypothesis import given
from hypothesis import strategies as st

from klogtool.errors import Corrupt
from klogtool.format.framing import Frame, FrameStop, find_frame, walk_frames, whole_frames


def entry(offset: int = 5, length: int = 14, magic: int = 2) -> bytes:
    """As many bytes as the length asks for, offset and length fields aside."""
    head = offset.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big", signed=True) + b"\0\0\0\0"
    return head + magic.to_bytes(1, "big", signed=True) + bytes(max(0, length - 5))


LONG = entry(6, 100)


def test_an_entry() -> None:
    data = bytes.fromhex("0000000000000007 0000000e 00000003 02") + bytes(9)
    assert find_frame(data, 0, len(data)) == Frame(position=0, offset=7, size=26, magic=2)


def test_no_byte_left_is_the_end() -> None:
    assert find_frame(b"", 0, 0) is FrameStop.END
    assert find_frame(entry(), 26, 26) is FrameStop.END


@pytest.mark.parametrize("stray", range(1, 18))
def test_one_to_seventeen_stray_bytes_are_a_silent_tail(stray: int) -> None:
    data = entry() + b"\xff" * stray
    assert find_frame(data, 26, len(data)) is FrameStop.TAIL
    assert [frame.position for frame in walk_frames(data, 0, len(data))] == [0]


def test_eighteen_bytes_are_looked_at() -> None:
    assert find_frame(bytes(18), 0, 18) is FrameStop.LENGTH
    assert find_frame(entry()[:18], 0, 18) is FrameStop.TAIL


@pytest.mark.parametrize("length", [13, 1, 0, -1, -(2**31)])
def test_a_length_below_fourteen_is_an_error(length: int) -> None:
    data = entry() + entry(length=length) + bytes(20)
    assert find_frame(data, 26, len(data)) is FrameStop.LENGTH
    with pytest.raises(Corrupt, match=f"record size {length} is smaller") as found:
        list(walk_frames(data, 0, len(data), base=1000))
    assert (found.value.position, found.value.kafka_class) == (1026, "CorruptRecordException")


def test_the_error_comes_behind_the_entries_before_it() -> None:
    walk = walk_frames(entry() + bytes(30), 0, 56)
    assert next(walk).position == 0
    with pytest.raises(Corrupt):
        next(walk)


@pytest.mark.parametrize("length", [15, 1000, 2**31 - 13, 2**31 - 1])
def test_an_entry_that_runs_past_the_end_is_a_silent_tail(length: int) -> None:
    data = entry()[:8] + length.to_bytes(4, "big") + entry()[12:]
    assert find_frame(data, 0, len(data)) is FrameStop.TAIL
    assert list(walk_frames(data, 0, len(data))) == []


def test_the_log_may_end_before_the_buffer_does() -> None:
    data = entry() + entry()
    assert find_frame(data, 26, 52) == Frame(26, 5, 26, 2)
    assert find_frame(data, 26, 51) is FrameStop.TAIL
    assert find_frame(data, 26, 43) is FrameStop.TAIL
    assert find_frame(data, 26, 26) is FrameStop.END


@pytest.mark.parametrize("magic", [0, 1, 2, 3, 127, -1, -128])
def test_magic_is_signed_and_any_is_an_entry(magic: int) -> None:
    assert [frame.magic for frame in walk_frames(entry(magic=magic), 0, 26)] == [magic]


def test_offsets_are_signed() -> None:
    assert [frame.offset for frame in walk_frames(entry(-(2**63)) + entry(-1), 0, 52)] == [-(2**63), -1]


# ---------------------------------------------------------------- windows of a log


def test_whole_frames_of_an_empty_log() -> None:
    assert whole_frames(b"", 0) == (0, 0)
    assert whole_frames(b"", 17) == (0, 0)
    assert whole_frames(b"", 18) == (0, 18)


def test_whole_frames_says_what_the_next_entry_needs() -> None:
    log = entry() + LONG + entry()
    assert whole_frames(log, len(log)) == (164, 0)
    assert whole_frames(log[:163], len(log)) == (138, 26)
    assert whole_frames(log[:155], len(log)) == (138, 18)  # its length is not to be seen yet
    assert whole_frames(log[:137], len(log)) == (26, 112)
    assert whole_frames(log[:17], len(log)) == (0, 18)


def test_whole_frames_needs_nothing_where_the_log_has_no_further_entry() -> None:
    assert whole_frames(entry() + LONG[:50], 26 + 111) == (26, 0)  # one byte is missing at the end of the log
    assert whole_frames(entry() + bytes(20), 1000) == (26, 0)  # an impossible length
    assert whole_frames(entry() + bytes(17), 43) == (26, 0)


lengths = st.lists(st.integers(14, 80), max_size=6)


@given(lengths, st.binary(max_size=30), st.data())
def test_whole_frames_agrees_with_a_walk(lengths: list[int], tail: bytes, data: st.DataObject) -> None:
    log = b"".join(entry(length=length) for length in lengths) + tail
    have = data.draw(st.integers(0, len(log)))
    at, needed = whole_frames(log[:have], len(log))
    frames = list(frames_of(log))
    seen = [frame for frame in frames if frame.position + frame.size <= have]
    assert at == sum(frame.size for frame in seen)
    unseen = frames[len(seen) :]
    if unseen:
        assert needed == (18 if have - at <= 17 else unseen[0].size)
    else:  # more may be needed to tell that nothing follows
        assert needed == (18 if have - at <= 17 < len(log) - at else 0)
