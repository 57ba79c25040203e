"""Values of Avro, read with bounds.

A count or a length in a value is compared with what is left before anything is made of it. Logical types become what
people read: dates and times by ISO 8601, decimals as text, UUIDs. kernels/_avro.pxi makes the same of most values, as
text: change both.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from klogtool.decoding.avro_programs import AvroProgram, build_program
from klogtool.decoding.avro_schemas import PER_SECOND, AvroSchema, fingerprint_of, parse_avro_schema, require_fastavro
from klogtool.decoding.bounds import MOST_OWN_ITEMS, Budget, check_depth, to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.decoding.framing import SINGLE_OBJECT, SINGLE_OBJECT_SIZE, find_schema
from klogtool.decoding.schemas import AVRO, Schemas
from klogtool.errors import Corrupt
from klogtool.format.serdes import parse_little_double, parse_little_float
from klogtool.format.varint import Overlong, read_groups

INT_BITS, LONG_BITS = 32, 64
MOST_DECIMAL_BYTES = 1000
EPOCH = datetime.datetime(1970, 1, 1)


class AvroDecoder:
    """Decodes values by the schemas of a folder. Each schema is parsed when a value needs it."""

    def __init__(self, schemas: Schemas, *, is_key: bool) -> None:
        require_fastavro()
        self._schemas, self._is_key = schemas.of(AVRO), is_key
        self._parsed: dict[str, AvroSchema | Corrupt] = {}
        self._programs: dict[str, AvroProgram | None] = {}
        self._by_fingerprint: dict[bytes, str] | None = None

    def __call__(self, data: bytes, topic: str | None) -> Reading:
        """Decode a value. Raises Corrupt."""
        file, payload = self._schema_and_payload(data, topic)
        return Reading(read_avro(self._schema(file), payload), file)

    def json_text(self, data: bytes, topic: str | None) -> str | None:
        """Return what `decoded.json_text` makes of the value, without the value: 20 times as fast. None: decode it, it
        may be none. Raises Corrupt."""
        file, payload = self._schema_and_payload(data, topic)
        if file not in self._programs:
            self._programs[file] = build_program(self._schema(file))
        program = self._programs[file]
        return None if program is None else program.text(payload)

    def _schema_and_payload(self, data: bytes, topic: str | None) -> tuple[str, bytes]:
        return self._of_single_object(data) or find_schema(self._schemas, data, topic, is_key=self._is_key)

    def _schema(self, file: str) -> AvroSchema:
        if file not in self._parsed:
            try:
                self._parsed[file] = parse_avro_schema(self._schemas, file)
            except Corrupt as error:
                self._parsed[file] = error
        schema = self._parsed[file]
        if isinstance(schema, Corrupt):
            raise Corrupt(schema.reason)
        return schema

    def _of_single_object(self, data: bytes) -> tuple[str, bytes] | None:
        if data[: len(SINGLE_OBJECT)] != SINGLE_OBJECT or len(data) < SINGLE_OBJECT_SIZE:
            return None
        if self._by_fingerprint is None:
            self._by_fingerprint = {}
            for name in sorted(self._schemas.files, reverse=True):
                with suppress(Corrupt):  # a value that needs it says why
                    self._by_fingerprint[fingerprint_of(self._schemas, name)] = name
        file = self._by_fingerprint.get(data[len(SINGLE_OBJECT) : SINGLE_OBJECT_SIZE])
        return None if file is None else (file, data[SINGLE_OBJECT_SIZE:])


def read_avro(schema: AvroSchema, data: bytes) -> Any:
    """Return the value in JSON's types. Raises Corrupt if the bytes are not one value of the schema."""
    reader = _AvroReader(schema.named, data)
    value = reader.value(schema.schema, 0)
    if reader.left:
        raise Corrupt(f"{reader.left:,} bytes are left behind the value")
    return to_json(value, bytes_form, size=len(data))


