"""klogtool spark: the commands that spread their work over tasks of Spark."""

from __future__ import annotations

import importlib

import click

SPARK_COMMANDS = {
    "verify": ("klogtool.cli.spark_verify", "Find all damage, as a table of findings."),
    "inventory": (
        "klogtool.cli.spark_inventory",
        "Describe what is on all disks: sizes, formats, codecs, space to gain.",
    ),
    "export": ("klogtool.cli.spark_export", "Write records to Parquet files, by topic and day."),
    "compact": ("klogtool.cli.spark_compact", "Compact logs, and write the result to a new folder."),
}


class SparkCommands(click.Group):
    """The commands, each in its own module, which is imported only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of --help."""
        return list(SPARK_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None."""
        if cmd_name not in SPARK_COMMANDS:
            return None
        found: click.Command = importlib.import_module(SPARK_COMMANDS[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in SPARK_COMMANDS.items()])


@click.group("spark", cls=SparkCommands)
def command() -> None:
    """Work on many disks at once with Spark: on all cores of this machine, or on a cluster (--master).

    Needs `pip install klogtool[spark]`, and Java 17 or later (klogtool[java] installs one).
    """
