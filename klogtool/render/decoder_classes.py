"""The decoders of kafka-dump-log: those of internal topics, and the classes of org.apache.kafka.tools.api.

With `--value-format`, keys and values are shown as people read them, in the place of those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError
from klogtool.format.internal import decoders
from klogtool.format.internal.decoders import MODULES_OF_TOPICS
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.format.text import java_utf8
from klogtool.log.folder import partition_of
from klogtool.render.decoded_text import decoded_text

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding


PACKAGE = "org.apache.kafka.tools.api."
Texts = tuple[str | None, str | None]


class Decoder(Struct, frozen=True):
    """Decodes key and value to the texts after ` key: ` and ` payload: `; None for a text that is not printed.

    decode: (offset, key, value) -> texts. failed: (offset, message of Kafka's exception) -> texts, for a decoder that
    prints that a record cannot be read; None if Kafka's tool dies on such a record. wants_key: Kafka's tool dies on a
    record without a key.
    """

    decode: Callable[[int, bytes | None, bytes | None], Texts]
    failed: Callable[[int, str], Texts] | None = None
    wants_key: bool = False


def _number(size: int, name: str) -> Callable[[bytes], str]:
    def decode(data: bytes) -> str:
        if len(data) < size:
            raise Corrupt(f"{name} wants {size} bytes, there are {len(data)}", kafka_class="BufferUnderflowException")
        return str(int.from_bytes(data[:size], "big", signed=True))

    return decode


CLASSES: dict[str, Callable[[bytes], str]] = {
    PACKAGE + "StringDecoder": java_utf8,
    PACKAGE + "IntegerDecoder": _number(4, "IntegerDecoder"),
    PACKAGE + "LongDecoder": _number(8, "LongDecoder"),
    # Java prints the array's identity, which differs each time.
    PACKAGE + "DefaultDecoder": lambda data: f"[B@{id(data) & 0xFFFFFFFF:x}",
}


def decoder_of_classes(key_class: str, value_class: str) -> Decoder:
    """Return a decoder by class names. Raises KlogError for a class that Kafka's tool cannot load either."""
    for name in (value_class, key_class):
        if name not in CLASSES:
            raise KlogError(f"failed to load decoder class {name}", kafka_class="ClassNotFoundException")
    of_key, of_value = CLASSES[key_class], CLASSES[value_class]

    def decode(_: int, key: bytes | None, value: bytes | None) -> Texts:
        return (None if key is None else of_key(key)), (None if value is None else of_value(value))

    return Decoder(decode)


def internal_topic_decoder(name: str, *, of_4_4: bool) -> Decoder:
    """Return one of format.internal.decoders, by the name of its function. of_4_4: with the messages of 4.4.0 as
    well."""
    function = getattr(decoders, name)

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        decoded = function(offset, key, value, of_4_4=of_4_4)
        return decoded.key, decoded.value

    if name == "decode_cluster_metadata":
        return Decoder(decode, lambda offset, message: (None, f"Error at {offset}, skipping. {message}"))
    if name == "decode_remote_log_metadata":
        return Decoder(decode, lambda offset, message: (None, f"Error at offset {offset}, skipping. {message}"))
    return Decoder(
        decode, lambda offset, message: (f"Error at offset {offset}, skipping. {message}", None), wants_key=True
    )


def decoder_of_values(values: Decoding, topic: str | None) -> Decoder:
    """Return a decoder for dump-log's text. What is not decoded is shown as without it."""

    def decode(_: int, key: bytes | None, value: bytes | None) -> Texts:
        of_key, of_value = values.of_key(key, topic), values.of_value(value, topic)
        return (
            decoded_text(of_key) if of_key is not None else None if key is None else java_utf8(key),
            decoded_text(of_value) if of_value is not None else None if value is None else java_utf8(value),
        )

    return Decoder(decode)


def internal_topic(path: str) -> str | None:
    """Return the internal topic of a file, by its folder's name; None for any other topic."""
    if os.path.basename(path).endswith(FileKind.KRAFT_SNAPSHOT.value):
        return METADATA_TOPIC  # also for bootstrap.checkpoint, which is in a log dir, not in a partition dir
    topic, _ = partition_of(path)
    return topic if topic in MODULES_OF_TOPICS else None
