"""Entries as lines, by both readers: the same lines, the same end, the same words about it."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from damage import heal_checksums
from hypothesis import given
from hypothesis import strategies as st
from kafka import layout
from msgspec import structs
from raw_batches import build_batch, raw_batch
from readers import DEEP, PRINT, PRINT_WITHOUT_METADATA, READERS, SHALLOW, Reader, Shown, log_file
from vectors import (
    ABORT,
    BATCH,
    BATCH_WITH_HEADERS,
    BATCHES,
    COMPRESSED_BATCHES,
    MAGIC_0,
    MAGIC_1,
    MESSAGES,
)

from klogtool import kernels
from klogtool.format.batch import CODEC_NAMES, Header, Record, build_record
from klogtool.format.framing import Frame
from klogtool.format.message import build_message, build_message_set
from klogtool.log.file import LogFile
from klogtool.log.windows import Window
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.selection import LARGEST, SMALLEST, DumpForm, Selection

GOLDEN = pathlib.Path(__file__).parent / "data"
FORMS = {
    "shallow": DumpForm(SHALLOW),
    "deep": DumpForm(DEEP),
    "print": DumpForm(PRINT),
    "bare": DumpForm(PRINT_WITHOUT_METADATA),
    "json": DumpForm(json_file="t-0/0.log"),
}
EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

HERE = [name for name in READERS if name == "reference" or kernels.is_built()]
needs_kernel = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")


def raw(body: bytes, *, records_count: int, **fields: int) -> bytes:
    return raw_batch(body, records_count=records_count, last_offset_delta=max(0, records_count - 1), **fields)


def offsets_shown(shown: Shown) -> list[int]:
    """Of the record lines."""
    return [int(line.split()[2]) for line in shown.lines if line.startswith("| offset: ")]


def batches_shown(shown: Shown) -> list[int]:
    """Positions of the entries whose lines are whole."""
    return [int(line.partition(" position: ")[2].split()[0]) for line in shown.lines if " position: " in line]


# ---------------------------------------------------------------- what Kafka printed


@pytest.mark.parametrize("span_bytes", [None, 1, 300])
@pytest.mark.parametrize("window_bytes", [1, 100, 700, 1 << 19])
@pytest.mark.parametrize("name", FORMS)
def test_entries_of_every_kind(reader: Reader, name: str, window_bytes: int, span_bytes: int | None) -> None:
    """In windows so small that entries straddle them, too; and on threads that begin in the middle of entries."""
    spans = {} if span_bytes is None else {"span_bytes": span_bytes, "jobs": 2}
    shown = reader.show(EVERY_KIND, FORMS[name], window_bytes=window_bytes, **spans)
    assert shown.text == (GOLDEN / f"every-kind.{name}.txt").read_text()
    assert (shown.error, shown.passed_over, shown.invalid, shown.first_invalid) == (None, (), 0, None)
    if name == "shallow":
        assert (shown.gaps, shown.last_offset) == ({}, -1)
    else:
        assert shown.gaps == {2: 9, 10: 3, 8: 11, 14: 0, 1: 20, 29: 3, 4: 8, 9: 0}
        assert shown.last_offset == 4


@pytest.mark.parametrize("vector", [*MESSAGES, *BATCHES], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_each_kind_alone(reader: Reader, name: str, vector: Any) -> None:
    """The same line as among the others, but for its position."""
    entries = [*MESSAGES, *BATCHES]
    position = sum(len(other.data) for other in entries[: entries.index(vector)])
    others = reader.show(EVERY_KIND[:position], FORMS[name]).out
    so_far = reader.show(EVERY_KIND[: position + len(vector.data)], FORMS[name]).out
    mark = {True: (b'position":%d,', b'position":0,'), False: (b" position: %d ", b" position: 0 ")}[name == "json"]
    assert reader.show(vector.data, FORMS[name]).out == so_far[len(others) :].replace(mark[0] % position, mark[1])


def test_a_batch_line_and_a_record_line() -> None:
    assert Reader("reference").show(BATCH.data).lines[:2] == [
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1"
        " partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
        " position: 0 CreateTime: 1600000000005 size: 81 magic: 2 compresscodec: none crc: 1597915009 isvalid: true",
        "| offset: 0 CreateTime: 1600000000000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k0 payload: v0",
    ]


@needs_kernel
@pytest.mark.parametrize("name", FORMS)
def test_the_kernel_leaves_regular_entries_to_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but KRaft's control records, which only the reference knows in full."""
    from klogtool.render import log_lines

    left: list[int] = []
    take_frame = log_lines.LineMaker.take_frame

    def spied(maker: log_lines.LineMaker, window: Window, frame: Frame) -> None:
        left.append(window.base + frame.position)
        take_frame(maker, window, frame)

    monkeypatch.setattr(log_lines.LineMaker, "take_frame", spied)
    Reader("kernel").show(EVERY_KIND, FORMS[name])
    kraft = [1526, 1609, 1686, 1805, 1891] if name in ("deep", "print", "json") else []
    assert left == kraft


