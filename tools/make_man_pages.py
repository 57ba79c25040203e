#!/usr/bin/env python3
"""`make_man_pages.py FOLDER`: write man pages and completion scripts below it, from the commands as click has them.

One page for klogtool, and one for each command: its help, in the sections that a man page has. tools/make_dist.sh
writes them to share/ before it packs the source archive; a wheel brings them to where `man` and shells look for them
(pyproject.toml).
"""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator

import click

from klogtool.cli.commands import Command, Commands
from klogtool.cli.completion import NAME, SHELLS, VARIABLE
from klogtool.cli.main import COMMANDS, cli
from klogtool.cli.version import VERSION

DATE = "2026-11-24"  # of the version; a release changes it
MAN = "man/man1"
SCRIPTS = {
    "bash": "bash-completion/completions/klogtool",
    "zsh": "zsh/site-functions/_klogtool",
    "fish": "fish/vendor_completions.d/klogtool.fish",
}
ABOUT_KLOGTOOL = "the fsck of Apache Kafka: read, explain and repair log dirs on disk"
BLOCK = "\b\n"  # click: the paragraph after it keeps its lines
EXAMPLES = BLOCK + "Examples:"
GAP = re.compile(r"\s{3,}")
WIDTH = 80  # of lines of the pages' source
STATUS = "Exit status: "
# What groff would turn into typographic characters, which nobody can paste into a shell.
GROFF = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"})


def files() -> dict[str, str]:
    """Return all files by their path in a share folder."""
    made = {f"{MAN}/{name_of(ctx)}.1": page(ctx) for ctx in contexts()}
    scripts = {SCRIPTS[shell]: kind(cli, {}, NAME, VARIABLE).source().strip() + "\n" for shell, kind in SHELLS.items()}
    return {**made, **scripts}


def contexts() -> Iterator[click.Context]:
    """Yield the context of klogtool and of each command, as a run has it: click keeps what the first one asks for."""
    return walk(click.Context(cli, info_name=NAME, **cli.context_settings))


def walk(ctx: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command, and those of the commands below it."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            found = ctx.command.get_command(ctx, name)
            assert found is not None
            yield from walk(click.Context(found, info_name=name, parent=ctx, **found.context_settings))


def name_of(ctx: click.Context) -> str:
    """Return the name of a page: klogtool-spark-verify."""
    return ctx.command_path.replace(" ", "-")


def page(ctx: click.Context) -> str:
    """Return the page of a command."""
    paragraphs = inspect.cleandoc(ctx.command.help or "").split("\n\n")
    name = text_of(name_of(ctx))
    lines = [f'.TH {name_of(ctx).upper()} 1 {DATE} "{NAME} {VERSION}" "{NAME}"', ".nh", ".ad l"]
    lines += [".SH NAME", *wrapped(f"{name} \\- {text_of(about(ctx))}")]
    lines += [".SH SYNOPSIS", f"\\fB{text_of(ctx.command_path)}\\fR {text_of(' '.join(usage(ctx)))}"]
    lines += [".SH DESCRIPTION", *description([text for text in paragraphs if not text.startswith(STATUS)])]
    lines += [*commands(ctx), ".SH OPTIONS", *options(ctx)]
    for text in paragraphs:
        if text.startswith(STATUS):
            lines += [".SH EXIT STATUS", *statuses(text.removeprefix(STATUS))]
    lines += [".SH SEE ALSO", *see_also(ctx)]
    return "".join(f"{line}\n" for line in lines)


def about(ctx: click.Context) -> str:
    """Return the command in one line, as --help lists it."""
    if ctx.parent is None:
        return ABOUT_KLOGTOOL
    assert isinstance(ctx.parent.command, Commands)
    return ctx.parent.command.modules[ctx.info_name or ""][1].rstrip(".")


def usage(ctx: click.Context) -> list[str]:
    """Return what follows the name in the usage."""
    return ctx.command.collect_usage_pieces(ctx)


def text_of(text: str) -> str:
    """Return text in roff: what is typed can be copied."""
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text.translate(GROFF))


