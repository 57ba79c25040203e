"""Options that several commands share, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from klogtool.cli.output import DEBUG

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


def quiet(command: Command) -> Command:
    """-q/--quiet: nothing on stderr but errors."""
    return click.option("-q", "--quiet", is_flag=True, help="No notes on stderr, only errors.")(command)


class Span(click.ParamType):
    """A..B, both ends included; either may be left out."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Both bounds; one that was left out is the smallest or largest of a Java long."""
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        try:
            return int(first) if first else -(2**63), int(last if dots else first) if last or not dots else 2**63 - 1
        except ValueError:
            self.fail(f"'{value}' is no span: A..B, A.., ..B or A", param, ctx)


SPAN = Span()


class GivenBytes(click.ParamType):
    """Bytes: text, or \\xHH escapes for what is no text."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The bytes."""
        if isinstance(value, bytes):
            return value
        raw = str(value).encode("utf-8", "surrogateescape")
        try:
            return raw if b"\\x" not in raw else _unescaped(raw)
        except ValueError:
            self.fail(f"'{value}' has a \\x that two hex digits do not follow", param, ctx)


def _unescaped(raw: bytes) -> bytes:
    first, *rest = raw.split(b"\\x")
    return first + b"".join(bytes.fromhex(piece[:2].decode("ascii")) + piece[2:] for piece in rest)


BYTES = GivenBytes()
