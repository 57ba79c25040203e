"""A note where somebody works with what is being read."""

from __future__ import annotations

from collections.abc import Sequence

from klogtool.cli.output import note
from klogtool.log.holder import walk_held

MOST_PATHS = 1000  # of many that were typed by a shell, the first lie where the others do


def note_if_in_use(paths: Sequence[str]) -> None:
    """Each lock that is held around the paths, in a line on stderr."""
    held = {lock: holder for path in paths[:MOST_PATHS] for lock, holder in walk_held(path)}
    for lock, holder in held.items():
        note(f"klogtool: {lock}: {holder} holds it, perhaps a broker: the files may change while klogtool reads them")
