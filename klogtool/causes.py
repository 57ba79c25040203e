"""Why something is so, as a value: a cause, and what its sentence names. `render.words` has the sentences.

Floor 0: imports nothing of klogtool.
"""

from __future__ import annotations

from enum import Enum
from itertools import count, islice
from typing import TypeAlias

Value: TypeAlias = "int | str | Reason | tuple[int, ...] | tuple[str, ...]"
_numbers = count()


def some(number: int) -> tuple[int, ...]:
    """Return values for the members of an enum, of which only the names matter."""
    return tuple(islice(_numbers, number))


class Cause(Enum):
    """Causes of one kind, each with a sentence in render/words.json. `SomeCause.DAMAGED_AT(offset=7)` is a reason."""

    def __call__(self, **values: Value) -> Reason:
        """Return this cause with the values that its sentence names."""
        return Reason(self, values)


class Told(Cause):
    """A sentence that is there already: of an error, or from a file."""

    TEXT = "text"


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
