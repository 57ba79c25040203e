"""Records as objects: those that Kafka reads, from both readers, with the same errors at the same places."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.generated import by_klogtool, shapes
from raw_batches import build_batch, raw_batch
from running import FIXTURES, ROOT, with_memory
from test_fixtures import Row, files_with_records, in_our_form

import klogtool
from klogtool import kernels
from klogtool.format.batch import CODEC_NAMES, Header, Record, parse_batch
from klogtool.format.codecs import compress
from klogtool.format.message import build_message, build_message_set, parse_message
from klogtool.format.varint import build_zigzag

sys.path.append(str(ROOT / "tools/fuzz"))

from damaged import damaged, seeds

DAMAGED_INPUTS = 1500
GENERATED_INPUTS = 60
NATIVE = kernels.native


@pytest.fixture(params=["reference", "kernel"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both readers in turn, and a check of which one ran."""
    if request.param == "kernel" and not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    made = watched_kernel() if request.param == "kernel" else None
    monkeypatch.setattr(kernels, "native", made or kernels.absent)
    yield request.param
    assert made is None or made.count > 0


def watched_kernel() -> Any:
    """The extension, counting the readers that it makes."""

    class Watched:
        count = 0

        def __getattr__(self, name: str) -> Any:
            Watched.count += name == "RecordReader"
            return getattr(NATIVE, name)

    return Watched()


@pytest.fixture
def log(tmp_path: pathlib.Path) -> Callable[[bytes], klogtool.Segment]:
    """A segment with these bytes."""

    def segment_of(data: bytes) -> klogtool.Segment:
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(data)
        return klogtool.Segment(str(path))

    return segment_of


