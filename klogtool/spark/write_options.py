"""The options of `write.format("klog")`, and which columns the rows have.

Settings of a producer and of a topic have Kafka's names. Names are case-insensitive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as types
from msgspec import Struct, field

from klogtool.broker.circumstances import Circumstances, LoadTerms, terms_of
from klogtool.broker.config import log_config
from klogtool.broker.releases import REFERENCE, RELEASES, Release
from klogtool.errors import KlogError, Refused
from klogtool.format.batch import CODEC_NAMES
from klogtool.format.codecs import compress
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.names import METADATA_TOPIC, TOPIC_NAME
from klogtool.format.text import did_you_mean
from klogtool.format.uuids import ZERO_UUID, parse_uuid
from klogtool.log.storage import LOCAL_SCHEMES, Place
from klogtool.spark.causes import OptionCause, WriteCause
from klogtool.spark.reading import METADATA_COLUMNS

BATCH_BYTES = 16_384  # batch.size of a producer
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
SETTINGS = ("segment.bytes", "segment.ms", "segment.index.bytes", "index.interval.bytes")
LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
SPELLED = {
    name.lower(): name
    for name in (
        *("path", "topic", "numPartitions", "startOffset", "topicId", "leaderEpoch", "kafkaRelease"),
        *("compression.type", *LEVELS, "batch.size", "message.timestamp.type", *SETTINGS),
    )
}
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_LOWER = frozenset(name.lower() for name in COLUMNS)


class HowToWrite(Struct, frozen=True):
    """What is written. topic: None if a column says it. partitions: into how many records are dealt by their key; 0:
    a column says the partition. topic_ids: by topic, in Kafka's text form; "" is for all."""

    topic: str | None = None
    partitions: int = 0
    start_offset: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    leader_epoch: int = 0
    release: Release = REFERENCE
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    timestamp_type: str = "CreateTime"
    settings: Mapping[str, str] = field(default_factory=dict)

    def terms(self, path: str, first_offset: int) -> LoadTerms:
        """Return the terms for a new partition dir that begins at an offset."""
        circumstances = Circumstances(now_ms=0, config=self.settings, log_start_offset=first_offset, kafka=self.release)
        return terms_of(path, circumstances)


def parse_write_options(arguments: Mapping[str, str], notes: list[str]) -> tuple[str, HowToWrite]:
    """Return the path, and what is written. notes: gets a line for each option without effect.

    Raises Refused for an unknown option or a wrong value, and for a path that is not on a file system of this machine.
    """
    options = _known({name.lower(): value for name, value in arguments.items()}, notes)
    codec = _one_of(options, "compression.type", CODEC_NAMES, "none")
    topic = options.get("topic")
    if topic is not None:
        check_topic(topic)
    how = HowToWrite(
        topic=topic,
        partitions=_number(options, "numPartitions", 0, 1, MAX_INT),
        start_offset=_number(options, "startOffset", 0, 0, MAX_LONG - 1),
        topic_ids=_topic_ids(options.get("topicid", "")),
        leader_epoch=_number(options, "leaderEpoch", 0, 0, MAX_INT),
        release=next(known for known in RELEASES if known == _one_of(options, "kafkaRelease", RELEASES, REFERENCE)),
        codec=codec,
        level=_level(options, codec),
        batch_bytes=_number(options, "batch.size", BATCH_BYTES, 0, MAX_INT),
        timestamp_type=_one_of(options, "message.timestamp.type", TIMESTAMP_TYPES, "CreateTime"),
        settings=_settings(options),
    )
    return _path(options), how


