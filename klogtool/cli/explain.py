"""klogtool explain."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from klogtool.causes import Reason
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandCure, CommandRefusal
from klogtool.cli.output import note
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE
from klogtool.doctor.messages import MOST_CHARACTERS, Recognised, named, recognise, similar
from klogtool.doctor.situation import situations
from klogtool.errors import KlogError
from klogtool.escape import escaped
from klogtool.render.explained import (
    Explanation,
    explain,
    explanation_text,
    list_text,
    messages_text,
    recognised_row,
    recognised_text,
)
from klogtool.verify.findings import KINDS

COMMAND = "explain"
STDIN = "-"
MOST_SHOWN = 60  # characters of a text that nobody knows
_ID = re.compile(r"[\w-]+")

Explained = Explanation | Recognised


@commands.command(COMMAND)
@click.argument("words", nargs=-1, metavar="[ID|MESSAGE|-]...")
@click.option("--messages", is_flag=True, help="List the messages of brokers that klogtool knows.")
@options.screen()
def command(words: tuple[str, ...], messages: bool, screen: Screen) -> int:
    """Explain a finding of verify, or a message of a broker's log: what it means, what a broker does, and what to do.

    ID is the id of a finding, for example batch-crc. Without arguments, all ids are listed with a short meaning.

    MESSAGE is text of a broker's log, in quotes: a line, a part of a line, or several lines with a stack trace. `-`
    reads it from stdin. klogtool looks at no disk: paths are those of the text.

    \b
    Examples:
      klogtool explain batch-crc
      klogtool explain "Found directory /data/kafka-1/x, 'x' is not in the form of topic-partition"

    Exit status: 0 done; 2 no finding has this id, or no known message is in the text.
    """
    explained = [one for query in _queries(words, quiet=screen.quiet) for one in _explain(query)]
    show = Show(COMMAND, screen)
    if show.json:
        for one in explained or (map(named, situations()) if messages else map(explain, KINDS)):
            show.row(one if isinstance(one, Explanation) else recognised_row(one))
    else:
        every = messages_text(situations().values()) if messages else list_text()
        texts = (explanation_text(one) if isinstance(one, Explanation) else recognised_text([one]) for one in explained)
        show.text("\n\n".join(texts) or every)
    return DONE


def _queries(words: Sequence[str], *, quiet: bool) -> list[str]:
    """Return the texts to explain. Several words without quotes are one message, if none of them is known."""
    if len(words) > 1 and all(map(_ID.fullmatch, words)) and {STDIN, *KINDS, *situations()}.isdisjoint(words):
        return [" ".join(words)]
    return [_read_stdin(quiet=quiet) if word == STDIN else word for word in words]


def _read_stdin(*, quiet: bool) -> str:
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_CHARACTERS + 1)
    if len(data) > MOST_CHARACTERS and not quiet:
        note(f"klogtool: only the first {MOST_CHARACTERS:,} bytes are looked at")
    return data[:MOST_CHARACTERS].decode("utf-8", "surrogateescape")


def _explain(query: str) -> Sequence[Explained]:
    if query in KINDS:
        return [explain(query)]
    if query in situations():
        return [named(query)]
    results = recognise(query)
    if not results and _ID.fullmatch(query):
        return [explain(query, cure=_near(query))]  # which says that there is no such id
    if not results:
        text = escaped(" ".join(query[: MOST_SHOWN * 4].split()))
        text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
        raise KlogError(CommandRefusal.NO_MESSAGE(text=text), cure=_from_file(query) or _near(query))
    return results


def _from_file(query: str) -> Reason | None:
    """Return how to explain a file, where somebody gave its path in place of its text."""
    return CommandCure.FROM_FILE(path=query) if os.path.isfile(query) else None


def _near(text: str) -> str | None:
    names = " ".join(situation.name for situation in similar(text))
    return str(CommandCure.SIMILAR(names=names)) if names else None
