"""The next sound entry in a file, whatever the pieces that are looked through, by both readers."""

from __future__ import annotations

import random

import pytest
from raw_batches import build_batch
from readers import Reader, log_file
from vectors import BATCH, BATCH_WITH_HEADERS, BATCHES, MAGIC_1, MESSAGES, Vector

from klogtool import kernels
from klogtool.format.batch import Record
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.resync import GAVE_UP
from klogtool.log import resync
from klogtool.log.file import LogFile
from klogtool.log.resync import OVERLAP_BYTES, find_next_batch, search_next_batch

GARBAGE = random.Random(3).randbytes(1000)


def found_in(reader: Reader, data: bytes, position: int = 0, *, end: int | None = None, lowest: int = 0) -> int | None:
    with log_file(data) as path, LogFile(path) as file, reader.reading() as native:
        found = find_next_batch(file, position, end=len(data) if end is None else end, lowest=lowest)
        assert native is None or native.asked["find_batch"] > 0 or position >= len(data)
        return found


@pytest.fixture(params=[128, 129, 200, 1000, 4 << 20])
def piece_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(resync, "CHUNK_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("before", [0, 1, 63, 64, 65, 120, 127, 128, 129, 500, 1000])
def test_behind_any_garbage(reader: Reader, piece_bytes: int, before: int) -> None:
    assert found_in(reader, GARBAGE[:before] + BATCH.data + GARBAGE) == before
    assert found_in(reader, bytes(before) + MAGIC_1.data + GARBAGE) == before


@pytest.mark.parametrize("vector", [*MESSAGES, *BATCHES], ids=str)
def test_every_kind(reader: Reader, vector: Vector) -> None:
    assert found_in(reader, GARBAGE + vector.data) == 1000


def test_larger_than_a_piece(reader: Reader, piece_bytes: int) -> None:
    large = build_batch([Record(7, 0, None, bytes(3000))])
    assert found_in(reader, GARBAGE + large) == 1000
    wounded = bytearray(large)
    wounded[2000] ^= 1
    assert found_in(reader, GARBAGE + bytes(wounded) + BATCH.data) == 1000 + len(large)


def test_close_behind_what_only_looks_like_one(reader: Reader, piece_bytes: int) -> None:
    """A header that promises more than a piece, and a sound entry where its records would be."""
    claim = BATCH.data[:8] + (2000).to_bytes(4, "big") + BATCH.data[12:61]
    assert found_in(reader, claim * 3 + BATCH.data + GARBAGE * 2) == 3 * len(claim)


def test_after_so_much_reading_for_nothing_it_gives_up(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "CHUNK_BYTES", 128)
    offset = 1 << 40
    sound = offset.to_bytes(8, "big") + BATCH.data[8:]
    claim = sound[:8] + (2000).to_bytes(4, "big") + sound[12:61]
    data = claim * 3 + sound + GARBAGE * 2
    spent = 3 * (128 + 2012) - 2 * 60  # the second and the third begin 60 bytes into their piece
    for budget, found in ((spent, None), (spent + 1, 3 * len(claim)), (1, None)):
        monkeypatch.setattr(resync, "MOST_EXTRA_BYTES", budget)
        assert found_in(reader, data, lowest=offset) == found


def test_a_piece_in_which_the_search_gives_up_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "CHUNK_BYTES", 128)
    answers = iter([(GAVE_UP, 0), (GAVE_UP, 0), (5, 0)])
    monkeypatch.setattr(kernels.native, "find_batch", lambda *_: next(answers))
    with log_file(bytes(1000)) as path, LogFile(path) as file:
        assert search_next_batch(file, 0, end=1000, lowest=0) == (2 * (128 - OVERLAP_BYTES) + 5, False)


def test_after_several_such_it_gives_up_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "CHUNK_BYTES", 128)
    monkeypatch.setattr(kernels.native, "find_batch", lambda *_: (GAVE_UP, 0))
    with log_file(bytes(10_000)) as path, LogFile(path) as file:
        assert search_next_batch(file, 0, end=10_000, lowest=0) == (None, False)
        assert find_next_batch(file, 0, end=10_000, lowest=0) is None


def test_a_search_of_all_is_sure(reader: Reader) -> None:
    with log_file(GARBAGE + BATCH.data) as path, LogFile(path) as file, reader.reading():
        assert search_next_batch(file, 0, end=file.size, lowest=0) == (1000, True)
        assert search_next_batch(file, 1001, end=file.size, lowest=0) == (None, True)


def test_from_a_position_on(reader: Reader) -> None:
    data = BATCH.data + BATCH_WITH_HEADERS.data
    assert [found_in(reader, data, at) for at in (0, 1, 81, 82, len(data))] == [0, 81, 81, None, None]


def test_none(reader: Reader, piece_bytes: int) -> None:
    for data in (GARBAGE, bytes(1000), b"", BATCH.data[:-1], b"\xff" * 500 + BATCH.data[1:]):
        assert found_in(reader, data) is None


def test_only_what_ends_before_the_end(reader: Reader) -> None:
    data = GARBAGE + BATCH.data
    assert found_in(reader, data, end=len(data) - 1) is None
    assert found_in(reader, data, end=len(data)) == 1000
    assert found_in(reader, data, end=500) is None


def test_only_from_the_lowest_offset_on(reader: Reader) -> None:
    data = BATCH.data + BATCH_WITH_HEADERS.data
    assert found_in(reader, data, lowest=1) == 81
    assert found_in(reader, data, lowest=21) is None


def test_behind_the_last_offset_there_is_nothing(reader: Reader) -> None:
    """What follows a batch of the last offset has none that is larger: found by `tools/fuzz/dump_log.py --resync`."""
    with log_file(BATCH.data) as path, LogFile(path) as file, reader.reading():
        assert search_next_batch(file, 0, end=file.size, lowest=2**63 - 1) == (None, True)
        assert search_next_batch(file, 0, end=file.size, lowest=2**63) == (None, True)


def test_the_overlap_holds_a_header() -> None:
    assert OVERLAP_BYTES >= 61 > LOG_OVERHEAD
