"""Pages about all commands, out of click's own declarations: what each does, its arguments, its options."""

from __future__ import annotations

import html
import inspect
import pathlib
import sys

import click

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from make_man_pages import contexts


def pages() -> dict[str, str]:
    """The Markdown of each page by its name, such as `fleet-plan.md`."""
    found = {name_of(context): context for context in contexts() if context.parent is not None}
    contents = [
        f"| [`{name}`]({file_name(name)}) | {prose(context.command.get_short_help_str(200))} |"
        for name, context in found.items()
    ]
    first = "# All commands\n\nWhat `klogtool COMMAND --help` prints, command by command.\n"
    first += "\n| command | what it does |\n|---|---|\n"
    return {"index.md": first + "\n".join(contents) + "\n"} | {
        file_name(name): page(name, context) for name, context in found.items()
    }


def name_of(context: click.Context) -> str:
    """The name of a command, such as `fleet plan`."""
    return context.command_path.partition(" ")[2]


def file_name(name: str) -> str:
    """The page of a command."""
    return name.replace(" ", "-") + ".md"


def page(name: str, context: click.Context) -> str:
    """The page of one command."""
    command = context.command
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
