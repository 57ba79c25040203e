"""The klogtool command: finds the command asked for, and turns what went wrong into a line and an exit status.

Commands are imported when they are asked for, so that `--help` and a small dump start fast.
"""

from __future__ import annotations

import importlib
import sys
import traceback

import click

from klogtool.cli.output import ReaderGone, error_line, forget_stdout, note
from klogtool.cli.status import COULD_NOT, DONE, INTERRUPTED, READER_GONE, USAGE, status_of
from klogtool.errors import KlogError

# name: (module, what --help says of it)
COMMANDS = {
    "dump-log": (
        "klogtool.cli.dump_log",
        "Print files of a log dir as kafka-dump-log does, or as JSON, Arrow, Parquet.",
    ),
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from klogtool.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Version, kernels.")
def cli() -> None:
    """The fsck of Apache Kafka: reads, explains and repairs log dirs on disk, without a broker.

    Exit status: 0 done, nothing wrong; 1 damage found; 2 wrong usage, no such path; 3 refused, nothing changed;
    4 could not go on; 130 interrupted; 141 the reader of stdout went away.
    """
    from klogtool import kernels

    if kernels.native is None:
        note("klogtool: kernels not built: the reference reader runs, about a hundred times slower")


def main() -> None:
    """The console script: runs the command line and exits with its status."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """The command line `args`: what it prints goes to stdout and stderr; returns the exit status. Never raises."""
    try:
        with cli.make_context("klogtool", list(args)) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        forget_stdout()
        return READER_GONE
    except (KlogError, OSError, MemoryError) as error:
        return _failed(error, debug="--debug" in args)


def _failed(error: KlogError | OSError | MemoryError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KlogError):
        note(error_line(error))
        return status_of(error)
    note("klogtool: out of memory" if isinstance(error, MemoryError) else f"klogtool: {error}")
    return COULD_NOT
