"""The klogtool command: finds the command asked for, and turns what went wrong into a line and an exit status.

Commands are imported when they are asked for, so that `--help` and a small dump start fast.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from klogtool.cli.guard import guarded, note_slow_reader
from klogtool.cli.output import note
from klogtool.cli.status import INTERRUPTED, USAGE

# name: (module, what --help says of it)
COMMANDS = {
    "dump-log": (
        "klogtool.cli.dump_log",
        "Print files of a log dir as kafka-dump-log does, or as JSON, Arrow, Parquet.",
    ),
    "verify": ("klogtool.cli.verify", "Find every damage under a path: bytes, offsets, what to do."),
    "lookup": ("klogtool.cli.lookup", "Find an offset, a time or a leader epoch, as a broker does."),
    "read": ("klogtool.cli.read", "The bytes that a fetch gets: raw, or as records."),
    "txns": ("klogtool.cli.txns", "The transactions of a partition, and what a broker knows of producers."),
    "salvage": ("klogtool.cli.salvage", "Keep every good batch of a damaged partition."),
    "rebuild-index": ("klogtool.cli.rebuild_index", "Build indexes, snapshots and leader epochs anew from the logs."),
    "append": ("klogtool.cli.append", "Append batches or records, validated as a broker validates them."),
    "truncate": ("klogtool.cli.truncate", "Cut a partition at an offset, or begin it anew at one."),
    "roll": ("klogtool.cli.roll", "Tell whether the active segment is due to be closed, and close it."),
    "retain": ("klogtool.cli.retain", "Delete the segments that retention no longer keeps; say why others stay."),
    "delete-records": ("klogtool.cli.delete_records", "Let a partition begin at a later offset."),
    "compact": ("klogtool.cli.compact", "Clean compacted logs as a broker does; say why one is not cleaned."),
    "apply": ("klogtool.cli.apply", "Carry out a saved plan, or finish a run that was cut short."),
    "undo": ("klogtool.cli.undo", "Take back what --apply did; list it, or give it up."),
    "spark": ("klogtool.cli.spark", "Many disks at once, by Spark, on this machine or a cluster."),
}


class Commands(click.Group):
    """The commands, each in a module of its own that is imported only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click's; a word that is no command gets a guess at what was meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            meant = f"klogtool dump-log {name}" if os.path.exists(name) else _closest_command(name)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{meant}'?" if meant else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


def _closest_command(name: str) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, COMMANDS)), None)


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from klogtool.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Version, kernels.")
def cli() -> None:
    """The fsck of Apache Kafka: reads log dirs on disk, without a broker.

    Exit status: 0 done, nothing wrong; 1 damage found; 2 wrong usage, no such path; 3 refused, nothing changed;
    4 could not go on; 130 interrupted; 141 the reader of stdout went away.
    """
    note_slow_reader()


def main() -> None:
    """The console script: runs the command line and exits with its status."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """The command line `args`: what it prints goes to stdout and stderr; returns the exit status. Never raises."""
    return guarded(lambda: _by_click(args), debug="--debug" in args)


def _by_click(args: list[str]) -> object:
    try:
        with cli.make_context("klogtool", list(args)) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as wrong:
        _show_wrong_usage(wrong, args)
        return USAGE
    except click.Abort:
        return INTERRUPTED


def _show_wrong_usage(wrong: click.ClickException, args: list[str]) -> None:
    """In one line, and a second with where to look."""
    if not args:
        wrong.show()  # the help, which click has as an error
        return
    note(f"klogtool: {_unabbreviated(wrong) or wrong.format_message()}")
    context = getattr(wrong, "ctx", None)  # not every error has one
    named = " ".join(["klogtool", *[name for name in args[:1] if name in COMMANDS]])
    note(f"Try '{named if context is None else context.command_path} --help'.")


def _unabbreviated(wrong: click.ClickException) -> str | None:
    """What to say to an option that is the beginning of others; None to any other error."""
    if not isinstance(wrong, click.NoSuchOption) or wrong.ctx is None:
        return None
    names = [name for parameter in wrong.ctx.command.get_params(wrong.ctx) for name in parameter.opts]
    meant = [f"'{name}'" for name in names if name.startswith(wrong.option_name)]
    return f"No such option '{wrong.option_name}'. Did you mean {' or '.join(meant)}?" if meant else None
