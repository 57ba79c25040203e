"""What klogtool adds to click: commands that are imported when they are used, and help with its options in groups."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from klogtool.cli.output import DEBUG
from klogtool.format.text import near_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PATHS = ("DIR", "FILE", "LOGDIR", "STORE")  # in --help, values of options that are paths
WHAT_A_BROKER_KNOWS = "What a broker would know"
# Headings of options in --help, after "Options".
HEADINGS = dict.fromkeys(
    (
        *("kafka", "config", "config_sections", "now_ms", "loaded_at_ms"),
        *("recovery_point", "log_start_offset", "high_watermark", "last_stop"),
    ),
    WHAT_A_BROKER_KNOWS,
)
# What people type who know other tools, and the commands that do it.
MEANINGS = {
    **dict.fromkeys(("repair", "fix", "mend", "heal", "restore"), ("doctor", "recover", "salvage")),
    **dict.fromkeys(("fsck", "check", "scan", "validate", "test"), ("verify", "doctor")),
    **dict.fromkeys(("audit", "patrol", "bit-rot", "bitrot"), ("scrub",)),
    **dict.fromkeys(("ls", "list", "info", "stat", "status", "describe"), ("doctor", "verify", "dump-log")),
    **dict.fromkeys(("diagnose", "health", "start", "plan"), ("doctor",)),
    **dict.fromkeys(("rescue", "extract"), ("salvage",)),
    **dict.fromkeys(("cat", "print", "show", "view", "less", "tail"), ("dump-log",)),
    **dict.fromkeys(("consume", "fetch"), ("read", "dump-log")),
    **dict.fromkeys(("find", "search", "seek"), ("lookup", "dump-log")),
    **dict.fromkeys(("groups", "lag", "consumer-groups"), ("offsets",)),
    **dict.fromkeys(("transactions", "producers"), ("txns",)),
    **dict.fromkeys(("compare", "cmp"), ("diff", "hash")),
    **dict.fromkeys(("checksum", "digest", "sum", "md5", "sha256"), ("hash",)),
    **dict.fromkeys(("reindex", "index"), ("rebuild-index",)),
    **dict.fromkeys(("delete", "rm", "remove"), ("delete-records", "retain")),
    **dict.fromkeys(("expire", "retention"), ("retain",)),
    **dict.fromkeys(("clean", "cleaner"), ("compact", "free")),
    **dict.fromkeys(("du", "df", "space"), ("free",)),
    **dict.fromkeys(("cut", "trim"), ("truncate", "delete-records")),
    **dict.fromkeys(("write", "produce", "insert"), ("append",)),
    **dict.fromkeys(("copy", "clone", "anonymize"), ("image", "transplant")),
    **dict.fromkeys(("voters", "controllers", "kraft", "metadata-quorum"), ("quorum",)),
    **dict.fromkeys(("revert", "rollback"), ("undo",)),
    **dict.fromkeys(("resume", "run"), ("apply",)),
    **dict.fromkeys(("create", "generate", "make"), ("build",)),
    "man": ("help",),
    "learn": ("tutorial",),
}


class Command(click.Command):
    """A command with --debug, whose --help shows groups of its options under headings of their own."""

    first_headings: Sequence[str] = ("Options",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "help": "Show tracebacks."}
        how["callback"] = lambda ctx, _, wanted: ctx.meta.update({DEBUG: wanted})
        self.params.append(click.Option(["--debug"], **how))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises BadParameter for an empty path, as an unset variable of a shell leaves it: it
        would mean the current folder."""
        rest = super().parse_args(ctx, args)
        for parameter in filter(_is_path, self.get_params(ctx)):
            value = ctx.params.get(parameter.name or "")
            if value == "" or (isinstance(value, tuple) and "" in value):
                raise click.BadParameter("it is empty.", ctx, parameter)
        return rest

    def heading_of(self, option: click.Option) -> str:
        """Return the heading under which --help shows an option."""
        return HEADINGS.get(option.name or "", "Options")

    def options_by_heading(self, ctx: click.Context) -> Mapping[str, Sequence[click.Option]]:
        """Return the options by heading, in the order of --help."""
        by_heading: dict[str, list[click.Option]] = {heading: [] for heading in self.first_headings}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                by_heading.setdefault(self.heading_of(parameter), []).append(parameter)
        return by_heading

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the options, heading by heading."""
        for heading, options in self.options_by_heading(ctx).items():
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _is_path(parameter: click.Parameter) -> bool:
    """Whether a value is a path: an argument, or an option whose value --help calls a file or a folder."""
    return isinstance(parameter, click.Argument) or parameter.metavar in PATHS


command = functools.partial(click.command, cls=Command)


class Commands(click.Group):
    """Commands, each in its own module, which is imported only when the command is used.

    modules: name: (module, its line in --help). headings: names by heading, in the order of --help.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, tuple[str, str]],
        headings: Mapping[str, Iterable[str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.modules, self.headings = modules, headings

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of --help."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None."""
        if cmd_name not in self.modules:
            return None
        command: click.Command = importlib.import_module(self.modules[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete a command without importing the others."""
        from click.shell_completion import CompletionItem

        lines = self.modules.items()
        names = [CompletionItem(name, help=line) for name, (_, line) in lines if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the commands, heading by heading, without importing them."""
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.modules[name][1]) for name in names])


def meant_by(name: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the commands that somebody may mean by a word that is no command: by its meaning, else by its letters."""
    yield from MEANINGS.get(name.lower(), ()) or near_names(name, known, most=1)
