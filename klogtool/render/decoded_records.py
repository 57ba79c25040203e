"""Keys and values of records as people read them, in the place of those of kafka-dump-log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from klogtool.format.internal.decoders import INTERNAL_TOPICS
from klogtool.format.names import FileKind
from klogtool.format.text import java_utf8
from klogtool.log.folder import find_partition_dir_name
from klogtool.render.decoder_classes import Decoder, Texts

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding


def decoder_of_values(values: Decoding, topic: str | None) -> Decoder:
    """Return a decoder for dump-log's text. A piece that is not decoded is shown as without it."""

    def decode(_: int, key: bytes | None, value: bytes | None) -> Texts:
        of_key, of_value = values.of_key(key, topic), values.of_value(value, topic)
        return (
            of_key.text() if of_key is not None else None if key is None else java_utf8(key),
            of_value.text() if of_value is not None else None if value is None else java_utf8(value),
        )

    return Decoder(decode)


def topic_of(path: str) -> str | None:
    """Return the topic of a file by its folder's name; None if that is not a partition dir."""
    name = find_partition_dir_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return name.topic if name else None


def internal_topic(path: str) -> str | None:
    """Return the internal topic of a file, by its folder's name; None for any other topic."""
    topic = topic_of(path)
    if os.path.basename(path).endswith(FileKind.KRAFT_SNAPSHOT.value):
        return "__cluster_metadata"  # also for bootstrap.checkpoint, which is in a log dir, not in a partition dir
    return topic if topic in INTERNAL_TOPICS else None
