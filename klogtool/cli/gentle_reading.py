"""Where a running broker uses what is read: a note that the files may change, and reading that it does not feel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from klogtool.cli.output import note
from klogtool.format.typed import parse_size
from klogtool.log.gentle import begin_gently, end_gently, yield_processor
from klogtool.log.holder import walk_held

MOST_PATHS = 1000  # limit: of many paths that a shell expanded, the first ones are enough
GENTLY, RATE = "klogtool.gently", "klogtool.rate"  # in click's meta

Command = TypeVar("Command", bound=Callable[..., Any])


def always_gently(command: Command) -> Command:
    """--rate, for a command that always reads gently."""
    about = "Read at most so much a second, as 50MB/s.  [default: as the disk has nothing else to do]"
    return _rate(_note_rate_of_gentle, about)(command)


def _rate(note_it: Callable[..., None], about: str) -> Callable[[Command], Command]:
    return click.option("--rate", callback=note_it, expose_value=False, metavar="SIZE/s", help=about)


def _note_rate_of_gentle(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta[GENTLY] = True
    _note_rate(ctx, param, value)


def gently(command: Command) -> Command:
    """--gentle, --no-gentle, --rate: how `begin_reading` reads."""
    about = "Read at most so much a second, as 50MB/s; with --gentle, which it implies."
    command = _rate(_note_rate, about)(command)
    return click.option(
        "--gentle/--no-gentle",
        default=None,
        callback=lambda ctx, _, value: ctx.meta.update({GENTLY: value}),
        expose_value=False,
        help="Read so that a running broker does not feel it: past the page cache, on one thread, while nobody else "
        "wants the disk.  [default: where a broker holds the lock of the log dir]",
    )(command)


def _note_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    try:
        rate = None if value is None else parse_size(value.removesuffix("/s"))
    except ValueError:
        rate = 0
    if rate == 0:
        raise click.BadParameter(f"'{value}' is not a rate, such as 50MB/s.", ctx, param)
    ctx.meta[RATE] = rate


def begin_reading(paths: Sequence[str], *, quiet: bool) -> None:
    """Write a line on stderr for each lock that is held around the paths, unless it should be quiet. From now on, read
    gently if that is asked for, or if somebody holds a lock and the command can read so. Raises UsageError for options
    that contradict each other."""
    held = {lock: holder for path in paths[:MOST_PATHS] for lock, holder in walk_held(path)}
    is_gentle = _begin_gently(is_in_use=bool(held))
    how = "; it reads gently (--gentle)" if is_gentle else ""
    for lock, holder in {} if quiet else held.items():
        note(f"klogtool: {lock}: {holder} holds it, perhaps a broker: the files may change while klogtool reads{how}")


def _begin_gently(*, is_in_use: bool) -> bool:
    ctx = click.get_current_context(silent=True)
    if ctx is None or GENTLY not in ctx.meta:
        return False
    meta = ctx.meta
    rate = meta[RATE]
    if rate is not None and meta[GENTLY] is False:
        raise click.UsageError("--rate does not go with --no-gentle.")
    is_gentle = bool(meta[GENTLY] or rate is not None or (meta[GENTLY] is None and is_in_use))
    if is_gentle:
        begin_gently(rate)
        yield_processor()
        ctx.call_on_close(end_gently)
    return is_gentle
