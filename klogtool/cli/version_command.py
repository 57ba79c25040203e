"""klogtool version."""

from __future__ import annotations

import click

from klogtool.cli import options
from klogtool.cli.commands import command as cli_command
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.version import KAFKA_VERSION, VERSION, crc_ways, version_text
from klogtool.json_rows import row_line


@cli_command("version")
@options.output_format()
@options.quiet
@options.debug
def command(form: str, verbose: bool, quiet: bool) -> None:
    """Show the version, the Kafka release that klogtool is compared with, and which kernels run.

    With -v, also Python, libraries and the machine: add it to a bug report. No name of a machine or a user is in it,
    and no path.

    \b
    Examples:
      klogtool version
      klogtool version -v

    Exit status: 0 done.
    """
    out = Output()
    if form == "json":
        out.line(row_line(header("version")))
        ways = list(crc_ways())
        row = {"type": "version", "version": VERSION, "kafka": KAFKA_VERSION, "kernels": bool(ways), "crc32c": ways}
        if verbose:
            from klogtool.cli.environment import environment  # imports much

            row["environment"] = environment()
        out.line(row_line(row))
    elif verbose:
        from klogtool.cli.environment import environment_text  # imports much

        click.echo(environment_text())
    else:
        out.line(version_text())
    out.flush()
