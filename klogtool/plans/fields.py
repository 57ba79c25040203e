"""Reads fields of JSON that somebody else may have written: each has the expected type, or an error names it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 1 << 63  # limit for numbers; sizes, and times in nanoseconds, are below it


class WrongField(ValueError):
    """A field is missing or has the wrong type. The message says which field, and what it should be."""


class Fields:
    """A JSON object. at: its place in the whole, for errors."""

    def __init__(self, value: Any, at: str = "") -> None:
        if not isinstance(value, dict):
            raise WrongField(f"{at or 'the line'} is not an object")
        self.row: Mapping[str, Any] = value
        self._at = at

    def name_of(self, name: str) -> str:
        """Return the name of a field for errors."""
        return f"{self._at}.{name}" if self._at else name

    def has(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self.row.get(name) is not None

    def text(self, name: str) -> str:
        """Return a string without NUL that can be a path or a name."""
        return self._text(self.row.get(name), self.name_of(name))

    def inside(self, name: str) -> str:
        """Return a path below a folder: relative, without `..`."""
        path = self.text(name)
        if os.path.isabs(path) or os.pardir in path.split(os.sep):
            raise WrongField(f"{self.name_of(name)} leads outside its folder")
        return path

    def absolute(self, name: str) -> str:
        """Return an absolute path."""
        path = self.text(name)
        if not os.path.isabs(path):
            raise WrongField(f"{self.name_of(name)} is not an absolute path")
        return path

    def number(self, name: str, least: int = 0) -> int:
        """Return a whole number."""
        value = self.row.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongField(f"{self.name_of(name)} is not a whole number")
        if not least <= value < MOST:
            raise WrongField(f"{self.name_of(name)} is out of range")
        return value

    def numbers(self, name: str, least: int = 0) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        listed = {str(n): value for n, value in enumerate(self.list(name))}
        return tuple(Fields(listed, self.name_of(name)).number(n, least) for n in listed)

    def words(self, name: str) -> str:
        """Return any string."""
        value = self.row.get(name)
        if not isinstance(value, str):
            raise WrongField(f"{self.name_of(name)} is not a string")
        return value

    def flag(self, name: str) -> bool:
        """Return true or false; false if the field is missing."""
        value = self.row.get(name, False)
        if not isinstance(value, bool):
            raise WrongField(f"{self.name_of(name)} is neither true nor false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, each as `text` returns it."""
        return tuple(self._text(value, f"{self.name_of(name)}[{n}]") for n, value in enumerate(self.list(name)))

    def list(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.row.get(name)
        if not isinstance(value, list):
            raise WrongField(f"{self.name_of(name)} is not a list")
        return value

    def object(self, name: str) -> Fields:
        """Return an object."""
        return Fields(self.row.get(name), self.name_of(name))

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list."""
        for n, value in enumerate(self.list(name)):
            yield Fields(value, f"{self.name_of(name)}[{n}]")

    def items(self, name: str) -> Iterator[tuple[str, Fields | None]]:
        """Yield keys and values of an object of objects; some values may be null."""
        for key, value in self.object(name).row.items():
            at = f"{self.name_of(name)}[{key!r}]"
            yield self._text(key, at), None if value is None else Fields(value, at)

    def _text(self, value: Any, name: str) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise WrongField(
                f"{name} is not a string" if not isinstance(value, str) else f"{name} contains a NUL character"
            )
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            raise WrongField(f"{name} cannot be a path") from None
        return value