def _known(options: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """Return the options without those of a client. A producer's settings may be named as Spark's kafka sink has
    them."""
    known: dict[str, str] = {}
    for name, value in options.items():
        own = name.removeprefix("kafka.")
        if own in SPELLED:
            known[own] = value
        elif name.startswith("kafka."):
            notes.append(str(OptionCause.NO_BROKER(name=name)))
        else:
            raise Refused(OptionCause.UNKNOWN(name=name, guess=did_you_mean(name, SPELLED.values())))
    return known


def _path(options: Mapping[str, str]) -> str:
    place = Place(options.get("path", ""))
    if not place.uri:
        raise Refused(WriteCause.NO_PATH())
    if place.scheme not in LOCAL_SCHEMES:
        raise Refused(WriteCause.NO_FILE_SYSTEM(scheme=place.scheme), path=place.shown)
    return place.uri.removeprefix("file://")


def check_topic(topic: str) -> None:
    """Raises Refused for a name that Kafka refuses, and for the cluster's own topic."""
    if not TOPIC_NAME.fullmatch(topic):
        raise Refused(WriteCause.TOPIC_REFUSED(topic=topic))
    if topic == METADATA_TOPIC:
        raise Refused(WriteCause.OF_CLUSTER(topic=topic))


def _topic_ids(text: str) -> dict[str, str]:
    """Parse one id, or a JSON object of topics and their ids."""
    if not text:
        return {}
    if not text.startswith("{"):
        return {"": _checked_id(text)}
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(WriteCause.NO_JSON(text=text[:80])) from None
    if not all(isinstance(value, str) for value in ids.values()):
        raise Refused(WriteCause.TOPIC_IDS())
    return {topic: _checked_id(value) for topic, value in ids.items()}


def _checked_id(text: str) -> str:
    try:
        if parse_uuid(text) != ZERO_UUID:
            return text
    except KlogError:
        pass
    raise Refused(WriteCause.NO_TOPIC_ID(text=text[:80]))


def _level(options: Mapping[str, str], codec: str) -> int | None:
    text = options.get(f"compression.{codec}.level")
    if text is None:
        return None
    try:
        level = int(text)
        compress(codec, b"", magic=2, level=level)
    except KlogError as error:
        raise Refused(WriteCause.LEVEL(codec=codec, error=str(error))) from None
    except ValueError:
        raise Refused(OptionCause.NO_WHOLE_NUMBER(name=f"compression.{codec}.level", text=text[:80])) from None
    return level


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    settings = {name: options[name] for name in SETTINGS if name in options}
    try:
        config = log_config(settings)
    except KlogError as error:
        raise Refused(str(error)) from None
    _check_between("segment.bytes", config.segment_bytes, 1, MAX_INT)
    for name in SETTINGS:
        if getattr(config, name.replace(".", "_")) < 0:
            raise Refused(OptionCause.NEGATIVE(name=name))
    return settings


def _one_of(options: Mapping[str, str], name: str, values: Sequence[str], default: str) -> str:
    value = options.get(name.lower(), default)
    for known in values:
        if value.lower() == known.lower():
            return known
    raise Refused(OptionCause.ONE_OF(name=name, values=tuple(values), value=value[:80]))


def _number(options: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise Refused(OptionCause.NO_WHOLE_NUMBER(name=name, text=text[:80])) from None
    _check_between(name, value, least, most)
    return value


def _check_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Refused(OptionCause.NOT_BETWEEN(name=name, least=least, most=most, value=value))


# Columns.


def check_rows(schema: pa.Schema, how: HowToWrite) -> None:
    """Check the columns of the rows. Raises Refused for one that is unknown, missing, or of a wrong type."""
    names = [name.lower() for name in schema.names]
    for name in schema.names:
        if name not in METADATA_COLUMNS and name.lower() not in _LOWER:
            guess = did_you_mean(name, COLUMNS)
            raise Refused(WriteCause.COLUMN_UNKNOWN(name=name, guess=guess, columns=COLUMNS))
        if names.count(name.lower()) > 1:
            raise Refused(WriteCause.COLUMN_TWICE(name=name))
    if "value" not in names:
        raise Refused(WriteCause.NO_VALUE())
    if "topic" not in names and how.topic is None:
        raise Refused(WriteCause.NO_TOPIC())
    if "partition" not in names and not how.partitions:
        raise Refused(WriteCause.NO_PARTITION())
    if "partition" in names and how.partitions:
        raise Refused(WriteCause.TWO_PARTITIONS())
    for column in schema:
        fits, wanted = _TYPES.get(column.name.lower(), (None, ""))
        if fits is not None and not fits(column.type):
            raise Refused(WriteCause.OTHER_TYPE(name=column.name, type=str(column.type), wanted=wanted))


def _is_headers(kind: pa.DataType) -> bool:
    if types.is_null(kind):
        return True
    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    of = kind.value_type
    named = [of.field(n).name for n in range(of.num_fields)] == ["key", "value"]
    return named and all(map(_one_of_types(*_BYTES), (of.field(n).type for n in range(of.num_fields))))


def _one_of_types(*kinds: str) -> Callable[[pa.DataType], bool]:
    """Return what tells whether a column has one of these types, by their names in pyarrow.types."""

    def fits(kind: pa.DataType) -> bool:
        return any(getattr(types, f"is_{name}")(kind) for name in kinds)

    return fits


_BYTES = ("binary", "large_binary", "string", "large_string", "null")
_WHOLE = _one_of_types("signed_integer"), "whole numbers"


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "topic": (_one_of_types("string", "large_string"), "text"),
    "partition": _WHOLE,
    "offset": _WHOLE,
    "timestamp": (_one_of_types("timestamp", "int64"), "timestamps, or ms as long"),
    "timestamptype": _WHOLE,
    "key": (_one_of_types(*_BYTES), "binary or string"),
    "value": (_one_of_types(*_BYTES), "binary or string"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
}
