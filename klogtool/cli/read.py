"""klogtool read."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from klogtool.cli import options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_line, note
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import is_refusal
from klogtool.cli.writing_options import header, output_format
from klogtool.errors import KlogError
from klogtool.format.fetch_response import ERROR_CODES, UNKNOWN_ERROR, build_head, build_multi_head
from klogtool.format.java_numbers import INT_BITS
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.cores import usable_cores
from klogtool.render.findings import row_line
from klogtool.render.lookup import refusal_row
from klogtool.render.read import fetched_row, fetched_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.draft import content_size
from klogtool.repair.unified_log.loaded import FetchedBytes, LoadedPartition
from klogtool.repair.unified_log.reading import Isolation

if TYPE_CHECKING:
    from klogtool.repair.draft import Content

COMMAND = "read"
STDOUT = "-"
DEFAULT_MAX_BYTES = 1 << 20  # a consumer's max.partition.fetch.bytes
MESSAGE_SET, MULTI = "message-set", "multi"


def _max_bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    number = options.long(ctx, param, value)
    if number is None or not -(1 << (INT_BITS - 1)) <= number < 1 << (INT_BITS - 1):
        raise click.BadParameter(f"'{value}' is no number of 32 bits, as a fetch has it.", ctx, param)
    return number


@click.command(COMMAND)
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    required=True,
    callback=options.longs,
    metavar="N",
    help="From where; repeatable: one for each PARTITION, or several of one.",
)
@click.option(
    "--max-bytes",
    callback=_max_bytes,
    default=str(DEFAULT_MAX_BYTES),
    show_default=True,
    metavar="M",
    help="At most; the last batch may be cut there.",
)
@click.option("--min-one-message", is_flag=True, help="The first batch is whole, however large.")
@click.option(
    "--isolation",
    type=click.Choice([isolation.value for isolation in Isolation]),
    default=Isolation.LOG_END.value,
    show_default=True,
    help="Never past the log's end, the high watermark, or the last stable offset.",
)
@click.option("--raw", type=click.Path(), metavar="FILE", help="The bytes: to a new file, a pipe, or - (stdout).")
@click.option(
    "--framing",
    type=click.Choice((MESSAGE_SET, MULTI)),
    help="With --raw: the envelope of an old fetch response around them; multi: of several.",
)
@click.option("--records", is_flag=True, help="The records of the whole batches, from the offset on.")
@click.option(
    "--committed-only",
    is_flag=True,
    help="With --records and --isolation read_committed: none of aborted transactions, no control records.",
)
@output_format
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partitions: tuple[str, ...], given: Circumstances, **chosen: Any) -> int:
    """Read what a fetch from a broker gets: the bytes from the batch on that holds an offset.

    Tells where they lie, how many they are, their SHA-256, and with read_committed the aborted transactions among them;
    --raw has the bytes themselves, --records the records. The partition is loaded as a broker would load it, and
    nothing is written to it.

    Exit status: 0 done; 1 refused, as an offset outside of the log is, or damage was met; 2 wrong usage, no such path;
    3 there is a file of that name; 4 a file could not be read or written.
    """
    questions = _questions(partitions, chosen["offsets"])
    _check(chosen, len(questions))
    show = _Show(chosen, with_path=len(set(partitions)) > 1)
    loaded: dict[str, LoadedPartition] = {}
    reads = [_asked(loaded, path, offset, given, chosen) for path, offset in questions]
    if chosen["raw"] is not None:
        _write_raw(chosen["raw"], _framed(reads, chosen["framing"]))
    for read in reads:
        show.read(read)
    show.out.flush()
    return FOUND if show.is_damaged else DONE


def _questions(paths: Sequence[str], offsets: Sequence[int]) -> list[tuple[str, int]]:
    """Partition and offset of each read."""
    if len(paths) == len(offsets):
        return list(zip(paths, offsets, strict=True))
    if 1 not in (len(paths), len(offsets)):
        raise click.UsageError("One --offset for each PARTITION, or one for all.")
    return list(product(paths, offsets))


def _check(chosen: Mapping[str, Any], count: int) -> None:
    raw, framing = chosen["raw"], chosen["framing"]
    if framing is not None and raw is None:
        raise click.UsageError("--framing goes with --raw.")
    if raw is not None and framing != MULTI and count > 1:
        raise click.UsageError("--raw takes one PARTITION and one --offset, or --framing multi.")
    if raw == STDOUT and chosen["records"]:
        raise click.UsageError("--raw - or --records: stdout has the one or the other.")
    is_committed = chosen["isolation"] == Isolation.READ_COMMITTED.value
    if chosen["committed_only"] and not (chosen["records"] and is_committed):
        raise click.UsageError("--committed-only goes with --records and --isolation read_committed.")


@dataclass(frozen=True, slots=True)
class _Read:
    """One read: what was asked, and what was found or why it is refused."""

    path: str
    offset: int
    found: FetchedBytes | None
    refusal: KlogError | None = None


def _asked(
    loaded: dict[str, LoadedPartition], path: str, offset: int, given: Circumstances, chosen: Mapping[str, Any]
) -> _Read:
    try:
        if path not in loaded:
            loaded[path] = load_and_tell(path, given, chosen)
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
    """What is to be written; None if there is nothing that could be."""
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
    from klogtool.disk.moving import send

    if path == STDOUT:
        if sys.stdout is None:
            raise KlogError("stdout is closed")
        sys.stdout.flush()
        send(sys.stdout.fileno(), content)
        return
    from klogtool.cli.output_file import output_sink

    with output_sink(path) as sink:
        send(sink.fileno(), content)


# The answers.


def _stderr() -> BinaryIO:
    """For answers; where it is closed nobody gets them."""
    return io.BytesIO() if sys.stderr is None else sys.stderr.buffer


class _Show:
    """Answers as they come, refusals in their place; on stderr where stdout has the bytes."""

    def __init__(self, chosen: Mapping[str, Any], *, with_path: bool) -> None:
        self.json, self.is_damaged = chosen["form"] == "json", False
        self._chosen, self._with_path = chosen, with_path
        self._is_aside = chosen["raw"] == STDOUT
        self._isolation = Isolation(chosen["isolation"])
        self.out = Output(_stderr()) if self._is_aside else Output()
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def read(self, read: _Read) -> None:
        """One answer, and the records if they are asked for. Raises KlogError where we could not go on."""
        if read.refusal is not None:
            self.is_damaged = True
        if self.json:
            self._row(read)
        elif read.refusal is not None:
            self.out.flush()
            note(error_line(read.refusal))
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
        self.out.line(row_line(row))

    def _text(self, path: str, found: FetchedBytes) -> None:
        if self._with_path:
            self.out.line(f"{path}:")
        self.out.line(fetched_text(found, self._isolation, with_sha256=self._chosen["raw"] is None))

    def _records(self, found: FetchedBytes) -> None:
        """Up to damage, which is told, as a reader would come."""
        from klogtool.render.fetched_records import walk_json_records, walk_text_records

        walk = walk_json_records if self.json else walk_text_records
        try:
            jobs = self._chosen["jobs"] or usable_cores()
            for piece in walk(found, committed_only=self._chosen["committed_only"], jobs=jobs):
                self.out.write(piece)
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.is_damaged = True
            self.out.flush()
            note(error_line(error))