def row_of(batch: klogtool.RecordBatch | klogtool.Message, record: klogtool.Record) -> Row:
    """A record with what its batch says of it, as in golden/records.jsonl."""
    return {
        "batch_position": batch.position,
        "magic": batch.magic,
        "codec": batch.codec,
        "offset": record.offset,
        "timestamp": None if record.timestamp == -1 else record.timestamp,
        "timestamp_type": batch.timestamp_type,
        "key": record.key,
        "value": record.value,
        "headers": [[header.key.decode(), header.value] for header in record.headers],
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": record.sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }


@pytest.mark.parametrize(("fixture", "file", "golden"), files_with_records())
def test_every_record_of_a_fixture(reader: str, fixture: pathlib.Path, file: str, golden: list[Row]) -> None:
    segment = klogtool.open(fixture / file)
    assert isinstance(segment, klogtool.Segment | klogtool.KraftSnapshot)
    rows, batches, error = [], [], None
    try:
        for batch in segment.batches():
            batches.append(batch)
            rows += [row_of(batch, record) for record in (batch.records() if batch.crc_valid else ())]
    except klogtool.Corrupt as found:
        error = found
    assert {b.position for b in batches if not b.crc_valid} == {
        row["batch_position"] for row in golden if "isvalid" in row
    }
    assert [row["error"] for row in golden if "error" in row] == ([error.kafka_class] if error else [])
    kafkas = [{name: row[name] for name in row if name in rows[0]} for row in map(in_our_form, records_in(golden))]
    assert rows == kafkas


def records_in(golden: list[Row]) -> list[Row]:
    return [row for row in golden if "offset" in row]


def test_the_records_of_a_segment_are_those_of_its_batches(reader: str) -> None:
    for path in sorted(FIXTURES.rglob("*.log")):
        segment = klogtool.Segment(str(path))
        assert outcome(segment.records()) == outcome(r for batch in segment.batches() for r in batch.records()), path


def outcome(records: Iterator[Record]) -> tuple[list[Record], Any]:
    """The records up to the end or the error, and what that says."""
    found = []
    try:
        for record in records:
            found.append(record)
    except klogtool.KlogError as error:
        return found, (type(error), error.reason, error.path, error.position, error.kafka_class)
    return found, None


# ---------------------------------------------------------------- the readers agree


def outcomes(segment: klogtool.Segment, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each reader finds, of the whole segment and batch by batch."""
    found = []
    for native in (kernels.absent, NATIVE):
        monkeypatch.setattr(kernels, "native", native)
        whole = outcome(segment.records())
        assert outcome(r for batch in segment.batches() for r in batch.records()) == whole
        found.append(whole)
    return found


needs_kernel = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize("part", range(5))
def test_damaged_segments(log: Callable[[bytes], klogtool.Segment], monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    found = [data for _, data in seeds((".log", ".checkpoint"))]
    for n in range(part, DAMAGED_INPUTS, 5):
        rng = random.Random(n)
        segment = log(damaged(rng, rng.choice(found), healed=rng.random() < 0.6))
        by_reference, by_kernel = outcomes(segment, monkeypatch)
        assert by_kernel == by_reference, f"input {n}"


@pytest.mark.slow
@needs_kernel
def test_generated_segments(log: Callable[[bytes], klogtool.Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(GENERATED_INPUTS):
        drawn = shapes(random.Random(n), codecs=CODEC_NAMES)
        by_reference, by_kernel = outcomes(log(b"".join(map(by_klogtool, drawn))), monkeypatch)
        assert by_kernel == by_reference, f"seed {n}"
        assert by_kernel[1] is None
        assert len(by_kernel[0]) == sum(len(shape.records) for shape in drawn)


SMALL_RECORD = build_zigzag(6) + bytes((0, 0, 0, 1, 1, 0))  # no key, no value, no headers


@pytest.mark.parametrize(
    ("batch", "count", "reason"),
    [
        pytest.param(raw_batch(SMALL_RECORD * 3, records_count=3), 3, None, id="sound"),
        pytest.param(raw_batch(b"anything", records_count=0), 0, None, id="no records, their bytes not looked at"),
        pytest.param(raw_batch(SMALL_RECORD * 3, records_count=4), 3, "StreamError", id="one less than promised"),
        pytest.param(raw_batch(SMALL_RECORD * 3, records_count=2), 1, "still remaining", id="one more than promised"),
        pytest.param(raw_batch(SMALL_RECORD, records_count=-1), 0, "record count -1", id="a negative count"),
        pytest.param(raw_batch(b"\xff" * 60, records_count=1), 0, "Overlong", id="an endless varint"),
        pytest.param(raw_batch(build_zigzag(2**30), records_count=1), 0, "0 bytes are left", id="a huge record"),
        pytest.param(raw_batch(SMALL_RECORD, records_count=2**31 - 1), 1, "StreamError", id="a huge count"),
    ],
)
def test_records_that_do_not_parse(
    reader: str, log: Callable[[bytes], klogtool.Segment], batch: bytes, count: int, reason: str | None
) -> None:
    sound = build_batch([Record(7, 7, b"k", b"v")])
    segment = log(sound + batch + sound)
    records, error = outcome(segment.records())
    if reason is None:
        assert (len(records), error) == (2 + count, None)
    else:
        assert len(records) == 1 + count
        assert reason in error[1]
        assert error[0] is klogtool.Corrupt
        assert error[2:4] == (segment.path, len(sound))


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_a_compressed_batch_gives_all_records_or_none(
    reader: str, log: Callable[[bytes], klogtool.Segment], codec: str
) -> None:
    body = compress(codec, SMALL_RECORD * 3, magic=2)
    records, error = outcome(log(raw_batch(body, codec=codec, records_count=4)).records())
    assert records == []
    assert error[3] == 0


@pytest.mark.slow
def test_a_bomb_is_refused(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    body = compress("zstd", bytes(1 << 28) + b"!", magic=2)
    records, error = outcome(log(raw_batch(body, codec="zstd", records_count=1)).records())
    assert (records, error[0], error[3]) == ([], klogtool.AboveLimit, 0)


COUNT_RECORDS = "import sys, klogtool; print(sum(1 for _ in klogtool.open(sys.argv[1]).records()))"


@pytest.mark.slow
@needs_kernel
def test_millions_of_records_in_a_batch_come_piece_by_piece(log: Callable[[bytes], klogtool.Segment]) -> None:
    count = 2_000_000
    segment = log(raw_batch(compress("zstd", SMALL_RECORD * count, magic=2), codec="zstd", records_count=count))
    assert segment.size < 10_000
    command = [sys.executable, "-c", COUNT_RECORDS, segment.path]
    done = subprocess.run(command, preexec_fn=with_memory(256 << 20), capture_output=True, timeout=60, check=True)
    assert int(done.stdout) == count


def test_a_file_of_many_windows_and_a_batch_larger_than_one(
    reader: str, log: Callable[[bytes], klogtool.Segment]
) -> None:
    sizes = [5, 900, 30_000, 2_000_000, 100_000, 70, 400_000] * 3
    pieces = [build_batch([Record(n, n, None, bytes(size))]) for n, size in enumerate(sizes)]
    segment = log(b"".join(pieces) + b"tail")
    assert [(r.offset, len(r.value or b"")) for r in segment.records()] == list(enumerate(sizes))
    batches = list(segment.batches())
    assert [bytes(batch.data) for batch in batches] == pieces
    assert all(batch.crc_valid for batch in batches)
    assert segment.tail_bytes() == 4


@pytest.mark.parametrize("magic", [3, 127])
def test_a_magic_above_2_is_read_as_2(reader: str, log: Callable[[bytes], klogtool.Segment], magic: int) -> None:
    segment = log(raw_batch(SMALL_RECORD, records_count=1, magic=magic))
    assert [batch.magic for batch in segment.batches()] == [magic]
    assert len(outcome(segment.records())[0]) == 1


def test_a_negative_magic_is_no_message(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    data = bytearray(build_message(0, b"k", b"v", magic=1))
    data[16] = 0xFE
    records, error = outcome(log(bytes(data)).records())
    assert (records, error[1], error[3]) == ([], "invalid magic -2 (offset 0)", 0)


def test_a_record_of_each_magic(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    header = Header(b"h", None)
    records = [Record(5, 1700, b"k", b"", ()), Record(6, 1701, None, None, ())]
    data = build_message_set(records, magic=0) + build_message_set(records, magic=1, codec="gzip")
    data += build_batch([Record(7, 1702, b"", b"v", (header, header), 3)], producer_id=1, base_sequence=3)
    found = list(log(data).records())
    assert [(r.offset, r.timestamp, r.key, r.value, r.sequence) for r in found] == [
        (5, -1, b"k", b"", -1),
        (6, -1, None, None, -1),
        (5, 1700, b"k", b"", -1),
        (6, 1701, None, None, -1),
        (7, 1702, b"", b"v", 3),
    ]
    assert [r.crc_valid for r in found] == [True] * 4 + [None]
    assert [batch.base_offset for batch in log(data).batches()] == [5, 6, None, 7]
    assert found[-1].headers == (header, header)
    assert found[-1].crc is None
    assert all(type(r) is klogtool.Record for r in found)


# ---------------------------------------------------------------- batches


def test_a_batch_has_every_field_of_the_reference_and_its_path(log: Callable[[bytes], klogtool.Segment]) -> None:
    data = build_batch([Record(7, 1702, b"", b"v")]) + build_message(9, b"k", b"v", magic=1, timestamp=4)
    segment = log(data)
    batch, message = segment.batches()
    for found, expected in (
        (batch, parse_batch(data)),
        (message, parse_message(data, batch.size)),
    ):
        names = expected.__struct_fields__
        assert [getattr(found, n) for n in names] == [getattr(expected, n) for n in names]
        assert isinstance(found, type(expected))
        assert found.path == segment.path
        assert bytes(found.data) == data[found.position : found.position + found.size]


def test_a_batch_cannot_be_changed(log: Callable[[bytes], klogtool.Segment]) -> None:
    (batch,) = log(build_batch([Record(7, 1702, b"", b"v")])).batches()
    (record,) = batch.records()
    with pytest.raises(AttributeError):
        batch.position = 8  # type: ignore[misc]
    with pytest.raises(AttributeError):
        record.offset = 8  # type: ignore[misc]
    assert batch.data.readonly


def test_from_a_position_on(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    pieces = [build_batch([Record(n, n, None, b"v" * n)]) for n in range(5)]
    segment = log(b"".join(pieces))
    start = len(pieces[0]) + len(pieces[1])
    assert [batch.base_offset for batch in segment.batches(start)] == [2, 3, 4]
    assert [record.offset for record in segment.records(start)] == [2, 3, 4]
    assert list(segment.batches(segment.size)) == []
    for outside in (-1, segment.size + 1, 2**70):
        with pytest.raises(klogtool.KlogError, match="outside of the file"):
            list(segment.batches(outside))


@pytest.mark.parametrize("tail", [b"\0", b"\xff" * 17, b"\0" * 17, build_batch([Record(9, 9, None, b"torn")])[:-1]])
def test_a_tail_is_a_silent_end_that_is_told(
    reader: str, log: Callable[[bytes], klogtool.Segment], tail: bytes
) -> None:
    sound = build_batch([Record(7, 1702, b"", b"v")])
    segment = log(sound + tail)
    assert len(list(segment.batches())) == 1
    assert [record.offset for record in segment.records()] == [7]
    assert segment.tail_bytes() == len(tail)
    assert log(sound).tail_bytes() == 0
    assert log(b"").tail_bytes() == 0


def test_an_impossible_length_ends_the_batches_before_it_aloud(
    reader: str, log: Callable[[bytes], klogtool.Segment]
) -> None:
    sound = build_batch([Record(7, 1702, b"", b"v")])
    segment = log(sound + bytes(18))
    batches = segment.batches()
    assert next(batches).base_offset == 7
    for walk in (lambda: next(batches), lambda: list(segment.records()), segment.tail_bytes):
        with pytest.raises(klogtool.Corrupt) as found:
            walk()
        assert (found.value.path, found.value.position) == (segment.path, len(sound))


def test_a_batch_that_says_it_is_shorter_than_its_header(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    short = bytearray(build_batch([Record(7, 1702, b"", b"v")]))[:50]
    short[8:12] = (38).to_bytes(4, "big")
    (alone, follows) = (outcome(log(bytes(short) + rest).records()) for rest in (b"", bytes(15)))
    assert alone == ([], (klogtool.Corrupt, *alone[1][1:3], 0, "KafkaException"))
    assert follows == ([], (klogtool.Corrupt, "batch is smaller than its header", *follows[1][2:3], 0, follows[1][4]))


def test_a_file_that_is_cut_while_it_is_read(reader: str, log: Callable[[bytes], klogtool.Segment]) -> None:
    piece = build_batch([Record(0, 0, None, bytes(3000))])
    for left in (0, 1, 17, 30, 100_000, 1_000_001):
        segment = log(piece * 1000)
        records = segment.records()
        next(records)
        pathlib.Path(segment.path).write_bytes((piece * 1000)[:left])
        assert sum(1 for _ in records) < 1000
