"""The classes of --key-decoder-class and --value-decoder-class (org.apache.kafka.tools.api)."""

from __future__ import annotations

from collections.abc import Callable

from construct import Int32sb, Int64sb

from klogtool.errors import Corrupt, KlogError
from klogtool.format.text import java_utf8
from klogtool.render.records import Decoder

PACKAGE = "org.apache.kafka.tools.api."


def _number(declaration: object, name: str) -> Callable[[bytes], str]:
    size: int = declaration.sizeof()  # type: ignore[attr-defined]

    def decode(data: bytes) -> str:
        if len(data) < size:
            raise Corrupt(f"{name} wants {size} bytes, there are {len(data)}", kafka_class="BufferUnderflowException")
        return str(declaration.parse(data[:size]))  # type: ignore[attr-defined]

    return decode


CLASSES: dict[str, Callable[[bytes], str]] = {
    PACKAGE + "StringDecoder": java_utf8,
    PACKAGE + "IntegerDecoder": _number(Int32sb, "IntegerDecoder"),
    PACKAGE + "LongDecoder": _number(Int64sb, "LongDecoder"),
    # Java prints the array's identity, which is another one each time.
    PACKAGE + "DefaultDecoder": lambda data: f"[B@{id(data) & 0xFFFFFFFF:x}",
}


def decoder_of_classes(key_class: str, value_class: str) -> Decoder:
    """A decoder by class names. Raises KlogError for a class that Kafka's tool could not load, either."""
    for name in (value_class, key_class):
        if name not in CLASSES:
            raise KlogError(f"failed to load decoder class {name}", kafka_class="ClassNotFoundException")
    of_key, of_value = CLASSES[key_class], CLASSES[value_class]

    def decode(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        return (None if key is None else of_key(key)), (None if value is None else of_value(value))

    return decode
