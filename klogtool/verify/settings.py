"""Settings of `klogtool verify` from a file: `klogtool.toml`, or the table `[tool.klogtool]` of `pyproject.toml`.

A file that is wrong in any way is an error which names the file, the key and the reason. Nothing is ignored.

Patterns of paths in exclusions: `*`, `?` and `[...]` stand for characters of one name, `**` for any number of folders.
A pattern without a slash is compared with each name on the way. A pattern that matches a folder matches everything
below it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from klogtool.broker.releases import Release, find_release
from klogtool.errors import KlogError
from klogtool.format.text import near_names
from klogtool.log.file import read_whole
from klogtool.verify.findings import KINDS, Kind, Severity
from klogtool.verify.fingerprints import real_path

OWN_FILE, SHARED_FILE = "klogtool.toml", "pyproject.toml"
TABLE = ("tool", "klogtool")
Found = TypeVar("Found")
MOST_SETTINGS_BYTES = 1 << 20
MOST_ITEMS = 1000
MOST_DOTS = 1000  # in a line
IGNORE = "ignore"
REPOSITORY_MARKS = (".git", ".hg")

Severities = Mapping[str, Severity | None]  # by id; None: left out


class SeverityRule(Struct, frozen=True):
    """Severities of findings, everywhere (pattern None) or of the paths that match. source: file or option."""

    severities: Severities
    source: str
    pattern: PathPattern | None = None


class Exclusion(Struct, frozen=True):
    """What is not verified. source: the settings file, or the option."""

    pattern: PathPattern
    source: str


class VerifySettings(Struct, frozen=True):
    """The settings of a file. Paths lead from the working directory; None and empty: not set."""

    path: str | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    severities: tuple[SeverityRule, ...] = ()
    baseline: str | None = None
    kafka: Release | None = None
    fail_on: str | None = None
    recursive: bool | None = None
    deep: bool | None = None


def find_settings_file(folder: str) -> str | None:
    """Return the settings file of a folder, or of the nearest folder above it; not above the root of a repository.

    A `pyproject.toml` without a table of klogtool does not count.
    """
    while True:
        for name in (OWN_FILE, SHARED_FILE):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name == OWN_FILE or _has_table(path)):
                return path
        above = os.path.dirname(folder)
        if above == folder or any(os.path.lexists(os.path.join(folder, mark)) for mark in REPOSITORY_MARKS):
            return None
        folder = above


def _has_table(path: str) -> bool:
    """Return whether a pyproject.toml has a table of klogtool. One that does not name klogtool is not parsed: an error
    in it is not klogtool's."""
    data = read_whole(path, limit=MOST_SETTINGS_BYTES)
    return b"klogtool" in data and _table_of(_parsed(data, path), path, TABLE) is not None


def read_settings(path: str) -> VerifySettings:
    """Read a settings file. Raises KlogError if it cannot be read, or is wrong."""
    document = _parsed(read_whole(path, limit=MOST_SETTINGS_BYTES), path)
    names = TABLE if os.path.basename(path) == SHARED_FILE else ()
    table = _table_of(document, path, names)
    if table is None:
        raise KlogError("it has no table [tool.klogtool]", path=path)
    return _SettingsReader(path).settings(table)


def _parsed(data: bytes, path: str) -> dict[str, object]:
    # A key of very many parts: tomllib takes the square of their number in memory.
    for number, line in enumerate(data.splitlines(), start=1):
        if line.count(b".") > MOST_DOTS:
            raise KlogError(f"line {number} has more than {MOST_DOTS:,} dots", path=path)
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise KlogError("it is not UTF-8", path=path, position=error.start) from None
    except RecursionError:
        raise KlogError("it is not TOML that klogtool reads: nested too deeply", path=path) from None
    except ValueError as error:
        raise KlogError(f"it is not TOML: {error}", path=path) from None


def _table_of(document: Mapping[str, object], path: str, names: Iterable[str]) -> Mapping[str, object] | None:
    table: Any = document
    for name in names:
        table = table.get(name)
        if table is None:
            return None
        if not isinstance(table, dict):
            raise KlogError(f"'{name}' is not a table", path=path)
    result: Mapping[str, object] = table
    return result


def parse_severity(text: str) -> Severity | None:
    """Return the severity of that name, None for `ignore`. Raises KlogError."""
    if text == IGNORE:
        return None
    if text not in (names := [severity.value for severity in Severity]):
        raise KlogError(f"'{_short(text)}' is none of {', '.join([*names, IGNORE])}{_meant(text, [*names, IGNORE])}")
    return Severity(text)


def kind_of(finding_id: str) -> Kind:
    """Return the kind with this id. Raises KlogError if no finding has it."""
    if finding_id not in KINDS:
        raise KlogError(f"no finding has the id '{_short(finding_id)}'{_meant(finding_id, KINDS)}")
    return KINDS[finding_id]


