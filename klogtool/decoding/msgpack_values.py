"""MessagePack, read with bounds: the counts of arrays and maps are not believed before their items are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from klogtool.decoding.bounds import MOST_OWN_ITEMS, Budget, check_depth, to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.errors import Corrupt
from klogtool.format.serdes import parse_double, parse_float

NIL, UNUSED, FALSE, TRUE = 0xC0, 0xC1, 0xC2, 0xC3
_INTS = {0xCC: (1, False), 0xCD: (2, False), 0xCE: (4, False), 0xCF: (8, False)}
_INTS |= {0xD0: (1, True), 0xD1: (2, True), 0xD2: (4, True), 0xD3: (8, True)}
_SIZED = {0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4), 0xC7: ("ext", 1), 0xC8: ("ext", 2), 0xC9: ("ext", 4)}
_SIZED |= {0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4)}
_SIZED |= {0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4)}
_FIXED_EXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def decode_msgpack(data: bytes, _: str | None) -> Reading:
    """Decode one value that fills all bytes. Text that is not UTF-8 becomes bytes; an extension is its type and
    bytes."""
    reader = _MsgpackReader(data)
    value = reader.value(0)
    if reader.left:
        raise Corrupt(f"{reader.left:,} bytes are left behind the value")
    return Reading(to_json(value, bytes_form, size=len(data)))


class _MsgpackReader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._budget = data, 0, Budget(len(data), MOST_OWN_ITEMS)

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise Corrupt(f"it ends at byte {len(self._data)}, inside a value")
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size), "big", signed=signed)

    def value(self, depth: int) -> Any:
        self._budget.take()
        first = self._number(1)
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._array(first & 0x0F, depth)
        if first < 0xC0:
            return self._text(first & 0x1F)
        return self._other(first, depth)

    def _other(self, first: int, depth: int) -> Any:
        if first in _INTS:
            size, signed = _INTS[first]
            return self._number(size, signed=signed)
        if first in _SIZED:
            kind, size = _SIZED[first][0], self._number(_SIZED[first][1])
            if kind in ("array", "map"):
                return self._array(size, depth) if kind == "array" else self._map(size, depth)
            of: dict[str, Callable[[int], Any]] = {"bin": self._take, "str": self._text, "ext": self._extension}
            return of[kind](size)
        if first in _FIXED_EXT:
            return self._extension(_FIXED_EXT[first])
        if first in (0xCA, 0xCB):
            return parse_float(self._take(4)) if first == 0xCA else parse_double(self._take(8))
        if first == UNUSED:
            raise Corrupt(f"byte {self._at - 1} is 0xc1, which MessagePack never uses")
        return {NIL: None, FALSE: False, TRUE: True}[first]

    def _text(self, size: int) -> str | bytes:
        data = self._take(size)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def _extension(self, size: int) -> dict[str, object]:
        return {"ext": self._number(1, signed=True), "data": self._take(size)}

    def _array(self, count: int, depth: int) -> list[Any]:
        check_depth(depth)
        self._check_count(count)
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[Any, Any]:
        check_depth(depth)
        self._check_count(2 * count)
        row: dict[Any, Any] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if isinstance(key, list | dict):
                raise Corrupt("an object's key is an array, a map or an extension, which JSON does not have")
            if key in row:
                raise Corrupt("a key is twice in a map")
            row[key] = self.value(depth + 1)
        return row

    def _check_count(self, count: int) -> None:
        if count > self.left:
            raise Corrupt(f"{count:,} items in {self.left:,} bytes")
