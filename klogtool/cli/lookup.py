"""klogtool lookup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.lookup import WORDS
from klogtool.cli import commands, options, question_options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_lines
from klogtool.cli.show import header, is_refusal
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import KlogError
from klogtool.escape import joined
from klogtool.format.java_numbers import INT_BITS
from klogtool.json_rows import row_line
from klogtool.plans.index_doubts import lookup_doubts
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.lookup import (
    epoch_row,
    epoch_text,
    offset_row,
    offset_text,
    refusal_row,
    timestamp_row,
    timestamp_text,
)

COMMAND = "lookup"
_ORDER = "klogtool.lookup.order"  # key in click's context: the questions in the order of the command line
Answer = tuple[dict[str, Any], str]  # as a JSON row, and as text


class LookupCommand(commands.Command):
    """Records the order in which options of several kinds were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order if isinstance(parameter, click.Option)]
        return super().parse_args(ctx, args)


def _timestamps(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int | str]:
    return [value if value in WORDS else _moment(ctx, param, value) for value in values]


def _moment(ctx: click.Context, param: click.Parameter, value: str) -> int:
    try:
        return options.moment(ctx, param, value) or 0
    except click.BadParameter:
        words = ", ".join(word for word in WORDS)
        raise click.BadParameter(
            f"'{value}' is not a time (epoch ms, ISO 8601), and not one of {words}.", ctx, param
        ) from None


def _epochs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...]:
    epochs = options.longs(ctx, param, values)
    for epoch in epochs:
        if not -(1 << (INT_BITS - 1)) <= epoch < 1 << (INT_BITS - 1):
            raise click.BadParameter(f"'{epoch}' is not a leader epoch (a 32-bit number).", ctx, param)
    return epochs


@commands.command(COMMAND, cls=LookupCommand)
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--offset", multiple=True, callback=options.longs, metavar="N", help="Find the batch that contains this offset."
)
@click.option(
    "--timestamp",
    multiple=True,
    callback=_timestamps,
    metavar="TIME",
    help="Find the first record with this timestamp or a later one: epoch ms, ISO 8601 (UTC), or "
    "earliest, latest, max, earliest-local, latest-tiered.",
)
@click.option(
    "--leader-epoch", multiple=True, callback=_epochs, metavar="E", help="Find the end offset of this leader epoch."
)
@click.option("--explain", is_flag=True, help="Also show how it was found: files, entries, bytes scanned.")
@options.output_format()
@options.jobs
@options.quiet
@question_options.circumstances
@options.debug
@click.pass_context
def command(
    ctx: click.Context, /, partition: str, form: str, circumstances: Circumstances, explain: bool, **chosen: Any
) -> int:
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
    kinds: list[str] = [name for name in ctx.meta[_ORDER] if name in ("offset", "timestamp", "leader_epoch")]
    if not kinds:
        raise click.UsageError("Nothing to look up: give --offset, --timestamp or --leader-epoch.", ctx)
    left = {name: iter(chosen[name]) for name in set(kinds)}
    questions = [(name, next(left[name])) for name in kinds]
    show = _Show(form, circumstances)
    loaded: list[LoadedPartition] = []

    def answer(kind: str, asked: Any) -> Answer:
        if not loaded:
            loaded.append(load_and_tell(partition, circumstances, chosen))
        return _ANSWERS[kind](loaded[0], asked, explain)

    for kind, asked in questions:
        show.answer(kind, asked, answer)
    show.out.flush()
    return FOUND if show.refused else DONE


class _Show:
    """Shows answers as they come, and refusals in their place."""

    def __init__(self, form: str, circumstances: Circumstances) -> None:
        self.out, self.json, self.refused = Output(), form == "json", False
        self._kafka = circumstances.kafka
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def answer(self, kind: str, asked: Any, answer: Callable[[str, Any], Answer]) -> None:
        """Show one answer, or its refusal. Raises KlogError if klogtool cannot continue."""
        try:
            row, text = answer(kind, asked)
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.refused = True
            row, text = {kind: asked, **refusal_row(error)}, ""
            if not self.json:
                self.out.note(*error_lines(error))
                return
        told = {"type": "answer", "command": COMMAND, **row, "kafka": self._kafka}
        self.out.text(row_line(told) if self.json else text)


def _of_offset(loaded: LoadedPartition, offset: int, explain: bool) -> Answer:
    found = loaded.lookup_offset(offset, explain=explain)
    return offset_row(found, explain=explain), offset_text(found, loaded.log_end_offset)


def _of_timestamp(loaded: LoadedPartition, asked: int | str, explain: bool) -> Answer:
    found, high_watermark = loaded.lookup_timestamp(asked), loaded.high_watermark
    doubts = lookup_doubts(loaded.log, found)
    text = timestamp_text(asked, found, high_watermark, explain=explain)
    warnings = joined(doubt_lines(loaded.path, doubts))
    row = timestamp_row(asked, found, high_watermark, explain=explain, doubts=doubts)
    return row, f"{text}\n{warnings}" if warnings else text


def _of_epoch(loaded: LoadedPartition, epoch: int, _: bool) -> Answer:
    found = loaded.end_offset_for_epoch(epoch)
    return epoch_row(found), epoch_text(found)


_ANSWERS: dict[str, Callable[[LoadedPartition, Any, bool], Answer]] = {
    "offset": _of_offset,
    "timestamp": _of_timestamp,
    "leader_epoch": _of_epoch,
}
