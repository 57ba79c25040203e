"""klogtool undo.

Entries of journals are named by id, by a path that they are about, or as the newest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, REFUSED
from klogtool.cli.writing import command_on, note_if_interrupted
from klogtool.disk.journal import Entry, find_journals, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import check_undo, discard, undo
from klogtool.errors import KlogError, Refused
from klogtool.escape import quoted
from klogtool.render.plans import table_text
from klogtool.render.words import count_text

FINISHED = (Progress.DONE, Progress.UNDONE)


@commands.command("undo")
@click.argument("arguments", nargs=-1, metavar="[ID] [PATH]")
@click.option("--list", "listing", is_flag=True, help="List the runs that can be undone.")
@click.option("--discard", "discarding", is_flag=True, help="Give up undo for a run, and free the space that it holds.")
@click.option("--all", "all_of_them", is_flag=True, help="With --discard: all finished runs.")
@click.option("--journal", type=click.Path(), metavar="DIR", help="The journal, if it is not beside PATH.")
@options.screen()
def command(
    arguments: tuple[str, ...], listing: bool, discarding: bool, all_of_them: bool, journal: str | None, screen: Screen
) -> int:
    """Take back what --apply did: every byte, name, time, owner and mode.

    ID is the id that --apply printed. Without an ID, the newest run is undone, in all log dirs that it changed.
    klogtool looks for the journal beside PATH (a log dir or a partition dir), or beside the current folder. A run that
    was interrupted can be undone; so can an undo that was interrupted. Undo is refused if somebody has written to the
    changed files since then.

    --discard frees the space that a run holds. Without an ID, it lists the finished runs and discards none.

    \b
    Examples:
      klogtool undo --list
      klogtool undo 5f2c81d07b9e

    Exit status: 0 done; 2 wrong usage, no such run; 3 refused, nothing changed; 4 could not go on: run it again.
    """
    if listing and discarding:
        raise click.UsageError("Give --list or --discard, not both.")
    if all_of_them and not discarding:
        raise click.UsageError("--all needs --discard.")
    entries = find_entries(arguments, journal)
    show = Show("undo", screen)
    if listing:
        _list(show, entries)
        return DONE
    with show.refusals():
        if all_of_them:
            _discard_all(show, entries)
        elif discarding and not any(map(ID.fullmatch, arguments)):
            _offer(show, entries, arguments, journal)
        elif discarding:
            _discard(show, only_one(entries, "discard", arguments, journal))
        else:
            newest = entries[-1] if entries else only_one(entries, "undo", arguments, journal)
            _undo(show, [newest] if any(map(ID.fullmatch, arguments)) else newest.whole_run())
    return REFUSED if show.refused else DONE


def _undo(show: Show, entries: Sequence[Entry]) -> None:
    """Take back all of these, or none: each is looked at before the first is changed."""
    for entry in entries if len(entries) > 1 else ():
        check_undo(entry)
    left = list(entries)

    def unfinished() -> str:
        again = "; then: ".join(command_on("undo", entry) for entry in reversed(left))
        return f"undo is not finished; run it again: {again}"

    while left:
        run = run_of(entry := left[-1])
        with note_if_interrupted(unfinished):
            undo(entry)
        show.row(replace(run, type="undone", state="undone"))
        show.line(f"Undone: {run.words()}")
        left.pop()


def _discard(show: Show, entry: Entry) -> None:
    run = run_of(entry)
    with note_if_interrupted(lambda: f"not everything is freed; run it again: {command_on('undo --discard', entry)}"):
        discard(entry)
    show.row(replace(run, type="discarded", state="discarded"))
    show.line(f"Discarded: {run.words()}; {count_text(run.bytes_held, 'byte')} freed")


def _offer(show: Show, entries: Sequence[Entry], arguments: Sequence[str], journal: str | None) -> None:
    """Show what could be discarded, and how. Raises Refused, because nothing was named."""
    finished = [entry for entry in entries if entry.progress() in FINISHED]
    if not finished:
        only_one([], "discard", arguments, journal)
    _list(show, finished)
    held = sum(entry.held_bytes() for entry in finished)
    where = [*map(quoted, arguments), *(["--journal", quoted(journal)] if journal is not None else [])]
    how = " ".join(["klogtool undo --discard --all", *where])
    raise Refused(CommandRefusal.WHICH_TO_DISCARD(runs=len(finished), bytes=held), cure=how)


def _discard_all(show: Show, entries: Sequence[Entry]) -> None:
    """Discard all finished runs; interrupted runs must be finished or undone."""
    finished = [entry for entry in entries if entry.progress() in FINISHED]
    for entry in finished:
        _discard(show, entry)
    if not finished:
        show.text("There is no finished run here. --journal DIR names another journal.")
    for entry in entries:
        if entry not in finished:
            show.out.note(f"klogtool: {entry.id} stays: {entry.progress().value}")


class JournaledRun(Struct, frozen=True, kw_only=True):
    """A run in a journal, as JSON has it. command, path and time are None if it was killed too early."""

    type: str = "run"
    id: str
    when_ms: int | None
    command: str | None
    path: str | None
    journal: str
    bytes_held: int
    state: str

    def words(self) -> str:
        """Return which run it is."""
        return "   ".join(filter(None, [self.id, self.command, self.path]))

    def cells(self) -> tuple[str, ...]:
        """Return the run as a line of a table."""
        try:
            when = None if self.when_ms is None else datetime.fromtimestamp(self.when_ms / 1000, UTC)
        except (ValueError, OverflowError):  # somebody changed it to a time outside the calendar
            when = None
        shown = "" if when is None else when.isoformat("T", "seconds")
        return self.id, shown, self.command or "", self.path or "", f"{self.bytes_held:,}", self.state


def run_of(entry: Entry) -> JournaledRun:
    """Return what a journal says of a run."""
    return JournaledRun(
        id=entry.id,
        when_ms=when_ms(entry),
        command=None if entry.is_torn() else entry.head().command,
        path=None if entry.is_torn() else _path_of(entry),
        journal=entry.journal,
        bytes_held=entry.held_bytes(),
        state=entry.progress().value,
    )


def _list(show: Show, entries: Sequence[Entry]) -> None:
    runs = list(map(run_of, entries))
    show.rows(runs)
    if not runs:
        show.text("There is nothing to undo here. --journal DIR names another journal.")
        return
    head = ("id", "when", "command", "path", "bytes held", "state")
    show.text(table_text([head, *(run.cells() for run in runs)]))


def _path_of(entry: Entry) -> str:
    """Return the path that the command was given; the log dir if there were several, or if it has moved."""
    then = entry.belonging()
    try:
        log_dir = then.find_log_dir(entry.journal)
    except Refused:
        log_dir = then.log_dir
    paths = entry.head().paths
    return paths[0] if len(paths) == 1 and log_dir == then.log_dir else log_dir


ID = re.compile(r"[0-9a-f]{12}(-[1-9][0-9]*)?")


def find_entries(arguments: Sequence[str], journal: str | None) -> list[Entry]:
    """Return the entries with the given ids, else all; oldest first. They are searched in the given journal, else in
    those beside the given paths, else beside the current folder. Raises KlogError for an unknown id."""
    ids = [word for word in arguments if ID.fullmatch(word)]
    paths = _paths_in(arguments)
    for path in paths:
        if not os.path.isdir(path):
            raise KlogError(CommandRefusal.NO_FOLDER_NO_RUN(), path=path)
    entries = sorted(_look_in(paths, journal), key=lambda entry: (when_ms(entry) or 0, entry.id))
    for wanted in ids:
        if not any(_is_called(entry, wanted) for entry in entries):
            raise KlogError(CommandRefusal.UNKNOWN_RUN(where=_where(arguments, journal)), path=wanted)
    return [entry for entry in entries if not ids or any(_is_called(entry, wanted) for wanted in ids)]


def _paths_in(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if not ID.fullmatch(word)]


def _where(arguments: Sequence[str], journal: str | None) -> str:
    """Return where was searched, in words."""
    return journal or " ".join(_paths_in(arguments)) or os.getcwd()


def only_one(entries: Sequence[Entry], what: str, arguments: Sequence[str], journal: str | None) -> Entry:
    """Return the only possible entry. arguments, journal: where was searched. Raises Refused if there are several,
    KlogError if there is none."""
    if not entries:
        raise KlogError(CommandRefusal.NO_RUN(what=what), path=_where(arguments, journal))
    if len(entries) > 1:
        raise Refused(CommandRefusal.SEVERAL_RUNS(ids=" ".join(entry.id for entry in entries)))
    return entries[0]


def _look_in(paths: Sequence[str], journal: str | None) -> Iterable[Entry]:
    if journal is not None:
        return list(walk_entries(journal))
    journals = dict.fromkeys(place for path in paths or [os.curdir] for place in find_journals(path))
    return [entry for place in journals for entry in walk_entries(place)]


def _is_called(entry: Entry, wanted: str) -> bool:
    return entry.id == wanted or entry.id.startswith(wanted + "-")


def when_ms(entry: Entry) -> int | None:
    """Return when the run began; None if it was killed before that was recorded."""
    return None if entry.is_torn() else entry.head().when_ms
