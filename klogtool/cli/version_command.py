"""klogtool version."""

from __future__ import annotations

import click

from klogtool.cli import options
from klogtool.cli.commands import command as cli_command
from klogtool.cli.show import Screen, Show
from klogtool.cli.version import KAFKA_VERSION, VERSION, crc_ways, version_text


@cli_command("version")
@options.packed(options.taken(Screen), "screen", options.output_format(), options.quiet)
@options.debug
def command(screen: Screen) -> None:
    """Show the version, the Kafka release that klogtool is compared with, and which kernels run.

    With -v, also Python, libraries and the machine: add it to a bug report. No name of a machine or a user is in it,
    and no path.

    \b
    Examples:
      klogtool version
      klogtool version -v

    Exit status: 0 done.
    """
    show, ways = Show("version", screen), list(crc_ways())
    row = {"type": "version", "version": VERSION, "kafka": KAFKA_VERSION, "kernels": bool(ways), "crc32c": ways}
    if screen.verbose:
        from klogtool.cli.environment import environment, environment_text  # imports much

        show.row({**row, "environment": environment()})
        if not show.json:
            click.echo(environment_text())
    else:
        show.row(row)
        show.line(version_text())
