"""Settings of a topic and its broker, from KEY=VALUE. Fields have Kafka's names, with underscores for dots.

Values are used as given, even if a broker would refuse them at its start; only a value of the wrong type is refused
here. A topic's name wins over the broker's name for the same setting. Among a broker's names, milliseconds win over
minutes, and minutes over hours (ServerTopicConfigSynonyms). Defaults are Kafka's, except
transaction.partition.verification.enable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.causes import WrongWord
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import MAX_LONG, parse_java_long
from klogtool.format.text import did_you_mean

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NO_LIMIT_BYTES = 2147483639  # Kafka's default: the longest array of Java
COMPACT, DELETE = "compact", "delete"


class LogConfig(Struct, frozen=True):
    """The settings that a broker uses for one topic. First the fields with Kafka's topic names, then the broker's
    own."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    max_message_bytes: int = (1 << 20) + 12
    max_decompressed_message_bytes: int = NO_LIMIT_BYTES
    index_interval_bytes: int = 4096
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    file_delete_delay_ms: int = MINUTE_MS
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: tuple[str, ...] = (DELETE,)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_after_max_ms: int = HOUR_MS
    remote_storage_enable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False

    remote_log_storage_system_enable: bool = False
    producer_id_expiration_ms: int = DAY_MS
    transaction_max_timeout_ms: int = 15 * MINUTE_MS
    transaction_partition_verification_enable: bool = (
        False  # true in Kafka, which asks a coordinator; there is none here
    )
    message_max_bytes: int = (1 << 20) + 12
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_buffer_size: int = 512 << 10
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_enable: bool = True

    @property
    def compact(self) -> bool:
        """Whether cleanup.policy contains compact."""
        return COMPACT in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether cleanup.policy contains delete."""
        return DELETE in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """How long a segment is written at most (LogConfig.maxSegmentMs)."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


DEFAULTS = LogConfig()


def log_config(settings: Mapping[str, str]) -> LogConfig:
    """Return the config for these settings; names that do not concern logs are ignored (see `check_names`).

    Raises KlogError for a value of the wrong type.
    """
    return LogConfig(**{field: value for field, _, value in _values_of(settings)})


Layer: TypeAlias = Mapping[str, tuple[str, str]]  # by name, a setting and its source


def settle(layers: Iterable[Layer], defaults: LogConfig = DEFAULTS) -> tuple[LogConfig, dict[str, str]]:
    """Merge several layers of settings; the first layer that has a setting wins, and `defaults` come last. Return the
    config, and the source of each value by Kafka's topic name.

    Raises KlogError for a value of the wrong type.
    """
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for field, name, value in _values_of({name: text for name, (text, _) in layer.items()}):
            if field not in values:
                values[field], (_, where) = value, layer[name]
                sources[kafka_name(field)] = where if name == kafka_name(field) else f"{where} ({name})"
    return replace(defaults, **values), sources


