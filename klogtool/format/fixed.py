"""Structs of big-endian numbers, declared once: construct reads and builds them, the struct module reads them fast.

construct takes twenty milliseconds to import and tens of microseconds for an entry; so it is made of a declaration
where its error paths or its sizes of single fields are wanted, not before.
"""

from __future__ import annotations

import struct
from functools import cached_property

from klogtool.errors import Corrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from construct import Container, Struct

BYTE, SHORT, INT, UNSIGNED_INT, LONG = "bhlLq"  # Java's, in the letters of construct; l is four bytes to both


def underflow() -> Corrupt:
    """The error of bytes that end inside a field. Kafka's exception for it has no message."""
    return Corrupt("the bytes end inside a field", kafka_class="BufferUnderflowException", kafka_message="null")


class Fixed:
    """A declaration: `Fixed(offset=LONG, length=INT)`.

    names: of its fields, in order. numbers: the struct module's reader.
    """

    def __init__(self, **fields: str) -> None:
        self._fields = fields
        self.names = tuple(fields)
        self.numbers = struct.Struct(">" + "".join(fields.values()))

    @cached_property
    def declared(self) -> Struct:
        """construct's declaration."""
        from construct import FormatField, Struct

        return Struct(*(name / FormatField(">", letter) for name, letter in self._fields.items()))

    @property
    def subcons(self) -> list[Any]:
        """construct's fields, as of its own structs."""
        fields: list[Any] = self.declared.subcons
        return fields

    def sizeof(self) -> int:
        """Bytes."""
        return self.numbers.size

    def parse(self, data: bytes) -> Container:
        """The fields, by name. Raises construct's StreamError where bytes are missing."""
        return self.declared.parse(data)

    def build(self, fields: dict[str, Any]) -> bytes:
        """The bytes; fields that it has not are left alone. Raises construct's errors for what does not fit."""
        built: bytes = self.declared.build(fields)
        return built
