"""What asks the most of a kernel, and what nobody should ask of one: neither ends in memory that is not its own."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from array import array
from typing import Any

import pytest
from readers import DEEP, PRINT, READERS, Reader
from running import ROOT
from vectors import BATCH
from worst_cases import batch, record, sized, worst_cases

from klogtool.format.batch import Header, Record
from klogtool.render.selection import DumpForm

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
SILLY = (LONG_MIN, -(2**31), -1, 1, len(BATCH.data) + 1, 2**31, LONG_MAX)
CASES = worst_cases()


@pytest.mark.slow
def test_outputs_of_exactly_the_size_that_was_asked_for(native: Any) -> None:
    command = [sys.executable, str(ROOT / "tests" / "worst_cases.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr.decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [DumpForm(DEEP), DumpForm(PRINT), DumpForm(DEEP, json_file="a.log")], ids=["deep", "print", "json"]
)
def test_both_readers_say_the_same(native: Any, form: DumpForm) -> None:
    for name, data in CASES.items():
        if len(data) < 4000 and not name.endswith("twice"):
            shown = [Reader(reader).show(data, form) for reader in READERS]
            assert shown[0] == shown[1], name


# ---------------------------------------------------------------- memory

# Not ru_maxrss: that of a process begins with what its parent had, and pytest is large after some thousand tests.
MEASURED = """
import pathlib, sys
from klogtool.cli.main import main
try:
    main()
finally:
    print(int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) >> 10, file=sys.stderr)