# ---------------------------------------------------------------- text


def test_null_and_empty_keys_and_values(reader: Reader) -> None:
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"k", None)]
    records = [Record(n, 0, key, value) for n, (key, value) in enumerate(pairs)]
    expected = ["", " payload: ", " key: ", " key:  payload: ", " key: k"]
    bare = ["", "| payload: ", "| key: ", "| key:  payload: ", "| key: k"]
    for data in (build_batch(records), build_message_set(records, magic=1, codec="snappy")):
        lines = reader.show(data).lines[1:]
        for line, record in zip(lines, records, strict=True):
            assert f" keySize: {record.key_size} valueSize: {record.value_size} " in line
        tail = "headerKeys: []" if data[16] == 2 else "crc: "
        assert [line.partition(tail)[2].lstrip("0123456789") for line in lines] == expected
        assert reader.show(data, PRINT_WITHOUT_METADATA).lines[1:] == bare


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\nb\tc\0", "a\nb\tc\0"),
        ("ä€😀".encode(), "ä€😀"),
        (b"\xff\xfe", "��"),
        (b"\xc3", "�"),
        (b"\xe2\x82", "�"),
        (b"\xe2\x82x", "�x"),
        (b"\xf0\x9f\x98", "�"),
        (b"\xed\xa0\x80", "�"),  # an encoded surrogate is one, not three
        (b"\xed\xa0\x80\xed\xb0\x80", "��"),
        (b"\xc0\x80", "��"),
        (b"\xe0\x80\x80", "���"),
        (b"\xf5\x80\x80\x80", "����"),
        (b"\xf4\x90\x80\x80", "����"),
        (b"plain text \xffand more of it", "plain text �and more of it"),
    ],
)
def test_what_is_no_utf8_is_printed_as_java_does(reader: Reader, data: bytes, text: str) -> None:
    record = Record(0, 0, data, data, (Header(data, None),))
    line = reader.show(build_batch([record])).text.partition("\n")[2]
    assert line.endswith(f" headerKeys: [{text}] key: {text} payload: {text}\n")
    message = build_message(0, data, data, magic=1)
    assert reader.show(message).text.endswith(f" key: {text} payload: {text}\n")


@given(st.binary(max_size=60))
def test_any_bytes_are_printed_alike(data: bytes) -> None:
    record = Record(0, 0, data, data, (Header(data, data),))
    for form in (DumpForm(PRINT), DumpForm(json_file="0.log")):
        assert len({Reader(name).show(build_batch([record]), form).out for name in HERE}) == 1


def test_a_control_batch_prints_neither_key_nor_value(reader: Reader) -> None:
    assert reader.show(ABORT.data).lines[1].endswith(" headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 7")
    assert reader.show(ABORT.data, PRINT_WITHOUT_METADATA).lines[1:] == [""]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("0000 0001 ffff", "0000 ffffffff 00", " endTxnMarker: COMMIT coordinatorEpoch: -1"),
        ("0005 0000", "0007 00000001", " endTxnMarker: ABORT coordinatorEpoch: 1"),
        ("0000 0063", "", " controlType: UNKNOWN(99)"),
        ("0000 ffff", "", " controlType: UNKNOWN(-1)"),
        ("0000 ffff", "0000 00000001", " controlType: UNKNOWN(-1)"),
    ],
)
def test_control_records_a_little_off(reader: Reader, key: str, value: str, text: str) -> None:
    record = Record(0, 0, bytes.fromhex(key), bytes.fromhex(value))
    assert reader.show(build_batch([record], is_control=True)).lines[1].endswith(f" headerKeys: []{text}")