def make_pattern(text: str, folder: str) -> PathPattern:
    """Return a pattern of paths. Raises KlogError for a text that can be none."""
    if not text.strip("/") or len(text) > MOST_CHARACTERS or "\0" in text:
        raise KlogError(f"'{_short(text)}' is not a pattern of paths")
    return PathPattern(text, folder)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."


def _meant(text: str, known: Iterable[str]) -> str:
    near = near_names(text[:MOST_CHARACTERS], known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def setting_names() -> list[str]:
    """Return the keys of a settings file."""
    return list(_SettingsReader("").readers)


class _SettingsReader:
    """Reads the keys of a table, and knows the file for errors and relative paths."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.path.realpath(os.path.dirname(path) or os.curdir)
        self.readers: dict[str, Callable[[str, Any], Any]] = {
            "paths": self._paths,
            "exclude": self._exclusions,
            "severity": self._severities,
            "per-path-severity": self._severities_by_path,
            "baseline": self._file,
            "kafka": partial(self._read, find_release),
            "fail-on": self._fail_on,
            "recursive": partial(self._typed, bool),
            "deep": partial(self._typed, bool),
        }

    def settings(self, table: Mapping[str, object]) -> VerifySettings:
        """Read all keys."""
        read: dict[str, Any] = {"path": self._path}
        for key, value in table.items():
            if key not in self.readers:
                raise self._wrong(key, f"unknown key{_meant(key, self.readers)}")
            read[key.replace("-", "_")] = self.readers[key](key, value)
        everywhere, by_path = read.pop("severity", ()), read.pop("per_path_severity", ())
        return VerifySettings(**read, severities=(*everywhere, *by_path))

    def _wrong(self, key: str, why: str) -> KlogError:
        return KlogError(f"{_short(key)}: {why}", path=self._path)

    def _typed(self, kind: type, key: str, value: Any) -> Any:
        if type(value) is not kind:
            raise self._wrong(key, f"{_KINDS.get(type(value), 'this')} is not {_KINDS[kind]}")
        return value

    def _texts(self, key: str, value: Any) -> list[str]:
        items: list[Any] = self._typed(list, key, value)
        if len(items) > MOST_ITEMS:
            raise self._wrong(key, f"{len(items):,} items are too many (limit: {MOST_ITEMS:,})")
        return [self._typed(str, f"{key}[{number}]", item) for number, item in enumerate(items)]

    def _paths(self, key: str, value: Any) -> tuple[str, ...]:
        return tuple(self._file(key, text) for text in self._texts(key, value))

    def _file(self, key: str, value: Any) -> str:
        text: str = self._typed(str, key, value)
        if not text or "\0" in text:
            raise self._wrong(key, f"'{text}' is not a path")
        return os.path.join(os.path.dirname(self._path), text)

    def _exclusions(self, key: str, value: Any) -> tuple[Exclusion, ...]:
        return tuple(Exclusion(self._pattern(key, text), self._path) for text in self._texts(key, value))

    def _pattern(self, key: str, text: str) -> PathPattern:
        return self._read(lambda text: make_pattern(text, self._folder), key, text)

    def _severities(self, key: str, value: Any) -> tuple[SeverityRule, ...]:
        return (SeverityRule(self._severity_of_ids(key, value), self._path),)

    def _severity_of_ids(self, key: str, value: Any) -> Severities:
        table: Mapping[str, object] = self._typed(dict, key, value)
        return {
            self._read(kind_of, key, name): self._read(parse_severity, f"{key}.{name}", level)
            for name, level in table.items()
        }

    def _read(self, read: Callable[[str], Found], key: str, value: Any) -> Found:
        """Read a text. Raises KlogError with the file and the key."""
        try:
            return read(self._typed(str, key, value))
        except KlogError as error:
            raise error if error.path else self._wrong(key, error.reason) from None

    def _severities_by_path(self, key: str, value: Any) -> tuple[SeverityRule, ...]:
        table: Mapping[str, object] = self._typed(dict, key, value)
        if len(table) > MOST_ITEMS:
            raise self._wrong(key, f"{len(table):,} patterns are too many (limit: {MOST_ITEMS:,})")
        return tuple(
            SeverityRule(self._severity_of_ids(f"{key}.{text}", level), self._path, self._pattern(key, text))
            for text, level in table.items()
        )

    def _fail_on(self, key: str, value: Any) -> str:
        text: str = self._typed(str, key, value)
        if text not in (Severity.ERROR.value, Severity.WARNING.value):
            raise self._wrong(key, f"'{_short(text)}' is neither error nor warning")
        return text


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


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
