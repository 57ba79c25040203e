"""Patterns of paths, as in the exclusions of a settings file.

`*`, `?` and `[...]` stand for characters of one name, `**` for any number of folders. A pattern without a slash is
compared with each name on the way. A pattern that matches a folder matches everything below it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from klogtool.verify.fingerprints import real_path

MOST_CHARACTERS = 1000
ANY_FOLDERS = "**"


class PathPattern(Struct, frozen=True):
    """A pattern, as typed. folder: the real path to which it is relative."""

    text: str
    folder: str

    def matches(self, path: str) -> bool:
        """Return whether it matches the path, or a folder above it."""
        place, inside = real_path(path), self.folder.rstrip(os.sep) + os.sep
        if self.text.startswith(os.sep):
            return _matches(_parts(self.text), _parts(place))
        if not place.startswith(inside):
            begins_above = not self._is_one_name and self.text.split(os.sep, 1)[0] == os.pardir
            above = os.path.normpath(os.path.join(self.folder, self.text))
            return begins_above and _matches(_parts(above), _parts(place))
        names = _parts(place.removeprefix(inside))
        if self._is_one_name:
            return any(fnmatchcase(name, self.text.rstrip(os.sep)) for name in names)
        return _matches(_parts(os.path.normpath(self.text)), names)

    @property
    def _is_one_name(self) -> bool:
        return os.sep not in self.text.rstrip(os.sep) and self.text.rstrip(os.sep) not in (ANY_FOLDERS, os.pardir)


def _parts(path: str) -> list[str]:
    return [part for part in path.split(os.sep) if part not in ("", os.curdir)]


def _matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the patterns match the names, or the first few of them. Takes patterns times names steps."""
    reached = {0}  # how many patterns are used up
    for name in names:
        reached = _past_any(reached, patterns)
        if len(patterns) in reached:
            return True
        fitting = (at for at in reached if patterns[at] == ANY_FOLDERS or fnmatchcase(name, patterns[at]))
        reached = {at + (patterns[at] != ANY_FOLDERS) for at in fitting}
    return len(patterns) in _past_any(reached, patterns)


def _past_any(reached: set[int], patterns: Sequence[str]) -> set[int]:
    """Add what is reached if a `**` stands for no folder."""
    places = set(reached)
    for at in range(len(patterns)):
        if at in places and patterns[at] == ANY_FOLDERS:
            places.add(at + 1)
    return places
