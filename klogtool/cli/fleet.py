"""klogtool fleet: the commands about all brokers of a cluster after a disaster."""

from __future__ import annotations

import click

from klogtool.cli.commands import Commands

FLEET_COMMANDS = {
    "collect": ("klogtool.cli.fleet_collect", "On each broker: write what its log dirs have, as a small file."),
    "plan": ("klogtool.cli.fleet_plan", "Choose the best copy of each partition, and say what this loses."),
    "apply": ("klogtool.cli.fleet_apply", "On each broker: do what the plan says about its copies."),
    "check": ("klogtool.cli.fleet_check", "Check that the disks are as the plan wants them."),
    "metadata": ("klogtool.cli.fleet_metadata", "Rebuild a lost __cluster_metadata: all controllers are gone."),
}


@click.group("fleet", cls=Commands, modules=FLEET_COMMANDS, headings={"Commands": FLEET_COMMANDS})
def command() -> None:
    """Save a cluster after a disaster: find the best copy of each partition over all brokers, and keep it.

    Run `collect` on each broker while it is stopped, and bring the files together.

    \b
    Examples:
      klogtool fleet collect /data/kafka-1 > broker-1.klog
      klogtool fleet plan *.klog --plan-out plan.json
    """
