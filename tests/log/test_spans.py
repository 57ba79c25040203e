"""Spans of a file by several threads: what they make of it together is what one would make of it alone."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from raw_batches import build_batch
from readers import log_file
from vectors import BATCH

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.framing import Frame, find_frame
from klogtool.log import resync, spans
from klogtool.log.file import LogFile
from klogtool.log.spans import Span, find_start, walk_spans

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")

END = 1 << 40


@dataclass
class Made:
    """The entries of a span, by position."""

    start: int | None
    reached: int = 0
    last: bool = False
    entries: list[int] = field(default_factory=list)
    is_enough: bool = False


def work_on(file: LogFile, data: bytes) -> Callable[[], Callable[[Span], Made]]:
    """What each thread does here: the positions of the entries of its span."""

    def work(span: Span) -> Made:
        made = Made(find_start(file, span, len(data)))
        if made.start is None:
            return made
        made.reached = made.start
        while made.reached < span.stop and isinstance(found := find_frame(data, made.reached, len(data)), Frame):
            made.entries.append(made.reached)
            made.reached += found.size
        made.last = not isinstance(find_frame(data, made.reached, len(data)), Frame)
        return made

    return lambda: work


def entries_by(data: bytes, *, jobs: int, span_bytes: int, start: int = 0) -> tuple[list[int], int]:
    """All entries, and how many of the spans were done."""
    with log_file(data) as path, LogFile(path) as file:
        made = list(walk_spans(file, work_on(file, data), start=start, end=len(data), span_bytes=span_bytes, jobs=jobs))
    at = start
    for one in made:
        assert one.start == at
        at = one.reached
    assert [one.last for one in made] == [False] * (len(made) - 1) + [True]
    return [position for one in made for position in one.entries], len(made)


def batch(offset: int, size: int) -> bytes:
    return build_batch([Record(offset, 0, None, bytes(size))])


LOG = b"".join(batch(n, 7 * n % 300) for n in range(100))


def alone(data: bytes, start: int = 0) -> list[int]:
    return entries_by(data, jobs=1, span_bytes=END, start=start)[0]


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("span_bytes", [70, 100, 500, 4000, 1 << 20])
def test_every_entry_once_and_in_order(jobs: int, span_bytes: int) -> None:
    found, count = entries_by(LOG, jobs=jobs, span_bytes=span_bytes)
    assert found == alone(LOG)
    assert len(found) == 100
    assert (count > 1) == (span_bytes < len(LOG))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("data", [b"", b"x", BATCH.data, BATCH.data + b"x", BATCH.data[:-1], bytes(100)])
def test_there_is_at_least_one_span(data: bytes, jobs: int) -> None:
    found, count = entries_by(data, jobs=jobs, span_bytes=10)
    assert (found, count >= 1) == ([0] if data.startswith(BATCH.data) else [], True)


def test_from_a_start_on() -> None:
    start = alone(LOG)[10]
    assert entries_by(LOG, jobs=2, span_bytes=500, start=start)[0] == alone(LOG)[10:]


@pytest.mark.parametrize("span_bytes", [100, 1000])
def test_a_batch_inside_of_a_record_is_no_start(span_bytes: int) -> None:
    """It proves itself, and the span before does not end there: one thread goes on alone."""
    inside = b"".join(batch(n, 50) for n in range(1, 20))
    data = build_batch([Record(0, 0, None, inside)]) + b"".join(batch(n, 50) for n in range(1, 30))
    found, _ = entries_by(data, jobs=2, span_bytes=span_bytes)
    assert found == alone(data)
    assert len(found) == 30


def test_an_entry_larger_than_spans() -> None:
    data = batch(0, 10) + batch(1, 5000) + batch(2, 10) + batch(3, 5000)
    assert entries_by(data, jobs=3, span_bytes=200)[0] == alone(data)
    assert len(alone(data)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_wounded_logs(seed: int) -> None:
    """Entries that do not prove themselves are entries all the same, where the one before them ends."""
    rng = random.Random(seed)
    data = bytearray(LOG)
    for _ in range(rng.choice((1, 5, 40))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    for span_bytes in (100, 1000):
        assert entries_by(bytes(data), jobs=2, span_bytes=span_bytes)[0] == alone(bytes(data))


def test_lower_offsets_further_on_are_entries_all_the_same() -> None:
    """A search has a lowest offset, an entry has not."""
    data = b"".join(batch(n, 100) for n in (50, 51, 3, 4, 52, 60, 0, 1, 2, 3))
    assert entries_by(data, jobs=2, span_bytes=300)[0] == alone(data)


# ---------------------------------------------------------------- where a span begins


def start_of(data: bytes, span: Span) -> int | None:
    with log_file(data) as path, LogFile(path) as file:
        return find_start(file, span, len(data))


def test_a_span_that_is_not_guessed_begins_where_it_says() -> None:
    assert start_of(b"garbage", Span(3, 5)) == 3


def test_a_guessed_one_begins_at_the_next_entry_that_proves_itself() -> None:
    data = BATCH.data * 3
    assert start_of(data, Span(0, 500, guessed=True)) == 0
    assert start_of(data, Span(1, 500, guessed=True)) == 81
    assert start_of(data, Span(163, 500, guessed=True)) is None
    assert start_of(data, Span(1, 500, guessed=True, lowest=1)) is None


def test_it_is_looked_for_nearby_and_then_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "NEAR_BYTES", 100)
    for before in (10, 50, 99, 100, 1000):
        assert start_of(b"\xff" * before + BATCH.data, Span(1, 2000, guessed=True)) == before


@pytest.mark.parametrize("before", [499, 500, 501, 1000])
def test_but_not_behind_the_span(before: int) -> None:
    """What begins there is another span's."""
    assert start_of(b"\xff" * before + BATCH.data, Span(1, 500, guessed=True)) == (before if before < 500 else None)