@pytest.mark.parametrize(
    ("key", "value"), [("0000 00", ""), ("", ""), ("ffff 0000", "0000 00000001"), ("0000 0000", "0000 0000")]
)
def test_control_records_that_end_the_dump(reader: Reader, key: str, value: str) -> None:
    records = [Record(0, 0, bytes.fromhex(key), bytes.fromhex(value))]
    shown = reader.show(build_batch(records, is_control=True) + BATCH.data)
    assert shown.error is not None
    assert shown.out.endswith(b" headerKeys: []")  # half a line
    assert reader.show(build_batch(records, is_control=True), PRINT_WITHOUT_METADATA).error is None


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 12345, LONG_MAX, -1, -10, -(2**63)])
def test_numbers_of_any_length(reader: Reader, number: int) -> None:
    data = raw(bytes.fromhex("0c 00 00 00 01 01 00"), records_count=1, base_offset=number)
    lines = reader.show(data, DEEP).lines
    assert lines[0].startswith(f"baseOffset: {number} lastOffset: {number} ")
    assert lines[1].startswith(f"| offset: {number} ")


# ---------------------------------------------------------------- offsets that do not follow


def test_gaps_begin_before_the_first_record(reader: Reader) -> None:
    records = [Record(n, 0, None, b"") for n in (5, 6, 8)]
    shown = reader.show(build_batch(records) + build_batch([Record(20, 0, None, b"")]), DEEP)
    assert (shown.gaps, shown.last_offset) == ({-1: 5, 6: 8, 8: 20}, 20)


def test_no_gap_where_a_log_begins_at_zero(reader: Reader) -> None:
    assert reader.show(BATCH.data, DEEP).gaps == {}


@pytest.mark.parametrize("window_bytes", [1, 200, 1 << 19])
def test_gaps_are_found_across_windows(reader: Reader, window_bytes: int) -> None:
    offsets = [0, 1, 2, 5, 6, 100]
    data = b"".join(build_batch([Record(n, 0, None, b"v" * 50)]) for n in offsets)
    shown = reader.show(data, DEEP, window_bytes=window_bytes, jobs=2, span_bytes=100)
    assert (shown.gaps, shown.last_offset) == ({2: 5, 6: 100}, 100)


def test_after_the_largest_offset_comes_the_smallest(reader: Reader) -> None:
    body = b"".join(build_record(Record(n, 0, None, b""), base_offset=0, base_timestamp=0) for n in range(2))
    shown = reader.show(raw(body, records_count=2, base_offset=LONG_MAX), DEEP)
    assert offsets_shown(shown) == [LONG_MAX, -(2**63)]
    assert (shown.gaps, shown.last_offset) == ({-1: LONG_MAX}, -(2**63))


def test_many_gaps_are_all_told(reader: Reader) -> None:
    records = [Record(2 * n + 1, 0, None, None) for n in range(3000)]
    shown = reader.show(build_batch(records), DEEP)
    assert shown.gaps == {2 * n - 1: 2 * n + 1 for n in range(3000)}


# ---------------------------------------------------------------- damage, one kind at a time


def test_a_wrong_checksum_does_not_end_a_dump(reader: Reader) -> None:
    wounded = bytearray(BATCH.data)
    wounded[-4] ^= 1
    shown = reader.show(MAGIC_1.data + bytes(wounded) * 2, DEEP)
    assert shown.text.count(" isvalid: false\n") == 2
    assert (shown.error, shown.invalid, shown.first_invalid) == (None, 2, len(MAGIC_1.data))
    assert len(offsets_shown(shown)) == 5


@pytest.mark.parametrize("size", range(1, 18))
def test_stray_bytes_at_the_end_are_passed_over(reader: Reader, size: int) -> None:
    shown = reader.show(BATCH.data + bytes(size), DEEP)
    assert (shown.text, shown.error) == (reader.show(BATCH.data, DEEP).text, None)


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_a_length_below_fourteen_ends_a_dump(reader: Reader, length: int) -> None:
    bad = b"\0" * 8 + length.to_bytes(4, "big", signed=True) + bytes(6)
    for window_bytes in (1, 1 << 19):
        shown = reader.show(BATCH.data + bad + BATCH.data, DEEP, window_bytes=window_bytes)
        assert shown.text == reader.show(BATCH.data, DEEP).text
        reason = f"record size {length} is smaller than the minimum record overhead (14)"
        assert shown.error == ("Corrupt", 81, reason, "CorruptRecordException")


@pytest.mark.parametrize("missing", [1, 40, 80])
def test_an_entry_that_is_not_whole_is_passed_over(reader: Reader, missing: int) -> None:
    shown = reader.show(BATCH.data + BATCH.data[:-missing], DEEP)
    assert (batches_shown(shown), shown.error) == ([0], None)


