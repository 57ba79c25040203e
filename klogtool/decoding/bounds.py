"""How large and how deep a decoded value may be.

Anybody may have written a value. A few bytes can ask for any number of items: an array of Avro of nulls has no bytes
for each. So items are counted before they are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from klogtool.errors import Corrupt

MOST_BYTES = 16 << 20
MOST_ITEMS = 1 << 20
MOST_DEPTH = 100
MOST_BITS = 14_000  # of a number: Python makes no text of more than 4,300 digits


class Budget:
    """How many items a value may still have."""

    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def take(self, count: int = 1) -> None:
        """Take some. Raises Corrupt if there are not so many left."""
        self._left -= count
        if self._left < 0:
            raise too_many()


def too_many() -> Corrupt:
    """Return the error of a value with too many items."""
    return Corrupt(f"more than {MOST_ITEMS:,} items")


def check_depth(depth: int) -> None:
    """Raise Corrupt for a value that is nested too deeply."""
    if depth >= MOST_DEPTH:
        raise Corrupt(f"nested deeper than {MOST_DEPTH}")


def to_json(value: Any, bytes_form: Callable[[bytes], Any]) -> Any:
    """Return a value in JSON's types. Raises Corrupt for what has no place there, or is too much.

    Bytes become what `bytes_form` makes of them. Numbers that JSON does not have become "NaN", "Infinity" and
    "-Infinity". Keys of objects become text.
    """
    return _to_json(value, 0, Budget(), bytes_form)


def _to_json(value: Any, depth: int, budget: Budget, bytes_form: Callable[[bytes], Any]) -> Any:
    budget.take()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return _checked(int(value))
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_form(bytes(value))
    check_depth(depth)
    if isinstance(value, list | tuple):
        return [_to_json(item, depth + 1, budget, bytes_form) for item in value]
    if isinstance(value, dict):
        return _object(value, depth, budget, bytes_form)
    raise Corrupt(f"the decoder gave a {type(value).__name__}, which JSON does not have")


def _object(value: dict[Any, Any], depth: int, budget: Budget, bytes_form: Callable[[bytes], Any]) -> dict[str, Any]:
    row = {_key(key, bytes_form): _to_json(item, depth + 1, budget, bytes_form) for key, item in value.items()}
    if len(row) != len(value):
        raise Corrupt("two keys of an object are the same in JSON")
    return row


def _key(key: Any, bytes_form: Callable[[bytes], Any]) -> str:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bytes):
        return str(next(iter(bytes_form(key).values())))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return str(_checked(int(key)))
    if isinstance(key, float):
        return str(_number(float(key)))
    raise Corrupt(f"an object's key is a {type(key).__name__}, which JSON does not have")


def _checked(number: int) -> int:
    if number.bit_length() > MOST_BITS:
        raise Corrupt(f"a number of {number.bit_length():,} bits")
    return number


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
