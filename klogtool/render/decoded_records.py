"""Keys and values of records as people read them, in the place of those of kafka-dump-log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from klogtool.log.folder import find_partition_dir_name
from klogtool.render.decoder_classes import Decoder, Texts
from klogtool.render.kafka_text import decode_strings

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding


def decoder_of_values(values: Decoding, topic: str | None) -> Decoder:
    """Return a decoder for dump-log's text. A piece that is not decoded is shown as without it."""

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        as_strings = decode_strings(offset, key, value)
        found = values.of_key(key, topic), values.of_value(value, topic)
        key_text, value_text = (
            text if one is None else one.text() for one, text in zip(found, as_strings, strict=True)
        )
        return key_text, value_text

    return Decoder(decode)


def topic_of(path: str) -> str | None:
    """Return the topic of a file by its folder's name; None if that is not a partition dir."""
    name = find_partition_dir_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return name.topic if name else None
