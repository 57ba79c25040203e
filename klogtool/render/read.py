"""Answers of read, as JSON rows of the contract (docs/contract.md), and for people.

The batches and records of a fetch as dump-log shows them: by its kernel where possible, otherwise by the reference.

The kernel makes lines of whole stretches of the log. A consumer skips records before the requested offset. They are
normally in the first batch, so the reference shows that batch. If the kernel finds such a record or damage in a later
batch, its lines of that span are dropped, and the reference continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from klogtool.broker.unified_log.reading import Isolation
from klogtool.errors import KlogError
from klogtool.escape import as_paragraph
from klogtool.log.folder import partition_of
from klogtool.log.span_maker import walk_results
from klogtool.log.windows import BufferPool
from klogtool.render.decoder_classes import decoder_of_values, internal_topic
from klogtool.render.json_lines import batch_row, error_row, json_line, record_line, walk_text
from klogtool.render.kafka_text import walk_batch_text, walk_records_text
from klogtool.render.log_lines import SPAN_BYTES, LineMaker
from klogtool.render.selection import DumpForm, RecordOptions
from klogtool.render.words import count_text

if TYPE_CHECKING:
    from klogtool.broker.unified_log.loaded_partition import FetchedBytes
    from klogtool.decoding.record_values import Decoding
    from klogtool.log.entries import Entry

    Lines = Iterator[bytes | memoryview]
    Show = Callable[[FetchedBytes, Entry, DumpForm], Lines]


_ENDS = {
    Isolation.LOG_END: "the log's end",
    Isolation.HIGH_WATERMARK: "the high watermark",
    Isolation.READ_COMMITTED: "the last stable offset",
}
_NAMES_TOLD = 5  # of aborted transactions


# JSON.


def fetched_row(result: FetchedBytes, isolation: Isolation) -> dict[str, object]:
    """Return the contract's answer (docs/contract.md). Reads the bytes once.

    Raises KlogError if they cannot be read.
    """
    fetched = result.fetched
    row: dict[str, object] = {
        "offset": result.offset,
        "isolation": isolation.value,
        "end_offset": fetched.end,
        "base_offset": fetched.base_offset,
        "segment": fetched.segment,
        "position": fetched.position,
        "size": fetched.size,
        "sha256": result.sha256(),
        "first_entry_incomplete": fetched.first_entry_incomplete,
    }
    if fetched.needed_bytes is not None:
        row["needed_bytes"] = fetched.needed_bytes
    if fetched.aborted is not None:
        row["aborted"] = [[txn.producer_id, txn.first_offset] for txn in fetched.aborted]
    return row


# Text.


@as_paragraph
def fetched_text(result: FetchedBytes, isolation: Isolation, *, with_sha256: bool) -> Iterator[str]:
    """Show how many bytes a fetch returns, from where and up to what limit; if a batch is too large, which option
    helps."""
    fetched, end = result.fetched, f"{_ENDS[isolation]} {result.fetched.end:,}"
    if fetched.first_batch_size is None:
        yield f"offset {result.offset:,}   nothing to read: {_why_nothing(result, end)}"
        return
    where = f"{result.file_name}, bytes {fetched.position:,} to {fetched.position + fetched.size:,}"
    yield f"offset {result.offset:,}   {count_text(fetched.size, 'byte')} of {where}"
    if fetched.needed_bytes is not None:
        yield f"  no whole batch: the first batch has {count_text(fetched.needed_bytes, 'byte')}"
        yield f"  →  --max-bytes {fetched.needed_bytes}, or --min-one-message"
    yield f"  from        the batch at offset {fetched.base_offset:,}"
    yield f"  limit       {end}"
    if fetched.aborted is not None:
        yield f"  aborted     {_aborted_text(fetched.aborted)}"
    if with_sha256:
        yield f"  sha256      {result.sha256()}"


def _why_nothing(result: FetchedBytes, end: str) -> str:
    if result.offset >= result.fetched.end:
        return f"it is {'at' if result.offset == result.fetched.end else 'past'} {end}"
    return f"all records from there up to {end} are gone"


def _aborted_text(aborted: tuple[Any, ...]) -> str:
    if not aborted:
        return "no transaction"
    texts = [f"producer {txn.producer_id} from offset {txn.first_offset:,}" for txn in aborted[:_NAMES_TOLD]]
    more = len(aborted) - len(texts)
    return "; ".join([*texts, f"{more:,} more"] if more else texts)


LEAST_BYTES = 16 << 10  # the kernel is not used for less
MOST_BYTES = 8 * SPAN_BYTES  # of a stretch, so that the first lines come soon
_OPTIONS = RecordOptions(deep=True, print_data=True)


def walk_json_records(
    result: FetchedBytes, *, committed_only: bool, jobs: int = 1, values: Decoding | None = None
) -> Lines:
    """Yield dump-log's JSON lines for each batch and record. A piece is valid until the next one is requested.

    Records before the requested offset are left out, as a consumer does. For damage, yields an error line and raises
    the KlogError. values: how keys and values are decoded.
    """
    if not result.fetched.size:
        return
    topic = internal_topic(result.path)
    form = DumpForm(
        _OPTIONS, json_file=result.path, topic=topic, values=values, values_topic=partition_of(result.path)[0]
    )
    try:
        yield from _walk(result, committed_only, form, _json_of, jobs)
    except KlogError as error:
        yield json_line(error_row(error.path or "", error))
        raise


def walk_text_records(
    result: FetchedBytes, *, committed_only: bool, jobs: int = 1, values: Decoding | None = None
) -> Lines:
    """Yield kafka-dump-log's lines for each batch and record in the same way. Raises Corrupt or Unsupported if they
    cannot be read."""
    if result.fetched.size:
        decoder = None if values is None else decoder_of_values(values, partition_of(result.path)[0])
        form = DumpForm(RecordOptions(deep=True, print_data=True, decoder=decoder))
        yield from _walk(result, committed_only, form, _text_of, jobs)


def _walk(result: FetchedBytes, committed_only: bool, form: DumpForm, show: Show, jobs: int) -> Lines:
    for is_first, start, stop in _walk_stretches(result, committed_only):
        at = start if is_first else (yield from _by_kernel(result, form, start, stop, jobs))
        for batch in result.batches_in(at, stop):
            yield from show(result, batch, form)


def _walk_stretches(result: FetchedBytes, committed_only: bool) -> Iterator[tuple[bool, int, int]]:
    """Yield (whether it is the first batch, start, stop) for each stretch of which all batches are shown."""
    position, end = result.fetched.position, result.fetched.position + result.fetched.size
    first = next(result.batches(), None)
    behind_first = end if first is None else first.position + first.size
    if not committed_only:
        yield True, position, behind_first
        yield False, behind_first, end
        return
    start = stop = position
    try:
        for batch in result.batches(committed_only=True):
            if batch.position != stop or stop == behind_first or stop - start >= MOST_BYTES:
                yield start < behind_first, start, stop
                start = batch.position
            stop = batch.position + batch.size
    except KlogError:
        yield start < behind_first, start, stop
        raise
    yield start < behind_first, start, stop


def _by_kernel(
    result: FetchedBytes, form: DumpForm, start: int, stop: int, jobs: int
) -> Generator[bytes | memoryview, None, int]:
    """Yield the lines of a stretch. Returns the position from which the reference has to continue."""
    at, outs = start, BufferPool()
    if stop - start < LEAST_BYTES:
        return at
    with result.open_log() as file:
        spans = walk_results(
            file, lambda: LineMaker(form, outs), start=start, end=stop, span_bytes=SPAN_BYTES, jobs=jobs
        )
        for lines in spans:
            if lines.fatal or lines.errors or any(after < result.offset for _, after in lines.gaps):
                break
            for chunk in lines.chunks:
                yield from walk_text(chunk)
                if isinstance(chunk, memoryview):
                    outs.give_back(chunk)
            at = lines.reached
    return at


def _json_of(result: FetchedBytes, batch: Entry, form: DumpForm) -> Lines:
    name, topic = batch.path, internal_topic(batch.path)
    yield json_line(batch_row(name, batch))
    for record in batch.records():
        if record.offset >= result.offset:
            yield from walk_text(record_line(name, batch, record, topic, form.decoded(batch, record)))


def _text_of(result: FetchedBytes, batch: Entry, form: DumpForm) -> Iterator[bytes]:
    def wants(offset: int, *_: object) -> bool:
        return offset >= result.offset

    for chunk in walk_batch_text(batch):
        yield chunk.encode(errors="surrogateescape")
    for chunk in walk_records_text(batch, form.options, lambda _: None, wants):
        yield chunk.encode(errors="surrogateescape")
