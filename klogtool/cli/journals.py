"""Finds entries of journals as the command line names them: by id, by a path that they are about, or the newest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from klogtool.disk.journal import Entry, find_journals, walk_entries
from klogtool.errors import KlogError, Refused

ID = re.compile(r"[0-9a-f]{12}(-[1-9][0-9]*)?")


def find_entries(given: Sequence[str], journal: str | None) -> list[Entry]:
    """Return the entries with the given ids, else all; oldest first. They are searched in the given journal, else in
    those beside the given paths, else beside the current folder. Raises KlogError for an unknown id."""
    ids = [word for word in given if ID.fullmatch(word)]
    paths = _paths_in(given)
    for path in paths:
        if not os.path.isdir(path):
            raise KlogError("neither a folder nor the id of a run", path=path)
    entries = sorted(_look_in(paths, journal), key=lambda entry: (when_ms(entry) or 0, entry.id))
    for wanted in ids:
        if not any(_is_called(entry, wanted) for entry in entries):
            beside = f"no run with that id is known beside {_where(given, journal)}"
            raise KlogError(f"{beside}; give its folder with --journal", path=wanted)
    return [entry for entry in entries if not ids or any(_is_called(entry, wanted) for wanted in ids)]


def _paths_in(given: Sequence[str]) -> list[str]:
    return [word for word in given if not ID.fullmatch(word)]


def _where(given: Sequence[str], journal: str | None) -> str:
    """Return where was searched, in words."""
    return journal or " ".join(_paths_in(given)) or os.getcwd()


def only_one(entries: Sequence[Entry], what: str, given: Sequence[str], journal: str | None) -> Entry:
    """Return the only possible entry. given, journal: where was searched. Raises Refused if there are several,
    KlogError if there is none."""
    if not entries:
        where = _where(given, journal)
        raise KlogError(f"there is nothing to {what} here; --journal DIR names another journal", path=where)
    if len(entries) > 1:
        raise Refused(f"several runs match, give one id: {' '.join(entry.id for entry in entries)}")
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
