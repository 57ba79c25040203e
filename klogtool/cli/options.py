"""Options that several commands share, each once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from klogtool.cli.output import DEBUG
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import parse_java_long
from klogtool.format.java_text import parse_properties
from klogtool.log.file import read_whole
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


def purge(command: Command) -> Command:
    """--purge: nothing waits for file.delete.delay.ms."""
    return click.option("--purge", is_flag=True, help="Leave no .deleted files: what goes is gone at once.")(command)


def only_given(chosen: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Of these parameters those that were given: for the arguments of a decision."""
    return {name: chosen[name] for name in names if chosen[name] is not None and chosen[name] is not False}


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


def text_or_json(command: Command) -> Command:
    """--format text|json, as the argument `form`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="What to write: for people, or JSON Lines.",
    )(command)


MOST_CONFIG_BYTES = 16 << 20


def circumstances(command: Command) -> Command:
    """What a broker knows of a partition beside its dir; all of it as one argument, `given`: a Circumstances."""
    from klogtool.repair.circumstances import CLEAN, UNCLEAN, Circumstances  # dump-log starts without them

    @functools.wraps(command)
    def with_circumstances(*args: Any, **options: Any) -> Any:
        names = ("now", "loaded_at", "config", "config_file", "recovery_point", "log_start_offset")
        now_ms, *rest = (options.pop(name) for name in (*names, "high_watermark", "last_stop"))
        given = Circumstances(time.time_ns() // 1_000_000 if now_ms is None else now_ms, *rest)
        return command(*args, given=given, **options)

    decorated: Any = with_circumstances
    for option in (
        click.option(
            "--last-stop",
            type=click.Choice((CLEAN, UNCLEAN)),
            help="How the broker stopped.  [default: by the clean marker]",
        ),
        click.option("--high-watermark", callback=long, metavar="N", help="In place of the checkpoint's."),
        click.option("--log-start-offset", callback=long, metavar="N", help="In place of the checkpoint's."),
        click.option("--recovery-point", callback=long, metavar="N", help="In place of the checkpoint's."),
        click.option(
            "--loaded-at",
            callback=moment,
            metavar="TIME",
            help="The clock while the log is loaded: which producers have expired.  [default: --now]",
        ),
        click.option(
            "--now", callback=moment, metavar="TIME", help="Epoch ms or ISO 8601 (UTC).  [default: the clock]"
        ),
        click.option(
            "--config-file",
            callback=config_file,
            metavar="FILE",
            help="Settings: properties, also under sections [topic] or [pattern*].",
        ),
        click.option(
            "--config",
            multiple=True,
            callback=config,
            metavar="KEY=VALUE",
            help="A setting, by Kafka's name for the topic or the broker; repeatable.",
        ),
    ):
        decorated = option(decorated)
    result: Command = decorated
    return result


def config(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """A callback: KEY=VALUE, the last of one key counts; keys that no log goes by are refused."""
    settings = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"'{value}' is not KEY=VALUE.", ctx, param)
        settings[key.strip()] = text
    _check_config(settings, ctx, param, names=True)
    return settings


def config_file(
    ctx: click.Context, param: click.Parameter, path: str | None
) -> tuple[tuple[str | None, dict[str, str]], ...]:
    """A callback: the sections of a file, each a pattern of topics (None: what stands before the first) and its
    settings. Keys that no log goes by are left alone: a broker's server.properties is full of them."""
    if path is None:
        return ()
    sections: list[tuple[str | None, list[bytes]]] = [(None, [])]
    for line in read_whole(path, limit=MOST_CONFIG_BYTES).splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith(b"[") and stripped.endswith(b"]"):
            sections.append((stripped[1:-1].strip().decode("utf-8", "surrogateescape"), []))
        else:
            sections[-1][1].append(line)
    try:
        parsed = tuple((pattern, parse_properties(b"".join(lines))) for pattern, lines in sections)
    except Corrupt as error:
        raise click.BadParameter(f"{path}: {error.reason}", ctx, param) from None
    for _, settings in parsed:
        _check_config(settings, ctx, param, names=False)
    return parsed


def _check_config(settings: dict[str, str], ctx: click.Context, param: click.Parameter, *, names: bool) -> None:
    from klogtool.repair.config import check_names, log_config

    try:
        if names:
            check_names(settings)
        log_config(settings)
    except KlogError as error:
        raise click.BadParameter(error.reason, ctx, param) from None


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A callback: epoch milliseconds, of a number or of ISO 8601 (UTC where it says no other zone)."""
    if value is None:
        return None
    try:
        return parse_java_long(value)
    except Corrupt:
        pass
    try:
        told = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"'{value}' is neither epoch milliseconds nor ISO 8601.", ctx, param) from None
    since_epoch = (told if told.tzinfo else told.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1000 + since_epoch.microseconds // 1000


def long(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A callback: a number that a Java long can be."""
    if value is None:
        return None
    try:
        return parse_java_long(value)
    except Corrupt:
        raise click.BadParameter(f"'{value}' is no number of 64 bits.", ctx, param) from None


def longs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int]:
    """A callback: numbers that a Java long can be."""
    return [number for value in values if (number := long(ctx, param, value)) is not None]


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
