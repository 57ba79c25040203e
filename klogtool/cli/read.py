"""klogtool read."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import content_size
from klogtool.broker.releases import Release
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition
from klogtool.broker.unified_log.reading import Isolation
from klogtool.cli import commands, options, question_options, value_options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_lines, note
from klogtool.cli.output_file import output_sink
from klogtool.cli.show import header, is_refusal
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.disk.moving import send
from klogtool.errors import KlogError
from klogtool.escape import joined
from klogtool.format.fetch_response import ERROR_CODES, UNKNOWN_ERROR, build_head, build_multi_head
from klogtool.format.java_numbers import INT_BITS
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.render.fetched_records import walk_json_records, walk_text_records
from klogtool.render.lookup import refusal_row
from klogtool.render.read import fetched_row, fetched_text

if TYPE_CHECKING:
    from klogtool.broker.content import Content
    from klogtool.decoding.record_values import Decoding

COMMAND = "read"
STDOUT = "-"
ESCAPED_AT_ONCE_BYTES = 1 << 20
DEFAULT_MAX_BYTES = 1 << 20  # a consumer's max.partition.fetch.bytes
MESSAGE_SET, MULTI = "message-set", "multi"


def _max_bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    number = options.long(ctx, param, value)
    if number is None or not -(1 << (INT_BITS - 1)) <= number < 1 << (INT_BITS - 1):
        raise click.BadParameter(f"'{value}' is not a 32-bit number.", ctx, param)
    return number


@commands.command(COMMAND)
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    required=True,
    callback=options.longs,
    metavar="N",
    help="Read from this offset. Repeatable: one for each PARTITION, or several for one.",
)
@click.option(
    "--max-bytes",
    callback=_max_bytes,
    default=str(DEFAULT_MAX_BYTES),
    show_default=True,
    metavar="M",
    help="Read at most M bytes. The last batch may be cut there.",
)
@click.option(
    "--min-one-message", is_flag=True, help="Return the whole first batch, even if it is larger than --max-bytes."
)
@click.option(
    "--isolation",
    type=click.Choice([isolation.value for isolation in Isolation]),
    default=Isolation.LOG_END.value,
    show_default=True,
    help="Where the read stops: at the log end, the high watermark, or the last stable offset.",
)
@click.option("--raw", type=click.Path(), metavar="FILE", help="Write the bytes to a new file, a pipe, or - (stdout).")
@click.option(
    "--framing",
    type=click.Choice((MESSAGE_SET, MULTI)),
    help="With --raw: add the header of an old fetch response. multi: of several partitions.",
)
@click.option("--records", is_flag=True, help="Show the records from the offset on, of the batches that are whole.")
@click.option(
    "--committed-only",
    is_flag=True,
    help="With --records and --isolation read_committed: leave out aborted transactions and control records.",
)
@value_options.decoders
@options.output_format()
@options.jobs
@options.quiet
@question_options.circumstances
@options.debug
def command(partitions: tuple[str, ...], circumstances: Circumstances, **chosen: Any) -> int:
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
    questions = _questions(partitions, chosen["offsets"])
    _check(chosen, len(questions))
    with value_options.asked_for(chosen) as asked:
        is_damaged = _read_all(questions, circumstances, chosen, asked.decoding)
    return COULD_NOT if asked.is_cut else FOUND if is_damaged else DONE


def _read_all(
    questions: Sequence[tuple[str, int]],
    circumstances: Circumstances,
    chosen: Mapping[str, Any],
    values: Decoding | None,
) -> bool:
    """Answer all questions. Return whether one was refused, or damage was met."""
    with_path = len({path for path, _ in questions}) > 1
    show = _Show(chosen, with_path=with_path, kafka=circumstances.kafka, values=values)
    loaded: dict[str, LoadedPartition] = {}
    reads = [_asked(loaded, path, offset, circumstances, chosen) for path, offset in questions]
    if chosen["raw"] is not None:
        _write_raw(chosen["raw"], _framed(reads, chosen["framing"]))
    for read in reads:
        show.read(read)
    show.out.flush()
    return show.is_damaged


def _questions(paths: Sequence[str], offsets: Sequence[int]) -> list[tuple[str, int]]:
    """Return partition and offset of each read."""
    if len(paths) == len(offsets):
        return list(zip(paths, offsets, strict=True))
    if 1 not in (len(paths), len(offsets)):
        raise click.UsageError("Give one --offset for each PARTITION, or one for all.")
    return list(product(paths, offsets))


def _check(chosen: Mapping[str, Any], count: int) -> None:
    raw, framing = chosen["raw"], chosen["framing"]
    if framing is not None and raw is None:
        raise click.UsageError("--framing needs --raw.")
    if raw is not None and framing != MULTI and count > 1:
        raise click.UsageError("--raw takes one PARTITION and one --offset, or --framing multi.")
    if raw == STDOUT and chosen["records"]:
        raise click.UsageError("--raw - and --records cannot both write to stdout.")
    is_committed = chosen["isolation"] == Isolation.READ_COMMITTED.value
    if value_options.is_wanted(chosen) and not chosen["records"]:
        raise click.UsageError("--key-format, --value-format and decoders need --records.")
    if chosen["committed_only"] and not (chosen["records"] and is_committed):
        raise click.UsageError("--committed-only needs --records and --isolation read_committed.")


class _Read(Struct, frozen=True):
    """One read: the question, and the result or why it is refused."""

    path: str
    offset: int
    found: FetchedBytes | None
    refusal: KlogError | None = None


def _asked(
    loaded: dict[str, LoadedPartition], path: str, offset: int, circumstances: Circumstances, chosen: Mapping[str, Any]
) -> _Read:
    try:
        if path not in loaded:
            loaded[path] = load_and_tell(path, circumstances, chosen)
        found = loaded[path].read(
            offset,
            chosen["max_bytes"],
            min_one_message=chosen["min_one_message"],
            isolation=chosen["isolation"],
        )
        return _Read(path, offset, found)
    except KlogError as error:
        if not is_refusal(error):
            raise
        return _Read(path, offset, None, error)


# The bytes.


def _framed(reads: Sequence[_Read], framing: str | None) -> Content | None:
    """Return what to write; None if nothing can be written."""
    contents = [read.found.content if read.found else () for read in reads]
    if framing is None:
        return contents[0] if reads[0].found else None
    heads = [
        build_head(content_size(content), _error_code(read)) for content, read in zip(contents, reads, strict=True)
    ]
    parts = [part for head, content in zip(heads, contents, strict=True) for part in (head, *content)]
    return tuple(parts if framing == MESSAGE_SET else [build_multi_head(map(content_size, contents)), *parts])


def _error_code(read: _Read) -> int:
    if read.refusal is None:
        return 0
    return ERROR_CODES.get(read.refusal.kafka_class or "", UNKNOWN_ERROR)


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


class _Show:
    """Shows answers as they come, and refusals in their place; on stderr if stdout has the bytes."""

    def __init__(
        self, chosen: Mapping[str, Any], *, with_path: bool, kafka: Release, values: Decoding | None = None
    ) -> None:
        self.json, self.is_damaged = chosen["form"] == "json", False
        self._chosen, self._with_path, self._kafka, self._values = chosen, with_path, kafka, values
        self._is_aside = chosen["raw"] == STDOUT
        self._isolation = Isolation(chosen["isolation"])
        self.out = Output(sys.stderr.buffer) if self._is_aside else Output()
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def read(self, read: _Read) -> None:
        """Show one answer, and the records if they are wanted. Raises KlogError if klogtool cannot continue."""
        if read.refusal is not None:
            self.is_damaged = True
        if self.json:
            self._row(read)
        elif read.refusal is not None:
            self.out.flush()
            note(*error_lines(read.refusal))
        elif read.found is not None and not (self._is_aside and self._chosen["quiet"]):
            self._text(read.path, read.found)
        if read.found is not None and self._chosen["records"]:
            self._records(read.found)

    def _row(self, read: _Read) -> None:
        row: dict[str, Any] = {"type": "answer", "command": COMMAND}
        if self._with_path:
            row["path"] = read.path
        if read.found is not None:
            row |= fetched_row(read.found, self._isolation)
        elif read.refusal is not None:
            row |= {"offset": read.offset, **refusal_row(read.refusal)}
        self.out.line(row_line({**row, "kafka": self._kafka}))

    def _text(self, path: str, found: FetchedBytes) -> None:
        if self._with_path:
            self.out.line(f"{path}:")
        self.out.text(fetched_text(found, self._isolation, with_sha256=self._chosen["raw"] is None))

    def _records(self, found: FetchedBytes) -> None:
        """Show records up to damage, which is reported in the place where a reader would meet it."""
        walk, write = (walk_json_records, self.out.write_json) if self.json else (walk_text_records, self._escaped)
        try:
            jobs = (self._chosen["jobs"] or usable_cores()) if self._values is None else 1
            is_committed = self._chosen["committed_only"]
            for piece in walk(found, committed_only=is_committed, jobs=jobs, values=self._values):
                write(piece)
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.is_damaged = True
            self.out.flush()
            note(*error_lines(error))

    def _escaped(self, lines: bytes | memoryview) -> None:
        """Write lines of records, whose keys and values anybody may have written. A long line is escaped in pieces."""
        decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        for at in range(0, len(lines), ESCAPED_AT_ONCE_BYTES):
            text = decode(bytes(lines[at : at + ESCAPED_AT_ONCE_BYTES]))
            self.out.write(joined(text.split("\n")).encode())
        self.out.write(joined([decode(b"", final=True)]).encode())