def wrapped(roff: str) -> list[str]:
    """Return text in roff as lines, none of which is a request."""
    lines = textwrap.wrap(roff, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{line}" if line.startswith(".") else line for line in lines]


def sentences(text: str) -> Iterator[str]:
    """Yield a paragraph. Each sentence begins a line, as roff wants it."""
    for sentence in re.split(r"(?<=\.)\s+(?=[A-Z0-9[])", " ".join(text.split())):
        yield from wrapped(text_of(sentence))


def description(paragraphs: list[str]) -> Iterator[str]:
    """Yield paragraphs. In those after the mark of click, a line with a gap in it is something and what it does."""
    for number, text in enumerate(paragraphs):
        if number and not is_list(text):
            yield ".PP"
        if not text.startswith(BLOCK):
            yield from sentences(text)
            continue
        if text.startswith(EXAMPLES):
            yield from (".nf", *map(text_of, text.removeprefix(BLOCK).split("\n")), ".fi")
            continue
        for line in text.removeprefix(BLOCK).split("\n"):
            what, *told = GAP.split(line.strip())
            if told:
                yield from (".TP", f"\\fB{text_of(what)}\\fR")
            yield from sentences(told[0] if told else what)


def is_list(text: str) -> bool:
    """Whether a paragraph begins with something and what it does."""
    return text.startswith(BLOCK) and GAP.search(text.split("\n")[1].strip()) is not None


def commands(ctx: click.Context) -> Iterator[str]:
    """Yield the commands of a group, each with the line that --help has for it."""
    if not isinstance(ctx.command, Commands):
        return
    yield ".SH COMMANDS"
    for heading, names in ctx.command.headings.items():
        if heading != "Commands":
            yield f".SS {text_of(heading)}"
        for name in names:
            line = ctx.command.modules[name][1]
            yield from (".TP", f"\\fB{text_of(f'{name_of(ctx)}-{name}')}\\fR(1)", *sentences(line))


def options(ctx: click.Context) -> Iterator[str]:
    """Yield the options, those with a heading of their own below it."""
    command = ctx.command
    groups = command.options_by_heading(ctx) if isinstance(command, Command) else {"Options": command.get_params(ctx)}
    for heading, parameters in groups.items():
        if heading != "Options" and parameters:
            yield f".SS {text_of(heading)}"
        for parameter in parameters:
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                yield from (".TP", marked(record[0]), *sentences(record[1]))


def marked(option: str) -> str:
    """Return the names of an option in bold, and what follows them in italics: `-f, --format FORM`."""
    found = [f"\\f{'B' if word.startswith('-') else 'I'}{text_of(word)}\\fR" for word in option.split()]
    return " ".join(found).replace(",\\fR", "\\fR,").replace("|", "|\\:")  # a line may end after a choice


def statuses(text: str) -> Iterator[str]:
    """Yield the exit statuses, each with what it means."""
    for one in re.split(r";\s+(?=\d)", " ".join(text.split())):
        number, _, meaning = one.partition(" ")
        yield from (".TP", f"\\fB{text_of(number)}\\fR", *sentences(meaning))


def see_also(ctx: click.Context) -> Iterator[str]:
    """Yield the pages of the group, and of other commands that the help names."""
    names = set() if ctx.parent is None else {name_of(ctx.parent), NAME}
    for word in re.findall(rf"\b{NAME} ([a-z-]+)", ctx.command.help or ""):
        if word in COMMANDS:
            names.add(f"{NAME}-{word}")
    told = [f"\\fB{text_of(name)}\\fR(1)" for name in sorted(names - {name_of(ctx)})]
    yield from (f"{name}," for name in told[:-1])
    yield told[-1]


def main(folder: str) -> None:
    """Write all files."""
    for path, text in files().items():
        place = pathlib.Path(folder, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
