"""What all commands on Spark share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click

from klogtool.cli import options
from klogtool.cli.show import Screen
from klogtool.render.progress_bar import Bar
from klogtool.spark.starting import DEFAULT_MASTER, Session, open_session

Command = TypeVar("Command", bound=Callable[..., Any])


class OnSpark(Screen, frozen=True, kw_only=True):
    """How a command shows, and where Spark runs its tasks."""

    master: str = DEFAULT_MASTER
    spark_conf: Mapping[str, str] = {}

    def session(self) -> AbstractContextManager[Session]:
        """Open a session of Spark."""
        return open_session(self.master, self.spark_conf)

    def bar(self, size: int) -> Bar:
        """Return a progress bar over `size` bytes, if wanted."""
        return Bar(size, wanted=self.wants_bar)


_MASTER = click.option(
    "--master", default=DEFAULT_MASTER, show_default=True, metavar="URL", help="Where Spark runs its tasks."
)
_SPARK_CONF = click.option(
    "--spark-conf",
    multiple=True,
    callback=lambda _, __, texts: options.pairs(texts),
    metavar="KEY=VALUE",
    help="Set a Spark config, such as spark.executor.memory=4g. Repeatable.",
)


def on_spark(command: Command) -> Command:
    """--format, --master, --spark-conf, --quiet, --no-progress: the parameter run."""
    shown = (options.output_format(), _MASTER, _SPARK_CONF, options.quiet)
    return options.packed(options.taken(OnSpark), "run", *shown)(command)


def absolute(paths: tuple[str, ...]) -> list[str]:
    """Return absolute paths, as every machine sees them; URIs unchanged."""
    return [path if re.match(r"[a-z][a-z0-9+.-]*://", path) else os.path.abspath(path) for path in paths]


def local_of(paths: Iterable[str]) -> list[str]:
    """Return the local paths."""
    return [path for path in paths if "://" not in path]
