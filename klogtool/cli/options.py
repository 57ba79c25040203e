"""Options that several commands share, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from klogtool.cli.output import DEBUG
from klogtool.errors import Corrupt
from klogtool.format.java_numbers import parse_java_long
from klogtool.render.selection import LARGEST, SMALLEST, Selection

SELECTION = ("offsets", "timestamps", "grep", "key", "producer-id")

Command = TypeVar("Command", bound=Callable[..., Any])


def debug(command: Command) -> Command:
    """--debug: tracebacks, which nobody sees otherwise."""
    return click.option(
        "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_note_debug, help="Show tracebacks."
    )(command)


def _note_debug(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    ctx.meta[DEBUG] = asked


def jobs(command: Command) -> Command:
    """--jobs N: threads."""
    return click.option(
        "--jobs", type=click.IntRange(min=1), default=None, metavar="N", help="Threads.  [default: all cores]"
    )(command)


def no_progress(command: Command) -> Command:
    """--no-progress."""
    return click.option("--no-progress", is_flag=True, help="No progress bar.")(command)


def quiet(command: Command) -> Command:
    """-q/--quiet: nothing on stderr but errors."""
    return click.option("-q", "--quiet", is_flag=True, help="No notes on stderr, only errors.")(command)


def selection(command: Command) -> Command:
    """Which records: --offsets, --timestamps, --grep, --key, --producer-id; see `selected`."""
    for option in (
        click.option("--producer-id", callback=long, metavar="N", help="Only records of this producer."),
        click.option("--key", callback=given_bytes, metavar="BYTES", help="Only records with this key."),
        click.option(
            "--grep",
            callback=given_bytes,
            metavar="BYTES",
            help="Only records with these bytes in key or value (\\xHH for any byte).",
        ),
        click.option(
            "--timestamps",
            callback=span,
            metavar="A..B",
            help="Only records with these timestamps (epoch ms).",
        ),
        click.option("--offsets", callback=span, metavar="A..B", help="Only records with these offsets."),
    ):
        command = option(command)
    return command


def selected(given: dict[str, Any]) -> Selection | None:
    """What `selection`'s options chose; None: everything."""
    everything = (SMALLEST, LARGEST)
    chosen = Selection(
        given["offsets"] or everything,
        given["timestamps"] or everything,
        given["producer_id"],
        given["key"],
        given["grep"] or None,  # nothing is in everything
    )
    return None if chosen == Selection() else chosen


def long(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A callback: a number that a Java long can be."""
    if value is None:
        return None
    try:
        return parse_java_long(value)
    except Corrupt:
        raise click.BadParameter(f"'{value}' is no number of 64 bits.", ctx, param) from None


def span(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """A callback: A..B, both ends included; one that is left out is the smallest or largest of a Java long."""
    if value is None:
        return None
    first, dots, last = value.partition("..")
    try:
        start = parse_java_long(first) if first or not dots else SMALLEST
        end = (parse_java_long(last) if last else LARGEST) if dots else start
    except Corrupt:
        raise click.BadParameter(
            f"'{value}' is no span: A..B, A.., ..B or A, in numbers of 64 bits.", ctx, param
        ) from None
    if start > end:
        raise click.BadParameter(f"'{value}' ends before it begins.", ctx, param)
    return start, end


def given_bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    r"""A callback: the bytes of a text; \xHH stands for any byte."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape")
    try:
        first, *rest = raw.split(b"\\x")
        return first + b"".join(bytes.fromhex(piece[:2].decode("ascii")) + piece[2:] for piece in rest)
    except ValueError:
        raise click.BadParameter(f"'{value}' has a \\x that two hex digits do not follow.", ctx, param) from None
