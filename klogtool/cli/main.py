"""The klogtool command: finds the requested command, and turns errors into a line and an exit status.

A command is imported when it is used, so that an extra that one command needs is not needed by the others.
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator

import click

from klogtool import interrupts
from klogtool.cli.commands import Commands, meant_by
from klogtool.cli.output import (
    STDOUT_NAME,
    ReaderGone,
    error_lines,
    forget_stdout,
    hold_streams,
    note,
    stdout_lost,
    traceback_lines,
)
from klogtool.cli.status import COULD_NOT, DONE, INTERRUPTED, READER_GONE, USAGE, remember_arguments, status_of
from klogtool.cli.version import version_text
from klogtool.errors import KlogError

GROUPS = {  # by heading of --help: the line of each command
    "Look (nothing is written)": {
        "doctor": "Say what a broker's start will do to its log dirs, and what to do first.",
        "verify": "Find all damage under a path.",
        "scrub": "Read closed segments again and again beside a broker: find bit rot.",
        "explain": "Explain a finding of verify, or a line of a broker's log, and what to do.",
        "dump-log": "Print files of a log dir as kafka-dump-log does, or as JSON, Arrow, Parquet.",
        "lookup": "Find an offset, a time or a leader epoch, as a broker does.",
        "read": "Read what a fetch returns: raw bytes, or records.",
        "txns": "List transactions, and the state of producers as a broker has it.",
        "offsets": "Show committed offsets of groups, now or at a past time, and their lag.",
        "diff": "Compare two copies of a partition or a log dir: equal, a prefix, or diverging.",
        "hash": "Print a digest of records, to compare copies of a partition by eye.",
        "remote": "Read remote storage of tiered topics: what is there, and what serves it.",
        "quorum": "Say who may vote, whether the controllers elect a leader, which copy is best.",
    },
    "Mend": {
        "recover": "Recover logs as a broker does at startup, or say what that would lose.",
        "salvage": "Copy every good batch of a damaged partition.",
        "rebuild-index": "Rebuild indexes, producer snapshots and leader epochs from the logs.",
        "transplant": "Make a copied partition ready for another cluster, or a new topic.",
        "drop-producer": "Remove one producer from the producer snapshots of a partition.",
        "fleet": "After a disaster: find the best copy of each partition over all brokers.",
    },
    "Do what a running broker does": {
        "append": "Append batches or records, with a broker's validation.",
        "truncate": "Truncate a partition to an offset, or empty it and start at a new offset.",
        "roll": "Roll the active segment if a broker would.",
        "retain": "Delete segments by retention, and say why the others stay.",
        "delete-records": "Delete the records below an offset, as kafka-delete-records does.",
        "compact": "Compact logs as a broker does, or say why a log is not compacted.",
        "free": "Free space on a full disk: what can be given up, the safest first.",
    },
    "Plans": {
        "apply": "Carry out a saved plan, or finish a run that was interrupted.",
        "undo": "Take back what --apply did, list such runs, or free their space.",
    },
    "Workshop": {
        "build": "Make a log dir from a short description, the same bytes every time.",
        "image": "Copy a log dir without keys, values and names, for a bug report.",
        "export": "Write records to Parquet files by topic and day; later runs add what is new.",
        "completion": "Print a script that completes commands, options and files in a shell.",
        "tutorial": "Learn klogtool in ten steps, on a damaged log dir that it makes for you.",
    },
    "More": {
        "spark": "Work on many disks at once with Spark, on this machine or a cluster.",
        "help": "Show the help of a command.",
        "version": "Show the version; with -v, what a bug report needs.",
    },
}
MODULES = {"version": "version_command"}  # of the others, the name of the command
COMMANDS = {
    name: (f"klogtool.cli.{MODULES.get(name, name.replace('-', '_'))}", line)
    for lines in GROUPS.values()
    for name, line in lines.items()
}  # name: (module, its line in --help)

# Commands that were an option of another one: the option, the command, and the option that has its value now.
WERE_OPTIONS = {
    "verify": ("--recover", "recover", None),
    "txns": ("--drop-producer", "drop-producer", "--producer-id"),
}
COMPLETE = "_KLOGTOOL_COMPLETE"  # set by what `klogtool completion` prints
VERBOSE = "klogtool.verbose"


class Klogtool(Commands):
    """The commands of klogtool itself. They keep the names that they had before."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; for an unknown command suggest others."""
        name, *words = args
        if name not in COMMANDS and not name.startswith("-"):
            meant = [f"klogtool dump-log {name}"] if os.path.exists(name) else meant_by(name, COMMANDS)
            suggestion = " or ".join(f"'{one}'" for one in meant)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean {suggestion}?" if suggestion else ""))
        return super().resolve_command(ctx, _by_new_name(name, words))


