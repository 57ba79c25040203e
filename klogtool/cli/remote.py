"""klogtool remote: the commands about remote storage of tiered topics."""

from __future__ import annotations

import click

from klogtool.cli.commands import Commands

REMOTE_COMMANDS = {
    "ls": ("klogtool.cli.remote_ls", "List partitions and segments of a store, from objects and from metadata."),
    "verify": ("klogtool.cli.remote_verify", "Find all that is wrong in a store, and what consumers do not get."),
    "metadata": ("klogtool.cli.remote_metadata", "Rebuild a lost __remote_log_metadata from the objects."),
    "fetch": ("klogtool.cli.remote_fetch", "Bring a partition back, as a dir that a broker can load."),
}


@click.group("remote", cls=Commands, modules=REMOTE_COMMANDS, headings={"Commands": REMOTE_COMMANDS})
def command() -> None:
    """Read remote storage of tiered topics (KIP-405), without a broker. Nothing in the store is changed.

    STORE is a folder, or a URI such as s3://bucket/prefix. The layouts of Kafka's LocalTieredStorage and of Aiven's
    plugin are read.

    \b
    Examples:
      klogtool remote ls s3://bucket/tier --metadata /data/kafka
      klogtool remote ls /mnt/tier/kafka-tiered-storage -v
    """
