"""What dump() promises its caller: how far it came, why it stopped, and that nothing is half written.

That its lines are the reference's is for tests/render to say.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import pytest
from damage import heal_checksums
from kafka import layout
from raw_batches import build_batch
from readers import DEEP, PRINT, Reader
from vectors import (
    BATCH,
    BATCH_GZIP,
    BATCH_LZ4,
    BATCH_SNAPPY,
    BATCH_WITH_HEADERS,
    BATCH_ZSTD,
    BATCHES,
    KRAFT_HEADER,
    MAGIC_0,
    MAGIC_0_GZIP,
    MAGIC_0_LZ4,
    MAGIC_1,
    MESSAGES,
)

from klogtool import kernels
from klogtool.format.batch import Record, inflate, parse_batch
from klogtool.render.selection import DumpForm

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


@dataclass
class Asked:
    """One call of dump(), and what it left in its caller's buffers."""

    data: bytes
    at: int = 0
    flags: str = "DEEP PRINT_DATA"
    room: int = 1 << 16
    gap_pairs: int = 100
    before: int = -1
    body: bytes | None = None
    select: Any = None
    base: int = 0
    cut: int | None = None

    def __post_init__(self) -> None:
        native = kernels.native
        self.state = native.DumpState()
        self.state.last_offset = self.before
        self.gaps, self.out = array("q", bytes(16 * self.gap_pairs)), bytearray(b"?" * self.room)
        flags = sum(getattr(native, name) for name in self.flags.split())
        cut = len(self.data) if self.cut is None else self.cut
        self.stopped_at, written, self.why = native.dump(
            self.data, self.at, cut, self.base, flags, self.state, self.gaps, self.out, self.body, self.select, b'"f"',
            segment=b",s,",
        )  # fmt: skip
        self.text = bytes(self.out[:written])

    @property
    def gap_list(self) -> list[tuple[int, int]]:
        return [(self.gaps[2 * n], self.gaps[2 * n + 1]) for n in range(self.state.gap_count)]


@pytest.fixture(autouse=True)
def _built(native: Any) -> None:
    """All of these need the extension."""


def lines_of(data: bytes, form: Any = PRINT) -> bytes:
    return Reader("reference").show(data, form).out


# ---------------------------------------------------------------- how far, and why


def test_done_at_the_cut(native: Any) -> None:
    asked = Asked(MAGIC_0.data + BATCH.data + MAGIC_1.data, cut=28 + 81)
    assert (asked.stopped_at, asked.why) == (109, native.DONE)
    assert asked.text == lines_of(MAGIC_0.data + BATCH.data)


def test_it_begins_where_it_is_told_and_counts_from_the_base(native: Any) -> None:
    asked = Asked(MAGIC_0.data + BATCH.data, at=28, base=1000)
    assert b" position: 1028 " in asked.text
    assert (asked.stopped_at, asked.why) == (109, native.DONE)


@pytest.mark.parametrize("at", [-1, 81, 82])
def test_nothing_to_do(native: Any, at: int) -> None:
    asked = Asked(BATCH.data, at=at)
    assert (asked.stopped_at, asked.text, asked.why) == (at, b"", native.DONE)


def test_a_cut_behind_the_buffer_is_not_believed(native: Any) -> None:
    assert Asked(BATCH.data, cut=82).text == b""


@pytest.mark.parametrize("vector", [BATCH_GZIP, BATCH_ZSTD, MAGIC_0_GZIP], ids=str)
def test_body_asks_for_the_records_inflated(native: Any, vector: Any) -> None:
    asked = Asked(BATCH.data + vector.data)
    assert (asked.stopped_at, asked.text, asked.why) == (81, lines_of(BATCH.data), native.BODY)
    if vector is BATCH_GZIP:
        body = inflate(parse_batch(vector.data))
        again = Asked(BATCH.data + vector.data + BATCH_ZSTD.data, at=81, body=body, before=1)
        assert (again.stopped_at, again.why) == (81 + len(vector.data), native.BODY)  # the body was the first's only
        assert again.text == lines_of(BATCH.data + vector.data)[len(lines_of(BATCH.data)) :]