@pytest.mark.parametrize("end", [0, 80, 81, 82, 161])
def test_the_end_may_lie_before_the_files(reader: Reader, end: int) -> None:
    shown = reader.show(BATCH.data * 2, DEEP, end=end)
    assert (batches_shown(shown), shown.error) == ([0] if end >= 81 else [], None)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not_leaves_half_a_line(reader: Reader, codec: int) -> None:
    data = raw(b"x", records_count=1, attributes=codec)
    shown = reader.show(MAGIC_0.data + data + BATCH.data, SHALLOW)
    assert shown.text.endswith(" deleteHorizonMs: OptionalLong.empty")
    assert shown.error == ("Unsupported", 28, f"unknown compression type id: {codec}", "IllegalArgumentException")
    message = layout.Message(7, 1, codec, 5, None, b"v").build()
    shown = reader.show(message + BATCH.data, SHALLOW)
    assert shown.out == b"offset: 7"
    assert shown.error == ("Unsupported", 0, f"unknown compression type id: {codec}", "IllegalArgumentException")


@pytest.mark.parametrize("magic", [3, 4, 127])
def test_a_magic_to_come_is_printed_as_a_batch(reader: Reader, magic: int) -> None:
    record = build_record(Record(0, 5, b"k", b"v"), base_offset=0, base_timestamp=0)
    lines = reader.show(raw(record, records_count=1, magic=magic)).lines
    assert f" magic: {magic} compresscodec: none " in lines[0]
    assert lines[0].endswith(" isvalid: true")
    assert lines[1].endswith(" headerKeys: [] key: k payload: v")


@pytest.mark.parametrize("magic", [-1, -128])
def test_a_negative_magic_leaves_an_offset(reader: Reader, magic: int) -> None:
    data = MAGIC_1.data[:16] + magic.to_bytes(1, "big", signed=True) + MAGIC_1.data[17:]
    for options in (SHALLOW, PRINT):
        shown = reader.show(MAGIC_0.data + data, options)
        assert shown.text == reader.show(MAGIC_0.data, options).text + "offset: 9"
        assert shown.error is not None
        assert shown.error[1] == 28


@pytest.mark.parametrize("length", range(14, 49))
def test_a_batch_shorter_than_its_header_reads_what_is_behind_it(reader: Reader, length: int) -> None:
    short = layout.with_field(BATCH.data, layout.BATCH, "length", length)
    shown = reader.show(short, SHALLOW)
    assert shown.lines[0].endswith(f" size: {12 + length} magic: 2 compresscodec: none crc: 1597915009 isvalid: false")
    deep = reader.show(short, DEEP)
    assert deep.out.startswith(shown.out[: shown.out.index(b"\n") + 1])
    assert deep.error == ("Corrupt", 0, "batch is smaller than its header", "IndexOutOfBoundsException")


@pytest.mark.parametrize("window_bytes", [64, 65, 80, 100, 129, 150, 1 << 19])
def test_a_header_may_reach_behind_the_entries_of_a_window(reader: Reader, window_bytes: int) -> None:
    """Entries that end anywhere at the end of a window, and are shorter than the header that is read."""
    short = layout.with_field(BATCH.data, layout.BATCH, "length", 14)[:26]
    for before in range(8):
        data = MAGIC_0.data * before + short * 3 + BATCH.data
        shown = reader.show(data, SHALLOW, window_bytes=window_bytes)
        assert shown.error is None
        assert len(batches_shown(shown)) == before + 4
        assert shown.lines[-2].endswith(" size: 26 magic: 2 compresscodec: none crc: 1597915009 isvalid: false")


def test_a_header_that_the_file_ends_in(reader: Reader) -> None:
    short = layout.with_field(BATCH.data, layout.BATCH, "length", 14)[:26]
    shown = reader.show(MAGIC_0.data + short, SHALLOW)
    assert shown.error == ("Corrupt", 28, "the file ends inside the batch header", "KafkaException")
    assert batches_shown(shown) == [0]


RECORDS = [Record(n, 0, None, b"v%d" % n) for n in range(4)]
GOOD = [build_record(record, base_offset=0, base_timestamp=0) for record in RECORDS]
BROKEN = bytes.fromhex("0c 00 00 04 01 01 02")
BODIES = {
    "a broken third": (b"".join((*GOOD[:2], BROKEN, GOOD[3])), 4, [0, 1]),
    "a broken first": (b"".join((BROKEN, *GOOD[1:])), 4, []),
    "a byte behind the last": (b"".join(GOOD) + b"\0", 4, [0, 1, 2]),
    "fewer than counted": (b"".join(GOOD), 5, [0, 1, 2, 3]),
    "more than counted": (b"".join(GOOD), 3, [0, 1]),
    "far fewer than counted": (b"".join(GOOD), INT_MAX, [0, 1, 2, 3]),
    "a negative count": (b"".join(GOOD), -1, []),
    "a negative count of nothing": (b"", -1, []),
}


