"""What a broker knows of a partition beside its dir: settings, the time, the checkpoints, whether it stopped cleanly.

`Circumstances` is what somebody gave on the command line, for whatever partition; `LoadTerms` is what holds for one:
what was not given is looked up in the log dir that the partition dir lies in, and each value says where it came from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from klogtool.broker.cluster_config import ClusterConfig, layers_of
from klogtool.broker.config import LogConfig, settle, value_text
from klogtool.errors import Corrupt, KlogError
from klogtool.format.names import FileKind, PartitionDirState, TopicPartition
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import ROOT_KINDS, LogDir, knows_topic_ids
from klogtool.log.side_file import find_content

Stop: TypeAlias = Literal["clean", "unclean"]
CLEAN: Stop = "clean"
UNCLEAN: Stop = "unclean"
Long: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # Java's
LOADING_SETTINGS = ("segment.index.bytes", "index.interval.bytes", "producer.id.expiration.ms")
OTHERS_ARE_DEFAULTS = "all other settings: Kafka's defaults"

_STORAGE_EXCEPTION = "KafkaStorageException"  # what an IOException becomes there

Offsets: TypeAlias = dict[TopicPartition, int]


class Circumstances(Struct, frozen=True):
    """What was given. settings: --config; sections: of --config-file, each a pattern for topics (None: for all) and its
    settings. now_ms: the clock, loaded_at_ms: the clock of the loading; what is None was not given.
    """

    now_ms: Long
    loaded_at_ms: Long | None = None
    settings: Mapping[str, str] = field(default_factory=dict, name="config")
    sections: tuple[tuple[str | None, Mapping[str, str]], ...] = field(default=(), name="config_sections")
    recovery_point: Long | None = None
    log_start_offset: Long | None = None
    high_watermark: Long | None = None
    last_stop: Stop | None = None

    def config_for(self, topic: str) -> LogConfig:
        """A topic's config by what was given. Raises KlogError for a value that is not of its setting's type."""
        return self.settled_for(topic, ClusterConfig(None, None))[0]

    def settled_for(self, topic: str, cluster: ClusterConfig) -> tuple[LogConfig, dict[str, str]]:
        """A topic's config by all that is known, and where each setting came from that is not a default of Kafka's.

        Of the file: what is for all, then sections whose pattern fits, then that of its very name. Raises KlogError
        for a given value that is not of its setting's type.
        """
        by_file: dict[str, str] = {}
        for rank in (_for_all, _fits, _named):
            for pattern, settings in self.sections:
                if rank(pattern, topic):
                    by_file |= settings
        return settle(layers_of(topic, self.settings, by_file, cluster))

    def as_arguments(self) -> dict[str, Any]:
        """The same in JSON's types, for a plan that is carried out later."""
        return {
            "now_ms": self.now_ms,
            "loaded_at_ms": self.loaded_at_ms,
            "config": dict(self.settings),
            "config_sections": [[pattern, dict(settings)] for pattern, settings in self.sections],
            "recovery_point": self.recovery_point,
            "log_start_offset": self.log_start_offset,
            "high_watermark": self.high_watermark,
            "last_stop": self.last_stop,
        }


def _for_all(pattern: str | None, _: str) -> bool:
    return pattern is None


def _fits(pattern: str | None, topic: str) -> bool:
    if pattern is None or pattern == topic:
        return False
    return fnmatchcase(topic, pattern)


def _named(pattern: str | None, topic: str) -> bool:
    return pattern == topic


class Told(Struct, frozen=True):
    """Something says that a log once reached up to an offset (exclusive). by: what says so; where: in which file."""

    by: str
    offset: int
    where: str


