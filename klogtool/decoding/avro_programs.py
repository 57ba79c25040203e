"""Schemas of Avro as numbers, by which a kernel makes JSON of values (kernels/_avro.pxi).

The kernel makes the same text as `avro_values`, or none: then the value is for `avro_values`, which says why. A schema
with something that only few schemas have (a UUID in bytes, a duration) has no program.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from klogtool.decoding.avro_schemas import PER_SECOND, AvroSchema
from klogtool.decoding.bounds import MOST_OWN_ITEMS, Budget
from klogtool.decoding.decoded import json_text, shown_json
from klogtool.format.serdes import parse_little_float
from klogtool.kernels import native

INT_LIMIT, NO_LIMIT = 1 << 32, 0
MOST_SCALE = 18
SIZE_IN_VALUE = -1
_KINDS = {name: number for number, name in enumerate(native.AVRO_KINDS)}
_LIMITS = {"int": INT_LIMIT, "long": NO_LIMIT}
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
_SHAPES = {"time": 0, "timestamp": 1, "local-timestamp": 2}
_ONLY_IN_REFERENCE = ("uuid", "duration")  # of bytes


class AvroProgram:
    """Makes JSON of values of one schema."""

    def __init__(self, code: array[int], names: bytes) -> None:
        self._texts = native.AvroTexts(code, names, parse_little_float)

    def text(self, data: bytes) -> str | None:
        """Return what `json_text` makes of a value; None if `read_avro` is to say what it is."""
        budget = Budget(len(data), MOST_OWN_ITEMS)
        text = self._texts.text(data, budget.items_left, budget.text_left)
        return None if text is None else shown_json(text)


def build_program(schema: AvroSchema) -> AvroProgram | None:
    """Return the program of a schema; None if its values are not for the kernel."""
    try:
        return _Compiler(schema).program()
    except (_NoProgram, OverflowError, UnicodeEncodeError):
        return None


class _NoProgram(Exception):
    """The kernel does not know such a schema."""


class _Compiler:
    def __init__(self, schema: AvroSchema) -> None:
        self._named, self._code, self._names = schema.named, array("q"), bytearray()
        self._begun: dict[str, int] = {}  # nodes of named types
        # Not calls of one another: schemas may be nested through a thousand files.
        self._waiting: list[tuple[int, Any]] = []
        self._first = schema.schema

    def program(self) -> AvroProgram:
        self._add_node(self._first)
        while self._waiting:
            place, schema = self._waiting.pop()
            self._code[place] = self._add_node(schema)
        return AvroProgram(self._code, bytes(self._names))

    def _add_node(self, schema: Any) -> int:
        """Return where the node of a schema begins. What it refers to waits."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            schema = self._named.get(schema)
        node = len(self._code)
        if isinstance(schema, dict) and schema.get("type") in _NAMED:
            node = self._begun.setdefault(schema["name"], node)
            if node < len(self._code):
                return node
        for number in self._numbers(schema, node):
            self._code.append(number)
        return node

    def _numbers(self, schema: Any, node: int) -> Iterable[int]:
        if isinstance(schema, list):
            return self._referring("union", [[]] * len(schema), schema, node)
        if isinstance(schema, str):
            return _KINDS[schema], _LIMITS.get(schema, 0)
        kind = schema["type"] if isinstance(schema, dict) else None
        if kind in ("record", "error"):
            names = [field["name"] for field in schema["fields"]]
            if len(set(names)) < len(names):
                raise _NoProgram
            texts = [f"{',' if n else '{'}{json_text(name)}:" for n, name in enumerate(names)]
            return self._referring(
                "record", map(self._name, texts), [field["type"] for field in schema["fields"]], node
            )
        if kind == "enum":
            symbols = schema["symbols"]
            places = [number for symbol in symbols for number in self._name(json_text(symbol))]
            return _KINDS["enum"], len(symbols), *places
        if kind in ("array", "map"):
            self._waiting.append((node + 1, schema["items" if kind == "array" else "values"]))
            return _KINDS[kind], 0
        return _simple(schema, kind)

    def _name(self, text: str) -> list[int]:
        data = text.encode()
        self._names += data
        return [len(self._names) - len(data), len(data)]

    def _referring(self, kind: str, before: Iterable[list[int]], schemas: list[Any], node: int) -> list[int]:
        """Return a node of several others, each with some numbers before it."""
        numbers = [_KINDS[kind], len(schemas)]
        for own, schema in zip(before, schemas, strict=True):
            numbers += [*own, 0]
            self._waiting.append((node + len(numbers) - 1, schema))
        return numbers


def _simple(schema: Any, kind: Any) -> tuple[int, ...]:
    """Return the node of a type without others inside it, with or without a logical type."""
    if kind != "fixed" and kind not in _PRIMITIVES:
        raise _NoProgram
    logical, size = schema.get("logicalType"), schema["size"] if kind == "fixed" else SIZE_IN_VALUE
    if kind in ("bytes", "fixed"):
        if logical in _ONLY_IN_REFERENCE:
            raise _NoProgram
        if logical == "decimal":
            scale = schema.get("scale", 0)
            if type(scale) is not int or not 0 <= scale <= MOST_SCALE:
                raise _NoProgram
            return _KINDS["decimal"], scale, size
        return _KINDS[kind], size
    if kind in _LIMITS and isinstance(logical, str):
        shape, _, unit = logical.rpartition("-")
        if logical == "date":
            return _KINDS["date"], _LIMITS[kind]
        if shape in _SHAPES and unit in PER_SECOND:
            return _KINDS["moment"], _LIMITS[kind], PER_SECOND[unit], len(str(PER_SECOND[unit])) - 1, _SHAPES[shape]
    if kind == "boolean" and isinstance(logical, str):
        raise _NoProgram
    return _KINDS[kind], _LIMITS.get(kind, 0)
