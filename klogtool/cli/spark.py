"""klogtool spark: the commands that spread their work over tasks of Spark."""

from __future__ import annotations

import click

from klogtool.cli.commands import Commands

SPARK_COMMANDS = {
    "verify": ("klogtool.cli.spark_verify", "Find all damage, as a table of findings."),
    "inventory": (
        "klogtool.cli.spark_inventory",
        "Describe what is on all disks: sizes, formats, codecs, space to gain.",
    ),
    "export": ("klogtool.cli.spark_export", "Write records to Parquet files, by topic and day."),
    "compact": ("klogtool.cli.spark_compact", "Compact logs, and write the result to a new folder."),
}


@click.group("spark", cls=Commands, modules=SPARK_COMMANDS, headings={"Commands": SPARK_COMMANDS})
def command() -> None:
    """Work on many disks at once with Spark: on all cores of this machine, or on a cluster (--master).

    Needs `pip install klogtool[spark]`, and Java 17 or later (klogtool[java] installs one).

    \b
    Examples:
      klogtool spark inventory /data/kafka-1
      klogtool spark verify /data/kafka-1 --master spark://host:7077
    """
