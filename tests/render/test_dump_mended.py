"""dump-log --resync shows batches that are whole but for a length or a magic, by the rule of salvage and columns."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from raw_batches import build_batch, raw_batch
from readers import PRINT, READERS, SHALLOW, Reader

from klogtool.format.batch import Record
from klogtool.format.framing import walk_frames
from klogtool.log.windows import MAPPED_FROM_BYTES
from klogtool.render.selection import DumpForm, RecordOptions

LENGTH_AT, MAGIC_AT = 8, 16
NAME = "00000000000000000000.log"
LOG = b"".join(
    build_batch([Record(3 * n + m, n, b"k%d" % m, b"v" * (20 + m)) for m in range(3)], base_offset=3 * n)
    for n in range(8)
)
POSITIONS = [frame.position for frame in walk_frames(memoryview(LOG), 0, len(LOG))]
SPAN_BYTES = 2 * POSITIONS[1]


def wounded(wound: str, *numbers: int) -> bytes:
    """The log with the same field wrong in some batches."""
    log = bytearray(LOG)
    for number in numbers:
        at, new = WOUNDS[wound]
        log[POSITIONS[number] + at : POSITIONS[number] + at + len(new)] = new
    return bytes(log)


WOUNDS = {
    "beyond the file": (LENGTH_AT, b"\x7f\xff\xff\xff"),
    "into the next but one": (LENGTH_AT, struct.pack(">i", POSITIONS[2] + 5)),
    "to where another begins": (LENGTH_AT, struct.pack(">i", POSITIONS[2] - 12)),
    "below zero": (LENGTH_AT, b"\x80\x00\x00\x31"),
    "nothing": (LENGTH_AT, bytes(4)),
    "magic below zero": (MAGIC_AT, b"\x82"),
    "magic of messages": (MAGIC_AT, b"\x01"),
}
every_wound = pytest.mark.parametrize("wound", WOUNDS)
everywhere = pytest.mark.parametrize("numbers", [(0,), (3,), (7,), (1, 3, 6), (0, 2, 4, 7)], ids=str)


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(request.param)


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@every_wound
@everywhere
@pytest.mark.parametrize("options", [SHALLOW, PRINT], ids=["shallow", "print"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_text_shows_what_it_shows_of_the_sound_log(
    reader: Reader, wound: str, numbers: tuple[int, ...], options: RecordOptions, jobs: int
) -> None:
    sound = reader.show(LOG, options)
    shown = reader.show(wounded(wound, *numbers), DumpForm(options, go_on=True), jobs=jobs, span_bytes=SPAN_BYTES)
    assert shown.lines == sound.lines
    assert shown.error is None
    assert {
        position for _, position, reason, _ in shown.passed_over if str(reason).endswith("with the corrected field")
    } == {POSITIONS[number] for number in numbers}


@every_wound
@everywhere
def test_json_marks_what_was_set_right(reader: Reader, wound: str, numbers: tuple[int, ...]) -> None:
    sound = rows(reader.show(LOG, DumpForm(json_file=NAME)).text)
    data = wounded(wound, *numbers)
    found = rows(reader.show(data, DumpForm(json_file=NAME, go_on=True)).text)
    mended = {row["position"]: row["mended"] for row in found if "mended" in row}
    at, _ = WOUNDS[wound]
    field, size = ("length", 4) if at == LENGTH_AT else ("magic", 1)
    assert mended == {
        (start := POSITIONS[number]): {
            "field": field,
            "was": int.from_bytes(data[start + at : start + at + size], "big", signed=True),
            "is": int.from_bytes(LOG[start + at : start + at + size], "big", signed=True),
        }
        for number in numbers
    }
    assert [row for row in found if row["type"] != "error"] == sound
    assert [row["position"] for row in found if row["type"] == "error"] == list(mended)


def test_what_proves_nothing_is_passed_over(reader: Reader) -> None:
    data = bytearray(wounded("beyond the file", 3))
    data[POSITIONS[4] - 1] ^= 1  # under the checksum
    shown = reader.show(bytes(data), DumpForm(PRINT, go_on=True))
    sound = reader.show(LOG, PRINT)
    lost = reader.show(LOG[POSITIONS[3] : POSITIONS[4]], PRINT)
    assert len(shown.lines) == len(sound.lines) - len(lost.lines)
    assert any("are not a batch: skipped" in str(reason) for _, _, reason, _ in shown.passed_over)


@pytest.mark.parametrize(
    "form", [DumpForm(PRINT, go_on=True), DumpForm(json_file=NAME, go_on=True)], ids=["text", "json"]
)
def test_records_that_cannot_be_read_are_told_and_passed_over(reader: Reader, form: DumpForm) -> None:
    """The checksum holds for another length, and still the records are none."""
    odd = raw_batch(b"\x7e" + bytes(7))
    data = odd[:LENGTH_AT] + b"\x7f\xff\xff\xff" + odd[LENGTH_AT + 4 :] + LOG
    shown = reader.show(data, form)
    assert shown.error is None
    assert [position for _, position, _, _ in shown.passed_over] == [0, 0]
    assert shown.out.count(b'"type":"batch"' if form.json_file else b"baseOffset:") == 1 + len(POSITIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [DumpForm(SHALLOW, go_on=True), DumpForm(json_file=NAME, go_on=True)], ids=["text", "json"]
)
def test_a_batch_so_large_that_files_are_mapped_for_it(form: DumpForm) -> None:
    large = build_batch([Record(0, 1, None, bytes(MAPPED_FROM_BYTES))])
    data = large[:LENGTH_AT] + b"\x7f\xff\xff\xff" + large[LENGTH_AT + 4 :] + LOG
    shown = Reader("kernel").show(data, form)
    assert shown.out.count(b'"type":"batch"' if form.json_file else b"baseOffset:") == 1 + len(POSITIONS)
