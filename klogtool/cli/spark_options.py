"""What all commands on Spark share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from klogtool.cli import options
from klogtool.render.progress_bar import Bar
from klogtool.spark.starting import DEFAULT_MASTER, Session, open_session

Command = TypeVar("Command", bound=Callable[..., Any])


def on_spark(command: Command) -> Command:
    """--master, --spark-conf, --quiet, --no-progress, --debug."""
    for option in (
        options.debug,
        options.no_progress,
        options.quiet,
        click.option(
            "--spark-conf",
            multiple=True,
            callback=_pairs,
            metavar="KEY=VALUE",
            help="Set a Spark config, such as spark.executor.memory=4g. Repeatable.",
        ),
        click.option(
            "--master", default=DEFAULT_MASTER, show_default=True, metavar="URL", help="Where Spark runs its tasks."
        ),
    ):
        command = option(command)
    return command


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE (a click callback)."""
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"'{value}' is not KEY=VALUE.", ctx, param)
        pairs[key.strip()] = text
    return pairs


pairs = _pairs


@contextmanager
def running(chosen: Mapping[str, Any]) -> Iterator[Session]:
    """Open a session with the options of `on_spark`."""
    with open_session(chosen["master"], chosen["spark_conf"]) as session:
        yield session


def bar_of(size: int, chosen: Mapping[str, Any]) -> Bar:
    """Return a progress bar over `size` bytes, if wanted."""
    return Bar(size, wanted=not (chosen["quiet"] or chosen["no_progress"]))


def absolute(paths: tuple[str, ...]) -> list[str]:
    """Return absolute paths, as every machine sees them; URIs unchanged."""
    return [path if re.match(r"[a-z][a-z0-9+.-]*://", path) else os.path.abspath(path) for path in paths]


def local_of(paths: Iterable[str]) -> list[str]:
    """Return the local paths."""
    return [path for path in paths if "://" not in path]
