"""How large and how deep a decoded value may be.

Anybody may have written a value. A few bytes can ask for any number of items: an array of Avro of nulls has no bytes
for each. A byte can ask for much text: a symbol of Avro is as long as its schema says. So both are counted before they
are made, and how much a value may have depends on its size. Nothing asks the clock: a value always has the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from klogtool.errors import Corrupt

MOST_BYTES = 16 << 20
MOST_ITEMS = 1 << 20
MOST_OWN_ITEMS = 1 << 18  # of formats that Python reads item by item
FREE_ITEMS, ITEMS_PER_BYTE = 4096, 8
MOST_TEXT_BYTES = 64 << 20  # when it is shown
FREE_TEXT_BYTES, TEXT_PER_BYTE = 1 << 20, 64
MOST_DEPTH = 100
MOST_BITS = 14_000  # of a number: Python makes no text of more than 4,300 digits


class Budget:
    """How many items, and how much text, a value of some bytes may still have.

    size: None if nobody knows it. most: items, whatever the size.
    """

    def __init__(self, size: int | None, most: int = MOST_ITEMS) -> None:
        self._items = most if size is None else min(most, FREE_ITEMS + ITEMS_PER_BYTE * size)
        self._text = MOST_TEXT_BYTES if size is None else min(MOST_TEXT_BYTES, FREE_TEXT_BYTES + TEXT_PER_BYTE * size)
        self.items_left, self.text_left = self._items, self._text

    def take(self, count: int = 1) -> None:
        """Take some items. Raises Corrupt if there are not so many left."""
        self.items_left -= count
        if self.items_left < 0:
            raise Corrupt(f"too large to decode: more than {self._items:,} items")

    def take_text(self, size: int) -> None:
        """Take some text. Raises Corrupt if there is not so much left."""
        self.text_left -= size
        if self.text_left < 0:
            raise Corrupt(f"too large to decode: more than {self._text:,} characters")


def check_depth(depth: int) -> None:
    """Raise Corrupt for a value that is nested too deeply."""
    if depth >= MOST_DEPTH:
        raise Corrupt(f"nested deeper than {MOST_DEPTH}")


def to_json(value: Any, bytes_form: Callable[[bytes], Any], *, size: int | None) -> Any:
    """Return a value in JSON's types. Raises Corrupt for what has no place there, or is too much for a value of this
    size.

    Bytes become what `bytes_form` makes of them. Numbers that JSON does not have become "NaN", "Infinity" and
    "-Infinity". Keys of objects become text.
    """
    return _to_json(value, 0, Budget(size), bytes_form)


def _to_json(value: Any, depth: int, budget: Budget, bytes_form: Callable[[bytes], Any]) -> Any:
    budget.take()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        budget.take_text(len(value))
        return str(value)
    if isinstance(value, int):
        return _checked(int(value), budget)
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        budget.take_text(len(value))
        return bytes_form(bytes(value))
    check_depth(depth)
    if isinstance(value, list | tuple):
        return [_to_json(item, depth + 1, budget, bytes_form) for item in value]
    if isinstance(value, dict):
        row = {
            _key(key, budget, bytes_form): _to_json(item, depth + 1, budget, bytes_form) for key, item in value.items()
        }
        if len(row) != len(value):
            raise Corrupt("two keys of an object are the same in JSON")
        return row
    raise Corrupt(f"the decoder gave a {type(value).__name__}, which JSON does not have")


def _key(key: Any, budget: Budget, bytes_form: Callable[[bytes], Any]) -> str:
    if isinstance(key, str):
        budget.take_text(len(key))
        return str(key)
    if isinstance(key, bytes):
        budget.take_text(len(key))
        return str(next(iter(bytes_form(key).values())))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return str(_checked(int(key), budget))
    if isinstance(key, float):
        return str(_number(float(key)))
    raise Corrupt(f"an object's key is a {type(key).__name__}, which JSON does not have")


def _checked(number: int, budget: Budget) -> int:
    if (bits := number.bit_length()) > 64:
        budget.take_text(bits)  # its digits are made in the square of their number
    if bits > MOST_BITS:
        raise Corrupt(f"a number of {number.bit_length():,} bits")
    return number


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