@pytest.mark.parametrize("vector", [BATCH_SNAPPY, BATCH_LZ4, MAGIC_0_LZ4], ids=str)
def test_lz4_and_snappy_are_inflated_on_the_way(native: Any, vector: Any) -> None:
    assert (Asked(vector.data).text, Asked(vector.data).why) == (lines_of(vector.data), native.DONE)


@pytest.mark.parametrize("vector", [*MESSAGES, *BATCHES], ids=str)
def test_shallow_no_body_is_needed(native: Any, vector: Any) -> None:
    asked = Asked(vector.data, flags="")
    assert (asked.text, asked.why) == (lines_of(vector.data, DumpForm()), native.DONE)


@pytest.mark.parametrize("flags", ["DEEP", "DEEP PRINT_DATA", "DEEP JSON"])
def test_an_entry_for_the_reference_is_not_touched(native: Any, flags: str) -> None:
    broken = bytearray(BATCH_WITH_HEADERS.data)
    broken[-1] = 2  # a header that is not there
    heal_checksums(broken)
    for data in (bytes(broken), KRAFT_HEADER.data):
        asked = Asked(BATCH.data + data, flags=flags)
        assert (asked.stopped_at, asked.why, asked.state.last_offset) == (81, native.REFERENCE, 1)
        alone = Asked(BATCH.data, flags=flags)
        assert (asked.text, asked.gap_list, asked.state.invalid) == (alone.text, alone.gap_list, 0)


def test_an_entry_that_contradicts_its_frame_is_for_the_reference(native: Any) -> None:
    for length in (13, 48, 70, -1):
        data = BATCH.data[:8] + length.to_bytes(4, "big", signed=True) + BATCH.data[12:]
        assert (Asked(data).why, Asked(data).text) == (native.REFERENCE, b"")


@pytest.mark.parametrize(
    "record",
    [
        "14 00 00 ffffffff7f 01 01 00",  # bits that an int has no room for
        "1e 00 ffffffffffffffffff7f 00 01 01 00",  # and a long
        "1c 00 8180808000 8000 8100 8300 8000",  # more bytes than needed
        "0c ff 00 05 7f 0f 00",  # attributes, a delta below 0, null keys and values of any negative size
    ],
)
def test_odd_records_are_read_here(native: Any, record: str) -> None:
    header = layout.with_field(BATCH.data[:61], layout.BATCH, "records_count", 1)
    data = layout.sealed(header + bytes.fromhex(record))
    asked = Asked(data)
    assert (asked.why, asked.text) == (native.DONE, lines_of(data))


# ---------------------------------------------------------------- room


@pytest.mark.parametrize(
    "flags", ["", "DEEP", "DEEP PRINT_DATA", "DEEP PRINT_DATA SKIP_METADATA", "DEEP JSON", "DEEP CSV"]
)
def test_in_however_little_room_the_same_is_said(native: Any, flags: str) -> None:
    """Entry by entry in as much room as was asked for; before that nothing is written, and nothing counted."""
    data = b"".join(vector.data for vector in (*MESSAGES, *BATCHES) if vector.codec in ("none", "lz4", "snappy"))
    data = data[: data.index(KRAFT_HEADER.data)]
    whole = Asked(data, flags=flags)
    assert whole.why == native.DONE
    at, text, gaps, last = 0, b"", [], -1
    while at < len(data):
        asked = Asked(data, at=at, flags=flags, room=1, before=last)
        assert (asked.stopped_at, asked.text, asked.why, asked.state.gap_count) == (at, b"", native.FULL, 0)
        asked = Asked(data, at=at, flags=flags, room=asked.state.needed, before=last)
        assert asked.stopped_at > at
        at, text, last = asked.stopped_at, text + asked.text, asked.state.last_offset
        gaps += asked.gap_list
    assert (text, gaps, last) == (whole.text, whole.gap_list, whole.state.last_offset)


def test_what_is_written_is_whole_entries(native: Any) -> None:
    data = EVERY_KIND[: EVERY_KIND.index(MAGIC_0_GZIP.data)]
    for room in range(1, 4000, 37):
        asked = Asked(data, room=room)
        assert asked.text == lines_of(data[: asked.stopped_at])
        assert (asked.why == native.DONE) == (asked.stopped_at == len(data))


