"""Options for what a broker knows of a partition beside its dir: settings, time, checkpoints, the last stop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from klogtool.broker.circumstances import CLEAN, UNCLEAN, Circumstances
from klogtool.broker.config import check_names, check_spelling, check_topic_names, log_config
from klogtool.cli import options
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_text import parse_properties
from klogtool.log.file import read_whole

Command = TypeVar("Command", bound=Callable[..., Any])
MOST_CONFIG_BYTES = 16 << 20


def circumstances(command: Command) -> Command:
    """Add the options; the command gets them as one argument, `circumstances`."""

    @functools.wraps(command)
    def with_circumstances(*args: Any, **chosen: Any) -> Any:
        names = ("now", "loaded_at", "config", "config_file", "recovery_point", "log_start_offset")
        now_ms, *rest = (chosen.pop(name) for name in (*names, "high_watermark", "last_stop", "kafka"))
        known = Circumstances(time.time_ns() // 1_000_000 if now_ms is None else now_ms, *rest)
        return command(*args, circumstances=known, **chosen)

    decorated: Any = with_circumstances
    for option in (
        click.option(
            "--last-stop",
            type=click.Choice((CLEAN, UNCLEAN)),
            help="How the broker stopped.  [default: clean if the log dir has the clean shutdown marker]",
        ),
        click.option(
            "--high-watermark",
            callback=options.long,
            metavar="N",
            help="Use N instead of the checkpointed high watermark.",
        ),
        click.option(
            "--log-start-offset",
            callback=options.long,
            metavar="N",
            help="Use N instead of the checkpointed log start offset.",
        ),
        click.option(
            "--recovery-point",
            callback=options.long,
            metavar="N",
            help="Use N instead of the checkpointed recovery point.",
        ),
        click.option(
            "--loaded-at",
            callback=options.moment,
            metavar="TIME",
            help="When the log is loaded: decides which producers have expired.  [default: --now]",
        ),
        click.option(
            "--now",
            callback=options.moment,
            metavar="TIME",
            help="The current time: epoch ms or ISO 8601 (UTC).  [default: the clock]",
        ),
        click.option(
            "--config-file",
            callback=config_file,
            metavar="FILE",
            help="Read settings from a properties file. Sections [topic] or [pattern*] apply to topics.",
        ),
        click.option(
            "--config",
            multiple=True,
            callback=config,
            metavar="KEY=VALUE",
            help="Set a topic or broker config, by Kafka's name. Repeatable.",
        ),
        options.kafka,
    ):
        decorated = option(decorated)
    result: Command = decorated
    return result


def config(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE (a click callback). The last value of a key wins; keys that no log uses are refused."""
    settings = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"'{value}' is not KEY=VALUE.", ctx, param)
        settings[key.strip()] = text
    _check_config(settings, check_names, ctx, param)
    return settings


def config_file(
    ctx: click.Context, param: click.Parameter, path: str | None
) -> tuple[tuple[str | None, dict[str, str]], ...]:
    """Parse the sections of a file (a click callback), each a pattern of topics (None: the part before the first
    section) and its settings. Before the first section, keys that no log uses are ignored, because a broker's
    server.properties has many of them; a key that is almost one of a log's is refused. In a topic's section all other
    keys are refused."""
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
    for pattern, settings in parsed:
        check = check_spelling if pattern is None else check_topic_names
        _check_config(settings, check, ctx, param, where=f"{path}: ")
    return parsed


def _check_config(
    settings: dict[str, str],
    check: Callable[[Mapping[str, str]], None],
    ctx: click.Context,
    param: click.Parameter,
    where: str = "",
) -> None:
    try:
        check(settings)
        log_config(settings)
    except KlogError as error:
        raise click.BadParameter(where + error.reason, ctx, param) from None
