"""klogtool lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Annotated

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.lookup import WORDS
from klogtool.cli import commands, options
from klogtool.cli.loading import load_from_anywhere
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Row, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.escape import joined
from klogtool.parameters import Unit, parameter
from klogtool.plans.index_doubts import lookup_doubts
from klogtool.remote.loading import NeededOfLog
from klogtool.remote.store import StoreKeys
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.lookup import epoch_row, epoch_text, offset_row, offset_text, timestamp_row, timestamp_text

COMMAND = "lookup"
EARLIEST, MAX = "earliest", "max"
_ORDER = "klogtool.lookup.order"  # key in click's context: the questions in the order of the command line
Answer = tuple[Row, str]  # as a JSON row, and as text


class LookupCommand(commands.Command):
    """Records the order in which options of several kinds were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order if isinstance(parameter, click.Option)]
        return super().parse_args(ctx, args)


def _timestamp(text: str) -> int | str:
    try:
        return text if text in WORDS else options.moment(text)
    except click.BadParameter:
        words = ", ".join(WORDS)
        raise click.BadParameter(f"'{text}' is not a time (epoch ms, ISO 8601), and not one of {words}.") from None


def _epoch(text: str) -> int:
    return options.java_int(text, "a leader epoch (a 32-bit number)")


class LookupQuestion(Struct, frozen=True, kw_only=True):
    """What is looked up in a partition."""

    circumstances: Circumstances
    offset: Annotated[tuple[int, ...], parameter("Find the batch that contains this offset.")] = ()
    timestamp: Annotated[
        tuple[int | str, ...],
        parameter(
            "Find the first record with this timestamp or a later one: epoch ms, ISO 8601 (UTC), or "
            "earliest, latest, max, earliest-local, latest-tiered.",
            Unit.TIME,
            parse=_timestamp,
        ),
    ] = ()
    leader_epoch: Annotated[
        tuple[int, ...], parameter("Find the end offset of this leader epoch.", metavar="E", parse=_epoch)
    ] = ()
    explain: Annotated[bool, parameter("Also show how it was found: files, entries, bytes scanned.")] = False
    key: StoreKeys = ()

    def wanted(self) -> NeededOfLog:
        """Return what is needed of a partition in remote storage."""
        times = tuple(one for one in self.timestamp if not isinstance(one, str))
        words = {one for one in self.timestamp if isinstance(one, str)}
        is_last = bool(words - {EARLIEST, MAX} or self.leader_epoch)
        return NeededOfLog(self.offset, times, EARLIEST in words, is_last, MAX in words)


@commands.command(COMMAND, cls=LookupCommand)
@click.argument("partition", metavar="PARTITION")
@question_options(LookupQuestion)
@options.reading()
@click.pass_context
def command(ctx: click.Context, /, partition: str, question: LookupQuestion, reading: ReadingOptions) -> int:
    """Find an offset, a time or a leader epoch in a partition. The indexes are used as a broker uses them.

    There is one answer for each question, in their order. klogtool loads the partition as a broker would load it, and
    writes nothing.

    \b
    Examples:
      klogtool lookup orders-0 --offset 4711
      klogtool lookup orders-0 --timestamp 2026-11-21T18:10:00Z --explain

    Exit status: 0 all questions were answered; 1 a question was refused (an offset out of range, for example), or a
    search met damage; 2 wrong usage, no such path; 4 a file could not be read.
    """
    if not (question.offset or question.timestamp or question.leader_epoch):
        raise click.UsageError("Nothing to look up: give --offset, --timestamp or --leader-epoch.", ctx)
    show = Show(COMMAND, reading, kafka=question.circumstances.kafka)
    loaded = cache(
        lambda: load_from_anywhere(partition, question.wanted(), question.key, question.circumstances, reading)
    )
    for query, answer in _queries(question, ctx.meta[_ORDER]):
        with show.refusals(query):
            show.answer(*answer(loaded()))
    show.close()
    return FOUND if show.refused else DONE


def _queries(
    question: LookupQuestion, order: Iterable[str]
) -> Iterator[tuple[Row, Callable[[LoadedPartition], Answer]]]:
    """Yield each query, as JSON has it, and what answers it."""
    offsets, timestamps, epochs = iter(question.offset), iter(question.timestamp), iter(question.leader_epoch)
    for name in order:
        if name == "offset":
            yield {name: (offset := next(offsets))}, partial(_of_offset, offset, question.explain)
        elif name == "timestamp":
            yield {name: (query := next(timestamps))}, partial(_of_timestamp, query, question.explain)
        elif name == "leader_epoch":
            yield {name: (epoch := next(epochs))}, partial(_of_epoch, epoch)


def _of_offset(offset: int, explain: bool, loaded: LoadedPartition) -> Answer:
    result = loaded.lookup_offset(offset, explain=explain)
    return offset_row(result, explain=explain), offset_text(result, loaded.log_end_offset)


def _of_timestamp(query: int | str, explain: bool, loaded: LoadedPartition) -> Answer:
    result, high_watermark = loaded.lookup_timestamp(query), loaded.high_watermark
    doubts = lookup_doubts(loaded.log, result)
    text = timestamp_text(query, result, high_watermark, explain=explain)
    warnings = joined(doubt_lines(loaded.path, doubts))
    row = timestamp_row(query, result, high_watermark, explain=explain, doubts=doubts)
    return row, f"{text}\n{warnings}" if warnings else text


def _of_epoch(epoch: int, loaded: LoadedPartition) -> Answer:
    result = loaded.end_offset_for_epoch(epoch)
    return epoch_row(result), epoch_text(result)