def test_full_of_gaps(native: Any) -> None:
    data = build_batch([Record(0, 0, None, None)]) + build_batch([Record(n, 0, None, None) for n in (5, 9, 11)])
    asked = Asked(data, gap_pairs=2)
    assert (asked.stopped_at, asked.why, asked.gap_list) == (68, native.FULL, [])
    asked = Asked(data, gap_pairs=3)
    assert (asked.stopped_at, asked.why, asked.gap_list) == (len(data), native.DONE, [(0, 5), (5, 9), (9, 11)])


def test_an_entry_that_would_need_a_gigabyte_is_for_the_reference(native: Any) -> None:
    for count, why in ((300_000, native.FULL), (3_400_000, native.REFERENCE)):
        body = bytes.fromhex("0c 00 00 00 01 01 00") * count
        header = layout.with_field(BATCH.data[:61], layout.BATCH, "records_count", count)
        data = layout.with_field(header, layout.BATCH, "length", 49 + len(body)) + body
        asked = Asked(data, flags="DEEP", room=1)
        assert (asked.why, asked.stopped_at, asked.text) == (why, 0, b"")


@pytest.mark.parametrize(("gaps", "room"), [(1, 1), (2, 0)])
def test_buffers_that_are_too_small(native: Any, gaps: int, room: int) -> None:
    with pytest.raises(ValueError, match="too small"):
        native.dump(BATCH.data, 0, 81, 0, 0, native.DumpState(), array("q", bytes(8 * gaps)), bytearray(room))


# ---------------------------------------------------------------- what it counts


def test_gaps_and_the_last_offset(native: Any) -> None:
    data = build_batch([Record(n, 0, None, None) for n in (5, 6, 9)])
    asked = Asked(data)
    assert (asked.gap_list, asked.state.last_offset) == ([(-1, 5), (6, 9)], 9)
    asked = Asked(data, before=4)
    assert (asked.gap_list, asked.state.last_offset) == ([(6, 9)], 9)
    asked = Asked(data, flags="", before=4)
    assert (asked.gap_list, asked.state.last_offset) == ([], 4)


def test_wrong_checksums(native: Any) -> None:
    bad_batch, bad_message = bytearray(BATCH.data), bytearray(MAGIC_1.data)
    bad_batch[-3] ^= 1
    bad_message[-1] ^= 1
    asked = Asked(MAGIC_0.data + bytes(bad_message) + bytes(bad_batch), base=100, flags="")
    assert (asked.state.invalid, asked.state.first_invalid) == (2, 128)
    assert Asked(EVERY_KIND, flags="").state.invalid == 0


def test_a_selection_is_counted_only_where_it_looks(native: Any) -> None:
    """Offsets are seen in all batches that may hold wanted records, and in no other."""
    select = native.Selection((20, 20), (-(2**63), 2**63 - 1), None, None, None)
    asked = Asked(BATCH.data + BATCH_WITH_HEADERS.data, select=select)
    assert (asked.gap_list, asked.state.last_offset) == ([(-1, 20)], 21)
    assert asked.text.count(b"\n") == 2


def test_a_selection_keeps_what_it_was_given(native: Any) -> None:
    """The bytes of a key that nobody else holds any more."""
    select = native.Selection((0, 100), (0, 2**62), None, bytes(bytearray(b"a")), bytes(bytearray(b"b")))
    for _ in range(3):
        assert Asked(BATCH_WITH_HEADERS.data, select=select).text.count(b"| offset: 20") == 1


def test_flags_and_reasons_are_numbers_of_their_own(native: Any) -> None:
    flags = [native.DEEP, native.PRINT_DATA, native.SKIP_METADATA, native.JSON]
    assert sum(flags) == flags[0] | flags[1] | flags[2] | flags[3]
    assert len({native.DONE, native.FULL, native.BODY, native.REFERENCE}) == 4


def test_deep_is_asked_for_by_one_flag(native: Any) -> None:
    assert Asked(BATCH.data, flags="DEEP").text == lines_of(BATCH.data, DEEP)
    assert Asked(BATCH.data, flags="PRINT_DATA").text == lines_of(BATCH.data, DumpForm())
