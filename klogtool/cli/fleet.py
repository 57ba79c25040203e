"""klogtool fleet: the commands about all brokers of a cluster after a disaster."""

from __future__ import annotations

import importlib

import click

FLEET_COMMANDS = {
    "collect": ("klogtool.cli.fleet_collect", "On each broker: write what its log dirs have, as a small file."),
    "plan": ("klogtool.cli.fleet_plan", "Choose the best copy of each partition, and say what this loses."),
    "apply": ("klogtool.cli.fleet_apply", "On each broker: do what the plan says about its copies."),
    "check": ("klogtool.cli.fleet_check", "Check that the disks are as the plan wants them."),
    "metadata": ("klogtool.cli.fleet_metadata", "Rebuild a lost __cluster_metadata: all controllers are gone."),
}


class FleetCommands(click.Group):
    """The commands, each in its own module, which is imported only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of --help."""
        return list(FLEET_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None."""
        if cmd_name not in FLEET_COMMANDS:
            return None
        found: click.Command = importlib.import_module(FLEET_COMMANDS[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in FLEET_COMMANDS.items()])


@click.group("fleet", cls=FleetCommands)
def command() -> None:
    """Save a cluster after a disaster: find the best copy of each partition over all brokers, and keep it.

    Run `collect` on each broker while it is stopped, and bring the files together.
    """
