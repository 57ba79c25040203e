"""klogtool read."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import Content, content_size
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition
from klogtool.broker.unified_log.reading import Isolation
from klogtool.cli import commands, options
from klogtool.cli.loading import load_from_anywhere
from klogtool.cli.output import Output
from klogtool.cli.output_file import output_sink
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Row, Show, is_refusal
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.cli.value_options import ValueOptions
from klogtool.disk.moving import send
from klogtool.errors import KlogError
from klogtool.escape import joined
from klogtool.format.fetch_response import ERROR_CODES, UNKNOWN_ERROR, build_head, build_multi_head
from klogtool.parameters import Unit, parameter
from klogtool.remote.loading import NeededOfLog
from klogtool.remote.store import StoreKeys
from klogtool.render.read import fetched_row, fetched_text, walk_json_records, walk_text_records

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

COMMAND = "read"
STDOUT = "-"
ESCAPED_AT_ONCE_BYTES = 1 << 20
DEFAULT_MAX_BYTES = 1 << 20  # a consumer's max.partition.fetch.bytes
MESSAGE_SET, MULTI = "message-set", "multi"


def _max_bytes(text: str) -> int:
    return options.java_int(text, "a 32-bit number")


class ReadQuestion(Struct, frozen=True, kw_only=True):
    """What a fetch asks, and which of its result is shown."""

    circumstances: Circumstances
    offsets: Annotated[
        tuple[int, ...],
        parameter("Read from this offset. Repeatable: one for each PARTITION, or several for one.", option="offset"),
    ]
    max_bytes: Annotated[
        int, parameter("Read at most M bytes. The last batch may be cut there.", metavar="M", parse=_max_bytes)
    ] = DEFAULT_MAX_BYTES
    min_one_message: Annotated[
        bool, parameter("Return the whole first batch, even if it is larger than --max-bytes.")
    ] = False
    isolation: Annotated[
        Isolation, parameter("Where the read stops: at the log end, the high watermark, or the last stable offset.")
    ] = Isolation.LOG_END
    raw: Annotated[str | None, parameter("Write the bytes to a new file, a pipe, or - (stdout).", Unit.FILE)] = None
    framing: Annotated[
        Literal["message-set", "multi"] | None,
        parameter("With --raw: add the header of an old fetch response. multi: of several partitions."),
    ] = None
    records: Annotated[bool, parameter("Show the records from the offset on, of the batches that are whole.")] = False
    committed_only: Annotated[
        bool,
        parameter("With --records and --isolation read_committed: leave out aborted transactions and control records."),
    ] = False
    values: ValueOptions = ValueOptions()
    key: StoreKeys = ()


@commands.command(COMMAND)
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@question_options(ReadQuestion)
@options.reading()
def command(partitions: tuple[str, ...], question: ReadQuestion, reading: ReadingOptions) -> int:
    """Read what a fetch from a broker returns: the bytes starting with the batch that contains an offset.

    Shows the position and the size of the bytes and their SHA-256, and with read_committed the aborted transactions
    among them. --raw writes the bytes themselves, --records the records. klogtool loads the partition as a broker
    would load it, and writes nothing to it.

    \b
    Examples:
      klogtool read orders-0 --offset 4711 --records
      klogtool read orders-0 --offset 4711 --isolation read_committed --raw batches.bin

    Exit status: 0 done; 1 refused (an offset out of range, for example), or damage was met; 2 wrong usage, no such
    path; 3 the file exists already; 4 a file could not be read or written.
    """
    places = _places(partitions, question.offsets)
    _check(question, len(places))
    with question.values.decoders(quiet=reading.quiet) as decoders:
        show = _ReadShow(question, reading, decoders.decoding, with_path=len({path for path, _ in places}) > 1)
        results = _read_all(places, question, reading)
        if question.raw is not None:
            _write_raw(question.raw, _framed(results, question.framing))
        for result in results:
            show.result(result)
        show.close()
    return COULD_NOT if decoders.is_cut else FOUND if show.refused else DONE


def _places(paths: Sequence[str], offsets: Sequence[int]) -> list[tuple[str, int]]:
    """Return partition and offset of each read."""
    if len(paths) == len(offsets):
        return list(zip(paths, offsets, strict=True))
    if 1 not in (len(paths), len(offsets)):
        raise click.UsageError("Give one --offset for each PARTITION, or one for all.")
    return list(product(paths, offsets))


def _check(question: ReadQuestion, count: int) -> None:
    if question.framing is not None and question.raw is None:
        raise click.UsageError("--framing needs --raw.")
    if question.raw is not None and question.framing != MULTI and count > 1:
        raise click.UsageError("--raw takes one PARTITION and one --offset, or --framing multi.")
    if question.raw == STDOUT and question.records:
        raise click.UsageError("--raw - and --records cannot both write to stdout.")
    is_committed = question.isolation is Isolation.READ_COMMITTED
    if question.values.is_wanted and not question.records:
        raise click.UsageError("--key-format, --value-format and decoders need --records.")
    if question.committed_only and not (question.records and is_committed):
        raise click.UsageError("--committed-only needs --records and --isolation read_committed.")


class _Result(Struct, frozen=True):
    """The result of one read, or why it is refused."""

    path: str
    offset: int
    fetched: FetchedBytes | None
    refusal: KlogError | None = None


def _read_all(places: Sequence[tuple[str, int]], question: ReadQuestion, reading: ReadingOptions) -> list[_Result]:
    loaded: dict[str, LoadedPartition] = {}
    results = []
    for path, offset in places:
        try:
            if path not in loaded:
                offsets = tuple(own for other, own in places if other == path)
                wanted = NeededOfLog(offsets, last=True, behind=question.isolation is Isolation.READ_COMMITTED)
                loaded[path] = load_from_anywhere(path, wanted, question.key, question.circumstances, reading)
            fetched = loaded[path].read(
                offset, question.max_bytes, min_one_message=question.min_one_message, isolation=question.isolation
            )
            results.append(_Result(path, offset, fetched))
        except KlogError as error:
            if not is_refusal(error):
                raise
            results.append(_Result(path, offset, None, error))
    return results


# The bytes.


def _framed(results: Sequence[_Result], framing: str | None) -> Content | None:
    """Return what to write; None if nothing can be written."""
    contents = [result.fetched.content if result.fetched else () for result in results]
    if framing is None:
        return contents[0] if results[0].fetched else None
    refusals = [result.refusal for result in results]
    codes = [0 if one is None else ERROR_CODES.get(one.kafka_class or "", UNKNOWN_ERROR) for one in refusals]
    heads = [build_head(content_size(content), code) for content, code in zip(contents, codes, strict=True)]
    parts = [part for head, content in zip(heads, contents, strict=True) for part in (head, *content)]
    return tuple(parts if framing == MESSAGE_SET else [build_multi_head(map(content_size, contents)), *parts])


def _write_raw(path: str, content: Content | None) -> None:
    if content is None:
        return
    if path == STDOUT:
        sys.stdout.flush()
        send(sys.stdout.fileno(), content)
        return
    with output_sink(path) as sink:
        send(sink.fileno(), content)


# The answers.


class _ReadShow(Show):
    """Shows results as they come; on stderr if stdout has the bytes."""

    def __init__(
        self, question: ReadQuestion, reading: ReadingOptions, values: Decoding | None, *, with_path: bool
    ) -> None:
        self._is_aside = question.raw == STDOUT
        out = Output(sys.stderr.buffer) if self._is_aside else None
        super().__init__(COMMAND, reading, kafka=question.circumstances.kafka, out=out)
        self._question, self._with_path, self._values = question, with_path, values
        self._threads = reading.threads if values is None else 1

    def result(self, result: _Result) -> None:
        """Show one result, and the records if they are wanted. Raises KlogError if klogtool cannot continue."""
        beside: Row = {"path": result.path} if self._with_path else {}
        if result.refusal is not None:
            self.refusal(result.refusal, beside={**beside, "offset": result.offset})
        if result.fetched is None:
            return
        if self.json:
            self.answer({**beside, **fetched_row(result.fetched, self._question.isolation)})
        elif not (self._is_aside and self.screen.quiet):
            if self._with_path:
                self.line(f"{result.path}:")
            with_sha256 = self._question.raw is None
            self.text(fetched_text(result.fetched, self._question.isolation, with_sha256=with_sha256))
        if self._question.records:
            self._records(result.fetched)

    def _records(self, fetched: FetchedBytes) -> None:
        """Show records up to damage, which is reported in the place where a reader would meet it."""
        walk, write = (walk_json_records, self.out.write_json) if self.json else (walk_text_records, self._escaped)
        is_committed = self._question.committed_only
        try:
            for lines in walk(fetched, committed_only=is_committed, jobs=self._threads, values=self._values):
                write(lines)
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.refused = True
            self.error(error)

    def _escaped(self, lines: bytes | memoryview) -> None:
        """Write lines of records, whose keys and values anybody may have written. A long line is escaped in pieces."""
        decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        for at in range(0, len(lines), ESCAPED_AT_ONCE_BYTES):
            text = decode(bytes(lines[at : at + ESCAPED_AT_ONCE_BYTES]))
            self.out.write(joined(text.split("\n")).encode())
        self.out.write(joined([decode(b"", final=True)]).encode())
