"""klogtool completion: scripts for shells, and what they ask for.

click has the scripts and the rules. What is added here: a word that names files is completed by the shell, and only the
command in question is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from klogtool.cli import commands
from klogtool.errors import KlogError

VARIABLE = "_KLOGTOOL_COMPLETE"  # the scripts set it when they ask
NAME = "klogtool"
FILES, FOLDERS = {"FILE", "PATH", "PLAN", "F", "A", "B"}, {"DIR", "LOGDIR", "PARTITION"}


class _Path(click.types.StringParamType):
    """Text that names a file or a folder."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Leave it to the shell, which knows how to quote names."""
        return [CompletionItem(incomplete, type=self.kind)]


class _Words(click.types.StringParamType):
    """Text that may be one of these words."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the words that begin so."""
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class _Bash(BashComplete):
    """bash splits `--format=json` into three words."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one at the cursor, and that one."""
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], incomplete

    def source(self) -> str:
        """Return the script, without starting a bash to ask for its version."""
        return ShellComplete.source(self)


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}


@commands.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print a script that completes klogtool's commands, options and file names in a shell.

    \b
    bash (4.4 or later), in ~/.bashrc:   eval "$(klogtool completion bash)"
    zsh, in ~/.zshrc:                    eval "$(klogtool completion zsh)"
    fish:   klogtool completion fish > ~/.config/fish/completions/klogtool.fish

    \b
    Examples:
      klogtool completion bash
      klogtool completion fish

    Exit status: 0 done; 2 wrong usage.
    """
    assert ctx.parent is not None  # the group of this command
    created = SHELLS[shell](ctx.parent.command, {}, NAME, VARIABLE)
    click.echo(created.source().strip())


def answer(group: click.Group, instruction: str) -> bool:
    """Print what a script asks for by its variable, as `bash_complete`. False if that is no such question."""
    shell, _, what = instruction.partition("_")
    if what != "complete" or shell not in SHELLS or "COMP_WORDS" not in os.environ:
        return False
    asking = SHELLS[shell](group, {}, NAME, VARIABLE)
    words, _ = asking.get_completion_args()
    try:
        # Let the parameters of the command in these words know what they name.
        command: click.Command = group
        for word in words:
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word) or command
        for parameter in command.params:
            parameter.type = _type_of(command, parameter, group) or parameter.type
        click.echo(asking.complete())
    except (click.ClickException, KlogError):  # a wrong word before the cursor: there is nothing to propose
        pass
    return True


def _type_of(command: click.Command, parameter: click.Parameter, group: click.Group) -> click.ParamType[Any] | None:
    if command.name == "explain" and isinstance(parameter, click.Argument):
        from klogtool.verify.findings import KINDS

        return _Words(KINDS)
    if command.name == "help" and isinstance(parameter, click.Argument):
        return _Words(group.list_commands(click.Context(group)))
    words = set(re.split(r"[][ .,|]+", parameter.metavar or ""))
    if isinstance(parameter.type, click.Path | click.types.StringParamType | click.types.FuncParamType):
        return _Path("dir") if words & FOLDERS else _Path("file") if words & FILES else None
    return None
