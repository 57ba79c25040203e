"""Entries of a file looked at in any order, as the checks of indexes do."""

from __future__ import annotations

import random

import pytest
from readers import log_file
from vectors import BATCH, BATCH_DELETE_HORIZON, BATCHES, MAGIC_0, MAGIC_1_GZIP, MESSAGES

from klogtool.errors import Corrupt
from klogtool.format.framing import Frame, FrameStop
from klogtool.log import frames
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader

ENTRIES = [*MESSAGES, *BATCHES]
EVERY_KIND = b"".join(vector.data for vector in ENTRIES)
POSITIONS = [sum(len(other.data) for other in ENTRIES[:n]) for n in range(len(ENTRIES))]


@pytest.mark.parametrize("piece_bytes", [61, 100, 1 << 16])
def test_every_entry_in_any_order(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "CHUNK_BYTES", piece_bytes)
    order = [*range(len(ENTRIES)), *reversed(range(len(ENTRIES)))]
    random.Random(1).shuffle(order)
    with log_file(EVERY_KIND) as path, LogFile(path) as file:
        reader = FrameReader(file)
        for n in order:
            frame = reader.find(POSITIONS[n], len(EVERY_KIND))
            assert isinstance(frame, Frame)
            assert (frame.position, frame.size, frame.magic) == (
                POSITIONS[n],
                len(ENTRIES[n].data),
                ENTRIES[n].data[16],
            )
            entry = reader.read(frame)
            assert (entry.position, reader.last_offset(frame)) == (POSITIONS[n], entry.last_offset)
            assert tuple(entry.records()) == ENTRIES[n].records


def test_last_offsets() -> None:
    with log_file(MAGIC_0.data + MAGIC_1_GZIP.data + BATCH_DELETE_HORIZON.data) as path, LogFile(path) as file:
        reader = FrameReader(file)
        found = [reader.find(position, file.size) for position in (0, 28, 122)]
        assert [reader.last_offset(frame) for frame in found if isinstance(frame, Frame)] == [0, 12, 5]


def test_why_there_is_none() -> None:
    with log_file(BATCH.data + bytes(20) + BATCH.data[:50]) as path, LogFile(path) as file:
        reader = FrameReader(file)
        assert reader.find(81, file.size) is FrameStop.LENGTH
        assert reader.find(101, file.size) is FrameStop.TAIL
        assert reader.find(file.size - 17, file.size) is FrameStop.TAIL
        assert reader.find(file.size, file.size) is FrameStop.END


def test_the_end_may_lie_before_the_files_and_behind_it() -> None:
    with log_file(BATCH.data * 2) as path, LogFile(path) as file:
        reader = FrameReader(file)
        assert reader.find(81, 161) is FrameStop.TAIL
        assert reader.find(81, 98) is FrameStop.TAIL
        assert isinstance(reader.find(81, 162), Frame)
        assert isinstance(reader.find(81, 1 << 40), Frame)
        assert reader.find(162, 1 << 40) is FrameStop.END


def test_the_error_of_a_length_that_cannot_be() -> None:
    with log_file(BATCH.data + b"\0" * 8 + b"\xff" * 4 + bytes(30)) as path, LogFile(path) as file:
        error = FrameReader(file).corrupt_length(81)
        assert (error.position, error.kafka_class) == (81, "CorruptRecordException")
        assert error.reason == "record size -1 is smaller than the minimum record overhead (14)"


def test_a_header_that_the_file_ends_in() -> None:
    short = BATCH.data[:8] + (14).to_bytes(4, "big") + BATCH.data[12:26]
    with log_file(BATCH.data + short) as path, LogFile(path) as file:
        reader = FrameReader(file)
        frame = reader.find(81, file.size)
        assert isinstance(frame, Frame)
        for look in (reader.last_offset, reader.read):
            with pytest.raises(Corrupt, match="ends inside the batch header") as found:
                look(frame)
            assert found.value.position == 81


def test_a_header_is_read_past_a_batch_that_is_shorter() -> None:
    short = BATCH.data[:8] + (14).to_bytes(4, "big") + BATCH.data[12:]
    with log_file(short) as path, LogFile(path) as file:
        reader = FrameReader(file)
        frame = reader.find(0, file.size)
        assert isinstance(frame, Frame)
        assert (frame.size, reader.last_offset(frame), reader.read(frame).records_count) == (26, 1, 2)


def test_pieces_are_read_once_as_long_as_they_last(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = LogFile.read

    def spied(file: LogFile, position: int, size: int) -> bytes:
        reads.append(position)
        return read(file, position, size)

    monkeypatch.setattr(LogFile, "read", spied)
    with log_file(BATCH.data * 20) as path, LogFile(path) as file:
        reader = FrameReader(file)
        for position in range(0, 81 * 19, 81):
            frame = reader.find(position, file.size)
            assert isinstance(frame, Frame)
            reader.last_offset(frame)
    assert reads == [0]
