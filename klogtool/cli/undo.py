"""klogtool undo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.journals import find_entries, only_one, when_ms
from klogtool.cli.status import DONE, REFUSED
from klogtool.cli.writing import Show, output_format
from klogtool.disk.journal import Entry
from klogtool.disk.writer import discard, undo
from klogtool.render.plans import table_text


@click.command("undo")
@click.argument("given", nargs=-1, metavar="[ID] [PATH]")
@click.option("--list", "listing", is_flag=True, help="Show what can be undone.")
@click.option("--discard", "discarding", is_flag=True, help="Give it up: frees the room that it takes.")
@click.option("--journal", type=click.Path(), metavar="DIR", help="The journal, if it is not beside PATH.")
@output_format
@options.quiet
@options.debug
def command(given: tuple[str, ...], listing: bool, discarding: bool, journal: str | None, **more: Any) -> int:
    """Take back what --apply did: every byte, name, time, owner and mode.

    ID is what --apply printed; without one it is the newest run. The journal is looked for beside PATH (a log dir or
    partition dir), or beside the folder you are in. A run that was cut short, an undo as well, can be taken back. It is
    refused where somebody has written since to what the run changed.

    Exit status: 0 done; 2 wrong usage, no such run; 3 refused, nothing changed; 4 could not go on: run it again.
    """
    if listing and discarding:
        raise click.UsageError("--list or --discard, not both.")
    entries = find_entries(given, journal)
    show = Show("undo", more)
    if listing:
        _list(show, entries)
        return DONE
    with show.refusals():
        if discarding:
            _discard(show, only_one(entries, "discard"))
        else:
            _undo(show, entries[-1] if entries else only_one(entries, "undo"))
    return REFUSED if show.refused else DONE


def _undo(show: Show, entry: Entry) -> None:
    row = entry_row(entry)
    undo(entry)
    show.row({**row, "type": "undone", "state": "undone"})
    show.text(f"Undone: {_told(row)}")


def _discard(show: Show, entry: Entry) -> None:
    row = entry_row(entry)
    discard(entry)
    show.row({**row, "type": "discarded", "state": "discarded"})
    show.text(f"Discarded: {_told(row)}; {row['bytes_held']:,} bytes freed")


def _told(row: dict[str, Any]) -> str:
    return "   ".join(filter(None, [row["id"], row["command"], row["path"]]))


def _list(show: Show, entries: Sequence[Entry]) -> None:
    rows = [entry_row(entry) for entry in entries]
    for row in rows:
        show.row(row)
    if not rows:
        show.text("Nothing can be undone here; --journal DIR looks elsewhere.")
        return
    head = ("id", "when", "command", "path", "bytes held", "state")
    cells = (_cells(row) for row in rows)
    show.text(table_text([head, *cells]))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    when = (
        "" if row["when_ms"] is None else datetime.fromtimestamp(row["when_ms"] / 1000, UTC).isoformat("T", "seconds")
    )
    return row["id"], when, row["command"] or "", row["path"] or "", f"{row['bytes_held']:,}", row["state"]


def entry_row(entry: Entry) -> dict[str, Any]:
    """What there is to say of a run, in JSON's types; command, path and time are None if it was killed too early."""
    row: dict[str, Any] = {"type": "run", "id": entry.id, "when_ms": when_ms(entry), "command": None, "path": None}
    if not entry.is_torn():
        plans = entry.plans()
        row["command"] = str(entry.head().get("command"))
        row["path"] = plans[0].path if len(plans) == 1 else entry.log_dir()
    state = entry.progress().value
    return {**row, "journal": entry.journal, "bytes_held": entry.held_bytes(), "state": state}
