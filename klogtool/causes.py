"""Why something is so, as a value: a cause, and what its sentence names. `render/words.json` has the sentences.

A reason crosses the floors as a value. Who needs it as text asks `words`: a face
and an error. A plan's id covers its values, and its JSON is given words where it is printed or saved.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from itertools import count, islice
from typing import TypeAlias

import msgspec

from klogtool.escape import quoted

_numbers = count()
_HOME = "klogtool.render"  # the floor that has the sentences


def some(number: int) -> tuple[int, ...]:
    """Return values for the members of an enum, of which only the names matter."""
    return tuple(islice(_numbers, number))


class Cause(Enum):
    """Causes of one kind, each with a sentence in render/words.json. `SomeCause.DAMAGED_AT(offset=7)` is a reason."""

    def __call__(self, **values: Value) -> Reason:
        """Return this cause with the values that its sentence names."""
        return Reason(self, values)

    def __reduce_ex__(self, protocol: object) -> tuple[object, tuple[type[Cause], str]]:
        """Pickle the name: values of members differ from process to process."""
        return getattr, (type(self), self.name)


class Told(Cause):
    """A sentence that is there already: of an error, or from a file."""

    TEXT = "text"


def from_text(text: str) -> Reason:
    """Return a sentence that is there already, as a reason."""
    return Told.TEXT(text=text)


class Reason:
    """A cause with its values. No struct, so that nobody below render makes JSON of it."""

    __slots__ = ("cause", "values")

    def __init__(self, cause: Cause, values: dict[str, Value]) -> None:
        self.cause, self.values = cause, values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and (self.cause, self.values) == (other.cause, other.values)

    def __hash__(self) -> int:
        return hash((self.cause, *self.values.items()))

    def __repr__(self) -> str:
        return f"{self.cause}({self.values})"

    def __str__(self) -> str:
        """Return its sentence, for whoever prints an answer of the Python API."""
        return words(self)


Text: TypeAlias = str | Reason  # a sentence that is there already, or what it says
Value: TypeAlias = int | str | Reason | tuple[int, ...] | tuple[str, ...] | tuple[Text, ...]


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Return all sentences: by the class of their causes, then by the name of the cause. `{name}` stands for a value of
    the reason."""
    return msgspec.json.decode(pkgutil.get_data(_HOME, "words.json") or b"", type=dict[str, dict[str, str]])


def words(reason: Text) -> str:
    """Return the sentence of a reason."""
    if isinstance(reason, str):
        return reason
    sentence = sentences()[type(reason.cause).__name__][reason.cause.name]
    return sentence.format_map({name: _shown(value) for name, value in reason.values.items()})


class _Listed(tuple[object, ...]):
    """Several values: `{values}` joins reasons by semicolons, others by commas, and `{values:,}` all by commas.
    `{values:or}` puts `or` between them, `{values:word}` makes them words for a shell, and `{values:-e}` has such an
    option before each."""

    __slots__ = ()

    def __format__(self, mark: str) -> str:
        if mark == "word":
            return " ".join(format(_Word(one), mark) for one in self)
        if mark.startswith("-"):
            return " ".join(f"{mark} {_Word(one):word}" for one in self)
        if mark == "or":
            mark = " or"
        mark = mark or (";" if self and isinstance(self[0], Reason) else ",")
        return f"{mark} ".join(words(one) if isinstance(one, Reason) else str(one) for one in self)


class _Word(str):
    """A text: `{path:path}` and `{text:word}` quote it for a shell, as a path or as another word."""

    __slots__ = ()

    def __format__(self, mark: str) -> str:
        if mark == "word" and self.startswith("-"):
            return quoted(self).removeprefix("./")
        if "|" in mark:
            return f"{self} {_counted(mark, is_one=self == '1')}"
        return quoted(self) if mark in ("path", "word") else format(str(self), mark)


class _Number(int):
    """A number: `{files:file is|files are}` counts, and `{files:,file is|files are}` groups the digits, too."""

    __slots__ = ()

    def __format__(self, mark: str) -> str:
        if "|" not in mark:
            return format(int(self), mark)
        return f"{int(self):{',' if mark.startswith(',') else ''}} {_counted(mark, is_one=self == 1)}"


def _counted(mark: str, *, is_one: bool) -> str:
    one, _, many = mark.removeprefix(",").partition("|")
    return one if is_one else many


def _shown(value: object) -> object:
    if isinstance(value, int):
        return _Number(value)
    if isinstance(value, tuple):
        return _Listed(value)
    if isinstance(value, str):
        return _Word(value)
    return words(value) if isinstance(value, Reason) else value


Say: TypeAlias = Callable[[Reason], str]  # gives a reason its sentence: `words`


def named(reason: Reason) -> str:
    """Return the name of a cause, where nobody reads its sentence."""
    return str(reason.cause)


def as_value(reason: Reason) -> dict[str, object]:
    """Return a reason as JSON types, to compare it: its cause and its values, whatever the sentence is."""
    return {"cause": str(reason.cause), **reason.values}
