"""Records as Arrow record batches: kernel and reference say the same, and it is what Kafka's own reader says."""

from __future__ import annotations

import base64
import json
import mmap
import os
import pathlib
import random
import types
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from arrow_tables import (
    LOGS,
    TIME,
    Row,
    Told,
    batches_of,
    both_say_the_same,
    generated,
    needs_kernel,
    numbered,
    pa,
    read,
    table_of,
)
from hypothesis import given
from hypothesis import strategies as st
from raw_batches import build_batch, raw_batch
from readers import READERS, log_file
from running import FIXTURES

from klogtool import kernels
from klogtool.errors import Corrupt
from klogtool.format.batch import CODEC_NAMES, Header, Record, build_record
from klogtool.format.codecs import compress
from klogtool.format.framing import Frame, find_frame
from klogtool.format.message import build_message, build_message_set
from klogtool.format.text import java_utf8
from klogtool.log.file import LogFile
from klogtool.render import arrow_batches, arrow_memory
from klogtool.render.arrow import LogPart, RecordQuery, schema, walk_record_batches
from klogtool.render.arrow_memory import Blocks
from klogtool.render.scan import scan
from klogtool.render.selection import Selection

# ---------------------------------------------------------------- what the columns say


def test_names_and_types_are_those_of_sparks_kafka_source_and_the_lineage() -> None:
    assert [f"{field.name}: {field.type}" for field in schema()] == [
        "key: binary",
        "value: binary",
        "topic: string",
        "partition: int32",
        "offset: int64",
        "timestamp: timestamp[us, tz=UTC]",
        "timestampType: int32",
        "headers: list<item: struct<key: string, value: binary>>",
        "_segment: string",
        "_position: int64",
        "_batch_base_offset: int64",
        "_producer_id: int64",
        "_producer_epoch: int16",
        "_sequence: int32",
        "_is_control: bool",
        "_is_transactional: bool",
        "_compression: string",
        "_crc_ok: bool",
        "_partition_leader_epoch: int32",
    ]
    assert all(field.nullable for field in schema())


@pytest.mark.parametrize("reader", READERS)
def test_a_record_in_all_its_columns(reader: str) -> None:
    headers = (Header(b"trace", b"\x00\x01"), Header(b"none", None))
    data = build_batch(
        [Record(7, TIME, b"k", None, headers), Record(8, TIME + 1, None, b"")],
        base_offset=5,
        codec="lz4",
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
        is_transactional=True,
        partition_leader_epoch=6,
    )
    table, _, _ = read(b"".join((batches_of(1), data)), reader)
    numbers = table.cast(
        pa.schema([f if f.name != "timestamp" else pa.field("timestamp", pa.int64()) for f in schema()])
    )
    first, second = numbers.to_pylist()[10:]
    assert first == {
        "key": b"k",
        "value": None,
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": TIME * 1000,
        "timestampType": 0,
        "headers": [{"key": "trace", "value": b"\x00\x01"}, {"key": "none", "value": None}],
        "_segment": "00000000000000000000.log",
        "_position": len(batches_of(1)),
        "_batch_base_offset": 5,
        "_producer_id": 9,
        "_producer_epoch": 2,
        "_sequence": 42,
        "_is_control": False,
        "_is_transactional": True,
        "_compression": "lz4",
        "_crc_ok": True,
        "_partition_leader_epoch": 6,
    }
    assert (second["key"], second["value"], second["headers"], second["_sequence"]) == (None, b"", None, 43)


@pytest.mark.parametrize("reader", READERS)
def test_timestamps_keep_minus_one_and_are_null_where_microseconds_are_too_many(reader: str) -> None:
    largest = (2**63 - 1) // 1000
    times = [-1, 0, largest, largest + 1, -largest, -largest - 1, 2**62]
    data = build_batch([Record(n, time, None, b"") for n, time in enumerate(times)])
    found = read(data, reader, columns=["timestamp"])[0]["timestamp"].cast(pa.int64()).to_pylist()
    assert found == [-1000, 0, largest * 1000, None, -largest * 1000, None, None]