def _by_new_name(name: str, words: list[str]) -> list[str]:
    """Return the arguments, with the present name of a command that was an option of another one."""
    if name not in WERE_OPTIONS:
        return [name, *words]
    option, command, instead = WERE_OPTIONS[name]
    end = words.index("--") if "--" in words else len(words)
    is_meant = {option} if instead is None else {option, f"{option}="}  # a flag takes no value
    at = next((n for n, word in enumerate(words[:end]) if word[: len(option) + 1] in is_meant), None)
    if at is None:
        return [name, *words]
    _, equals, value = words[at].partition("=")
    return [command, *words[:at], *([instead + equals + value] if instead else []), *words[at + 1 :]]


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if ctx.resilient_parsing:
        return
    verbose = ctx.meta.get(VERBOSE)
    if wanted and verbose:
        from klogtool.cli.version_command import environment_text  # imports much
    if wanted:
        click.echo(environment_text() if verbose else version_text())
        ctx.exit()
    if verbose:
        raise click.UsageError("--verbose goes with --version, or after a command.", ctx)


@click.group(
    cls=Klogtool,
    modules=COMMANDS,
    headings=GROUPS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_version,
    help="Show the version, and which kernels run.",
)
@click.option(
    "--verbose",
    is_flag=True,
    is_eager=True,  # --version asks for it
    expose_value=False,
    callback=lambda ctx, _, wanted: ctx.meta.update({VERBOSE: wanted}),
    help="With --version: also Python, libraries and the machine, for a bug report.",
)
def cli() -> None:
    """The fsck of Apache Kafka: reads log dirs on disk, without a broker.

    \b
    If you are not sure that a disk is sound, run these before you start a broker on it:
      klogtool doctor LOGDIR...    shows what a broker would do at startup, and what to do first
      klogtool verify LOGDIR       shows what is damaged, and how to repair it
      klogtool recover LOGDIR      shows what a broker would cut and delete at startup
      klogtool explain batch-crc   explains a finding
      klogtool salvage PARTITION   shows what can be saved of a damaged partition

    Nothing is written without --apply or --output. `klogtool undo` takes back what --apply did.

    Exit status: 0 done, nothing wrong; 1 damage found; 2 wrong usage, no such path; 3 refused, nothing changed;
    4 could not go on; 130 interrupted; 141 stdout was closed by its reader.
    """
    note_slow_reader()


def main() -> None:
    """The console script: runs the command line and exits with its status."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run the command line `args`. Output goes to stdout and stderr; returns the exit status. Never raises."""
    remember_arguments(args)
    return guarded(lambda: _by_click(args), debug="--debug" in args)


def _by_click(args: list[str]) -> object:
    if COMPLETE in os.environ:
        from klogtool.cli.completion import answer  # of no use to other runs

        if answer(cli, os.environ[COMPLETE]):
            return None
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
    """Show the error in one line, and where to look in a second one."""
    if not args:
        note(*_overview())
        return
    note(f"klogtool: {_unabbreviated(wrong) or wrong.format_message()}")
    context = getattr(wrong, "ctx", None)  # not every error has a context
    named = " ".join(["klogtool", *[name for name in args[:1] if name in COMMANDS]])
    note(f"Try '{named if context is None else context.command_path} --help'.")