class LoadTerms(Struct, frozen=True):
    """What holds when one partition is loaded. high_watermark None: the log's end. is_clean: the last stop was.

    notes: where values came from that nobody gave, a line each. sources: where settings came from that are not Kafka's
    defaults, by Kafka's names for the topic. told: how far the log reached, by the log dir's checkpoints. has_marker:
    the clean marker is there, and counts. compaction: what says, beside the log, that its topic is compacted, or None.
    """

    config: LogConfig
    now_ms: int
    loaded_at_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int | None = None
    is_clean: bool = False
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    told: tuple[Told, ...] = ()
    has_marker: bool = False
    compaction: str | None = None

    def setting_notes(self, names: Iterable[str]) -> Iterator[str]:
        """Values that a command goes by beside loading, of the settings of these names, and where they are from."""
        used = [name for name in names if name in self.sources]
        yield from _setting_notes(self.config, self.sources, used)
        is_default = not used and not any(name in self.sources for name in LOADING_SETTINGS)
        yield "settings: Kafka's defaults, because nothing else is known" if is_default else OTHERS_ARE_DEFAULTS


def _setting_notes(config: LogConfig, sources: Mapping[str, str], names: Iterable[str]) -> Iterator[str]:
    yield from (f"{name}: {value_text(config, name)}, {sources[name]}" for name in names if name in sources)


class Checkpoints:
    """What the log dir of a partition says of its partitions; each file is read once. log_dir None: there is none."""

    def __init__(self, log_dir: str | None) -> None:
        self.log_dir = log_dir
        self._cluster: ClusterConfig | None = None
        self._knows_topic_ids: bool | None = None
        self._read: dict[FileKind, tuple[Offsets | None, str]] = {}

    @classmethod
    def beside(cls, path: str) -> Checkpoints:
        """Of the log dir that a partition dir lies in, if it lies in one."""
        above = os.path.dirname(os.path.abspath(path))
        return cls(above if is_log_dir(above) else None)

    @property
    def cluster(self) -> ClusterConfig:
        """What `__cluster_metadata` in the log dir says of settings; read when it is first asked for."""
        if self._cluster is None:
            self._cluster = ClusterConfig.of(self.log_dir)
        return self._cluster

    @property
    def knows_topic_ids(self) -> bool:
        """Whether brokers that gave topics ids have written the log dir; looked up when it is first asked for."""
        if self._knows_topic_ids is None:
            self._knows_topic_ids = self.log_dir is not None and knows_topic_ids(LogDir(self.log_dir))
        return self._knows_topic_ids

    @property
    def has_clean_marker(self) -> bool:
        """Whether the last stop was clean, as far as a broker would believe."""
        return self.log_dir is not None and os.path.exists(os.path.join(self.log_dir, FileKind.CLEAN_SHUTDOWN.value))

    def find(self, kind: FileKind, topic_partition: TopicPartition) -> tuple[int | None, str]:
        """A partition's offset, or None; and where it is from, or why there is none.

        Raises Corrupt (KafkaStorageException) for a checkpoint that costs a broker the log dir as it loads it.
        """
        if self.log_dir is None:
            return None, "outside of a log dir"
        if kind not in self._read:
            self._read[kind] = _read_checkpoint(os.path.join(self.log_dir, kind.value), kind)
        offsets, why = self._read[kind]
        if offsets is None:
            return None, why
        value = offsets.get(topic_partition)
        return value, f"{kind.value} has no line for it" if value is None else f"by {kind.value}"

    def find_line(self, kind: FileKind, topic_partition: TopicPartition) -> int | None:
        """A partition's offset; None also where the checkpoint cannot be read, whatever that costs a broker."""
        try:
            return self.find(kind, topic_partition)[0]
        except KlogError:
            return None