class _AvroReader:
    def __init__(self, named: dict[str, object], data: bytes) -> None:
        self._named, self._data, self._at, self._budget = named, data, 0, Budget(len(data), MOST_OWN_ITEMS)
        self._primitives: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": self._boolean,
            "int": lambda: self._varint(INT_BITS),
            "long": lambda: self._varint(LONG_BITS),
            "float": lambda: parse_little_float(self._take(4)),
            "double": lambda: parse_little_double(self._take(8)),
            "bytes": lambda: self._take(self._length()),
            "string": self._text,
        }
        self._complex: dict[str, Callable[[Any, int], Any]] = {
            "record": self._record,
            "error": self._record,
            "array": lambda schema, depth: [
                self.value(schema["items"], depth + 1) for count in self._counts() for _ in range(count)
            ],
            "map": self._map,
            "enum": lambda schema, _: _item_of(schema["symbols"], self._varint(INT_BITS), "symbol"),
            "fixed": lambda schema, _: self._take(schema["size"]),
        }

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def value(self, schema: Any, depth: int) -> Any:
        check_depth(depth)
        self._budget.take()
        if isinstance(schema, list):
            return self.value(_item_of(schema, self._varint(LONG_BITS), "branch"), depth + 1)
        if isinstance(schema, str):
            if schema in self._primitives:
                return self._primitives[schema]()
            if self._named.get(schema) is None:
                raise Corrupt(f"the schema has no type {schema[:100]}")
            return self.value(self._named[schema], depth)
        kind = schema["type"]
        if isinstance(kind, str) and kind in self._complex:
            value = self._complex[kind](schema, depth)
        else:
            value = self.value(kind, depth + 1)
        shown = _logical(schema, value)
        if isinstance(shown, str):
            self._budget.take_text(len(shown))
        return shown

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise Corrupt(f"{size:,} bytes are wanted at byte {self._at}, {self.left:,} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self, bits: int) -> int:
        if self.left and self._data[self._at] < 0x80:  # most numbers have one byte
            self._at += 1
            return (self._data[self._at - 1] >> 1) ^ -(self._data[self._at - 1] & 1)
        start = self._at
        try:
            number = read_groups(self._take, LONG_BITS)
        except Overlong:
            raise Corrupt(f"a number at byte {start} has no end") from None
        if number >= 1 << bits:
            raise Corrupt(f"a number before byte {self._at} has more than {bits} bits")
        return (number >> 1) ^ -(number & 1)

    def _length(self) -> int:
        size = self._varint(LONG_BITS)
        if size < 0:
            raise Corrupt(f"the length before byte {self._at} is {size}")
        return size

    def _boolean(self) -> bool:
        if (byte := self._take(1)[0]) > 1:
            raise Corrupt(f"byte {self._at - 1} is no boolean")
        return byte == 1

    def _text(self) -> str:
        data = self._take(self._length())
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Corrupt(f"the text before byte {self._at} is not UTF-8") from None

    def _record(self, schema: Any, depth: int) -> dict[str, object]:
        return {field["name"]: self.value(field["type"], depth + 1) for field in schema["fields"]}

    def _counts(self) -> Iterator[int]:
        """Yield the number of items of each block."""
        while count := self._varint(LONG_BITS):
            if count < 0:
                count = -count
                self._length()  # the size of the block, for those who skip it
            self._budget.take(count)
            yield count

    def _map(self, schema: Any, depth: int) -> dict[str, object]:
        row: dict[str, object] = {}
        for count in self._counts():
            for _ in range(count):
                key = self._text()
                if key in row:
                    raise Corrupt("a key is twice in a map")
                row[key] = self.value(schema["values"], depth + 1)
        return row


def _item_of(of: list[Any], number: int, what: str) -> Any:
    if not 0 <= number < len(of):
        raise Corrupt(f"{what} {number}, there are {len(of)}")
    return of[number]


# Logical types. What has no such form stays as it is.


def _logical(schema: dict[str, object], value: Any) -> Any:
    name = schema.get("logicalType")
    if not isinstance(name, str):
        return value
    try:
        return _form_of(name, schema, value)
    except (ValueError, OverflowError, ArithmeticError):
        return value


def _form_of(name: str, schema: dict[str, object], value: Any) -> Any:
    if isinstance(value, int):
        return _time_of(name, value)
    if name == "decimal" and isinstance(value, bytes) and len(value) <= MOST_DECIMAL_BYTES:
        unscaled = int.from_bytes(value, "big", signed=True)
        scale = schema.get("scale", 0)
        if not isinstance(scale, int) or not 0 <= scale <= 10 * MOST_DECIMAL_BYTES:
            raise ValueError(scale)
        digits = decimal.Decimal(unscaled).as_tuple()
        return format(decimal.Decimal((digits.sign, digits.digits, -scale)), "f")
    if name == "uuid" and isinstance(value, bytes) and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    if name == "duration" and isinstance(value, bytes) and len(value) == 12:
        parts = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
        return dict(zip(("months", "days", "millis"), parts, strict=True))
    return value


def _time_of(name: str, value: int) -> Any:
    if name == "date":
        return (EPOCH + datetime.timedelta(days=value)).date().isoformat()
    kind, _, unit = name.rpartition("-")
    if unit not in PER_SECOND or kind not in ("time", "timestamp", "local-timestamp"):
        return value
    seconds, rest = divmod(value, PER_SECOND[unit])
    if kind == "time" and not 0 <= seconds < 86_400:
        return value
    moment = (EPOCH + datetime.timedelta(seconds=seconds)).isoformat()
    text = f"{moment}.{rest:0{len(str(PER_SECOND[unit])) - 1}d}"
    if kind == "time":
        return text.partition("T")[2]
    return f"{text}Z" if kind == "timestamp" else text