def _values_of(settings: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield field, name and value of each setting; if a field has several names, the first one wins."""
    for field, names in _NAMES.items():
        for name, factor in names:
            if name in settings:
                yield field, name, _parse(name, settings[name], field, factor)
                break


def kafka_name(field: str) -> str:
    """Return `retention.ms` for `retention_ms`."""
    return field.replace("_", ".")


def value_text(config: LogConfig, name: str) -> str:
    """Return the value of a setting, by Kafka's name, as Kafka writes it."""
    value = getattr(config, name.replace(".", "_"))
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def fitting(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without those that have a value of the wrong type."""
    return {name: text for name, text in settings.items() if _fits(name, text)}


def _fits(name: str, text: str) -> bool:
    try:
        log_config({name: text})
    except KlogError:
        return False
    return True


def check_names(settings: Mapping[str, str]) -> None:
    """Raises KlogError for a name that is neither a topic's nor used by a log, with the likely intended one."""
    for name in settings:
        if name not in KNOWN_NAMES | OTHER_TOPIC_NAMES:
            raise _unknown(name)


def check_section(pattern: str | None, settings: Mapping[str, str]) -> None:
    """Raises KlogError for a wrong name in a section of a settings file, as `check_names` does for topics (pattern).
    Before the first section (None), only for what is almost a name that a log uses. Other names may be a broker's:
    Kafka has and had no other name so similar to one of these."""
    if pattern is not None:
        check_names(settings)
        return
    for name in settings.keys() - KNOWN_NAMES:
        if did_you_mean(name, KNOWN_NAMES, at_least=MISSPELT):
            raise _unknown(name)


def _unknown(name: str) -> KlogError:
    return KlogError(WrongWord.NO_SETTING(word=name, near=did_you_mean(name, KNOWN_NAMES)))


def _parse(name: str, text: str, field: str, factor: int) -> Any:
    try:
        value = _PARSERS[_TYPES[field]](text.strip())
    except (Corrupt, ValueError):
        raise KlogError(WrongWord.NO_VALUE(setting=name, word=text, type=_TYPES[field].split("[")[0])) from None
    if factor == 1:
        return value
    return value * factor if value >= 0 else -1  # no limit, in any unit (AbstractKafkaConfig)


def _parse_bool(text: str) -> bool:
    """Parse as ConfigDef.parseType: true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in text.split(",")) if text else ()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": parse_java_long,  # a broker checks whether the value fits a Java int
    "float": float,
    "bool": _parse_bool,
    "str": str,
    "tuple[str, ...]": _parse_list,
}
_TYPES: dict[str, str] = LogConfig.__annotations__

# The broker's names for a topic's settings, in their order of priority.
_SYNONYMS = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms log.roll.hours",
    "segment.jitter.ms": "log.roll.jitter.ms log.roll.jitter.hours",
    "segment.index.bytes": "log.index.size.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms log.flush.scheduler.interval.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms log.retention.minutes log.retention.hours",
    "max.message.bytes": "message.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "cleanup.policy": "log.cleanup.policy",
    "preallocate": "log.preallocate",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}
_FACTORS = {"hours": HOUR_MS, "minutes": MINUTE_MS}  # to milliseconds, by the end of a name


def _names_of(field: str) -> tuple[tuple[str, int], ...]:
    name = kafka_name(field)
    # Kafka's own tests use internal.segment.bytes for sizes below the legal minimum: it overrides segment.bytes.
    first = ("internal.segment.bytes",) if field == "segment_bytes" else ()
    names = (*first, name, *_SYNONYMS.get(name, "").split())
    return tuple((name, _FACTORS.get(name.rpartition(".")[2], 1)) for name in names)


_NAMES = {field: _names_of(field) for field in _TYPES}
MISSPELT = 0.9  # similarity (by difflib) to another name from which a name counts as misspelt
KNOWN_NAMES = frozenset(name for names in _NAMES.values() for name, _ in names)
# Settings of topics, current or former, that no log uses.
OTHER_TOPIC_NAMES = frozenset(
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    )
)
# Names that only a broker has: its names for topic settings, and its own settings.
_OF_BROKERS = tuple(_TYPES)[tuple(_TYPES).index("remote_log_storage_system_enable") :]
BROKER_NAMES = frozenset(" ".join(_SYNONYMS.values()).split()) | set(map(kafka_name, _OF_BROKERS))
_CODECS = ("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
_WORDS = frozenset((*_CODECS, "CreateTime", "LogAppendTime", COMPACT, DELETE))


def is_harmless(name: str, text: str) -> bool:
    """Return whether a setting is one that klogtool knows, with a value that says nothing else: a number, true or
    false, or one of Kafka's words. An empty value asks for the name alone."""
    if name not in KNOWN_NAMES | BROKER_NAMES | OTHER_TOPIC_NAMES:
        return False
    if name in ("min.insync.replicas", "unclean.leader.election.enable"):
        return text in ("", "true", "false") or (text.isdecimal() and len(text) <= len(str(MAX_LONG)))
    if not text or name not in KNOWN_NAMES:
        return not text
    field = next(field for field, names in _NAMES.items() if name in dict(names))
    are_words = _TYPES[field] in ("str", "tuple[str, ...]")
    return _WORDS.issuperset(text.split(",")) if are_words else _fits(name, text)


# Settings of a file that a config provider replaces when a broker starts (ConfigTransformer, AbstractConfig): nobody
# here knows the broker's environment, files and vaults.
PROVIDERS = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:[^}]*?:)?[^}]*?\}")  # ConfigTransformer.DEFAULT_PATTERN


def provided_names(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the settings with a value like ${env:NAME} that one of the file's providers replaces."""
    providers = {name.strip() for name in settings.get(PROVIDERS, "").split(",")} - {""}
    if not providers:
        return frozenset()
    return frozenset(name for name, value in settings.items() if providers.intersection(_VARIABLE.findall(value)))