def terms_of(
    path: str, circumstances: Circumstances, *, clean_by_default: bool = True, checkpoints: Checkpoints | None = None
) -> LoadTerms:
    """What holds for the partition dir `path`. clean_by_default: of one that lies in no log dir.

    Raises Corrupt (KafkaStorageException) for a checkpoint that costs a broker the log dir, if it is needed.
    """
    name = find_partition_dir_name(own_name(path))
    topic_partition = TopicPartition(name.topic, name.partition) if name else TopicPartition(own_name(path), 0)
    beside = checkpoints or Checkpoints.beside(path)
    is_clean, stop_note = _last_stop(beside, circumstances, clean_by_default)
    notes = [stop_note]
    found: list[int | None] = []
    for what, kind, value, default in (
        ("recovery point", FileKind.RECOVERY_POINT_CHECKPOINT, circumstances.recovery_point, "0"),
        ("log start offset", FileKind.LOG_START_CHECKPOINT, circumstances.log_start_offset, "0"),
        ("high watermark", FileKind.REPLICATION_CHECKPOINT, circumstances.high_watermark, "the log's end"),
    ):
        offset, why = (value, "as given") if value is not None else beside.find(kind, topic_partition)
        notes.append(f"{what}: {default if offset is None else offset}, {why}")
        found.append(offset)
    recovery_point, log_start_offset, high_watermark = found
    config, sources = circumstances.settled_for(topic_partition.topic, beside.cluster)
    is_held = name is not None and name.state in (PartitionDirState.CURRENT, PartitionDirState.FUTURE)
    return LoadTerms(
        config,
        circumstances.now_ms,
        circumstances.now_ms if circumstances.loaded_at_ms is None else circumstances.loaded_at_ms,
        recovery_point or 0,
        log_start_offset or 0,
        high_watermark,
        is_clean,
        (
            *notes,
            *_setting_notes(config, sources, LOADING_SETTINGS),
            *beside.cluster.notes(topic_partition.topic, path),
        ),
        sources,
        tuple(_told(beside if is_held else Checkpoints(None), topic_partition, circumstances)),
        is_clean and beside.has_clean_marker,
        find_compaction(topic_partition, config, sources, beside),
    )


def _told(beside: Checkpoints, topic_partition: TopicPartition, circumstances: Circumstances) -> Iterator[Told]:
    """How far the checkpoints say that a log went. A recovery point that was given says where to begin, no more."""
    for by, kind, value in (
        ("high watermark", FileKind.REPLICATION_CHECKPOINT, circumstances.high_watermark),
        ("recovery point", FileKind.RECOVERY_POINT_CHECKPOINT, None),
    ):
        if value is not None:
            yield Told(by, value, "as given")
        elif (offset := beside.find_line(kind, topic_partition)) is not None:
            yield Told(by, offset, kind.value)


def find_compaction(
    topic_partition: TopicPartition, config: LogConfig, sources: Mapping[str, str], beside: Checkpoints
) -> str | None:
    """What says, beside the log itself, that offsets may be missing in it since its topic is compacted; None if nothing
    does."""
    if config.compact:
        return f"cleanup.policy has compact, {sources.get('cleanup.policy', 'by default')}"
    if beside.find_line(FileKind.CLEANER_CHECKPOINT, topic_partition) is not None:
        return f"{FileKind.CLEANER_CHECKPOINT.value} has a line for it"
    return None


def is_log_dir(path: str) -> bool:
    """Whether files are in it that say what a broker needs to know of its partitions."""
    return any(os.path.lexists(os.path.join(path, kind.value)) for kind in ROOT_KINDS)


def _last_stop(beside: Checkpoints, circumstances: Circumstances, clean_by_default: bool) -> tuple[bool, str]:
    if circumstances.last_stop is not None:
        return circumstances.last_stop == CLEAN, f"last stop: {circumstances.last_stop}, as given"
    if beside.log_dir is None:
        told = CLEAN if clean_by_default else UNCLEAN
        return clean_by_default, f"last stop: {told}, assumed outside a log dir"
    marker = FileKind.CLEAN_SHUTDOWN.value
    if beside.has_clean_marker:
        return True, f"last stop: clean, {marker} is there"
    return False, f"last stop: unclean, there is no {marker}"


def _read_checkpoint(path: str, kind: FileKind) -> tuple[Offsets | None, str]:
    """A checkpoint of the log dir; one that has a number that is none counts as empty to a broker."""
    try:
        offsets: Offsets | None = find_content(path)
    except Corrupt as error:
        if error.kafka_class == _STORAGE_EXCEPTION and kind is not FileKind.REPLICATION_CHECKPOINT:
            raise
        return None, f"{kind.value} cannot be read ({error.reason})"
    return offsets, f"there is no {kind.value}"
