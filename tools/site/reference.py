"""Pages about all commands, out of click's own declarations: what each does, its arguments, its options."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterator

import click

from klogtool.cli.main import cli


def pages() -> dict[str, str]:
    """The Markdown of each page by its name, such as `fleet-plan.md`."""
    with click.Context(cli, info_name="klogtool") as root:
        found = dict(commands(cli, root))
    contents = [
        f"| [`{name}`]({file_name(name)}) | {prose(command.get_short_help_str(200))} |"
        for name, command in found.items()
    ]
    first = "# All commands\n\nWhat `klogtool COMMAND --help` prints, command by command.\n"
    first += "\n| command | what it does |\n|---|---|\n"
    return {"index.md": first + "\n".join(contents) + "\n"} | {
        file_name(name): page(name, command) for name, command in found.items()
    }


def commands(group: click.Group, context: click.Context, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command with its name, such as `fleet plan`; those of a group after it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield prefix + name, command
        if isinstance(command, click.Group):
            with click.Context(command, info_name=name, parent=context) as inner:
                yield from commands(command, inner, f"{prefix}{name} ")


def file_name(name: str) -> str:
    """The page of a command."""
    return name.replace(" ", "-") + ".md"


def page(name: str, command: click.Command) -> str:
    """The page of one command."""
    context = click.Context(command, info_name=f"klogtool {name}")
    with context:
        usage = " ".join([f"klogtool {name}", *command.collect_usage_pieces(context)])
        records = [found for each in command.get_params(context) if (found := each.get_help_record(context))]
    rows = "".join(f"| {code(options)} | {prose(text)} |\n" for options, text in records)
    lines = [f"# klogtool {name}", f"```text\n{usage}\n```", described(command.help or "")]
    if not isinstance(command, click.Group):
        lines.append(f"With examples: [{name.split()[0]}](../{of_page(name)}).")
    return "\n\n".join([*lines, f"| option | |\n|---|---|\n{rows}"])


def of_page(name: str) -> str:
    """The page of docs/ that is about a command."""
    return {"fleet metadata": "fleet-metadata.md"}.get(name) or (
        "spark-commands.md" if name.startswith("spark ") else f"{name.split()[0]}.md"
    )


def described(text: str) -> str:
    """The help text; what has lines of its own there has them here, too."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        "```text\n" + part.removeprefix("\b\n") + "\n```"
        if part.startswith("\b\n")
        else prose(" ".join(part.split("\n")))
        for part in parts
    )


def code(text: str) -> str:
    """As code in a cell of a table."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def prose(text: str) -> str:
    """As prose: no character of it is Markdown."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return "".join(f"&#{ord(each)};" if each in "|*_[]`#" else each for each in escaped)
