"""Records as CSV: every field, nothing lost, the same bytes from both readers, the same rows as Arrow."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_batches import build_batch
from readers import NAME, READERS, Reader
from running import FIXTURES, run_here
from vectors import BATCH, BATCH_WITH_HEADERS, COMMIT, MAGIC_0, MAGIC_1_GZIP

from klogtool import kernels
from klogtool.format.batch import Header, Record, parse_batch
from klogtool.render import csv_lines, json_lines, log_lines
from klogtool.render.csv_lines import HEADING, CsvPlace, csv_row, csv_value, walk_row
from klogtool.render.json_lines import LongLine
from klogtool.render.record_columns import COLUMN_TYPES
from klogtool.render.selection import DumpForm

COLUMNS = tuple(COLUMN_TYPES)

PLACE = CsvPlace.of("t,1", 7, NAME)
FORM = DumpForm(csv=PLACE)
SOME_BYTES = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode())
HERE = [name for name in READERS if name == "reference" or kernels.is_built()]
ODD_VALUES = [
    (None, b""),
    (b"", b'""'),
    (b"plain", b'"plain"'),
    (b'say "hi", you\r\nand\tI', b'"say ""hi"", you\r\nand\tI"'),
    ("日本 é".encode(), '"日本 é"'.encode()),
    (b"\xff\0", b'"\\xff00"'),
    (b"a\0b", b'"\\x610062"'),
    (b"\x1b[31m", b'"\\x1b5b33316d"'),
    (b"\\x41", b'"\\x5c783431"'),
    (b"\\y", b'"\\y"'),
    (b"\\", b'"\\"'),
    (b"=1+1", b'"=1+1"'),
    (b"x" * 70 + b'"' + b"y" * 15, b'"' + b"x" * 70 + b'""' + b"y" * 15 + b'"'),
    (b"x" * 90 + b"\xc3", b'"\\x' + b"78" * 90 + b'c3"'),
]


def value_of(field: str) -> bytes | None:
    """A field as docs/dump-log.md says; csv.reader does not tell a null from an empty value: see `fields_of`."""
    return bytes.fromhex(field[2:]) if field.startswith("\\x") else field.encode()


def fields_of(row: bytes) -> list[str | None]:
    """The fields of a row; None for one that has not even quotes."""
    fields: list[str | None] = []
    text, at = row.removesuffix(b"\r\n").decode(), 0
    while at <= len(text):
        if text[at : at + 1] == '"':
            stop = at + 1
            while text[stop] != '"' or text[stop + 1 : stop + 2] == '"':
                stop += 2 if text[stop] == '"' else 1
            fields.append(text[at + 1 : stop].replace('""', '"'))
            at = stop + 2
        else:
            stop = text.find(",", at) if "," in text[at:] else len(text)
            fields.append(text[at:stop] or None)
            at = stop + 1
    return fields


def show(reader: Reader, data: bytes) -> bytes:
    return reader.show(data, FORM).out


@pytest.mark.parametrize(("data", "field"), ODD_VALUES)
def test_a_field_of_bytes(reader: Reader, data: bytes | None, field: bytes) -> None:
    assert csv_value(data) == field
    row = show(reader, build_batch([Record(3, 5, data, data)]))
    assert row.startswith(field + b"," + field + b',"t,1",7,3,5,0,,"00000000000000000000.log",0,3,-1,-1,-1,false,')
    assert row.endswith(b",none,true,-1\r\n")


def test_a_batch_with_headers_and_a_marker(reader: Reader) -> None:
    first, second, marker = show(reader, BATCH_WITH_HEADERS.data + COMMIT.data).splitlines(keepends=True)
    headers = fields_of(first)[COLUMNS.index("headers")] or fields_of(second)[COLUMNS.index("headers")]
    assert isinstance(json.loads(str(headers)), list)
    assert fields_of(marker)[COLUMNS.index("_is_control")] == "true"


def test_old_messages(reader: Reader) -> None:
    rows = [fields_of(row) for row in show(reader, MAGIC_0.data + MAGIC_1_GZIP.data).splitlines(keepends=True)]
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert [(row["timestamp"] is None, row["timestampType"]) for row in named[:1]] == [(True, "-1")]
    assert {row["_batch_base_offset"] for row in named[1:]} == {None}
    assert {row["_compression"] for row in named} == {"none", "gzip"}


def test_what_has_no_partition_dir_has_no_topic(reader: Reader) -> None:
    form = DumpForm(csv=CsvPlace.of(None, None, "a\udcff.log"))
    row = reader.show(BATCH.data, form).out
    assert b",,,0," in row
    assert b',"\\x61ff2e6c6f67",' in row


@given(
    key=SOME_BYTES,
    value=SOME_BYTES,
    headers=st.lists(st.tuples(st.text(max_size=9), SOME_BYTES), max_size=4),
    timestamp=st.integers(-1, 1 << 41),
)
def test_a_row_comes_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    made = tuple(Header(name.encode(), data) for name, data in headers)
    data = build_batch([Record(4, timestamp, key, value, made)])
    (row,) = {show(Reader(name), data) for name in HERE}
    found = dict(zip(COLUMNS, fields_of(row), strict=True))
    assert [None if (f := found[name]) is None else value_of(f) for name in ("key", "value")] == [key, value]
    assert found["timestamp"] == (None if timestamp == -1 else str(timestamp))
    pairs = json.loads(found["headers"] or "[]")
    assert [(name, json_lines.json_bytes(data)) for name, data in headers] == [tuple(pair) for pair in pairs]
    (read,) = csv.reader(io.StringIO(row.decode(), newline=""), strict=True)
    assert [field or None for field in read] == [field or None for field in fields_of(row)]


@given(key=SOME_BYTES, value=SOME_BYTES, header=SOME_BYTES, size=st.integers(1, 9))
def test_a_long_row_in_pieces_is_the_same(
    key: bytes | None, value: bytes | None, header: bytes | None, size: int
) -> None:
    batch = parse_batch(build_batch([Record(0, 5, key, value, (Header(b"n", header),))]))
    (record,) = batch.records()
    whole = b"".join(walk_row(PLACE, batch, record))
    with (
        patch.multiple(json_lines, LONG_BYTES=1, LONG_PIECE_BYTES=3 * size),
        patch.object(csv_lines, "LONG_BYTES", 1),
    ):
        row = csv_row(PLACE, batch, record)
        assert (b"".join(row.walk()) if isinstance(row, LongLine) else row) == whole


@pytest.mark.parametrize("value", ["é\t".encode() * 700_000, b"\xff\x01" * 700_000], ids=["text", "hex"])
def test_a_dump_of_long_records_is_the_same(value: bytes, tmp_path: pathlib.Path) -> None:
    log = tmp_path / NAME
    log.write_bytes(build_batch([Record(n, 5, b"k", value) for n in range(2)], codec="lz4") + MAGIC_0.data)
    whole = run_here(["dump-log", str(log), "--format", "csv"], tmp_path).out
    with (
        patch.object(log_lines, "LONG_TEXT_BYTES", 1 << 20),
        patch.object(LongLine, "walk", autospec=True, side_effect=LongLine.walk) as walk,
    ):
        assert run_here(["dump-log", str(log), "--format", "csv"], tmp_path).out == whole
    assert walk.call_count == 2


def table(out: bytes) -> list[dict[str, Any]]:
    heading, *rows = csv.reader(io.StringIO(out.decode(), newline=""), strict=True)
    assert tuple(heading) == COLUMNS
    return [dict(zip(heading, row, strict=True)) for row in rows]


@pytest.mark.parametrize("folder", ["three-magics", "transactions", "every-codec", "killed-mid-append"])
def test_rows_are_those_of_arrow(folder: str) -> None:
    """Names, order and values, of sound and of damaged logs; of a log with several kinds of entries."""
    pytest.importorskip("pyarrow")
    from klogtool.render.arrow import schema
    from klogtool.render.scan import scan

    assert tuple(schema().names) == COLUMNS
    log_dir = next(iter(sorted((FIXTURES / folder).glob("logdir*"))))
    done = run_here(["dump-log", str(log_dir), "--format", "csv", "--resync"], FIXTURES)
    ours = table(done.out)
    theirs = scan(log_dir, on_damage=lambda _: None, resync=True).to_reader().read_all().to_pylist()
    assert len(ours) == len(theirs) > 0
    for mine, arrow in zip(ours, theirs, strict=True):
        for name in ("key", "value"):
            assert (value_of(mine[name]) or None) == (arrow[name] or None)
        for name in ("topic", "partition", "offset", "timestampType", "_segment", "_position", "_producer_id"):
            assert mine[name] == str(arrow[name])
        for name in ("_is_control", "_is_transactional", "_crc_ok", "_compression", "_sequence", "_producer_epoch"):
            assert mine[name] == str(arrow[name]).lower()
        for name in ("_batch_base_offset", "_partition_leader_epoch"):
            assert mine[name] == ("" if arrow[name] is None else str(arrow[name]))
        assert [pair[0] for pair in json.loads(mine["headers"] or "[]")] == [h["key"] for h in arrow["headers"] or ()]
        milliseconds = int(arrow["timestamp"].timestamp() * 1000 + 0.5)
        assert mine["timestamp"] == ("" if milliseconds in (-1, 0) and not mine["timestamp"] else str(milliseconds))


def test_a_dump_without_records_has_the_heading(tmp_path: pathlib.Path) -> None:
    (tmp_path / NAME).touch()
    done = run_here(["dump-log", NAME, "--format", "csv"], tmp_path)
    assert (done.status, done.out) == (0, HEADING)


def test_selection_and_files_as_kafka_takes_them(tmp_path: pathlib.Path) -> None:
    log = FIXTURES / "transactions/logdir/t-0/00000000000000000000.log"
    some = table(run_here(["dump-log", "--files", str(log), "--format", "csv", "--offsets", "2..3"], tmp_path).out)
    assert [row["offset"] for row in some] == ["2", "3"]


def test_damage_is_told_and_the_rest_follows(tmp_path: pathlib.Path) -> None:
    log = FIXTURES / "killed-mid-append/logdir/flip-bit-0/00000000000000000045.log"
    done = run_here(["dump-log", str(log), "--format", "csv"], tmp_path)
    assert done.status == 1
    assert "checksum" in done.err
    assert done.out.startswith(HEADING)