"""


def peak_megabytes(folder: pathlib.Path, data: bytes, *args: str) -> int:
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    command = [sys.executable, "-c", MEASURED, "dump-log", "-q", "--no-progress", *args, str(path)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=200, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stderr.split()[-1])


@pytest.mark.slow
def test_a_few_kilobytes_that_inflate_to_half_a_gigabyte(native: Any, tmp_path: pathlib.Path) -> None:
    bomb = batch([record(value=sized(b"a" * 10_000_000))], codec="zstd", base_offset=0, last_offset_delta=0)
    assert peak_megabytes(tmp_path, bomb * 50, "--print-data-log") < 300


@pytest.mark.slow
def test_a_batch_of_a_million_records(native: Any, tmp_path: pathlib.Path) -> None:
    bomb = batch([record()] * 1_000_000, codec="zstd", base_offset=0, last_offset_delta=0)
    assert peak_megabytes(tmp_path, bomb, "--deep-iteration") < 400


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("jobs", [1, 2])
def test_spans_that_end_early_lose_nothing(
    native: Any, reader: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(CASES[f"field {name}"] for name in ("odd", "control", "quotes", "null")) * 10
    whole = Reader(reader).show(data, DumpForm(PRINT), jobs=jobs, span_bytes=3000)
    for most in (1, 5000):
        monkeypatch.setattr("klogtool.render.log_lines.MOST_SPAN_TEXT_BYTES", most)
        assert Reader(reader).show(data, DumpForm(PRINT), jobs=jobs, span_bytes=3000) == whole


# ---------------------------------------------------------------- arguments that no caller of ours hands in


def stated(state: Any, **fields: int) -> Any:
    for name, value in fields.items():
        setattr(state, name, value)
    return state


def call_dump(native: Any, **other: Any) -> Any:
    given = {
        "log": BATCH.data, "at": 0, "cut": len(BATCH.data), "base": 0, "flags": native.DEEP,
        "state": native.DumpState(), "gaps": array("q", bytes(160)), "out": bytearray(4000), "body": None,
        "select": None, "file": None,
    }  # fmt: skip
    return native.dump(*(given | other).values())


def whole_buffers(rows: int = 10) -> dict[str, memoryview]:
    sizes = {"key.present": 2, "key.offsets": 4 * rows + 4, "key.data": 100, "offset": 8 * rows}
    return {name: memoryview(bytearray(size)) for name, size in sizes.items()}


def call_columns(native: Any, **other: Any) -> Any:
    given = {
        "log": BATCH.data, "at": 0, "cut": len(BATCH.data), "base": 0,
        "into": native.Columns(10, 0, whole_buffers()), "state": native.ColumnsState(), "body": None,
    }  # fmt: skip
    return native.columns(*(given | other).values())


@pytest.mark.parametrize("call", [call_dump, call_columns])
@pytest.mark.parametrize("name", ["at", "cut", "base"])
@pytest.mark.parametrize("value", SILLY)
def test_a_position_outside(native: Any, call: Any, name: str, value: int) -> None:
    at, _, why = call(native, **{name: value})
    assert why in (native.DONE, native.FULL, native.REFERENCE)
    assert at == value if name == "at" else 0 <= at <= len(BATCH.data)


@pytest.mark.parametrize("name", ["gaps", "out"])
def test_a_dump_into_buffers_that_are_too_small(native: Any, name: str) -> None:
    with pytest.raises(ValueError, match="too small"):
        call_dump(native, **{name: bytearray() if name == "out" else array("q", bytes(8))})
    with pytest.raises((ValueError, BufferError)):
        call_dump(native, **{name: bytes(400)})


def test_a_dump_with_nothing_to_read(native: Any) -> None:
    assert call_dump(native, log=b"") == (0, 0, native.DONE)
    assert call_dump(native, log=b"", cut=0) == (0, 0, native.DONE)
    assert call_dump(native, body=b"", file=b"")[2] == native.DONE


@pytest.mark.parametrize("count", [-1, LONG_MIN, 11, LONG_MAX])
def test_more_gaps_than_there_are(native: Any, count: int) -> None:
    with pytest.raises(ValueError, match="gaps"):
        call_dump(native, state=stated(native.DumpState(), gap_count=count))


@pytest.mark.parametrize("state", [[-1, 0], [0, -1], [LONG_MIN, 0], [0, LONG_MIN]])
def test_less_than_nothing_is_done(native: Any, state: list[int]) -> None:
    with pytest.raises(ValueError, match="less than nothing"):
        call_columns(native, state=stated(native.ColumnsState(), done_records=state[0], done_bytes=state[1]))


@pytest.mark.parametrize("name", ["inner 0, lz4", "inner 1, snappy", "field odd", "smallest records, lz4"])
def test_a_place_in_an_entry_where_no_record_begins(native: Any, name: str) -> None:
    data = CASES[name]
    for done in (1, 13, 25, 5000, len(data), 50_990, 51_000, 2**31, LONG_MAX):
        for count in (0, 1, LONG_MAX):
            columns = native.Columns(10, 0, whole_buffers())
            state = stated(native.ColumnsState(), done_records=count, done_bytes=done)
            _, _, why = call_columns(native, log=data, cut=len(data), into=columns, state=state)
            assert why in (native.DONE, native.FULL, native.REFERENCE)


@pytest.mark.parametrize("rows", [-1, LONG_MIN, 2**31 - 1, 2**61, LONG_MAX])
def test_rows_that_no_column_has(native: Any, rows: int) -> None:
    with pytest.raises(ValueError, match="an Arrow offset is an int"):
        native.Columns(rows, 0, {})
    with pytest.raises(ValueError, match="an Arrow offset is an int"):
        native.Columns(0, rows, {"headers.value.offsets": bytearray(8), "headers.value.data": bytearray(8)})


def test_buffers_that_cannot_be_filled(native: Any) -> None:
    for name, buffer in {
        "offset": memoryview(bytearray(79)),
        "timestamp": memoryview(bytearray(81))[1:],
        "key.offsets": memoryview(bytes(44)),
        "key.data": memoryview(bytes(44)),
        "_sequence": memoryview(bytearray(80))[::2],
    }.items():
        with pytest.raises((ValueError, BufferError)):
            native.Columns(10, 0, whole_buffers() | {name: buffer})


def test_a_buffer_keeps_its_size_while_columns_point_to_it(native: Any) -> None:
    offsets, buffers = bytearray(80), {}
    buffers["offset"] = offsets
    columns = native.Columns(10, 0, buffers)
    buffers.clear()
    with pytest.raises(BufferError):
        offsets.extend(bytes(1 << 20))
    del columns
    offsets.clear()


@pytest.mark.parametrize("value", SILLY)
def test_a_search_outside(native: Any, value: int) -> None:
    data = BATCH.data
    for stop in SILLY:
        for end in SILLY:
            native.find_batch(data, value, stop, 0, end)
            native.find_batch(data, 1, stop, value, end)
            native.find_batch(data[:17], value, stop, 0, end)
        native.whole_frames(data, stop)
    native.whole_frames(b"", value)


# ---------------------------------------------------------------- objects


@pytest.mark.parametrize("kind", [None, 1, len, "Record"])
def test_records_of_what_is_no_class(native: Any, kind: Any) -> None:
    for classes in ((kind, Header), (Record, kind)):
        with pytest.raises(TypeError):
            native.RecordReader(*classes, BATCH.data, 0, len(BATCH.data))


@pytest.mark.parametrize("kind", [int, memoryview, type(i for i in ()), type, object])
def test_records_of_a_class_that_does_not_take_the_fields(native: Any, kind: Any) -> None:
    """Whatever it raises comes out, and the reader can be asked again."""
    reader = native.RecordReader(kind, Header, BATCH.data, 0, len(BATCH.data))
    for _ in range(2):
        with pytest.raises(TypeError):
            reader.read()


def test_a_record_that_reads_on_while_it_is_made(native: Any) -> None:
    class Nosy:
        def __init__(self, *_: Any) -> None:
            for ask in (reader.read, lambda: reader.give(b""), lambda: reader.step_to(0)):
                with pytest.raises(ValueError, match="being read"):
                    ask()

    reader = native.RecordReader(Nosy, Header, BATCH.data, 0, len(BATCH.data))
    assert reader.read()[1] == native.DONE


def test_bytes_that_change_while_their_records_are_read(native: Any) -> None:
    data = bytearray(CASES["smallest records, none"])
    reader = native.RecordReader(Record, Header, data, 0, len(data))
    assert reader.read()[1] == native.FULL
    data[61:] = b"\xff" * (len(data) - 61)
    with pytest.raises(ValueError, match="changed"):
        reader.read()


def test_a_reader_that_was_not_told_what_to_read(native: Any) -> None:
    reader = native.RecordReader.__new__(native.RecordReader)
    assert reader.read() == ([], native.DONE)
    for at, cut in ((-1, 10), (5, 4), (0, len(BATCH.data) + 1), (LONG_MIN, LONG_MAX)):
        with pytest.raises(ValueError, match="lie in the log"):
            native.RecordReader(Record, Header, BATCH.data, at, cut)