def _overview() -> Iterator[str]:
    """Yield what klogtool says if it is called without anything: one screen."""
    yield "Usage: klogtool COMMAND PATH... [OPTIONS]"
    yield from inspect.cleandoc(cli.help or "").replace("\b\n", "").partition("\n\nExit status")[0].splitlines()
    for heading, names in GROUPS.items():
        yield ""
        yield f"{heading}:"
        yield from textwrap.wrap("  ".join(names), 78, initial_indent="  ", subsequent_indent="  ")
    yield ""
    yield "klogtool --help says what each of them does, and klogtool help COMMAND what its options are."


def _unabbreviated(wrong: click.ClickException) -> str | None:
    """Return the message for an option that is an abbreviation; None for any other error."""
    if not isinstance(wrong, click.NoSuchOption) or wrong.ctx is None:
        return None
    names = [name for parameter in wrong.ctx.command.get_params(wrong.ctx) for name in parameter.opts]
    meant = [f"'{name}'" for name in names if name.startswith(wrong.option_name)]
    return f"No such option '{wrong.option_name}'. Did you mean {' or '.join(meant)}?" if meant else None


def guarded(work: Callable[[], object], *, debug: bool = False) -> int:
    """Return the exit status of the work: its result, or the status of its error. debug: show where an error came
    from."""
    hold_streams()
    try:
        status = _status_of(work, debug=debug)
        interrupts.end_work()
    except KeyboardInterrupt:  # a signal while the error was told, or on the way out; there is one at most
        interrupts.end_work()
        status = INTERRUPTED
    stdout_lost()  # an earlier error has been told already; Python is to tell no other
    return status


def _status_of(work: Callable[[], object], *, debug: bool) -> int:
    try:
        interrupts.begin_work()
        status = work()
        sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except RuntimeError as error:  # a signal while a class is made: Python before 3.12 makes this of it
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        raise
    except (ReaderGone, BrokenPipeError):
        forget_stdout()
        return READER_GONE
    except (KlogError, OSError, MemoryError, ImportError, SystemError) as error:
        return _failed(error, debug=debug)


def note_slow_reader() -> None:
    """Note, once, that the kernels are not built."""
    from klogtool import kernels  # imports much

    if not kernels.is_built():
        note("klogtool: kernels not built: the reference reader runs, about a hundred times slower")


def _failed(error: KlogError | OSError | MemoryError | ImportError | SystemError, *, debug: bool) -> int:
    if debug:
        note(*traceback_lines(error))
    if isinstance(error, KlogError):
        note(*error_lines(error))
        return status_of(error)
    if isinstance(error, MemoryError):
        note("klogtool: out of memory")
    elif isinstance(error, SystemError):  # an import that found no memory; else a fault of Python or of an extension
        note("klogtool: out of memory, or an internal error of Python (--debug shows where)")
    elif isinstance(error, ImportError):  # a part that is loaded late: it is broken, or does not fit into memory
        note(f"klogtool: cannot load a part of it: {error}")
    elif _is_of_stdout(error):
        note(f"klogtool: stdout{' is closed' if error.errno == errno.EBADF else ': ' + _reason(error)}")
    else:
        named = [os.fsdecode(error.filename)] if isinstance(error.filename, str | bytes) else []
        note(": ".join(["klogtool", *named, _reason(error)]))
    return COULD_NOT


def _is_of_stdout(error: OSError) -> bool:
    """Whether stdout took no more. What click writes, such as --help, is not named in its error."""
    if error.filename is None:
        return stdout_lost() or error.errno in (errno.ENOSPC, errno.EBADF)
    return bool(error.filename == STDOUT_NAME)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