@pytest.mark.parametrize("reader", READERS)
def test_messages_have_a_wrappers_position_and_what_they_lack_is_minus_one_or_null(reader: str) -> None:
    plain = build_message(5, b"k", b"v", magic=0)
    packed = build_message_set(
        numbered(3, 6), magic=1, codec="gzip", timestamp_type="LogAppendTime", log_append_time=TIME
    )
    found = read(plain + packed, reader)[0].to_pylist()
    assert [(r["offset"], r["_position"], r["_batch_base_offset"], r["timestampType"]) for r in found] == [
        (5, 0, 5, -1),
        *((offset, len(plain), None, 1) for offset in (6, 7, 8)),
    ]
    absent = {"_producer_id": -1, "_producer_epoch": -1, "_sequence": -1, "_partition_leader_epoch": -1}
    assert all(row[name] == value for row in found for name, value in absent.items())
    assert {row["_compression"] for row in found} == {"none", "gzip"}


# ---------------------------------------------------------------- kernel and reference, and Kafka


@needs_kernel
@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_fixture_is_the_same_to_kernel_and_reference(path: pathlib.Path) -> None:
    both_say_the_same(path.read_bytes())


@needs_kernel
@pytest.mark.parametrize("seed", range(25))
def test_generated_batches_are_the_same_to_kernel_and_reference(seed: int) -> None:
    table, told, tally = both_say_the_same(generated(seed))
    assert told == []
    assert tally.invalid == 0
    assert table.num_rows


def chosen_selections() -> Iterator[Selection]:
    for rng in map(random.Random, range(12)):
        low, high = sorted((rng.randrange(100), rng.randrange(100)))
        yield Selection(
            offsets=rng.choice([(low, high), Selection().offsets]),
            timestamps=rng.choice([(TIME, TIME + 1), Selection().timestamps]),
            producer_id=rng.choice([None, None, -1, 0, 1000]),
            key=rng.choice([None, None, b"", b"k"]),
            grep=rng.choice([None, None, b"", b"y", b"\xff"]),
        )


@needs_kernel
@pytest.mark.parametrize("selection", list(chosen_selections()))
@pytest.mark.parametrize("with_control", [True, False])
def test_a_selection_is_the_same_to_kernel_and_reference(selection: Selection, with_control: bool) -> None:
    for seed in range(4):
        both_say_the_same(generated(seed), selection=selection, with_control=with_control)