def test_an_entry_over_many_spans_is_searched_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once more for each span, from there to its end."""
    read: list[int] = []
    read_into = LogFile.read_into

    def counted(file: LogFile, buffer: bytearray, position: int, size: int) -> memoryview:
        read.append(size)
        return read_into(file, buffer, position, size)

    monkeypatch.setattr(LogFile, "read_into", counted)
    monkeypatch.setattr(resync, "NEAR_BYTES", 1000)
    monkeypatch.setattr(resync, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(spans, "NEAR_BYTES", 100)
    data = batch(0, 200_000) + batch(1, 10)
    assert entries_by(data, jobs=2, span_bytes=1000)[0] == [0, len(data) - len(batch(1, 10))]
    assert sum(read) < 4 * len(data)


def test_without_the_extension_one_thread_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for starts would take longer than the reading."""
    monkeypatch.setattr("klogtool.log.spans.in_order", None)
    with pytest.raises(TypeError):
        entries_by(LOG, jobs=4, span_bytes=500)
    monkeypatch.setattr(kernels, "native", kernels.absent)
    assert entries_by(LOG, jobs=4, span_bytes=500)[0] == alone(LOG)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_without_entries_end_in_an_error(jobs: int) -> None:
    """And not in a loop without end."""
    stuck_at = alone(LOG)[2]

    def stuck(file: LogFile) -> Callable[[], Callable[[Span], Made]]:
        work = work_on(file, LOG[:stuck_at])()

        def work_to_there(span: Span) -> Made:
            made = work(span)
            made.last = False
            return made

        return lambda: work_to_there

    with log_file(LOG) as path, LogFile(path) as file:
        walk = walk_spans(file, stuck(file), start=0, end=len(LOG), span_bytes=500, jobs=jobs)
        with pytest.raises(KlogError, match=f"at byte {stuck_at}: klogtool does not get past this entry"):
            deque(walk)
