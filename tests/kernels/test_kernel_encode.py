"""The kernel that makes batches of columns equals format.batch_encoding. Kafka's reader reads back what was given."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_batches import build_batch

from klogtool import kernels
from klogtool.format.batch import (
    CODEC_NAMES,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Header,
    Record,
    RecordBatch,
    parse_batch,
)
from klogtool.format.batch_encoding import (
    BatchForm,
    BytesColumn,
    HeadersColumn,
    RecordColumns,
    column_of,
    encode_batches,
    headers_of,
)
from klogtool.format.partitioner import murmur2, partitions_of

ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

nullable = st.none() | st.binary(max_size=70)
headers = st.lists(st.tuples(st.binary(max_size=9), nullable), max_size=3)
steps = st.integers(1, 3) | st.sampled_from([INT_MAX, INT_MAX + 1, 2**40])
times = st.integers(-1, 5) | st.integers(-1, LONG_MAX)
rows = st.lists(st.tuples(steps, times, nullable, nullable, headers), max_size=30)
forms = st.builds(
    BatchForm,
    batch_bytes=st.integers(0, 900),
    batch_records=st.integers(1, 12) | st.just(INT_MAX),
    attributes=st.sampled_from([0, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT]),
    append_time_ms=st.none() | times,
    partition_leader_epoch=st.integers(-1, INT_MAX),
    producer_id=st.integers(-1, LONG_MAX),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, INT_MAX),
)


def columns_of(made: Sequence[Any]) -> RecordColumns:
    offsets, at = array("q"), -1
    for row in made:
        at += row[0]
        offsets.append(at)
    return RecordColumns(
        offsets,
        array("q", (row[1] for row in made)),
        column_of([row[2] for row in made]),
        column_of([row[3] for row in made]),
        headers_of([row[4] for row in made]),
    )


def records_of(made: Sequence[Any]) -> list[Record]:
    found, at = [], -1
    for step, time, key, value, some in made:
        at += step
        found.append(Record(at, time, key, value, tuple(Header(*one) for one in some)))
    return found


def batches_of(data: bytes) -> list[RecordBatch]:
    found, at = [], 0
    while at < len(data):
        found.append(parse_batch(data, at))
        at += found[-1].size
    assert at == len(data)
    return found


def both(native: Any, *arguments: Any) -> tuple[Any, Any]:
    """What each of the two answers, or what it raises."""
    answers = []
    for encode in (native.encode_batches, encode_batches):
        try:
            answers.append(encode(*arguments))
        except ValueError as error:
            answers.append(str(error))
    return answers[0], answers[1]


def plain(columns: RecordColumns, form: BatchForm | None = None) -> bytes:
    return kernels.native.encode_batches(columns, 0, columns.rows, form or BatchForm(16_384))


@ANY
@given(rows, forms, st.data())
def test_the_two_agree(native: Any, made: list[Any], form: BatchForm, data: Any) -> None:
    columns = columns_of(made)
    at = data.draw(st.integers(0, len(made)))
    stop = data.draw(st.integers(at, len(made)))
    ours, theirs = both(native, columns, at, stop, form)
    assert ours == theirs
    assert isinstance(ours, bytes)


@ANY
@given(rows, st.integers(0, 900))
def test_every_record_is_read_back(made: list[Any], batch_bytes: int) -> None:
    data = plain(columns_of(made), BatchForm(batch_bytes))
    batches = batches_of(data)
    assert [record for batch in batches for record in batch.records()] == records_of(made)
    assert all(batch.crc_valid for batch in batches)
    assert all(batch.size <= batch_bytes or batch.records_count == 1 for batch in batches)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_batch_is_what_build_batch_makes(native: Any, codec: str) -> None:
    made = [(1 + n % 3, 1_700_000_000_000 + n, b"k%d" % n, b"v" * n, [(b"h", None)] * (n % 2)) for n in range(50)]
    columns, form = columns_of(made), BatchForm(1 << 20, attributes=CODEC_NAMES.index(codec))
    expected = build_batch(records_of(made), codec=codec)

    def compress(body: bytes) -> bytes:
        return kernels.compress(codec, body, magic=2)

    assert both(native, columns, 0, 50, form, compress) == (expected, expected)


def test_a_batch_ends_at_its_size(native: Any) -> None:
    columns = columns_of([(1, 0, b"k", b"v" * 50, [])] * 10)
    one = len(plain(columns, BatchForm(0))) // 10
    for batch_bytes, most in ((one, 1), (2 * one - RECORD_BATCH_OVERHEAD, 2), (2 * one - RECORD_BATCH_OVERHEAD - 1, 1)):
        assert batches_of(plain(columns, BatchForm(batch_bytes)))[0].records_count == most


def test_sequences_continue_and_begin_again(native: Any) -> None:
    columns = columns_of([(1, 0, None, b"v", [])] * 5)
    form = BatchForm(1 << 20, batch_records=2, producer_id=7, producer_epoch=1, base_sequence=INT_MAX - 2)
    ours, theirs = both(native, columns, 0, 5, form)
    assert ours == theirs
    assert [batch.base_sequence for batch in batches_of(ours)] == [INT_MAX - 2, INT_MAX, 1]


def test_columns_that_are_not_there_are_null(native: Any) -> None:
    columns = RecordColumns(array("q", [4, 9]), array("q", [1, 1]))
    ours, theirs = both(native, columns, 0, 2, BatchForm(100))
    assert ours == theirs
    (batch,) = batches_of(ours)
    assert [*batch.records()] == [Record(4, 1, None, None), Record(9, 1, None, None)]


def sound() -> RecordColumns:
    return columns_of([(1, 5, b"k", b"v", [(b"h", b"x")])] * 3)


def test_offsets_that_do_not_ascend_are_refused(native: Any) -> None:
    for offsets in ([0, 2, 2], [0, 2, 1], [-1, 0, 1]):
        columns = RecordColumns(array("q", offsets), array("q", [0, 0, 0]))
        ours, theirs = both(native, columns, 0, 3, BatchForm(0))
        assert ours == theirs
        assert "offsets have to ascend" in ours


def test_a_time_below_zero_is_refused(native: Any) -> None:
    columns = RecordColumns(array("q", [0, 1]), array("q", [-1, -2]))
    assert both(native, columns, 0, 2, BatchForm(0)) == ("row 1: invalid negative timestamp",) * 2


def test_the_key_of_a_header_is_not_null(native: Any) -> None:
    columns = RecordColumns(array("q", [0]), array("q", [0]), headers=headers_of([[(b"h", b"")]]))
    broken = HeadersColumn(columns.headers.starts, column_of([None]), columns.headers.values)  # type: ignore[union-attr]
    columns = RecordColumns(columns.offsets, columns.timestamps, headers=broken)
    assert both(native, columns, 0, 1, BatchForm(0)) == ("row 0: the key of a header is null",) * 2


def test_rows_that_are_not_there_are_refused(native: Any) -> None:
    for at, stop in ((-1, 2), (2, 1), (0, 4), (4, 4)):
        ours, theirs = both(native, sound(), at, stop, BatchForm(0))
        assert ours == theirs == "the rows have to lie in the columns"
    short = RecordColumns(array("q", [0, 1]), array("q", [0]))
    assert both(native, short, 0, 2, BatchForm(0)) == ("there are not as many timestamps as offsets",) * 2


@ANY
@given(
    st.lists(st.integers(-2, 9) | st.integers(-(2**31), INT_MAX), max_size=6),
    st.binary(max_size=6),
    st.none() | st.binary(max_size=6),
    st.lists(st.integers(-2, 5), max_size=5),
)
def test_numbers_that_point_outside_are_refused(
    native: Any, starts: list[int], data: bytes, is_valid: bytes | None, header_starts: list[int]
) -> None:
    column = BytesColumn(array("i", starts), data, is_valid)
    for columns in (
        RecordColumns(array("q", [0, 1]), array("q", [0, 0]), column, column),
        RecordColumns(
            array("q", [0, 1]),
            array("q", [0, 0]),
            headers=HeadersColumn(array("i", header_starts), column, column),
        ),
    ):
        ours, theirs = both(native, columns, 0, 2, BatchForm(300))
        assert ours == theirs


def test_what_compresses_may_fail(native: Any) -> None:
    def refuse(body: bytes) -> bytes:
        raise OSError("no")

    for encode in (native.encode_batches, encode_batches):
        with pytest.raises(OSError, match="no"):
            encode(sound(), 0, 3, BatchForm(100), refuse)


# The partition of a key. The hashes are those of Kafka's UtilsTest.testMurmur2, unsigned.


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@ANY
@given(st.lists(nullable, max_size=20), st.integers(1, INT_MAX))
def test_the_two_agree_on_partitions(native: Any, keys: list[bytes | None], partitions: int) -> None:
    column = column_of(keys)
    found = native.partitions_of(column, len(keys), partitions)
    assert found == partitions_of(column, len(keys), partitions)


def test_partitions_of_columns_that_are_not_sound(native: Any) -> None:
    for which in (native.partitions_of, partitions_of):
        with pytest.raises(ValueError, match="row 1: its bytes lie outside"):
            which(BytesColumn(array("i", [0, 1, 9]), b"ab"), 2, 3)
        with pytest.raises(ValueError, match="row 2: its bytes lie outside"):
            which(column_of([b"a", None]), 3, 3)
        with pytest.raises(ValueError, match="one partition"):
            which(column_of([b"a"]), 1, 0)
