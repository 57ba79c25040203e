"""Notes that a broker or another process uses what is being read."""

from __future__ import annotations

from collections.abc import Sequence

from klogtool.cli.output import note
from klogtool.log.holder import walk_held

MOST_PATHS = 1000  # limit: of many paths that a shell expanded, the first ones are enough


def note_if_in_use(paths: Sequence[str]) -> None:
    """Write a line on stderr for each lock that is held around the paths."""
    held = {lock: holder for path in paths[:MOST_PATHS] for lock, holder in walk_held(path)}
    for lock, holder in held.items():
        note(f"klogtool: {lock}: {holder} holds it, perhaps a broker: the files may change while klogtool reads them")