def golden_files() -> list[Any]:
    found: dict[tuple[str, str], list[Row]] = {}
    for path in sorted(FIXTURES.glob("*/golden/records.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.setdefault((path.parent.parent.name, row["file"]), []).append(row)
    return [
        pytest.param(FIXTURES / fixture / file, rows, id=f"{fixture}-{file}")
        for (fixture, file), rows in found.items()
        if file.endswith(".log")
    ]


def plain(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def as_columns(row: Row) -> Row:
    """A line of records.jsonl, which is what Kafka's reader says, under the names of columns."""
    headers = [{"key": key, "value": plain(value)} for key, value in row["headers"]]
    return {
        "key": plain(row["key"]),
        "value": plain(row["value"]),
        "offset": row["offset"],
        "timestamp": row["timestamp"] * 1000,
        "timestampType": {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}[row["timestamp_type"]],
        "headers": headers or None,
        "_position": row["batch_position"],
        "_producer_id": row["producer_id"],
        "_producer_epoch": row["producer_epoch"],
        "_sequence": row["sequence"],
        "_is_control": row["is_control"],
        "_is_transactional": row["is_transactional"],
        "_compression": row["codec"],
        "_partition_leader_epoch": row["partition_leader_epoch"],
    }


@pytest.mark.parametrize(("path", "golden"), golden_files())
def test_the_columns_are_what_kafkas_reader_says(path: pathlib.Path, golden: list[Row]) -> None:
    """Kafka's reader judges a batch of a wrong CRC, or the end of a file, as `isvalid` or `error`."""
    doubtful = {row.get("batch_position") for row in golden if "isvalid" in row or "error" in row}
    kafkas = [as_columns(row) for row in golden if "offset" in row]
    table = table_of(scan(path, on_damage=lambda _: None).to_reader())
    numbers = table.set_column(5, "timestamp", table["timestamp"].cast(pa.int64()))
    ours = [row for row in numbers.to_pylist() if row["_position"] not in doubtful]
    assert [{name: row[name] for name in kafkas[0]} for row in ours] == kafkas


# ---------------------------------------------------------------- too little room


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Record batches of at most so many rows and bytes, some headers at a time."""

    def shrink(rows: int, data_bytes: int) -> None:
        monkeypatch.setattr(arrow_batches, "BATCH_ROWS", rows)
        monkeypatch.setattr(arrow_batches, "DATA_BYTES", data_bytes)
        monkeypatch.setattr(arrow_batches, "HEADERS_A_ROW", 1)

    return shrink


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize(("rows", "data_bytes"), [(1, 1), (3, 10), (8, 100), (1000, 300), (7, 1 << 20)])
def test_batches_are_cut_in_their_midst_where_the_room_ends(
    little_room: Callable[[int, int], None], rows: int, data_bytes: int
) -> None:
    logs = [generated(seed) for seed in range(100, 106)]
    whole = [read(data, "reference")[0] for data in logs]
    little_room(rows, data_bytes)
    for data, expected in zip(logs, whole, strict=True):
        table, told, _ = read(data)
        assert told == []
        assert table.combine_chunks().equals(expected.combine_chunks())
        assert max(len(chunk) for chunk in table["offset"].chunks) <= rows


@cache
def many_records() -> bytes:
    records = (Record(n, TIME, None, b"%d" % n) for n in range(150_000))
    return b"".join(build_record(record, base_offset=0, base_timestamp=TIME) for record in records)


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_batch_of_more_records_than_a_record_batch_has_rows(codec: str) -> None:
    count, plain = 150_000, many_records()
    header = {"last_offset_delta": count - 1, "base_timestamp": TIME, "max_timestamp": TIME, "records_count": count}
    data = raw_batch(compress(codec, plain, magic=2), codec=codec, **header) + batches_of(1)
    table, told, _ = read(data)
    assert told == []
    assert [len(chunk) for chunk in table["offset"].chunks] == [65536, 65536, count + 10 - 2 * 65536]
    assert table["offset"].to_pylist()[:count] == list(range(count))
    assert table["value"][count - 1].as_py() == b"%d" % (count - 1)


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_larger_than_a_record_batch_is_one_by_itself(codec: str) -> None:
    large = [Record(0, TIME, b"k", b"x" * (17 << 20)), Record(1, TIME, b"y" * (18 << 20), None)]
    headers = tuple(Header(b"h" * (6 << 20), b"v" * (6 << 20)) for _ in range(3))
    records = [*large, *numbered(10, 2), Record(12, TIME, None, b"", headers), *numbered(3, 13)]
    table, told, _ = read(build_batch(records, codec=codec))
    assert told == []
    assert table["offset"].to_pylist() == list(range(16))
    assert table["value"][0].as_py() == large[0].value
    assert table["key"][1].as_py() == large[1].key
    assert table["headers"][12].as_py() == [{"key": h.key.decode(), "value": h.value} for h in headers]


@needs_kernel
def test_a_compressed_batch_that_is_broken_at_its_end_is_given_whole_or_not_at_all(
    little_room: Callable[[int, int], None],
) -> None:
    sound, broken = batches_of(1), broken_inside("lz4")
    little_room(3, 1 << 20)
    table, told, _ = read(sound + broken + sound)
    assert table["offset"].to_pylist() == [*range(10)] * 2
    assert [position for position, _ in told] == [len(sound)]


def broken_inside(codec: str) -> bytes:
    """A batch with a right checksum that says to have a record more than it has."""
    body = b"".join(build_record(r, base_offset=0, base_timestamp=TIME) for r in numbered(10))
    header = {"last_offset_delta": 10, "base_timestamp": TIME, "max_timestamp": TIME, "records_count": 11}
    return raw_batch(compress(codec, body, magic=2), codec=codec, **header)


CANARY = 0xA5


class Fenced:
    """Buffers of exactly the size that the kernel asks for, with a fence behind each."""

    def __init__(self, rows: int, headers: int, data_bytes: int) -> None:
        names: dict[str, int] = {}
        for name in schema().names:
            names |= arrow_batches._buffer_sizes(name, headers, data_bytes, data_bytes)
        # As many rows as asked for, not BATCH_ROWS.
        self._sizes = {name: self._size(name, size, rows) for name, size in names.items()}
        self._rooms = {name: bytearray([CANARY]) * (size + 64) for name, size in self._sizes.items()}

    @staticmethod
    def _size(name: str, size: int, rows: int) -> int:
        per_row, at_end = divmod(size, arrow_batches.BATCH_ROWS)
        if name.startswith("headers.") and name not in ("headers.present", "headers.offsets"):
            return size
        if name.endswith(".data"):
            return size
        return per_row * rows + at_end if per_row else (rows + 7) // 8

    def views(self) -> dict[str, memoryview]:
        return {name: memoryview(room)[: self._sizes[name]] for name, room in self._rooms.items()}

    def assert_standing(self) -> None:
        for name, room in self._rooms.items():
            assert set(room[self._sizes[name] :]) == {CANARY}, f"written behind the end of {name}"


@needs_kernel
@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_never_writes_behind_the_end_of_a_buffer(seed: int) -> None:
    rng = random.Random(seed)
    native, data, state, at, body = kernels.native, generated(seed), kernels.native.ColumnsState(), 0, None
    needed = [0, 0, 0]
    seen = 0
    while at < len(data):
        rows, headers = rng.choice((1, 7, 8, 9, 100)), max(needed[1], rng.choice((0, 1, 5)))
        room = max(needed[0], needed[2], rng.choice((0, 1, 50, 3000)))
        fenced, before = Fenced(rows, headers, room), at
        into = native.Columns(rows, headers, fenced.views())
        at, filled, why = native.columns(data, at, len(data), 0, into, state, body)
        fenced.assert_standing()
        assert filled == into.rows <= rows
        seen += filled
        needed = [0, 0, 0] if filled else [state.data_needed, state.headers_needed, state.header_bytes_needed]
        if why == native.BODY:
            body = inflated(data, at)
        elif at != before or why != native.FULL:
            body = None
        assert why != native.REFERENCE
    assert seen == read(data, "reference")[0].num_rows


def inflated(data: bytes, at: int) -> bytes:
    from klogtool.format import batch, message

    if data[at + 16] >= 2:
        return batch.inflate(batch.parse_batch(data, at))
    return message.inflate(message.parse_message(data, at))


@needs_kernel
def test_buffers_that_are_too_small_are_refused() -> None:
    native = kernels.native
    with pytest.raises(ValueError, match="'offset' has 79 bytes, needs 80"):
        native.Columns(10, 0, {"offset": memoryview(bytearray(79))})
    with pytest.raises(ValueError, match="'key' lacks its data"):
        native.Columns(10, 0, {"key.offsets": memoryview(bytearray(44))})


# ---------------------------------------------------------------- headers

header_keys = st.one_of(st.binary(max_size=12), st.text(max_size=6).map(lambda text: text.encode()))
header_lists = st.lists(st.builds(Header, header_keys, st.none() | st.binary(max_size=20)), max_size=5)


@pytest.mark.slow
@given(st.lists(header_lists, min_size=1, max_size=8), st.sampled_from(CODEC_NAMES))
def test_headers_of_any_bytes_are_utf8_in_the_column(headers: list[list[Header]], codec: str) -> None:
    data = build_batch([Record(n, TIME, None, None, tuple(h)) for n, h in enumerate(headers)], codec=codec)
    expected = [[{"key": java_utf8(h.key), "value": h.value} for h in each] or None for each in headers]
    for reader in READERS if kernels.native else ("reference",):
        assert read(data, reader, columns=["headers"])[0]["headers"].to_pylist() == expected


# ---------------------------------------------------------------- damage


@pytest.mark.slow
@needs_kernel
@given(st.integers(0, 9), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_is_the_same_to_kernel_and_reference(seed: int, wounds: list[tuple[int, int]]) -> None:
    data = bytearray(generated(seed))
    for position, byte in wounds:
        data[position % len(data)] = byte
    both_say_the_same(bytes(data))
    serial = read(bytes(data), resync=True)
    assert read(bytes(data), resync=True, jobs=3, span_bytes=700)[1:] == serial[1:]


@pytest.mark.parametrize("reader", READERS)
def test_records_under_a_wrong_checksum_are_given_and_marked(reader: str) -> None:
    data = bytearray(batches_of(3))
    size = len(data) // 3
    data[2 * size - 1] ^= 1  # the number of headers of its last record, and no longer 0
    data[size - 3] ^= 1  # a byte of a value
    table, told, tally = read(bytes(data), reader)
    assert table["_crc_ok"].to_pylist() == [False] * 10 + [False] * 9 + [True] * 10
    assert [position for position, _ in told] == [size]
    assert (tally.invalid, tally.first_invalid) == (2, ("", 0))


def test_without_on_damage_the_error_is_raised_behind_the_records_before_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batches_of(2) + broken_inside("gzip") + batches_of(1))
    found = iter(scan(path).to_reader())
    assert next(found).num_rows == 20
    with pytest.raises(Corrupt) as told:
        next(found)
    assert (told.value.path, told.value.position) == (str(path), len(batches_of(2)))


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0" * 40, "record size 0 is smaller than the minimum record overhead (14)"),
        (b"stray", "5 bytes at the end are not a whole batch"),
        (batches_of(1)[:-1], f"{len(batches_of(1)) - 1} bytes at the end are not a whole batch"),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_batch_at_the_end_is_told(reader: str, tail: bytes, reason: str) -> None:
    data = batches_of(2)
    table, told, _ = read(data + tail, reader)
    assert (table.num_rows, told) == (20, [(len(data), reason)])


@pytest.mark.parametrize("reader", READERS)
def test_resync_finds_the_next_batch_behind_what_is_none(reader: str) -> None:
    data = batches_of(2) + b"\0" * 50 + build_batch(numbered(5, 20))
    table, told, _ = read(data, reader, resync=True)
    assert table["offset"].to_pylist() == list(range(25))
    assert told[-1] == (len(batches_of(2)), "50 bytes are not a batch: skipped")
    assert len(told) == 2


@pytest.mark.parametrize("reader", READERS)
def test_end_leaves_out_what_reaches_beyond_it(reader: str) -> None:
    data = batches_of(3)
    table, told, _ = read(data, reader, end=len(data) - 1)
    assert (table.num_rows, told) == (20, [])
    assert read(data, reader, start=len(data) // 3)[0]["offset"].to_pylist() == list(range(10, 30))


# ---------------------------------------------------------------- several threads


def nested(count: int) -> bytes:
    """Batches whose values are logs themselves: what looks like a batch need not be one."""
    inner = batches_of(3)
    return b"".join(build_batch([Record(n, TIME, None, inner)]) for n in range(count))


def with_wrong_checksums(data: bytes) -> bytes:
    wounded, at = bytearray(data), 0
    while isinstance(frame := find_frame(data, at, len(data)), Frame):
        wounded[at + frame.size - 3] ^= 1
        at += frame.size
    return bytes(wounded)


THREADED = {
    "plain": batches_of(200),
    "zstd": batches_of(200, codec="zstd"),
    "messages": build_message_set(numbered(500), magic=1),
    "wrappers": b"".join(build_message_set(numbered(20, 20 * n), magic=1, codec="lz4") for n in range(50)),
    "nested": nested(60),
    "wrong-checksums": with_wrong_checksums(batches_of(100)),
    "one-large-batch": batches_of(1) + build_batch(numbered(3000, 10)) + build_batch(numbered(10, 3010)),
    "torn": batches_of(100)[:-7],
    "zeros": batches_of(100) + bytes(5000),
    "zeros-between": batches_of(50) + bytes(5000) + build_batch(numbered(50, 500)),
    "generated": b"".join(generated(seed) for seed in range(8)),
}

# A span that begins at each byte takes seconds for each log. Every seventh byte of batches that are alike comes to each
# byte of such a batch, too.
EACH_BYTE = ("generated", "wrong-checksums", "zeros-between")
SPANS = [
    *((name, span_bytes) for name in THREADED for span_bytes in (7, 500, 3000, 1 << 16)),
    *(pytest.param(name, 1, marks=() if name in EACH_BYTE else pytest.mark.nightly) for name in THREADED),
]


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize(("name", "span_bytes"), SPANS)
def test_threads_give_the_same_as_one(name: str, span_bytes: int) -> None:
    """`make nightly` lets a span begin at each byte of each log."""
    data = THREADED[name]
    table, told, tally = read(data, jobs=1)
    by_threads = read(data, jobs=3, span_bytes=span_bytes)
    assert by_threads[1:] == (told, tally)
    assert by_threads[0].combine_chunks().equals(table.combine_chunks())


@needs_kernel
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("records_a_batch", [10, 250])
def test_a_span_with_more_inside_than_memory_is_meant_for_comes_in_parts(
    monkeypatch: pytest.MonkeyPatch, jobs: int, codec: str, records_a_batch: int
) -> None:
    """Also in the midst of a batch."""
    monkeypatch.setattr(arrow_batches, "ENOUGH_BYTES", 5000)
    monkeypatch.setattr(arrow_batches, "DATA_BYTES", 1000)
    made: list[int] = []
    make = arrow_batches.BatchMaker.make

    def watched(self: Any, *where: Any) -> Any:
        found = make(self, *where)
        made.append(found.size)
        return found

    monkeypatch.setattr(arrow_batches.BatchMaker, "make", watched)
    firsts = range(0, 1000, records_a_batch)
    data = b"".join(build_batch(numbered(records_a_batch, n, size=200), codec=codec) for n in firsts)
    table, told, _ = read(data, jobs=jobs, span_bytes=len(data) // 4, columns=["offset", "value"])
    assert told == []
    assert table["offset"].to_pylist() == list(range(1000))
    assert max(made) <= 5000 + 2 * 1000
    assert len(made) > 30


def test_threads_are_asked_for_what_they_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    spans: list[Any] = []
    make = arrow_batches.BatchMaker.make

    def watched(self: Any, file: Any, end: int, span: Any) -> Any:
        spans.append(span)
        return make(self, file, end, span)

    monkeypatch.setattr(arrow_batches.BatchMaker, "make", watched)
    data = THREADED["plain"]
    read(data, jobs=2, span_bytes=4096)
    assert sorted((span.start, span.guessed) for span in spans) == [(at, at > 0) for at in range(0, len(data), 4096)], (
        "no guess was wrong, and nothing was read twice"
    )


# ---------------------------------------------------------------- memory


@needs_kernel
def test_a_record_batch_that_is_kept_is_never_overwritten(little_room: Callable[[int, int], None]) -> None:
    little_room(64, 4000)
    kept, parts = [], []
    with log_file(THREADED["generated"]) as path:
        for n, batch in enumerate(scan(path, jobs=2).to_reader()):
            copied = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
            if n % 3 == 0:
                kept.append((batch, copied))
            elif n % 3 == 1:
                parts.append((batch["value"].slice(1), copied["value"].slice(1)))
            del batch
    assert len(kept) > 5
    assert all(batch.equals(copied) for batch, copied in [*kept, *parts])


def test_memory_is_used_again_only_when_nobody_holds_it() -> None:
    blocks = Blocks()
    block = blocks.take(1000)
    block[:4] = b"abcd"
    address = pa.py_buffer(block).address
    held = pa.Array.from_buffers(pa.int8(), 900, [None, blocks.freeze(block, 900)])
    part = held.slice(2, 2)
    del block, held
    assert pa.py_buffer(blocks.take(1000)).address != address
    assert part.to_pylist() == [ord("c"), ord("d")]
    del part
    assert pa.py_buffer(blocks.take(1000)).address == address


def test_little_of_a_block_is_copied_so_that_the_rest_is_free_at_once() -> None:
    blocks = Blocks()
    block = blocks.take(100_000)
    block[:4] = b"abcd"
    address = pa.py_buffer(block).address
    copied = blocks.freeze(block, 4)
    assert copied.to_pybytes() == b"abcd"
    assert pa.py_buffer(blocks.take(100_000)).address == address
    assert blocks.freeze(blocks.take(10), 0).size == 0
    assert blocks.freeze(blocks.take(0), 0).size == 0


def test_memory_goes_with_the_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    before, mapped = pa.total_allocated_bytes(), weakref.WeakSet[mmap.mmap]()

    def watched(*args: Any, **options: Any) -> mmap.mmap:
        made = mmap.mmap(*args, **options)
        mapped.add(made)
        return made

    watching = types.SimpleNamespace(mmap=watched, MAP_PRIVATE=mmap.MAP_PRIVATE, MAP_ANONYMOUS=mmap.MAP_ANONYMOUS)
    monkeypatch.setattr(arrow_memory, "mmap", watching)
    with log_file(THREADED["plain"]) as path:
        kept = list(scan(path).to_reader())
        assert len(mapped) > 10 if kernels.is_built() else pa.total_allocated_bytes() > before
    del kept
    assert not mapped
    assert pa.total_allocated_bytes() == before


@needs_kernel
@pytest.mark.parametrize("left", [1, 70_000, 1 << 20, 2_100_000])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("span_bytes", [1 << 18, 8 << 20])
def test_a_file_that_is_cut_while_the_kernel_works_on_it(
    left: int, jobs: int, span_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are those of the file as it is then; never of zeros."""
    data = b"".join(build_batch(numbered(10, 10 * n, size=1000)) for n in range(250))
    assert len(data) > left
    expected, told, _ = read(data[:left])
    native, paths = kernels.native, []

    class CutFirst:
        def __getattr__(self, name: str) -> Any:
            if name == "columns" and os.stat(paths[0]).st_size > left:
                os.truncate(paths[0], left)
            return getattr(native, name)

    monkeypatch.setattr(kernels, "native", CutFirst())
    found: Told = []
    with log_file(data) as path, LogFile(path) as file:
        paths.append(path)
        query = RecordQuery(
            on_damage=lambda error: found.append((error.position, error.reason)), jobs=jobs, span_bytes=span_bytes
        )
        batches = walk_record_batches(file, LogPart("t", 3), query)
        assert table_of(batches).combine_chunks().equals(expected.combine_chunks())
    assert [position for position, _ in found] == [position for position, _ in told]
