"""The batches and records of a fetch as dump-log shows them: by its kernel where that can be, else by the reference.

The kernel makes lines of whole stretches of the log. What a consumer leaves out of them, records before the offset that
was asked for, lies in the first batch, which is the reference's; where a later one turns out to have such, or damage,
the lines of that stretch are dropped, and the reference goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from klogtool.errors import KlogError
from klogtool.log.span_maker import walk_made
from klogtool.log.windows import BufferPool
from klogtool.render.json_dump import internal_topic
from klogtool.render.json_lines import LongLine, batch_row, error_row, json_line, record_line
from klogtool.render.kafka_text import walk_batch_text, walk_records_text
from klogtool.render.log_lines import SPAN_BYTES, LineMaker
from klogtool.render.records import Form, RecordOptions

if TYPE_CHECKING:
    from klogtool.broker.unified_log.loaded_partition import FetchedBytes
    from klogtool.log.entries import Entry

    Made = Iterator[bytes | memoryview]
    Show = Callable[[FetchedBytes, Entry], Iterator[bytes]]

LEAST_BYTES = 16 << 10  # for less the kernel is not asked
MOST_BYTES = 8 * SPAN_BYTES  # nobody is to wait longer for the first lines
_OPTIONS = RecordOptions(deep=True, print_data=True)


def walk_json_records(found: FetchedBytes, *, committed_only: bool, jobs: int = 1) -> Made:
    """Lines for each batch and record, as dump-log's, each piece good until the next one is asked for; one for damage,
    which is raised then. Records before the offset that was asked for are left out, as a consumer does."""
    if not found.fetched.size:
        return
    form = Form(_OPTIONS, json_file=found.path, topic=internal_topic(found.path))
    try:
        yield from _walk(found, committed_only, form, _json_of, jobs)
    except KlogError as error:
        yield json_line(error_row(error.path or "", error))
        raise


def walk_text_records(found: FetchedBytes, *, committed_only: bool, jobs: int = 1) -> Made:
    """Lines of kafka-dump-log for each batch and record, likewise. Raises Corrupt or Unsupported where they cannot be
    read."""
    if found.fetched.size:
        yield from _walk(found, committed_only, Form(_OPTIONS), _text_of, jobs)


def _walk(found: FetchedBytes, committed_only: bool, form: Form, show: Show, jobs: int) -> Made:
    for is_first, start, stop in _walk_stretches(found, committed_only):
        at = start if is_first else (yield from _by_kernel(found, form, start, stop, jobs))
        for batch in found.batches_in(at, stop):
            yield from show(found, batch)


def _walk_stretches(found: FetchedBytes, committed_only: bool) -> Iterator[tuple[bool, int, int]]:
    """(whether it is the first batch, start, stop) of stretches in which all batches are to be shown."""
    position, end = found.fetched.position, found.fetched.position + found.fetched.size
    first = next(found.batches(), None)
    behind_first = end if first is None else first.position + first.size
    if not committed_only:
        yield True, position, behind_first
        yield False, behind_first, end
        return
    start = stop = position
    try:
        for batch in found.batches(committed_only=True):
            if batch.position != stop or stop == behind_first or stop - start >= MOST_BYTES:
                yield start < behind_first, start, stop
                start = batch.position
            stop = batch.position + batch.size
    except KlogError:
        yield start < behind_first, start, stop
        raise
    yield start < behind_first, start, stop


def _by_kernel(
    found: FetchedBytes, form: Form, start: int, stop: int, jobs: int
) -> Generator[bytes | memoryview, None, int]:
    """Lines of the batches of a stretch; where the reference has to go on."""
    at, outs = start, BufferPool()
    if stop - start < LEAST_BYTES:
        return at
    with found.open_log() as file:
        spans = walk_made(file, lambda: LineMaker(form, outs), start=start, end=stop, span_bytes=SPAN_BYTES, jobs=jobs)
        for lines in spans:
            if lines.fatal or lines.errors or any(after < found.offset for _, after in lines.gaps):
                break
            for piece in lines.pieces:
                if isinstance(piece, LongLine):
                    yield from piece.walk()
                else:
                    yield piece
                if isinstance(piece, memoryview):
                    outs.give_back(piece)
            at = lines.reached
    return at


def _json_of(found: FetchedBytes, batch: Entry) -> Iterator[bytes]:
    name, topic = batch.path, internal_topic(batch.path)
    yield json_line(batch_row(name, batch))
    for record in batch.records():
        if record.offset >= found.offset:
            line = record_line(name, batch, record, topic)
            if isinstance(line, LongLine):
                yield from line.walk()
            else:
                yield line


def _text_of(found: FetchedBytes, batch: Entry) -> Iterator[bytes]:
    def wants(offset: int, *_: object) -> bool:
        return offset >= found.offset

    for piece in walk_batch_text(batch):
        yield piece.encode(errors="surrogateescape")
    for piece in walk_records_text(batch, _OPTIONS, lambda _: None, wants):
        yield piece.encode(errors="surrogateescape")