@pytest.mark.parametrize("name", BODIES)
def test_of_a_plain_batch_the_records_before_a_broken_one_are_printed(reader: Reader, name: str) -> None:
    body, count, offsets = BODIES[name]
    shown = reader.show(MAGIC_0.data + raw(body, records_count=count, base_offset=1), DEEP)
    assert offsets_shown(shown) == [0, *(1 + offset for offset in offsets)]
    assert shown.error is not None
    assert (shown.error[0], shown.error[1], shown.error[3]) == ("Corrupt", 28, "InvalidRecordException")
    assert (batches_shown(shown), shown.invalid) == ([0, 28], 0)
    assert shown.last_offset == (offsets[-1] + 1 if offsets else 0)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_of_a_compressed_batch_none_is(reader: Reader, name: str, codec: int) -> None:
    body, count, _ = BODIES[name]
    packed = layout.compress(codec, body)
    shown = reader.show(MAGIC_0.data + raw(packed, records_count=count, attributes=codec), DEEP)
    assert (offsets_shown(shown), batches_shown(shown)) == ([0], [0, 28])
    assert shown.error is not None
    assert (shown.error[1], shown.error[3]) == (28, "InvalidRecordException")


@pytest.mark.parametrize("codec", range(5))
def test_a_count_of_zero_is_believed(reader: Reader, codec: int) -> None:
    shown = reader.show(raw(b"garbage", records_count=0, attributes=codec), PRINT)
    assert (len(shown.lines), shown.error, shown.invalid) == (1, None, 0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_every_framing_of_a_codec_is_read_or_refused_alike(codec: int) -> None:
    body = b"".join(GOOD)
    for way, packed in layout.framings(codec, body).items():
        data = raw(packed, records_count=4, attributes=codec) + BATCH.data
        shown = [Reader(name).show(data, form) for form in (PRINT, FORMS["json"]) for name in HERE]
        half = len(shown) // 2
        assert len({str(s) for s in shown[:half]}) == len({str(s) for s in shown[half:]}) == 1, way
        wrapper = layout.Message(9, 0, codec, -1, None, packed).build()
        assert len({str(Reader(name).show(wrapper + BATCH.data)) for name in HERE}) == 1, way


def sized(key_size: int, value_size: int) -> bytes:
    """A message of magic 1 with a key of 1 byte and a value of 2, whatever its size fields say."""
    plain = bytearray(build_message(5, b"k", b"vv", magic=1))
    plain[26:30] = key_size.to_bytes(4, "big", signed=True)
    plain[31:35] = value_size.to_bytes(4, "big", signed=True)
    heal_checksums(plain)
    return bytes(plain)


@pytest.mark.parametrize(
    ("key_size", "value_size", "line"),
    [
        (1, 1, " keySize: 1 valueSize: 1 isValid: true"),  # it ends too early
        (1, -1, " keySize: 1 valueSize: -1 isValid: true"),
        (1, -77, " keySize: 1 valueSize: -77 isValid: true"),
        (1, 3, " keySize: 1 valueSize: 3 isValid: true"),  # it goes past the end
        (1, INT_MAX, f" keySize: 1 valueSize: {INT_MAX} isValid: true"),
        (INT_MAX, 2, None),
        (4, 2, None),
    ],
)
def test_sizes_that_do_not_fit_a_message(reader: Reader, key_size: int, value_size: int, line: str | None) -> None:
    """Without data only the sizes are looked at; with data a value past the end ends the dump behind them."""
    data = MAGIC_0.data + sized(key_size, value_size) + BATCH.data
    deep, printed = reader.show(data, DEEP), reader.show(data, PRINT)
    assert reader.show(data, SHALLOW).error is None
    if line is None:
        assert deep.error == printed.error
        assert deep.error is not None
        assert deep.error[3] == "IndexOutOfBoundsException"
        assert batches_shown(deep) == [0, 28]
        return
    assert deep.error is None
    assert line in deep.lines[3]
    assert (printed.error is None) == (value_size <= 2)
    if printed.error is not None:
        assert printed.error[1:2] == (28,)
        assert printed.error[3] == "IllegalArgumentException"
        assert printed.lines[3] == deep.lines[3]  # half a line


def test_a_message_without_room_for_sizes(reader: Reader) -> None:
    data = layout.sealed(bytes(16) + b"\1\0" + bytes(8))
    assert reader.show(data, SHALLOW).lines[0].startswith("offset: 0 position: 0 CreateTime: 0 size: 26 magic: 1 ")
    shown = reader.show(data, DEEP)
    assert shown.error is not None
    assert shown.error[3] == "IndexOutOfBoundsException"
    assert len(shown.lines) == 1


def wrapper(inside: bytes, codec: str = "gzip", **fields: object) -> bytes:
    codec_id = CODEC_NAMES.index(codec)
    found = layout.Message(100, 1, codec_id, 5, None, layout.compress(codec_id, inside))
    return replace(found, **fields).build()


def inner(offset: int, *, magic: int = 1, attributes: int = 0) -> bytes:
    built = layout.Message(offset, min(magic, 1), attributes, 5, None, b"v").build()
    return layout.put(built, 16, bytes([magic]))


WRAPPERS = {
    "relative": (wrapper(inner(0) + inner(1)), [99, 100], None),
    "lz4": (wrapper(inner(0) + inner(1), "lz4"), [99, 100], None),
    "snappy": (wrapper(inner(0) + inner(1), "snappy"), [99, 100], None),
    "offset 0": (wrapper(inner(0) + inner(1), offset=0), [0, 1], None),
    "absolute under magic 0": (wrapper(inner(3) + inner(9), magic=0), [3, 9], None),
    "inner magic 0": (wrapper(inner(0, magic=0) + inner(1, magic=0)), [99, 100], None),
    "offsets around 2^63": (wrapper(inner(3) + inner(0), offset=LONG_MAX), [-(2**63) + 2, LONG_MAX], None),
    "an offset too small": (wrapper(inner(0) + inner(101)), [], "InvalidRecordException"),
    "around nothing": (wrapper(b""), [], "InvalidRecordException"),
    "no value": (wrapper(b"", value=None), [], "InvalidRecordException"),
    "no frame": (wrapper(b"", value=b"\xff" * 20), [], "KafkaException"),
    "stray bytes inside": (wrapper(inner(0) + b"\xff" * 11), [100], None),
    "a message cut off inside": (wrapper(inner(0) + inner(1)[:-1]), [100], None),
    "a small size inside": (wrapper(inner(0) + bytes(12)), [], "CorruptRecordException"),
    "nested": (wrapper(inner(0) + wrapper(inner(0), offset=1)), [99], "InvalidRecordException"),
    "nested, first": (wrapper(wrapper(inner(0), offset=0) + inner(1)), [], "InvalidRecordException"),
    "zstd": (wrapper(inner(0), "zstd"), [], "InvalidRecordException"),
    "an inner codec that there is not": (wrapper(inner(0) + inner(1, attributes=6)), [99], "IllegalArgumentException"),
    "an inner magic that there is not": (wrapper(inner(0) + inner(1, magic=9)), [99, 100], None),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers(reader: Reader, name: str) -> None:
    data, offsets, kafka_class = WRAPPERS[name]
    shown = reader.show(MAGIC_0.data + data, DEEP)
    assert offsets_shown(shown) == [0, *offsets]
    assert batches_shown(shown) == [0, 28]
    assert (shown.error and shown.error[1:2], shown.error and shown.error[3]) == (
        (None, None) if kafka_class is None else ((28,), kafka_class)
    )


@pytest.mark.parametrize(
    ("fields", "inside", "name", "times"),
    [
        ({"attributes": 1}, inner(0) + inner(1, attributes=8), "CreateTime", [5, 5]),
        ({"attributes": 9, "timestamp": 77}, inner(0) + inner(1), "LogAppendTime", [77, 77]),
        ({"attributes": 9, "timestamp": 77}, inner(0, magic=0) + inner(1), "LogAppendTime", [-1, 77]),
        ({"attributes": 9, "magic": 0}, inner(0) + inner(1, magic=0), "NoTimestampType", [5, -1]),
    ],
)
def test_whose_time_inner_messages_have(
    reader: Reader, fields: dict[str, int], inside: bytes, name: str, times: list[int]
) -> None:
    shown = reader.show(wrapper(inside, **fields), DEEP)
    assert shown.error is None
    assert [line.split()[3:5] for line in shown.lines[1:]] == [[f"{name}:", str(time)] for time in times]


def test_behind_a_damaged_entry_nothing_is_printed(reader: Reader) -> None:
    data = raw(BROKEN, records_count=1) + BATCH.data
    for jobs, span_bytes in ((1, 1 << 19), (2, 1)):
        assert batches_shown(reader.show(data, DEEP, jobs=jobs, span_bytes=span_bytes)) == [0]


def test_with_go_on_everything_is(reader: Reader) -> None:
    data = raw(BROKEN, records_count=1) + BATCH.data + bytes(40) + BATCH_WITH_HEADERS.data + b"tail"
    shown = reader.show(data, DumpForm(DEEP, go_on=True))
    assert shown.error is None
    assert batches_shown(shown) == [0, 68, 189]
    assert offsets_shown(shown) == [0, 1, 20, 21]
    assert [error[1] for error in shown.passed_over] == [0, 149, 149]
    assert shown.passed_over[2][2] == "40 bytes are not a batch: skipped"


def test_json_tells_of_a_batch_that_no_reader_takes_and_goes_on(reader: Reader) -> None:
    """Text ends there, as Kafka's tool does; with a right checksum JSON does, too."""
    broken = bytearray(raw(BROKEN, records_count=1))
    broken[17] ^= 1
    shown = reader.show(bytes(broken) + BATCH.data, FORMS["json"])
    assert shown.error is None
    assert [error[1] for error in shown.passed_over] == [0]
    assert [line[9:14] for line in shown.lines] == ["batch", "error", "batch", "recor", "recor"]
    shown = reader.show(raw(BROKEN, records_count=1) + BATCH.data, FORMS["json"])
    assert shown.error is not None
    assert [line[9:14] for line in shown.lines] == ["batch", "error"]


def test_a_file_that_was_cut_while_it_is_read_ends_where_it_ends(reader: Reader) -> None:
    for size in (0, 1, 11, 17, 18, 80, 81, 90, 100, 161):
        with log_file(BATCH.data * 2) as path, LogFile(path) as file, reader.reading():
            os.truncate(path, size)
            pieces, dump = [], LogDump()
            dump_log_lines(file, DumpForm(DEEP), lambda piece: pieces.append(bytes(piece)), dump, end=162)  # noqa: B023
            assert b"".join(pieces).count(b"baseOffset") == size // 81, size
            assert dump.valid_bytes == size // 81 * 81


# ---------------------------------------------------------------- room


def test_a_batch_whose_text_is_larger_than_any_buffer(reader: Reader) -> None:
    value = b"x" * 3_000_000
    shown = reader.show(build_batch([Record(0, 0, None, value), Record(1, 0, b"k", b"v")]))
    assert shown.out.count(b"x") == len(value) + shown.lines[0].count("x")
    assert shown.lines[2].endswith("key: k payload: v")
    assert (shown.error, shown.gaps) == (None, {})


def test_more_text_than_a_buffer_holds(reader: Reader) -> None:
    data = b"".join(build_batch([Record(n, 0, b"k", b"v" * 9000)]) for n in range(200))
    shown = reader.show(data, jobs=2, span_bytes=1 << 19)
    assert offsets_shown(shown) == list(range(200))
    assert shown.gaps == {}


@pytest.mark.slow
@needs_kernel
def test_more_gaps_than_a_buffer_holds() -> None:
    body = b"".join(build_record(Record(2 * n, 0, None, None), base_offset=0, base_timestamp=0) for n in range(70_000))
    data = raw(body, records_count=70_000)
    shown = Reader("kernel").show(data, DEEP)  # the reference has no such buffer, and would take its time
    assert len(shown.gaps) == 69_999
    assert len(shown.lines) == 70_001


# ---------------------------------------------------------------- selections

RECORDS = [record for entry in (*MESSAGES, *BATCHES) for record in entry.records]
EVERYTHING = Selection()
# Conditions of one kind, of which each record meets exactly one; but no key and no text selects what has none.
PARTS = {
    "offsets": [Selection(offsets=bounds) for bounds in ((SMALLEST, 3), (4, 20), (21, 21), (22, LARGEST))],
    "timestamps": [
        Selection(timestamps=bounds)
        for bounds in ((SMALLEST, -2), (-1, 1600000000000), (1600000000001, 1600000000005), (1600000000006, LARGEST))
    ],
    "producers": [Selection(producer_id=producer_id) for producer_id in (-1, 50, 51, 52)],
    "keys": [
        Selection(key=key) for key in sorted({record.key for record in RECORDS if record.key is not None} | {b""})
    ],
}
SELECTIONS = {f"{kind} {n}": one for kind, parts in PARTS.items() for n, one in enumerate(parts)}
SELECTIONS |= {f"grep {text!r}": Selection(grep=text) for text in (b"k", b"bb", b"\0\7", b"")}
SELECTIONS["no offset"] = Selection(offsets=(9, 3))


def records_shown(reader: Reader, selection: Selection) -> list[tuple[int, int]]:
    """The entry and the offset of each record, as JSON has them."""
    shown = reader.show(EVERY_KIND, DumpForm(DEEP, selection, "t-0/0.log"))
    assert shown.error is None
    rows = [json.loads(line) for line in shown.lines]
    return [(row["batch_position"], row["offset"]) for row in rows if row["type"] == "record"]


@pytest.mark.parametrize("kind", PARTS)
def test_parts_are_the_whole(reader: Reader, kind: str) -> None:
    """Each record is shown by one of them, in its order; none is shown twice."""
    whole = records_shown(reader, Selection())
    assert len(whole) == len(set(whole)) == len(RECORDS)
    if kind == "keys":
        whole = [at for at, record in zip(whole, RECORDS, strict=True) if record.key is not None]
    parts = [records_shown(reader, part) for part in PARTS[kind]]
    assert sorted(at for part in parts for at in part) == sorted(whole)
    assert all(part == [at for at in whole if at in part] for part in parts)


def test_conditions_keep_what_each_of_them_keeps(reader: Reader) -> None:
    shown = {name: records_shown(reader, one) for name, one in SELECTIONS.items()}
    for (name, one), (other_name, other) in itertools.combinations(SELECTIONS.items(), 2):
        own, others = conditions(one), conditions(other)
        if not own.keys() & others.keys():
            both = [at for at in shown[name] if at in shown[other_name]]
            assert records_shown(reader, Selection(**own, **others)) == both, (name, other_name)


def conditions(selection: Selection) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(selection).items() if value != getattr(EVERYTHING, name)}


def test_grep_finds_bytes_of_keys_and_of_values(reader: Reader) -> None:
    found = {
        text: [offset for _, offset in records_shown(reader, Selection(grep=text))] for text in (b"k2", b"bb", b"")
    }
    assert found == {b"k2": [4, 6, 8, 12, 14], b"bb": [23, 25, 27, 29], b"": [record.offset for record in RECORDS]}


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_shows_the_same_selection(reader: Reader, name: str, form: str) -> None:
    """Batches without a selected record are not shown."""
    selection = SELECTIONS[name]
    records = records_shown(reader, selection)
    shown = reader.show(EVERY_KIND, DumpForm(FORMS[form].options, selection, FORMS[form].json_file))
    assert shown.error is None
    if form in ("deep", "print"):
        assert offsets_shown(shown) == [offset for _, offset in records]
    if form != "shallow":
        positions = sorted({position for position, _ in records})
        assert (json_positions(shown) if form == "json" else batches_shown(shown)) == positions


def json_positions(shown: Shown) -> list[int]:
    rows = [json.loads(line) for line in shown.lines]
    return [row["position"] for row in rows if row["type"] == "batch"]


def test_shallow_a_selection_goes_by_the_header(reader: Reader) -> None:
    def shown(selection: Selection) -> list[int]:
        return batches_shown(reader.show(EVERY_KIND, DumpForm(SHALLOW, selection)))

    entries = [*MESSAGES, *BATCHES]
    positions = {str(e): sum(len(other.data) for other in entries[:n]) for n, e in enumerate(entries)}
    assert shown(Selection(offsets=(9, 9))) == [
        positions[name] for name in ("magic 1", "magic 1, gzip", "magic 1, lz4, LogAppendTime", "commit marker")
    ]
    assert shown(Selection(producer_id=51)) == [positions["commit marker"]]
    late = ("magic 1, lz4, LogAppendTime", "magic 2, gzip", "magic 2, snappy", "magic 2, lz4", "magic 2, zstd")
    assert shown(Selection(timestamps=(1600000002001, LARGEST))) == [positions[name] for name in late]


def test_torn_batches_whose_checksum_was_made_right_end_in_an_error(reader: Reader) -> None:
    """Cut at every length: never in another exception than klogtool's."""
    for vector in COMPRESSED_BATCHES:
        for size in range(26, len(vector.data)):
            torn = bytearray(layout.put(vector.data[:size], 8, (size - 12).to_bytes(4, "big")))
            heal_checksums(torn)
            shown = reader.show(bytes(torn), PRINT)
            assert shown.error is not None, (vector, size)
            assert shown.error[0] in ("Corrupt", "Unsupported"), (vector, size)
